import { request } from 'node:http';

/** Names the variable with the URL of the keeper, which jest's globalSetup sets. */
export const KEEPER = 'WELLSPRING_TEST_KEEPER';

/** One question to the keeper of this run; see keeper.ts. No connection is left behind. @throws Error with what went wrong there */
export function askKeeper(method: 'GET' | 'POST', path: string): Promise<Record<string, string>> {
  const keeper = process.env[KEEPER];
  if (!keeper) throw new Error('the keeper of the test servers runs in jest only');
  return new Promise((resolve, reject) => {
    const req = request(keeper + path, { method, agent: false }, async (res) => {
      const body = JSON.parse((await res.toArray()).join(''));
      if (res.statusCode === 200) resolve(body);
      else reject(new Error(body.error ?? `${path}: ${res.statusCode}`));
    });
    req.once('error', reject).end();
  });
}
