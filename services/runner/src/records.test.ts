import { describe, expect, test } from '@jest/globals';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import { subscriptionRow } from '@wellspring/testing/rows';
import { ECHO, usePlatform } from './platform.fixture.ts';
import { type RunContext, waitedLong } from './records.ts';

const t = usePlatform();

test('a run whose output waited for long says so, and one that waited shortly does not', () => {
  const run = { run_id: 'run_0000000001' } as RunContext;
  expect(waitedLong(run, 900, 1)).toEqual([]);
  expect(waitedLong(run, 12_300, 1)).toMatchObject([
    { level: 'warn', execution_id: run.run_id, msg: expect.stringContaining('waited 12 s') },
  ]);
});

describe('records', () => {
  test('every run stores its start, its log lines, and its end with counts', async () => {
    const id = await t.deploy(`export default { name: 'Talking', dedupe: 'unique', run(event) {
      console.log('said', event);
      this.$emit(1, { id: 1, summary: 'one', name: 'channel' });
      this.$emit(1, { id: 1, name: 'channel' });
      this.$emit(2);
    } };`);
    const [runId] = await t.runToEnd(id, ['x']);
    const records = await t.logs(id);
    expect(records.map(({ k }) => k)).toEqual(['start', 'log', 'emit', 'emit', 'emit', 'log', 'end']);
    expect(records.every((record) => record.execution_id === runId)).toBe(true);
    expect(records[1]).toMatchObject({ level: 'info', msg: 'said x' });
    expect(records[2]).toMatchObject({ en: 'channel', msg: 'one' });
    expect(records[5]).toMatchObject({ level: 'error', msg: expect.stringMatching(/without id/) });
    expect(records[6]).toMatchObject({ emitted: 1, deduped: 2, duration_ms: expect.any(Number) });
  });

  test('$logs are emitted only to subscribers, and never those of a run triggered by a record', async () => {
    const id = await t.deploy(ECHO);
    await t.runToEnd(id, [1]);
    expect(t.publishedPayloads('$logs')).toEqual([]);
    const ends = { emitter_id: id, listener_id: 'wh_0000000001' };
    await t.store.collection(subscriptions).insert(subscriptionRow({ ...ends, event_name: '$logs' }));
    await t.runToEnd(id, [2]);
    expect(t.publishedPayloads('$logs').map(({ k }) => k)).toEqual(['start', 'emit', 'end']);
    t.published.length = 0;
    const event = {
      kind: 'event' as const,
      payload: '3',
      emitter_id: 'dc_x',
      event_id: '1-0',
      event_name: '$errors',
    };
    await t.triggerToEnd(id, event);
    expect(t.publishedPayloads('$logs')).toEqual([]);
    expect(await t.events(id)).toEqual([1, 2, 3]);
  });

  test('of another service are put on the channel once', async () => {
    const id = await t.deploy(ECHO);
    const job = {
      run_id: 'run_0000000001',
      source_id: id,
      channel: '$errors' as const,
      payload: '{"error":{}}',
      hop: 0,
    };
    await t.record(job);
    await t.record(job);
    await t.quiet();
    expect(await t.events(id, '$errors')).toEqual([{ error: {} }]);
    // A record may be published twice, with the same id.
    const published = t.published.flatMap((message) =>
      message.events.map(({ name, event_id }) => `${name} ${event_id}`),
    );
    expect(new Set(published).size).toBe(1);
  });
});
