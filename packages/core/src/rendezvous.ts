import { createHash } from 'node:crypto';

/** 48 bits of a hash, the same on every machine. */
const hash = (text: string): number => createHash('sha256').update(text).digest().readUIntBE(0, 6);

/**
 * The partition of a key, from 0 to `partitions - 1`. Lanes `key#n` are with their key.
 */
export function partitionOf(key: string, partitions: number): number {
  const lane = key.indexOf('#');
  return hash(lane < 0 ? key : key.slice(0, lane)) % partitions;
}

/**
 * Which of the members has the partition, by rendezvous hashing: a member that joins takes only what becomes its own,
 * and what a member that leaves had spreads over the others. Undefined when there are no members.
 */
export function memberFor(partition: number, members: readonly string[]): string | undefined {
  let found: string | undefined;
  let most = -1;
  for (const member of members) {
    const weight = hash(`${partition} ${member}`);
    if (weight < most || (weight === most && found !== undefined && member > found)) continue;
    [found, most] = [member, weight];
  }
  return found;
}

/** The partitions of a member, of so many. */
export const partitionsOf = (member: string, members: readonly string[], partitions: number): number[] =>
  Array.from({ length: partitions }, (_, partition) => partition).filter(
    (partition) => memberFor(partition, members) === member,
  );
