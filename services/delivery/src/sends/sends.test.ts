import { describe, expect, test } from '@jest/globals';
import { type EmittedMessage, MAX_HOPS } from '@wellspring/contract/messages';
import { createTokenBuckets } from '@wellspring/core/token-buckets';
import { users } from '@wellspring/store/collections/users';
import { deliveries } from '@wellspring/store/collections/webhooks';
import { workflows } from '@wellspring/store/collections/workflows';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { OWNER, userRow } from '@wellspring/testing/rows';
import { until, usePlatform } from '../platform.fixture.ts';
import { mailServer, OTHER, useSends, WORKFLOW } from './sends.fixture.ts';
import { sendRow } from './sends.ts';

const t = usePlatform();
const { send, emit, failure } = useSends(t);

describe('$.send.http', () => {
  test('makes the request once, however often the commit is published', async () => {
    const sink = await t.receive();
    t.start();
    const request = send('http', {
      method: 'put',
      url: `${sink.url}/hook?x=1`,
      params: { y: [2, 'ä&'], none: null },
      headers: { 'X-Custom': 'c', Host: 'elsewhere.example', 'Content-Length': '3' },
      data: { a: [1, 'ü'] },
      auth: { username: 'user', password: 'pä:ss' },
    });
    await emit(request);
    await emit(request);
    await t.untilStatus('delivered');
    expect(sink.requests).toHaveLength(1);
    const [{ method, path, headers, text: body }] = sink.requests as [(typeof sink.requests)[0]];
    expect([method, path, body]).toEqual(['PUT', '/hook?x=1&y=2&y=%C3%A4%26', '{"a":[1,"ü"]}']);
    expect(headers).toMatchObject({ 'x-custom': 'c', 'content-type': 'application/json' });
    expect(headers.host).not.toBe('elsewhere.example');
    expect(headers.authorization).toBe(`Basic ${Buffer.from('user:pä:ss').toString('base64')}`);
    const [row] = await t.deliveries();
    expect(row).toMatchObject({ status: 'delivered', attempts: 1, due_at: null, payload: '' });
  });

  test.each([
    ['a text', { data: 'plain' }, 'POST', 'text/plain; charset=utf-8', 'plain'],
    ['a Buffer', { data: Buffer.from('bytes') }, 'POST', 'application/octet-stream', 'bytes'],
    ['body instead of data', { body: 7 }, 'POST', 'application/json', '7'],
    ['nothing', {}, 'GET', undefined, ''],
    [
      'a form',
      { data: { a: 'b c' }, headers: { 'content-type': 'application/x-www-form-urlencoded' } },
      'POST',
      'application/x-www-form-urlencoded',
      'a=b+c',
    ],
  ])('sends %s', async (_, request, method, type, body) => {
    const sink = await t.receive();
    t.start();
    await emit(send('http', { url: sink.url, ...request }));
    const [received] = await sink.received(1);
    expect([received!.method, received!.headers['content-type'], received!.text]).toEqual([
      method,
      type,
      body,
    ]);
  });

  test('a failure is not retried, and is a record on $errors of the workflow', async () => {
    const sink = await t.receive(() => ({ status: 302, headers: { location: 'http://127.0.0.1:1/' } }));
    t.start();
    await emit(send('http', { url: `${sink.url}/secret-path`, data: 1 }));
    const { job, msg } = await failure();
    expect(job).toMatchObject({ type: 'record', source_id: WORKFLOW, channel: '$errors', hop: 3 });
    expect(msg).toBe(`$.send.http failed: POST to ${new URL(sink.url).host}: status 302.`);
    expect(JSON.parse(job.payload)).toMatchObject({
      original_context: { id: 'run_1', workflow_id: WORKFLOW, source_id: null, deployment_id: 'd_1' },
      error: { code: 'SendError', cellId: 'c_1' },
    });
    await t.untilStatus('failed');
    t.clock.advance(3_600_000);
    expect(sink.requests).toHaveLength(1);
  });

  test('states its hops, which the code cannot change, and is refused after the last one', async () => {
    const sink = await t.receive();
    t.start();
    const request = (path: string) =>
      send('http', { url: `${sink.url}${path}`, headers: { 'X-Wellspring-Hop-Count': '0' } });
    await t.emit(WORKFLOW, [], { sends: [request('/last')], hop: MAX_HOPS - 1 });
    const { headers } = await sink.request(({ path }) => path === '/last');
    expect(headers['x-wellspring-hop-count']).toBe(String(MAX_HOPS));
    await t.emit(WORKFLOW, [], { sends: [request('/refused')], hop: MAX_HOPS });
    const { job, msg } = await failure();
    expect(msg).toMatch(/^\$\.send\.http was refused: 10 sources or workflows in a row/);
    // It runs nothing.
    expect(job.hop).toBeGreaterThan(MAX_HOPS);
    expect(sink.requests).toHaveLength(1);
  });

  test('a failure of a run that handles errors triggers nothing', async () => {
    const sink = await t.receive(() => 500);
    t.start();
    await emit({ ...send('http', { url: sink.url }), handles_records: true });
    expect((await failure()).job.hop).toBeGreaterThan(MAX_HOPS);
  });

  test('a failure whose record could not be published: the record is repeated, the request is not', async () => {
    const sink = await t.receive(() => 500);
    const { publish } = t.queue;
    let refused = 0;
    t.queue.publish = async (queue, ...rest) => {
      if (queue === 'runs' && refused++ === 0) throw new Error('The broker is down');
      return await publish.call(t.queue, queue, ...rest);
    };
    t.start();
    await emit(send('http', { url: sink.url }));
    await until(
      async () => refused,
      (count) => count === 1,
    );
    t.clock.advance(120_000);
    expect((await failure()).msg).toMatch(/status 500/);
    const [row] = await t.untilStatus('failed');
    expect(row).toMatchObject({ attempts: 1, due_at: null, payload: '' });
    expect(sink.requests).toHaveLength(1);
  });

  test.each([
    ['a private address', { url: 'http://169.254.169.254/latest' }, /not a public address/],
    ['a name of a private address', { url: 'http://[::ffff:10.0.0.1]/' }, /not a public address/],
    ['another scheme', { url: 'file:///etc/passwd' }, /neither http nor https/],
    ['no URL', { url: 'no url' }, /needs a valid url/],
    ['another method', { url: 'http://example.com', method: 'CONNECT' }, /no method CONNECT/],
    ['headers that are no object', { url: 'http://example.com', headers: 'x' }, /headers of \$\.send\.http/],
    ['no argument', null, /needs a valid url/],
  ])('%s is refused', async (_, request, expected) => {
    t.start();
    await emit(send('http', request));
    expect((await failure()).msg).toMatch(expected);
  });

  test('a receiver that does not answer holds up no other workflow', async () => {
    const [slow, quick] = [await t.receive(() => 'hang'), await t.receive()];
    t.start();
    await emit(...Array.from({ length: 50 }, () => send('http', { url: slow.url })));
    await slow.received(8);
    await t.emit(OTHER, [], { sends: [send('http', { url: quick.url })] });
    await quick.received(1);
    expect(slow.requests).toHaveLength(8);
  });

  test('a request that a crash interrupted is repeated', async () => {
    const sink = await t.receive();
    const message = { emitter_id: WORKFLOW, owner_id: OWNER, hop: 0 } as EmittedMessage;
    const now = t.clock.now();
    // As the crashed process left it.
    const row = sendRow(message, send('http', { url: sink.url }), now);
    await t.store.collection(deliveries).insert({ ...row, due_at: now + 55_000 });
    t.start();
    await t.untilStatus('delivered');
    expect(sink.requests).toHaveLength(1);
  });
});

