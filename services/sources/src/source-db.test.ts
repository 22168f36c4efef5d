import { expect, test } from '@jest/globals';
import type { DbJob } from '@wellspring/contract/messages';
import { sources } from '@wellspring/store/collections/sources';
import { states } from '@wellspring/store/collections/states';
import { sourceRow } from '@wellspring/testing/rows';
import { BOB, callApi, useHarness } from '@wellspring/testing/service-harness';
import { createSourcesService } from './service.ts';

const t = useHarness();
const ID = 'dc_0000000001';
const PATH = `/sources/${ID}/db`;

const start = async () => {
  await t.store.collection(sources).insert(sourceRow({ id: ID }));
  const state = { epoch: 1, dedupe: {}, last_ids: {} };
  await t.store.collection(states).insert({ id: ID, db: { n: '1', 'a.b': '{"x":[null]}' }, ...state });
  return createSourcesService(t as never);
};

/** Answers changes as the runner does. */
function answerWith(kind: 'none' | 'refused') {
  const jobs: DbJob[] = [];
  const stop = new AbortController();
  const done = t.queue.consume(
    'runs',
    async ([job]) => {
      const message = JSON.parse(job.payload) as DbJob;
      jobs.push(message);
      t.call.reply(message.reply_to, { kind });
    },
    { signal: stop.signal },
  );
  return { jobs, end: () => Promise.resolve(stop.abort()).then(() => done) };
}

test('the values are read as JSON', async () => {
  const service = await start();
  expect((await callApi(service, 'GET', PATH)).json.data).toEqual({ n: 1, 'a.b': { x: [null] } });
});

test('a change waits for the answer of the runner', async () => {
  const service = await start();
  const runner = answerWith('none');
  const put = await callApi(service, 'PUT', PATH, { body: { data: { cursor: 7, gone: null } } });
  expect([put.status, put.json.data]).toEqual([200, { cursor: 7, gone: null }]);
  expect((await callApi(service, 'DELETE', PATH)).status).toBe(204);
  await runner.end();
  expect(runner.jobs).toMatchObject([{ source_id: ID, db: { cursor: '7', gone: 'null' } }, { db: {} }]);
});

test('bad values are refused before anything is queued', async () => {
  const service = await start();
  for (const body of [
    {},
    { data: null },
    { data: [1] },
    { data: 'x' },
    { data: { key: 'x'.repeat(70_000) } },
  ]) {
    const answer = await callApi(service, 'PUT', PATH, { body });
    expect([answer.status, answer.json.param]).toEqual([400, 'data']);
  }
  expect(await t.queue.depth('runs')).toBe(0);
});

test('the source of another owner, and one deleted meanwhile, are 404', async () => {
  const service = await start();
  for (const method of ['GET', 'PUT', 'DELETE'] as const) {
    const body = method === 'PUT' ? { body: { data: {} } } : {};
    expect((await callApi(service, method, PATH, { ...body, as: BOB })).status).toBe(404);
  }
  const runner = answerWith('refused');
  expect((await callApi(service, 'PUT', PATH, { body: { data: {} } })).status).toBe(404);
  await runner.end();
});
