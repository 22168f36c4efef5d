import { createHash } from 'node:crypto';
import type { RequestListener } from 'node:http';
import { startHttpServer } from '@wellspring/testing/http';
import { type TarEntry, tarball } from './tar.fixture.ts';

/** A version of a package in the registry of the test. */
export interface TestVersion {
  /** Fields of the packument's version, and of package.json unless there is a `tarballManifest`. */
  manifest?: Record<string, unknown>;
  /** package.json in the tarball, if it differs. */
  tarballManifest?: Record<string, unknown>;
  /** Other files. Default: an index.js that exports name and version. */
  files?: readonly TarEntry[];
  dist?: Record<string, unknown>;
  publishedAt?: string;
}

export interface TestRegistry extends AsyncDisposable {
  url: string;
  /** Requested paths. */
  requests: { path: string; authorization: string | undefined }[];
  publish(name: string, versions: Record<string, TestVersion>, more?: Record<string, unknown>): void;
  /** Replaces the answer for this path. */
  answer(path: string, handler: RequestListener): void;
}

/** A server that counts requests; no attack must reach it. */
export interface Canary extends AsyncDisposable {
  host: string;
  requests: string[];
}

export async function openCanary(): Promise<Canary> {
  const requests: string[] = [];
  const server = await startHttpServer((request, response) => {
    requests.push(request.url ?? '');
    response.end('canary');
  });
  return { ...server, host: new URL(server.url).host, requests };
}

export async function openRegistry(): Promise<TestRegistry> {
  const requests: TestRegistry['requests'] = [];
  const handlers = new Map<string, RequestListener>();
  const server = await startHttpServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '');
    requests.push({ path, authorization: request.headers.authorization });
    const handler = handlers.get(path);
    if (handler) handler(request, response);
    else response.writeHead(404).end('{"error":"Not found"}');
  });
  const url = `${server.url}/`;
  return {
    ...server,
    url,
    requests,
    answer: (path, handler) => void handlers.set(path, handler),
    publish(name, versions, more = {}) {
      const base = name.split('/').at(-1);
      const time: Record<string, string> = {};
      const list = Object.entries(versions).map(([version, one]) => {
        const manifest = { name, version, ...one.manifest };
        const bytes = tarball([
          { path: 'package/package.json', content: JSON.stringify(one.tarballManifest ?? manifest) },
          ...(one.files ?? [
            {
              path: 'package/index.js',
              content: `module.exports = ${JSON.stringify(`${name}@${version}`)};\n`,
            },
          ]),
        ]);
        const path = `/${name}/-/${base}-${version}.tgz`;
        handlers.set(path, (_, response) => void response.end(bytes));
        const dist = {
          tarball: `${server.url}${path}`,
          integrity: `sha512-${createHash('sha512').update(bytes).digest('base64')}`,
          ...one.dist,
        };
        time[version] = one.publishedAt ?? '2020-01-01T00:00:00.000Z';
        return [version, { ...manifest, dist }] as const;
      });
      const packument = {
        name,
        'dist-tags': { latest: list.at(-1)?.[0] },
        versions: Object.fromEntries(list),
        time,
        ...more,
      };
      handlers.set(`/${name}`, (_, response) => void response.end(JSON.stringify(packument)));
    },
  };
}
