import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { openApiDocument } from '@wellspring/contract/openapi';
import { LOG_EVENTS } from '@wellspring/core/log-events';
import { PROBLEM_CODES } from '@wellspring/core/problem-codes';
import { configTable } from '@wellspring/runtime/config';
import { ATTACKS } from '@wellspring/sandbox/attacks/rows';
import { coverageMarkdown } from './coverage/markdown.ts';

/**
 * Generates the OpenAPI documents, the configuration table of the README, the attack table of docs/security.md, the
 * tables of docs/errors.md and of docs/coverage.md. With `--check` it writes nothing, names outdated files and exits with 1.
 */

const ROOT = join(import.meta.dirname, '../../..');
const CONFIG = ['<!-- config:start -->', '<!-- config:end -->'] as const;
const ATTACK_TABLE = ['<!-- attacks:start -->', '<!-- attacks:end -->'] as const;
const PROBLEM_TABLE = ['<!-- codes:start -->', '<!-- codes:end -->'] as const;
const EVENT_TABLE = ['<!-- events:start -->', '<!-- events:end -->'] as const;
const COVERAGE_TABLES = ['<!-- coverage:start -->', '<!-- coverage:end -->'] as const;
const TIERS = ['bubblewrap', 'launcher', 'none'] as const;

/** The text with the part between the markers replaced. @throws Error when a marker is missing */
export function replaceBetween(text: string, begin: string, end: string, content: string): string {
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${begin} and ${end} are needed, in this order`);
  return `${text.slice(0, from + begin.length)}\n\n${content}\n\n${text.slice(to)}`;
}

const cell = (text: string) => text.replaceAll('|', '\\|');

/** The configuration as a Markdown table. */
export function configMarkdown(): string {
  const rows = configTable.map(
    ({ name, fallback, meaning }) => `| \`${name}\` | ${cell(fallback)} | ${cell(meaning)} |`,
  );
  return ['| Name | Default | Meaning |', '|---|---|---|', ...rows].join('\n');
}

/** The attack suite as a Markdown table. */
export function attacksMarkdown(): string {
  const rows = ATTACKS.map(({ id, attempt, expected, tiers, shownBy }) => {
    const claims = TIERS.map((tier) => (tiers.includes(tier) ? 'contained' : ''));
    const tests = shownBy.map((path) => `[${path.slice(path.lastIndexOf('/') + 1)}](../${path})`);
    return `| ${[id, cell(attempt), cell(expected), ...claims, tests.join(', ')].join(' | ')} |`;
  });
  return [
    `| # | Attempt | Outcome | ${TIERS.map((tier) => `\`${tier}\``).join(' | ')} | Test |`,
    `|${'---|'.repeat(TIERS.length + 4)}`,
    ...rows,
  ].join('\n');
}

const documentText = (listener: 'public' | 'operator'): string =>
  `${JSON.stringify(openApiDocument(listener), null, 2)}\n`;

const meaningsMarkdown = (heading: string, meanings: Record<string, string>): string =>
  [
    `| ${heading} | Meaning |`,
    '|---|---|',
    ...Object.entries(meanings).map(([name, meaning]) => `| \`${name}\` | ${cell(meaning)} |`),
  ].join('\n');

/** Path of each generated file, and a function from its present to its new content. */
const GENERATED: [path: string, make: (present: string) => string][] = [
  ['packages/contract/golden/openapi.json', () => documentText('public')],
  ['packages/contract/golden/operator-openapi.json', () => documentText('operator')],
  ['README.md', (present) => replaceBetween(present, ...CONFIG, configMarkdown())],
  ['docs/security.md', (present) => replaceBetween(present, ...ATTACK_TABLE, attacksMarkdown())],
  ['docs/coverage.md', (present) => replaceBetween(present, ...COVERAGE_TABLES, coverageMarkdown())],
  [
    'docs/errors.md',
    (present) =>
      replaceBetween(
        replaceBetween(present, ...PROBLEM_TABLE, meaningsMarkdown('Code', PROBLEM_CODES)),
        ...EVENT_TABLE,
        meaningsMarkdown('Event', LOG_EVENTS),
      ),
  ],
];

function attempt<T>(path: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    throw new Error(`${path}: ${(error as Error).message}`);
  }
}

async function generate(check: boolean): Promise<void> {
  for (const [path, make] of GENERATED) {
    const file = join(ROOT, path);
    const present = await readFile(file, 'utf8').catch(() => '');
    const made = attempt(path, () => make(present));
    if (made === present) continue;
    if (check) {
      console.error(`${relative(ROOT, file)} is out of date: run \`pnpm generate\``);
      process.exitCode = 1;
    } else {
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, made);
      console.log(`wrote ${relative(ROOT, file)}`);
    }
  }
}

if (import.meta.main) await generate(process.argv.includes('--check'));
