import { expect } from '@jest/globals';
import { type RequestOptions, type Response, send } from './http.ts';
import { endpointOf, platform, post, usePlatform } from './platform.fixture.ts';
import { API_KEY } from './platform.ts';

/** The API of a whole platform as bytes on the wire: paths, envelopes and fields as a client sees them. */

export { platform, usePlatform };

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
export const hit = (source: { configured_props: object }, body: object): Promise<Response> =>
  post(endpointOf(source), body);

export const SECONDS = expect.any(Number);
export const TEXT = expect.any(String);
/** An id of this kind. */
export const idOf = (prefix: string) => expect.stringMatching(new RegExp(`^${prefix}_[0-9A-Za-z]{10}$`));
/** That of a run, with random characters behind. */
export const RUN_ID = expect.stringMatching(/^run_[0-9A-Za-z]{18}$/);

/** Epoch seconds of about now. */
export function expectNow(...values: number[]): void {
  for (const value of values) {
    expect(Number.isInteger(value)).toBe(true);
    expect(Math.abs(value - Date.now() / 1000)).toBeLessThan(60);
  }
}
