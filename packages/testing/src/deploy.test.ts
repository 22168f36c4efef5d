import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { SERVICES } from '@wellspring/contract/endpoint';
import { type Config, configTable, readConfig } from '@wellspring/runtime/config';
import { STOP_TIMEOUT_MS } from '@wellspring/runtime/run';
import { type ComposeService, readCompose } from './compose.ts';
import { readDockerfile } from './dockerfile.ts';
import { isHealthPath } from './health-paths.ts';

/** Checks the files for Docker against the code that they start. */

const ROOT = join(import.meta.dirname, '../../..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

const KEYS = ['WELLSPRING_SECRET_KEY', 'WELLSPRING_ADMIN_KEY', 'WELLSPRING_API_KEY'];
const PASSWORDS = ['RABBITMQ_PASSWORD', 'REDIS_PASSWORD', 'MONGODB_PASSWORD'];
const given = Object.fromEntries([...KEYS, ...PASSWORDS].map((name, n) => [name, String(n).repeat(64)]));

const distributed = readCompose(read('docker-compose.yml'), given);
const embedded = readCompose(read('deploy/docker-compose.embedded.yml'));
const image = readDockerfile(read('deploy/Dockerfile'));
const known = new Set(configTable.map(({ name }) => name));

/** Environment of a service: that of the image, overridden by the service's. */
const configOf = ({ environment = {}, command = [] }: ComposeService): Config =>
  readConfig({ env: { ...image.environment, ...environment }, services: command, isTerminal: false });

/** Ports inside of the container that are published. */
const published = ({ ports = [] }: ComposeService) => ports.map((port) => Number(port.split(':').at(-1)));

/** The platform's containers of both files, with the base directory of their paths. */
const ours = [
  { from: 'docker-compose.yml', services: distributed.services },
  { from: 'deploy/docker-compose.embedded.yml', services: embedded.services },
].flatMap(({ from, services }) =>
  Object.entries(services)
    .filter(([, { build }]) => build !== undefined)
    .map(([name, service]) => ({ name, service, directory: join(ROOT, dirname(from)) })),
);

describe('the image', () => {
  test('starts a file that exists with the pinned Node.js', () => {
    const manifest = JSON.parse(read('package.json'));
    const started = image.entrypoint.slice(image.entrypoint.indexOf('--') + 1);
    const flags = ['--v8-pool-size=1', '--min-semi-space-size=16'];
    expect(started).toEqual(['node_modules/.bin/node', ...flags, 'services/all/src/main.ts']);
    expect(manifest.scripts.start).toBe(`exec node ${started.slice(1).join(' ')}`);
    // Some benches run parts of the platform in their own process.
    expect(manifest.scripts.bench).toBe(`node ${flags.join(' ')} bench/main.ts`);
    expect(manifest.dependencies).toHaveProperty('node');
    expect(existsSync(join(ROOT, started.at(-1)!))).toBe(true);
    expect(image.packages).toContain(image.entrypoint[0]);
  });

  test('contains the libraries that the pinned Node.js needs', () => {
    const linked = execFileSync('ldd', [process.execPath], { encoding: 'utf8' });
    const libraries = [...linked.matchAll(/^\s*(\S+)\.so\.(\d+) =>/gm)].map(([, name, n]) => `${name}${n}`);
    // Libraries of the C library and the compiler, which are part of Debian.
    const base = /^(linux-vdso|libc|libm|libdl|libpthread|librt|libgcc_s)\d$/;
    const needed = libraries.filter((name) => !base.test(name));
    expect(needed).toContain('libstdc++6');
    expect(image.packages).toEqual(expect.arrayContaining(needed));
  });

  test('runs with a valid configuration, not as root, and requires isolation', () => {
    const config = configOf({});
    expect(config).toMatchObject({ host: '0.0.0.0', isolation: 'required', allowNetworks: [] });
    expect(image.volumes).toContain(config.dataDir);
    expect(image.environment.HOME).toBe(config.dataDir);
    expect(image.exposed).toEqual([config.port, config.adminPort]);
    // Kubernetes only trusts numbers.
    expect(image.user).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    expect(image.packages).toContain('bubblewrap');
  });

  test('sets only variables that the platform reads', () => {
    const set = Object.keys(image.environment).filter((name) => name.startsWith('WELLSPRING_'));
    expect(set.length).toBeGreaterThan(3);
    expect(set.filter((name) => !known.has(name))).toEqual([]);
  });

  test('uses the health check of the platform', () => {
    const [, path] = /'(\/\w+)'\)/.exec(image.healthcheck.at(-1)!)!;
    expect(path).toBe('/ready');
    expect(isHealthPath(path!)).toBe(true);
    expect(isHealthPath('/elsewhere')).toBe(false);
  });

  test('excludes secrets and data of the builder', () => {
    const ignored = read('deploy/Dockerfile.dockerignore').split('\n');
    expect(ignored).toEqual(expect.arrayContaining(['.env*', '.wellspring', '.git', '**/node_modules']));
  });
});

