import { expressionsIn, fillIn, parsePath, type Scope } from '@wellspring/component/expressions';
import type { ThrownError } from '@wellspring/component/program/program-types';
import { LIMITS } from '@wellspring/contract/limits';
import type { RunJob } from '@wellspring/contract/messages';
import { parsedBytes } from '@wellspring/core/parsed-size';
import { runTrigger } from './job-trigger.ts';
import { triggerEvent } from './records.ts';

/** The data that the steps of one run exchange, as JSON texts, and what the run has used of its limits. */
export interface StepData {
  /** `{trigger: {event, context}}` and the exports of finished steps, by name. */
  texts(): Record<string, string>;
  /** Characters of these texts. */
  readonly chars: number;
  /** Memory that `fill` will take for the data that the expressions in these values name, besides its texts. */
  toParse(values: Record<string, unknown>): number;
  /**
   * Replaces the expressions in the values of a step.
   * @returns with the characters of its input: of the values, and of what the expressions gave
   */
  fill(
    values: Record<string, unknown>,
  ): { values: Record<string, unknown>; chars: number } | { error: ThrownError };
  /** Adds an export of the current step. @returns the exceeded limit */
  put(name: string, json: string): string | undefined;
  /** Ends the current step: its exports get its name. */
  finish(step: string): void;
  /** Counts output of the run. @returns the exceeded limit */
  spend(bytes: number): string | undefined;
  /** Counts an emit or a request, too. */
  spendEffect(bytes: number): string | undefined;
  /** Counts a change of `$service.db`, too. */
  spendDbSet(bytes: number): string | undefined;
}

const MB = 1024 * 1024;

/** Characters of all texts in a value. */
const charsIn = (value: unknown): number => {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  return Object.values(value).reduce((sum: number, one) => sum + charsIn(one), 0);
};

export function createStepData(job: RunJob, context: object): StepData {
  const trigger = runTrigger(job);
  const event = trigger.kind === 'value' ? trigger.json : JSON.stringify(triggerEvent(job.trigger));
  const texts = new Map([['trigger', `{"event":${event},"context":${JSON.stringify(context)}}`]]);
  const parsed = new Map<string, unknown>();
  let current = new Map<string, string>();
  let dataBytes = Buffer.byteLength(event);
  let outputBytes = 0;
  let effects = 0;
  let dbSets = 0;

  const scope: Scope = (step) => {
    const text = texts.get(step);
    if (text === undefined) return undefined;
    if (!parsed.has(step)) {
      const data = JSON.parse(text) as Record<string, unknown>;
      if (step === 'trigger') data.raw_event = data.event;
      parsed.set(step, data);
    }
    return parsed.get(step);
  };

  const spend = (bytes: number) => {
    outputBytes += bytes;
    return outputBytes > LIMITS.runBytes
      ? `The run emitted and logged more than ${LIMITS.runBytes / MB} MB.`
      : undefined;
  };

  return {
    texts: () => Object.fromEntries(texts),
    get chars() {
      return texts.values().reduce((sum, { length }) => sum + length, 0);
    },
    toParse(values) {
      const named = new Set(expressionsIn(values).map((expression) => parsePath(expression)?.[0]));
      let bytes = 0;
      for (const step of named) {
        const text = step === undefined || parsed.has(step) ? undefined : texts.get(step);
        if (text !== undefined) bytes += parsedBytes(text) - Buffer.byteLength(text);
      }
      return bytes;
    },
    fill(values) {
      let filled = 0;
      try {
        const result = fillIn(values, scope, (chars) => {
          filled += chars;
          if (filled > LIMITS.stepData)
            throw new RangeError(`The values of the props have more than ${LIMITS.stepData / MB} MB.`);
        });
        return { values: result as Record<string, unknown>, chars: charsIn(values) + filled };
      } catch (error) {
        const { name, message } = error as Error;
        return { error: { name, message, stack: '' } };
      }
    },
    put(name, json) {
      dataBytes += Buffer.byteLength(json) - Buffer.byteLength(current.get(name) ?? '');
      if (dataBytes > LIMITS.stepData)
        return `The trigger event and the exports of the steps have more than ${LIMITS.stepData / MB} MB.`;
      current.set(name, json);
      return undefined;
    },
    finish(step) {
      const fields = [...current].map(([name, json]) => `${JSON.stringify(name)}:${json}`);
      texts.set(step, `{${fields.join(',')}}`);
      current = new Map();
    },
    spend,
    spendEffect(bytes) {
      effects += 1;
      if (effects > LIMITS.emits) return `The run made more than ${LIMITS.emits} emits and requests.`;
      return spend(bytes);
    },
    spendDbSet(bytes) {
      dbSets += 1;
      if (dbSets > LIMITS.dbSets) return `The run changed $service.db more than ${LIMITS.dbSets} times.`;
      return spend(bytes);
    },
  };
}
