import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { withServers } from '@wellspring/testing/servers/servers';
import { createBatches } from './batches.ts';
import type { StoredRow } from './row.ts';
import { useMongoSubjects } from './store.fixture.ts';

await withServers(['mongodb'], ({ mongodb }) => {
  const open = useMongoSubjects(mongodb);

  test.each(['replaces', 'removes'])(
    'it is unknown whether a row was updated that another process %s before the outcome is read',
    async (other) => {
      const { mongo } = await open();
      const rows = mongo.db.collection<StoredRow>('notes');
      await rows.insertMany(['written', 'kept', 'unmatched'].map((_id) => ({ _id, _v: 1, rank: 0 })));
      let statements = 0;
      const batches = createBatches(async (work) => {
        statements += 1;
        if (statements === 2) {
          expect(await rows.findOne({ _id: 'written' })).toMatchObject({ rank: 1 });
          await rows.deleteOne({ _id: 'written' });
          if (other === 'replaces') await rows.insertOne({ _id: 'written', _v: 3, rank: 9 });
        }
        return work(rows);
      });
      const update = (_id: string, rank: number) =>
        batches.update({ _id, filter: { rank }, change: { $set: { rank: 1 } } });
      const outcomes = await Promise.allSettled([
        update('written', 0),
        update('kept', 0),
        update('unmatched', 7),
      ]);
      expect(outcomes).toMatchObject([
        { reason: expect.any(Unavailable) },
        { value: true },
        { reason: expect.any(Unavailable) },
      ]);
      expect(statements).toBe(2);
    },
  );
});
