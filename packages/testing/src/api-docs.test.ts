import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from '@jest/globals';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';
import { platform, usePlatform } from './platform.fixture.ts';

/** Runs the examples of docs/api.md in their order, and compares their output with that of the document. */

const DOCUMENT = readFileSync(new URL('../../../docs/api.md', import.meta.url), 'utf8');
const EXAMPLE = /(?:^#+ (.*)\n)|```sh\n([\s\S]*?)```(?:\s*```json\n([\s\S]*?)```)?/gm;

let section = '';
const examples = [...DOCUMENT.matchAll(EXAMPLE)].flatMap(([, title, code, output]) => {
  if (title !== undefined) section = title;
  return code === undefined ? [] : [{ section, code, output }];
});
/** Variables of the examples, kept from one to the next. */
const names = [...new Set([...DOCUMENT.matchAll(/^([A-Z]+)=/gm)].map(([, name]) => name!))];

let deadPort: number;
let definitions = '';

usePlatform();
beforeAll(async () => {
  deadPort = await freePort();
});

/** Runs an example in a shell that knows the variables and functions of the earlier ones; returns what it printed. */
async function run(code: string): Promise<unknown[]> {
  const example = code
    .replace(/^API=.*$/m, `API=${platform.url}/v1`)
    .replace(/^KEY=.*$/m, `KEY=${platform.apiKey}`)
    .replaceAll(':4000', `:${deadPort}`);
  const script = `set -eo pipefail\n${definitions}\n${example}\necho ---\ndeclare -f\ndeclare -p ${names.join(' ')} 2>/dev/null || true`;
  const PATH = `${dirname(process.execPath)}:${process.env.PATH}`;
  const { stdout } = await promisify(execFile)('bash', ['-c', script], { env: { PATH } });
  const [printed = '', kept = ''] = stdout.split(/^---$/m);
  const answers = printed
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as unknown);
  for (const answer of answers) expect(answer).not.toHaveProperty('error');
  definitions = kept;
  return answers;
}

/** Compares types: fields by name, the first item of a list; null is like anything. @throws Error */
function looksLike(actual: unknown, shown: unknown, path = 'the output'): void {
  if (actual === null || shown === null) return;
  if (typeof actual !== typeof shown || Array.isArray(actual) !== Array.isArray(shown)) {
    throw new Error(`${path} is ${JSON.stringify(actual)}, not like ${JSON.stringify(shown)}`);
  }
  if (typeof shown !== 'object') return;
  for (const [name, value] of Object.entries(Array.isArray(shown) ? shown.slice(0, 1) : shown)) {
    if (!Object.hasOwn(actual as object, name)) throw new Error(`${path} has no ${name}`);
    looksLike((actual as Record<string, unknown>)[name], value, `${path}.${name}`);
  }
}

test.each(examples)('$section: $code', async ({ code, output }) => {
  const attempt = async () => {
    const answers = await run(code);
    if (output !== undefined) looksLike(answers.at(-1), JSON.parse(output));
  };
  // Runs and deliveries take a moment.
  if (/-X|-d/.test(code)) await attempt();
  else await eventually(attempt, { every: 50, ms: 20_000 });
});

test('the examples show the error of a receiver that is not there', async () => {
  const [answer] = await run('api "/deliveries/$DELIVERY"');
  const { attempt_log: log } = (answer as { data: { attempt_log: { error: string }[] } }).data;
  expect(log[0]!.error).toBe(`connect ECONNREFUSED 127.0.0.1:${deadPort}`);
});
