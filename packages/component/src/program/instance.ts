import { hasEndpoint } from '@wellspring/contract/definition-rules';
import { systemClock } from '@wellspring/core/clock';
import { type Fields, isObject } from '../fields.ts';
import { createDataStore } from './data-store.ts';
import { createDatabase } from './database.ts';
import { attributesOf } from './define.ts';
import { createEmit } from './emitter.ts';
import { createHttpRequest } from './http-request.ts';
import type { ChildIO, Instance } from './program-types.ts';
import { createRespond } from './responder.ts';

const NO_ENDPOINT = { url: '', customResponse: false };

/** Methods as properties of the object that they are called on. */
function bindMethods(target: Fields, methods: unknown): void {
  if (!isObject(methods)) return;
  for (const [name, method] of Object.entries(methods)) {
    target[name] = typeof method === 'function' ? method.bind(target) : method;
  }
}

/** An app prop: an object with the methods of the app, and the credentials of its account as `$auth`. */
export function appInstance(prop: unknown, credentials: Record<string, string>): Fields {
  const app: Fields = { $auth: { ...credentials } };
  if (isObject(prop)) bindMethods(app, prop.methods);
  return app;
}

/** The account was deleted, or the owner of the source lost access to it. */
function warnOfLoss(io: ChildIO, prop: string, id: string): void {
  const msg = `The account ${id} of the prop ${prop} cannot be used any more: its $auth is empty.`;
  io.log({ ts: systemClock.now(), level: 'warn', msg });
}

/** Values stored with their label are passed to the code as label and value; in a list, each of them may be. */
function unlabelled(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(unlabelled);
  return isObject(value) && isObject(value.__lv) ? value.__lv : value;
}

/** A copy for each run, since code may change it. */
const copied = (value: unknown): unknown => (isObject(value) ? JSON.parse(JSON.stringify(value)) : value);

/**
 * `this` of a component: its props, its methods, `$emit`. It does not include run and hooks.
 * @param declared props by name as the code has them, those of additionalProps included if they have apps
 */
export function createInstance(
  component: Fields,
  declared: Fields,
  { props, values, endpoints, accounts = {} }: Instance,
  db: Map<string, string>,
  io: ChildIO,
): Fields {
  const self: Fields = {};
  const configured = (name: string) => (Object.hasOwn(values, name) ? values[name] : undefined);
  for (const { name, type } of props) {
    if (hasEndpoint({ type })) {
      const { url, customResponse } = (Object.hasOwn(endpoints, name) && endpoints[name]) || NO_ENDPOINT;
      self[name] = { endpoint: url, respond: createRespond(io, customResponse) };
    } else if (type === '$.service.db') {
      self[name] = createDatabase(io, db);
    } else if (type === 'app') {
      // additionalProps may return an app no longer.
      const app = Object.hasOwn(declared, name) ? attributesOf(name, declared[name]) : {};
      const credentials = Object.hasOwn(accounts, name) ? accounts[name] : undefined;
      const { authProvisionId } = (configured(name) ?? {}) as { authProvisionId?: unknown };
      if (!credentials && authProvisionId !== undefined) warnOfLoss(io, name, String(authProvisionId));
      self[name] = appInstance(app, credentials ?? {});
    } else if (type === 'data_store') {
      self[name] = createDataStore(createDatabase(io, db), db, String(configured(name) ?? name));
    } else if (type === 'http_request') {
      self[name] = createHttpRequest(copied(configured(name)));
    } else {
      self[name] = copied(unlabelled(configured(name)));
    }
  }
  // While a component is configured, props that are not known yet may have values.
  for (const [name, value] of Object.entries(values)) {
    if (name !== '__proto__' && !Object.hasOwn(self, name)) self[name] = copied(unlabelled(value));
  }
  bindMethods(self, component.methods);
  self.$emit = createEmit(io);
  return self;
}
