import { CALLS, type ResolveCall } from '@wellspring/contract/calls';
import type { ComponentCode, Definition } from '@wellspring/contract/definition';
import { createHold, type Hold } from '@wellspring/core/byte-budget';
import {
  invalidComponent,
  invalidParameter,
  missingComponent,
  notFound,
  Problem,
} from '@wellspring/core/problem';
import { untilAborted } from '@wellspring/core/until-aborted';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import type { ComponentRow } from '@wellspring/store/collections/components';
import type { ComponentsContext } from './context.ts';
import { findById, findByKey } from './find-component.ts';
import type { Compiled } from './save.ts';

const MAX_URL_CHARS = 4096;

/** @throws Problem 400 that names the parameter, unless it is a non-empty text */
function nonEmpty(value: unknown, param: string): string {
  if (typeof value !== 'string') throw invalidParameter(param, `${param} has to be a text.`);
  if (value === '') throw invalidParameter(param, `${param} must not be empty.`);
  return value;
}

/** The origin that the client names for its code: stored, never fetched. */
const originOf = (value: unknown): string | null =>
  typeof value === 'string' && value !== '' && value.length <= MAX_URL_CHARS ? value : null;

/** Code, given or fetched from a URL, and where it came from. */
async function readCode(
  { fetchCode }: Pick<ComponentsContext, 'fetchCode'>,
  ownerId: string,
  { component_code, component_url }: { component_code?: unknown; component_url?: unknown },
  hold: Hold,
): Promise<{ source: ComponentCode; origin: string | null; param: string }> {
  if (component_code != null) {
    const code = nonEmpty(component_code, 'component_code');
    return { source: { code }, origin: originOf(component_url), param: 'component_code' };
  }
  const url = nonEmpty(component_url, 'component_url');
  if (url.length > MAX_URL_CHARS)
    throw invalidParameter('component_url', `component_url has more than ${MAX_URL_CHARS} characters.`);
  return { source: await fetchCode(url, ownerId, hold), origin: url, param: 'component_url' };
}

/** Names the parameter that contains or locates the code, if it is at fault. */
export async function ofParameter<T>(param: string, compiled: Promise<T>): Promise<T> {
  try {
    return await compiled;
  } catch (error) {
    const isUnnamed =
      error instanceof Problem && error.code === 'invalid_component' && error.param === undefined;
    throw isUnnamed ? invalidComponent(error.message, param) : error;
  }
}

/**
 * Saves code, given or fetched from a URL, as a component of the owner, without publishing it.
 * @param hold takes the bytes that are fetched
 * @param check throws to refuse the definition before it is saved
 */
export async function saveUnpublished(
  context: Pick<ComponentsContext, 'library' | 'fetchCode'>,
  ownerId: string,
  given: { component_code?: unknown; component_url?: unknown },
  hold: Hold,
  check?: (definition: Definition, param: string) => void,
): Promise<ComponentRow> {
  const { source, origin, param } = await readCode(context, ownerId, given, hold);
  const prepared = await ofParameter(param, context.library.prepare(source, ownerId));
  check?.(prepared.definition, param);
  return context.library.save(ownerId, prepared, origin);
}

/** The saved component that is named; undefined if code is given. @throws Problem 400, 404 */
async function findSaved(
  { deps }: Pick<ComponentsContext, 'deps'>,
  { owner_id, reader_ids, component_id, component_code, key, component_url }: ResolveCall['message'],
): Promise<ComponentRow | undefined> {
  if (component_id != null) {
    const id = nonEmpty(component_id, 'component_id');
    const component = await findById(deps, id, reader_ids);
    if (!component) throw notFound('component', id);
    return component;
  }
  if (component_code != null) return undefined;
  if (key != null) {
    const wanted = nonEmpty(key, 'key');
    const component = await findByKey(deps, wanted, owner_id);
    if (!component) throw notFound('component', wanted);
    return component;
  }
  if (component_url == null) throw missingComponent();
  return undefined;
}

/**
 * The component of a request; code is compiled, but not saved.
 * @param hold takes the bytes that are fetched
 * @throws Problem 400, 404
 */
export async function resolveUnsaved(
  context: ComponentsContext,
  message: ResolveCall['message'],
  hold: Hold,
): Promise<Pick<Compiled, 'bundle_id' | 'bundle' | 'definition'>> {
  const saved = await findSaved(context, message);
  if (saved) return { bundle_id: saved.bundle_id, definition: saved.definition };
  const { source, param } = await readCode(context, message.owner_id, message, hold);
  return ofParameter(param, context.library.compile(source, message.owner_id));
}

/** Serves `components.resolve`: component_id, then component_code, then key, then component_url. */
export function resolveWorker(context: ComponentsContext): BackgroundWorker {
  const { deps } = context;
  const resolve = async (message: ResolveCall['message']): Promise<ResolveCall['answer']> => {
    const found = await findSaved(context, message);
    if (found) return { component_id: found.id };
    const { owner_id } = message;
    const hold = createHold(deps.memory.api, owner_id);
    try {
      return { component_id: (await saveUnpublished(context, owner_id, message, hold)).id };
    } finally {
      hold.release();
    }
  };

  return {
    name: 'components.resolve',
    async run(signal) {
      deps.call.serve(CALLS.resolve, resolve, signal);
      await untilAborted(signal);
    },
  };
}
