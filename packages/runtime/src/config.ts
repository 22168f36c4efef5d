import type { ServiceName } from '@wellspring/contract/endpoint';

/** The configuration, checked and complete. See the table in the README, which is generated from this module. */
export interface Config {
  mode: 'embedded' | 'distributed';
  /** The services this process runs. */
  services: readonly ServiceName[];
  host: string;
  port: number;
  /** Origin under which the public listener is reached, without trailing slash. */
  publicUrl: string;
  /** Domain below which every endpoint key is a host of its own; null: only `/e/{key}`. */
  endpointDomain: string | null;
  adminHost: string;
  adminPort: number;
  adminKey: string | null;
  apiKey: string | null;
  dataDir: string;
  amqpUrl: string | null;
  redisUrl: string | null;
  mongodbUrl: string | null;
  /** Root keys, newest first; null: made on first start (embedded). */
  secretKeys: readonly string[] | null;
  /** CIDRs that webhooks and component URLs may reach beyond public addresses. */
  allowNetworks: readonly string[];
  /** The same for user code. */
  codeAllowNetworks: readonly string[];
  isolation: 'auto' | 'required' | 'bubblewrap' | 'launcher' | 'none';
  minIntervalSeconds: number;
  /** API requests a second and key; 0: unlimited. */
  apiRate: number;
  /** Requests a second and endpoint; 0: unlimited. */
  endpointRate: number;
  trustProxy: readonly string[];
  logLevel: 'debug' | 'info' | 'warn' | 'error';
  logFormat: 'pretty' | 'json';
  retainEvents: number;
  retainDays: number;
}
