import { startPlatform } from '@wellspring/testing/platform';
import { tempDir } from '@wellspring/testing/temp-dir';
import { Ledger, offer } from './load.ts';
import { deployRoad } from './platform.ts';
import { startModule } from './processes.ts';

const SECONDS = Number(process.env.BENCH_SECONDS ?? 25);
/** Calls per second of the other source. */
const OTHER_RATE = 5;

/** Slow webhooks of the source, ms until they answer, calls per second. */
const CASES: [count: number, delay: number | 'never', rate: number][] = [
  [0, 0, 20],
  [1, 900, 150],
  [1, 50, 200],
  [8, 900, 20],
  [8, 300, 40],
  [40, 900, 6],
  [100, 900, 5],
  [160, 'never', 5],
];

/** Latency of a webhook that answers, while others of its source are slow; and of a webhook of another source. */
export async function measureSlowWebhooks(): Promise<void> {
  const ledger = new Ledger();
  const receiver = await startModule('./receiver.ts', [], ({ batch }: { batch: [number, number][] }) =>
    ledger.add(batch),
  );
  const slowReceiver = await startModule('./slow-receiver.ts', [], () => {});
  const url = `http://127.0.0.1:${receiver.port}/`;
  console.log(`\n${SECONDS} s each; from call to delivery, p50/p99 in ms\n`);
  console.log(
    `${'slow webhooks'.padEnd(32)}${'same source'.padStart(18)}${'another source'.padStart(18)}  lost twice`,
  );
  let first = 0;
  try {
    for (const [count, delay, rate] of CASES) {
      await using dir = await tempDir();
      const platform = await startPlatform({ dataDir: dir.path, env: { WELLSPRING_API_RATE: '0' } });
      try {
        const { client } = platform;
        const slow = Array<string>(count).fill(`http://127.0.0.1:${slowReceiver.port}/${delay}`);
        const endpoint = await deployRoad(client, url, ...slow);
        const other = await deployRoad(client, url);
        const rounds = [];
        for (const [target, perSecond] of [
          [endpoint, rate],
          [other, OTHER_RATE],
        ] as const) {
          rounds.push(offer({ urls: [target], perSecond }, ledger, first, SECONDS * perSecond));
          first += SECONDS * perSecond;
        }
        const measured = await Promise.all(rounds);
        const cells = measured.map(({ deliveredP50, deliveredP99 }) =>
          `${deliveredP50.toFixed(0)} / ${deliveredP99.toFixed(0)}`.padStart(18),
        );
        const sum = (field: 'lost' | 'duplicated') =>
          String(measured.reduce((total, round) => total + round[field], 0)).padStart(6);
        const name = `${count} × ${delay}${delay === 'never' ? '' : ' ms'}, ${rate} calls/s`;
        console.log(`${name.padEnd(32)}${cells.join('')}${sum('lost')}${sum('duplicated')}`);
      } finally {
        await platform.end('SIGTERM');
      }
    }
  } finally {
    receiver.child.disconnect();
    slowReceiver.child.disconnect();
  }
}
