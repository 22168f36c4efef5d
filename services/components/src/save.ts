import { contentHash, isSingleFile, sha256 } from '@wellspring/component/modules/content-hash';
import { CALLS, PREPARE_DEADLINE_MS, PREPARE_REACH_MS, type PrepareCall } from '@wellspring/contract/calls';
import type { Bundle, ComponentCode } from '@wellspring/contract/definition';
import { newId } from '@wellspring/core/ids';
import { jsonTextOf, stringify } from '@wellspring/core/json-text';
import { createLru } from '@wellspring/core/lru';
import { parsedBytes } from '@wellspring/core/parsed-size';
import { checkOwner } from '@wellspring/runtime/check-owner';
import type { Deps } from '@wellspring/runtime/deps';
import {
  bundles,
  type ComponentRow,
  components,
  publishedKeys,
  REGISTRY,
} from '@wellspring/store/collections/components';
import { insertNew } from '@wellspring/store/insert-new';
import { packText } from '@wellspring/store/packed-text';
import { ConflictError } from '@wellspring/store/port';

/** Characters of compiled code that is kept in memory: a bundle may have 24 million. */
const MAX_RECENT_CHARS = 32 * 1024 * 1024;

/** Compiled code that defines a component. */
export interface Prepared extends Pick<ComponentRow, 'content_hash' | 'bundle_id' | 'definition'> {
  source: ComponentCode;
}

/** Compiled code, not stored. */
export interface Compiled extends Pick<ComponentRow, 'content_hash' | 'bundle_id' | 'definition'> {
  /** Absent: the bundle is in the store. */
  bundle?: Bundle;
}

export interface Library {
  /**
   * Compiles code and reads its definition without storing anything. Known code is not evaluated again.
   * @throws Problem 400 `invalid_component`
   */
  compile(source: ComponentCode, ownerId: string): Promise<Compiled>;
  /**
   * Like `compile`, and stores the bundle.
   * @param ownerId the owner on whose behalf it is compiled
   * @throws Problem 400 `invalid_component`
   */
  prepare(source: ComponentCode, ownerId: string): Promise<Prepared>;
  /**
   * Stores it as a component of the owner: equal content is the same component, with the newest URL that is given.
   * @throws Problem 404: the owner is deleted meanwhile
   */
  save(ownerId: string, prepared: Prepared, sourceUrl: string | null): Promise<ComponentRow>;
  /**
   * Publishes it under its key and its key@version, for its owner, a user or organization.
   * @throws Problem 404: the owner is deleted meanwhile
   */
  publish(component: ComponentRow): Promise<void>;
}

const sizeOf = ({ bundle, definition }: Compiled) =>
  (bundle?.code.length ?? 0) + (bundle?.lockfile?.length ?? 0) + parsedBytes(JSON.stringify(definition));

/** A bundle as JSON. */
const contentOf = async (bundle: Bundle) => stringify({ ...bundle, code: await jsonTextOf(bundle.code) });

export function createLibrary({ store, call, clock }: Pick<Deps, 'store' | 'call' | 'clock'>): Library {
  const componentRows = store.collection(components);
  const bundleRows = store.collection(bundles);
  const keyRows = store.collection(publishedKeys);
  /** By content: code that is posted twice, or configured step by step, is compiled once. */
  const recent = createLru<Compiled>(MAX_RECENT_CHARS, sizeOf);
  /** By content and owner: no owner waits in the queue of another one, or shares the failures of its limits. */
  const compiling = new Map<string, Promise<Compiled>>();

  async function evaluate(source: ComponentCode, content_hash: string, owner_id: string): Promise<Compiled> {
    const message: PrepareCall['message'] = { ...source, owner_id };
    const answer = (await call.request(CALLS.prepare, message, {
      deadlineMs: PREPARE_DEADLINE_MS,
      reachMs: PREPARE_REACH_MS,
    })) as PrepareCall['answer'];
    const compiled = { ...answer, content_hash };
    recent.set(content_hash, compiled);
    return compiled;
  }

  async function compile(source: ComponentCode, ownerId: string): Promise<Compiled> {
    const content_hash = await contentHash(source);
    const known = await componentRows.find({ content_hash });
    if (known) return { content_hash, bundle_id: known.bundle_id, definition: known.definition };
    const compiled = recent.get(content_hash);
    if (compiled) return compiled;
    const key = `${content_hash} ${ownerId}`;
    let evaluation = compiling.get(key);
    if (!evaluation) {
      evaluation = evaluate(source, content_hash, ownerId).finally(() => compiling.delete(key));
      compiling.set(key, evaluation);
    }
    return evaluation;
  }

  async function point(ownerId: string, key: string, component_id: string): Promise<void> {
    const id = `${ownerId}/${key}`;
    while (!(await keyRows.patch(id, { component_id }))) {
      const inserted = await keyRows.insertMany([{ id, owner_id: ownerId, key, component_id }]);
      if (inserted.length > 0) return;
    }
  }

  return {
    compile,
    async prepare(source, ownerId) {
      const { bundle, ...compiled } = await compile(source, ownerId);
      const id = compiled.bundle_id;
      // Clears the mark of an unused bundle, so that it is not removed.
      if (bundle && !(await bundleRows.patch(id, { unused_since: null })))
        await bundleRows.insertMany([
          { id, content: await packText(await contentOf(bundle)), unused_since: null },
        ]);
      return { source, ...compiled };
    },

    async save(ownerId, { source, content_hash, bundle_id, definition }, sourceUrl) {
      const mine = { owner_id: ownerId, content_hash };
      const seconds = Math.floor(clock.now() / 1000);
      const findMine = async () => {
        const found = await componentRows.find(mine);
        if (!found || sourceUrl === null || sourceUrl === found.source_url) return found;
        const named = { source_url: sourceUrl, updated_at: seconds };
        await componentRows.patch(found.id, named);
        return { ...found, ...named };
      };
      const before = await findMine();
      if (before) return before;
      const code_hash = isSingleFile(source) ? content_hash : await sha256(source.code);
      const code = await packText(source.code);
      const modules = source.modules ? await packText(JSON.stringify(source.modules)) : '';
      try {
        const row = await insertNew(componentRows, () => ({
          id: newId('sc'),
          ...mine,
          code,
          modules,
          code_hash,
          bundle_id,
          definition,
          source_url: sourceUrl,
          created_at: seconds,
          updated_at: seconds,
        }));
        if (ownerId !== REGISTRY) await checkOwner(store, ownerId, () => componentRows.remove(row.id));
        return row;
      } catch (error) {
        if (!(error instanceof ConflictError)) throw error;
        const other = await findMine();
        if (!other) throw error;
        return other;
      }
    },

    async publish({ id, owner_id, definition: { key, version } }) {
      if (key === null) return;
      await point(owner_id, key, id);
      if (version !== '') await point(owner_id, `${key}@${version}`, id);
      await checkOwner(store, owner_id, () => keyRows.removeWhere({ owner_id }));
    },
  };
}
