import type { ComponentCode } from '@wellspring/contract/definition';
import { invalidComponent } from '@wellspring/core/problem';
import type { Compiled } from './bundle-code.ts';
import { JAIL_LIMITS, type Jail, type Jailed } from './jail/jail.ts';
import { jsonLines } from './jailed/lines.ts';
import { aliasOf, parseSpecifier } from './specifier.ts';

/** Compiles code in the jail. */
export interface Compiler {
  /** @throws Problem 400 with the message of the parser, or if the code exceeds the limits of the compiler */
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

interface Process {
  jailed: Jailed;
  /** Owner of all code that it compiles: hostile code that took over the process never sees code of other owners. */
  ownerId: string;
  workMs: number;
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
    jailed.child.stderr.resume();
    const answers = jsonLines(jailed.child.stdout, MAX_ANSWER_BYTES);
    const process: Process = { jailed, ownerId, workMs: 0, answers, retirement: undefined };
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

  /** @returns the answer; undefined if the compiler crashed or took too long */
  async function ask(process: Process, code: ComponentCode): Promise<unknown> {
    const { jailed, answers } = process;
    const timer = setTimeout(() => void jailed.end(), COMPILE_MS);
    const began = performance.now();
    try {
      jailed.child.stdin.write(`${JSON.stringify(code)}\n`);
      return (await answers.next()).value;
    } catch {
      return undefined;
    } finally {
      clearTimeout(timer);
      process.workMs += performance.now() - began;
    }
  }

  return {
    async compile(code, ownerId) {
      const key = jail.sharesCompilers ? '' : ownerId;
      const reused = idle.findLast((process) => process.ownerId === key);
      if (reused) release(reused);
      const running = reused ?? (await start(key));
      const answer = await ask(running, code);
      if (answer === undefined || running.workMs > MAX_WORK_MS) await end(running);
      else keepIdle(running);
      return validate(answer);
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
