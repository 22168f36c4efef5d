import { builtinModules } from 'node:module';
import type { SourceFile, Tree } from './tree.ts';

/** A rule gives one line for every place that breaks it. */
export type Rule = (tree: Tree) => string[];

const SCOPE = '@wellspring/';

/** `@wellspring/store/port` → `@wellspring/store`, `got` → `got`. */
const packageOf = (specifier: string) =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');

const isBuiltin = (specifier: string) =>
  specifier.startsWith('node:') || builtinModules.includes(packageOf(specifier));
const isRelative = (specifier: string) => specifier.startsWith('.');
const isOurs = (specifier: string) => specifier.startsWith(SCOPE);

/** Tests and what only tests use: `*.test.ts`, `*.fixture.ts`, the suites of the ports, and packages/testing. */
export const isForTests = ({ path }: SourceFile) =>
  /\.(test|fixture)\.ts$|\/(contract|conformance)(-\w+)?\.ts$|\/(conformance\/|testbed\.ts$)/.test(path) ||
  path.startsWith('packages/testing/');

const broken = (
  { files }: Tree,
  check: (file: SourceFile, specifier: string) => string | false | undefined,
): string[] =>
  files.flatMap((file) =>
    file.imports.flatMap((specifier) => {
      const fault = check(file, specifier);
      return fault ? [`${file.path} imports ${specifier}: ${fault}`] : [];
    }),
  );

/** Whatever a package imports stands in its package.json; for tests also what the root gives them. */
export const declared: Rule = (tree) =>
  broken(tree, (file, specifier) => {
    if (isRelative(specifier) || isBuiltin(specifier)) return false;
    const name = packageOf(specifier);
    const own = tree.packages.find((one) => one.name === file.package)!;
    const known = isForTests(file)
      ? [...own.dependencies, ...own.devDependencies, ...tree.rootDevDependencies]
      : own.dependencies;
    return !known.includes(name) && name !== own.name && `not in ${own.directory}/package.json`;
  });

/** The floors, lowest first. A package stands only on lower ones. */
const FLOORS: string[][] = [
  ['core'],
  ['contract', 'sqlite', 'redis', 'mongodb', 'amqp'],
  ['store', 'pubsub', 'call', 'blob', 'component', 'http', 'client'],
  ['queue', 'sandbox', 'cli', 'dashboard'],
  ['runtime'],
  [
    'service-gateway',
    'service-components',
    'service-sources',
    'service-subscriptions',
    'service-webhooks',
    'service-events',
    'service-runner',
    'service-delivery',
  ],
  ['service-all'],
];
/** What stands on the client and on nothing else above the contract. */
const CLIENTS = ['cli', 'dashboard'];

const floorOf = (name: string) => FLOORS.findIndex((floor) => floor.includes(name.slice(SCOPE.length)));

/** Floors are only stood upon from above; services never import each other; tests may also use what tests share. */
export const floors: Rule = (tree) => [
  ...tree.packages
    .filter(({ name }) => floorOf(name) < 0 && name !== `${SCOPE}testing`)
    .map(({ name }) => `${name} has no floor`),
  ...broken(tree, (file, specifier) => {
    if (!isOurs(specifier)) return false;
    const [from, to] = [file.package, packageOf(specifier)];
    if (from === to) return 'a package imports itself by relative paths';
    const isTest = isForTests(file);
    if (to === `${SCOPE}testing`) return !isTest && 'only tests use it';
    if (from === `${SCOPE}testing`) return false;
    const [fromFloor, toFloor] = [floorOf(from), floorOf(to)];
    if (isTest && toFloor < floorOf(`${SCOPE}service-gateway`)) return false;
    if (CLIENTS.includes(from.slice(SCOPE.length)) && to !== `${SCOPE}client` && toFloor > 1) {
      return 'it stands on the client';
    }
    return toFloor >= fromFloor && 'not a lower floor';
  }),
];

/** Files that import something for tests are for tests themselves. */
export const testsStayApart: Rule = (tree) => {
  const forTests = new Set(tree.files.filter(isForTests).map(({ path }) => path));
  return broken(tree, (file, specifier) => {
    if (isForTests(file) || !isRelative(specifier)) return false;
    const path = new URL(specifier, `file:///${file.path}`).pathname.slice(1);
    return forTests.has(path) && 'only tests use it';
  });
};

