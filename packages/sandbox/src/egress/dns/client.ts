import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { on, once } from 'node:events';
import { connect, isIP, isIPv6 } from 'node:net';
import {
  type Answer,
  type DecodedPacket,
  decode,
  encode,
  type Question,
  RECURSION_DESIRED,
} from 'dns-packet';
import { plainName } from '../policy.ts';

/**
 * Asks name servers. `dns.resolve` returns the records of an alias as if they were those of the asked name; here the
 * answer shows to which name each record belongs.
 */

interface Server {
  host: string;
  port: number;
}

/** Reads a message from a server. @returns undefined if it does not answer the question. @throws Error if it is broken */
type Read = (message: Buffer) => DecodedPacket | undefined;

/** Time for an answer of each server, by round. */
const TIMEOUTS_MS = [2_000, 4_000];
/** Larger answers are asked for over TCP: as datagrams they might be fragmented. */
const UDP_BYTES = 1232;
const RCODE_MASK = 0b1111;
const NXDOMAIN = 3;
const CODES = ['', 'EFORMERR', 'ESERVFAIL', '', 'ENOTIMP', 'EREFUSED'];
const NAME = /^(?=.{1,253}$)[^.]{1,63}(?:\.[^.]{1,63})*$/;

const failure = (code: string) => Object.assign(new Error(code), { code });

/** @param text in the format of `dns.getServers`: `1.1.1.1`, `1.1.1.1:53`, `::1`, `[::1]:53` */
function parseServer(text: string): Server {
  const [, host, port] = isIP(text) === 0 ? (/^\[?(.*?)\]?:(\d+)$/.exec(text) ?? []) : [];
  return { host: host ?? text, port: Number(port ?? 53) };
}

async function overUdp({ host, port }: Server, query: Buffer, read: Read, signal: AbortSignal) {
  const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4');
  // Those while no one waits, too.
  socket.on('error', () => {});
  try {
    // The kernel drops datagrams of others.
    socket.connect(port, host);
    await once(socket, 'connect', { signal });
    socket.send(query);
    for await (const [message] of on(socket, 'message', { signal })) {
      const answer = read(message as Buffer);
      if (answer) return answer;
    }
    throw failure('EBADRESP');
  } finally {
    socket.close();
  }
}

async function overTcp({ host, port }: Server, query: Buffer, read: Read, signal: AbortSignal) {
  const socket = connect({ host, port, signal });
  const length = Buffer.alloc(2);
  length.writeUInt16BE(query.length);
  socket.write(Buffer.concat([length, query]));
  let received: Buffer = Buffer.alloc(0);
  for await (const chunk of socket) {
    received = Buffer.concat([received, chunk as Buffer]);
    const end = received.length < 2 ? Number.POSITIVE_INFINITY : 2 + received.readUInt16BE();
    if (received.length < end) continue;
    const answer = read(received.subarray(2, end));
    if (answer) return answer;
    break;
  }
  throw failure('EBADRESP');
}

/** @throws Error with a code of `node:dns` or of sockets; AbortError after this time */
async function ask(server: Server, question: Question, timeoutMs: number): Promise<DecodedPacket> {
  const id = randomInt(65_536);
  const query = encode({
    type: 'query',
    id,
    flags: RECURSION_DESIRED,
    questions: [question],
    additionals: [
      {
        type: 'OPT',
        name: '.',
        udpPayloadSize: UDP_BYTES,
        extendedRcode: 0,
        ednsVersion: 0,
        flags: 0,
        flag_do: false,
        options: [],
      },
    ],
  });
  const read: Read = (message) => {
    if (message.length < 2 || message.readUInt16BE() !== id) return undefined;
    const answer = decode(message);
    const [repeated] = answer.questions ?? [];
    const isOurs = repeated?.type === question.type && plainName(repeated.name) === question.name;
    return answer.flag_qr && isOurs ? answer : undefined;
  };
  const signal = AbortSignal.timeout(timeoutMs);
  const answer = await overUdp(server, query, read, signal);
  return answer.flag_tc ? overTcp(server, query, read, signal) : answer;
}

/**
 * Asks one server after the other, in as many rounds as there are times.
 * @param servers in the format of `dns.getServers`
 * @returns the answer section of the first answer; `exists` is false if there is no such name
 * @throws Error with a code of `node:dns`
 */
export async function askServers(
  servers: readonly string[],
  host: string,
  type: Question['type'],
  timeoutsMs: readonly number[] = TIMEOUTS_MS,
): Promise<{ answers: Answer[]; exists: boolean }> {
  const name = plainName(host);
  if (!NAME.test(name)) throw failure('EBADNAME');
  let code = 'ECONNREFUSED';
  for (const timeoutMs of timeoutsMs) {
    for (const server of servers.map(parseServer)) {
      try {
        const { flags = 0, answers = [] } = await ask(server, { name, type, class: 'IN' }, timeoutMs);
        const rcode = flags & RCODE_MASK;
        if (rcode === 0 || rcode === NXDOMAIN) return { answers, exists: rcode === 0 };
        code = CODES[rcode] ?? 'EBADRESP';
      } catch (error) {
        const { name: kind, code: cause = 'EBADRESP' } = error as NodeJS.ErrnoException;
        code = kind === 'AbortError' ? 'ETIMEOUT' : cause;
      }
    }
  }
  throw failure(code);
}
