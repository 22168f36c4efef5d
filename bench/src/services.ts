import { setTimeout as pause } from 'node:timers/promises';
import type { Cluster } from '@wellspring/testing/cluster';
import { PASS_ON } from './platform.ts';
import { cpuOf } from './processes.ts';

const STREAMS = 200;
const EVENTS = 100;
const PER_SECOND = 20;
const TIMERS = 50;
const TICKS_MS = 10_000;

const TICK = `export default {
  name: 'tick',
  props: { timer: { type: '$.interface.timer', default: { intervalSeconds: 1 } } },
  run() {},
};`;

/** Cost of streams and timers, which are outside of the pipeline to a webhook. */
export async function measureServices(cluster: Cluster): Promise<void> {
  const cpu = (service: 'gateway' | 'events' | 'sources') => cpuOf(cluster.of(service)[0]!.pid!).itself;
  const ms = (seconds: number, per: number) => ((seconds / per) * 1000).toFixed(3);

  const source = await cluster.client.createSource({ component_code: PASS_ON });
  const { endpoint_url } = source.configured_props.http as { endpoint_url: string };
  const call = () => fetch(endpoint_url, { method: 'POST', body: 'x'.repeat(1000) });
  await call();
  const ending = new AbortController();
  let seen = 0;
  const [opened, all] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const streams = Array.from({ length: STREAMS }, async () => {
    const options = { signal: ending.signal };
    const events = await cluster.client.streamSource({ id: source.id, last_event_id: '0-0' }, options);
    for await (const _ of events) {
      seen += 1;
      if (seen === STREAMS) opened.resolve();
      if (seen === STREAMS * (EVENTS + 1)) all.resolve();
    }
  });
  await opened.promise;
  const before = { events: cpu('events'), gateway: cpu('gateway') };
  for (let n = 0; n < EVENTS; n++) {
    await call();
    await pause(1000 / PER_SECOND);
  }
  await all.promise;
  const [events, gateway] = [cpu('events') - before.events, cpu('gateway') - before.gateway];
  ending.abort();
  await Promise.allSettled(streams);
  console.log(
    `  ${STREAMS} streams of one source, ${EVENTS} events of 1 KB: ms of processor for each event of each stream: events ${ms(events, STREAMS * EVENTS)}, gateway ${ms(gateway, STREAMS * EVENTS)}`,
  );

  await Promise.all(
    Array.from({ length: TIMERS }, () => cluster.client.createSource({ component_code: TICK })),
  );
  await pause(2_000);
  const sources = cpu('sources');
  await pause(TICKS_MS);
  console.log(
    `  ${TIMERS} timers of 1 s: ms of processor for each tick: sources ${ms(cpu('sources') - sources, (TIMERS * TICKS_MS) / 1000)}`,
  );
}
