import { httpEvent } from '../http-event.ts';
import { readDefinition } from './define.ts';
import { createInstance } from './instance.ts';
import type { ChildIO, Instance, Program } from './program-types.ts';
import { toThrown } from './thrown.ts';

type Run = (event: unknown) => unknown;

/** The component inside its child process. */
export function createProgram(io: ChildIO): Program {
  const db = new Map<string, string>();
  let component: Record<string, unknown> = {};
  let self: Record<string, unknown> = {};
  let answered = false;
  const isFirstReply = () => {
    const first = !answered;
    answered = true;
    return first;
  };

  function syncDb(entries: Record<string, string>): void {
    db.clear();
    for (const [key, json] of Object.entries(entries)) db.set(key, json);
  }

  return {
    define: readDefinition,
    start(module, instance: Instance) {
      component = module as Record<string, unknown>;
      syncDb(instance.db);
      self = createInstance(component, instance, db, io, isFirstReply);
    },
    syncDb,
    async run(trigger, emitTrigger) {
      answered = false;
      const event = trigger.kind === 'http' ? httpEvent(trigger.request) : JSON.parse(trigger.json);
      if (emitTrigger) await (self.$emit as Run)(event);
      else await (component.run as Run).call(self, event);
    },
    async hook(name) {
      const hooks = component.hooks as Record<string, () => unknown>;
      await hooks[name]!.call(self);
    },
    toThrown,
  };
}

/** `defineComponent` and its kin are there without an import and return their argument. */
export function installGlobals(): void {
  for (const name of ['defineComponent', 'defineSource', 'defineAction', 'defineApp']) {
    Object.defineProperty(globalThis, name, {
      value: (definition: unknown) => definition,
      writable: true,
      configurable: true,
    });
  }
}
