import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { openSandbox, type TestSandbox, TIERS, values } from './sandbox.kit.ts';

describe.each(TIERS)('code in tier %s', (tier) => {
  let sandbox: TestSandbox;
  beforeAll(async () => {
    sandbox = await openSandbox(tier);
  });
  afterAll(async () => {
    await sandbox[Symbol.asyncDispose]();
  });

  test(
    tier === 'none'
      ? 'opens no files as databases: SQLite asks nobody whether it may'
      : 'opens databases in its temporary directory and nowhere else',
    async () => {
      const outcome = await sandbox.run(`
        const said = [];
        const sqlite = await import('node:' + 'sqlite').catch(({ code }) => void said.push(code));
        if (sqlite) for (const directory of [os.tmpdir(), '/app', '/run/eg'])
          try { new sqlite.DatabaseSync(directory + '/x.db').exec('CREATE TABLE t (a)'); said.push(directory) } catch {}
        return said`);
      expect(values(outcome)).toEqual([[tier === 'none' ? 'ERR_UNKNOWN_BUILTIN_MODULE' : '/tmp']]);
    },
  );

  test(
    tier === 'none' ? 'has neither workers nor internal bindings' : 'has workers and internal bindings',
    async () => {
      const outcome = await sandbox.run(`const { Worker } = await import('node:worker_threads');
        const done = [];
        const attempt = async (name, act) => { try { await act(); done.push(name) } catch {} };
        await attempt('worker', () => new Promise((resolve, reject) =>
          new Worker('require("node:worker_threads").parentPort.postMessage(1)', { eval: true })
            .on('message', resolve).on('error', reject)));
        await attempt('binding', () => process.binding('natives'));
        return done`);
      expect(values(outcome)).toEqual([tier === 'none' ? [] : ['worker', 'binding']]);
    },
  );

  test('puts no questions to name servers that are not public', async () => {
    const listener = createSocket('udp4');
    const heard: string[] = [];
    listener.on('message', (message) => heard.push(message.toString('latin1')));
    listener.bind(0, '127.0.0.1');
    await once(listener, 'listening');
    try {
      const servers = [
        '127.0.0.1',
        '127.0.0.1:PORT',
        '[::ffff:127.0.0.1]:PORT',
        '[::1]',
        'fe80::1',
        '10.0.0.1:53',
      ];
      const outcome = await sandbox.run(
        `const dns = process.getBuiltinModule('node:dns');
         const inherited = Object.getPrototypeOf(dns.Resolver.prototype).setServers;
         const said = [];
         for (const server of event) {
           const resolver = new dns.promises.Resolver({ timeout: 100, tries: 1 });
           const ways = [(s) => dns.setServers(s), (s) => dns.promises.setServers(s), (s) => resolver.setServers(s),
             (s) => new dns.Resolver().setServers(s), (s) => inherited?.call(resolver, s)];
           for (const way of ways) try { way([server]); said.push(server) } catch ({ code }) { if (code !== 'EACCES') said.push(code) }
           if (said.length > 0) await resolver.resolve4('heard.example').catch(() => {});
         }
         new dns.Resolver().setServers(['1.1.1.1', '[2606:4700:4700::1111]:53', '8.8.8.8:53']);
         return said`,
        { event: servers.map((server) => server.replace('PORT', String(listener.address().port))) },
      );
      expect(values(outcome)).toEqual([[]]);
      expect(heard).toEqual([]);
    } finally {
      listener.close();
    }
  });
});
