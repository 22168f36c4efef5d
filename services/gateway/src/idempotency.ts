import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { LIMITS } from '@wellspring/contract/limits';
import { type Backoff, backoff } from '@wellspring/core/backoff';
import type { Hold } from '@wellspring/core/byte-budget';
import { createFairPermits, withPermit } from '@wellspring/core/fair-permits';
import { newSecret } from '@wellspring/core/ids';
import { conflict, invalidParameter, tooManyRequests, unavailable } from '@wellspring/core/problem';
import { createSleeper } from '@wellspring/core/sleeper';
import { withTimeout } from '@wellspring/core/with-timeout';
import { onceClosed } from '@wellspring/http/once-closed';
import { forgetBody, readBody } from '@wellspring/http/read-body';
import { answeredTopic } from '@wellspring/pubsub/port';
import type { Deps } from '@wellspring/runtime/deps';
import {
  IDEMPOTENCY_MS,
  type IdempotencyRow,
  idempotencyKeys,
} from '@wellspring/store/collections/idempotency';
import { ConflictError } from '@wellspring/store/port';
import { captureResponse, type StoredResponse } from './capture-response.ts';

/** Longer than any call may take: afterwards the process that held the key has died. */
const ABANDONED_MS = 700_000;
/** In case a wake-up is lost. */
const POLL_INTERVAL_MS = 2_000;
/** Calls that wait for the first one with their key: of this process, and of one user. */
const MAX_WAITING = 1_000;
const MAX_WAITING_OF_USER = 50;

/** Stored responses that are read at a time, before their size is known. */
const READS = 4;

const RETRY_AFTER_SECONDS = 1;

/** Backoff of the write that stores the end of a call, until its key is forgotten. */
const RETRY: Backoff = { baseMs: 1_000, maxMs: 30_000, jitterMs: 500 };
/** Ends that are not stored by then are given up when the process stops. */
const CLOSE_TIMEOUT_MS = 5_000;

/** A call that has ended. */
interface Finished {
  created_at_ms: number;
  /** Undefined: its key is forgotten. */
  response: StoredResponse | undefined;
  /** Called once it is stored or given up. */
  release(): void;
}

const sha256 = (...parts: (string | Buffer)[]) => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(String(part.length)).update('\0').update(part);
  return hash.digest('hex');
};

export interface Idempotency {
  /**
   * @param caller.hold of the body, released by the caller once the request is answered; that of a repetition then holds
   * the response instead
   * @param caller.maxKept bytes; the key of a larger response is forgotten. Default: unlimited
   * @param caller.permit of a repetition: rejects if the call is not permitted any more
   * @param execute handles the call, unless it is a repetition
   * @throws Problem, Unavailable
   */
  handle(
    req: IncomingMessage,
    res: ServerResponse,
    caller: {
      userId: string;
      hold: Hold;
      maxKept?: number;
      permit?: (left: AbortSignal) => Promise<void>;
    },
    execute: () => Promise<void> | void,
  ): Promise<void>;
  /** Stores the ends of calls that are not stored yet, within CLOSE_TIMEOUT_MS. */
  close(): Promise<void>;
}

/**
 * `Idempotency-Key` of a POST: the first call of a user with a key is executed, and its response stored for a day if it
 * is a success, also if its client has disconnected; a second call waits for the first and gets the same response. The
 * key with another request is 409.
 */
