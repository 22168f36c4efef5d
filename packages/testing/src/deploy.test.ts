import { existsSync, readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { SERVICES } from '@wellspring/contract/endpoint';
import { systemClock } from '@wellspring/core/clock';
import { type Config, ConfigError, configTable, readConfig } from '@wellspring/runtime/config';
import { createHealthListener } from '@wellspring/runtime/health';
import { parse } from 'yaml';
import { readDockerfile } from './dockerfile.ts';

/** What stands in the files for Docker, held against the code that they start. */

const ROOT = join(import.meta.dirname, '../../..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

interface ComposeService {
  profiles?: string[];
  command?: string[];
  environment?: Record<string, string>;
  ports?: string[];
  volumes?: string[];
  depends_on?: Record<string, object>;
  healthcheck?: { test: string[] };
  security_opt?: string[];
  build?: { context: string; dockerfile: string };
}

const compose: { services: Record<string, ComposeService>; volumes: Record<string, unknown> } = parse(
  read('docker-compose.yml'),
  { merge: true },
);
const image = readDockerfile(read('deploy/Dockerfile'));
const built = Object.entries(compose.services).filter(([, { build }]) => build !== undefined);
const known = new Set(configTable.map(({ name }) => name));

/** The value of a variable as Compose gives it when nobody sets one: `${NAME:-default}`. */
const substituted = (text: string) => text.replace(/\$\{\w+:-([^}]*)\}/g, '$1');

/** What the process of a service reads: the image's environment, and the service's over it. */
const environmentOf = ({ environment = {} }: ComposeService): Record<string, string> => ({
  ...image.environment,
  ...Object.fromEntries(Object.entries(environment).map(([name, value]) => [name, substituted(value)])),
});

const configOf = (service: ComposeService): Config =>
  readConfig({ env: environmentOf(service), services: (service.command ?? []).slice(1), isTerminal: false });

function faultsOf(service: ComposeService): readonly string[] {
  try {
    configOf(service);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
}

/** Ports inside of the container that are published. */
const published = ({ ports = [] }: ComposeService) => ports.map((port) => Number(port.split(':').at(-1)));

describe('the image', () => {
  test('starts a file that exists with the pinned Node.js', () => {
    const manifest = JSON.parse(read('package.json'));
    const started = image.entrypoint.slice(image.entrypoint.indexOf('--') + 1);
    expect(started).toEqual(['node_modules/.bin/node', 'services/all/src/main.ts']);
    expect(manifest.scripts.start).toBe(`node ${started[1]}`);
    expect(manifest.dependencies).toHaveProperty('node');
    expect(existsSync(join(ROOT, started[1]!))).toBe(true);
  });

  test('runs with a configuration that holds, not as root, refusing code without isolation', () => {
    const config = configOf({});
    expect(config).toMatchObject({ host: '0.0.0.0', isolation: 'required', allowNetworks: [] });
    expect(image.volumes).toContain(config.dataDir);
    expect(image.exposed).toEqual([config.port, config.adminPort]);
    expect(image.user).not.toMatch(/^(root|0|)$/);
    expect(image.packages).toContain('bubblewrap');
  });

  test('only sets variables that the platform reads', () => {
    const ours = Object.keys(image.environment).filter((name) => name.startsWith('WELLSPRING_'));
    expect(ours.length).toBeGreaterThan(3);
    expect(ours.filter((name) => !known.has(name))).toEqual([]);
  });

  test('is healthy when the platform says that it is', () => {
    const [, path] = /'(\/\w+)'\)/.exec(image.healthcheck.at(-1)!)!;
    expect(isAnswered(path!)).toBe(true);
    expect(isAnswered('/elsewhere')).toBe(false);
  });
});

function isAnswered(url: string): boolean {
  const part = { ping: async () => {} };
  const deps = { store: part, queue: part, pubsub: part, call: part, blob: part, clock: systemClock };
  const listener = createHealthListener(deps as unknown as Parameters<typeof createHealthListener>[0], {
    isDraining: () => false,
  });
  const req = { url, method: 'GET', resume() {} };
  const res = { writeHead() {}, end() {} };
  return listener(req as unknown as IncomingMessage, res as unknown as ServerResponse);
}

describe('docker compose up', () => {
  const alone = Object.entries(compose.services).filter(([, { profiles = [] }]) => profiles.length === 0);
  const service = compose.services.wellspring!;

  test('starts the platform in one container, from our image', () => {
    expect(alone.map(([name]) => name)).toEqual(['wellspring']);
    expect(existsSync(join(ROOT, service.build!.context, service.build!.dockerfile))).toBe(true);
  });

  test('with a configuration that holds, whose two ports are published to this machine only', () => {
    const config = configOf(service);
    expect(config.services).toEqual(SERVICES);
    expect(published(service)).toEqual([config.port, config.adminPort]);
    expect([config.host, config.adminHost]).toEqual(['0.0.0.0', '0.0.0.0']);
    expect(service.ports!.every((port) => port.startsWith('127.0.0.1:'))).toBe(true);
  });

  test('keeps its data in a named volume', () => {
    const [volume, path] = service.volumes![0]!.split(':');
    expect(path).toBe(configOf(service).dataDir);
    expect(compose.volumes).toHaveProperty(volume!);
  });
});

describe('the profile distributed', () => {
  const distributed = Object.entries(compose.services).filter(([, { profiles }]) =>
    profiles?.includes('distributed'),
  );
  const servers = { WELLSPRING_AMQP_URL: 5672, WELLSPRING_REDIS_URL: 6379, WELLSPRING_MONGODB_URL: 27017 };

  test('has a container for each service, named like it, and the three servers', () => {
    expect(distributed.map(([name]) => name).sort()).toEqual(
      [...SERVICES, 'rabbitmq', 'redis', 'mongodb'].sort(),
    );
    for (const name of SERVICES) expect(compose.services[name]!.command).toEqual(['start', name]);
  });

  test.each(SERVICES)('%s waits for and points to servers that are there', (name) => {
    const service = compose.services[name]!;
    const environment = environmentOf(service);
    const hosts = Object.entries(servers).map(([variable, port]) => {
      const { hostname, port: given } = new URL(environment[variable]!);
      expect(Number(given || port)).toBe(port);
      expect(compose.services[hostname]!.healthcheck!.test.length).toBeGreaterThan(1);
      return hostname;
    });
    expect(Object.keys(service.depends_on!).sort()).toEqual(hosts.sort());
  });

  test('lacks nothing but the keys that whoever installs it has to give', () => {
    for (const name of SERVICES) {
      const missing = faultsOf(compose.services[name]!).map((fault) => fault.split(' ')[0]);
      expect([name, ...missing]).toEqual([
        name,
        'WELLSPRING_SECRET_KEY',
        ...(name === 'gateway' ? ['WELLSPRING_ADMIN_KEY'] : []),
      ]);
    }
  });
});

describe('every container of ours', () => {
  test.each(built)('%s sets only variables that the platform reads', (_name, { environment = {} }) => {
    expect(Object.keys(environment).filter((name) => !known.has(name))).toEqual([]);
  });

  test('only where user code runs, Docker lets go of what bubblewrap needs', () => {
    const opened = built.filter(([, { security_opt }]) => security_opt !== undefined).map(([name]) => name);
    expect(opened.sort()).toEqual(['runner', 'wellspring']);
  });
});
