import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals';

type Closable = AsyncDisposable | { dispose(): Promise<void> } | { close(): unknown };
type Open<T> = () => T | Promise<T>;

async function close(one: Closable): Promise<void> {
  if (Symbol.asyncDispose in one) await one[Symbol.asyncDispose]();
  else if ('dispose' in one) await one.dispose();
  else await one.close();
}

function between<T extends Closable>(open: Open<T>, before: typeof beforeAll, after: typeof afterAll): T {
  let opened: T | undefined;
  before(async () => {
    opened = await open();
  }, 120_000);
  after(async () => {
    if (opened) await close(opened);
    opened = undefined;
  }, 60_000);
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

/** Opens something for the tests of a suite and closes it after them. The result stands for it. */
export const forSuite = <T extends Closable>(open: Open<T>): T => between(open, beforeAll, afterAll);

/** Opens something for each test and closes it after the test. The result stands for it. */
export const forEachTest = <T extends Closable>(open: Open<T>): T => between(open, beforeEach, afterEach);

/** After each test, closes all that was given to the result, the latest first. */
export function closeAfterEach(): <T extends Closable>(one: T) => T {
  const open: Closable[] = [];
  afterEach(async () => {
    for (const one of open.splice(0).reverse()) await close(one);
  });
  return (one) => {
    open.push(one);
    return one;
  };
}
