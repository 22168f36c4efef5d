import { setImmediate as nextTurn } from 'node:timers/promises';

/** Reads of one batch; more wait until one of them is answered. */
const BATCHES = 2;
const MOST_IDS = 200;

/**
 * Gives a function that reads one document, with those which others ask for in the same turn, and while others are
 * under way, in one statement. What was written before the call is seen.
 * @param find the documents that are there, of at most MOST_IDS
 */
export function shareReads<D extends { _id: string }>(
  find: (ids: string[]) => Promise<D[]>,
): (id: string) => Promise<D | undefined> {
  let wanted = new Map<string, PromiseWithResolvers<D | undefined>>();
  let underWay = 0;

  async function read(): Promise<void> {
    await nextTurn();
    while (wanted.size > 0) {
      const batch = new Map([...wanted].slice(0, MOST_IDS));
      wanted = new Map([...wanted].slice(MOST_IDS));
      try {
        const found = new Map((await find([...batch.keys()])).map((document) => [document._id, document]));
        for (const [id, { resolve }] of batch) resolve(found.get(id));
      } catch (error) {
        for (const { reject } of batch.values()) reject(error);
      }
    }
    underWay -= 1;
  }

  return (id) => {
    let reading = wanted.get(id);
    if (!reading) {
      reading = Promise.withResolvers();
      wanted.set(id, reading);
    }
    if (underWay < BATCHES && wanted.size > 0) {
      underWay += 1;
      void read();
    }
    return reading.promise;
  };
}
