import { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire } from 'node:module';
import net from 'node:net';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { createProgram, installGlobals } from '@wellspring/component/program/program';
import type { Instance, LogLine } from '@wellspring/component/program/program-types';
import { systemClock } from '@wellspring/core/clock';
import { contentOf, createFrameReader } from '../frame-reader.ts';
import {
  CA_VARIABLE,
  type CallFrame,
  decodeCall,
  type EmitHead,
  type EndFrame,
  FRAME,
  PRELOAD,
} from '../protocol.ts';
import { captureConsole, MAX_LINE_CHARS } from './capture-console.ts';
import { createFrameWriter } from './frame-writer.ts';
import { removesOwnFrames } from './own-frames.ts';
import { preload } from './preload.ts';

/**
 * Program of a sandbox process: receives calls on descriptor 3 and executes them one at a time. Bundled into one file
 * when the platform starts. Captures the functions it needs before user code, which may replace them, is loaded.
 */

const MAX_CALL_BYTES = 64 * 1024 * 1024;

delete process.env[CA_VARIABLE];

const FRAMES_FD = 3;
const { stringify } = JSON;
const exit = process.exit.bind(process);

const { send, sendJson, flush, turnEnd } = createFrameWriter(FRAMES_FD, () => exit(0));

const withoutOwnFrames = removesOwnFrames(fileURLToPath(new URL('.', import.meta.url)));

// Frames are removed before the line is cut: a shorter line counts as whole.
const log = (line: LogLine) =>
  sendJson(FRAME.log, { ...line, msg: withoutOwnFrames(line.msg).slice(0, MAX_LINE_CHARS) });

const program = createProgram({
  emit({ payload, id, name, summary, ts, at, delivery_ts, sse }) {
    const head: EmitHead = { at };
    if (id !== null) head.id = id;
    if (name !== '') head.name = name;
    if (summary !== null) head.summary = summary;
    if (ts !== null) head.ts = ts;
    if (delivery_ts !== null) head.delivery_ts = delivery_ts;
    if (sse) head.sse = sse;
    send(FRAME.emit, stringify(head), payload);
  },
  fault: (error) => sendJson(FRAME.fault, describeError(error)),
  log,
  respond(reply) {
    sendJson(FRAME.respond, reply);
    flush();
  },
  export: (name, json) => send(FRAME.export, stringify({ name }), json),
  send: (kind, request) => send(FRAME.send, stringify({ kind }), request),
  dbSet: (key, json) => send(FRAME.dbSet, stringify(key), json ?? ''),
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

/** Replaces paths in the stack with the path that the author knows. */
const describeError = (error: unknown) =>
  program.toThrown(error, (text) => {
    const stack = withoutOwnFrames(text);
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

/** Number of the call in which an asynchronous operation began. */
const origin = new AsyncLocalStorage<number>();
let callNumber = 0;

async function answer(call: CallFrame): Promise<void> {
  callNumber += 1;
  const end = await origin.run(callNumber, execute, call);
  // Rejections that the code does not handle belong to this call.
  await turnEnd(waiting.length + 1);
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
  for (let call = calls.next(); call; call = calls.next()) waiting.push(decodeCall(contentOf(call)));
  calls.keep();
  void answerAll();
}

/** Uncaught errors of the code's promises and timers are reported; the process is not used for further calls. */
function reportUncaught(error: unknown): void {
  const thrown = describeError(error);
  const began = origin.getStore() ?? callNumber;
  if (began === callNumber) sendJson(FRAME.fault, thrown);
  else {
    const what = thrown.stack || `${thrown.name}: ${thrown.message}`;
    // The present call is not at fault.
    log({ ts: systemClock.now(), level: 'error', msg: `An earlier run failed after its end: ${what}` });
  }
  sendJson(FRAME.spoiled, {});
}
process.on('unhandledRejection', reportUncaught);
process.on('uncaughtException', reportUncaught);
// The code may send frames in the turn in which it ends the process.
process.on('exit', flush);

const received = Buffer.allocUnsafeSlow(64 * 1024);
new net.Socket({
  fd: FRAMES_FD,
  onread: {
    buffer: received,
    callback(bytes) {
      readCalls(received.subarray(0, bytes));
      return true;
    },
  },
})
  // The platform has ended.
  .on('close', () => exit(0))
  .on('error', () => exit(0))
  .resume();

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
