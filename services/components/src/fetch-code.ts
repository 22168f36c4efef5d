import { type ClientRequest, Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { relativeImports } from '@wellspring/component/modules/imports';
import { candidatesOf, isJson, isTypeScript } from '@wellspring/component/modules/resolve';
import type { ComponentCode } from '@wellspring/contract/definition';
import { LIMITS } from '@wellspring/contract/limits';
import type { Hold } from '@wellspring/core/byte-budget';
import { createFairPermits } from '@wellspring/core/fair-permits';
import { invalidParameter, Problem, tooManyRequests, unavailable } from '@wellspring/core/problem';
import { decodeUtf8, withoutByteOrderMark } from '@wellspring/core/utf8';
import { type Egress, MAX_INFORMATIONAL } from '@wellspring/http/egress';
import got from 'got';

/** Guard against private addresses. */
export type EgressGuard = Pick<Egress, 'checkUrl' | 'lookup' | 'forOwner'>;

/**
 * Fetches a component from its URL, with the modules that it imports by relative specifiers, directly or indirectly. An
 * extension that is missing is guessed, as is the index of a directory. A GitHub page (`/blob/`) is replaced with its
 * raw file.
 * @param ownerId the owner for whom it is fetched: one owner does not hold up others
 * @param hold takes the bytes as they arrive; its owner releases them
 * @throws Problem 400 `component_url`: a bad or refused address, no answer, no 2xx, too many files or bytes, not UTF-8;
 * 429: too many fetches are in progress; 503: there is no memory for it
 */
export type FetchCode = (
  address: string,
  ownerId: string,
  hold: Hold,
) => Promise<ComponentCode & { url: string }>;

const PARAM = 'component_url';
const MAX_MODULES = 200;
/** Requests, which are more than modules if extensions are missing. */
const MAX_REQUESTS = 1000;
/** Characters of an address and of a relative import: each URL that it may name is parsed several times. */
const MAX_ADDRESS = 4096;
const MAX_SPECIFIER = 1024;
const MAX_BYTES = LIMITS.apiBody;
/** Bytes that a piece of an answer counts at least: millions of one byte would occupy the platform. */
const PIECE_BYTES = 256;
const MAX_REDIRECTS = 5;
const TOTAL_TIMEOUT_MS = 20_000;
const CONCURRENCY = 8;
/** Components fetched at a time, each with up to 6 MB in memory: in all, and for one owner. */
const FETCHES = 16;
const FETCHES_PER_OWNER = 4;
const MAX_WAIT_MS = 60_000;

const refuse = (why: string) => invalidParameter(PARAM, why);
const refuseRequests = () => refuse(`The component needs more than ${MAX_REQUESTS} requests.`);

export function createFetchCode({ checkUrl, lookup, forOwner }: EgressGuard): FetchCode {
  // Separate connections: those of another client were not checked.
  const agent = { http: new HttpAgent(), https: new HttpsAgent() };

  function check(url: string, what: string): void {
    try {
      checkUrl(url);
    } catch (error) {
      throw refuse(`${what} cannot be fetched: ${(error as Error).message}`);
    }
  }

  /** @returns undefined after a 404 */
  async function read(
    url: string,
    what: string,
    { budget, signal, hold }: Limits,
  ): Promise<{ url: string; text: string } | undefined> {
    check(url, what);
    budget.requests -= 1;
    if (budget.requests < 0) throw refuseRequests();
    const stream = got.stream(url, {
      agent,
      dnsLookup: lookup,
      signal,
      maxRedirects: MAX_REDIRECTS,
      retry: { limit: 0 },
      headers: { 'user-agent': 'wellspring', accept: '*/*' },
      hooks: { beforeRedirect: [({ url: next }) => check(String(next), what)] },
    });
    let final = url;
    stream.on('response', (response: { url?: string }) => {
      final = response.url ?? url;
    });
    stream.on('request', (request: ClientRequest) => {
      const end = () => stream.destroy(refuse(`${what} sends too much besides the code.`));
      let informational = 0;
      request.on('information', () => {
        informational += 1;
        if (informational > MAX_INFORMATIONAL) end();
      });
      // Of the connection: the parser limits neither what precedes a head nor the framing of a body.
      request.once('socket', (socket) => {
        socket.on('data', (data: Buffer) => {
          budget.received -= data.length;
          if (budget.received < 0) end();
        });
      });
    });
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of stream) {
        const bytes = Math.max(chunk.length, PIECE_BYTES);
        budget.bytes -= bytes;
        if (budget.bytes < 0)
          throw refuse(`The component and its modules have more than ${MAX_BYTES / 1024 ** 2} MB.`);
        if (!hold.take(bytes)) throw unavailable();
        chunks.push(chunk);
      }
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw asProblem(error, what, signal);
    }
    return { url: final, text: decode(Buffer.concat(chunks), what) };
  }

  /** Reads modules, each URL once. */
  function createModules(limits: Limits) {
    const requested = new Map<string, Promise<string | undefined>>();
    const readOnce = (url: string) => {
      let text = requested.get(url);
      if (!text) {
        text = read(url, `The module ${url}`, limits).then((found) => found?.text);
        requested.set(url, text);
      }
      return text;
    };
    /** The first URL at which there is something. */
    return async ({ specifier, importer }: Import): Promise<{ url: string; text: string } | undefined> => {
      for (const url of candidatesOf(specifier, importer)) {
        const text = await readOnce(url);
        if (text !== undefined) return { url, text };
      }
      // TypeScript: types alone may be imported from it, which the compiler leaves out.
      if (isTypeScript(importer)) return undefined;
      throw refuse(`The module ${new URL(specifier, importer).href} answered 404.`);
    };
  }

  /** @param ended aborts the requests in progress */
  async function fetchCode(address: string, hold: Hold, ended: AbortSignal): ReturnType<FetchCode> {
    const limits = {
      hold,
      signal: AbortSignal.any([AbortSignal.timeout(TOTAL_TIMEOUT_MS), ended]),
      budget: { bytes: MAX_BYTES, received: 2 * MAX_BYTES, requests: MAX_REQUESTS },
    };
    const entry = await read(rawAddress(address), 'The address', limits);
    if (!entry) throw refuse('The address answered 404.');
    const readModule = createModules(limits);
    const modules: Record<string, string> = {};
    // The entry's imports resolve against the URL after redirects; modules keep the URL that their importers know.
    const waiting = await importsOf(entry.text, entry.url);
    while (waiting.length > 0) {
      const found = await Promise.all(waiting.splice(0, CONCURRENCY).map(readModule));
      for (const module of found) {
        if (!module || Object.hasOwn(modules, module.url)) continue;
        modules[module.url] = module.text;
        if (Object.keys(modules).length > MAX_MODULES)
          throw refuse(`The component imports more than ${MAX_MODULES} modules.`);
        for (const one of await importsOf(module.text, module.url)) waiting.push(one);
      }
    }
    return {
      url: entry.url,
      code: entry.text,
      ...(Object.keys(modules).length > 0 ? { modules } : {}),
    };
  }

  const fetches = createFairPermits({ total: FETCHES, maxPerOwner: () => FETCHES_PER_OWNER });
  return async (address, ownerId, hold) => {
    const release = await fetches.acquire(ownerId, AbortSignal.timeout(MAX_WAIT_MS)).catch(() => {
      throw tooManyRequests(TOTAL_TIMEOUT_MS / 1000);
    });
    const ended = new AbortController();
    try {
      return await forOwner(ownerId, () => fetchCode(address, hold, ended.signal));
    } finally {
      // After a failure, other modules may be on their way.
      ended.abort();
      release();
    }
  };
}

