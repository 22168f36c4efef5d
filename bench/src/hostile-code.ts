/** Hostile components of the bench `hostile`, numbered as in the threat model. */

export interface Attack {
  number: number;
  name: string;
  /** Its sources, each called repeatedly with pauses of `everyMs`; otherwise `upload` is sent as components. */
  code?: string;
  upload?: (n: number) => string;
  sources: number;
  everyMs: number;
}

const component = (body: string, head = '') => `${head}
export default { name: 'attack', props: { http: '$.interface.http' }, async run() { ${body} } };`;

/** Responds with the body. */
export const ECHO = `export default {
  name: 'echo',
  props: { http: { type: '$.interface.http', customResponse: true } },
  run(event) { this.http.respond({ status: 200, body: String(event.body) }); },
};`;

/** Writes frames to the descriptor of the sandbox. */
const FORGE = `import fs from 'node:fs';
const frame = (type, body, length = body.length + 1) => {
  const head = Buffer.alloc(5);
  head.writeUInt32LE(length, 0);
  head[4] = type;
  return Buffer.concat([head, body]);
};
const write = (bytes) => {
  for (let at = 0; at < bytes.length; )
    try { at += fs.writeSync(3, bytes, at) } catch (error) { if (error.code !== 'EAGAIN') return; }
};
`;

export const ATTACKS: readonly Attack[] = [
  {
    number: 5,
    name: 'end of a million elements',
    code: component(
      `write(frame(16, Buffer.from('{"ok":true,"definition":{"a":[' + '1,'.repeat(1e6) + '1]}}')));`,
      FORGE,
    ),
    sources: 2,
    everyMs: 200,
  },
  {
    number: 5,
    name: 'emit of 6 MB',
    code: component(`this.$emit({ text: 'x'.repeat(5.9e6) });`),
    sources: 2,
    everyMs: 200,
  },
  {
    number: 5,
    name: '10,000 emits',
    code: component(`for (let n = 0; n < 10_000; n++) this.$emit({ n });`),
    sources: 2,
    everyMs: 200,
  },
  {
    number: 6,
    name: 'runs that never settle',
    code: component(`await new Promise(() => setInterval(() => {}, 1e6));`),
    sources: 260,
    everyMs: 30_000,
  },
  {
    number: 7,
    name: 'inodes',
    code: component(
      `const at = os.tmpdir() + '/' + Math.random(); fs.mkdirSync(at);
       for (let n = 0; n < 300_000; n++) try { fs.writeFileSync(at + '/' + n, '') } catch { break }`,
      `import fs from 'node:fs'; import os from 'node:os';`,
    ),
    sources: 2,
    everyMs: 200,
  },
  {
    number: 8,
    name: 'spinning after the end',
    code: component(
      `(function spin() { const until = Date.now() + 50; while (Date.now() < until); setImmediate(spin); })();`,
    ),
    sources: 8,
    everyMs: 500,
  },
  {
    number: 10,
    name: 'partial frames',
    code: component(
      `write(frame(11, Buffer.alloc(4e6), 5e6)); await new Promise((resolve) => setTimeout(resolve, 2_000));`,
      FORGE,
    ),
    sources: 8,
    everyMs: 200,
  },
  {
    number: 11,
    name: 'compiling 5.6 MB',
    upload: (n) => {
      const line = (i: number) => `export const a${n}_${i} = (x) => ({ ...x, [${i}]: (x ?? {}).y?.z });\n`;
      let code = 'export default { name: "large", run() {} };\n';
      for (let i = 0; code.length < 5.6e6; i++) code += line(i);
      return code;
    },
    sources: 0,
    everyMs: 100,
  },
];
