import { AccessDenied, Unavailable } from '@wellspring/core/unavailable';
import {
  MongoBulkWriteError,
  MongoNetworkError,
  MongoNotConnectedError,
  MongoServerError,
  MongoServerSelectionError,
  MongoTopologyClosedError,
  MongoWriteConcernError,
} from 'mongodb';

/** Error codes of a server that takes no writes: full disk, quota of the disk or of the hosting service, writes blocked. */
const NO_ROOM = [39, 371, 8000, 12501, 14031, 16500];
/**
 * Error codes of a temporarily unavailable server: shutdown, election, no majority, timeout, a cursor that ended with a
 * process, or a full cache.
 */
const TRANSIENT = new Set([
  ...NO_ROOM,
  6,
  7,
  43,
  50,
  64,
  89,
  91,
  100,
  133,
  134,
  189,
  202,
  262,
  365,
  9001,
  10107,
  11600,
  11602,
  13388,
  13435,
  13436,
]);

const DUPLICATE_KEY = 11000;
const UNAUTHORIZED = 13;
/** Error codes of a new connection whose user is unknown or has another password by now. */
const NOT_AUTHENTICATED = [11, 18];
/** Error codes of a server that takes no writes until an operator acts. */
const NO_WRITES = [...NO_ROOM, UNAUTHORIZED, ...NOT_AUTHENTICATED];

function isTransient(error: unknown): boolean {
  if (error instanceof MongoBulkWriteError && [error.writeErrors].flat().length === 0) {
    // The driver wraps every error of a batch in this class; errors not sent by the server have no code.
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
    // The driver does not export the class.
    (error as Error).name === 'MongoWaitQueueTimeoutError'
  );
}

/**
 * Translates transient errors to Unavailable. A write that fails with Unavailable may have been executed. A user without
 * the right, or whose password was changed, becomes AccessDenied, whose message says what an operator has to do.
 */
export async function translateErrors<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof MongoServerError && error.code === UNAUTHORIZED) {
      // Without the text of the command, which has values.
      const reason = error.message.replace(/ \{.*$/s, '');
      throw new AccessDenied(
        `MongoDB refuses an operation: ${reason}. The user in the URL needs the role readWrite on its database.`,
        { cause: error },
      );
    }
    if (error instanceof MongoServerError && NOT_AUTHENTICATED.includes(Number(error.code))) {
      throw new AccessDenied(
        `MongoDB refuses the user in the URL: ${error.message.replace(/\.$/, '')}. Set its present name and password, and restart the process.`,
        { cause: error },
      );
    }
    if (!isTransient(error)) throw error;
    throw new Unavailable(`MongoDB does not answer: ${(error as Error).message}`, { cause: error });
  }
}

/** Whether the error, or its cause, says that the server takes no writes: it has no room, or the user has no right. */
export function refusesWrites(error: unknown): boolean {
  const { code, writeErrors, cause } = (error ?? {}) as Record<string, unknown>;
  const codes = [
    code,
    ...[(writeErrors as { code?: number }[] | undefined) ?? []].flat().map((one) => one.code),
  ];
  return (
    codes.some((one) => NO_WRITES.includes(Number(one))) || (cause !== undefined && refusesWrites(cause))
  );
}

/** A refused write of a batch. */
export interface Refusal {
  /** Index of the write in the batch. */
  index: number;
  /** It violates a unique index. */
  isDuplicate: boolean;
  /** The server's message without values; for a duplicate it names the index. */
  message: string;
}

/**
 * The refused writes of a batch. All others were executed; in an ordered batch only those before the first refused one.
 * @throws Unavailable if the others may not be durable; the error itself if it contains no refusals
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

/** Like refusalsOf. @throws the error itself if one is not a duplicate */
export function duplicatesOf(error: unknown): Refusal[] {
  const refusals = refusalsOf(error);
  if (refusals.some(({ isDuplicate }) => !isDuplicate)) throw error;
  return refusals;
}