describe('the compose file with one container', () => {
  const service = embedded.services.wellspring!;
  const config = configOf(service);

  test('has one service and no required variables', () => {
    expect(Object.keys(embedded.services)).toEqual(['wellspring']);
    expect(embedded.required).toEqual([]);
    expect([config.mode, config.services]).toEqual(['embedded', SERVICES]);
  });

  test('publishes its two ports to this machine only', () => {
    expect(published(service)).toEqual([config.port, config.adminPort]);
    expect([config.host, config.adminHost]).toEqual(['0.0.0.0', '0.0.0.0']);
    expect(service.ports!.every((port) => port.startsWith('127.0.0.1:'))).toBe(true);
  });

  test('keeps its data in a named volume', () => {
    const [volume, path] = service.volumes![0]!.split(':');
    expect(path).toBe(config.dataDir);
    expect(embedded.volumes).toHaveProperty(volume!);
  });
});

describe('docker compose up', () => {
  const { services, volumes } = distributed;
  const servers = { WELLSPRING_AMQP_URL: 5672, WELLSPRING_REDIS_URL: 6379, WELLSPRING_MONGODB_URL: 27017 };

  test('starts a container for each service, named like it, and the three servers', () => {
    expect(Object.keys(services).sort()).toEqual([...SERVICES, 'rabbitmq', 'redis', 'mongodb'].sort());
    for (const name of SERVICES) expect(services[name]!.command).toEqual([name]);
  });

  test('requires keys and passwords, and its first lines create all of them', () => {
    expect(distributed.required).toEqual([...KEYS, ...PASSWORDS].sort());
    const [, names] = /for name in ([^;]+);/.exec(read('docker-compose.yml').replace(/\\\n# +/g, ''))!;
    expect(names!.split(' ').sort()).toEqual(distributed.required);
    expect(read('.gitignore').split('\n')).toContain('.env');
  });

  test.each(SERVICES)('%s has a valid configuration, and runs alone', (name) => {
    const config = configOf(services[name]!);
    expect([config.mode, config.services]).toEqual(['distributed', [name]]);
    // Metrics are scraped from this address, and the gateway's ports lead to it.
    expect(config.adminHost).toBe('0.0.0.0');
    // A gateway without preset keys would make new ones at every start.
    expect([config.adminKey, config.apiKey].map((key) => key !== null)).toEqual(
      name === 'gateway' ? [true, true] : [false, false],
    );
  });

  test.each(SERVICES)('%s waits for and connects to existing servers, with their passwords', (name) => {
    const service = services[name]!;
    const hosts = Object.entries(servers).map(([variable, port]) => {
      const { hostname, port: given, password } = new URL(service.environment![variable]!);
      expect(Number(given || port)).toBe(port);
      const server = services[hostname]!;
      expect(JSON.stringify([server.environment, server.command])).toContain(password);
      expect(password).toMatch(/^\d{64}$/);
      return hostname;
    });
    expect(Object.keys(service.depends_on!)).toEqual(expect.arrayContaining(hosts));
  });

  test('every awaited service has a health check', () => {
    const isBuilt = (name: string) => services[name]!.build !== undefined;
    for (const { depends_on = {} } of Object.values(services)) {
      for (const [name, { condition }] of Object.entries(depends_on)) {
        expect([name, condition]).toEqual([name, 'service_healthy']);
        expect([name, isBuilt(name) || services[name]!.healthcheck !== undefined]).toEqual([name, true]);
      }
    }
  });

  test('the gateway finds its services by their names and waits for them', () => {
    const config = configOf(services.gateway!);
    const asked = ['components', 'sources', 'subscriptions', 'webhooks', 'events'] as const;
    for (const name of asked) {
      const origins = config[`${name}Url`].map((origin) => new URL(origin));
      expect(origins.map(({ hostname }) => hostname)).toEqual([name]);
      expect(origins.map(({ port }) => Number(port))).toEqual([configOf(services[name]!).port]);
    }
    expect(Object.keys(services.gateway!.depends_on!)).toEqual(expect.arrayContaining([...asked]));
  });

  test('publishes the gateway only, to this machine only', () => {
    const open = Object.entries(services).filter(([, { ports }]) => ports !== undefined);
    expect(open.map(([name]) => name)).toEqual(['gateway']);
    expect(published(services.gateway!)).toEqual([3000, 3001]);
    expect(services.gateway!.ports!.every((port) => port.startsWith('127.0.0.1:'))).toBe(true);
  });

  test('keeps the data of RabbitMQ and MongoDB in named volumes, with stable host names', () => {
    for (const name of ['rabbitmq', 'mongodb']) {
      const named = services[name]!.volumes!.map((volume) => volume.split(':')[0]!);
      expect(named).toContain(name);
      for (const volume of named) expect(volumes).toHaveProperty(volume);
    }
    // It keeps its data below the name of its node.
    expect(services.rabbitmq!.hostname).toBe('rabbitmq');
  });
});

describe('each container of the platform', () => {
  test.each(ours)('$name sets only variables that the platform reads', ({ service }) => {
    expect(Object.keys(service.environment ?? {}).filter((name) => !known.has(name))).toEqual([]);
  });

  test.each(ours)('$name is built from existing files', ({ service, directory }) => {
    const context = resolve(directory, service.build!.context);
    expect(context).toBe(resolve(ROOT));
    expect(existsSync(join(context, service.build!.dockerfile))).toBe(true);
  });

  test.each(ours)('$name writes only to its data directory, and has no privileges', ({ service }) => {
    expect([service.read_only, service.cap_drop]).toEqual([true, ['ALL']]);
    expect(service.volumes).toContain('/tmp');
    expect(service.security_opt).toContain('no-new-privileges:true');
  });

  test.each(ours)('$name has a grace period that is longer than the drain', ({ service }) => {
    expect(Number.parseInt(service.stop_grace_period!, 10) * 1000).toBeGreaterThan(STOP_TIMEOUT_MS + 5_000);
  });

  test('only containers with user code relax the security options, with an existing profile', () => {
    const opened = ours.filter(({ service }) => service.security_opt!.length > 1);
    expect(opened.map(({ name }) => name).sort()).toEqual(['runner', 'wellspring']);
    for (const { service, directory } of opened) {
      expect(service.security_opt).toContain('apparmor=unconfined');
      const [, path] = /seccomp=(.*)/.exec(service.security_opt!.join('\n'))!;
      expect(existsSync(join(directory, path!))).toBe(true);
    }
  });
});

describe('the seccomp profile', () => {
  const profile: { defaultAction: string; syscalls: { names: string[]; action: string }[] } = JSON.parse(
    read('deploy/seccomp.json'),
  );
  const refused = profile.syscalls.flatMap(({ names }) => names);

  test('allows the namespaces of bubblewrap and no unneeded calls', () => {
    expect(profile.defaultAction).toBe('SCMP_ACT_ALLOW');
    expect(new Set(profile.syscalls.map(({ action }) => action))).toEqual(new Set(['SCMP_ACT_ERRNO']));
    const needed = [
      'clone',
      'clone3',
      'unshare',
      'mount',
      'umount2',
      'pivot_root',
      'prctl',
      'seccomp',
      'capset',
    ];
    expect(refused.filter((name) => needed.includes(name))).toEqual([]);
    expect(refused).toEqual(
      expect.arrayContaining(['bpf', 'ptrace', 'keyctl', 'init_module', 'io_uring_setup']),
    );
  });
});
