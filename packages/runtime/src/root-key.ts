import { createSeal, type Seal } from '@wellspring/core/seal';
import { type InstallationRow, installation } from '@wellspring/store/collections/installation';
import type { Store } from '@wellspring/store/port';
import type { Config } from './config.ts';
import { type Keys, readKeys } from './credentials.ts';

const ID = 'root_key';
const TEXT = 'This data belongs to this root key.';

/** The data were sealed with another root key. A restart is useless. */
export class WrongRootKey extends Error {
  override readonly name = 'WrongRootKey';
}

/**
 * Reads the keys and compares the root keys with the data: the store holds a text that the newest one sealed. A key
 * becomes the newest one at the start of a process that names it first (rotation).
 * @throws WrongRootKey if none of the keys opens it, or the data exist and their key is missing
 */
export async function openRootKey(store: Store, config: Config): Promise<{ keys: Keys; seal: Seal }> {
  const rows = store.collection(installation);
  const known = await rows.get(ID);
  const keys = readKeys(config, {
    refuse:
      known &&
      ((path) =>
        new WrongRootKey(
          `The root key of the data is missing: restore ${path}, or set WELLSPRING_SECRET_KEY.`,
        )),
  });
  const seal = createSeal(keys.secretKeys);
  const row: InstallationRow = { id: ID, sealed: seal.seal(TEXT, ID) };
  if (!known) await rows.insertMany([row]);
  // Another process may have been the first.
  const { sealed } = known ?? (await rows.get(ID))!;
  if (!opens(seal, sealed)) {
    throw new WrongRootKey(
      config.secretKeys === null
        ? `The key in ${config.dataDir}/secret.key is not that of the data: restore the file, or set WELLSPRING_SECRET_KEY.`
        : 'WELLSPRING_SECRET_KEY is not the root key of the data: none of its keys opens them. Restore the key; to rotate it, name the new and the old one.',
    );
  }
  if (!opens(createSeal(keys.secretKeys.slice(0, 1)), sealed)) await rows.patch(ID, row);
  return { keys, seal };
}

function opens(seal: Seal, sealed: string): boolean {
  try {
    return seal.open(sealed, ID) === TEXT;
  } catch {
    return false;
  }
}
