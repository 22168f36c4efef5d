import { createHash } from 'node:crypto';
import { newSecret } from './ids.ts';

/** 160 bits of randomness. */
export const newApiKey = (): string => `ws_${newSecret()}`;

/** Only this hash is stored. */
export const hashApiKey = (key: string): string => createHash('sha256').update(key).digest('hex');
