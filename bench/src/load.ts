import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';

/** Results of one round. */
export interface Round {
  /** Events per second, from the first request to the last delivery. */
  rate: number;
  /** Latency of responses, ms. */
  acceptP50: number;
  acceptP99: number;
  /** From the request to the arrival at the receiver, ms. */
  deliveredP50: number;
  deliveredP99: number;
  lost: number;
  duplicated: number;
}

export const now = (): number => Number(process.hrtime.bigint() / 1000n) / 1000;

export const percentile = (sorted: readonly number[], p: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * p) / 100))] ?? Number.NaN;

/** Time and number of arrivals of each event. */
export class Ledger {
  readonly arrivals = new Map<number, { at: number; times: number }>();

  add(batch: readonly [n: number, at: number][]): void {
    for (const [n, at] of batch) {
      const known = this.arrivals.get(n);
      if (known) known.times += 1;
      else this.arrivals.set(n, { at, times: 1 });
    }
  }
}

const CONNECTIONS = 64;
const PADDING = 'x'.repeat(960);
/** How long the last deliveries may take after the last request. */
const DRAIN_MS = 30_000;

export interface Offer {
  /** Used in turn. */
  urls: readonly string[];
  /** Events per second at even intervals; default: as fast as they are answered. */
  perSecond?: number;
}

/**
 * Sends `count` events of 1 KB over 64 connections and waits for their delivery. At a given rate, latencies count from
 * the due time, so that a stall shows in all delayed events.
 */
export async function offer(
  { urls, perSecond }: Offer,
  ledger: Ledger,
  first: number,
  count: number,
): Promise<Round> {
  const pools = urls.map((url) => ({
    path: new URL(url).pathname,
    pool: new Pool(new URL(url).origin, { connections: Math.ceil(CONNECTIONS / urls.length) }),
  }));
  const sentAt = new Map<number, number>();
  const accepted: number[] = [];
  let next = first;
  const begun = now();
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async (_, connection) => {
      const { pool, path } = pools[connection % pools.length]!;
      while (next < first + count) {
        const n = next++;
        const at = perSecond === undefined ? now() : begun + ((n - first) / perSecond) * 1000;
        if (at > now()) await pause(Math.ceil(at - now()));
        sentAt.set(n, at);
        const { statusCode, body } = await pool.request({
          path,
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ n, padding: PADDING }),
        });
        await body.dump();
        if (statusCode !== 200) throw new Error(`answered ${statusCode}`);
        accepted.push(now() - at);
      }
    }),
  );
  const deadline = now() + DRAIN_MS;
  const missing = () => [...sentAt.keys()].filter((n) => !ledger.arrivals.has(n)).length;
  while (missing() > 0 && now() < deadline) await pause(20);
  await Promise.all(pools.map(({ pool }) => pool.close()));

  const arrivals = [...sentAt.keys()].flatMap((n) => ledger.arrivals.get(n) ?? []);
  const last = Math.max(...arrivals.map(({ at }) => at));
  const latencies = [...sentAt].flatMap(([n, at]) => {
    const arrival = ledger.arrivals.get(n);
    return arrival ? [arrival.at - at] : [];
  });
  latencies.sort((a, b) => a - b);
  accepted.sort((a, b) => a - b);
  return {
    rate: (arrivals.length / (last - begun)) * 1000,
    acceptP50: percentile(accepted, 50),
    acceptP99: percentile(accepted, 99),
    deliveredP50: percentile(latencies, 50),
    deliveredP99: percentile(latencies, 99),
    lost: count - arrivals.length,
    duplicated: arrivals.reduce((sum, { times }) => sum + times - 1, 0),
  };
}
