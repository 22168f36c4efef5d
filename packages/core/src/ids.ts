import { createHash, randomBytes, randomInt } from 'node:crypto';

/** Prefixes of ids, by kind of resource. */
export type IdPrefix =
  | 'sc' // saved component
  | 'dc' // deployed component (source)
  | 'd' // deployment: an immutable pairing of code, packages and prop values
  | 'p' // workflow
  | 'c' // cell: a step of a deployed workflow
  | 'wh' // webhook
  | 'sub' // subscription
  | 'as' // auto-subscription
  | 'dlv' // delivery
  | 'run' // run of a source or workflow
  | 'u' // user
  | 'o' // organization
  | 'key' // API key
  | 'apn' // account
  | 'req'; // request

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const COUNTERS = 62 ** 3;
/** As many as `randomInt` can make at once. */
const RANDOM_DIGITS = 8;

function base62(value: number, width: number): string {
  let text = '';
  for (let rest = value; text.length < width; rest = Math.floor(rest / 62)) text = ALPHABET[rest % 62] + text;
  return text;
}

let lastMs = 0;
let counter = 0;

/**
 * `<prefix>_` and ten base62 characters: seven of the epoch milliseconds, three of a counter that rises within
 * this process. Ids sort by age as plain strings. Unique per process; across processes a collision is possible,
 * so an insert is retried with a new id on conflict. Not a secret.
 */
export function newId<P extends Exclude<IdPrefix, 'run'>>(
  prefix: P,
  now: number = Date.now(),
): `${P}_${string}` {
  return idAt(prefix, now);
}

/**
 * The id of a new run or job: ten characters as in `newId`, and eight random ones. No insert checks it, and jobs with the
 * same id are executed once, so two processes must not make the same one.
 */
export const newRunId = (): `run_${string}` =>
  `${idAt('run', Date.now())}${base62(randomInt(62 ** RANDOM_DIGITS), RANDOM_DIGITS)}`;

function idAt<P extends IdPrefix>(prefix: P, now: number): `${P}_${string}` {
  if (now > lastMs) {
    lastMs = now;
    counter = randomInt(COUNTERS / 2);
  } else if (++counter >= COUNTERS) {
    lastMs += 1;
    counter = 0;
  }
  return `${prefix}_${base62(lastMs, 7)}${base62(counter, 3)}`;
}

/** The run id of a job that has this cause: equal for a repetition. */
export const derivedRunId = (cause: string): `run_${string}` =>
  `run_${createHash('sha256').update(cause).digest('hex').slice(0, 32)}`;

/** `<prefix>_`, seven base62 characters of `ms` and eleven of a hash: equal for the same cause, sorted by time. */
export function derivedId(prefix: IdPrefix, ms: number, cause: string): string {
  const hash = createHash('sha256').update(cause).digest();
  const [high, low] = [hash.readUIntBE(0, 4), hash.readUIntBE(4, 4)];
  return `${prefix}_${base62(ms, 7)}${base62(high, 5)}${base62(low, 6)}`;
}

/** The least id of a time: ids made from then on are not below it. @param ms epoch ms */
export const leastIdAt = (prefix: IdPrefix, ms: number): string =>
  `${prefix}_${base62(Math.max(0, Math.min(Math.ceil(ms), 62 ** 7 - 1)), 7)}000`;

/** True for `<prefix>_` followed by ten base62 characters. */
export function isId(prefix: IdPrefix, text: unknown): text is string {
  return (
    typeof text === 'string' &&
    text.startsWith(`${prefix}_`) &&
    /^[0-9A-Za-z]{10}$/.test(text.slice(prefix.length + 1))
  );
}

/** 160 random bits in lower-case base32, for endpoint keys and API keys. */
export function newSecret(): string {
  const letters = 'abcdefghijklmnopqrstuvwxyz234567';
  return [...randomBytes(32)].map((byte) => letters[byte & 31]).join('');
}
