import { type ChildProcess, spawn } from 'node:child_process';
import { chownSync } from 'node:fs';
import { join } from 'node:path';
import { backoff } from '@wellspring/core/backoff';
import type { Log } from '@wellspring/core/log';
import { createLru } from '@wellspring/core/lru';
import type { Metrics } from '@wellspring/core/metrics';
import type { ProcessDirectory } from '../process-directories.ts';
import { createRateLimit } from './limits.ts';
import { LOOKUP_THREADS } from './names.ts';
import type { Order, RelayConfig, Report } from './relay.ts';
import type { Destination } from './traffic.ts';
import { createLineReader } from './wire.ts';

/** Name of the socket in the directory `egress` of a process directory. */
export const SOCKET_NAME = 's';

/** Owner of the code of a sandbox, and the private networks that it may reach. */
export interface EgressOwner {
  id: string;
  /** CIDRs */
  allowNetworks: readonly string[];
}

/** Runs the relay in a separate process, which is restarted when it ends. */
export interface Egress {
  /** Listens on the socket of the sandbox. Connections wait for `assign`. */
  open(sandbox: ProcessDirectory): void;
  /**
   * @param process process key, for the log
   * @param owner undefined for no additional networks
   */
  assign(sandbox: ProcessDirectory, process: string, owner: EgressOwner | undefined): void;
  /** Changes the networks that the code of an owner may reach, for new connections of running sandboxes, too. */
  allowNetworks(owner: EgressOwner): void;
  /** Logs the network traffic of the sandbox and resets its byte limit. Does nothing without traffic. */
  endRun(sandbox: ProcessDirectory): void;
  /** The sandbox has ended. */
  close(sandbox: ProcessDirectory): void;
  dispose(): Promise<void>;
}

export interface EgressOptions {
  /** Paths of Node.js and of the relay's program, readable for every user. */
  node: string;
  program: string;
  config: RelayConfig;
  log: Log;
  metrics: Metrics;
  /** For tests. */
  spawnProcess?: (...args: Parameters<typeof spawn>) => ChildProcess;
}

interface Assignment {
  sandbox: ProcessDirectory;
  process: string;
  owner: string | null;
  isAssigned: boolean;
  /** It had traffic since the last report. */
  isUsed: boolean;
}

/** No sandbox has this user, so none may signal or trace the relay. */
const RELAY_USER = { uid: 65_533, gid: 65_533 };
const MAX_REPORT_BYTES = 1024 * 1024;
const MAX_LEAVING = 256;
/** Of refused connections and exceeded limits, per owner. A run has up to 65 destinations. */
const LINES_PER_SECOND = 1;
const LINE_BURST = 100;
const MAX_LOGGED_OWNERS = 1000;
const RESTART_BACKOFF = { baseMs: 50, maxMs: 5_000 };
/** The machine lacks something at the moment: the user of the relay is not at fault. */
const NO_RESOURCES: ReadonlySet<string | undefined> = new Set(['EAGAIN', 'EMFILE', 'ENFILE', 'ENOMEM']);
/** After this uptime, the next failure counts as the first one. */
const STABLE_MS = 60_000;
const HEAP_MB = 256;

