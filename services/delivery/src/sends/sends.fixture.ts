import { text } from 'node:stream/consumers';
import { beforeEach } from '@jest/globals';
import type { RecordJob, Send } from '@wellspring/contract/messages';
import { SMTPServer } from 'smtp-server';
import type { Platform } from '../platform.fixture.ts';

export const [WORKFLOW, OTHER] = ['p_0000000001', 'p_0000000002'] as const;

let numbers = 0;

/** Requests of two workflows that exist. */
export function useSends(t: Platform) {
  beforeEach(async () => {
    for (const id of [WORKFLOW, OTHER]) await t.workflow(id);
  });
  return {
    send: (kind: Send['kind'], request: unknown): Send => ({
      id: `run_1/${numbers++}`,
      at: 1_700_000_000_000,
      kind,
      request: JSON.stringify(request),
      run_id: 'run_1',
      deployment_id: 'd_1',
      cell_id: 'c_1',
    }),
    emit: (...sends: Send[]) => t.emit(WORKFLOW, [], { sends, hop: 2 }),
    /** Waits for the record of a failure. */
    async failure(): Promise<{ job: RecordJob; msg: string }> {
      const [job] = (await t.runs(1)) as RecordJob[];
      return { job: job!, msg: JSON.parse(job!.payload).error.msg };
    },
  };
}

interface Mail {
  from: string;
  to: string[];
  text: string;
}

/** A mail server that keeps what it receives. */
export async function mailServer(refuse?: string) {
  const mails: Mail[] = [];
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onRcptTo: (_, __, done) => done(refuse === undefined ? null : new Error(refuse)),
    onData(stream, { envelope }, done) {
      text(stream).then((body) => {
        const from = envelope.mailFrom === false ? '' : envelope.mailFrom.address;
        mails.push({ from, to: envelope.rcptTo.map(({ address }) => address), text: body });
        done();
      }, done);
    },
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.server.address() as { port: number };
  return {
    url: `smtp://127.0.0.1:${port}?from=events@wellspring.example`,
    mails,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}
