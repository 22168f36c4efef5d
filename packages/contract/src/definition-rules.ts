import type { ComponentCode, DedupeStrategy, Definition, HookName, PropDescriptor } from './definition.ts';
import { LIMITS } from './limits.ts';

/**
 * Rules for definitions. Checked twice: in the sandbox, to inform the author, and by the platform, which does not trust
 * the sandbox.
 */

export const COMPONENT_TYPES: readonly Definition['type'][] = ['source', 'action', 'app'];
export const HOOKS: readonly HookName[] = ['deploy', 'activate', 'deactivate'];
export const DEDUPE_STRATEGIES: readonly DedupeStrategy[] = ['unique', 'greatest', 'last'];
export const MAX_NAME_CHARS = 1000;

/** Bytes of the code and its modules. */
export const bytesOfCode = ({ code, modules = {} }: ComponentCode): number =>
  Object.values(modules).reduce((sum, text) => sum + Buffer.byteLength(text), Buffer.byteLength(code));
export const MAX_VERSION_CHARS = 256;

export const isKey = (value: unknown): value is string =>
  typeof value === 'string' && /^[a-z0-9_-]{1,256}$/.test(value);

/** Fields of props of all types, by the type of their value. */
export const PROP_FIELDS = {
  texts: ['label', 'description', 'alertType', 'content', 'appProp', 'accessMode', 'format', 'placeholder'],
  flags: [
    'optional',
    'secret',
    'customResponse',
    'reloadProps',
    'useQuery',
    'withLabel',
    'hidden',
    'disabled',
    'sync',
    'remoteOptions',
  ],
  numbers: ['min', 'max'],
  values: ['default', 'static', 'eventNames', 'customFields', 'auth'],
} as const satisfies Record<string, readonly (keyof PropDescriptor)[]>;

/** Each is an endpoint or a running timer. */
export const hasTooManyInterfaces = (props: readonly { type: string }[]): boolean =>
  props.filter(({ type }) => type.startsWith('$.interface.')).length > LIMITS.interfaces;

/** Whether calls of a URL run the source. */
export const hasEndpoint = ({ type }: { type: string }): boolean =>
  type === '$.interface.http' || isAppHook({ type });

export const isAppHook = ({ type }: { type: string }): boolean => type === '$.interface.apphook';
