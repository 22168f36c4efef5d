import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { JAILS, openJail } from '../jail.fixture.ts';
import { jsonLines } from '../jailed/lines.ts';
import { openCanary } from '../registry.fixture.ts';

/** Reports what a program in the jail sees. Its arguments arrive on stdin, like those of the real programs. */
const PROBE = `
import fs from 'node:fs'; import net from 'node:net'; import os from 'node:os';
import { spawnSync } from 'node:child_process';
const { secret, port, parent } = JSON.parse(fs.readFileSync(0, 'utf8'));
const attempt = (act) => { try { return act() } catch ({ code }) { return code } };
const connected = await new Promise((resolve) => {
  const socket = net.connect(port, '127.0.0.1', () => { resolve('connected'); socket.destroy(); });
  socket.on('error', ({ code }) => resolve(code));
});
process.stdout.write(JSON.stringify({
  secret: attempt(() => fs.readFileSync(secret, 'utf8')),
  passwd: attempt(() => fs.statSync('/etc/passwd').size),
  processes: attempt(() => fs.readdirSync('/proc').length),
  root: attempt(() => fs.readdirSync('/').sort().join()),
  writable: attempt(() => fs.writeFileSync('/jail/x', '')),
  parent: attempt(() => process.kill(parent, 0)),
  interfaces: attempt(() => Object.keys(os.networkInterfaces()).join()),
  // Bubblewrap sets PWD.
  environment: Object.keys(process.env).filter((key) => key !== 'PWD').sort().join(),
  uid: process.getuid(), connected,
  shell: attempt(() => spawnSync('/bin/sh', ['-c', 'echo']).error?.code),
}) + '\\n');
process.exit(0);
`;

/** Differences of the jails: namespaces hide what Landlock refuses. */
const SEEN = {
  bubblewrap: {
    view: { writable: 'EROFS', parent: 'ESRCH' },
    root: /^dev,jail,lib[^/]*,tmp,work$/,
  },
  launcher: {
    view: { writable: 'EACCES', parent: 'EPERM' },
    root: /^jail,lib[^/]*,tmp$/,
  },
};

describe.each(JAILS.filter((name) => name !== 'none'))('the jail %s', (name) => {
  test('reveals nothing about the host, and has no network', async () => {
    await using directory = await tempDir();
    await using canary = await openCanary();
    await using opened = await openJail(name, { compileNative: PROBE });
    const secret = join(directory.path, 'secret.key');
    writeFileSync(secret, 'the key', { mode: 0o644 });
    const request = JSON.stringify({ secret, port: Number(canary.host.split(':')[1]), parent: process.pid });

    const { child, end } = opened.jail.spawn('compile');
    child.stdin.end(request);
    const { value } = await jsonLines(child.stdout).next();
    await end();
    expect(value).toMatchObject({
      secret: 'ENOENT',
      passwd: 'ENOENT',
      processes: 'ENOENT',
      ...SEEN[name].view,
      // seccomp
      interfaces: 'ERR_SYSTEM_ERROR',
      connected: 'EAFNOSUPPORT',
      environment: 'ESBUILD_BINARY_PATH,HOME,TMPDIR',
      shell: 'ENOENT',
    });
    const { root, uid } = value as { root: string; uid: number };
    expect(root).toMatch(SEEN[name].root);
    // bubblewrap: nobody; launcher: a separate user.
    expect(name === 'bubblewrap' ? uid === 65534 : uid > 60_000).toBe(true);
    expect(canary.requests).toEqual([]);

    // Positive control: outside of the jail, the same program finds everything.
    const outside = execFileSync(process.execPath, ['--input-type=module', '-e', PROBE], { input: request });
    expect(JSON.parse(outside.toString())).toMatchObject({
      secret: 'the key',
      parent: true,
      connected: 'connected',
    });
  });
});
