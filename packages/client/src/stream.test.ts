import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { type HttpServer, startHttpServer } from '@wellspring/testing/http';
import fc from 'fast-check';
import { type Client, createClient } from './client.ts';
import { createEventReader } from './stream.ts';

describe('the reader', () => {
  test('reads the same events wherever the text is cut, with any line ends', () => {
    const frame = fc.record(
      { id: fc.stringMatching(/^\d+-\d$/), data: fc.stringMatching(/^[ -~]{0,20}$/), retry: fc.nat() },
      { requiredKeys: ['id'] },
    );
    const cuts = fc.array(fc.nat({ max: 300 }), { maxLength: 20 });
    const endings = fc.constantFrom('\n', '\r\n', '\r');
    fc.assert(
      fc.property(fc.array(frame), cuts, endings, (frames, places, newline) => {
        const text = frames
          .map(({ id, data, retry }) => {
            const lines = [`:sse-handshake`, `id: ${id}`];
            if (data !== undefined) lines.push(`data: ${data}`);
            if (retry !== undefined) lines.push(`retry: ${retry}`);
            return [...lines, '', ''].join(newline);
          })
          .join('');
        const at = [0, ...places.filter((place) => place < text.length).sort((a, b) => a - b), text.length];
        const retries: number[] = [];
        const read = createEventReader((ms) => retries.push(ms));
        const pieces = at.slice(1).map((end, i) => text.slice(at[i], end));
        // A CR at the very end is only known to be a line end when something follows it.
        const events = [...pieces, ':end'].flatMap((piece) => read(piece));
        const expected = frames.filter(({ data }) => data !== undefined);
        expect(events).toEqual(expected.map(({ id, data }) => ({ id, data })));
        expect(retries).toEqual(frames.flatMap(({ retry }) => retry ?? []));
      }),
    );
  });
});

describe('a stream', () => {
  let server: HttpServer;
  let client: Client;
  let connections: { req: IncomingMessage; res: ServerResponse }[];
  let onConnection: (res: ServerResponse, n: number) => void;
  let newest: string[];

  beforeEach(async () => {
    connections = [];
    newest = ['5-0'];
    server = await startHttpServer((req, res) => {
      if (!req.url!.includes('/sse')) {
        res.end(JSON.stringify({ page_info: {}, data: newest.map((id) => ({ id })) }));
        return;
      }
      connections.push({ req, res });
      onConnection(res, connections.length);
    });
    client = createClient({ url: server.url, key: 'k' });
  });
  afterEach(() => server.close());

  const open = (res: ServerResponse) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' }).write('retry: 1\n\n:sse-handshake\n\n');
    return (id: string) => res.write(`id: ${id}\ndata: {"id":"${id}"}\n\n`);
  };
  const after = () => connections.map(({ req }) => req.headers['last-event-id']);

  test('resumes a lost connection after the last event, whichever bytes were lost', async () => {
    onConnection = (res, n) => {
      if (n === 1) {
        open(res)('6-0');
        res.write('id: 7-0\ndata: {"id":'); // half an event
        res.write('"7-0"}\n', () => res.destroy());
      } else if (n === 2) res.destroy();
      else if (n === 3) res.writeHead(503).end();
      else if (n === 4) res.writeHead(429).end();
      else if (n === 5) open(res)('7-0') && res.end();
      else open(res)('8-0');
    };
    const ids: string[] = [];
    for await (const { id } of await client.streamSource({ id: 'dc_1' })) {
      ids.push(id);
      if (id === '8-0') break;
    }
    expect(ids).toEqual(['6-0', '7-0', '8-0']);
    expect(after()).toEqual(['5-0', '6-0', '6-0', '6-0', '6-0', '7-0']);
  });

  test('begins after what exists when it is called, after everything when nothing does, or where it is told', async () => {
    onConnection = (res) => void open(res);
    newest = [];
    await (await client.streamSource({ id: 'dc_1' })).return?.();
    newest = ['9-9'];
    await (await client.streamSource({ id: 'dc_1', event_name: 'side' })).return?.();
    await (await client.streamSource({ id: 'dc_1', last_event_id: '3-1' })).return?.();
    expect(after()).toEqual(['0-0', '9-9', '3-1']);
    expect(connections[1]!.req.url).toBe('/v1/sources/dc_1/sse?event_name=side');
  });

  test('of a workflow begins where the server decides, until its first event', async () => {
    onConnection = (res, n) => {
      const send = open(res);
      if (n === 2) send('6-0');
      if (n === 3) send('7-0');
      else res.end();
    };
    const ids: string[] = [];
    for await (const { id } of await client.streamWorkflow({ id: 'p_1' })) {
      ids.push(id);
      if (id === '7-0') break;
    }
    expect(ids).toEqual(['6-0', '7-0']);
    expect(after()).toEqual([undefined, undefined, '6-0']);
  });

  test('leaving it, or its signal, cuts the connection, also while it waits for an event', async () => {
    const gone: Promise<unknown>[] = [];
    onConnection = (res) => {
      open(res);
      gone.push(new Promise((resolve) => res.once('close', resolve)));
    };
    const stream = await client.streamSource({ id: 'dc_1' });
    const waiting = stream.next();
    await stream.return?.();
    expect(await waiting).toEqual({ done: true, value: undefined });

    const abort = new AbortController();
    const other = await client.streamSource({ id: 'dc_1' }, { signal: abort.signal });
    const next = other.next();
    abort.abort();
    expect(await next).toEqual({ done: true, value: undefined });
    await Promise.all(gone);
    expect(gone).toHaveLength(2);
  });

  test('a refusal is an ApiError, at the beginning and when the source is gone later', async () => {
    onConnection = (res) => res.writeHead(404).end('{"error":"gone","code":"not_found"}');
    await expect(client.streamSource({ id: 'dc_1' })).rejects.toMatchObject({ status: 404 });
    onConnection = (res, n) => {
      if (n === 2) open(res)('6-0') && res.end();
      else res.writeHead(404).end('{"error":"gone","code":"not_found"}');
    };
    const stream = await client.streamSource({ id: 'dc_1' });
    expect((await stream.next()).value).toEqual({ id: '6-0' });
    await expect(stream.next()).rejects.toMatchObject({ name: 'ApiError', code: 'not_found' });
  });
});
