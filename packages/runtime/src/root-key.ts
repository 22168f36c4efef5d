import { createSeal, type Seal } from '@wellspring/core/seal';
import { StartRefused } from '@wellspring/core/start-refused';
import { type InstallationRow, installation } from '@wellspring/store/collections/installation';
import type { Store } from '@wellspring/store/port';
import type { Config } from './config.ts';
import { type Keys, readKeys } from './credentials.ts';

const ID = 'root_key';
const TEXT = 'This data belongs to this root key.';

/** A root key with which data may be sealed is missing. */
export class WrongRootKey extends StartRefused {
  override readonly name = 'WrongRootKey';
}

/** The row that proves a key which became the newest one after others. */
const proofOf = (key: string): InstallationRow => {
  const seal = createSeal([key]);
  const id = `${ID}/${seal.keysFor('root-key-id')[0]!.toString('hex').slice(0, 16)}` as const;
  return { id, sealed: seal.seal(TEXT, ID) };
};

/**
 * Reads the keys and compares the root keys with the data: for each key with which data may be sealed, the store holds a
 * text that this key sealed. A key becomes one of them at the start of a process that names it first.
 * @throws WrongRootKey if one of these texts cannot be opened, or the data exist and their key is missing
 */
export async function openRootKey(store: Store, config: Config): Promise<{ keys: Keys; seal: Seal }> {
  const rows = store.collection(installation);
  let proofs = await rows.list();
  const keys = readKeys(config, {
    refuse:
      proofs.length > 0
        ? (path) =>
            new WrongRootKey(
              `The root key of the data is missing: restore ${path}, or set WELLSPRING_SECRET_KEY.`,
            )
        : undefined,
  });
  const [newest] = keys.secretKeys;
  const seal = createSeal(keys.secretKeys);
  if (proofs.length === 0) {
    await rows.insertMany([{ ...proofOf(newest!), id: ID }]);
    // Another process may have been the first.
    proofs = await rows.list();
  }
  const keyFile = config.secretKeys === null ? `${config.dataDir}/secret.key` : undefined;
  checkProofs(proofs, seal, keyFile);
  const current = createSeal([newest!]);
  if (!proofs.some(({ sealed }) => opens(current, sealed))) await rows.insertMany([proofOf(newest!)]);
  return { keys, seal };
}

/**
 * Compares root keys with the data, and changes nothing.
 * @throws WrongRootKey
 */
export async function checkRootKeys(store: Store, secretKeys: readonly string[]): Promise<void> {
  checkProofs(await store.collection(installation).list(), createSeal(secretKeys));
}

/** @param keyFile from which the key was read; undefined: from the setting */
function checkProofs(proofs: readonly InstallationRow[], seal: Seal, keyFile?: string): void {
  const opened = proofs.filter(({ sealed }) => opens(seal, sealed));
  if (opened.length < proofs.length) throw new WrongRootKey(reasonOf(keyFile, opened.length > 0));
}

/** From now on only the newest key is required. Everything has to be sealed with it. */
export async function endRotation(store: Store, { secretKeys }: Keys): Promise<void> {
  const rows = store.collection(installation);
  await rows.patch(ID, { sealed: proofOf(secretKeys[0]!).sealed });
  await rows.removeWhere({ id: { gt: ID } });
}

function reasonOf(keyFile: string | undefined, opensSome: boolean): string {
  if (opensSome) {
    return 'WELLSPRING_SECRET_KEY lacks a root key with which data may be sealed: name it after the new one, until "pnpm run reseal" has sealed them anew.';
  }
  return keyFile !== undefined
    ? `The key in ${keyFile} is not that of the data: restore the file, or set WELLSPRING_SECRET_KEY.`
    : 'WELLSPRING_SECRET_KEY is not the root key of the data: none of its keys opens them. Restore the key; to rotate it, name the new and the old one.';
}

function opens(seal: Seal, sealed: string): boolean {
  try {
    return seal.open(sealed, ID) === TEXT;
  } catch {
    return false;
  }
}
