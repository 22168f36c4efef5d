import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import { pathToFileURL } from 'node:url';
import { createProgram, installGlobals } from '@wellspring/component/program/program';
import type { Instance, LogLine } from '@wellspring/component/program/program-types';
import { contentOf, createFrameReader } from '../frame-reader.ts';
import {
  CA_VARIABLE,
  type CallFrame,
  type EndFrame,
  FRAME,
  type FrameType,
  HEADER_BYTES,
  PRELOAD,
} from '../protocol.ts';
import { captureConsole, MAX_LINE_CHARS } from './capture-console.ts';
import { preload } from './preload.ts';

/**
 * Program of a sandbox process: receives calls on descriptor 3 and executes them one at a time. Bundled into one file
 * when the platform starts. Captures the functions it needs before user code, which may replace them, is loaded.
 */

const MAX_CALL_BYTES = 64 * 1024 * 1024;
/** Frames of one tick are written together, or earlier when they reach this size. */
const MAX_PENDING_BYTES = 64 * 1024;

delete process.env[CA_VARIABLE];

const FRAMES_FD = 3;
const socket = new net.Socket({ fd: FRAMES_FD });
const { stringify, parse } = JSON;
const { write } = Buffer.prototype;
const nextTick = process.nextTick;
const immediate = setImmediate;
const exit = process.exit.bind(process);
const wait = Atomics.wait;
const never = new Int32Array(new SharedArrayBuffer(4));

/** Frames that were not written yet. */
const out = Buffer.allocUnsafeSlow(MAX_PENDING_BYTES);
let outBytes = 0;
let isFlushDue = false;

/**
 * Writes synchronously, so that a frame is never left incomplete while code blocks the event loop, and code that sends
 * faster than the platform reads is slowed down.
 */
function flush(): void {
  const length = outBytes;
  outBytes = 0;
  if (length > 0) writeAll(out, length);
}

function writeAll(bytes: Buffer, length: number): void {
  for (let at = 0; at < length; ) {
    try {
      at += writeSync(FRAMES_FD, bytes, at, length - at);
    } catch (error) {
      // The platform has ended, or code has closed the descriptor.
      if ((error as { code?: string }).code !== 'EAGAIN') exit(0);
      wait(never, 0, 0, 1);
    }
  }
}

const writeText = (target: Buffer, text: string, at: number): number => write.call(target, text, at);

function flushLater(): void {
  isFlushDue = false;
  flush();
}

function putLength(target: Buffer, at: number, value: number): void {
  target[at] = value;
  target[at + 1] = value >>> 8;
  target[at + 2] = value >>> 16;
  target[at + 3] = value >>> 24;
}

/** @param payload of an emit; the length of the head then precedes the head */
function put(
  target: Buffer,
  start: number,
  type: FrameType,
  head: string,
  payload: string | undefined,
): number {
  let at = start + HEADER_BYTES;
  if (payload !== undefined) at += 4;
  const headBytes = writeText(target, head, at);
  if (payload !== undefined) putLength(target, at - 4, headBytes);
  at += headBytes;
  if (payload !== undefined) at += writeText(target, payload, at);
  putLength(target, start, at - start - 4);
  target[start + 4] = type;
  return at;
}

function send(type: FrameType, head: string, payload?: string): void {
  // A UTF-16 code unit takes up to three bytes of UTF-8.
  const most = HEADER_BYTES + 4 + 3 * (head.length + (payload?.length ?? 0));
  if (most > out.length - outBytes) flush();
  if (most > out.length) {
    const frame = Buffer.allocUnsafeSlow(most);
    writeAll(frame, put(frame, 0, type, head, payload));
    return;
  }
  outBytes = put(out, outBytes, type, head, payload);
  if (isFlushDue) return;
  isFlushDue = true;
  nextTick(flushLater);
}

const sendJson = (type: FrameType, value: unknown) => send(type, stringify(value));

const log = (line: LogLine) => sendJson(FRAME.log, { ...line, msg: line.msg.slice(0, MAX_LINE_CHARS) });

