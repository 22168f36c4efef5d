import { setTimeout as pause } from 'node:timers/promises';
import type { Cluster } from './cluster.ts';
import type { Load } from './crash.ts';
import type { TestServer } from './servers/server.ts';

/** A kill of processes or of a server. */
export interface Strike {
  what: string;
  /** Process of a service, or server. */
  kind: 'process' | TestServer['name'];
  /** How many processes and servers died. */
  kills: number;
  outageMs: number;
}

export interface Healed extends Strike {
  /** From the restart until every gateway accepts calls, in ms. */
  healedMs: number;
}

export interface ChaosOptions {
  cluster: Cluster;
  servers: readonly TestServer[];
  /** One for each gateway. */
  loads: readonly Load[];
  random: () => number;
  /** How many strikes at most. */
  strikes: number;
  /** Ends after this many deaths. */
  kills: number;
  /** Strikes of earlier calls. */
  before?: number;
  /** Longest outage of a server, in ms; the shortest is 1 s. */
  longestOutageMs: number;
  onStrike?(healed: Healed): void;
}

/** Every third strike hits a server, so that a short run hits each of them, too. */
const SERVER_EACH = 3;
/** Calls that each gateway accepts before the next strike. */
const CALLS = 20;
/** How often a process dies with a server. */
const PROCESS_AND_SERVER_RATIO = 0.25;
/** Processes that die at the same time. */
const MAX_KILLS_AT_ONCE = 3;

/**
 * Kills processes of the platform and their servers, one after the other, at random moments, and waits each time until
 * every gateway accepts calls.
 */
export async function strike({
  cluster,
  servers,
  loads,
  random,
  strikes,
  kills,
  before = 0,
  longestOutageMs,
  onStrike = () => {},
}: ChaosOptions): Promise<Healed[]> {
  const results: Healed[] = [];
  const anyProcess = () => {
    const all = cluster.processes;
    return all[Math.floor(random() * all.length)]!;
  };
  const names = new Map(cluster.processes.map((one) => [one, cluster.nameOf(one)] as const));

  async function hitProcess(): Promise<Strike> {
    const count = 1 + Math.floor(random() * MAX_KILLS_AT_ONCE);
    const hit = [...new Set(Array.from({ length: count }, anyProcess))];
    const outageMs = random() * 1_500;
    await Promise.all(hit.map((one) => one.end('SIGKILL')));
    await pause(outageMs);
    await Promise.all(hit.map((one) => one.start()));
    const what = hit.map((one) => names.get(one)).join(' and ');
    return { what, kind: 'process', kills: hit.length, outageMs };
  }

  async function hitServer(server: TestServer): Promise<Strike> {
    // As many outages of 1 to 2 s as of 30 to 60 s.
    const outageMs = 1_000 * (longestOutageMs / 1_000) ** random();
    const also = random() < PROCESS_AND_SERVER_RATIO ? anyProcess() : undefined;
    await Promise.all([server.kill(), also?.end('SIGKILL')]);
    also?.spawn();
    await pause(outageMs);
    await server.start();
    return {
      what: also ? `${server.name} and ${names.get(also)}` : server.name,
      kind: server.name,
      kills: also ? 2 : 1,
      outageMs,
    };
  }

  const killed = () => results.reduce((sum, one) => sum + one.kills, 0);
  for (let n = before; n < before + strikes && killed() < kills; n++) {
    // A random moment, not a wait for a condition.
    await pause(random() * 300);
    const server = servers[Math.floor(n / SERVER_EACH) % servers.length]!;
    const hit = n % SERVER_EACH === SERVER_EACH - 1 ? await hitServer(server) : await hitProcess();
    const back = performance.now();
    await Promise.all(loads.map((load) => load.acceptedMore(CALLS)));
    const healed = { ...hit, healedMs: performance.now() - back };
    results.push(healed);
    onStrike(healed);
  }
  return results;
}
