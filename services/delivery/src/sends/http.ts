import { MAX_HOPS } from '@wellspring/contract/messages';
import { basic, type Post, type Request } from '../post.ts';
import { AGENT } from '../request.ts';
import { bytesOf, objectOf, SendError, type SendOne, textOf } from './arguments.ts';

const CALL = '$.send.http';
/** Set by the client; often copied from a request that came in. */
const DROPPED =
  /^(host|content-length|connection|keep-alive|transfer-encoding|upgrade|expect|te|trailer|proxy-.*)$/;

/** `{url, method?, headers?, params?, data? or body?, auth?: {username, password}}`, as axios takes it. */
export function createHttpSend(post: Post, checkUrl: (url: string) => void): SendOne {
  return async (given, { owner_id, hop, ended }) => {
    const request = httpRequest(given);
    if (hop > MAX_HOPS) {
      throw new SendError(
        `${CALL} was refused: ${MAX_HOPS} sources or workflows in a row were run by each other's requests or events.`,
      );
    }
    // Bounds loops through endpoints, as that of a delivery does.
    request.headers['x-wellspring-hop-count'] = String(hop);
    try {
      checkUrl(request.url);
    } catch (error) {
      throw new SendError(`${CALL} was refused: ${(error as Error).message}`);
    }
    const { status, error } = await post({ ...request, owner: owner_id }, ended);
    if (status !== null && status >= 200 && status < 300) return;
    // Path and query may hold secrets.
    const what = `${request.method} to ${new URL(request.url).host}`;
    throw new SendError(`${CALL} failed: ${what}: ${error ?? `status ${status}`}.`);
  };
}

/** The request of a call. @throws SendError */
function httpRequest(given: Record<string, unknown>): Omit<Request, 'owner'> {
  const address = textOf(given, CALL, 'url');
  if (address === undefined || !URL.canParse(address)) throw new SendError(`${CALL} needs a valid url.`);
  const url = new URL(address);
  for (const [name, value] of Object.entries(objectOf(given, CALL, 'params'))) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one === null || one === undefined) continue;
      url.searchParams.append(name, typeof one === 'object' ? JSON.stringify(one) : String(one));
    }
  }
  const headers: Record<string, string | string[]> = { 'user-agent': AGENT };
  for (const [name, value] of Object.entries(objectOf(given, CALL, 'headers'))) {
    if (value === null || value === undefined || DROPPED.test(name.toLowerCase())) continue;
    headers[name.toLowerCase()] = Array.isArray(value) ? value.map(String) : String(value);
  }
  const auth = objectOf(given, CALL, 'auth');
  if (given.auth) {
    const encoded = [auth.username, auth.password].map((one) =>
      encodeURIComponent(String(one ?? '').toWellFormed()),
    );
    headers.authorization = basic(encoded[0]!, encoded[1]!);
  }
  const data = given.data ?? given.body;
  const { body, type } = bodyOf(data, String(headers['content-type'] ?? ''));
  if (type !== undefined) headers['content-type'] ??= type;
  const method = (textOf(given, CALL, 'method') ?? (body === null ? 'GET' : 'POST')).toUpperCase();
  if (!/^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)$/.test(method)) {
    throw new SendError(`${CALL} has no method ${method.slice(0, 20)}.`);
  }
  return { method, url: url.href, headers, body };
}

function bodyOf(data: unknown, contentType: string): Pick<Request, 'body'> & { type?: string } {
  if (data === undefined || data === null) return { body: null };
  const bytes = bytesOf(data);
  if (bytes) return { body: bytes, type: 'application/octet-stream' };
  if (typeof data === 'string') return { body: data, type: 'text/plain; charset=utf-8' };
  if (typeof data === 'object' && /^application\/x-www-form-urlencoded\b/i.test(contentType)) {
    const fields = Object.entries(data).map(([name, value]) => [name, String(value)]);
    return { body: new URLSearchParams(fields).toString() };
  }
  return { body: JSON.stringify(data), type: 'application/json' };
}
