import { createHash } from 'node:crypto';
import { parseOrderingKey } from './ordering-key.ts';

/** 48 bits of a hash, the same on every machine. */
const hash = (text: string): number => createHash('sha256').update(text).digest().readUIntBE(0, 6);

/** The partition of an ordering key, from 0 to `partitions - 1`: the same for all shards of a source. */
export const partitionOf = (key: string, partitions: number): number =>
  hash(parseOrderingKey(key).sourceId) % partitions;

/**
 * Number of partitions of a group that a member should own; shares differ by at most one. A joining member never raises
 * the share of another, a leaving one never lowers it, so that no other partition moves.
 * @param group determines which members have the larger share
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
