import { createRequire } from 'node:module';
import net from 'node:net';
import { pathToFileURL } from 'node:url';
import { format } from 'node:util';
import { createProgram, installGlobals } from '@wellspring/component/child/program';
import type { Instance, LogLine } from '@wellspring/component/child/program-types';
import { systemClock } from '@wellspring/core/clock';
import { type CallFrame, createFrameReader, FRAME, type FrameType } from '../protocol.ts';
import { guardSockets } from './guard-sockets.ts';
import { preload } from './preload.ts';

/**
 * The entry of a child process: takes calls over descriptor 3, one at a time, and runs them. Bundled into one file
 * when the platform starts. What it needs is captured before any user code is loaded.
 */

const LARGEST_CALL = 64 * 1024 * 1024;
const LONGEST_LINE = 17 * 1024;

const socket = new net.Socket({ fd: 3 });
const write = socket.write.bind(socket);
const { stringify, parse } = JSON;
const bufferFrom = Buffer.from;
const concat = Buffer.concat;
const nextTick = process.nextTick;
const exit = process.exit.bind(process);
const cpuUsage = process.cpuUsage.bind(process);

let out: Buffer[] = [];

/** Everything said within a tick leaves in one write. */
function flush(): void {
  const all = out;
  out = [];
  if (all.length > 0) write(all.length === 1 ? all[0]! : concat(all));
}

function send(type: FrameType, ...parts: Buffer[]): void {
  let length = 1;
  for (const part of parts) length += part.length;
  const head = Buffer.allocUnsafe(5);
  head.writeUInt32LE(length, 0);
  head[4] = type;
  if (out.length === 0) nextTick(flush);
  out.push(head, ...parts);
}

const json = (value: unknown) => bufferFrom(stringify(value));
const sendJson = (type: FrameType, value: unknown) => send(type, json(value));

const log = (line: LogLine) => sendJson(FRAME.log, { ...line, msg: line.msg.slice(0, LONGEST_LINE) });

const program = createProgram({
  emit({ payload, ...head }) {
    const headBytes = json(head);
    const size = Buffer.allocUnsafe(4);
    size.writeUInt32LE(headBytes.length, 0);
    send(FRAME.emit, size, headBytes, bufferFrom(payload));
  },
  fault: (error) => sendJson(FRAME.fault, error),
  log,
  respond(reply) {
    sendJson(FRAME.respond, reply);
    flush();
  },
  dbSet: (key, value) => sendJson(FRAME.dbSet, { key, json: value ?? null }),
});

function captureConsole(): void {
  const levels = {
    log: 'info',
    info: 'info',
    debug: 'debug',
    warn: 'warn',
    error: 'error',
    trace: 'debug',
  } as const;
  for (const [method, level] of Object.entries(levels)) {
    (console as unknown as Record<string, unknown>)[method] = (...args: unknown[]) =>
      log({ ts: systemClock.now(), level, msg: format(...args) });
  }
}

let exported: unknown;
let directory = '';

/**
 * Where only Node's permission model keeps code in, signals and internal bindings would be a way out. Where the kernel
 * does, they are of use: native addons need them.
 */
function restrictProcess(): void {
  if (process.permission === undefined) return;
  const refuse = (name: string) => () => {
    throw Object.assign(new Error(`EPERM: process.${name} is not allowed`), { code: 'EPERM' });
  };
  const names = [
    'kill',
    '_kill',
    'binding',
    '_linkedBinding',
    'dlopen',
    '_debugProcess',
    '_debugEnd',
    'execve',
    'setuid',
    'setgid',
  ];
  for (const name of names) {
    Object.defineProperty(process, name, { value: refuse(name), writable: false, configurable: false });
  }
}

/** Frames of the platform itself tell the author nothing. */
const OWN_FRAME = /\n\s+at [^\n]*(?:child\.mjs|node:internal\/process)[^\n]*/g;

/** Stacks name the code by the path that it has for its author. */
const shown = (error: unknown) => {
  const thrown = program.toThrown(error);
  const stack = thrown.stack.replace(OWN_FRAME, '');
  return { ...thrown, stack: directory === '' ? stack : stack.replaceAll(directory, '/app') };
};

async function load({ path, format: form }: NonNullable<CallFrame['load']>): Promise<void> {
  directory = path.slice(0, path.lastIndexOf('/'));
  if (form === 'cjs') {
    const loaded = createRequire(path)(path) as { default?: unknown; __esModule?: boolean };
    exported = loaded?.__esModule ? loaded.default : loaded;
    return;
  }
  const module = (await import(pathToFileURL(path).href)) as { default?: unknown };
  exported = module.default;
}

async function answer({ load: code, instance, db, call }: CallFrame): Promise<void> {
  const before = cpuUsage();
  const cpuMs = () => {
    const { user, system } = cpuUsage(before);
    return (user + system) / 1000;
  };
  let loaded = code === undefined;
  try {
    if (instance) process.env.PD_COMPONENT = instance.source_id;
    if (code) {
      await load(code);
      if (call.kind !== 'define') program.define(exported);
      loaded = true;
    }
    if (instance) program.start(exported, instance as Instance);
    else if (db) program.syncDb(db);
    if (call.kind === 'define') {
      loaded = false;
      const definition = program.define(exported);
      sendJson(FRAME.end, { ok: true, cpuMs: cpuMs(), definition });
      return;
    }
    if (call.kind === 'run') await program.run(call.trigger, call.emitTrigger);
    else await program.hook(call.hook);
    sendJson(FRAME.end, { ok: true, cpuMs: cpuMs() });
  } catch (error) {
    sendJson(FRAME.end, {
      ok: false,
      cpuMs: cpuMs(),
      error: shown(error),
      reason: loaded ? 'thrown' : 'load',
    });
  }
}

/** Calls are carried out one after the other, in the order in which they came. */
let last: Promise<void> = Promise.resolve();
const readCalls = createFrameReader(LARGEST_CALL, (_type, content) => {
  const frame = parse(content.toString('utf8')) as CallFrame;
  last = last.then(async () => {
    await answer(frame);
    // The next call may never give the event loop a turn, or end the process: this one's end must not wait for it.
    flush();
  });
});

// What escapes from the code's own promises and timers is told, and costs the process its further use.
const escaped = (error: unknown) => {
  sendJson(FRAME.fault, shown(error));
  sendJson(FRAME.spoiled, {});
};
process.on('unhandledRejection', escaped);
process.on('uncaughtException', escaped);

socket.on('data', readCalls);
// The supervisor is gone: so is every reason to live.
socket.on('close', () => exit(0));
socket.on('error', () => exit(0));

process.setSourceMapsEnabled(true);
captureConsole();
restrictProcess();
installGlobals();
guardSockets(parse(process.argv[2] ?? '[]') as string[]);
preload();
sendJson(FRAME.ready, {});
