/**
 * Removes stack frames of the platform, which do not help the author, from a text. What follows a frame in its line, such
 * as the brace before the fields of an error, stays. Takes linear time: texts may have megabytes.
 * @param directory that of the programs, with a slash at its end
 */
export function removesOwnFrames(directory: string): (text: string) => string {
  const programs = `(?:file://)?${RegExp.escape(directory)}(?:child\\.mjs|network\\.cjs)`;
  const frame = new RegExp(
    `\\n[ \\t]+at(?= )[^\\n]*?[ (](?:${programs}|node:internal/process/\\w+):\\d+:\\d+\\)?(?=[\\n ]|,\\n|$)`,
    'g',
  );
  return (text) =>
    text.includes(directory) || text.includes('node:internal/process/') ? text.replace(frame, '') : text;
}
