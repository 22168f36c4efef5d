import { Unavailable } from '@wellspring/core/unavailable';
import {
  MongoBulkWriteError,
  MongoNetworkError,
  MongoNotConnectedError,
  MongoServerError,
  MongoServerSelectionError,
  MongoTopologyClosedError,
  MongoWriteConcernError,
} from 'mongodb';

/**
 * Codes of a server that is there but cannot serve at the moment: it is going down, has lost its primary, cannot
 * reach a majority in time, or did not finish in time.
 */
const TRANSIENT = new Set([
  6, 7, 50, 64, 89, 91, 100, 133, 134, 189, 202, 262, 9001, 10107, 11600, 11602, 13388, 13435, 13436,
]);

const DUPLICATE_KEY = 11000;

function isTransient(error: unknown): boolean {
  if (error instanceof MongoBulkWriteError && [error.writeErrors].flat().length === 0) {
    // The driver puts everything that befalls a batch into this class; what no server said has no code.
    if (error.code === undefined || error.result.getWriteConcernError()) return true;
  }
  if (error instanceof MongoServerError) {
    if (error instanceof MongoWriteConcernError) return true;
    return TRANSIENT.has(Number(error.code)) || error.hasErrorLabel('RetryableWriteError');
  }
  return (
    error instanceof MongoNetworkError ||
    error instanceof MongoServerSelectionError ||
    error instanceof MongoTopologyClosedError ||
    error instanceof MongoNotConnectedError ||
    // The driver does not export its class.
    (error as Error).name === 'MongoWaitQueueTimeoutError'
  );
}

/**
 * Waits for the server. Whatever says that it does not answer becomes Unavailable; a write that fails so may have
 * been done all the same. @throws Unavailable, or what the server complains of
 */
export async function answered<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!isTransient(error)) throw error;
    throw new Unavailable(`MongoDB does not answer: ${(error as Error).message}`, { cause: error });
  }
}

/** A write of a batch that the server refused. */
export interface Refusal {
  /** Which write of the batch. */
  index: number;
  /** It met a value which is there already. */
  isDuplicate: boolean;
  /** The server's sentence, without the values: of a duplicate, it names the index. */
  message: string;
}

/**
 * The writes that the server refused, when it carried out the write or batch of writes: all others are done, up to the
 * first refused one in a batch that is ordered.
 * @throws Unavailable when the others are not known to be durable; the error itself when it says nothing of writes
 */
export function refusalsOf(error: unknown): Refusal[] {
  const writeErrors =
    error instanceof MongoBulkWriteError
      ? [error.writeErrors].flat()
      : error instanceof MongoServerError && error.code === DUPLICATE_KEY
        ? [{ index: 0, code: error.code, errmsg: error.message }]
        : [];
  if (writeErrors.length === 0) throw error;
  if (error instanceof MongoBulkWriteError) {
    const late = error.result.getWriteConcernError();
    if (late) throw new Unavailable(`MongoDB does not answer: ${late.errmsg}`, { cause: error });
  }
  const transient = writeErrors.find(({ code }) => TRANSIENT.has(Number(code)));
  if (transient) throw new Unavailable(`MongoDB does not answer: ${transient.errmsg}`, { cause: error });
  return writeErrors.map(({ index, code, errmsg = '' }) => ({
    index,
    isDuplicate: code === DUPLICATE_KEY,
    message: errmsg.replace(/ dup key: .*$/s, ''),
  }));
}

/** As refusalsOf, when all of them are duplicates. @throws also the error when one is not */
export function duplicatesOf(error: unknown): Refusal[] {
  const refusals = refusalsOf(error);
  if (refusals.some(({ isDuplicate }) => !isDuplicate)) throw error;
  return refusals;
}
