import { builtinModules } from 'node:module';
import type { SourceFile, Tree } from './tree.ts';

/** A rule returns one line per violation. */
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
/** The path that a relative import of the file names. */
const resolve = (path: string, specifier: string) => new URL(specifier, `file:///${path}`).pathname.slice(1);

/** Test code: `*.test.ts`, `*.fixture.ts`, conformance suites, and packages/testing. */
const isForTests = ({ path }: SourceFile) =>
  /\.(test|fixture)\.ts$|\/conformance(-\w+)?\.ts$/.test(path) || path.startsWith('packages/testing/');

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

/** Every import is declared in the package's package.json; tests may also use the devDependencies of the root. */
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

/** The layers, lowest first. A package imports only lower ones. */
const LAYERS: string[][] = [
  ['core'],
  ['contract', 'sqlite', 'redis', 'mongodb', 'amqp'],
  ['store', 'pubsub', 'call', 'blob', 'component', 'http', 'client'],
  ['queue', 'sandbox'],
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
    'tools',
  ],
  ['service-all'],
];

const layerOf = (name: string) => LAYERS.findIndex((layer) => layer.includes(name.slice(SCOPE.length)));

/** Imports lead to lower layers; services never import each other; tests may import test support. */
export const layers: Rule = (tree) => [
  ...tree.packages
    .filter(({ name }) => layerOf(name) < 0 && name !== `${SCOPE}testing`)
    .map(({ name }) => `${name} has no layer`),
  ...broken(tree, (file, specifier) => {
    if (!isOurs(specifier)) return false;
    const [from, to] = [file.package, packageOf(specifier)];
    if (from === to) return 'a package imports itself by relative paths';
    const isTest = isForTests(file);
    if (to === `${SCOPE}testing`) return !isTest && 'only tests may import it';
    if (from === `${SCOPE}testing`) return false;
    const [fromLayer, toLayer] = [layerOf(from), layerOf(to)];
    if (isTest && toLayer < layerOf(`${SCOPE}service-gateway`)) return false;
    return toLayer >= fromLayer && 'not a lower layer';
  }),
];

/** Production code does not import test code. */
export const testsStayApart: Rule = (tree) => {
  const forTests = new Set(tree.files.filter(isForTests).map(({ path }) => path));
  return broken(tree, (file, specifier) => {
    if (isForTests(file) || !isRelative(specifier)) return false;
    return forTests.has(resolve(file.path, specifier)) && 'only tests may import it';
  });
};

/** No file imports itself by way of others, types included. Between packages the layers see to it. */
export const noCycles: Rule = ({ files }) => {
  const importsOf = new Map(files.map(({ path, imports }) => [path, imports.filter(isRelative)]));
  const visited = new Set<string>();
  const visit = (path: string, trail: string[]): string[] => {
    if (trail.includes(path)) return [[...trail.slice(trail.indexOf(path)), path].join(' → ')];
    if (visited.has(path)) return [];
    visited.add(path);
    return (importsOf.get(path) ?? []).flatMap((specifier) =>
      visit(resolve(path, specifier), [...trail, path]),
    );
  };
  return files.flatMap(({ path }) => visit(path, []));
};

