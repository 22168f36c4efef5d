import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';

/** Words that the glossary replaces, with their replacement. */
const DIALECT: [pattern: RegExp, replacement: string][] = [
  [/(\/\*\*|\/\/) What /, 'a noun: "Result of a run", not "What a run gives"'],
  [/\bwhatever\b/i, 'any'],
  [/\bwhile there (is|are) (no|none)\b/i, 'without'],
  [/\bwhoever\b/i, 'name the subject'],
  [/\blanes?\b/i, 'ordering key or source state'],
  [/\b(comes|come|came) again\b|x-again|\bannounceAgain\b/i, 'redelivered'],
  [/announcer?\b|announces?\b|announced\b/i, 'publish, outbox relay'],
  [
    /\b(MOST|LOOK|KEPT|REST)_[A-Z]|\b(LONGEST|DEEPEST|PATIENCE)(_|\b)/,
    'MAX_…, PAUSE_MS, …_INTERVAL_MS or …_TIMEOUT_MS',
  ],
  [/\bparked\b/i, 'due'],
  [
    /\b(KEPT|AHEAD|HERE|TOGETHER_MS|AGAIN_MS)\b/,
    'CACHE_SIZE, PIPELINE_DEPTH, BATCH_DELAY_MS, RETRY_DELAY_MS',
  ],
  [/\bKeptChannel\b|\bgoodbye\b/, 'RecoveringChannel, closeGracefully'],
  [/\bon trial\b|\bwaiting lines?\b|\bpatience\b/i, 'on probation, queue, timeout'],
  [/\bmailbox(es)?\b/i, 'reply address'],
  [/\binbox(es)?\b/i, 'overflow'],
  [/\bverdictOn\b/, 'classifyFailure'],
  [/\bkeepers?\b|\broads?\b|\.kit\b|\bdoors?\b/i, 'server daemon, pipeline, fixture, sole importer'],
  [/(?<!Math\.)\bfloors?\b/i, 'layer'],
  [/(?<!there )\b(is|are) none\b|\bcannot be had\b|\bto be had\b/i, 'say what is missing or malformed'],
];

const ROOT = join(import.meta.dirname, '../../..');
const files = globSync(
  [
    '{packages,services}/*/{src,native}/**/*.{ts,mjs,mts,c}',
    '{packages,services}/*/README.md',
    'bench/**/*.{ts,mjs}',
    'examples/**/*',
    'deploy/**/*.{yml,yaml,json}',
    'docs/**/*.md',
    '*.md',
    '.ci/run',
  ],
  { cwd: ROOT, exclude: (path) => path.includes('node_modules') },
).filter((path) => /\.\w+$|\/run$/.test(path) && !path.includes('node_modules'));

/** `line: word (use …)` for each word of the dialect. */
function findDialect(text: string): string[] {
  return text.split('\n').flatMap((line, index) =>
    DIALECT.flatMap(([pattern, replacement]) => {
      const found = pattern.exec(line)?.[0];
      return found ? [`${index + 1}: ${found} (use: ${replacement})`] : [];
    }),
  );
}

describe('findDialect', () => {
  test.each([
    'whoever',
    '/** What a run gives. */',
    'whatever it is',
    'while there is none',
    'the lane of a source',
    'MOST_RUNS',
    'LONGEST_WAIT_MS',
    'an announced run',
    'the one door',
    'is none',
  ])('reports "%s"', (text) => {
    expect(findDialect(text)).toHaveLength(1);
  });
  test.each(['Math.floor(x)', 'MAX_RUNS', 'start again', 'an ordering key', 'the planet'])(
    'accepts "%s"',
    (text) => {
      expect(findDialect(text)).toEqual([]);
    },
  );
});

test('all files use the words of docs/glossary.md', () => {
  expect(files.length).toBeGreaterThan(500);
  const violations = files
    .filter((path) => !path.endsWith('dialect.test.ts'))
    .flatMap((path) => findDialect(readFileSync(join(ROOT, path), 'utf8')).map((hit) => `${path}:${hit}`));
  expect(violations).toEqual([]);
});
