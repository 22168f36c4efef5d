import { PassThrough } from 'node:stream';
import { expect, test } from '@jest/globals';
import { createPackumentTexts } from './packument-texts.ts';

const MB = 1024 * 1024;

test('large packuments are read one at a time, small ones beside them', async () => {
  const bodies = new Map(['first', 'second', 'small'].map((url) => [url, new PassThrough()]));
  const texts = createPackumentTexts({ get: async (url) => bodies.get(url)! }, () => 0);
  const done: string[] = [];
  const read = async (url: string) => {
    await texts.get(url, { accept: '*/*', fresh: true });
    done.push(url);
  };
  const large = Buffer.alloc(3 * MB);
  bodies.get('first')!.write(large);
  const first = read('first');
  bodies.get('second')!.end(large);
  const second = read('second');
  bodies.get('small')!.end('{}');
  await read('small');
  bodies.get('first')!.end();
  await Promise.all([first, second]);
  expect(done).toEqual(['small', 'first', 'second']);
});
