/** Of a formatted file: the title of a test or group, and how far its statement is indented. */
interface Statement {
  indent: number;
  isGroup: boolean;
  title: string;
}

const STATEMENT = /^( *)(test|describe)(?:\.\w+)*[(<]/;
/** The text that begins the last call of `test(…)`, `test.skipIf(…)(…)` or `test.each(…)(…)`. */
const TITLE = /(?:^ *(?:test|describe)|\))\(\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`([^`]*)`)/;

/** Title of the statement that begins in this line. A table between `.each(` and the title may span many lines. */
function titleOf(lines: readonly string[], index: number, indent: number): string | undefined {
  const first = `${lines[index]}\n${lines[index + 1] ?? ''}`;
  const closing = lines.findIndex(
    (line, at) => at > index && line.search(/\S/) === indent && /^ *[\])}>]/.test(line),
  );
  const last = closing < 0 ? '' : `${lines[closing]}\n${lines[closing + 1] ?? ''}`;
  const found = TITLE.exec(first) ?? TITLE.exec(last);
  return found ? (found[1] ?? found[2] ?? found[3])?.replaceAll(/\\(.)/g, '$1') : undefined;
}

/** Full titles of the tests of a formatted file: groups and test, joined by ` › `. */
export function testTitles(source: string): string[] {
  const lines = source.split('\n');
  const titles: string[] = [];
  let groups: Statement[] = [];
  for (const [index, line] of lines.entries()) {
    const found = STATEMENT.exec(line);
    if (!found) continue;
    const indent = found[1]!.length;
    const title = titleOf(lines, index, indent);
    if (title === undefined) continue;
    groups = groups.filter((group) => group.indent < indent);
    if (found[2] === 'describe') groups.push({ indent, isGroup: true, title });
    else titles.push([...groups.map((group) => group.title), title].join(' › '));
  }
  return titles;
}
