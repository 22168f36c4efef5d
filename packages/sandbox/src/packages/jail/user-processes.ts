import { execFile } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { usedUserIds } from '../../user-ids.ts';

const run = promisify(execFile);

const INTERVAL_MS = 100;
/** A launcher ends its program, and then removes what that wrote. */
const OWN_END_CHECKS = 100;
const KILLED_CHECKS = 50;

/**
 * Waits until no process has any of these user ids. A launcher ends what it started with the process that started it;
 * what is left when the launcher itself was killed is ended here.
 * @param launcher the native launcher
 * @throws Error when a process does not end
 */
export async function endProcessesOf(ids: readonly number[], launcher: string): Promise<void> {
  const running = () => {
    const used = usedUserIds();
    return ids.filter((id) => used.has(id));
  };
  async function haveEnded(checks: number): Promise<boolean> {
    for (let check = 0; check < checks; check += 1) {
      if (running().length === 0) return true;
      await delay(INTERVAL_MS);
    }
    return false;
  }
  if (await haveEnded(OWN_END_CHECKS)) return;
  for (const id of running()) await run(launcher, ['end', `uid=${id}`], { env: {} });
  if (!(await haveEnded(KILLED_CHECKS)))
    throw new Error(`processes of the users ${running().join(', ')} do not end`);
}
