import { createDatabase } from './database.ts';
import { attributesOf } from './define.ts';
import { createEmit } from './emitter.ts';
import type { ChildIO, Instance } from './program-types.ts';
import { createRespond } from './responder.ts';

type Fields = Record<string, unknown>;

const isObject = (value: unknown): value is Fields => typeof value === 'object' && value !== null;

const NO_ENDPOINT = { url: '', customResponse: false };

/** Methods as properties of the object that they are called on. */
function bindMethods(target: Fields, methods: unknown): void {
  if (!isObject(methods)) return;
  for (const [name, method] of Object.entries(methods)) {
    target[name] = typeof method === 'function' ? method.bind(target) : method;
  }
}

/** An app prop: an object with the methods of the app. Accounts are not supported yet: `$auth` is empty. */
function appInstance(prop: unknown): Fields {
  const app: Fields = { $auth: {} };
  if (isObject(prop)) bindMethods(app, prop.methods);
  return app;
}

/** Values stored with their label are passed to the code as label and value. */
const unlabelled = (value: unknown): unknown =>
  isObject(value) && isObject(value.__lv) ? value.__lv : value;

/** A copy for each run, since code may change it. */
const copied = (value: unknown): unknown => (isObject(value) ? JSON.parse(JSON.stringify(value)) : value);

/**
 * `this` of a component: its props, its methods, `$emit`. It does not include run and hooks.
 */
export function createInstance(
  component: Fields,
  { props, values, endpoints }: Instance,
  db: Map<string, string>,
  io: ChildIO,
): Fields {
  const self: Fields = {};
  const declared = isObject(component.props) ? component.props : {};
  for (const { name, type } of props) {
    if (type === '$.interface.http') {
      const { url, customResponse } = (Object.hasOwn(endpoints, name) && endpoints[name]) || NO_ENDPOINT;
      self[name] = { endpoint: url, respond: createRespond(io, customResponse) };
    } else if (type === '$.service.db') {
      self[name] = createDatabase(io, db);
    } else if (type === 'app') {
      self[name] = appInstance(attributesOf(name, declared[name]));
    } else {
      self[name] = copied(unlabelled(Object.hasOwn(values, name) ? values[name] : undefined));
    }
  }
  bindMethods(self, component.methods);
  self.$emit = createEmit(io);
  return self;
}
