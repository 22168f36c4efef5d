import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { conflict, invalidParameter, Problem, tooManyRequests } from '@wellspring/core/problem';
import { type Call, CallFailed } from './port.ts';

const SOON = 10_000;

/** Conformance suite of the port, for every adapter. */
export function callConformance(name: string, open: () => Promise<Call>): void {
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

    test('the server receives message and key, and its result is the reply', async () => {
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

    test('messages and replies are serialized as JSON: nothing is shared, and values without JSON form are dropped', async () => {
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

    test('concurrent requests get their own replies', async () => {
      call.serve('double', async (n: number) => n * 2, stop.signal);
      const answers = await Promise.all(
        Array.from({ length: 200 }, (_, n) => call.request('double', n, { deadlineMs: SOON })),
      );
      expect(answers).toEqual(Array.from({ length: 200 }, (_, n) => n * 2));
    });

    test('a Problem reaches the caller with all fields', async () => {
      for (const problem of [
        invalidParameter('configured_props.url', 'The URL is malformed.'),
        conflict('version_published', 'That version exists.'),
        tooManyRequests(7),
      ]) {
        fails(problem);
        const error = (await thrownBy(call.request('fails', 1, { deadlineMs: SOON }))) as Problem;
        expect(error).toBeInstanceOf(Problem);
        expect({ ...error, message: error.message }).toEqual({ ...problem, message: problem.message });
      }
    });

    test('any other error becomes a CallFailed without details', async () => {
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

    test('a reply after the deadline is a CallFailed', async () => {
      const held = Promise.withResolvers<void>();
      call.serve('slow', () => held.promise, stop.signal);
      expect(await thrownBy(call.request('slow', 1, { deadlineMs: 20 }))).toBeInstanceOf(CallFailed);
      held.resolve();
    });

    test('a request waits for a server until the deadline', async () => {
      expect(await thrownBy(call.request('nobody', 1, { deadlineMs: 20 }))).toBeInstanceOf(CallFailed);
      const early = call.request('late', 2, { deadlineMs: SOON });
      call.serve('late', async (n: number) => n + 1, stop.signal);
      expect(await early).toBe(3);
    });

    test('a request that no process can serve fails before its deadline if its caller wants that', async () => {
      const options = { deadlineMs: 1_000_000, reachMs: 20 };
      expect(await thrownBy(call.request('nobody', 1, options))).toBeInstanceOf(CallFailed);
    });

    test('a server whose signal is aborted receives no requests', async () => {
      const other = new AbortController();
      call.serve('gone', async () => 1, other.signal);
      expect(await call.request('gone', 1, { deadlineMs: SOON })).toBe(1);
      other.abort();
      expect(await thrownBy(call.request('gone', 1, { deadlineMs: 20 }))).toBeInstanceOf(CallFailed);
      call.serve('gone', async () => 1, other.signal);
      expect(await thrownBy(call.request('gone', 1, { deadlineMs: 20 }))).toBeInstanceOf(CallFailed);
    });

    test('a reply is received whether it arrives before or after receive() is called', async () => {
      const [before, after] = [call.openReplyAddress(), call.openReplyAddress()];
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

    test('receive() gives undefined after the timeout or close()', async () => {
      const replyAddress = call.openReplyAddress();
      expect(await replyAddress.receive(10)).toBeUndefined();
      const received = replyAddress.receive(SOON);
      replyAddress.close();
      expect(await received).toBeUndefined();
    });

    test('a reply to a closed or unknown address is ignored', async () => {
      const replyAddress = call.openReplyAddress();
      replyAddress.close();
      call.reply(replyAddress.address, 'late');
      call.reply('no such address', 1);
      expect(await replyAddress.receive(10)).toBeUndefined();
      await call.ping();
    });
  });
}
