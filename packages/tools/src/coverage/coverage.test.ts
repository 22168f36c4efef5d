import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { checkComplete, coverageMarkdown, coverageSections } from './markdown.ts';
import { testTitles } from './titles.fixture.ts';

const ROOT = join(import.meta.dirname, '../../../..');

test('every endpoint, parameter, field and limit of the contract has a row', () => {
  expect(checkComplete).not.toThrow();
});

test('every row names tests, which exist under exactly these titles', () => {
  const rules = coverageSections().flatMap((section) => section.rules);
  expect(rules.length).toBeGreaterThan(400);
  expect(rules.filter(({ shownBy }) => shownBy.length === 0)).toEqual([]);
  const titles = new Map<string, string[]>();
  const titlesOf = (file: string) => {
    const path = join(ROOT, file);
    if (!titles.has(file)) titles.set(file, existsSync(path) ? testTitles(readFileSync(path, 'utf8')) : []);
    return titles.get(file)!;
  };
  const missing = rules
    .flatMap(({ shownBy }) => shownBy)
    .filter(({ file, title }) => !titlesOf(file).includes(title));
  expect(missing).toEqual([]);
});

test('no two rows of a section state the same rule', () => {
  for (const { title, rules } of coverageSections()) {
    expect([title, new Set(rules.map(({ rule }) => rule)).size]).toEqual([title, rules.length]);
  }
});

test('each row is one line of three cells', () => {
  const rows = coverageMarkdown()
    .split('\n')
    .filter((line) => line.startsWith('|'));
  for (const row of rows) expect(row.split(/(?<!\\)\|/)).toHaveLength(4);
});

test('titles are read from groups, tables and texts of any form', () => {
  const source = [
    "describe('a group', () => {",
    "  test('is a test', () => {});",
    '  test.each([',
    '    [1, 2],',
    "  ])('of %s', () => {});",
    '  test.each(rows.map((row) => [row.id]))(',
    "    'of another %s',",
    '    () => {},',
    '  );',
    "  describe.each(['a', 'b'])('in %s', () => {",
    "    test('is deeper', () => {});",
    '  });',
    '  test("isn\'t quoted", () => {});',
    '});',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a title
    'test.skipIf(!available)(`with ${what}`, () => {});',
    "// test('in a comment', () => {});",
  ].join('\n');
  expect(testTitles(source)).toEqual([
    'a group › is a test',
    'a group › of %s',
    'a group › of another %s',
    'a group › in %s › is deeper',
    "a group › isn't quoted",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a title
    'with ${what}',
  ]);
});
