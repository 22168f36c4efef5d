import { newSecret } from '@wellspring/core/ids';

/** Ids of the transitions that this process begins. */
export interface Attempts {
  next(): string;
  /** Whether this process has begun it. */
  isOwn(id: string): boolean;
}

export function createAttempts(): Attempts {
  const prefix = `${newSecret()}.`;
  return { next: () => prefix + newSecret(), isOwn: (id) => id.startsWith(prefix) };
}
