import { describe, expect, test } from '@jest/globals';
import { freePort } from '@wellspring/testing/free-port';
import { forSuite } from '@wellspring/testing/lifetimes';
import { openSandbox, TIERS, values } from '../sandbox.fixture.ts';
import { echo, serve } from './relay.fixture.ts';

/** Code that writes before its connection is established: the first write travels with the preamble. */
describe.each(TIERS)('in tier %s, a write before the connection', (tier) => {
  const sandbox = forSuite(() => openSandbox(tier, { codeAllowNetworks: ['127.0.0.0/8'] }));

  async function run(body: string, event: object): Promise<unknown> {
    const outcome = await sandbox.runModule(
      `import net from 'node:net'; import { once } from 'node:events';
       const read = async (socket) => { let text = ''; for await (const chunk of socket) text += chunk; return text; };
       export default { name: 'x', async run(s) { this.$emit(await (async () => { ${body} })()) } }`,
      { event, timeoutMs: 20_000 } as never,
    );
    expect(outcome).toMatchObject({ ok: true });
    return values(outcome)[0];
  }

  test.each([
    ['text', `socket.write('first ');`, 'first '],
    ['text in another encoding', `socket.write('Zmlyc3Qg', 'base64');`, 'first '],
    ['bytes', `socket.write(new Uint8Array([102, 105]));`, 'fi'],
    ['parts at once', `socket.cork(); socket.write('fi'); socket.write('rst '); socket.uncork();`, 'first '],
    ['several', `socket.write('fi'); socket.write('rst ');`, 'first '],
    ['nothing', '', ''],
  ])('arrives once and in order: %s', async (_, write, first) => {
    await using server = await serve(echo);
    const body = `const socket = net.connect(s.port, '127.0.0.1'); ${write}
      await once(socket, 'connect'); socket.end('then'); return read(socket);`;
    expect(await run(body, { port: server.port })).toBe(`${first}then`);
  });

  test('is sent in one piece with the preamble', async () => {
    await using server = await serve(echo);
    const body = `const opened = net.connect(s.port, '127.0.0.1'); await once(opened, 'connect'); opened.destroy();
      const socket = net.connect(s.port, '127.0.0.1');
      const sent = []; const { _handle: handle } = socket; const { writeBuffer } = handle;
      handle.writeBuffer = (request, bytes) => { sent.push(String(bytes)); return writeBuffer.call(handle, request, bytes); };
      socket.end('first'); await read(socket); return sent;`;
    expect(await run(body, { port: server.port })).toEqual([expect.stringMatching(/127\.0\.0\.1first$/)]);
  });

  test('that ends the stream, and one that is long, arrive whole', async () => {
    await using server = await serve(echo);
    const body = `return Promise.all([10, 100_000].map(async (length) => {
        const socket = net.connect(s.port, '127.0.0.1'); socket.end('x'.repeat(length));
        return (await read(socket)).length;
      }));`;
    expect(await run(body, { port: server.port })).toEqual([10, 100_000]);
  });

  test('fails with a connection that is refused', async () => {
    const body = `const socket = net.connect(s.port, '127.0.0.1');
      const written = new Promise((resolve) => socket.write('lost', (error) => resolve(error?.code)));
      const [{ code }] = await once(socket, 'error');
      return [code, await written];`;
    expect(await run(body, { port: await freePort() })).toEqual([
      'ECONNREFUSED',
      'ERR_SOCKET_CLOSED_BEFORE_CONNECTION',
    ]);
  });
});
