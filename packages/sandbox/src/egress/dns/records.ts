import type { Answer } from 'dns-packet';
import { plainName } from '../policy.ts';

export const RECORD_TYPES = ['CAA', 'CNAME', 'MX', 'NAPTR', 'NS', 'PTR', 'SOA', 'SRV', 'TXT'] as const;
export type RecordType = (typeof RECORD_TYPES)[number];

/** Records of a name, and the names by which they were found. */
export interface FoundRecords {
  /** Names that the asked one is an alias of, in order; the records belong to the last one. */
  aliases: string[];
  /** In the format of `dns.resolve`. */
  records: unknown;
  /** There are no records: of this type, or the name does not exist. */
  missing?: 'ENODATA' | 'ENOTFOUND';
}

/** Resolvers follow about as many. */
const MAX_ALIASES = 16;

/** The root is an empty name in the format of `dns.resolve`. */
const nameOf = (name: string) => (name === '.' ? '' : name);

/** A record in the format of `dns.resolve`. */
function format(record: Answer): unknown {
  const { type } = record;
  switch (record.type) {
    case 'CAA':
      return { critical: record.data.flags, [record.data.tag]: record.data.value, type };
    case 'CNAME':
    case 'NS':
    case 'PTR':
      return nameOf(record.data);
    case 'MX':
      return { exchange: nameOf(record.data.exchange), priority: record.data.preference, type };
    case 'NAPTR': {
      const { flags, services: service, regexp, replacement, order, preference } = record.data;
      return { flags, service, regexp, replacement: nameOf(replacement), order, preference };
    }
    case 'SOA': {
      const { mname, rname, serial, refresh, retry, expire, minimum: minttl } = record.data;
      return { nsname: nameOf(mname), hostmaster: nameOf(rname), serial, refresh, retry, expire, minttl };
    }
    case 'SRV': {
      const { target, port, priority, weight } = record.data;
      return { name: nameOf(target), port, priority, weight, type };
    }
    case 'TXT':
      return [record.data].flat().map((part) => (typeof part === 'string' ? part : part.toString('latin1')));
    default:
      throw new TypeError(`Records of type ${type} have no format`);
  }
}

/**
 * Finds the records of a name in an answer. Follows aliases from the name and omits records of other names: who defines
 * a name decides which records the resolver adds to the answer.
 * @param exists false if the name server knows no such name
 */
export function findRecords(
  asked: string,
  type: RecordType,
  { answers, exists }: { answers: readonly Answer[]; exists: boolean },
): FoundRecords {
  const of = (owner: string, wanted: string) =>
    answers.filter((one) => one.type === wanted && plainName(one.name) === owner);
  const aliases: string[] = [];
  let owner = plainName(asked);
  while (type !== 'CNAME' && aliases.length < MAX_ALIASES) {
    const [alias] = of(owner, 'CNAME');
    if (alias?.type !== 'CNAME') break;
    owner = plainName(alias.data);
    aliases.push(owner);
  }
  const records = of(owner, type).map(format);
  if (records.length === 0) return { aliases, records, missing: exists ? 'ENODATA' : 'ENOTFOUND' };
  return { aliases, records: type === 'SOA' ? records[0] : records };
}
