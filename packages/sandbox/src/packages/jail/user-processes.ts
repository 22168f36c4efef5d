import { execFile } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { usedUserIds } from '../../user-ids.ts';

const run = promisify(execFile);

const INTERVAL_MS = 100;
/** Time for a launcher to end its program and remove its files. */
const OWN_END_CHECKS = 100;
const KILLED_CHECKS = 50;

/**
 * Waits until no process has any of these user ids. A launcher ends its program when its parent ends; processes that
 * remain because the launcher itself was killed are killed here.
 * @param launcher the native launcher
 * @throws Error if a process does not end
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
    throw new Error(`Processes of the users ${running().join(', ')} do not end`);
}