export function createIdempotency({
  store,
  pubsub,
  clock,
  log,
  config,
  seal,
  memory,
}: Pick<Deps, 'store' | 'pubsub' | 'clock' | 'log' | 'config' | 'seal' | 'memory'>): Idempotency {
  const rows = store.collection(idempotencyKeys);
  const reads = createFairPermits({ total: READS });
  const thisProcess = newSecret();
  /** Calls that this process executes, or tries to begin, by id. */
  const executing = new Map<string, number>();
  /** Finished calls that are not stored yet. */
  const unstored = new Map<string, Finished>();
  const storing = new Map<string, Promise<void>>();
  /** Attempts to store ends, with their repetitions. */
  const attempts = new Set<Promise<void>>();
  const closing = new AbortController();
  /** Of calls that wait for the first one with their key. */
  const waits = createFairPermits({ total: MAX_WAITING, maxPerOwner: () => MAX_WAITING_OF_USER });
  /** Whether no process executes the call of this row. This process leaves such a row if the answer to its insertion is lost. */
  const abandoned = (row: IdempotencyRow) =>
    row.process === thisProcess
      ? !executing.has(row.id)
      : config.mode === 'embedded' || clock.now() - row.created_at_ms > ABANDONED_MS;

  const enter = (id: string) => executing.set(id, (executing.get(id) ?? 0) + 1);
  function leave(id: string): void {
    const left = executing.get(id)! - 1;
    if (left === 0) executing.delete(id);
    else executing.set(id, left);
  }

  async function inserted(row: IdempotencyRow): Promise<boolean> {
    try {
      await rows.insert(row);
      return true;
    } catch (error) {
      if (error instanceof ConflictError) return false;
      throw error;
    }
  }

  /** Whether `write` gave the key to this call, which this process then executes until `leave`. @throws Unavailable */
  async function begun(id: string, write: () => Promise<boolean>): Promise<boolean> {
    enter(id);
    let mine = false;
    try {
      mine = await write();
    } finally {
      if (!mine) leave(id);
    }
    return mine;
  }

  async function storeNow(id: string): Promise<void> {
    const call = unstored.get(id)!;
    const { created_at_ms, response } = call;
    try {
      // It may contain the text of an API key or the secret of a webhook.
      if (response) {
        const sealed = { ...response, body: seal.seal(response.body, id) };
        await rows.patch(id, { response: sealed }, { created_at_ms });
      } else await rows.removeWhere({ id, created_at_ms });
      if (unstored.get(id) === call) unstored.delete(id);
    } finally {
      storing.delete(id);
      pubsub.publish(answeredTopic(id));
    }
  }

  /** Stores the end of a call, once at a time. @throws Unavailable */
  async function storeEnd(id: string): Promise<void> {
    while (unstored.has(id)) {
      if (!storing.has(id)) storing.set(id, storeNow(id));
      await storing.get(id);
    }
  }

  /** Until the end of a call is stored: other processes wait for it, and take the call for abandoned after a while. */
  async function retry(id: string, call: Finished): Promise<void> {
    // A later call may have the same key.
    for (let attempt = 1; unstored.get(id) === call; attempt++) {
      await clock.sleep(backoff(attempt, RETRY), closing.signal);
      await storeEnd(id).catch(() => {});
      if (closing.signal.aborted) return;
      if (unstored.get(id) === call && clock.now() - call.created_at_ms > IDEMPOTENCY_MS) unstored.delete(id);
    }
  }

  /** Resolves after the first attempt. */
  async function finish(id: string, call: Finished): Promise<void> {
    unstored.set(id, call);
    leave(id);
    const first = storeEnd(id);
    const stored = first
      .catch((error: unknown) => {
        log.warn({ error: String(error) }, 'idempotency.store_failed');
        return retry(id, call);
      })
      .finally(() => {
        attempts.delete(stored);
        call.release();
      });
    attempts.add(stored);
    await first.catch(() => {});
  }

  /** Calls `look` until it returns a value: after each wake-up, and at an interval. @throws Problem, Unavailable */
  async function wait<R>(
    id: string,
    userId: string,
    left: AbortSignal,
    look: () => Promise<R | undefined>,
  ): Promise<R | undefined> {
    const release = waits.tryAcquire(userId);
    if (!release) throw tooManyRequests(RETRY_AFTER_SECONDS);
    const sleeper = createSleeper(clock);
    const unsubscribe = pubsub.subscribe(answeredTopic(id), sleeper.wake);
    try {
      for (;;) {
        const found = await look();
        if (found !== undefined || left.aborted) return found;
        await sleeper.sleep(POLL_INTERVAL_MS, left);
      }
    } finally {
      unsubscribe();
      release();
    }
  }

  /**
   * The stored response of the first call; the time of its row if this call is the first; undefined while the first is in
   * progress.
   * @param permit is called once there was a call with this key
   * @param take takes the bytes of the response
   * @throws Problem 409; those of `permit`; 503 without memory
   */
  async function lookUp(
    id: string,
    request_hash: string,
    { userId, permit, take }: { userId: string; permit: () => Promise<void>; take: Hold['take'] },
  ): Promise<StoredResponse | number | undefined> {
    for (;;) {
      const created_at_ms = clock.now();
      const own = { id, request_hash, response: null, process: thisProcess, created_at_ms };
      if (await begun(id, () => inserted(own))) return created_at_ms;
      await permit();
      const found = await withPermit(reads, userId, () => rows.getVersioned(id));
      if (!found) continue;
      const { row, version } = found;
      if (row.request_hash !== request_hash) {
        throw conflict('idempotency_key_reused', 'This Idempotency-Key was used with another request.');
      }
      if (row.response) {
        if (!take(row.response.body.length)) throw unavailable();
        return { ...row.response, body: seal.open(row.response.body, id) };
      }
      if (unstored.has(id)) await storeEnd(id);
      else if (!abandoned(row)) return undefined;
      // Unless the row has changed since it was read: its response was stored, or another call has taken it over.
      else if (await begun(id, () => rows.replace(own, version))) return created_at_ms;
    }
  }

  async function handle(...[req, res, caller, execute]: Parameters<Idempotency['handle']>): Promise<void> {
    const key = req.headers['idempotency-key'];
    if (req.method !== 'POST' || key === undefined) return execute();
    if (typeof key !== 'string' || key.length < 1 || key.length > 255) {
      throw invalidParameter('Idempotency-Key', 'Idempotency-Key has to have 1 to 255 characters.');
    }
    const { userId, hold, maxKept = Number.POSITIVE_INFINITY } = caller;
    const id = sha256(userId, key);
    const hash = sha256(req.method, req.url ?? '', await readBody(req, LIMITS.apiBody));
    const left = new AbortController();
    onceClosed(res, () => left.abort());
    // A repetition does not need its body: small memory has no room for both.
    const take = (bytes: number) => {
      forgetBody(req);
      hold.release();
      return hold.take(bytes);
    };
    let permitted: Promise<void> | undefined;
    const permit = () => {
      permitted ??= caller.permit?.(left.signal) ?? Promise.resolve();
      return permitted;
    };
    const look = () => lookUp(id, hash, { userId, permit, take });
    const found = (await look()) ?? (await wait(id, userId, left.signal, look));
    // The client has left; this ends the request for those who wait for its end.
    if (found === undefined) return void res.end();
    if (typeof found === 'object') {
      res.writeHead(found.status, { ...found.headers, 'idempotent-replayed': 'true' });
      res.end(found.body);
      return;
    }
    const created_at_ms = found;
    captureResponse(res, (given) => {
      const response = given && given.body.length <= maxKept ? given : undefined;
      const release = memory.api.count(response?.body.length ?? 0, userId);
      return finish(id, { created_at_ms, response, release });
    });
    await execute();
  }

  return {
    handle,
    async close() {
      closing.abort();
      await withTimeout(Promise.all(attempts), CLOSE_TIMEOUT_MS);
    },
  };
}
