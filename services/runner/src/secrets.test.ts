import { expect, test } from '@jest/globals';
import { LIMITS } from '@wellspring/contract/limits';
import { eventually } from '@wellspring/testing/eventually';
import { codeAllowNetworks, createGate } from './gate.fixture.ts';
import { usePlatform } from './platform.fixture.ts';

const t = usePlatform({ codeAllowNetworks });

const SECRET = 'tok-3f9a "x"';
const PLAIN = 'visible-42';

const CODE = `export default {
  name: 'Printer',
  props: { token: { type: 'string', secret: true }, plain: 'string' },
  run() {
    const { token, plain } = this;
    console.log('got ' + token + ' and ' + plain);
    console.log({ headers: { authorization: token, other: plain } });
    console.log(JSON.stringify({ token, plain }));
    console.log('https://x.example/?k=' + encodeURIComponent(token) + '&p=' + plain);
    console.log(Buffer.from(token).toString('base64') + ' ' + plain);
    this.$emit({ token, plain }, { summary: token + plain, name: 'of ' + token });
    this.$emit(() => {}, { summary: 'x' });
    const error = new TypeError('refused ' + token + ' for ' + plain, { cause: new Error('because of ' + token) });
    error.name = 'Error of ' + token;
    throw error;
  },
  hooks: { activate() { throw new Error('hook saw ' + this.token + ' ' + this.plain, { cause: new Error('also ' + this.token) }); } },
};`;

test('values of secret props are masked in logs and errors, not in emitted events', async () => {
  const id = await t.deploy(CODE, {}, { token: SECRET, plain: PLAIN });
  await t.runToEnd(id, [1]);

  const logs = await t.logs(id);
  const lines = logs.filter(({ k }) => k === 'log').map(({ msg }) => msg);
  expect(lines).toEqual([
    `got ******** and ${PLAIN}`,
    expect.stringContaining(PLAIN),
    `{"token":"********","plain":"${PLAIN}"}`,
    `https://x.example/?k=********&p=${PLAIN}`,
    `******** ${PLAIN}`,
  ]);
  const errors = (await t.events(id, '$errors')) as { error: { code: string; msg: string; stack: string } }[];
  expect(errors.at(-1)!.error).toMatchObject({
    code: 'Error of ********',
    msg: `refused ******** for ${PLAIN}`,
    stack: expect.stringContaining(PLAIN),
  });
  for (const text of [JSON.stringify(logs), JSON.stringify(errors)]) {
    expect(text).toContain(PLAIN);
    expect(text).not.toContain('3f9a');
    expect(text).not.toContain(Buffer.from(SECRET).toString('base64').slice(0, 12));
  }
  expect((await t.events(id))[0]).toEqual({ token: SECRET, plain: PLAIN });
});

test('texts and numbers in secret lists and objects are masked in logs, and the code gets the values', async () => {
  const values = {
    list: [SECRET, 'other-77'],
    map: { key: { __lv: { label: 'L', value: 'in-map' } }, pin: 918273 },
  };
  const id = await t.deploy(
    `export default { name: 'Lists', props: { list: { type: 'string[]', secret: true }, map: { type: 'object', secret: true } },
      run() { const { list, map } = this; console.log(JSON.stringify({ list, map })); this.$emit({ list, map }); } };`,
    {},
    values,
  );
  await t.runToEnd(id, [1]);
  expect((await t.events(id))[0]).toEqual(values);
  expect(await t.lines(id)).toEqual([
    '{"list":["********","********"],"map":{"key":{"__lv":{"label":"L","value":"********"}},"pin":********}}',
  ]);
});

test('a secret that is cut by a limit is masked', async () => {
  await using gate = await createGate();
  const id = await t.deploy(
    `export default { name: 'Cut', props: { token: { type: 'string', secret: true } }, async run(event) {
      const print = (limit, before = '') => before + 'x'.repeat(limit - before.length - 8) + this.token;
      console.log(print(${LIMITS.logLine}));
      console.log(print(${LIMITS.logLine}, 'ü'.repeat(4000)));
      process.stdout.write(print(${LIMITS.logLine}) + '\\n' + this.token.slice(0, 6));
      ${gate.wait}
      this.$emit(1, { summary: print(${LIMITS.summaryBytes}) });
      const error = new Error(print(${LIMITS.logLine}), { cause: new Error(print(8 * 1024 - 20)) });
      error.name = print(256);
      throw error;
    } };`,
    {},
    { token: SECRET },
  );
  await t.runAll(id, [1]);
  // Output may arrive after the end of the run that wrote it.
  await eventually(async () => (await t.lines(id)).length === 3);
  gate.open();
  await t.quiet();
  const logs = await t.logs(id);
  expect(logs.filter(({ k }) => k === 'log')).toHaveLength(4);
  expect(logs.filter(({ k }) => k === 'emit')).toHaveLength(1);
  const errors = await t.events(id, '$errors');
  expect(errors).toHaveLength(1);
  for (const text of [JSON.stringify(logs), JSON.stringify(errors)])
    expect(text).not.toContain(SECRET.slice(0, 4));
});

test('secrets are masked in the error of a hook', async () => {
  const id = await t.deploy(CODE, {}, { token: SECRET, plain: PLAIN });
  expect(await t.hook(id, 'activate')).toMatchObject({
    ok: false,
    message: `hook saw ******** ${PLAIN} (Error: also ********) (component.js:17:31)`,
  });
});