/** The sole importer of each library: the only files, besides tests, that may import it. */
export const IMPORTERS: Record<string, string> = {
  'eventsource-parser': 'packages/client/src/stream.ts',
  express: 'packages/http/src/bind.ts',
  undici: 'packages/http/src/egress.ts',
  ajv: 'packages/contract/src/validate.ts',
  typebox: 'packages/contract/src/',
  cors: 'services/gateway/src/cors.ts',
  croner: 'packages/core/src/schedule.ts',
  leven: 'packages/core/src/nearest.ts',
  'lru-cache': 'packages/core/src/lru.ts',
  got: 'services/components/src/fetch-code.ts',
  pino: 'packages/runtime/src/log.ts',
  'prom-client': 'packages/runtime/src/metrics.ts',
  esbuild: 'packages/sandbox/src/',
  'esbuild-wasm': 'packages/sandbox/src/packages/',
  semver: 'packages/core/src/versions.ts',
  'dns-packet': 'packages/sandbox/src/egress/dns/',
  yaml: 'packages/sandbox/src/packages/lockfile.ts',
  'cli-progress': 'packages/tools/src/import-progress.ts',
  busboy: 'services/gateway/src/multipart.ts',
  amqplib: 'packages/amqp/src/',
  ioredis: 'packages/redis/src/',
  mongodb: 'packages/mongodb/src/',
  '@aws-sdk/client-s3': 'packages/blob/src/s3/',
  nodemailer: 'services/delivery/src/sends/email.ts',
  'node:sqlite': 'packages/sqlite/src/',
  'node:child_process': 'packages/sandbox/src/',
};

export const importers: Rule = (tree) => [
  ...broken(tree, (file, specifier) => {
    if (isForTests(file) || isRelative(specifier) || isOurs(specifier)) return false;
    const name = packageOf(specifier);
    const importer = Object.hasOwn(IMPORTERS, name) ? IMPORTERS[name] : undefined;
    if (importer === undefined) return !isBuiltin(specifier) && 'not in IMPORTERS';
    return !file.path.startsWith(importer) && `only ${importer} may import it`;
  }),
  ...Object.entries(IMPORTERS)
    .filter(([name]) => !tree.files.some(({ imports }) => imports.some((one) => packageOf(one) === name)))
    .map(([name, importer]) => `${importer} does not import ${name}`),
];

const ADAPTER = /^@wellspring\/(store|queue|pubsub|call|blob)\/(embedded|mongodb|rabbitmq|redis|gridfs|s3)\b/;

/** Only runtime/infra imports adapters. */
export const adapters: Rule = (tree) =>
  broken(
    tree,
    (file, specifier) =>
      ADAPTER.test(specifier) &&
      !isForTests(file) &&
      !file.path.startsWith('packages/runtime/src/infra') &&
      'adapters are chosen in packages/runtime/src/infra*.ts',
  );

/** Globals that only one file may use. Programs inside a sandbox or jail are exempt. */
const GLOBALS: [what: RegExp, where: string[]][] = [
  [/\bprocess\.env\b/, ['packages/runtime/src/config.ts']],
  [/\b(Date\.now\b|Math\.random\b|new Date\(\))/, ['packages/core/src/clock.ts', 'packages/core/src/ids.ts']],
];
const INSIDE = /^packages\/(sandbox\/src\/(entry\/|packages\/jailed\/|self-test\.ts)|component\/src\/)/;
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

const MAX_LINES = 300;
const MAX_MEDIAN_LINES = 120;

const linesOf = ({ text }: SourceFile) => text.trimEnd().split('\n').length;

export const sizes: Rule = ({ files }) => {
  const lengths = files.map(linesOf).sort((a, b) => a - b);
  const median = lengths[Math.floor(lengths.length / 2)] ?? 0;
  return [
    ...files
      .filter((file) => linesOf(file) > MAX_LINES)
      .map((file) => `${file.path} has ${linesOf(file)} lines, more than ${MAX_LINES}`),
    ...(median > MAX_MEDIAN_LINES
      ? [`the median file has ${median} lines, more than ${MAX_MEDIAN_LINES}`]
      : []),
  ];
};

const VAGUE = /\b(utils?|helpers?|manager|misc|common)\b/;

/** No vague file names. */
export const names: Rule = ({ files }) =>
  files.filter(({ path }) => VAGUE.test(path)).map(({ path }) => `${path} has a vague name`);

export const RULES: Record<string, Rule> = {
  declared,
  layers,
  testsStayApart,
  noCycles,
  importers,
  adapters,
  globals,
  sizes,
  names,
};
