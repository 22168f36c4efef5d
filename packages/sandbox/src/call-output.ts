import type { LogLine } from '@wellspring/component/program/program-types';
import type { UnfinishedCall } from './child.ts';
import type { ChildMessage } from './frame-schema.ts';

type Output = Exclude<ChildMessage, { type: 'ready' | 'spoiled' | 'end' }>;

/**
 * Passes output of the code to the host of its call, within the budget of the call.
 * @param isWithin ends the process for an exceeded limit
 * @returns whether the output is kept
 */
export function passOn(
  message: Output,
  call: Pick<UnfinishedCall, 'host' | 'budget'>,
  isWithin: (excess: string | undefined) => boolean,
): boolean {
  const { host, budget } = call;
  switch (message.type) {
    case 'emit':
      if (!isWithin(budget.emit())) return false;
      host.emit(message.emit);
      return true;
    case 'fault':
      if (!budget.fault()) return false;
      host.fault(message.error);
      return true;
    case 'respond':
      if (!budget.reply()) return false;
      host.respond(message.reply);
      return true;
    case 'log':
      return passOnLine(message.line, call);
    case 'export':
      if (!isWithin(budget.step())) return false;
      host.export?.(message.name, message.json);
      return true;
    case 'send':
      if (!isWithin(budget.step())) return false;
      host.send?.(message.kind, message.request);
      return true;
    case 'dbSet':
      if (!isWithin(budget.dbSet())) return false;
      host.dbSet(message.key, message.json);
      return true;
  }
}

/** @returns whether this line is kept, and further ones are accepted */
export function passOnLine(
  given: LogLine,
  { host, budget }: Pick<UnfinishedCall, 'host' | 'budget'>,
): boolean {
  const line = budget.line(given.msg.length);
  if (line === 'take') host.log(given);
  if (line === 'last') {
    host.log({ ts: given.ts, level: 'warn', msg: 'Further lines of this run were dropped.' });
  }
  return line === 'take';
}
