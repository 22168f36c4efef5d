import type { PropDescriptor } from '@wellspring/contract/definition';
import { hasEndpoint } from '@wellspring/contract/definition-rules';
import { LIMITS } from '@wellspring/contract/limits';
import { invalidParameter, missingParameter } from '@wellspring/core/problem';
import { parseSchedule } from '@wellspring/core/schedule';

/** Shown by the API instead of a secret; in an update it means "unchanged". */
export const MASK = '********';

const DEFAULT_TIMER = { intervalSeconds: 3600 };

/** Interfaces and displays that take no value. */
const VALUELESS = new Set(['$.interface.http', '$.interface.apphook', '$.service.db', 'alert']);

/** Types that have something to work with when no value is given. */
const NEEDS_NO_VALUE = new Set(['data_store', 'dir']);

/** All types, without []; resources of an app, as in `$.discord.channel`, are known by their form. */
const TYPES = new Set([
  ...['string', 'integer', 'boolean', 'object', 'any', 'app', 'http_request', 'sql'],
  ...['$.interface.timer', ...VALUELESS, ...NEEDS_NO_VALUE],
]);
const APP_RESOURCE = /^\$\.(?!interface\.|service\.)\w+\.\w+$/;

const isKnown = (type: string) => {
  const one = type.endsWith('[]') ? type.slice(0, -2) : type;
  return TYPES.has(one) || APP_RESOURCE.test(one);
};

export interface ValidateOptions {
  /** Values before an update, with secrets in clear; the given values are merged into them by name. */
  previous?: Record<string, unknown>;
  minIntervalSeconds: number;
  /** Required values may be missing: the component is being configured. */
  partial?: boolean;
}

type Values = Record<string, unknown>;

const ownValue = (values: Values | undefined, name: string): unknown =>
  values !== undefined && Object.hasOwn(values, name) ? values[name] : undefined;

/**
 * The values of a deployment: given, previous or default ones, converted to the type of the prop.
 * null unsets a value; unknown names are ignored: see unknownValues.
 * @throws Problem 400 that names `configured_props.<name>`
 */
export function validateValues(
  props: readonly PropDescriptor[],
  given: Values,
  options: ValidateOptions,
): Values {
  const values: Values = {};
  for (const prop of props) {
    if (VALUELESS.has(prop.type)) continue;
    const value = validateValue(prop, chosen(prop, given, options.previous), options);
    if (value === undefined) continue;
    Object.defineProperty(values, prop.name, { value, enumerable: true, configurable: true, writable: true });
  }
  return values;
}

/** Names of given values without a prop, as parameters: `configured_props.<name>`. */
export function unknownValues(props: readonly PropDescriptor[], given: Values): string[] {
  const known = new Set(props.map(({ name }) => name));
  return Object.keys(given)
    .filter((name) => !known.has(name))
    .map((name) => `configured_props.${name}`);
}

function chosen(prop: PropDescriptor, given: Values, previous: Values | undefined): unknown {
  const before = ownValue(previous, prop.name);
  const value = ownValue(given, prop.name);
  if (value === undefined || (prop.secret && value === MASK)) return before ?? undefined;
  return value ?? undefined;
}

function validateValue(
  prop: PropDescriptor,
  chosenValue: unknown,
  { minIntervalSeconds, partial }: ValidateOptions,
): unknown {
  const param = `configured_props.${prop.name}`;
  // An account is only chosen by the caller: the author of the component must not name one of the caller's.
  const fallback = prop.type === 'app' ? undefined : (prop.static ?? prop.default);
  const value = chosenValue ?? fallback ?? undefined;
  if (prop.type === '$.interface.timer') return timer(value ?? DEFAULT_TIMER, param, minIntervalSeconds);
  if (value === undefined) {
    // A hidden or disabled prop is not in the form, so no value can be required.
    const isRequired = !(prop.optional || prop.hidden || prop.disabled || partial);
    if (prop.type === 'app' || NEEDS_NO_VALUE.has(prop.type) || !isRequired) return undefined;
    if (isKnown(prop.type)) throw missingParameter(param);
    throw missingParameter(
      param,
      `The parameter ${param} is required. Its type ${JSON.stringify(prop.type.slice(0, 100))} is unknown.`,
    );
  }
  if (prop.type === 'app') return account(value, param);
  const size = Buffer.byteLength(typeof value === 'string' ? value : JSON.stringify(value));
  if (size > LIMITS.propValue)
    throw invalidParameter(param, `${param} has more than ${LIMITS.propValue / 1024} KB.`);
  if (prop.withLabel && isLabelled(value)) return value;
  try {
    return prop.type.endsWith('[]') ? list(prop, value, param) : scalar(prop, prop.type, value, param);
  } catch (error) {
    // The author's default may have another type. An update repeats it as the previous value.
    if (JSON.stringify(value) === JSON.stringify(prop.static ?? prop.default)) return value;
    throw error;
  }
}

