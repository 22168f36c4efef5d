import { join } from 'node:path';
import {
  type Client,
  createClient,
  createOperatorClient,
  type OperatorClient,
} from '@wellspring/client/client';
import { SERVICES, type ServiceName } from '@wellspring/contract/endpoint';
import { type Network, openNetwork } from './network.ts';
import { ADMIN_KEY, API_KEY } from './platform.ts';
import { createServiceProcess, type ServiceProcess } from './service-process.ts';

export interface ClusterOptions {
  /** URLs of RabbitMQ, Redis and MongoDB. */
  urls: { amqp: string; redis: string; mongodb: string };
  /** The caller's; each process gets a subdirectory. */
  dataDir: string;
  /** Processes of a service; default 2. */
  replicas?: number | Partial<Record<ServiceName, number>>;
  /** Variables of all processes. */
  env?: Record<string, string>;
  nodeFlags?: readonly string[];
  /** Each process reaches each server through a network of its own, which can fail. */
  networks?: boolean;
}

export type ServerUrls = ClusterOptions['urls'];
export type Networks = Record<keyof ServerUrls, Network>;

/** The distributed platform: separate processes for every service. */
export interface Cluster extends AsyncDisposable {
  /** URL of the first gateway. */
  url: string;
  adminUrl: string;
  apiKey: string;
  adminKey: string;
  /** Speaks to the first gateway. */
  client: Client;
  operator: OperatorClient;
  of(service: ServiceName): readonly ServiceProcess[];
  /** @throws Error without the option `networks` */
  networksOf(process: ServiceProcess): Networks;
  readonly processes: readonly ServiceProcess[];
  /** Its service and number, such as `runner-2`. */
  nameOf(process: ServiceProcess): string;
  /** Output of all processes. */
  output(): string;
  /** Stops all of them. */
  stop(): Promise<void>;
}

const ROUTED = ['components', 'sources', 'subscriptions', 'webhooks', 'events'] as const;

/** Starts every service on free ports and resolves when all are ready. */
export async function startCluster({
  urls,
  dataDir,
  replicas = 2,
  env = {},
  nodeFlags = [],
  networks: hasNetworks = false,
}: ClusterOptions): Promise<Cluster> {
  const shared: Record<string, string> = {
    WELLSPRING_SECRET_KEY: 'the root key of every platform under test',
    WELLSPRING_API_KEY: API_KEY,
    WELLSPRING_ADMIN_KEY: ADMIN_KEY,
    ...env,
  };
  const processes = new Map<ServiceName, ServiceProcess[]>();
  const networks = new Map<ServiceProcess, Networks>();
  const envs: Record<string, string>[] = [];
  // The gateway starts last, when the addresses of the others are known; its own is assigned before.
  for (const service of [...SERVICES].reverse()) {
    const count = typeof replicas === 'number' ? replicas : (replicas[service] ?? 1);
    const all: ServiceProcess[] = [];
    for (let n = 1; n <= count; n++) {
      const own = hasNetworks ? await openNetworks(urls) : undefined;
      const processEnv = serverVariables(own ? urlsOf(own) : urls);
      envs.push(processEnv);
      const one = await createServiceProcess({
        services: [service],
        dataDir: join(dataDir, `${service}-${n}`),
        env: processEnv,
        nodeFlags,
      });
      all.push(one);
      if (own) networks.set(one, own);
    }
    processes.set(service, all);
  }
  for (const service of ROUTED) {
    const origins = processes.get(service)!.map(({ url }) => url);
    shared[`WELLSPRING_${service.toUpperCase()}_URL`] = origins.join(',');
  }
  const { url, adminUrl } = processes.get('gateway')![0]!;
  shared.WELLSPRING_PUBLIC_URL ??= url;
  for (const processEnv of envs) Object.assign(processEnv, shared);

  const all = () => [...processes.values()].flat();
  const cluster: Cluster = {
    url,
    adminUrl,
    apiKey: API_KEY,
    adminKey: ADMIN_KEY,
    client: createClient({ url, key: API_KEY }),
    operator: createOperatorClient({ url: adminUrl, key: ADMIN_KEY }),
    of: (service) => processes.get(service)!,
    get processes() {
      return all();
    },
    networksOf(process) {
      const own = networks.get(process);
      if (!own) throw new Error('The cluster was started without networks.');
      return own;
    },
    nameOf(process) {
      const [service, own] = [...processes].find(([, each]) => each.includes(process))!;
      return `${service}-${own.indexOf(process) + 1}`;
    },
    output: () =>
      all()
        .map((one) => one.output())
        .join(''),
    async stop() {
      await Promise.all(all().map((one) => one.end('SIGTERM')));
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(all().map((one) => one.end('SIGKILL')));
      const open = [...networks.values()].flatMap((own) => Object.values(own));
      await Promise.all(open.map((one) => one[Symbol.asyncDispose]()));
    },
  };
  try {
    await Promise.all(all().map((one) => one.start()));
  } catch (error) {
    await cluster[Symbol.asyncDispose]();
    throw error;
  }
  return cluster;
}

const serverVariables = ({ amqp, redis, mongodb }: ServerUrls): Record<string, string> => ({
  WELLSPRING_AMQP_URL: amqp,
  WELLSPRING_REDIS_URL: redis,
  WELLSPRING_MONGODB_URL: mongodb,
});

/** Servers with a single node each. */
async function openNetworks({ amqp, redis, mongodb }: ServerUrls): Promise<Networks> {
  // The client would connect to the members that the server names, past the network.
  const direct = mongodb.replace(/\?.*$/, '?directConnection=true');
  return {
    amqp: await openNetwork(amqp),
    redis: await openNetwork(redis),
    mongodb: await openNetwork(direct),
  };
}

const urlsOf = ({ amqp, redis, mongodb }: Networks): ServerUrls => ({
  amqp: amqp.url,
  redis: redis.url,
  mongodb: mongodb.url,
});
