import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { Agent, createServer, get, type IncomingMessage, type RequestListener } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { SERVICES, type ServiceName } from '@wellspring/contract/endpoint';
import { hashApiKey } from '@wellspring/core/api-key';
import { silentLog } from '@wellspring/core/log';
import { apiKeys, users } from '@wellspring/store/collections/users';
import { eventually } from '@wellspring/testing/eventually';
import { freePort } from '@wellspring/testing/free-port';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { tempDir } from '@wellspring/testing/temp-dir';
import { type Config, readConfig } from './config.ts';
import type { Deps } from './deps.ts';
import { type Factories, type Running, runServices } from './run.ts';
import type { Service } from './service.ts';

let config: Config;
const platforms: Running[] = [];
afterEach(async () => {
  for (const platform of platforms.splice(0)) await platform.stop(1_000);
});
const dir = forEachTest(tempDir);
beforeEach(async () => {
  const env = {
    WELLSPRING_DATA_DIR: dir.path,
    WELLSPRING_PORT: String(await freePort()),
    WELLSPRING_ADMIN_PORT: String(await freePort()),
  };
  config = readConfig({ env, isTerminal: false });
});

/** A platform of which only the gateway does something. */
async function run(
  gateway: (deps: Deps) => Omit<Service, 'name'>,
  { others = {}, ...changes }: Partial<Config> & { others?: Partial<Factories> } = {},
): Promise<Running> {
  const idle = Object.fromEntries(SERVICES.map((name) => [name, () => ({ name })])) as unknown as Factories;
  const factories = {
    ...idle,
    gateway: (deps: Deps) => ({ name: 'gateway' as ServiceName, ...gateway(deps) }),
    ...others,
  };
  const platform = await runServices({ ...config, ...changes }, factories, silentLog);
  platforms.push(platform);
  return platform;
}

const hello: RequestListener = (_req, res) => void res.end('hello');

async function read(
  port: number,
  path: string,
  agent?: Agent,
): Promise<{ status: number; text: string; res: IncomingMessage }> {
  return new Promise((resolve, reject) => {
    get({ port, path, agent: agent ?? false }, async (res) => {
      const chunks = await res.toArray();
      resolve({ status: res.statusCode!, text: Buffer.concat(chunks).toString(), res });
    }).on('error', reject);
  });
}

