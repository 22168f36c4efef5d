import { afterAll, beforeAll, expect } from '@jest/globals';
import { type RequestOptions, type Response, send } from './http.ts';
import { API_KEY, type Platform, startPlatform } from './platform.ts';
import { type TempDir, tempDir } from './temp-dir.ts';

/** A whole platform, and its API as bytes on the wire: paths, envelopes and fields as a client sees them. */

export let platform: Platform;
let dir: TempDir;

/** Starts it before the tests of the file. */
export function usePlatform(): void {
  beforeAll(async () => {
    dir = await tempDir();
    platform = await startPlatform({ dataDir: dir.path });
  });
  afterAll(async () => {
    await platform?.end('SIGKILL');
    await dir?.remove();
  });
}

const portOf = (url: string) => Number(new URL(url).port);

/** Calls the API; `path` is below `/v1`. */
export const api = (method: string, path: string, body?: object, key = API_KEY): Promise<Response> =>
  call(method, `/v1${path}`, { body, headers: { authorization: `Bearer ${key}` } });

/** Calls anything on the public listener. */
export const call = (method: string, path: string, options: RequestOptions = {}): Promise<Response> =>
  send(portOf(platform.url), method, path, options);

/** Calls the operator API; `path` is below `/admin/v1`. */
export const admin = (method: string, path: string, body?: object): Promise<Response> =>
  send(portOf(platform.adminUrl), method, `/admin/v1${path}`, {
    body,
    headers: { authorization: `Bearer ${platform.adminKey}` },
  });

/** Calls the endpoint of a source. */
export const hit = (source: { configured_props: { http: { endpoint_url: string } } }, body: object) =>
  send(portOf(platform.url), 'POST', new URL(source.configured_props.http.endpoint_url).pathname, { body });

export const SECONDS = expect.any(Number);
export const TEXT = expect.any(String);
/** An id of this kind. */
export const idOf = (prefix: string) => expect.stringMatching(new RegExp(`^${prefix}_[0-9A-Za-z]{10}$`));

/** Epoch seconds of about now. */
export function expectNow(...values: number[]): void {
  for (const value of values) {
    expect(Number.isInteger(value)).toBe(true);
    expect(Math.abs(value - Date.now() / 1000)).toBeLessThan(60);
  }
}
