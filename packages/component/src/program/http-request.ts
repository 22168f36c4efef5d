/** Props of type `http_request`: the request as configured, and `execute()`, which sends it. */

interface Pair {
  name?: string;
  value?: unknown;
  disabled?: boolean;
}

interface Configured {
  method?: string;
  url?: string;
  auth?: { type?: string; username?: string; password?: string; token?: string };
  headers?: Pair[];
  params?: Pair[];
  body?: { type?: string; mode?: string; contentType?: string; fields?: Pair[]; raw?: string };
}

const used = (pairs: Pair[] | undefined): [string, string][] =>
  (Array.isArray(pairs) ? pairs : [])
    .filter(({ name, disabled }) => typeof name === 'string' && name !== '' && disabled !== true)
    .map(({ name, value }) => [name!, String(value ?? '')]);

function authorization({ type, username = '', password = '', token = '' }: NonNullable<Configured['auth']>) {
  if (type === 'basic') return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
  return type === 'bearer' ? `Bearer ${token}` : undefined;
}

/** The body, and the content type unless fetch derives it. */
function bodyOf({ type, mode = type, contentType, fields, raw }: NonNullable<Configured['body']>): {
  body: string | FormData | undefined;
  contentType: string | undefined;
} {
  if (mode === 'raw' || (mode === undefined && raw !== undefined))
    return { body: raw ?? '', contentType: contentType ?? 'text/plain' };
  const pairs = used(fields);
  if (pairs.length === 0) return { body: undefined, contentType: undefined };
  if (contentType?.startsWith('multipart/form-data')) {
    const form = new FormData();
    for (const [name, value] of pairs) form.append(name, value);
    return { body: form, contentType: undefined };
  }
  if (contentType?.startsWith('application/x-www-form-urlencoded'))
    return { body: new URLSearchParams(pairs).toString(), contentType };
  return { body: JSON.stringify(Object.fromEntries(pairs)), contentType: contentType ?? 'application/json' };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** @returns {data, status, statusText, headers}. @throws Error with `response` unless the status is 2xx */
async function execute({ method = 'GET', url, auth, headers, params, body }: Configured): Promise<unknown> {
  const target = new URL(String(url));
  for (const [name, value] of used(params)) target.searchParams.append(name, value);
  const sent = new Headers(used(headers));
  const credentials = auth && authorization(auth);
  if (credentials !== undefined) sent.set('authorization', credentials);
  const verb = method.toUpperCase();
  const content = body && verb !== 'GET' && verb !== 'HEAD' ? bodyOf(body) : undefined;
  if (content?.contentType !== undefined && !sent.has('content-type'))
    sent.set('content-type', content.contentType);
  const answer = await fetch(target, { method: verb, headers: sent, body: content?.body ?? null });
  const response = {
    data: parsed(await answer.text()),
    status: answer.status,
    statusText: answer.statusText,
    headers: Object.fromEntries(answer.headers),
  };
  if (answer.ok) return response;
  throw Object.assign(new Error(`The request failed with status ${answer.status}.`), { response });
}

/** @param value as configured */
export const createHttpRequest = (value: unknown): Record<string, unknown> => {
  const request = (typeof value === 'object' && value !== null ? value : {}) as Configured;
  return { ...request, execute: () => execute(request) };
};