describe('a platform that runs', () => {
  test('answers health on both listeners, metrics only on the operator’s, the rest by the gateway', async () => {
    await run(() => ({ publicListener: hello, operatorListener: (_req, res) => void res.end('operator') }));
    const { port, adminPort } = config;
    for (const path of ['/health', '/ready']) {
      expect((await read(port, path)).status).toBe(200);
      expect((await read(adminPort, path)).status).toBe(200);
    }
    expect((await read(adminPort, '/metrics')).text).toMatch(/^# TYPE \w+ (counter|gauge)/m);
    expect((await read(port, '/metrics')).text).toBe('hello');
    expect((await read(adminPort, '/admin/v1/users')).text).toBe('operator');
  });

  test('shows which of its dependencies answer, and what waits in them', async () => {
    let deps: Deps | undefined;
    await run((given) => {
      deps = given;
      return {};
    });
    await deps!.queue.publish('runs', { key: 'dc_1', payload: '{}' });
    const shown = async () => (await read(config.adminPort, '/metrics')).text.split('\n');
    expect(await shown()).toEqual(
      expect.arrayContaining([
        'wellspring_dependency_up{dependency="store"} 1',
        'wellspring_dependency_up{dependency="blob"} 1',
        'wellspring_queue_depth{queue="runs"} 1',
        'wellspring_dead_letters 0',
      ]),
    );
    await rm(join(dir.path, 'blobs'), { recursive: true });
    expect(await shown()).toContain('wellspring_dependency_up{dependency="blob"} 0');
  });

  test('has the user admin with its key, also after a restart', async () => {
    let store: Deps['store'] | undefined;
    const keep = (deps: Deps) => {
      store = deps.store;
      return {};
    };
    const keysOf = async () => {
      const admin = await store!.collection(users).find({ username: 'admin' });
      const rows = await store!.collection(apiKeys).list({ where: { user_id: admin!.id } });
      return rows.map(({ hash }) => hash);
    };
    const first = await run(keep);
    const own = hashApiKey(first.credentials.api_key);
    expect(await keysOf()).toEqual([own]);
    await first.stop();
    // A preset is given to the user on old data, too; repeating it changes nothing.
    for (let i = 0; i < 2; i += 1) {
      const restarted = await run(keep, { apiKey: 'preset-api-key-1234' });
      expect((await keysOf()).sort()).toEqual([own, hashApiKey('preset-api-key-1234')].sort());
      await restarted.stop();
    }
  });

  test('has a key that works after a start that was refused for lack of the root key', async () => {
    await (await run(() => ({}))).stop();
    const [credentials, rootKey] = [join(dir.path, 'credentials.json'), join(dir.path, 'secret.key')];
    await rename(rootKey, `${rootKey}.away`);
    await rm(credentials);
    await expect(run(() => ({}))).rejects.toThrow('root key of the data is missing');
    expect(existsSync(credentials)).toBe(false);
    await rename(`${rootKey}.away`, rootKey);
    let deps: Deps | undefined;
    const { credentials: made } = await run((given) => {
      deps = given;
      return {};
    });
    expect(await deps!.store.collection(apiKeys).find({ hash: hashApiKey(made.api_key) })).toBeDefined();
  });

  test('does not bring back a key that was made on the first start and then revoked', async () => {
    const first = await run(() => ({}));
    await first.stop();
    let deps: Deps | undefined;
    const keep = (given: Deps) => {
      deps = given;
      return {};
    };
    const second = await run(keep);
    const row = await deps!.store.collection(apiKeys).find({ hash: hashApiKey(first.credentials.api_key) });
    await deps!.store.collection(apiKeys).remove(row!.id);
    await second.stop();
    await run(keep);
    expect(await deps!.store.collection(apiKeys).count({})).toBe(0);
  });

  test('restarts a worker that fails, and stays up', async () => {
    let starts = 0;
    await run(() => ({
      publicListener: hello,
      workers: [
        {
          name: 'flaky',
          async run() {
            starts += 1;
            throw new Error('no dependency');
          },
        },
      ],
    }));
    await eventually(() => starts >= 2);
    expect((await read(config.port, '/')).text).toBe('hello');
  });

  test('keeps its data directory to itself', async () => {
    await run(() => ({}));
    const port = await freePort();
    await expect(run(() => ({}), { port, adminPort: await freePort() })).rejects.toThrow(
      'in use by another process',
    );
  });
});

describe('a start that fails', () => {
  test('names the port in use, and releases everything', async () => {
    const blocker = createServer();
    await new Promise<void>((resolve) => blocker.listen(config.port, '127.0.0.1', resolve));
    await expect(run(() => ({}))).rejects.toThrow(
      `(WELLSPRING_HOST, WELLSPRING_PORT) cannot listen on 127.0.0.1:${config.port}: the port is in use`,
    );
    await new Promise<void>((resolve) => void blocker.close(() => resolve()));
    await run(() => ({}));
  });

  test('names the data directory and its setting if a file in it cannot be used', async () => {
    await mkdir(join(dir.path, 'wellspring.db'));
    await expect(run(() => ({}))).rejects.toThrow(
      new RegExp(`^The data directory ${dir.path} cannot be used: .* or set WELLSPRING_DATA_DIR `),
    );
  });

  test('of a service disposes those before it', async () => {
    const disposed: string[] = [];
    const failing = run(() => ({ dispose: async () => void disposed.push('gateway') }), {
      others: {
        sources: () => {
          throw new Error('cannot be built');
        },
      },
    });
    await expect(failing).rejects.toThrow('cannot be built');
    expect(disposed).toEqual(['gateway']);
  });
});

describe('stopping', () => {
  test('finishes requests in progress while the workers continue, is not ready, and accepts nothing new', async () => {
    let finish = () => {};
    let begun = () => {};
    const requested = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const order: string[] = [];
    const worker = (name: string, early: boolean) => ({
      name,
      early,
      run: (signal: AbortSignal) =>
        new Promise<void>((resolve) => {
          signal.addEventListener('abort', () => {
            order.push(name);
            resolve();
          });
        }),
    });
    const platform = await run(() => ({
      publicListener(_req, res) {
        finish = () => {
          order.push('answered');
          res.end('done');
        };
        begun();
      },
      workers: [worker('late', false), worker('early', true)],
      dispose: async () => void order.push('disposed'),
    }));
    const agent = new Agent({ keepAlive: true });
    const answer = read(config.port, '/slow', agent);
    await requested;
    const stopped = platform.stop();
    await eventually(async () => (await read(config.adminPort, '/ready')).status === 503);
    expect((await read(config.adminPort, '/health')).status).toBe(200);
    await expect(read(config.port, '/')).rejects.toThrow();
    expect(order).toEqual(['early']);
    finish();
    expect((await answer).text).toBe('done');
    expect(await stopped).toBe(true);
    expect(order).toEqual(['early', 'answered', 'late', 'disposed']);
    agent.destroy();
  });

  test('aborts requests that do not end in time', async () => {
    let begun = () => {};
    const requested = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const platform = await run(() => ({
      publicListener: () => begun(),
      workers: [{ name: 'stuck', run: () => new Promise<void>(() => {}) }],
    }));
    const answer = read(config.port, '/never');
    answer.catch(() => {});
    await requested;
    expect(await platform.stop(100)).toBe(false);
    await expect(answer).rejects.toThrow();
    // The lock of the data directory is released.
    await run(() => ({}));
  });

  test('twice has the effect of once', async () => {
    const platform = await run(() => ({ publicListener: hello }));
    expect(await Promise.all([platform.stop(), platform.stop()])).toEqual([true, true]);
  });
});
