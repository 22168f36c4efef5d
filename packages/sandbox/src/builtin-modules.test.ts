import { describe, expect, test } from '@jest/globals';
import { forSuite } from '@wellspring/testing/lifetimes';
import { openSandbox, TIERS, values } from './sandbox.fixture.ts';

describe.each(TIERS)('code in tier %s', (tier) => {
  const sandbox = forSuite(() => openSandbox(tier));

  test(
    tier === 'none'
      ? 'cannot load SQLite, which ignores the permission model'
      : 'opens databases only in its temporary directory',
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

  (tier === 'none' ? test.skip : test).each(['delete', 'wal'])(
    'has databases whose connections exclude each other, with the journal %s',
    async (journal) => {
      const outcome = await sandbox.run(
        `const { DatabaseSync } = await import('node:sqlite');
        const path = os.tmpdir() + '/' + event.journal + '.db';
        const [one, other] = [new DatabaseSync(path), new DatabaseSync(path)];
        one.exec('PRAGMA journal_mode = ' + event.journal + '; CREATE TABLE t (a); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)');
        const insert = () => { try { other.exec('INSERT INTO t VALUES (2)') } catch ({ message }) { return message } };
        const said = insert();
        one.exec('COMMIT');
        return [said, insert(), other.prepare('SELECT a FROM t ORDER BY a').all().map(({ a }) => a)]`,
        { event: { journal } },
      );
      expect(values(outcome)).toEqual([['database is locked', null, [1, 2]]]);
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
});
