import { rm } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';

const MAX_ATTEMPTS = 20;
const RETRY_DELAY_MS = 500;

/**
 * Removes a process directory. The launcher removes files of another user from it at the same time: until it has
 * finished, the platform gets EACCES if it is not root.
 * @throws Error if the directory cannot be removed within two minutes
 */
export async function removeTree(path: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await rm(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
    } catch (error) {
      if (attempt === MAX_ATTEMPTS) throw error;
      await setTimeout(attempt * RETRY_DELAY_MS, undefined, { ref: false });
    }
  }
}
