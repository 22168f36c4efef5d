import { ALL, type AttackRow, KERNEL, TESTS } from './row.ts';

const EGRESS = `${TESTS}/egress`;
const FRAMES = `${TESTS}/hostile-frames.test.ts`;
const PACKAGES = `${TESTS}/packages`;
const RESOURCES = `${TESTS}/resources.test.ts`;

/** Attacks on the interfaces of the platform: network, frames, packages, responses. */
export const INTERFACE_ROWS: readonly AttackRow[] = [
  {
    id: '10a',
    attempt:
      'Bypass the socket layer: patched prototypes and accessors, handles of net, dgram and dns, internal bindings',
    expected: 'No connection; a listener on loopback gets no connection',
    tiers: KERNEL,
    shownBy: [`${EGRESS}/bypass.test.ts`],
  },
  {
    id: '11',
    attempt: 'Connect to metadata services, private, loopback and link-local addresses',
    expected: 'EACCES, with the name of the setting',
    tiers: ALL,
    shownBy: [`${EGRESS}/addresses.test.ts`],
  },
  {
    id: '12',
    attempt:
      'The same in other notations: 127.1, 2130706433, 0x7f.1, [::ffff:7f00:1], [64:ff9b::a9fe:a9fe], 0.0.0.0',
    expected: 'EACCES',
    tiers: ALL,
    shownBy: [`${EGRESS}/addresses.test.ts`, `${EGRESS}/policy.test.ts`],
  },
  {
    id: '13',
    attempt: 'Names that resolve to another address the second time, or to public and private addresses',
    expected: 'Only a checked address is dialled',
    tiers: ALL,
    shownBy: [`${EGRESS}/relay.test.ts`],
  },
  {
    id: '13a',
    attempt: 'Ask for DNS records of private names, also by an alias in a zone of its own',
    expected: 'EACCES',
    tiers: ALL,
    shownBy: [`${EGRESS}/records.test.ts`, `${EGRESS}/aliases.test.ts`],
  },
  {
    id: '14',
    attempt: "The platform's own listeners, names, broker and databases, also if an allow-list contains them",
    expected: 'EACCES',
    tiers: ALL,
    shownBy: [`${EGRESS}/addresses.test.ts`, `${EGRESS}/policy.test.ts`],
  },
  {
    id: '17',
    attempt: 'Ten thousand connections, slow preambles, unlimited bytes, mail servers',
    expected: 'An error that names the limit; other sandboxes keep their network',
    tiers: ALL,
    shownBy: ['relay-limits', 'hostile-sandbox', 'relay-process', 'pace'].map(
      (name) => `${EGRESS}/${name}.test.ts`,
    ),
  },
  {
    id: '17a',
    attempt: 'Fill the log of the operator with refused connections and exceeded limits',
    expected: 'A hundred lines of an owner, then one a second; the others are for debugging',
    tiers: ALL,
    shownBy: [`${EGRESS}/relay-process.test.ts`],
  },
  {
    id: '22',
    attempt: 'Continue after its run: timers, endless loops, emits, frames, memory',
    expected: 'Stopped; late frames are dropped, too many of them kill the process',
    tiers: ALL,
    shownBy: [RESOURCES, `${TESTS}/after-its-end.test.ts`],
  },
  {
    id: '22a',
    attempt:
      'Use processor time that no run contains: after a forged end, before its process ends, in a run whose source is deleted',
    expected: 'It counts for the account of the owner; so does a process that ends itself between runs',
    tiers: ALL,
    shownBy: [`${TESTS}/idle-usage.test.ts`, 'services/runner/src/idle-usage.test.ts'],
  },
  {
    id: '23',
    attempt: 'Frames that are huge, incomplete, deeply nested or garbage; very many emits and log lines',
    expected: 'The process is killed at the limit; the event loop of the platform is not blocked',
    tiers: ALL,
    shownBy: [FRAMES, `${TESTS}/frame-channel.test.ts`, `${TESTS}/frame-reader.test.ts`],
  },
  {
    id: '24',
    attempt: 'Forge frames: ends, sources of others, second responses, processor time',
    expected: 'No effect: identity comes from the channel, figures from the kernel',
    tiers: ALL,
    shownBy: [FRAMES, RESOURCES],
  },
  {
    id: '25',
    attempt: 'Patched globals, getters and cycles in events, __proto__ keys',
    expected: 'An error of its own run',
    tiers: ALL,
    shownBy: [`${TESTS}/sandbox.test.ts`, `${TESTS}/frame-schema.test.ts`],
  },
  {
    id: '28',
    attempt:
      'Packages: file:, link:, git: and http: dependencies at any depth, foreign tarballs, scripts, settings',
    expected: 'A 400 that names package and dependency; nothing is fetched, linked or run',
    tiers: ALL,
    shownBy: [`${PACKAGES}/foreign-dependencies.test.ts`, `${PACKAGES}/hostile-packages.test.ts`],
  },
  {
    id: '28a',
    attempt: 'Read files of the host while its code is compiled; code that exceeds any compiler',
    expected: 'Refused; compilations of other owners continue',
    tiers: ALL,
    shownBy: [`${PACKAGES}/compile-hostile.test.ts`, `${PACKAGES}/fairness.test.ts`],
  },
  {
    id: '28b',
    attempt:
      'Take over the package manager or the compiler: read files of the platform or of other jails, connect to other servers than the gateway, signal processes, become root, leave processes behind, fill the disk; native: the calls of rows 7 to 9a',
    expected:
      'ENOENT, EACCES, EPERM, ESRCH or EAFNOSUPPORT; its user id is reused after all of its processes have ended',
    tiers: KERNEL,
    shownBy: [
      `${PACKAGES}/jail/attacks.test.ts`,
      `${PACKAGES}/jail/launcher.test.ts`,
      `${PACKAGES}/jail/user-processes.test.ts`,
    ],
  },
  {
    id: '28c',
    attempt: 'Packages of very many files, in processes that start again and again',
    expected:
      'Linked in turns with other owners, and not again for the next process; directories made for processes count for the disk of their owner',
    tiers: ALL,
    shownBy: [
      `${TESTS}/link-tree.test.ts`,
      `${TESTS}/process-directories.test.ts`,
      `${TESTS}/kept-trees.test.ts`,
    ],
  },
  {
    id: '33',
    attempt:
      'Print or throw secret props, also where a limit cuts the text or a line arrives in parts; learn paths of the host from stacks',
    expected: 'Masked; only paths of the sandbox',
    tiers: ALL,
    shownBy: [
      'services/runner/src/secrets.test.ts',
      'services/runner/src/mask-secrets.test.ts',
      `${TESTS}/standard-streams.test.ts`,
      `${TESTS}/sandbox.test.ts`,
    ],
  },
  {
    id: '34',
    attempt: 'Hold every run permit, hook, compiler or process start with runs that never end',
    expected: 'Only the owner at its limit waits',
    tiers: ALL,
    shownBy: ['services/runner/src/run-permits.test.ts', `${TESTS}/pool.test.ts`],
  },
  {
    id: '34a',
    attempt:
      'Occupy the main thread with secret props: very many of them, of many lines, or with one beginning; many sources with megabytes of props; a workflow of a hundred steps that get megabytes each',
    expected: 'Log lines that would take too long are hidden; the owner pays for what is read and given',
    tiers: ALL,
    shownBy: ['mask-secrets', 'catalog', 'step-input'].map((name) => `services/runner/src/${name}.test.ts`),
  },
  {
    id: '35',
    attempt:
      'Set headers for the origin of the API: cookies, HSTS, Clear-Site-Data, Alt-Svc, scripts in HTML',
    expected: 'Dropped, with a warning in $logs; HTML is sandboxed',
    tiers: ALL,
    shownBy: ['services/runner/src/responses.test.ts', 'services/gateway/src/ingest.test.ts'],
  },
  {
    id: '36',
    attempt: 'Run as root of the host when the platform does',
    expected: 'A separate user id, or refusal to start',
    tiers: ALL,
    shownBy: [`${TESTS}/tiers/users.test.ts`],
  },
];
