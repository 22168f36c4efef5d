import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { eventually } from './eventually.ts';
import { endpointOf, platform, post, sink, usePlatform } from './platform.fixture.ts';

/** A backlog of large calls must not end the process: what is in memory does not depend on it. */

const SOURCES = 20;
const CALLS = 66;
const TEXT = 'x'.repeat(500 * 1024 - 100);

usePlatform({
  nodeFlags: ['--max-old-space-size=1024'],
  env: {
    WELLSPRING_ISOLATION: 'none',
    WELLSPRING_ENDPOINT_RATE: '0',
    WELLSPRING_CODE_ALLOW_NETWORKS: '127.0.0.0/8',
  },
});

/** Its runs do not end before the URL answers. */
const waitingFor = (url: string) => `export default {
  name: 'Slow',
  props: { http: '$.interface.http' },
  async run({ body }) {
    await (await fetch('${url}')).text();
    this.$emit({ length: body.text.length });
  },
};`;

async function deploy(code: string): Promise<{ id: string; url: string }> {
  const source = await platform.client.createSource({ component_code: code });
  return { id: source.id, url: endpointOf(source) };
}

/** Repeats a call that is refused. */
async function call(url: string): Promise<void> {
  for (;;) {
    const answer = await post(url, { text: TEXT });
    if (answer.status === 200) return;
    expect(answer.status).toBe(503);
    await pause(Number(answer.headers['retry-after']) * 100);
  }
}

async function waitingRuns(): Promise<number> {
  const text = await (await fetch(`${platform.adminUrl}/metrics`)).text();
  return Number(/^wellspring_queue_depth\{queue="runs"\} (\S+)$/m.exec(text)?.[1]);
}

test('20 slow sources with 66 calls of 500 KB each do not exhaust a heap of 1 GB, also after a restart, and each run is executed', async () => {
  const released = Promise.withResolvers<void>();
  sink.answer(async () => {
    await released.promise;
    return {};
  });
  const code = waitingFor(sink.url);
  const sources: { id: string; url: string }[] = [];
  for (let n = 0; n < SOURCES; n += 1) sources.push(await deploy(code));
  await Promise.all(
    sources.map(async ({ url }) => {
      for (let n = 0; n < CALLS; n += 6) await Promise.all(Array.from({ length: 6 }, () => call(url)));
    }),
  );
  expect(await waitingRuns()).toBeGreaterThan(SOURCES);
  await platform.end('SIGKILL');
  await platform.start();
  released.resolve();
  const { pid } = platform;
  await eventually(async () => (await waitingRuns()) === 0, { ms: 200_000, every: 500 });
  expect(platform.pid).toBe(pid);
  for (const { id } of sources) {
    expect((await platform.client.listSourceEvents({ id, limit: 100 })).data).toHaveLength(CALLS);
  }
}, 280_000);
