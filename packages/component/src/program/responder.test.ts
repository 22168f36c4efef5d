import { describe, expect, test } from '@jest/globals';
import { program, run, said, value } from './program.fixture.ts';
import type { Respond } from './program-types.ts';

describe('respond', () => {
  const bodyOf = (reply: Respond) => Buffer.from(reply.body, 'base64');

  test('only its first call counts, in each run anew', async () => {
    await run((self) => {
      self.http.respond({ status: '201', body: 'one' });
      self.http.respond({ body: 'two' });
    });
    await program.run(value({}), false);
    expect(said.replies.map((reply) => [reply.status, bodyOf(reply).toString()])).toEqual([
      [201, 'one'],
      [201, 'one'],
    ]);
  });

  test('an object becomes JSON with its type, bytes stay bytes', async () => {
    await run((self) =>
      self.http.respond({ body: { a: 1 }, headers: { 'X-A': 1, 'x-b': ['1', 2], 'x-c': undefined } }),
    );
    await run((self) => self.http.respond({ body: Buffer.from([0, 255]) }));
    await run((self) => self.http.respond({ body: [1], headers: { 'Content-Type': 'text/x' } }));
    await run((self) => self.http.respond());
    const [json, bytes, typed, empty] = said.replies;
    expect(json!.headers).toEqual({
      'X-A': '1',
      'x-b': ['1', '2'],
      'content-type': 'application/json; charset=utf-8',
    });
    expect(bodyOf(json!).toString()).toBe('{"a":1}');
    expect([...bodyOf(bytes!)]).toEqual([0, 255]);
    expect(typed!.headers).toEqual({ 'Content-Type': 'text/x' });
    expect(empty).toEqual({ status: 200, headers: {}, body: '' });
  });

  test.each([[99], [600], [200.5], ['abc'], [{}]])('the status %p throws', async (status) => {
    await expect(run((self) => self.http.respond({ status }))).rejects.toThrow(/integer from 100 to 599/);
    expect(said.replies).toEqual([]);
  });

  test.each([
    [{ headers: { 'bad name': 'a' } }, /cannot have a header named "bad name"/],
    [{ headers: { '': 'a' } }, /cannot have a header named ""/],
    [{ headers: { 'x-a': 'a\r\nx-b: c' } }, /The header x-a of a response has a character/],
    [{ headers: { 'x-a': ['a', '€'] } }, /The header x-a of a response has a character/],
    [{ headers: { 'x-a': 'a'.repeat(33_000) } }, /at most 32 KB/],
    [{ headers: { 'x-a': Array(257).fill('a') } }, /at most 256 headers/],
    [{ body: 'a'.repeat(4 * 2 ** 20 + 1) }, /at most 4 MB/],
    [{ body: { a: 'a'.repeat(4 * 2 ** 20) } }, /at most 4 MB/],
  ])('what cannot be sent throws in the run, %#', async (reply, message) => {
    await expect(run((self) => self.http.respond(reply))).rejects.toThrow(message);
    expect(said.replies).toEqual([]);
  });

  test('the largest body and headers are sent', async () => {
    const headers = { 'x-latin': 'é\t', 'x-list': Array(255).fill('a') };
    await run((self) => self.http.respond({ headers, body: Buffer.alloc(4 * 2 ** 20) }));
    expect(said.replies.map((reply) => reply.headers)).toEqual([headers]);
  });

  test('without customResponse it is ignored, with a line in the log', async () => {
    await run((self) => self.http.respond({ status: 999 }), {
      endpoints: { http: { url: 'u', customResponse: false } },
    });
    expect(said.replies).toEqual([]);
    expect(said.logs).toEqual([
      expect.objectContaining({ level: 'warn', msg: expect.stringMatching(/customResponse/) }),
    ]);
  });
});
