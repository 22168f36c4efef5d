import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { configTable } from '@wellspring/runtime/config';
import { ATTACKS } from '@wellspring/sandbox/attacks/rows';
import { attacksMarkdown, configMarkdown, replaceBetween } from './generate.ts';

test('only the text between the markers is replaced, and a second run changes nothing', () => {
  const text = 'before <!-- a -->old\nold<!-- b --> after';
  const once = replaceBetween(text, '<!-- a -->', '<!-- b -->', 'new');
  expect(once).toBe('before <!-- a -->\n\nnew\n\n<!-- b --> after');
  expect(replaceBetween(once, '<!-- a -->', '<!-- b -->', 'new')).toBe(once);
});

test('a missing or misplaced marker is an error, not a lost text', () => {
  for (const text of ['', '<!-- a -->', '<!-- b --><!-- a -->']) {
    expect(() => replaceBetween(text, '<!-- a -->', '<!-- b -->', 'new')).toThrow('in this order');
  }
});

test('the table has a row of three cells for every variable', () => {
  const rows = configMarkdown().split('\n');
  expect(rows).toHaveLength(configTable.length + 2);
  expect(configTable.length).toBeGreaterThan(20);
  for (const row of rows) expect(row.split(/(?<!\\)\|/)).toHaveLength(5);
});

test('every row of the attack table names tests that exist', () => {
  expect(ATTACKS.length).toBeGreaterThan(30);
  expect(attacksMarkdown().split('\n')).toHaveLength(ATTACKS.length + 2);
  for (const { id, shownBy } of ATTACKS) {
    expect(shownBy.length).toBeGreaterThan(0);
    const missing = shownBy.filter((path) => !existsSync(join(import.meta.dirname, '../../..', path)));
    expect({ id, missing }).toEqual({ id, missing: [] });
  }
});