const program = createProgram({
  emit: ({ payload, ...head }) => send(FRAME.emit, stringify(head), payload),
  fault: (error) => sendJson(FRAME.fault, describeError(error)),
  log,
  respond(reply) {
    sendJson(FRAME.respond, reply);
    flush();
  },
  export: (name, json) => send(FRAME.export, stringify({ name }), json),
  send: (kind, request) => send(FRAME.send, stringify({ kind }), request),
  dbSet: (key, value) => sendJson(FRAME.dbSet, { key, json: value ?? null }),
});

let exported: unknown;
let directory = '';

/**
 * Removes signals and internal bindings if only Node's permission model isolates the code: they would bypass it. In the
 * other tiers they stay, since native addons need them.
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

/** Stack frames of the platform, which do not help the author. */
const OWN_FRAME = /\n\s+at [^\n]*(?:child\.mjs|node:internal\/process)[^\n]*/g;

/** Replaces paths in the stack with the path that the author knows. */
const describeError = (error: unknown) =>
  program.toThrown(error, (text) => {
    const stack = text.replace(OWN_FRAME, '');
    return directory === '' ? stack : stack.replaceAll(directory, '/app');
  });

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

/** @returns the end of the call */
async function execute({ load: code, instance, db, call }: CallFrame): Promise<EndFrame> {
  let loaded = code === undefined;
  try {
    if (instance?.source_id) {
      const isWorkflow = instance.source_id.startsWith('p_');
      process.env[isWorkflow ? 'PIPEDREAM_WORKFLOW_ID' : 'PD_COMPONENT'] = instance.source_id;
    }
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
      return { ok: true, definition };
    }
    if (call.kind === 'action') {
      const exit = await program.action(call.action);
      return exit ? { ok: true, exit } : { ok: true };
    }
    if (call.kind === 'options' || call.kind === 'props') {
      const answered =
        call.kind === 'props'
          ? { props: await program.props() }
          : { options: await program.options(call.prop, call) };
      return { ok: true, ...answered };
    }
    if (call.kind === 'run') await program.run(call.trigger, call.emitTrigger);
    else await program.hook(call.hook);
    return { ok: true };
  } catch (error) {
    return { ok: false, error: describeError(error), reason: loaded ? 'thrown' : 'load' };
  }
}

async function answer(call: CallFrame): Promise<void> {
  const end = await execute(call);
  // Node.js reports rejections that nobody handles after all microtasks: those of this call are sent before its end.
  await new Promise<void>((done) => void immediate(done));
  sendJson(FRAME.end, end);
}

/** Calls are executed one after the other, in order of arrival. */
const waiting: CallFrame[] = [];
let isAnswering = false;

async function answerAll(): Promise<void> {
  if (isAnswering) return;
  isAnswering = true;
  for (let call = waiting.shift(); call; call = waiting.shift()) {
    await answer(call);
    // The next call may block the event loop or end the process, so the end of this one is sent first.
    flush();
  }
  isAnswering = false;
}

const calls = createFrameReader((type) => (type === FRAME.call ? MAX_CALL_BYTES : undefined));

function readCalls(chunk: Buffer): void {
  calls.push(chunk);
  for (let call = calls.next(); call; call = calls.next()) {
    waiting.push(parse(contentOf(call).toString('utf8')) as CallFrame);
  }
  void answerAll();
}

// Uncaught errors of the code's promises and timers are reported; the process is not used for further calls.
const reportUncaught = (error: unknown) => {
  sendJson(FRAME.fault, describeError(error));
  sendJson(FRAME.spoiled, {});
};
process.on('unhandledRejection', reportUncaught);
process.on('uncaughtException', reportUncaught);

socket.on('data', readCalls);
// The platform has ended.
socket.on('close', () => exit(0));
socket.on('error', () => exit(0));

process.setSourceMapsEnabled(true);
captureConsole(log);
restrictProcess();
installGlobals();
// The module instance that `--require` has loaded.
const network = process.execArgv.find((flag) => flag.startsWith('--require='))!.slice('--require='.length);
const { opened, warmUp } = createRequire(import.meta.url)(network) as typeof import('./network/network.ts');
if (process.argv.at(-1) === PRELOAD) {
  preload();
  await warmUp();
}
// The process may be stopped once it is ready, and the relay does not wait for a connection that is half made.
await opened;
sendJson(FRAME.ready, {});
