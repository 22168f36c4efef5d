import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { ComponentCode } from '@wellspring/contract/definition';
import { LIMITS } from '@wellspring/contract/limits';
import { invalidParameter, Problem } from '@wellspring/core/problem';
import type { Egress } from '@wellspring/http/egress';
import got from 'got';
import { relativeImports } from './relative-imports.ts';

/** Guard against private addresses. */
export type EgressGuard = Pick<Egress, 'checkUrl' | 'lookup'>;

/**
 * Fetches a component from its URL, with the modules that it imports by relative specifiers, directly or indirectly. A
 * specifier is used literally: no extension is guessed. A GitHub page (`/blob/`) is replaced with its raw file.
 * @throws Problem 400 `component_url`: a bad or refused address, no answer, no 2xx, too many files or bytes, not UTF-8
 */
export type FetchCode = (address: string) => Promise<ComponentCode & { url: string }>;

const PARAM = 'component_url';
const MAX_MODULES = 200;
const MAX_BYTES = LIMITS.apiBody;
const MAX_REDIRECTS = 5;
const TOTAL_TIMEOUT_MS = 20_000;
const CONCURRENCY = 8;

const refuse = (why: string) => invalidParameter(PARAM, why);

export function createFetchCode({ checkUrl, lookup }: EgressGuard): FetchCode {
  // Separate connections: those of another client were not checked.
  const agent = { http: new HttpAgent(), https: new HttpsAgent() };

  function check(url: string, what: string): void {
    try {
      checkUrl(url);
    } catch (error) {
      throw refuse(`${what} cannot be fetched: ${(error as Error).message}`);
    }
  }

  async function read(
    url: string,
    what: string,
    budget: { bytes: number },
    signal: AbortSignal,
  ): Promise<{ url: string; text: string }> {
    check(url, what);
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
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of stream) {
        budget.bytes -= chunk.length;
        if (budget.bytes < 0)
          throw refuse(`The component and its modules have more than ${MAX_BYTES / 1024 ** 2} MB.`);
        chunks.push(chunk);
      }
    } catch (error) {
      throw asProblem(error, what, signal);
    }
    return { url: final, text: decode(Buffer.concat(chunks), what) };
  }

  return async (address) => {
    const entryUrl = rawAddress(address);
    const signal = AbortSignal.timeout(TOTAL_TIMEOUT_MS);
    const budget = { bytes: MAX_BYTES };
    const entry = await read(entryUrl, 'The address', budget, signal);
    const modules: Record<string, string> = {};
    // The entry's imports resolve against the URL after redirects; modules keep the URL that their importers know.
    let waiting = importsOf(entry.text, entry.url);
    while (waiting.length > 0) {
      const batch = waiting.splice(0, CONCURRENCY);
      if (Object.keys(modules).length + batch.length > MAX_MODULES)
        throw refuse(`The component imports more than ${MAX_MODULES} modules.`);
      const texts = await Promise.all(batch.map((url) => read(url, `The module ${url}`, budget, signal)));
      for (const [i, url] of batch.entries()) modules[url] = texts[i]!.text;
      const next = batch.flatMap((url) => importsOf(modules[url]!, url));
      waiting = [...new Set([...waiting, ...next])].filter((url) => !Object.hasOwn(modules, url));
    }
    return {
      url: entry.url,
      code: entry.text,
      ...(Object.keys(modules).length > 0 ? { modules } : {}),
    };
  };
}

const importsOf = (code: string, base: string): string[] => [
  ...new Set(relativeImports(code).map((specifier) => new URL(specifier, base).href)),
];

/** The URL to fetch: the raw file of a GitHub page, any other unchanged. */
export function rawAddress(address: string): string {
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
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw refuse(`${what} gave something that is not UTF-8 text.`);
  }
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
    return refuse(`${what} redirects too often, or to where nothing can be fetched.`);
  if (response) return refuse(`${what} answered ${response.statusCode}.`);
  return refuse(`${what} cannot be fetched: ${code ?? 'the request failed'}.`);
}
