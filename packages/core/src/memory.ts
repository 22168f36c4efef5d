import { type ByteBudget, createByteBudget } from './byte-budget.ts';

/** Byte budgets of one process, for texts of jobs, events and bodies. Parsed, they take several times as much. */
export interface Memory {
  /** Bodies of calls that are being read or are not durable yet. When it is used up, calls get 503. */
  intake: ByteBudget;
  /** Bodies of API requests in progress, components fetched for them, and large answers that have not been sent yet. When it is used up, requests get 503. */
  api: ByteBudget;
  /**
   * What anyone may ask for: large replies of runs and files of calls that have not been sent yet. When it is used up, such
   * requests get 503.
   */
  replies: ByteBudget;
  /** Jobs of the queue `runs` that are handed out. */
  runs: ByteBudget;
  /** Jobs of the queue `emitted` that are handed out. */
  emitted: ByteBudget;
  /** Jobs in memory that wait to be handed out. */
  waiting: ByteBudget;
  /** Output of runs that is not committed yet, and definitions and options that are not answered yet. */
  effects: ByteBudget;
  /** Deployments in use by runs and hooks, and code that is compiled, configured or tested without being saved. */
  deployments: ByteBudget;
  /** States of sources that no run uses. When it is used up, the least recently used ones are dropped. */
  states: ByteBudget;
  /** Messages that the broker has not confirmed. */
  publishers: ByteBudget;
  /** Payloads of attempts under way. */
  delivery: ByteBudget;
  /** Pages of events that are replayed. */
  replays: ByteBudget;
  /** Frames that slow readers of streams have not taken. When it is used up, their streams end. */
  streams: ByteBudget;
}

/** Of the heap. */
const SHARES = {
  intake: 1 / 16,
  api: 1 / 16,
  replies: 1 / 32,
  runs: 1 / 16,
  emitted: 1 / 32,
  waiting: 1 / 16,
  effects: 1 / 16,
  deployments: 1 / 16,
  states: 1 / 16,
  publishers: 1 / 32,
  delivery: 1 / 16,
  replays: 1 / 32,
  streams: 1 / 32,
} satisfies Record<keyof Memory, number>;
const MB = 1024 * 1024;
/** A message has up to 6 MB. */
const MIN_BYTES = 8 * MB;
/** A body of 6 MB is taken in pieces, of which one owner gets half. */
const MIN_API_BYTES = 16 * MB;

/** @param heapBytes what the heap of this process may hold */
export function createMemory(heapBytes: number): Memory {
  const budgets = Object.entries(SHARES).map(([use, share]) => {
    const least = use === 'api' ? MIN_API_BYTES : MIN_BYTES;
    return [use, createByteBudget(Math.max(least, Math.floor(heapBytes * share)))];
  });
  return Object.fromEntries(budgets) as Memory;
}
