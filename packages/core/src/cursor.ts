import { invalidParameter } from './problem.ts';

/** A cursor is the unpadded base64url of the id of the last item. */
export const encodeCursor = (id: string): string => Buffer.from(id).toString('base64url');

/** Ids of runs of listeners end in a number. */
const ID = /^[a-z]{1,5}_[0-9A-Za-z]{1,40}(-\d{1,9})?$/;
const EVENT_ID = /^\d{1,15}-\d{1,9}$/;

/**
 * The id that a cursor stands for; padding is tolerated. The item may have been deleted.
 * @param kind `event` also takes the raw event id
 * @throws Problem 400
 */
export function decodeCursor(cursor: string, param: 'after' | 'before', kind: 'id' | 'event' = 'id'): string {
  const form = kind === 'event' ? EVENT_ID : ID;
  if (kind === 'event' && EVENT_ID.test(cursor)) return cursor;
  if (/^[A-Za-z0-9_+/-]+={0,2}$/.test(cursor)) {
    const id = Buffer.from(cursor, 'base64url').toString('utf8');
    if (form.test(id)) return id;
  }
  throw invalidParameter(param, `${param} is not a cursor of this list.`);
}
