import { CALLS, CONFIGURE_DEADLINE_MS, type ConfigureCall, configuredFor } from '@wellspring/contract/calls';
import { hasEndpoint } from '@wellspring/contract/definition-rules';
import { LIMITS } from '@wellspring/contract/limits';
import { configurationFailed, unavailable } from '@wellspring/core/problem';
import { untilAborted } from '@wellspring/core/until-aborted';
import { type Accounts, createAccounts } from '@wellspring/runtime/accounts';
import type { Deps } from '@wellspring/runtime/deps';
import { secretTexts } from '@wellspring/runtime/secret-values';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import { type Executor, noEffects, type Task } from '@wellspring/sandbox/port';
import { describeFailure } from './describe-failure.ts';
import { createMask, maskError } from './mask-secrets.ts';
import type { OwnerNetworks } from './owner-networks.ts';
import { readBundle } from './read-bundle.ts';
import type { OpenRunRoom } from './run-room.ts';
import type { UsageMeter } from './usage.ts';
import { type PermitDeps, withHookPermit } from './with-hook-permit.ts';

export interface ConfigureDeps extends Pick<Deps, 'store' | 'call' | 'seal' | 'memory'>, PermitDeps {
  executor: Executor;
  networks: Pick<OwnerNetworks, 'of'>;
  openRoom: OpenRunRoom;
  meter: Pick<UsageMeter, 'countTime'>;
}

/** A process of a component that is not deployed. */
export async function undeployedTask(
  { store, seal, networks }: Pick<ConfigureDeps, 'store' | 'seal' | 'networks'>,
  accounts: Pick<Accounts, 'find' | 'open'>,
  { owner_id, bundle_id, bundle: given, props, values: sealed }: Omit<ConfigureCall['message'], 'call'>,
): Promise<Omit<Task, 'call' | 'instance'> & { instance: NonNullable<Task['instance']> }> {
  const values = JSON.parse(seal.open(sealed, configuredFor(owner_id))) as Record<string, unknown>;
  const endpoints = props
    .filter(hasEndpoint)
    .map(({ name, customResponse }) => [name, { url: '', customResponse: customResponse === true }]);
  return {
    bundleId: bundle_id,
    readBundle: async () => given ?? readBundle(store, bundle_id),
    owner: await networks.of(owner_id),
    instance: {
      source_id: '',
      props,
      values,
      accounts: accounts.open(await accounts.find(owner_id, props, values)),
      endpoints: Object.fromEntries(endpoints),
      db: {},
      dbRevision: 0,
    },
  };
}

/** Memory for code that came with a call, which waits for its turn. @throws Problem 503 without room */
export function holdUnsaved(
  { memory: { deployments } }: Pick<Deps, 'memory'>,
  ownerId: string,
  bytes: number,
): Disposable {
  // Not the share of the owner's runs, which may take long.
  const release = deployments.tryTake(bytes, `unsaved ${ownerId}`);
  if (!release) throw unavailable();
  return { [Symbol.dispose]: release };
}

/** Memory for a bundle that came with a call: up to 24 MB. @throws Problem 503 without room */
export const holdBundle = (
  deps: Pick<Deps, 'memory'>,
  { owner_id, bundle }: Pick<ConfigureCall['message'], 'owner_id' | 'bundle'>,
): Disposable | undefined =>
  bundle && holdUnsaved(deps, owner_id, bundle.code.length + (bundle.lockfile?.length ?? 0));

/** Texts in the values of secret props, and the credentials of accounts. */
export const secretsOf = ({ props, values, accounts = {} }: NonNullable<Task['instance']>): string[] =>
  [
    ...secretTexts(props, values),
    ...Object.values(accounts).flatMap((credentials) => Object.values(credentials)),
  ].filter((value) => typeof value === 'string');

/** Serves `runner.configure`: options and additionalProps methods, each in a process of its own. */
export function configureWorker(deps: ConfigureDeps): BackgroundWorker {
  const { call, executor, meter, openRoom } = deps;
  const accounts = createAccounts(deps);
  return {
    name: 'runner.configure',
    async run(signal) {
      call.serve(
        CALLS.configure,
        async ({
          call: asked,
          ...configured
        }: ConfigureCall['message']): Promise<ConfigureCall['answer']> => {
          using _ = holdBundle(deps, configured);
          const { owner_id } = configured;
          const task: Task = { ...(await undeployedTask(deps, accounts, configured)), call: asked };
          using room = openRoom(owner_id);
          const until = AbortSignal.any([signal, AbortSignal.timeout(CONFIGURE_DEADLINE_MS)]);
          const execute = () => executor.execute(task, noEffects, { timeoutMs: LIMITS.configureMs, room });
          const result = await withHookPermit(deps, owner_id, until, execute);
          meter.countTime(owner_id, result.cpuMs);
          room.charge({ result });
          if (!result.ok) {
            const error = maskError(result.error, createMask(secretsOf(task.instance!)));
            const what = asked.kind === 'props' ? 'additionalProps' : `The options of ${asked.prop}`;
            throw configurationFailed(`${what} failed: ${describeFailure(error)}`);
          }
          const { options, props } = result;
          return { ...(options ? { options } : {}), ...(props ? { props } : {}) };
        },
        signal,
      );
      await untilAborted(signal);
    },
  };
}
