import { expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { NotSent } from '@wellspring/core/unavailable';
import { BodyTooLarge } from '@wellspring/http/read-body';
import type { Config } from '@wellspring/runtime/config';
import { seal } from '@wellspring/testing/service-harness';
import { createMultipart } from './multipart.ts';
import { startGateway } from './platform.fixture.ts';

const HEADERS = { 'content-type': 'multipart/form-data; boundary=x' };
const part = (content: string, more = '') =>
  `--x\r\nContent-Disposition: form-data; name="a"${more}\r\n\r\n${content}\r\n`;
const file = (size: number) => Buffer.from(`${part('x'.repeat(size), '; filename="a"')}--x--\r\n`);
const smallParts = (size: number) => part('').repeat(size / part('').length);

/** Without files, no blob is stored. */
const readMultipart = createMultipart({
  config: { endpointFilesMb: 16 } as Config,
  clock: systemClock,
  seal,
  blob: {} as never,
});

test('a body that is too large without its files is refused before all of it is parsed', async () => {
  const body = Buffer.from(`${smallParts(1_500_000)}--x\r\n a malformed header\r\n\r\n`);
  await expect(readMultipart('u_1', HEADERS, body)).rejects.toBeInstanceOf(BodyTooLarge);
});

test('other work goes on while bodies of small parts are parsed', async () => {
  const body = Buffer.from(`${smallParts(400_000)}--x--\r\n`);
  let turns = 0;
  const turn = () => {
    turns += 1;
    timer = setImmediate(turn);
  };
  let timer = setImmediate(turn);
  await Promise.all(Array.from({ length: 10 }, () => readMultipart('u_1', HEADERS, body)));
  clearImmediate(timer);
  expect(turns).toBeGreaterThan(50);
});

test('files of calls that the broker refuses take no space', async () => {
  await using platform = await startGateway({ config: { endpointFilesMb: 16 } });
  const { queue, blob } = platform.deps;
  const { publish } = queue;
  const { id } = await platform.endpoint();
  const call = () => platform.call('POST', `/e/${id}`, { headers: HEADERS, body: file(5_000_000) });
  queue.publish = () => Promise.reject(new NotSent('RabbitMQ blocks publishers: memory.'));
  for (let n = 0; n < 4; n++) expect((await call()).status).toBe(503);
  expect(await blob.list()).toEqual([]);
  queue.publish = publish;
  expect((await call()).status).toBe(200);
  expect(await blob.list()).toHaveLength(1);
});

test('calls get 503 when their owner has left too many files, those of another owner do not', async () => {
  await using platform = await startGateway({ config: { endpointFilesMb: 16 } });
  const [one, other] = [await platform.endpoint(), await platform.endpoint()];
  const call = async (endpoint: { id: string }, body = file(5_000_000)) => {
    const { status, headers } = await platform.call('POST', `/e/${endpoint.id}`, { headers: HEADERS, body });
    return [status, headers['retry-after']];
  };
  expect(await call(one)).toEqual([200, undefined]);
  expect(await call(one)).toEqual([503, '1']);
  expect(await call(one, Buffer.from(`${part('1')}--x--\r\n`))).toEqual([200, undefined]);
  expect(await call(other)).toEqual([200, undefined]);
});
