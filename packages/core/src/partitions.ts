import { createHash } from 'node:crypto';
import { parseOrderingKey } from './ordering-key.ts';

/** 48 bits of a hash, the same on every machine. */
const hash = (text: string): number => createHash('sha256').update(text).digest().readUIntBE(0, 6);

/** The partition of an ordering key, from 0 to `partitions - 1`: the same for all shards of a source. */
export const partitionOf = (key: string, partitions: number): number =>
  hash(parseOrderingKey(key).sourceId) % partitions;

/**
 * How many partitions of a group a member is to have: all members as many, or one more. Whoever joins makes no share
 * of the others larger, and whoever leaves none smaller, so that nothing else has to move.
 * @param group by which it depends whose share is the larger one
 */
export function shareOf(
  member: string,
  members: readonly string[],
  { group, partitions }: { group: string; partitions: number },
): number {
  if (!members.includes(member)) return 0;
  const order = (name: string) => hash(`${group} ${name}`);
  const own = order(member);
  const before = members.filter((name) => order(name) < own || (order(name) === own && name < member)).length;
  return Math.floor(partitions / members.length) + (before < partitions % members.length ? 1 : 0);
}
