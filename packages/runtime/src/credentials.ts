import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { newApiKey } from '@wellspring/core/api-key';
import { newSecret } from '@wellspring/core/ids';
import type { Config } from './config.ts';
import { readIfThere, writePrivate } from './private-file.ts';

/** Content of `credentials.json` in the data directory. */
export interface Credentials {
  url: string;
  api_key: string;
  admin_key: string;
}

/** The keys of this installation: preset, stored in the data directory, or generated. */
export interface Keys {
  credentials: Credentials;
  /** Root keys, newest first. */
  secretKeys: readonly string[];
  /** The API key is not the stored one, so the database may lack it. */
  isNewApiKey: boolean;
  path: string;
  /** Stores the credentials in a file that only its owner can read, once they can be used. */
  save(): void;
}

/**
 * Reads the keys and generates missing ones. A generated root key is stored at once in a file that only its owner can
 * read.
 * @param refuse the error if the root key would be generated; undefined: it may
 */
export function readKeys(
  config: Pick<Config, 'dataDir' | 'publicUrl' | 'apiKey' | 'adminKey' | 'secretKeys'>,
  { refuse }: { refuse?: ((path: string) => Error) | undefined } = {},
): Keys {
  const { dataDir } = config;
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, 'credentials.json');
  const before = readCredentials(path);
  const credentials = {
    url: config.publicUrl,
    api_key: config.apiKey ?? before.api_key ?? newApiKey(),
    admin_key: config.adminKey ?? before.admin_key ?? newApiKey(),
  };
  return {
    credentials,
    secretKeys: config.secretKeys ?? [keptSecretKey(join(dataDir, 'secret.key'), refuse)],
    isNewApiKey: before.api_key !== credentials.api_key,
    path,
    save() {
      if (sameCredentials(before, credentials)) return;
      writePrivate(path, `${JSON.stringify(credentials, null, 2)}\n`);
    },
  };
}

/** @returns the key of the operator API; undefined if the data directory has no key */
export const readOperatorKey = (dataDir: string): string | undefined =>
  readCredentials(join(dataDir, 'credentials.json')).admin_key;

const sameCredentials = (a: Partial<Credentials>, b: Credentials) =>
  a.url === b.url && a.api_key === b.api_key && a.admin_key === b.admin_key;

function readCredentials(path: string): Partial<Credentials> {
  const text = readIfThere(path);
  if (text === undefined) return {};
  try {
    return JSON.parse(text) as Partial<Credentials>;
  } catch {
    throw new Error(`${path} is not valid JSON: correct it, or remove it to have new keys made.`);
  }
}

function keptSecretKey(path: string, refuse?: (path: string) => Error): string {
  const kept = readIfThere(path)?.trim();
  if (kept) return kept;
  if (refuse) throw refuse(path);
  const made = newSecret() + newSecret();
  writePrivate(path, `${made}\n`);
  return made;
}
