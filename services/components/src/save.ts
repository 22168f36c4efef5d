import { createHash } from 'node:crypto';
import { contentHash } from '@wellspring/component/modules/content-hash';
import { CALLS, PREPARE_DEADLINE_MS, type PrepareCall } from '@wellspring/contract/calls';
import type { ComponentCode } from '@wellspring/contract/definition';
import { newId } from '@wellspring/core/ids';
import type { Deps } from '@wellspring/runtime/deps';
import {
  bundles,
  type ComponentRow,
  components,
  publishedKeys,
} from '@wellspring/store/collections/components';
import { insertNew } from '@wellspring/store/insert-new';
import { ConflictError } from '@wellspring/store/port';

/** Compiled code that defines a component. */
export interface Prepared extends Pick<ComponentRow, 'content_hash' | 'bundle_id' | 'definition'> {
  source: ComponentCode;
}

export interface Library {
  /**
   * Compiles code, reads its definition and stores the bundle. Known code is not evaluated again.
   * @param ownerId the owner on whose behalf it is compiled
   * @throws Problem 400 `invalid_component`
   */
  prepare(source: ComponentCode, ownerId: string): Promise<Prepared>;
  /** Stores it as a component of the owner: equal content is the same component. */
  save(ownerId: string, prepared: Prepared, sourceUrl: string | null): Promise<ComponentRow>;
  /** Publishes it under its key and its key@version, for its owner. */
  publish(component: ComponentRow): Promise<void>;
}

export function createLibrary({ store, call, clock }: Pick<Deps, 'store' | 'call' | 'clock'>): Library {
  const componentRows = store.collection(components);
  const bundleRows = store.collection(bundles);
  const keyRows = store.collection(publishedKeys);
  /** Preparations in progress by content: code that is posted twice at once is compiled once. */
  const inProgress = new Map<string, Promise<Prepared>>();

  async function evaluate(source: ComponentCode, content_hash: string, owner_id: string): Promise<Prepared> {
    const message: PrepareCall['message'] = { ...source, owner_id };
    const answer = (await call.request(CALLS.prepare, message, {
      deadlineMs: PREPARE_DEADLINE_MS,
    })) as PrepareCall['answer'];
    const { bundle_id, bundle, definition } = answer;
    await bundleRows.insertMany([{ id: bundle_id, content: JSON.stringify(bundle) }]);
    return { source, content_hash, bundle_id, definition };
  }

  async function point(ownerId: string, key: string, component_id: string): Promise<void> {
    const id = `${ownerId}/${key}`;
    while (!(await keyRows.patch(id, { component_id }))) {
      const inserted = await keyRows.insertMany([{ id, owner_id: ownerId, key, component_id }]);
      if (inserted.length > 0) return;
    }
  }

  return {
    async prepare(source, ownerId) {
      const content_hash = contentHash(source);
      const known = await componentRows.find({ content_hash });
      if (known) return { source, content_hash, bundle_id: known.bundle_id, definition: known.definition };
      let preparing = inProgress.get(content_hash);
      if (!preparing) {
        preparing = evaluate(source, content_hash, ownerId).finally(() => inProgress.delete(content_hash));
        inProgress.set(content_hash, preparing);
      }
      return preparing;
    },

    async save(ownerId, { source, content_hash, bundle_id, definition }, sourceUrl) {
      const mine = { owner_id: ownerId, content_hash };
      const before = await componentRows.find(mine);
      if (before) return before;
      const seconds = Math.floor(clock.now() / 1000);
      try {
        return await insertNew(componentRows, () => ({
          id: newId('sc'),
          ...mine,
          code: source.code,
          modules: source.modules ? JSON.stringify(source.modules) : '',
          code_hash: sha256(source.code),
          bundle_id,
          definition,
          source_url: sourceUrl,
          created_at: seconds,
          updated_at: seconds,
        }));
      } catch (error) {
        if (!(error instanceof ConflictError)) throw error;
        const other = await componentRows.find(mine);
        if (!other) throw error;
        return other;
      }
    },

    async publish({ id, owner_id, definition: { key, version } }) {
      if (key === null) return;
      await point(owner_id, key, id);
      if (version !== '') await point(owner_id, `${key}@${version}`, id);
    },
  };
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
