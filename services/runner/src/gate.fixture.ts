import { startHttpServer } from '@wellspring/testing/http';

/** For `usePlatform`: code reaches gates. */
export const codeAllowNetworks = ['127.0.0.0/8'];

export interface Gate extends AsyncDisposable {
  /** Source text: waits until the gate is open. */
  wait: string;
  /** The first code waits. */
  reached: Promise<void>;
  open(): void;
}

/** Holds code until the test opens it: a server of this machine that code asks, and that answers then. */
export async function createGate(): Promise<Gate> {
  const [reached, opened] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const server = await startHttpServer(async (_, res) => {
    reached.resolve();
    await opened.promise;
    res.end();
  });
  return {
    wait: `await (await fetch('${server.url}')).text();`,
    reached: reached.promise,
    open: opened.resolve,
    [Symbol.asyncDispose]: server.close,
  };
}
