import { expect, test } from '@jest/globals';
import { createLoad } from './crash.ts';
import { eventually } from './eventually.ts';
import { checkPipeline, deployPipeline } from './pipeline.fixture.ts';
import { startPlatform } from './platform.ts';
import { smallDisk } from './small-disk.ts';
import { createWebhookSink } from './webhook-sink.ts';

const runsOf = async (url: string): Promise<number> => {
  const text = await (await fetch(`${url}/metrics`)).text();
  const found = text.matchAll(/^wellspring_runs_total\{[^}]*\} (\d+)$/gm);
  return [...found].reduce((sum, [, count]) => sum + Number(count), 0);
};

test('while the disk is full, calls are answered with 503 and no code is executed again; then nothing is lost', async () => {
  await using disk = await smallDisk(96);
  if (!disk) return;
  const sink = await createWebhookSink();
  const platform = await startPlatform({
    dataDir: disk.path,
    env: { WELLSPRING_RETAIN_EVENTS: '1000000' },
  });
  try {
    const pipeline = await deployPipeline(platform, sink);
    const loads = [
      createLoad('p', [platform.url + pipeline.plain.path], 4),
      createLoad('c', [platform.url + pipeline.counting.path], 4),
    ] as const;
    const failing = () => loads[0].failed + loads[1].failed;
    for (let round = 1; round <= 2; round++) {
      await loads[0].acceptedMore(100);
      await disk.fill();
      const before = failing();
      await eventually(() => failing() > before + 20, { ms: 60_000 });
      const refused = await fetch(platform.url + pipeline.plain.path, {
        method: 'POST',
        body: JSON.stringify({ id: `refused${round}`, padding: 'x'.repeat(200_000) }),
      });
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, expect.any(String)]);
      expect((await fetch(`${platform.url}/ready`)).status).toBe(503);
      // Each call in progress is executed once; later, while probes go on, none is.
      const executed = await runsOf(platform.adminUrl);
      const probes = failing();
      await eventually(() => failing() > probes + 300, { ms: 60_000 });
      expect((await runsOf(platform.adminUrl)) - executed).toBeLessThan(64);
      expect((await fetch(`${platform.url}/ready`)).status).toBe(503);
      await disk.free();
      await platform.ready();
    }
    await loads[1].acceptedMore(20);
    await Promise.all(loads.map((load) => load.stop()));
    const { emitted } = await checkPipeline(platform, pipeline, loads, sink);
    // Events of the plain and the counting source, of the listening source and the steps of the workflow.
    expect(await runsOf(platform.adminUrl)).toBeLessThan(emitted * 1.1);
  } finally {
    await platform.end('SIGKILL');
    await sink.close();
  }
}, 300_000);
