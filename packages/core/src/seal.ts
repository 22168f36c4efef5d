import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

/** Encryption at rest and derived keys, from the root keys (WELLSPRING_SECRET_KEY). */
export interface Seal {
  /** AES-256-GCM under the newest key; `open` requires the same `context`, e.g. the id of the row. */
  seal(text: string, context: string): string;
  /** @throws Error when the text is malformed or was changed, or its key is no longer configured */
  open(sealed: string, context: string): string;
  /** 32-byte keys for a purpose, newest first. */
  keysFor(purpose: string): Buffer[];
}

const derive = (root: string, purpose: string) =>
  Buffer.from(hkdfSync('sha256', root, 'wellspring', purpose, 32));

/** @param rootKeys newest first, at least one */
export function createSeal(rootKeys: readonly string[]): Seal {
  const keys = rootKeys.map((root) => derive(root, 'seal'));
  return {
    seal(text, context) {
      const iv = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', keys[0]!, iv).setAAD(Buffer.from(context));
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      return `v1.${Buffer.concat([iv, cipher.getAuthTag(), body]).toString('base64url')}`;
    },
    open(sealed, context) {
      const bytes = Buffer.from(sealed.startsWith('v1.') ? sealed.slice(3) : '', 'base64url');
      for (const key of keys) {
        try {
          const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12))
            .setAAD(Buffer.from(context))
            .setAuthTag(bytes.subarray(12, 28));
          return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString('utf8');
        } catch {
          // Sealed with another key.
        }
      }
      throw new Error(
        'The sealed text cannot be opened with the configured keys: restore its key in WELLSPRING_SECRET_KEY.',
      );
    },
    keysFor: (purpose) => rootKeys.map((root) => derive(root, purpose)),
  };
}
