import { setTimeout as pause } from 'node:timers/promises';
import { parentPort, Worker, workerData } from 'node:worker_threads';
import { Agent, request } from 'undici';
import { now } from './load.ts';

interface Task {
  url: string;
  seconds: number;
  /** Calls per second. */
  rate: number;
}

export interface Measured {
  /** Latencies in ms. */
  times: number[];
  failed: number;
}

/** Calls the victim in a thread, so that work of the attacker in this process is not part of the latencies. */
export function measureVictim(task: Task): Promise<Measured> {
  const { promise, resolve, reject } = Promise.withResolvers<Measured>();
  const worker = new Worker(new URL(import.meta.url), { workerData: task });
  worker.once('message', resolve).once('error', reject);
  return promise;
}

/** Calls at a fixed rate; latencies count from the due time, so that a stall shows in all delayed calls. */
async function measure({ url, seconds, rate }: Task): Promise<Measured> {
  const agent = new Agent({ connections: 64 });
  const times: number[] = [];
  let failed = 0;
  const began = now();
  await Promise.all(
    Array.from({ length: seconds * rate }, async (_, n) => {
      const due = began + (n / rate) * 1000;
      await pause(Math.max(0, due - now()));
      const { statusCode, body } = await request(url, {
        method: 'POST',
        body: String(n),
        dispatcher: agent,
      });
      if ((await body.text()) !== String(n) || statusCode !== 200) failed += 1;
      times.push(now() - due);
    }),
  );
  await agent.close();
  return { times, failed };
}

parentPort?.postMessage(await measure(workerData as Task));
