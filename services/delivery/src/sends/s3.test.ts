import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { newId } from '@wellspring/core/ids';
import { withServers } from '@wellspring/testing/servers/servers';
import { usePlatform } from '../platform.fixture.ts';
import { useSends } from './sends.fixture.ts';

const t = usePlatform();
const { send, emit, failure } = useSends(t);

test('$.send.s3 that is not configured is a record on $errors', async () => {
  t.start();
  await emit(send('s3', { bucket: 'b', payload: 1 }));
  expect((await failure()).msg).toMatch(/not configured.*WELLSPRING_SEND_S3_URL/);
});

await withServers(['s3'], ({ s3 }) => {
  describe('$.send.s3', () => {
    const { origin, username, password } = new URL(s3);
    const newBucket = async () => {
      const name = `test-${randomUUID()}`;
      await fetch(`${origin}/${name}`, { method: 'PUT' });
      return name;
    };
    const store = (path = '') => Object.assign(new URL(`${origin}${path}`), { username, password }).href;
    const listing = async (bucket: string) => (await fetch(`${origin}/${bucket}`)).text();
    const keys = async (bucket: string) =>
      [...(await listing(bucket)).matchAll(/<Key>(.*?)<\/Key>/g)].map(([, key]) => key!);

    test('writes objects below the prefix, each under a name of its own', async () => {
      const bucket = await newBucket();
      t.start({ sendS3Url: store() });
      await emit(
        send('s3', { bucket, prefix: 'p/', payload: { a: 'ü' } }),
        send('s3', { bucket, prefix: 'p/', payload: 'text' }),
      );
      await t.untilStatus('delivered', 2);
      const sizes = [...(await listing(bucket)).matchAll(/<Size>(\d+)/g)].map(([, size]) => Number(size));
      const found = (await keys(bucket)).sort((a, b) => (a.slice(-4) < b.slice(-4) ? -1 : 1));
      expect(found).toEqual([
        expect.stringMatching(/^p\/\d{4}\/\d\d\/\d\d\/\d\d\/[0-9a-f]{32}\.txt$/),
        expect.stringMatching(/^p\/\d{4}\/\d\d\/\d\d\/\d\d\/[0-9a-f]{32}\.json$/),
      ]);
      expect(sizes).toContain(Buffer.byteLength('{"a":"ü"}'));
    });

    test('writes only to the configured bucket, if there is one', async () => {
      const [own, other] = [await newBucket(), await newBucket()];
      t.start({ sendS3Url: store(`/${own}/folder`) });
      await emit(send('s3', { bucket: other, payload: 1 }));
      expect((await failure()).msg).toContain('not the one that the platform is configured for');
      await emit(send('s3', { payload: 1 }), send('s3', { bucket: own, payload: 2 }));
      await t.untilStatus('delivered', 2);
      expect((await keys(own)).every((key) => key.startsWith('folder/2'))).toBe(true);
      expect(await keys(other)).toEqual([]);
    });

    test.each([
      [
        'a missing bucket',
        { bucket: `missing-${newId('wh').toLowerCase().replace('_', '-')}`, payload: 1 },
        /bucket/,
      ],
      ['no payload', { bucket: 'bucket' }, /needs a payload/],
      ['a bucket that leads elsewhere', { bucket: '../x', payload: 1 }, /not the name of a bucket/],
    ])('%s is a record on $errors', async (_, request, expected) => {
      t.start({ sendS3Url: store() });
      await emit(send('s3', request));
      expect((await failure()).msg).toMatch(expected);
    });
  });
});
