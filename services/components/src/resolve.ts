import { CALLS, type ResolveCall } from '@wellspring/contract/calls';
import { invalidParameter, missingParameter, notFound } from '@wellspring/core/problem';
import { untilAborted } from '@wellspring/core/until-aborted';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import type { ComponentRow } from '@wellspring/store/collections/components';
import type { ComponentsContext } from './context.ts';
import { findById, findByKey } from './find-component.ts';

const MAX_URL_CHARS = 4096;

/** @throws Problem 400 that names the parameter, unless it is a non-empty text */
export function nonEmpty(value: unknown, param: string): string {
  if (typeof value !== 'string') throw invalidParameter(param, `${param} has to be a text.`);
  if (value === '') throw invalidParameter(param, `${param} must not be empty.`);
  return value;
}

/** The origin that the client names for its code: stored, never fetched. */
export const originOf = (value: unknown): string | null =>
  typeof value === 'string' && value !== '' && value.length <= MAX_URL_CHARS ? value : null;

/** Saves code, given or fetched from a URL, as a component of the owner, without publishing it. */
export async function saveUnpublished(
  { library, fetchCode }: Pick<ComponentsContext, 'library' | 'fetchCode'>,
  ownerId: string,
  { component_code, component_url }: { component_code?: unknown; component_url?: unknown },
): Promise<ComponentRow> {
  if (component_code != null) {
    const code = nonEmpty(component_code, 'component_code');
    return library.save(ownerId, await library.prepare({ code }, ownerId), originOf(component_url));
  }
  const url = nonEmpty(component_url, 'component_url');
  if (url.length > MAX_URL_CHARS)
    throw invalidParameter('component_url', `component_url has more than ${MAX_URL_CHARS} characters.`);
  return library.save(ownerId, await library.prepare(await fetchCode(url), ownerId), url);
}

/** Serves `components.resolve`: component_id, then component_code, then key, then component_url. */
export function resolveWorker(context: ComponentsContext): BackgroundWorker {
  const { deps } = context;

  async function resolve(message: ResolveCall['message']): Promise<ResolveCall['answer']> {
    const { owner_id, reader_ids, component_id, component_code, key, component_url } = message;
    if (component_id != null) {
      const id = nonEmpty(component_id, 'component_id');
      const component = await findById(deps, id, reader_ids);
      if (!component) throw notFound('component', id);
      return { component_id: component.id };
    }
    if (component_code == null && key != null) {
      const wanted = nonEmpty(key, 'key');
      const component = await findByKey(deps, wanted, owner_id);
      if (!component) throw notFound('component', wanted);
      return { component_id: component.id };
    }
    if (component_code == null && component_url == null) throw missingParameter('component_id');
    const component = await saveUnpublished(context, owner_id, { component_code, component_url });
    return { component_id: component.id };
  }

  return {
    name: 'components.resolve',
    async run(signal) {
      deps.call.serve(CALLS.resolve, resolve, signal);
      await untilAborted(signal);
    },
  };
}
