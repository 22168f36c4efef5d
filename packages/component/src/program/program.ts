import type { Fields } from '../fields.ts';
import { callEvent } from '../http-event.ts';
import { runAction } from './action.ts';
import { readDefinition, readProps } from './define.ts';
import { withDynamicProps } from './dynamic-props.ts';
import { createInstance } from './instance.ts';
import { optionsOf } from './options.ts';
import type { ChildIO, Instance, Program, RunTrigger } from './program-types.ts';
import { createRunIO, NO_EFFECTS } from './run-io.ts';
import { toThrown } from './thrown.ts';

type Method = (event?: unknown) => unknown;

/** The component in its child process. */
export function createProgram(io: ChildIO): Program {
  const db = new Map<string, string>();
  let component: Fields = {};
  let instance: Instance | undefined;
  /** With those of additionalProps. */
  let allProps: Promise<Fields> | undefined;

  function syncDb(entries: Record<string, string>): void {
    db.clear();
    for (const [key, json] of Object.entries(entries)) db.set(key, json);
  }

  /**
   * The props as the code declares them. Props that additionalProps returned are stored as data, without the methods of
   * apps. So if an app is among them, additionalProps is called again, once in a process and without effects.
   */
  function propsFor(own: Instance): Fields | Promise<Fields> {
    const fixed = (component.props ?? {}) as Fields;
    if (own.props.every(({ name, type }) => type !== 'app' || Object.hasOwn(fixed, name))) return fixed;
    if (!allProps) {
      allProps = withDynamicProps(component, createInstance(component, fixed, own, new Map(db), NO_EFFECTS));
      allProps.catch(() => {
        allProps = undefined;
      });
    }
    return allProps;
  }

  /** Each run has its own `this`: effects of its code after its end are not attributed to another run. */
  async function inRun<T>(
    work: (self: Fields, runIO: ChildIO) => T,
    values?: Instance['values'],
  ): Promise<Awaited<T>> {
    if (!instance) throw new Error('The program was not started.');
    const { runIO, close } = createRunIO(io);
    const own = values === undefined ? instance : { ...instance, values };
    try {
      return await work(createInstance(component, await propsFor(own), own, db, runIO), runIO);
    } finally {
      close();
    }
  }

  return {
    define: readDefinition,
    start(module, given) {
      component = module as Fields;
      instance = given;
      allProps = undefined;
      syncDb(given.db);
    },
    syncDb,
    run: (trigger, emitTrigger) =>
      inRun(async (self) => {
        const event = eventOf(trigger);
        await (emitTrigger ? (self.$emit as Method)(event) : (component.run as Method).call(self, event));
      }),
    hook: (name) =>
      inRun(async (self) => {
        await (component.hooks as Record<string, Method>)[name]!.call(self);
      }),
    options: (prop, request) =>
      inRun(async (self) => {
        const declared = (component.props ?? {}) as Fields;
        const props = Object.hasOwn(declared, prop) ? declared : await withDynamicProps(component, self);
        if (!Object.hasOwn(props, prop)) throw new Error(`The component has no prop ${prop}.`);
        return optionsOf(prop, props, self, request);
      }),
    props: () => inRun(async (self) => readProps(await withDynamicProps(component, self))),
    action: (call) =>
      inRun((self, runIO) => {
        delete self.$emit;
        return runAction(component, self, call, runIO);
      }, call.values),
    toThrown,
  };
}

const eventOf = (trigger: RunTrigger): unknown =>
  trigger.kind === 'http' ? callEvent(trigger.request) : JSON.parse(trigger.json);

/** `defineComponent` and similar functions are globals that return their argument. */
export function installGlobals(): void {
  for (const name of ['defineComponent', 'defineSource', 'defineAction', 'defineApp']) {
    Object.defineProperty(globalThis, name, {
      value: (definition: unknown) => definition,
      writable: true,
      configurable: true,
    });
  }
}
