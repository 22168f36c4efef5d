import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { conflict, invalidParameter, Problem, tooManyRequests } from '@wellspring/core/problem';
import { type Call, CallFailed } from './port.ts';

const SOON = 10_000;

/** The guarantees of the port, for any adapter. */
export function callContract(name: string, open: () => Promise<Call>): void {
  describe(`call: ${name}`, () => {
    let call: Call;
    let stop: AbortController;
    beforeEach(async () => {
      call = await open();
      stop = new AbortController();
    });
    afterEach(async () => {
      stop.abort();
      await call.close();
    });

    const thrownBy = async (work: Promise<unknown>): Promise<unknown> =>
      work.then(
        () => undefined,
        (error: unknown) => error,
      );
    const fails = (error: unknown) => call.serve('fails', () => Promise.reject(error), stop.signal);

    test('an answer is that of the server, which sees the message and the key', async () => {
      call.serve('echo', async (message, key) => ({ message, key }), stop.signal);
      const message = { a: [1, null, 'é😀\0'], deep: { b: false } };
      expect(await call.request('echo', message, { key: 'dc_1', deadlineMs: SOON })).toEqual({
        message,
        key: 'dc_1',
      });
      expect(await call.request('echo', null, { deadlineMs: SOON })).toEqual({ message: null });
      call.serve('mute', async () => undefined, stop.signal);
      expect(await call.request('mute', 1, { deadlineMs: SOON })).toBeUndefined();
    });

    test('messages and answers travel as JSON: nothing is shared, and what JSON lacks is gone', async () => {
      const kept: { list: number[]; at: unknown } = { list: [1], at: new Date(0) };
      call.serve(
        'keep',
        async (message: { list: number[] }) => {
          message.list.push(2);
          return kept;
        },
        stop.signal,
      );
      const message = { list: [1], gone: undefined, run: () => 1 };
      const answer = (await call.request('keep', message, { deadlineMs: SOON })) as typeof kept;
      answer.list.push(3);
      expect(message.list).toEqual([1]);
      expect(kept.list).toEqual([1]);
      expect(answer.at).toBe('1970-01-01T00:00:00.000Z');
    });

    test('many requests at a time get each its own answer', async () => {
      call.serve('double', async (n: number) => n * 2, stop.signal);
      const answers = await Promise.all(
        Array.from({ length: 200 }, (_, n) => call.request('double', n, { deadlineMs: SOON })),
      );
      expect(answers).toEqual(Array.from({ length: 200 }, (_, n) => n * 2));
    });

    test('a Problem comes over with all that it says', async () => {
      for (const problem of [
        invalidParameter('configured_props.url', 'The URL is no URL.'),
        conflict('version_published', 'That version exists.'),
        tooManyRequests(7),
      ]) {
        fails(problem);
        const error = (await thrownBy(call.request('fails', 1, { deadlineMs: SOON }))) as Problem;
        expect(error).toBeInstanceOf(Problem);
        expect({ ...error, message: error.message }).toEqual({ ...problem, message: problem.message });
      }
    });

    test('any other failure is a CallFailed that tells nothing of it', async () => {
      for (const error of [new TypeError('secret detail'), 'secret detail', undefined]) {
        fails(error);
        const failure = await thrownBy(call.request('fails', 1, { deadlineMs: SOON }));
        expect(failure).toBeInstanceOf(CallFailed);
        expect(String(failure)).not.toContain('secret');
      }
      const circular: Record<string, unknown> = {};
      circular.self = circular;
      expect(await thrownBy(call.request('fails', circular, { deadlineMs: SOON }))).toBeInstanceOf(
        CallFailed,
      );
    });

    test('an answer after the deadline is a CallFailed', async () => {
      let finish = () => {};
      const held = new Promise<void>((resolve) => {
        finish = resolve;
      });
      call.serve('slow', () => held, stop.signal);
      expect(await thrownBy(call.request('slow', 1, { deadlineMs: 20 }))).toBeInstanceOf(CallFailed);
      finish();
    });

    test('a request waits for a server until the deadline', async () => {
      expect(await thrownBy(call.request('nobody', 1, { deadlineMs: 20 }))).toBeInstanceOf(CallFailed);
      const early = call.request('late', 2, { deadlineMs: SOON });
      call.serve('late', async (n: number) => n + 1, stop.signal);
      expect(await early).toBe(3);
    });

    test('whose signal is aborted serves no more', async () => {
      const other = new AbortController();
      call.serve('gone', async () => 1, other.signal);
      expect(await call.request('gone', 1, { deadlineMs: SOON })).toBe(1);
      other.abort();
      expect(await thrownBy(call.request('gone', 1, { deadlineMs: 20 }))).toBeInstanceOf(CallFailed);
      call.serve('gone', async () => 1, other.signal);
      expect(await thrownBy(call.request('gone', 1, { deadlineMs: 20 }))).toBeInstanceOf(CallFailed);
    });

    test('a mailbox gets its message whether it is asked before or after it came', async () => {
      const [before, after] = [call.open(), call.open()];
      expect(before.address).not.toBe(after.address);
      const received = before.receive(SOON);
      call.reply(before.address, { status: 200, headers: [['a', 'b']] });
      expect(await received).toEqual({ status: 200, headers: [['a', 'b']] });
      call.reply(after.address, 'first');
      call.reply(after.address, 'second');
      expect(await after.receive(SOON)).toBe('first');
      before.close();
      after.close();
    });

    test('a mailbox gives undefined when the time is over, or when it is closed', async () => {
      const mailbox = call.open();
      expect(await mailbox.receive(10)).toBeUndefined();
      const received = mailbox.receive(SOON);
      mailbox.close();
      expect(await received).toBeUndefined();
    });

    test('a message to nobody is lost without a trace', async () => {
      const mailbox = call.open();
      mailbox.close();
      call.reply(mailbox.address, 'late');
      call.reply('no such address', 1);
      expect(await mailbox.receive(10)).toBeUndefined();
      await call.ping();
    });
  });
}
