import type { DedupeStrategy, Definition, HookName, PropDescriptor } from './definition.ts';
import { LIMITS } from './limits.ts';

/**
 * What a definition may consist of. It is checked twice: in the sandbox, to tell the author what is wrong, and by the
 * platform, which does not trust what the sandbox says.
 */

export const COMPONENT_TYPES: readonly Definition['type'][] = ['source', 'action', 'app'];
export const HOOKS: readonly HookName[] = ['deploy', 'activate', 'deactivate'];
export const DEDUPE_STRATEGIES: readonly DedupeStrategy[] = ['unique', 'greatest', 'last'];
export const MAX_NAME_CHARS = 1000;
export const MAX_VERSION_CHARS = 256;

export const isKey = (value: unknown): value is string =>
  typeof value === 'string' && /^[a-z0-9_-]{1,256}$/.test(value);

/** Fields of a prop that hold a text, a boolean, a number, or any value, for props of all types. */
export const PROP_FIELDS = {
  texts: ['label', 'description', 'alertType', 'content'],
  flags: [
    'optional',
    'secret',
    'customResponse',
    'reloadProps',
    'useQuery',
    'withLabel',
    'hidden',
    'disabled',
  ],
  numbers: ['min', 'max'],
  values: ['default', 'static'],
} as const satisfies Record<string, readonly (keyof PropDescriptor)[]>;

/** Each of them is an endpoint, or a timer that ticks. */
export const hasTooManyInterfaces = (props: readonly { type: string }[]): boolean =>
  props.filter(({ type }) => type.startsWith('$.interface.')).length > LIMITS.interfaces;
