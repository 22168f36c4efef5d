import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { argumentsOf, descendants, isAlive, uidsOf } from '../../processes.fixture.ts';
import { createUserIds, type UserIds, usedUserIds } from '../../user-ids.ts';
import { JAILS } from '../jail.fixture.ts';
import { openClient } from '../packager-client.fixture.ts';
import { openRegistry } from '../registry.fixture.ts';

const running = (): number[] => descendants(process.pid).filter(isAlive);
const having = (part: string): number[] =>
  running().filter((pid) => argumentsOf(pid).join(' ').includes(part));
/** 0: the process has ended. */
function uidOf(pid: number): number {
  try {
    return uidsOf(pid)[0]!;
  } catch {
    return 0;
  }
}
const isSandboxUser = (uid: number) => uid > 60_000 && uid !== 65_534;

/** Records allocated ids, and which of them had a process when they were released. */
function recordUserIds() {
  const ids = createUserIds()!;
  const given: number[] = [];
  const released: number[] = [];
  const inUse: number[] = [];
  const userIds: UserIds = {
    allocate() {
      const id = ids.allocate();
      given.push(id);
      return id;
    },
    release(id) {
      released.push(id);
      if (usedUserIds().has(id)) inUse.push(id);
      ids.release(id);
    },
  };
  return { userIds, given, released, inUse };
}

(JAILS.includes('launcher') ? describe : describe.skip)('user ids of the jail of the launcher', () => {
  test.each([
    ['the processes of the packager', false],
    ['these, and their launchers,', true],
  ] as const)(
    'belong to one program, and are released after %s were killed and no process has them',
    async (_, killsLaunchers) => {
      await using registry = await openRegistry();
      const { userIds, given, released, inUse } = recordUserIds();
      await using packager = await openClient('launcher', registry.url, { userIds });
      // Two package managers wait for answers of the registry.
      registry.answer('/silent', () => {});
      const failures = [packager.settle('silent'), packager.settle('silent')].map((settled) =>
        settled.catch((error: Error) => error.message),
      );
      await eventually(() => having('/jail/pnpm install').length === 2, { ms: 20_000 });
      const managers = having('/jail/pnpm install');
      const users = managers.map(uidOf);
      expect(new Set(users).size).toBe(2);
      expect(users.every(isSandboxUser)).toBe(true);
      expect(new Set(given).size).toBe(given.length);
      // Each process of the packager has a block of the same size.
      const block = given.length / 2;
      expect(users.map((uid) => Math.floor(given.indexOf(uid) / block)).sort()).toEqual([0, 1]);
      // Each user has only processes of one jail: pnpm, the program that started it, and the launcher.
      for (const uid of users) expect(running().filter((pid) => uidOf(pid) === uid)).toHaveLength(3);

      const left = running().filter((pid) => isSandboxUser(uidOf(pid)));
      const victims = [...having('packager-process.mjs'), ...(killsLaunchers ? having('launcher-') : [])];
      expect(victims.length).toBeGreaterThanOrEqual(killsLaunchers ? 4 : 2);
      for (const pid of victims) process.kill(pid, 'SIGKILL');
      for (const failure of await Promise.all(failures))
        expect(failure).toContain('a process of the packager ended with SIGKILL');
      await eventually(() => released.length === given.length, { ms: 40_000 });
      expect(left.filter(isAlive)).toEqual([]);
      expect(inUse).toEqual([]);
      expect(new Set(released)).toEqual(new Set(given));
    },
    90_000,
  );
});
