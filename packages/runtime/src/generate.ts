import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { openApiDocument } from '@wellspring/contract/openapi';
import { configTable } from './config.ts';

/**
 * Writes what is derived from declarations: the OpenAPI document and the configuration table of the README. With
 * `--check` it writes nothing, names what differs and exits with 1.
 */

const ROOT = join(import.meta.dirname, '../../..');
const BEGIN = '<!-- config:start -->';
const END = '<!-- config:end -->';

/** The text with the part between the markers replaced. @throws Error when a marker is missing */
export function replaceBetween(text: string, begin: string, end: string, content: string): string {
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${begin} and ${end} are needed, in this order`);
  return `${text.slice(0, from + begin.length)}\n\n${content}\n\n${text.slice(to)}`;
}

/** The configuration as a Markdown table. */
export function configMarkdown(): string {
  const cell = (text: string) => text.replaceAll('|', '\\|');
  const rows = configTable.map(
    ({ name, fallback, meaning }) => `| \`${name}\` | ${cell(fallback)} | ${cell(meaning)} |`,
  );
  return ['| Name | Default | Meaning |', '|---|---|---|', ...rows].join('\n');
}

/** Path of each generated file, and its content given the present one. */
const GENERATED: [path: string, make: (present: string) => string][] = [
  ['packages/contract/golden/openapi.json', () => `${JSON.stringify(openApiDocument(), null, 2)}\n`],
  ['README.md', (present) => replaceBetween(present, BEGIN, END, configMarkdown())],
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