/** The value of an app prop; whether the account exists is checked elsewhere. */
function account(value: unknown, param: string): unknown {
  const { authProvisionId } = (value ?? {}) as { authProvisionId?: unknown };
  if (typeof authProvisionId !== 'string' || authProvisionId.length > 64)
    throw invalidParameter(param, `${param} must be an account: {"authProvisionId": "apn_…"}.`);
  return { authProvisionId };
}

function timer(value: unknown, param: string, minSeconds: number): unknown {
  const schedule = parseSchedule(value, param, minSeconds);
  if (schedule.kind === 'interval') return { intervalSeconds: schedule.seconds };
  return { cron: schedule.cron, timezone: schedule.timezone };
}

/** A value with its label, or a list of such values. */
const isLabelled = (value: unknown): boolean => {
  if (Array.isArray(value)) return value.length > 0 && value.every(isLabelled);
  const { __lv } = (value ?? {}) as { __lv?: unknown };
  return typeof __lv === 'object' && __lv !== null && (Array.isArray(__lv) || 'value' in __lv);
};

function list(prop: PropDescriptor, value: unknown, param: string): unknown[] {
  const items = fromJson(value);
  if (!Array.isArray(items)) throw invalidParameter(param, `${param} must be a list.`);
  return items.map((item) => scalar(prop, prop.type.slice(0, -2), item, param));
}

/** The value of a JSON text; any other value unchanged. */
function fromJson(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

const INTEGER = /^[+-]?\d{1,15}$/;

function scalar(prop: PropDescriptor, type: string, value: unknown, param: string): unknown {
  const refuse = (what: string) => invalidParameter(param, `${param} must be ${what}.`);
  switch (type) {
    case 'string':
      // Options of text props often are ids that are numbers.
      if (typeof value === 'number') return String(value);
      if (typeof value !== 'string') throw refuse('a text');
      return value;
    case 'integer': {
      const number = typeof value === 'string' && INTEGER.test(value.trim()) ? Number(value) : value;
      if (!Number.isSafeInteger(number)) throw refuse('an integer');
      if (prop.min !== undefined && (number as number) < prop.min) throw refuse(`at least ${prop.min}`);
      if (prop.max !== undefined && (number as number) > prop.max) throw refuse(`at most ${prop.max}`);
      return number;
    }
    case 'boolean':
      if (value === true || value === 'true') return true;
      if (value === false || value === 'false') return false;
      throw refuse('true or false');
    case 'http_request':
    case 'object': {
      const object = fromJson(value);
      if (typeof object !== 'object' || object === null || Array.isArray(object)) throw refuse('an object');
      return object;
    }
    default:
      return value;
  }
}

/**
 * Values as the API shows them: secrets masked, timers as {cron, interval_seconds}, HTTP interfaces as {endpoint_url}.
 * @param endpoints URLs by prop name
 */
export function presentValues(
  props: readonly PropDescriptor[],
  values: Values,
  endpoints: Record<string, string>,
): Values {
  const shown: Values = {};
  for (const { name, type, secret } of props) {
    const value = ownValue(values, name);
    const presented = hasEndpoint({ type })
      ? Object.hasOwn(endpoints, name)
        ? { endpoint_url: endpoints[name] }
        : undefined
      : type === '$.interface.timer'
        ? presentTimer(value)
        : secret && value !== undefined
          ? MASK
          : value;
    if (presented === undefined) continue;
    Object.defineProperty(shown, name, {
      value: presented,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  return shown;
}

function presentTimer(value: unknown): unknown {
  const { cron, intervalSeconds, timezone } = (value ?? {}) as Record<string, unknown>;
  return {
    cron: cron ?? null,
    interval_seconds: intervalSeconds ?? null,
    ...(timezone === undefined || timezone === 'UTC' ? {} : { timezone }),
  };
}
