import { finished } from 'node:stream/promises';
import type { ComponentCode } from '@wellspring/contract/definition';
import { invalidComponent, unavailable } from '@wellspring/core/problem';
import type { Compiled } from './bundle-code.ts';
import { JAIL_LIMITS, type Jail, type Jailed } from './jail/jail.ts';
import { jsonLines } from './jailed/lines.ts';
import { aliasOf, parseSpecifier } from './specifier.ts';

/** Compiles code in the jail. */
export interface Compiler {
  /**
   * @throws Problem 400 with the message of the parser, or if the code exceeds the limits of the compiler or makes it
   *   crash; 503 if the compiler does not work
   */
  compile(code: ComponentCode, ownerId: string): Promise<Compiled>;
  close(): Promise<void>;
}

const COMPILE_MS = 30_000;
/** An answer, so that it does not fill the memory of the platform. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
/**
 * Characters of compiled code with its source map. Indentation grows with depth: 33 KB nested 3000 deep become 27 MB.
 * Ordinary code of 6 MB stays far below.
 */
const MAX_COMPILED = 24 * 1024 * 1024;
/** An idle compiler process is ended after this time. */
const IDLE_MS = 60_000;
/**
 * A process that has worked for longer is not kept, so that each compilation may use the rest of its processor time
 * (JAIL_LIMITS.cpuSeconds). Elapsed time, which is more than processor time on a loaded machine.
 */
const MAX_WORK_MS = JAIL_LIMITS.cpuSeconds * 1000 - 2 * COMPILE_MS;
/** Idle processes; those beyond are ended, the least recently used first. */
const MAX_IDLE = 4;

/** Outcome of a process that has ended for a reason that is not known. */
const DIED = Symbol('died');
/** Code at which a compiler that works does not die. */
const EMPTY: ComponentCode = { code: '' };
/** How Go and V8 report that they exceeded their memory or stack. */
const FATAL = /fatal error/i;
const MAX_REPORT = 4096;

interface Process {
  jailed: Jailed;
  /** Owner of all code that it compiles: hostile code that took over the process never sees code of other owners. */
  ownerId: string;
  workMs: number;
  /** The beginning of what it has written to stderr. */
  report: string;
  answers: AsyncGenerator<unknown>;
  retirement: NodeJS.Timeout | undefined;
}

export function createCompiler(jail: Jail): Compiler {
  const idle: Process[] = [];
  const all = new Set<Jailed>();

  async function start(ownerId: string): Promise<Process> {
    if (all.size >= MAX_IDLE && idle[0]) await end(idle[0]);
    const jailed = jail.spawn('compile');
    all.add(jailed);
    jailed.child.on('error', () => {});
    jailed.child.stdin.on('error', () => {});
    const answers = jsonLines(jailed.child.stdout, MAX_ANSWER_BYTES);
    const process: Process = { jailed, ownerId, workMs: 0, report: '', answers, retirement: undefined };
    jailed.child.stderr.setEncoding('utf8').on('data', (text: string) => {
      if (process.report.length < MAX_REPORT) process.report += text;
    });
    // The kernel kills idle processes when memory is short.
    jailed.child.once('exit', () => idle.includes(process) && void end(process));
    return process;
  }

  async function end(process: Process): Promise<void> {
    release(process);
    await process.jailed.end();
    all.delete(process.jailed);
  }

  /** Removes it from the idle processes. */
  function release(process: Process): void {
    clearTimeout(process.retirement);
    const at = idle.indexOf(process);
    if (at >= 0) idle.splice(at, 1);
  }

  function keepIdle(process: Process): void {
    process.retirement = setTimeout(() => void end(process), IDLE_MS);
    process.retirement.unref();
    idle.push(process);
  }

  /** @returns the answer; undefined if it exceeds a limit; DIED if the process has ended by itself */
  async function ask(process: Process, code: ComponentCode): Promise<unknown> {
    const { jailed, answers } = process;
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      void jailed.end();
    }, COMPILE_MS);
    const began = performance.now();
    try {
      jailed.child.stdin.write(`${JSON.stringify(code)}\n`);
      const { value, done } = await answers.next();
      return done && !isLate ? DIED : value;
    } catch (error) {
      // The line is too long, or no JSON; otherwise, the process was not started.
      return isLate || error instanceof RangeError || error instanceof SyntaxError ? undefined : DIED;
    } finally {
      clearTimeout(timer);
      process.workMs += performance.now() - began;
    }
  }

  /** Asks a process that is idle, unless `isNew`, or a new one. Undefined also for a process that reported its crash. */
  async function attempt(code: ComponentCode, ownerId: string, isNew: boolean): Promise<unknown> {
    const key = jail.sharesCompilers ? '' : ownerId;
    const reused = isNew ? undefined : idle.findLast((process) => process.ownerId === key);
    if (reused) release(reused);
    const running = reused ?? (await start(key));
    const answer = await ask(running, code);
    if (answer !== undefined && answer !== DIED && running.workMs <= MAX_WORK_MS) keepIdle(running);
    else await end(running);
    if (answer !== DIED) return answer;
    await finished(running.jailed.child.stderr).catch(() => {});
    return FATAL.test(running.report) ? undefined : DIED;
  }

  return {
    async compile(code, ownerId) {
      let answer = await attempt(code, ownerId, false);
      // The kernel may have killed the process for lack of memory, which others have used.
      if (answer === DIED) answer = await attempt(code, ownerId, true);
      if (answer !== DIED) return validate(answer);
      // The code is at fault if the compiler works for other code.
      if ((await attempt(EMPTY, ownerId, true)) === DIED)
        throw unavailable('The compiler does not work at the moment.');
      return validate(undefined);
    },
    async close() {
      for (const process of [...idle]) release(process);
      await Promise.all([...all].map((jailed) => jailed.end()));
    },
  };
}

/** Validates the answer, since hostile code may have taken over the compiler. */
function validate(answer: unknown): Compiled {
  const { refused, format, code, packages } = (answer ?? {}) as Record<string, unknown>;
  if (typeof refused === 'string') throw invalidComponent(refused.slice(0, 2000));
  const isPackage = ([alias, value]: [string, unknown]) => {
    const { name, version } = (value ?? {}) as Record<string, unknown>;
    if (typeof name !== 'string' || typeof version !== 'string') return false;
    const { kind } = parseSpecifier(`${name}@${version}`);
    return (
      kind === 'package' && (alias === aliasOf(name, version) || (version === 'latest' && alias === name))
    );
  };
  if (
    typeof code !== 'string' ||
    code.length > MAX_COMPILED ||
    (format !== 'esm' && format !== 'cjs') ||
    typeof packages !== 'object' ||
    packages === null ||
    !Object.entries(packages).every(isPackage)
  )
    throw invalidComponent('The code is too large or nested too deeply to be compiled.');
  return { format, code, packages: packages as Compiled['packages'] };
}
