import { gzipSync } from 'node:zlib';

/** An entry of a tarball. */
export interface TarEntry {
  path: string;
  content?: string | Buffer;
  /** `0` file, `1` hard link, `2` symbolic link, `3` character device, `5` directory. */
  type?: '0' | '1' | '2' | '3' | '5';
  target?: string;
}

const octal = (value: number, length: number) => `${value.toString(8).padStart(length - 1, '0')}\0`;

function header({ path, type = '0', target = '' }: TarEntry, size: number): Buffer {
  const block = Buffer.alloc(512);
  block.write(path, 0, 100);
  block.write(octal(0o755, 8), 100);
  block.write(octal(0, 8), 108);
  block.write(octal(0, 8), 116);
  block.write(octal(size, 12), 124);
  block.write(octal(0, 12), 136);
  block.write('        ', 148);
  block.write(type, 156);
  block.write(target, 157, 100);
  block.write('ustar\0', 257);
  block.write('00', 263);
  // Device number of /dev/null.
  block.write(octal(1, 8), 329);
  block.write(octal(3, 8), 337);
  block.write(
    octal(
      block.reduce((sum, byte) => sum + byte, 0),
      7,
    ),
    148,
  );
  return block;
}

/** A tarball with these entries, unchecked. */
export function tarball(entries: readonly TarEntry[]): Buffer {
  const blocks = entries.flatMap((entry) => {
    const content = Buffer.from(entry.content ?? '');
    const padding = Buffer.alloc((512 - (content.length % 512)) % 512);
    return [header(entry, content.length), content, padding];
  });
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(1024)]));
}