interface Limits {
  hold: Hold;
  budget: { bytes: number; received: number; requests: number };
  signal: AbortSignal;
}

interface Import {
  specifier: string;
  importer: string;
}

const isNotFound = (error: unknown) =>
  (error as { response?: { statusCode?: number } }).response?.statusCode === 404;

async function importsOf(code: string, importer: string): Promise<Import[]> {
  if (isJson(importer)) return [];
  const specifiers = await relativeImports(code);
  // Each needs a request at least.
  if (specifiers.length > MAX_REQUESTS) throw refuseRequests();
  if (specifiers.some(({ length }) => length > MAX_SPECIFIER))
    throw refuse(`An import of ${importer} has more than ${MAX_SPECIFIER} characters.`);
  return specifiers.map((specifier) => ({ specifier, importer }));
}

/** The URL to fetch: the raw file of a GitHub page, any other unchanged. */
export function rawAddress(address: string): string {
  if (address.length > MAX_ADDRESS) throw refuse(`${PARAM} has more than ${MAX_ADDRESS} characters.`);
  let url: URL;
  try {
    url = new URL(address);
  } catch {
    throw refuse(`${PARAM} is not a URL.`);
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw refuse(`${PARAM} has to be an http or https URL.`);
  url.hash = '';
  if (/^(www\.)?github\.com$/.test(url.hostname)) {
    const [, owner, repository, blob, ...path] = url.pathname.split('/');
    if (blob === 'blob' && path.length > 1)
      return `https://raw.githubusercontent.com/${owner}/${repository}/${path.join('/')}`;
  }
  return url.href;
}

function decode(bytes: Buffer, what: string): string {
  const text = decodeUtf8(bytes);
  if (text === undefined) throw refuse(`${what} did not return UTF-8 text.`);
  return withoutByteOrderMark(text);
}

/** All failures are problems of `component_url`; their messages contain no addresses of the network inside. */
function asProblem(error: unknown, what: string, signal: AbortSignal): Problem {
  if (error instanceof Problem) return error;
  const { cause, code, response } = error as {
    cause?: unknown;
    code?: string;
    response?: { statusCode: number };
  };
  if (cause instanceof Problem) return cause;
  if (signal.aborted) return refuse(`${what} did not answer in time.`);
  if (response && response.statusCode >= 300 && response.statusCode < 400)
    return refuse(`${what} redirects too often, or to a URL that cannot be fetched.`);
  if (response) return refuse(`${what} answered ${response.statusCode}.`);
  // One text for both: it must not tell which names exist inside.
  if (code === 'EACCES' || code === 'ENOTFOUND')
    return refuse(`${what} cannot be fetched: its host is unknown, or in a network that is not allowed.`);
  return refuse(`${what} cannot be fetched: ${code ?? 'the request failed'}.`);
}
