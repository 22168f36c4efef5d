import { setTimeout as pause } from 'node:timers/promises';
import type { Cluster } from './cluster.ts';
import type { Load } from './crash.ts';
import type { TestServer } from './servers/server.ts';
import type { ServiceProcess } from './service-process.ts';

/** A fault that processes or a server suffer for a while. */
export interface Strike {
  what: string;
  kind: 'processes killed' | 'server killed' | 'processes frozen' | 'server frozen' | 'connections cut';
  /** Number of processes and servers that died. */
  kills: number;
  outageMs: number;
}

export interface Healed extends Strike {
  /** From the end of the outage until calls are accepted, in ms. */
  healedMs: number;
}

export interface ChaosOptions {
  cluster: Cluster;
  servers: readonly TestServer[];
  /** Each calls all gateways in turn. */
  loads: readonly Load[];
  random: () => number;
  /** How many strikes at most. */
  strikes: number;
  /** Ends after this many deaths. */
  kills: number;
  /** Strikes of earlier calls. */
  before?: number;
  /** Longest outage, in ms; the shortest of a server is 1 s. */
  longestOutageMs: number;
  onStrike?(healed: Healed): void;
}

/** Calls of each load that are accepted before the next strike. */
const CALLS = 20;
/** How often a process dies with a server. */
const PROCESS_AND_SERVER_RATIO = 0.25;
/** Processes that are hit at the same time. */
const MAX_HIT_AT_ONCE = 3;

/** The services that an event passes: the others suffer kills only. */
const PIPELINE = ['gateway', 'runner', 'delivery', 'events'] as const;

/** The strikes of one round; each hits one of the servers in turn. */
const ROUND = [
  'processes killed',
  'connections cut',
  'server killed',
  'processes killed',
  'processes frozen',
  'server frozen',
] as const satisfies Strike['kind'][];

/**
 * Kills and freezes processes of the platform and their servers, and cuts connections between a process and a server,
 * one after the other, at random moments. Waits each time until calls are accepted and every process is ready.
 * @param options.cluster with networks
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
  const oneOf = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)]!;
  const anyProcess = () => oneOf(cluster.processes);
  const names = new Map(cluster.processes.map((one) => [one, cluster.nameOf(one)] as const));
  const namesOf = (processes: readonly ServiceProcess[]) =>
    processes.map((one) => names.get(one)).join(' and ');
  const pipeline = PIPELINE.flatMap((service) => cluster.of(service));
  const some = (any: () => ServiceProcess) => {
    const count = 1 + Math.floor(random() * MAX_HIT_AT_ONCE);
    return [...new Set(Array.from({ length: count }, any))];
  };
  /** As many outages of 1 to 2 s as of 30 to 60 s. */
  const longOutage = () => 1_000 * (longestOutageMs / 1_000) ** random();

  const hit: Record<Strike['kind'], (server: TestServer) => Promise<Omit<Strike, 'kind'>>> = {
    async 'processes killed'() {
      const killed = some(anyProcess);
      const outageMs = random() * 1_500;
      await Promise.all(killed.map((one) => one.end('SIGKILL')));
      await pause(outageMs);
      await Promise.all(killed.map((one) => one.start()));
      return { what: namesOf(killed), kills: killed.length, outageMs };
    },

    async 'server killed'(server) {
      const outageMs = longOutage();
      const also = random() < PROCESS_AND_SERVER_RATIO ? anyProcess() : undefined;
      await Promise.all([server.kill(), also?.end('SIGKILL')]);
      also?.spawn();
      await pause(outageMs);
      await server.start();
      return {
        what: also ? `${server.name} and ${names.get(also)}` : server.name,
        kills: also ? 2 : 1,
        outageMs,
      };
    },

    async 'processes frozen'() {
      const frozen = some(() => oneOf(pipeline));
      const outageMs = longOutage();
      for (const one of frozen) one.freeze();
      await pause(outageMs);
      for (const one of frozen) one.resume();
      return { what: namesOf(frozen), kills: 0, outageMs };
    },

    async 'server frozen'(server) {
      const outageMs = longOutage();
      await server.freeze();
      await pause(outageMs);
      server.resume();
      return { what: server.name, kills: 0, outageMs };
    },

    /** The other processes still reach the server. */
    async 'connections cut'() {
      const process = oneOf(pipeline);
      const outageMs = longOutage();
      const [name, network] = oneOf(Object.entries(cluster.networksOf(process)));
      network.silence();
      const isReset = random() < 0.5;
      if (isReset) network.cut();
      await pause(outageMs);
      // Old connections miss the data that was dropped.
      network.cut();
      network.heal();
      return {
        what: `${names.get(process)} and ${name}, ${isReset ? 'reset' : 'silent'}`,
        kills: 0,
        outageMs,
      };
    },
  };

  const killed = () => results.reduce((sum, one) => sum + one.kills, 0);
  for (let n = before; n < before + strikes && killed() < kills; n++) {
    // A random moment, not a wait for a condition.
    await pause(random() * 300);
    const kind = ROUND[n % ROUND.length]!;
    // Each server is killed in one round and frozen in another.
    const server = servers[Math.floor(n / (ROUND.length / 2)) % servers.length]!;
    const suffered = await hit[kind](server);
    const back = performance.now();
    await Promise.all(loads.map((load) => load.acceptedMore(CALLS)));
    const healed = { ...suffered, kind, healedMs: performance.now() - back };
    // A load passes over a gateway that is still starting, but a test calls it.
    await Promise.all(cluster.processes.map((one) => one.ready()));
    results.push(healed);
    onStrike(healed);
  }
  return results;
}
