import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';
import {
  type Answer,
  decode,
  encode,
  type Packet,
  type Question,
  streamEncode,
  TRUNCATED_RESPONSE,
} from 'dns-packet';

/** A recursive resolver on loopback, over UDP and TCP. */
export interface DnsServer extends AsyncDisposable {
  /** In the format of `dns.getServers`. */
  address: string;
  /** Protocol of each question that it got. */
  asked: ('udp' | 'tcp')[];
}

export interface Reply extends Pick<Packet, 'answers' | 'flags'> {
  /** Differences of messages that arrive before the answer. */
  forged?: (id: number) => Packet[];
}

const NXDOMAIN = 3;
const MAX_UDP_BYTES = 1232;

/** Answers from these records as a resolver does: it follows aliases and returns them with the records. */
export const fromZone =
  (zone: readonly Answer[]) =>
  ({ name, type }: Question): Reply => {
    const answers: Answer[] = [];
    for (let owner = name.toLowerCase(); ; ) {
      const found = zone.filter((one) => one.name === owner && (one.type === type || one.type === 'CNAME'));
      answers.push(...found);
      const [alias] = found;
      if (alias?.type === 'CNAME' && type !== 'CNAME') owner = alias.data;
      else return { answers, flags: zone.some((one) => one.name === owner) ? 0 : NXDOMAIN };
    }
  };

async function listen(address: string): Promise<{ udp: Socket; tcp: ReturnType<typeof createServer> }> {
  for (;;) {
    const tcp = createServer();
    await once(tcp.listen(0, address), 'listening');
    const { port } = tcp.address() as { port: number };
    const udp = createSocket('udp4');
    try {
      udp.bind(port, address);
      await once(udp, 'listening');
      return { udp, tcp };
    } catch {
      // Another program has this port of UDP.
      udp.close();
      tcp.close();
    }
  }
}

export async function startDnsServer(answer: (question: Question) => Reply): Promise<DnsServer> {
  const host = '127.0.0.1';
  const { udp, tcp } = await listen(host);
  const asked: DnsServer['asked'] = [];
  const replyTo = (message: Buffer) => {
    const { id = 0, questions = [] } = decode(message);
    const { forged = () => [], ...reply } = answer(questions[0]!);
    const complete: Packet = { type: 'response', id, questions, ...reply };
    return { complete, forged: forged(id).map((one) => ({ ...complete, ...one })) };
  };
  udp.on('message', (message, { port, address }) => {
    asked.push('udp');
    const { complete, forged } = replyTo(message);
    for (const one of forged) udp.send(encode(one), port, address);
    const bytes = encode(complete);
    const isTooLarge = bytes.length > MAX_UDP_BYTES;
    udp.send(
      isTooLarge ? encode({ ...complete, answers: [], flags: TRUNCATED_RESPONSE }) : bytes,
      port,
      address,
    );
  });
  tcp.on('connection', (socket) => {
    socket.on('error', () => {});
    socket.once('data', (message: Buffer) => {
      asked.push('tcp');
      socket.write(streamEncode(replyTo(message.subarray(2)).complete));
    });
  });
  return {
    address: `${host}:${udp.address().port}`,
    asked,
    async [Symbol.asyncDispose]() {
      udp.close();
      await new Promise((resolve) => tcp.close(resolve));
    },
  };
}
