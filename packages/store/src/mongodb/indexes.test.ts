import { expect, test } from '@jest/globals';
import type { Document } from '@wellspring/mongodb/client';
import { withServers } from '@wellspring/testing/servers/servers';
import { collections } from '../collections/all.ts';
import { apiKeys } from '../collections/users.ts';
import type { CollectionDefinition } from '../port.ts';
import { useMongoSubjects } from './store.fixture.ts';
import { filterOf } from './where.ts';

/** Every stage of a plan. */
const stagesOf = (plan: Document): Document[] => [
  plan,
  ...(plan.inputStage ? stagesOf(plan.inputStage) : []),
  ...((plan.inputStages ?? []) as Document[]).flatMap(stagesOf),
];

interface Badge {
  id: string;
  owner: string;
  number: number;
}
const badges = (indexes: CollectionDefinition<Badge>['indexes']) => ({ name: 'badges', indexes });

await withServers(['mongodb'], ({ mongodb }) => {
  const open = useMongoSubjects(mongodb);

  test('a query by the first fields of any declared index uses an index that begins with them', async () => {
    const { store, mongo } = await open();
    const unused: string[] = [];
    for (const definition of collections) {
      await store.collection(definition).count();
      for (const { fields } of definition.indexes) {
        for (let length = 1; length <= fields.length; length++) {
          const prefix = fields.slice(0, length);
          // The primary key finds one row.
          if (prefix.includes('id')) continue;
          const where = Object.fromEntries(prefix.map((field) => [field, 'value']));
          const explained = await mongo.db
            .collection(definition.name)
            .find(filterOf(definition, where))
            .explain('queryPlanner');
          const { winningPlan, rejectedPlans } = explained.queryPlanner as Document;
          const scanned = [winningPlan, ...rejectedPlans].flatMap(stagesOf);
          const isIndexed = scanned.some(
            ({ stage, keyPattern = {} }) =>
              stage === 'IXSCAN' && Object.keys(keyPattern).slice(0, length).join() === prefix.join(),
          );
          const isScan = stagesOf(winningPlan).some(({ stage }) => stage === 'COLLSCAN');
          if (!isIndexed || isScan) unused.push(`${definition.name}: ${prefix}`);
        }
      }
    }
    expect(unused).toEqual([]);
  });

  test('the look-up of an API key, also of an unknown one, reads at most one row', async () => {
    const { store, mongo } = await open();
    const rows = store.collection(apiKeys);
    await rows.insertMany(
      Array.from({ length: 200 }, (_, n) => ({
        id: `k${n}`,
        user_id: 'u_1',
        hash: `hash ${n}`,
        name: null,
        created_at: 0,
        last_used_at: null,
      })),
    );
    await mongo.db.command({ profile: 2 });
    expect((await rows.find({ hash: 'hash 150' }))?.id).toBe('k150');
    expect(await rows.find({ hash: 'unknown' })).toBeUndefined();
    await mongo.db.command({ profile: 0 });
    const finds = await mongo.db
      .collection('system.profile')
      .find({ 'command.find': apiKeys.name })
      .toArray();
    expect(finds.map(({ keysExamined, docsExamined }) => [keysExamined, docsExamined])).toEqual([
      [1, 1],
      [0, 0],
    ]);
  });

  test('a database whose indexes an earlier version made gets the plain one of a unique index; it is not stale', async () => {
    const { another, mongo } = await open();
    const definition = badges([{ fields: ['owner', 'number'], unique: true }, { fields: ['number'] }]);
    const names = async () => (await mongo.db.collection('badges').indexes()).map(({ name }) => name).sort();
    await mongo.db
      .collection<{ _id: string; value: string }>('meta')
      .insertOne({ _id: 'collection:badges', value: JSON.stringify(definition.indexes) });
    const { store } = await another();
    await store.collection(definition).insert({ id: 'b', owner: 'o', number: 1 });
    const all = ['_id_', 'i_number', 'i_owner_number', 'u_owner_number'];
    expect(await names()).toEqual(all);
    expect(await store.dropStaleIndexes(definition)).toEqual([]);
    expect(await names()).toEqual(all);
  });

  test('a unique index whose fields another index begins with needs no index of its own', async () => {
    const { store, mongo } = await open();
    const definition = badges([
      { fields: ['owner'], unique: true },
      { fields: ['owner', 'number'], unique: true },
    ]);
    await store.collection(definition).insert({ id: 'b', owner: 'o', number: 1 });
    const names = (await mongo.db.collection('badges').indexes()).map(({ name }) => name).sort();
    expect(names).toEqual(['_id_', 'i_owner_number', 'u_owner', 'u_owner_number']);
  });
});