/** Each library has one door: the only files, besides tests, that import it. */
export const DOORS: Record<string, string> = {
  express: 'packages/http/src/bind.ts',
  undici: 'packages/http/src/egress.ts',
  ajv: 'packages/contract/src/validate.ts',
  typebox: 'packages/contract/src/',
  croner: 'packages/core/src/schedule.ts',
  'node-cron': 'packages/runtime/src/housekeeping.ts',
  got: 'services/components/src/fetch-code.ts',
  pino: 'packages/runtime/src/log.ts',
  'prom-client': 'packages/runtime/src/metrics.ts',
  esbuild: 'packages/sandbox/src/',
  'esbuild-wasm': 'packages/sandbox/src/packages/',
  semver: 'packages/sandbox/src/packages/registry/packument.ts',
  yaml: 'packages/sandbox/src/packages/lockfile.ts',
  busboy: 'services/gateway/src/multipart.ts',
  amqplib: 'packages/amqp/src/',
  ioredis: 'packages/redis/src/',
  mongodb: 'packages/mongodb/src/',
  '@aws-sdk/client-s3': 'packages/blob/src/s3.ts',
  'node:sqlite': 'packages/sqlite/src/',
  'node:child_process': 'packages/sandbox/src/',
};

export const doors: Rule = (tree) => [
  ...broken(tree, (file, specifier) => {
    if (isForTests(file) || isRelative(specifier) || isOurs(specifier)) return false;
    const name = packageOf(specifier);
    const door = Object.hasOwn(DOORS, name) ? DOORS[name] : undefined;
    if (door === undefined) return !isBuiltin(specifier) && 'this library has no door';
    return !file.path.startsWith(door) && `its door is ${door}`;
  }),
  ...Object.entries(DOORS)
    .filter(([name]) => !tree.files.some(({ imports }) => imports.some((one) => packageOf(one) === name)))
    .map(([name, door]) => `${door} is a door that nobody uses, to ${name}`),
];

const ADAPTER =
  /^@wellspring\/(store|queue|pubsub|call|blob)\/(embedded|mongodb|rabbitmq|redis|direct-reply|gridfs|s3)\b/;

/** Only runtime/infra knows which adapters there are. */
export const adapters: Rule = (tree) =>
  broken(
    tree,
    (file, specifier) =>
      ADAPTER.test(specifier) &&
      !isForTests(file) &&
      !file.path.startsWith('packages/runtime/src/infra') &&
      'adapters are chosen in packages/runtime/src/infra*.ts',
  );

/** What is read in one place only. Code that runs inside the sandbox has an environment and a clock of its own. */
const GLOBALS: [what: RegExp, where: string[]][] = [
  [/\bprocess\.env\b/, ['packages/runtime/src/config.ts']],
  [/\b(Date\.now\b|Math\.random\b|new Date\(\))/, ['packages/core/src/clock.ts', 'packages/core/src/ids.ts']],
];
const INSIDE = /^packages\/(sandbox\/src\/(child\/|self-test\.ts)|component\/src\/)/;
const COMMENT = /^\s*(\*|\/\/|\/\*)/;

export const globals: Rule = ({ files }) =>
  files
    .filter((file) => !isForTests(file) && !INSIDE.test(file.path))
    .flatMap(({ path, text }) =>
      text.split('\n').flatMap((line, index) => {
        const code = COMMENT.test(line) ? '' : line.replace(/\s\/\/ .*$/, '');
        return GLOBALS.flatMap(([what, where]) => {
          const found = what.exec(code)?.[0];
          return found && !where.includes(path) ? [`${path}:${index + 1} uses ${found}`] : [];
        });
      }),
    );

export const LONGEST = 400;
export const LONGEST_MEDIAN = 120;

const linesOf = ({ text }: SourceFile) => text.trimEnd().split('\n').length;

export const sizes: Rule = ({ files }) => {
  const lengths = files.map(linesOf).sort((a, b) => a - b);
  const median = lengths[Math.floor(lengths.length / 2)] ?? 0;
  return [
    ...files
      .filter((file) => linesOf(file) > LONGEST)
      .map((file) => `${file.path} has ${linesOf(file)} lines, more than ${LONGEST}`),
    ...(median > LONGEST_MEDIAN ? [`the median file has ${median} lines, more than ${LONGEST_MEDIAN}`] : []),
  ];
};

const VAGUE = /\b(utils?|helpers?|manager|misc|common)\b/;

/** A name says what is in a file. */
export const names: Rule = ({ files }) =>
  files.filter(({ path }) => VAGUE.test(path)).map(({ path }) => `${path} has a name that says nothing`);

export const RULES: Record<string, Rule> = {
  declared,
  floors,
  testsStayApart,
  doors,
  adapters,
  globals,
  sizes,
  names,
};
