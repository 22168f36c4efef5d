import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { newApiKey } from '@wellspring/core/api-key';
import { newSecret } from '@wellspring/core/ids';
import type { Config } from './config.ts';

/** What `credentials.json` in the data directory holds; the CLI reads it. */
export interface Credentials {
  url: string;
  api_key: string;
  admin_key: string;
}

/** The keys of this installation: those that are preset, else those kept in the data directory, else new ones. */
export interface Keys {
  credentials: Credentials;
  /** Root keys, newest first. */
  secretKeys: readonly string[];
  /** The API key was made just now, so that no database can know it yet. */
  isNewApiKey: boolean;
  path: string;
}

/** Reads the keys, makes those that are missing, and keeps them in files that only their owner can read. */
export function readKeys(
  config: Pick<Config, 'dataDir' | 'publicUrl' | 'apiKey' | 'adminKey' | 'secretKeys'>,
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
  if (!sameCredentials(before, credentials)) writePrivate(path, `${JSON.stringify(credentials, null, 2)}\n`);
  return {
    credentials,
    secretKeys: config.secretKeys ?? [keptSecretKey(join(dataDir, 'secret.key'))],
    isNewApiKey: before.api_key !== credentials.api_key,
    path,
  };
}

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

function keptSecretKey(path: string): string {
  const kept = readIfThere(path)?.trim();
  if (kept) return kept;
  const made = newSecret() + newSecret();
  writePrivate(path, `${made}\n`);
  return made;
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as { code?: string }).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** All or nothing, and durable: data sealed with a key that is lost is lost, too. */
function writePrivate(path: string, content: string): void {
  const temporary = `${path}.${newSecret()}`;
  const file = openSync(temporary, 'wx', 0o600);
  try {
    writeSync(file, content);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(temporary, path);
}