test('requests of a deleted workflow are not made, neither from messages nor from rows', async () => {
  const sink = await t.receive();
  const message = { emitter_id: WORKFLOW, owner_id: OWNER, hop: 0 } as EmittedMessage;
  const now = t.clock.now();
  const row = sendRow(message, send('http', { url: sink.url }), now);
  await t.store.collection(deliveries).insert({ ...row, due_at: now });
  await t.store.collection(workflows).remove(WORKFLOW);
  t.start();
  await emit(send('http', { url: sink.url }));
  await t.emit(OTHER, [], { sends: [send('http', { url: `${sink.url}/other` })] });
  await t.untilStatus('delivered');
  await until(t.deliveries, (rows) => rows.length === 1);
  expect(sink.requests.map(({ path }) => path)).toEqual(['/other']);
});

describe('$.send.email', () => {
  const account = (fields = {}) => t.store.collection(users).insert(userRow(fields));

  test('mails the owner of the workflow, and nobody else', async () => {
    await using server = await mailServer();
    await account();
    t.start({ smtpUrl: server.url });
    const subject = 'Größe\r\nBcc: mallory@example.com';
    await emit(
      send('email', {
        subject,
        text: 'hello',
        html: '<b>hello</b>',
        to: 'mallory@example.com',
        attachments: [{ path: '/etc/passwd' }],
      }),
    );
    await t.untilStatus('delivered');
    const [mail] = server.mails;
    expect(mail).toMatchObject({ from: 'events@wellspring.example', to: ['alice@example.com'] });
    expect(mail!.text).toContain('<b>hello</b>');
    expect(mail!.text).toMatch(/^Message-ID: <[0-9a-f]{32}@wellspring\.example>/im);
    expect(mail!.text).not.toMatch(/^Bcc|root:|filename/im);
  });

  test('beyond the rate of the owner is made later', async () => {
    await using server = await mailServer();
    await account();
    // No request becomes due for the rate before the test says so.
    const clock = createFakeClock();
    t.buckets = createTokenBuckets(clock);
    t.start({ smtpUrl: server.url });
    await emit(...Array.from({ length: 5 }, (_, n) => send('email', { text: `${n}` })));
    await t.untilStatus('delivered', 2);
    const rows = await until(t.deliveries, (all) => all.length === 5);
    expect(rows.filter(({ status }) => status === 'pending').map(({ attempts }) => attempts)).toEqual([
      0, 0, 0,
    ]);
    expect(server.mails).toHaveLength(2);
    for (const count of [3, 4, 5]) {
      await clock.advance(15_000);
      t.clock.advance(15_000);
      await until(t.deliveries, (all) => all.filter(({ status }) => status === 'delivered').length >= count);
    }
    expect(new Set(server.mails.map(({ text: body }) => body)).size).toBe(5);
  });

  test('beyond the rate are tried again the later, the more of them wait', async () => {
    await using server = await mailServer();
    await account();
    t.start({ smtpUrl: server.url });
    const mails = Array.from({ length: 200 }, (_, n) => send('email', { text: `${n}` }));
    const begun = t.clock.now();
    await emit(...mails);
    const rows = await until(
      () => t.store.collection(deliveries).list({ where: { due_at: { gt: t.clock.now() } } }),
      (found) => found.length > 150,
    );
    const last = Math.max(...rows.map(({ due_at }) => due_at!));
    // Of the last ones, each has less than 1 in 5 to be within twenty seconds.
    expect(last - begun).toBeGreaterThan(20_000);
  });

  test('that is refused or not configured is a record on $errors', async () => {
    await using server = await mailServer('No such user');
    await account();
    t.start({ smtpUrl: server.url });
    await emit(send('email', { text: 'x' }));
    expect((await failure()).msg).toMatch(/\$\.send\.email failed: .*No such user/);
    await emit(send('email', { subject: 'only' }));
    expect((await failure()).msg).toMatch(/needs text or html/);
    await t.reopen();
    // The rate allows another one.
    t.clock.advance(2_000);
    t.start();
    await emit(send('email', { text: 'x' }));
    expect((await failure()).msg).toMatch(/not configured.*WELLSPRING_SMTP_URL/);
  });
});