export function startEgress({
  node,
  program,
  config,
  log,
  metrics,
  spawnProcess = spawn,
}: EgressOptions): Egress {
  const sandboxes = new Map<string, Assignment>();
  /** Closed sandboxes whose last report may not have arrived. */
  const leaving = createLru<Assignment>(MAX_LEAVING);
  const mayLogOf = createLru<ReturnType<typeof createRateLimit>>(MAX_LOGGED_OWNERS);
  /** Allowed networks by owner; without owners that have none. */
  const networks = new Map<string, readonly string[]>();
  const connected = metrics.counter('wellspring_egress_connections_total', 'Connections of user code');
  const failed = metrics.counter(
    'wellspring_egress_refused_total',
    'Connections of user code that were refused or failed',
  );
  const limited = metrics.counter(
    'wellspring_egress_limits_exceeded_total',
    'Network limits that processes of user code exceeded',
  );
  let user = process.getuid?.() === 0 ? RELAY_USER : undefined;
  let relay: ChildProcess | undefined;
  let failures = 0;
  let timer: NodeJS.Timeout | undefined;
  let ended: Promise<void> = Promise.resolve();
  let disposed = false;

  const send = (order: Order | RelayConfig) => void relay?.stdin?.write(`${JSON.stringify(order)}\n`);
  const pathOf = (sandbox: ProcessDirectory) => join(sandbox.egress, SOCKET_NAME);

  /** A user namespace may not map RELAY_USER. The separate user is a second safeguard: the relay runs no user code. */
  function stayPlatformUser(error: Error): void {
    log.warn({ uid: user?.uid, error: error.message }, 'egress.relay_runs_as_platform_user');
    user = undefined;
  }

  function sendAssignment({ sandbox, owner, isAssigned }: Assignment): void {
    send({ type: 'open', sandbox: sandbox.id, path: pathOf(sandbox) });
    if (isAssigned) send({ type: 'assign', sandbox: sandbox.id, owner });
  }

  /**
   * For debugging only: lines of the self-test, which asks for what it must not reach, and those of an owner beyond a rate,
   * who may cause any number.
   */
  function levelFor({ owner }: Assignment, level: 'info' | 'warn'): 'info' | 'warn' | 'debug' {
    if (owner === null) return 'debug';
    const mayLog = mayLogOf.get(owner) ?? createRateLimit(LINES_PER_SECOND, LINE_BURST);
    mayLogOf.set(owner, mayLog);
    return mayLog(performance.now()) ? level : 'debug';
  }

  function logTraffic(assignment: Assignment, destinations: Destination[]): void {
    const { process, owner } = assignment;
    for (const { host, port, connections, refused, sent, received } of destinations) {
      connected.inc({}, connections);
      failed.inc({}, refused);
      const fields = { process, owner, host, port, connections, refused, sent, received };
      if (refused > 0) log[levelFor(assignment, 'info')](fields, 'egress.refused');
      else log.debug(fields, 'egress.destination');
    }
  }

  function receive(report: Report): void {
    if (report.type === 'descriptors') {
      log.info(report.few, 'egress.few_descriptors');
      return;
    }
    const assignment = sandboxes.get(report.sandbox) ?? leaving.get(report.sandbox);
    if (!assignment) return;
    if (report.type === 'used') assignment.isUsed = true;
    else if (report.type === 'traffic') logTraffic(assignment, report.destinations);
    else {
      limited.inc();
      const { process, owner } = assignment;
      log[levelFor(assignment, 'warn')]({ process, owner, limit: report.limit }, 'egress.limit_exceeded');
    }
  }

  function start(): void {
    const startedAt = performance.now();
    const end = Promise.withResolvers<void>();
    ended = end.promise;
    let stderr = '';
    let hasEnded = false;
    const onEnd = (error?: NodeJS.ErrnoException) => {
      if (hasEnded) return;
      hasEnded = true;
      relay = undefined;
      end.resolve();
      if (disposed) return;
      if (error && user && !NO_RESOURCES.has(error.code)) stayPlatformUser(error);
      failures = performance.now() - startedAt > STABLE_MS ? 1 : failures + 1;
      log.error({ error: error?.message ?? stderr.trim() }, 'egress.relay_ended');
      timer = setTimeout(start, backoff(failures, RESTART_BACKOFF));
    };
    try {
      relay = spawnProcess(node, [`--max-old-space-size=${HEAP_MB}`, program], {
        ...user,
        detached: true,
        cwd: '/',
        env: { UV_THREADPOOL_SIZE: String(LOOKUP_THREADS) },
        stdio: ['pipe', 'pipe', 'pipe'],
      });
    } catch (error) {
      onEnd(error as Error);
      return;
    }
    relay.once('error', onEnd);
    relay.once('close', () => onEnd());
    // Without file descriptors the process has no streams, and its error follows.
    relay.stdin?.on('error', () => {});
    relay.stdout?.on(
      'data',
      createLineReader(MAX_REPORT_BYTES, (line) => receive(JSON.parse(line) as Report)),
    );
    relay.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-2048);
    });
    send(config);
    for (const [id, list] of networks) send({ type: 'owner', owner: id, networks: list });
    for (const assignment of sandboxes.values()) sendAssignment(assignment);
  }
  start();

  function allowNetworks({ id, allowNetworks: list }: EgressOwner): void {
    const known = networks.get(id) ?? [];
    if (known === list || known.join() === list.join()) return;
    if (list.length === 0) networks.delete(id);
    else networks.set(id, list);
    send({ type: 'owner', owner: id, networks: list });
  }

  return {
    open(sandbox) {
      // The relay creates the socket; the sandbox can neither replace nor remove it.
      try {
        if (user) chownSync(sandbox.egress, user.uid, user.gid);
      } catch (error) {
        stayPlatformUser(error as Error);
      }
      const assignment: Assignment = { sandbox, process: '', owner: null, isAssigned: false, isUsed: false };
      sandboxes.set(sandbox.id, assignment);
      sendAssignment(assignment);
    },
    assign(sandbox, processKey, owner) {
      const assignment = sandboxes.get(sandbox.id);
      if (!assignment) return;
      if (owner) allowNetworks(owner);
      Object.assign(assignment, { process: processKey, owner: owner?.id ?? null, isAssigned: true });
      send({ type: 'assign', sandbox: sandbox.id, owner: assignment.owner });
    },
    allowNetworks,
    endRun(sandbox) {
      const assignment = sandboxes.get(sandbox.id);
      if (!assignment?.isUsed) return;
      assignment.isUsed = false;
      send({ type: 'endRun', sandbox: sandbox.id });
    },
    close(sandbox) {
      const assignment = sandboxes.get(sandbox.id);
      if (!assignment) return;
      sandboxes.delete(sandbox.id);
      leaving.set(sandbox.id, assignment);
      send({ type: 'close', sandbox: sandbox.id });
    },
    async dispose() {
      disposed = true;
      clearTimeout(timer);
      relay?.stdin?.end();
      await ended;
    },
  };
}
