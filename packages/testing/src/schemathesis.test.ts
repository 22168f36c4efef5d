import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { dataDir, platform, usePlatform } from './platform.fixture.ts';
import { pythonWith } from './servers/cached.ts';

/**
 * Schemathesis sends generated requests, valid and invalid, to every operation of both OpenAPI documents, and checks
 * the answers: status, headers and body are documented, invalid input is refused, nothing is a 5xx.
 */

const SCHEMATHESIS = ['schemathesis==4.32.5'];
const CONFIG = join(import.meta.dirname, 'schemathesis.toml');
/** Generated requests per operation: about two minutes in all. */
const MAX_EXAMPLES = 20;
const TIMEOUT_MS = 900_000;

/** Without Python, the tests are skipped, or fail if CI is set. */
const python = await pythonWith('schemathesis', SCHEMATHESIS).catch((error: unknown) => {
  if (process.env.CI) throw error;
  process.stderr.write(`Schemathesis could not be installed, its tests are skipped: ${String(error)}\n`);
  return undefined;
});
const withPython = python === undefined ? test.skip : test;

usePlatform();

/** Runs it on a document. @returns its output, and its exit code */
function check(url: string, key: string): Promise<{ code: unknown; output: string }> {
  const args = [
    ...['-m', 'schemathesis.cli', '--config-file', CONFIG, 'run', url, '--checks', 'all', '--no-color'],
    ...['--header', `Authorization: Bearer ${key}`, '--request-timeout', '60'],
    // The same requests in each run, as far as answers are equal.
    ...['--seed', '1', '--max-examples', String(MAX_EXAMPLES), '--generation-database', 'none'],
  ];
  return new Promise((resolve) => {
    execFile(python!, args, { cwd: dataDir, maxBuffer: 64 * 1024 * 1024 }, (error, output, errors) =>
      resolve({ code: error?.code ?? 0, output: `${output}${errors}` }),
    );
  });
}

/** Hundreds of requests were sent, and no check failed. */
function expectPassed({ code, output }: { code: unknown; output: string }): void {
  expect(output.includes('FAILURES') ? output : '').toBe('');
  expect({ code, output }).toMatchObject({
    code: 0,
    output: expect.stringMatching(/\d{3,} generated, \d{3,} passed/),
  });
}

withPython(
  'generated requests to the public API get the documented answers',
  async () => {
    expectPassed(await check(`${platform.url}/v1/openapi.json`, platform.apiKey));
  },
  TIMEOUT_MS,
);

withPython(
  'generated requests to the operator API get the documented answers',
  async () => {
    const url = `${platform.adminUrl}/admin/v1/openapi.json`;
    expectPassed(await check(url, platform.adminKey));
  },
  TIMEOUT_MS,
);
