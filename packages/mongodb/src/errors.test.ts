import { expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { AccessDenied, Unavailable } from '@wellspring/core/unavailable';
import { closeAfterEach, forSuite } from '@wellspring/testing/lifetimes';
import { startMongo } from '@wellspring/testing/servers/mongodb';
import { withPrograms } from '@wellspring/testing/servers/servers';
import { openMongo } from './client.ts';
import { refusesWrites, translateErrors } from './errors.ts';

await withPrograms(['mongodb'], () => {
  const server = forSuite(() => startMongo({ failPoints: true }));
  const closing = closeAfterEach();

  /** The error of a command that the server answers with this code. */
  async function failWith(errorCode: number): Promise<unknown> {
    const { db } = closing(await openMongo({ url: server.url, log: silentLog }));
    await db.admin().command({
      configureFailPoint: 'failCommand',
      mode: { times: 1 },
      data: { failCommands: ['insert'], errorCode },
    });
    return translateErrors(db.collection('rows').insertOne({})).catch((error: unknown) => error);
  }

  test.each([
    ['CursorNotFound', 43],
    ['TemporarilyUnavailable', 365],
  ])('%s is an unavailable server', async (_name, code) => {
    const error = await failWith(code);
    expect(error).toBeInstanceOf(Unavailable);
    expect(error).not.toBeInstanceOf(AccessDenied);
    expect(refusesWrites(error)).toBe(false);
  });

  test.each([
    ['UserNotFound', 11],
    ['AuthenticationFailed', 18],
  ])('%s is a denied access, which an operator ends', async (_name, code) => {
    const error = await failWith(code);
    expect(error).toBeInstanceOf(AccessDenied);
    expect((error as Error).message).toMatch(/refuses the user in the URL: .*[^.]\. Set its present name/);
    expect(refusesWrites(error)).toBe(true);
  });
});
