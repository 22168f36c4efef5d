import { describe, expect, test } from '@jest/globals';
import { payloads, program, run, said, value } from './program.fixture.ts';

describe('$service.db', () => {
  test('keeps JSON clones and tells what was set', async () => {
    await run(
      (self) => {
        const list = [new Date(0)];
        self.db.set('list', list);
        list.push(new Date(1));
        self.$emit([self.db.get('list'), self.db.get('stored'), self.db.get('unknown') === undefined]);
        self.db.set('stored', undefined);
        self.db.set('unknown', undefined);
        self.$emit(self.db.get('stored') === undefined);
      },
      { db: { stored: '7' } },
    );
    expect(payloads()).toEqual([[['1970-01-01T00:00:00.000Z'], 7, true], true]);
    expect(said.sets).toEqual([
      ['list', '["1970-01-01T00:00:00.000Z"]'],
      ['stored', undefined],
    ]);
  });

  test('a set beyond 64 KB in all throws and changes nothing', async () => {
    const error = await run((self) => {
      self.db.set('a', 'x'.repeat(40_000));
      self.db.set('b', 'x'.repeat(40_000));
    }).catch((thrown: Error) => thrown);
    expect(error).toBeInstanceOf(RangeError);
    expect(said.sets.map(([key]) => key)).toEqual(['a']);
    await program.run(value({}), false).catch(() => {});
    expect(said.sets.map(([key]) => key)).toEqual(['a', 'a']);
  });

  test.each([[1n], [() => 1]])('%p cannot be set', async (bad) => {
    await expect(run((self) => self.db.set('a', bad))).rejects.toThrow();
    expect(said.sets).toEqual([]);
  });

  test('a set of a value that is nested more than 256 levels deep throws and changes nothing', async () => {
    await run((self) => {
      const nested = (levels: number) => JSON.parse('['.repeat(levels) + ']'.repeat(levels));
      self.db.set('deep', nested(256));
      try {
        self.db.set('deeper', nested(257));
      } catch (error) {
        self.$emit([(error as Error).name, (error as Error).message, self.db.get('deeper') === undefined]);
      }
      self.db.set('after', 1);
    });
    const message = '$service.db cannot keep the value of deeper: it is nested more than 256 levels deep.';
    expect(payloads()).toEqual([['RangeError', message, true]]);
    expect(said.sets.map(([key]) => key)).toEqual(['deep', 'after']);
  });

  test('a map sent by the platform replaces the previous map', async () => {
    await run((self) => self.$emit([self.db.get('a'), self.db.get('b')]), { db: { a: '1' } });
    program.syncDb({ b: '2' });
    await program.run(value({}), false);
    expect(payloads()).toEqual([
      [1, null],
      [null, 2],
    ]);
  });
});
