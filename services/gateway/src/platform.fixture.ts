import { SERVICES, type ServiceName } from '@wellspring/contract/endpoint';
import { newId, newSecret } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import type { TokenBuckets } from '@wellspring/core/token-buckets';
import { type Config, readConfig } from '@wellspring/runtime/config';
import type { Deps } from '@wellspring/runtime/deps';
import { type Factories, runServices } from '@wellspring/runtime/run';
import type { Service } from '@wellspring/runtime/service';
import { type EndpointRow, endpoints } from '@wellspring/store/collections/sources';
import { freePort } from '@wellspring/testing/free-port';
import { type RequestOptions, type Response, send } from '@wellspring/testing/http';
import { endpointRow } from '@wellspring/testing/rows';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createGatewayService } from './service.ts';

/** The gateway of these tests: on embedded adapters and real listeners. */

export interface CallOptions extends RequestOptions {
  /** Sent as bearer; null: none. Default: the key of `admin`, or the operator's. */
  key?: string | null;
}

export interface Platform extends AsyncDisposable {
  deps: Deps;
  url: string;
  /** The API; `path` is below `/v1`. */
  api(method: string, path: string, options?: CallOptions): Promise<Response>;
  /** The operator API; `path` is below `/admin/v1`. */
  admin(method: string, path: string, options?: CallOptions): Promise<Response>;
  /** Anything on the public listener. */
  call(method: string, path: string, options?: CallOptions): Promise<Response>;
  user(): Promise<{ id: string; key: string }>;
  endpoint(row?: Partial<EndpointRow>): Promise<EndpointRow>;
  stop(): Promise<void>;
}

interface StartOptions {
  config?: Partial<Config>;
  /** Services beside the gateway. */
  others?: Partial<Record<ServiceName, (deps: Deps) => Service>>;
  /** Of the rates of the gateway; default: in real time. */
  buckets?: TokenBuckets;
}

export async function startGateway({
  config = {},
  others = {},
  buckets,
}: StartOptions = {}): Promise<Platform> {
  const dir = await tempDir();
  const env = {
    WELLSPRING_DATA_DIR: dir.path,
    WELLSPRING_PORT: String(await freePort()),
    WELLSPRING_ADMIN_PORT: String(await freePort()),
    WELLSPRING_API_RATE: '0',
  };
  const complete = { ...readConfig({ env, isTerminal: false }), ...config };
  let deps!: Deps;
  const idle = Object.fromEntries(SERVICES.map((name) => [name, () => ({ name })])) as unknown as Factories;
  const running = await runServices(
    complete,
    {
      ...idle,
      ...others,
      gateway(given, { listenerOf }) {
        deps = { ...given, ...(buckets && { buckets }) };
        return createGatewayService(deps, listenerOf);
      },
    },
    silentLog,
  );
  const { api_key, admin_key } = running.credentials;
  const sendTo = (
    port: number,
    method: string,
    path: string,
    { key = null, ...options }: CallOptions = {},
  ) => {
    const credentials = key === null ? {} : { authorization: `Bearer ${key}` };
    return send(port, method, path, { ...options, headers: { ...credentials, ...options.headers } });
  };
  const call: Platform['call'] = (method, path, options) => sendTo(complete.port, method, path, options);
  const admin: Platform['admin'] = (method, path, { key = admin_key, ...options } = {}) =>
    sendTo(complete.adminPort, method, `/admin/v1${path}`, { key, ...options });
  const stop = async () => {
    await running.stop(2_000);
    await dir.remove();
  };
  return {
    deps,
    url: complete.publicUrl,
    call,
    admin,
    api: (method, path, { key = api_key, ...options } = {}) =>
      call(method, `/v1${path}`, { key, ...options }),
    async user() {
      const body = { username: newSecret(), email: 'someone@example.com' };
      const { data } = (await admin('POST', '/users', { body })).json;
      return { id: data.id, key: data.api_key };
    },
    async endpoint(row = {}) {
      const complete = endpointRow({ owner_id: newId('u'), ...row });
      await deps.store.collection(endpoints).insert(complete);
      return complete;
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
