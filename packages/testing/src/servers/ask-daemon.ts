import { request } from 'node:http';

/** Environment variable with the URL of the server daemon; jest's globalSetup sets it. */
export const DAEMON = 'WELLSPRING_TEST_DAEMON';

/** Sends one request to the server daemon of this run (daemon.ts). @throws Error with the daemon's message */
export function askDaemon(method: 'GET' | 'POST', path: string): Promise<Record<string, string>> {
  const daemon = process.env[DAEMON];
  if (!daemon) throw new Error(`${DAEMON} is not set: the server daemon runs only under jest`);
  return new Promise((resolve, reject) => {
    const req = request(daemon + path, { method, agent: false }, async (res) => {
      const body = JSON.parse((await res.toArray()).join(''));
      if (res.statusCode === 200) resolve(body);
      else reject(new Error(body.error ?? `${path}: ${res.statusCode}`));
    });
    req.once('error', reject).end();
  });
}
