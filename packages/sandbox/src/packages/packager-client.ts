import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { invalidComponent, Problem } from '@wellspring/core/problem';
import { onProcessors } from '../scheduling.ts';
import type { JailSource } from './jail/jail.ts';
import type { PackagerAnswer, PackagerMethods, PackagerProcessData } from './packager-process.ts';

/** Calls methods of packager processes. */
export type PackagerClient = PackagerMethods;

export interface PackagerClientOptions {
  /** Milliseconds after which a call fails and its process is killed. */
  deadlineMs?: number;
  heapMb?: number;
  /** Processors of its processes and their jails; default: those of this process. */
  processors?: readonly number[] | undefined;
}

interface Running {
  child: ChildProcess;
  work: string;
  waiting: Map<number, { resolve(value: unknown): void; reject(error: Error): void }>;
  retirement: NodeJS.Timeout | undefined;
  ended: Promise<void>;
}

const HEAP_MB = 1024;
/** Longer than the limits of requests to the registry and of jailed processes. */
const DEADLINE_MS = 4 * 60_000;
/** How V8 ends a process that needs more than its heap. */
const OUT_OF_MEMORY = 'SIGABRT';
/** An idle process is ended after this time. */
const IDLE_MS = 60_000;
/** setpriv of util-linux: the kernel kills the process when the platform ends, even if it is busy. */
const SETPRIV = ['/usr/bin/setpriv', '/bin/setpriv'].find(existsSync);
/** Methods that read hostile data of packages. A process does nothing else meanwhile. */
const EXCLUSIVE: ReadonlySet<keyof PackagerMethods> = new Set(['settle', 'provide']);

/**
 * Starts processes on demand. Each installation has a separate process, so that packuments and lockfiles that need too
 * much time or memory fail only this installation. The caller limits the number of calls.
 * @param data `work`: parent of the directories of the processes
 */
export function createPackagerClient(
  jail: JailSource,
  data: Omit<PackagerProcessData, 'jail'>,
  { deadlineMs = DEADLINE_MS, heapMb = HEAP_MB, processors }: PackagerClientOptions = {},
): PackagerClient {
  const idle: Running[] = [];
  const all = new Set<Running>();
  /** Handles all calls that are not exclusive. */
  let common: Running | undefined;
  let next = 0;
  let closed = false;

  function start(): Running {
    const lease = jail();
    // Short, since the path of a unix socket below it is limited to 107 bytes.
    const work = join(data.work, randomBytes(4).toString('hex'));
    mkdirSync(work);
    chmodSync(work, 0o711);
    const program = [process.execPath, `--max-old-space-size=${heapMb}`, data.programs.packager] as const;
    const [file, ...args] = onProcessors(
      processors,
      SETPRIV === undefined ? program : [SETPRIV, '--pdeathsig', 'KILL', '--', ...program],
    );
    const child = spawn(file, args, {
      // Environment variables for the registry are part of `data`.
      env: {},
      cwd: '/',
      serialization: 'advanced',
      // A separate process group, so that Ctrl-C in a terminal does not end installations.
      detached: true,
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    const waiting: Running['waiting'] = new Map();
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const running: Running = { child, work, waiting, retirement: undefined, ended };
    all.add(running);
    child.on('message', (answer: PackagerAnswer) => {
      const call = waiting.get(answer.id);
      waiting.delete(answer.id);
      if ('value' in answer) call?.resolve(answer.value);
      else if ('problem' in answer) call?.reject(new Problem(answer.problem));
      else call?.reject(Object.assign(new Error(answer.fault), { code: answer.code }));
      // In a process whose call has failed, requests to the registry may hang.
      if (!('value' in answer) && running !== common) discard(running);
      else if (waiting.size === 0) becomeIdle(running);
    });
    const forget = (error: Error) => {
      all.delete(running);
      release(running);
      for (const { reject } of waiting.values()) reject(error);
      waiting.clear();
      lease.end(work).then(end, end);
    };
    child.once('error', (error) => forget(new Error(`a process of the packager failed: ${error.message}`)));
    child.once('exit', (code, signal) =>
      forget(
        signal === OUT_OF_MEMORY
          ? invalidComponent('The packages need too much memory to be installed.')
          : new Error(`a process of the packager ended with ${signal ?? `exit code ${code}`}`),
      ),
    );
    child.send({ ...data, work, jail: lease.choice });
    return running;
  }

  /** It gets no further calls. */
  function release(running: Running): void {
    clearTimeout(running.retirement);
    if (common === running) common = undefined;
    if (idle.includes(running)) idle.splice(idle.indexOf(running), 1);
  }

  /** Until a killed process ends, it would take calls, which fail with it. */
  function discard(running: Running): void {
    release(running);
    running.child.kill('SIGKILL');
  }

  /** An idle process does not keep the platform alive. */
  function becomeIdle(running: Running): void {
    // It answers as its deadline ends.
    if (running.child.killed) return;
    running.child.unref();
    running.child.channel?.unref();
    if (running !== common) idle.push(running);
    running.retirement = setTimeout(discard, IDLE_MS, running);
    running.retirement.unref();
  }

  function processFor(method: keyof PackagerMethods): Running {
    if (EXCLUSIVE.has(method)) return idle.pop() ?? start();
    common ??= start();
    return common;
  }

  function send(running: Running, method: keyof PackagerMethods, argument?: unknown): Promise<never> {
    const { child, waiting } = running;
    clearTimeout(running.retirement);
    child.ref();
    child.channel?.ref();
    const id = next++;
    const answered = new Promise<unknown>((resolve, reject) => {
      waiting.set(id, { resolve, reject });
      child.send({ id, method, argument }, (error) => error && discard(running));
    });
    const timer = setTimeout(() => {
      waiting.get(id)?.reject(invalidComponent('The packages took too long to be installed.'));
      discard(running);
    }, deadlineMs);
    return answered.finally(() => clearTimeout(timer)) as Promise<never>;
  }

  function call(method: keyof PackagerMethods, argument: unknown): Promise<never> {
    if (closed) return Promise.reject(new Error('The packager is closed'));
    return send(processFor(method), method, argument);
  }

  return {
    compile: (argument) => call('compile', argument),
    settle: (argument) => call('settle', argument),
    find: (bundle) => call('find', bundle),
    provide: (argument) => call('provide', argument),
    async close() {
      closed = true;
      await Promise.all(
        [...all].map(async (running) => {
          await send(running, 'close').catch(() => {});
          running.child.kill('SIGKILL');
          await running.ended;
        }),
      );
    },
  };
}
