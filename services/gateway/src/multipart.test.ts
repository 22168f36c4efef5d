import { describe, expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { jobs, platform, received } from './ingest.fixture.ts';

describe('a multipart body', () => {
  const multipart = (...parts: string[]) => ({
    body: `${parts.map((part) => `--xyz\r\nContent-Disposition: form-data; ${part}\r\n`).join('')}--xyz--\r\n`,
    headers: { 'content-type': 'multipart/form-data; boundary=xyz' },
  });

  test('becomes an object; a file a signed address of its bytes', async () => {
    const { request } = await received(
      '',
      'POST',
      multipart(
        'name="title"\r\n\r\nhéllo',
        'name="tag"\r\n\r\na',
        'name="tag"\r\n\r\nb',
        'name="__proto__"\r\n\r\nc',
        'name="doc"; filename="a ü.html"\r\nContent-Type: text/html\r\n\r\n<script>alert(1)</script>',
      ),
    );
    const { doc, ...fields } = request.multipart as {
      doc: { url: string; filename: string; mimetype: string };
    };
    expect(JSON.stringify(fields)).toBe('{"title":"héllo","tag":["a","b"],"__proto__":"c"}');
    expect(doc).toMatchObject({ filename: 'a ü.html', mimetype: 'text/html' });
    const { pathname, search } = new URL(doc.url);
    const file = await platform.call('GET', pathname + search);
    expect([file.status, file.text]).toEqual([200, '<script>alert(1)</script>']);
    // Uploaded files must not be rendered as pages of this origin.
    expect(file.headers['content-type']).toBe('application/octet-stream');
    expect(file.headers['content-disposition']).toMatch(/^attachment/);
    const until = new URLSearchParams(search).get('until')!;
    for (const forged of [
      pathname,
      `${pathname}?until=${until}`,
      `${pathname}${search.replace(until, String(Number(until) + 1))}`,
      // Never the character that it replaces.
      `${pathname}${search.slice(0, -1)}${search.endsWith('A') ? 'E' : 'A'}`,
      `/blobs/..%2f..%2fsecret.key${search}`,
    ]) {
      expect((await platform.call('GET', forged)).status).toBe(404);
    }
  });

  test('may have 6 MB with its files, and 512 KB without them', async () => {
    const file = (size: number) => `name="doc"; filename="a.bin"\r\n\r\n${'x'.repeat(size)}`;
    const field = (size: number) => `name="text"\r\n\r\n${'x'.repeat(size)}`;
    const { request } = await received('', 'POST', multipart(field(500_000), file(5_700_000)));
    const { doc, text } = request.multipart as { doc: { url: string }; text: string };
    expect([text.length, request.text, request.base64]).toEqual([500_000, undefined, undefined]);
    const { pathname, search } = new URL(doc.url);
    expect((await platform.call('GET', pathname + search)).text).toHaveLength(5_700_000);
    const endpoint = await platform.endpoint();
    jobs.length = 0;
    for (const parts of [[field(530_000), file(1)], [file(6_300_000)], [field(600_000)]]) {
      const answer = await platform.call('POST', `/e/${endpoint.id}`, multipart(...parts));
      expect([answer.status, answer.text]).toEqual([413, 'Payload Too Large']);
    }
    const broken = { ...multipart(file(600_000)), body: '-'.repeat(600_000) };
    expect((await platform.call('POST', `/e/${endpoint.id}`, broken)).status).toBe(413);
    expect(jobs).toEqual([]);
  });

  test('whose files cannot be kept is refused, and runs nothing', async () => {
    const { blob } = platform.deps;
    const { put } = blob;
    blob.put = async () => {
      throw new Error('the disk is full');
    };
    const endpoint = await platform.endpoint();
    const file = (name: string) => `name="${name}"; filename="a"\r\n\r\n1`;
    const answer = await platform.call('POST', `/e/${endpoint.id}`, multipart(file('a'), file('b')));
    blob.put = put;
    expect(answer.status).toBe(500);
    expect(jobs).toEqual([]);
  });

  test('while the blob store does not answer, 503 with Retry-After', async () => {
    const { blob } = platform.deps;
    const { put } = blob;
    blob.put = async () => {
      throw new Unavailable('the server does not answer');
    };
    const endpoint = await platform.endpoint();
    const body = multipart('name="a"; filename="a"\r\n\r\n1');
    const answer = await platform.call('POST', `/e/${endpoint.id}`, body);
    blob.put = put;
    expect([answer.status, answer.headers['retry-after']]).toEqual([503, '1']);
    expect(jobs).toEqual([]);
  });

  test('has every field that the size of the body allows, also thousands of one name', async () => {
    const named = Array.from({ length: 1500 }, (_, n) => `name="f${n}"\r\n\r\n${n}`);
    const repeated = Array.from({ length: 1500 }, (_, n) => `name="all"\r\n\r\n${n}`);
    const { request } = await received('', 'POST', multipart(...named, ...repeated));
    const { all, ...fields } = request.multipart as { all: string[] };
    expect(Object.keys(fields)).toHaveLength(1500);
    expect(all).toEqual(Array.from({ length: 1500 }, (_, n) => String(n)));
  });

  const withFiles = (count: number) =>
    multipart('name="a"\r\n\r\n1', ...Array<string>(count).fill('name="f"; filename="a"\r\n\r\n1'));

  test('may have 50 files', async () => {
    const { request } = await received('', 'POST', withFiles(50));
    expect(request.multipart).toMatchObject({ a: '1', f: { length: 50 } });
  });

  test('of more than 50 files is text, so that none is lost', async () => {
    const { request } = await received('', 'POST', withFiles(51));
    expect(request.multipart).toBeUndefined();
    expect(request.text).toBe(withFiles(51).body);
  });

  test('that is broken is text', async () => {
    const { request } = await received('', 'POST', {
      body: '--xyz\r\nContent-Disposition: form-data; name="a"\r\n\r\nb',
      headers: { 'content-type': 'multipart/form-data; boundary=xyz' },
    });
    expect(request.multipart).toBeUndefined();
    expect(request.text).toContain('name="a"');
  });
});
