import {
  type Client,
  createClient,
  createOperatorClient,
  type OperatorClient,
} from '@wellspring/client/client';
import { createServiceProcess, type ServiceProcess } from './service-process.ts';

export interface PlatformOptions {
  /** The caller's; not removed at the end. */
  dataDir: string;
  /** Further variables `WELLSPRING_…`; none are inherited. */
  env?: Record<string, string>;
  /** For node itself, e.g. `--cpu-prof`. */
  nodeFlags?: readonly string[];
  /** Starts a new process group, as a terminal does; default: the caller's group. */
  ownGroup?: boolean;
}

/** The whole platform as a separate process. */
export interface Platform extends ServiceProcess {
  apiKey: string;
  adminKey: string;
  client: Client;
  operator: OperatorClient;
}

/** Keys of every platform under test. */
export const API_KEY = 'ws_platform0under0test0000000000000';
export const ADMIN_KEY = 'operator_of_a_platform_under_test00';

/** Starts the whole platform on free ports and resolves when it is ready. */
export async function startPlatform(options: PlatformOptions): Promise<Platform> {
  const process = await createServiceProcess({
    ...options,
    env: { WELLSPRING_API_KEY: API_KEY, WELLSPRING_ADMIN_KEY: ADMIN_KEY, ...options.env },
  });
  await process.start();
  return Object.assign(process, {
    apiKey: API_KEY,
    adminKey: ADMIN_KEY,
    client: createClient({ url: process.url, key: API_KEY }),
    operator: createOperatorClient({ url: process.adminUrl, key: ADMIN_KEY }),
  });
}
