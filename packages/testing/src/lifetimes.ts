import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals';

type Closable = AsyncDisposable | { dispose(): Promise<void> } | { close(): unknown };
type Open<T> = () => T | Promise<T>;

async function close(one: Closable): Promise<void> {
  if (Symbol.asyncDispose in one) await one[Symbol.asyncDispose]();
  else if ('dispose' in one) await one.dispose();
  else await one.close();
}

const CLOSE_MS = 60_000;

/** To be closed, the latest last. Jest runs the hooks that close in the order of definition. */
type Stack = (() => Promise<void>)[];
const ofSuites: Stack = [];
const ofTests: Stack = [];

function between<T extends Closable>(
  open: Open<T>,
  before: typeof beforeAll,
  after: typeof afterAll,
  stack: Stack,
): T {
  let opened: T | undefined;
  before(async () => {
    // Also if it fails to open: each hook that closes takes one off.
    stack.push(async () => {
      if (opened) await close(opened);
      opened = undefined;
    });
    opened = await open();
  }, 120_000);
  after(async () => {
    await stack.pop()?.();
  }, CLOSE_MS);
  return new Proxy({} as T, {
    get: (_, key) => Reflect.get(opened!, key),
    set: (_, key, value) => Reflect.set(opened!, key, value),
    ownKeys: () => Reflect.ownKeys(opened!),
    getOwnPropertyDescriptor: (_, key) => ({
      ...Reflect.getOwnPropertyDescriptor(opened!, key),
      configurable: true,
    }),
  });
}

/** Opens something for the tests of a suite and closes it after them, the latest first. The result stands for it. */
export const forSuite = <T extends Closable>(open: Open<T>): T =>
  between(open, beforeAll, afterAll, ofSuites);

/** Opens something for each test and closes it after the test, the latest first. The result stands for it. */
export const forEachTest = <T extends Closable>(open: Open<T>): T =>
  between(open, beforeEach, afterEach, ofTests);

/** After each test, closes all that was given to the result, the latest first. */
export function closeAfterEach(): <T extends Closable>(one: T) => T {
  const open: Closable[] = [];
  afterEach(async () => {
    const errors: unknown[] = [];
    for (const one of open.splice(0).reverse())
      await close(one).catch((error: unknown) => void errors.push(error));
    if (errors.length > 0) throw new AggregateError(errors, `Not closed: ${errors.join('; ')}`);
  }, CLOSE_MS);
  return (one) => {
    open.push(one);
    return one;
  };
}
