import type { ServerResponse } from 'node:http';
import type { ByteBudget, Hold } from '@wellspring/core/byte-budget';
import { LARGE_ANSWER } from '@wellspring/http/bind';
import { onceClosed } from '@wellspring/http/once-closed';
import { NoRoomForBody } from '@wellspring/http/read-body';

/** For which a reply waits for room: its run has been executed, so it is not given up at once. */
const WAIT_MS = 5_000;

interface Room {
  owner: string;
  replies: ByteBudget;
  /** Takes the bytes of a reply while it waits for room: replies that wait are bounded, too. */
  waiting: Hold;
  waitMs?: number;
}

/**
 * Takes the bytes of a large reply until the response is closed.
 * @throws NoRoomForBody
 */
export async function holdReply(
  res: ServerResponse,
  bytes: number,
  { owner, replies, waiting, waitMs = WAIT_MS }: Room,
): Promise<void> {
  if (bytes <= LARGE_ANSWER || res.closed) return;
  const release = replies.tryTake(bytes, owner) ?? (await waitForRoom());
  onceClosed(res, release);

  async function waitForRoom() {
    if (!waiting.take(bytes)) throw new NoRoomForBody();
    try {
      return await replies.take(bytes, owner, AbortSignal.timeout(waitMs));
    } catch {
      throw new NoRoomForBody();
    } finally {
      waiting.release();
    }
  }
}
