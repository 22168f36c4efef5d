import type { LimitRules, Rule } from './row.ts';
import * as in_ from './suites.ts';

const unsendable = in_.responder('respond › what cannot be sent throws in the run, %#');
const excessiveOptions = in_.configure(
  'options › that are neither an array nor an object with one, too many or too large, are errors',
);

/** Every limit, with its value as people read it. */
export const LIMIT_RULES: LimitRules = {
  apiBody: { rule: 'Body of an API request: 6 MB', shownBy: in_.apiLimits('a body has at most 6 MB') },
  bodyValue: {
    rule: 'Memory of the value of a body: 32 MB, some 150,000 different keys',
    shownBy: in_.input('input › a body of half a million keys is refused before it is parsed'),
  },
  endpointBody: {
    rule: 'Body of a call of a source’s endpoint: 512 KB',
    shownBy: in_.ingest('a call › over 512 KB is 413 and runs nothing'),
  },
  multipartBody: {
    rule: 'Multipart body of a call with its files: 6 MB; without them 512 KB',
    shownBy: in_.multipart('a multipart body › may have 6 MB with its files, and 512 KB without them'),
  },
  propValue: {
    rule: 'Value of a prop: 64 KB',
    shownBy: in_.values('values are converted to the type of the prop › a value has at most 64 KB'),
  },
  propValues: {
    rule: 'Values of all props: 2 MB as JSON',
    shownBy: in_.updateSource(
      'updating a source › the values of all props have at most 2 MB, also if they are given one after the other',
    ),
  },
  props: {
    rule: 'Props of a component: 500',
    shownBy: in_.define('a component has no more props, and no more interfaces, than the platform can serve'),
  },
  interfaces: {
    rule: 'Timers and HTTP interfaces of a component: 20',
    shownBy: in_.define('a component has no more props, and no more interfaces, than the platform can serve'),
  },
  definitionBytes: {
    rule: 'Definition of a component, or its props with dynamic ones: 2 MB as JSON',
    shownBy: in_.define('a component has at most 2 MB of descriptions and props'),
  },
  options: { rule: 'Options of a page: 10,000', shownBy: excessiveOptions },
  optionsBytes: {
    rule: 'Options of a page with their context: 1 MB as JSON',
    shownBy: excessiveOptions,
  },
  credentials: {
    rule: 'Fields of an account: 100',
    shownBy: in_.apiLimits('an account has at most 100 fields'),
  },
  credentialsBytes: {
    rule: 'Credentials of an account: 64 KB',
    shownBy: in_.accounts('an account › with %s is refused'),
  },
  db: {
    rule: '`$service.db` of a source: 64 KB in total',
    shownBy: [
      ...in_.database('$service.db › a set beyond 64 KB in all throws and changes nothing'),
      ...in_.commit('$service.db holds 64 KB; a set beyond that changes nothing'),
    ],
  },
  emit: {
    rule: 'One event: 6 MB',
    shownBy: in_.emitter(
      '$emit › a name of more than 256 bytes, an id of more than 1 KB, events too large or too deep are faults',
    ),
  },
  eventName: {
    rule: 'Name of a channel: 256 bytes',
    shownBy: [
      ...in_.emitter(
        '$emit › a name of more than 256 bytes, an id of more than 1 KB, events too large or too deep are faults',
      ),
      ...in_.subscriptions('creating › takes a channel name of 256 bytes', 'creating › refuses %s %j'),
    ],
  },
  emitId: {
    rule: 'Id given to an event: 1 KB',
    shownBy: in_.emitter(
      '$emit › a name of more than 256 bytes, an id of more than 1 KB, events too large or too deep are faults',
    ),
  },
  logLine: {
    rule: 'Line of the log: 16 KB; the rest is cut',
    shownBy: in_.frames('a frame of a child › contains a truncated log line if it is too long'),
  },
  runMs: {
    rule: 'A run, a hook, and all steps of a workflow together: 300 s',
    shownBy: [
      ...in_.timeLimits('a run, a hook and a test run have 300 s, a method that configures 30 s'),
      ...in_.apiLimits('all steps of a workflow have 300 s together'),
      ...in_.sandbox('code in tier %s › that exceeds a limit › of time is killed, even in an endless loop'),
    ],
  },
  configureMs: {
    rule: 'An `options` or `additionalProps` method: 30 s',
    shownBy: in_.timeLimits('a run, a hook and a test run have 300 s, a method that configures 30 s'),
  },
  memoryMb: {
    rule: 'Memory of the process of a source: 256 MB',
    shownBy: in_.crashReport(
      'in tier %s › memory that is used up is told in one sentence, without the report of the engine',
    ),
  },
  summaryBytes: {
    rule: 'Event in a list without `expand=event`, and summary of an event: 1 KB',
    shownBy: [
      ...in_.record('an event of a list › is complete up to 1 KB, beyond it the start of its JSON text'),
      ...in_.emitter('$emit › a summary is text of at most 1 KB'),
    ],
  },
  retrievable: {
    rule: 'Events, and runs, that lists reach: the newest 100',
    shownBy: [
      ...in_.listEvents('a list of %s › pages of any size cover exactly the newest hundred'),
      ...in_.runs('pages lead through the newest hundred runs'),
    ],
  },
  streams: {
    rule: 'Open event streams of a user, in one process: 500',
    shownBy: in_.streams('a user has at most 500 open streams, and another one when one of them ends'),
  },
  replyMs: {
    rule: 'Time for which an HTTP call waits for `respond()`: 30 s',
    shownBy: in_.apiLimits('an HTTP call waits 30 s for respond(), then gets 400'),
  },
  replyBody: { rule: 'Body of a response: 4 MB', shownBy: unsendable },
  replyHeaders: { rule: 'Headers of a response: 256', shownBy: unsendable },
  replyHeaderBytes: { rule: 'Headers of a response together: 32 KB', shownBy: unsendable },
  delayed: {
    rule: 'Delayed events that wait, of one source: 10,000',
    shownBy: in_.delayed('emits too far ahead, or beyond the number that may wait, are refused on $errors'),
  },
  delayMs: {
    rule: 'Delay of an event: 366 days',
    shownBy: in_.delayed('emits too far ahead, or beyond the number that may wait, are refused on $errors'),
  },
  testItems: {
    rule: 'Events, and log lines, that a test run shows: 1,000',
    shownBy: in_.apiLimits('a test run shows at most 1,000 events and 4 MB'),
  },
  testBytes: {
    rule: 'Answer of a test run: 4 MB',
    shownBy: in_.apiLimits('a test run shows at most 1,000 events and 4 MB'),
  },
  emits: {
    rule: 'Events of one run: 10,000; the run is ended by the next',
    shownBy: [
      ...in_.sandbox('code in tier %s › that exceeds a limit › of events is killed'),
      ...in_.workflowRuns('limits › emits of all steps are bounded together'),
    ],
  },
  runBytes: {
    rule: 'Events of one run in bytes: 16 MB',
    shownBy: in_.sandbox('code in tier %s › that exceeds a limit › of total bytes is killed'),
  },
  dbSets: {
    rule: 'Changes of `$service.db` in one run: 50,000; the run is ended by the next',
    shownBy: [
      ...in_.sandbox('code in tier %s › that exceeds a limit › of changes of $service.db is killed'),
      ...in_.dbSets('changes of all steps of a workflow are bounded together'),
    ],
  },
  steps: {
    rule: 'Steps of a workflow: 100',
    shownBy: in_.workflows(
      'a wrong definition is refused with the field at fault, and nothing is stored › %s',
    ),
  },
  stepsBytes: {
    rule: 'Definitions of the components of a workflow with the values of their props: 8 MB as JSON',
    shownBy: in_.workflows(
      'a wrong definition is refused with the field at fault, and nothing is stored › %s',
    ),
  },
  stepData: {
    rule: 'Trigger event and exports of a workflow: 6 MB',
    shownBy: in_.workflowRuns(
      'limits › exports of all steps are bounded together',
      'limits › expressions cannot multiply data',
    ),
  },
  stepEffects: {
    rule: 'Exports and requests of one step: 1,000',
    shownBy: in_.apiLimits('a step makes at most 1,000 exports and requests'),
  },
};

/** Limits that are not in LIMITS. */
export const FURTHER_LIMITS: readonly Rule[] = [
  {
    rule: 'Page of a list: 10 unless `limit` says 1 to 100; more counts as 100, less is a 400',
    shownBy: in_.apiOwners(
      'lists have pages of 10 unless limit says 1 to 100, and cursors in both directions',
    ),
  },
  {
    rule: 'Name of a webhook: 1,000 characters; its description: 4,096',
    shownBy: in_.webhooks('a webhook › has a name of at most 1,000 characters and a description of 4,096'),
  },
  {
    rule: 'Ids remembered by the strategy `unique`: 100',
    shownBy: in_.dedupe('unique › agrees with a plain list of the last 100 ids, first in first out'),
  },
  {
    rule: 'Status in `respond()`: 100 to 599',
    shownBy: in_.responder('respond › the status %p throws'),
  },
  {
    rule: 'Timer interval: at least 15 s, or what the operator allows',
    shownBy: in_.values(
      'values are converted to the type of the prop › %s: %p is a 400 that names the prop',
      'absent values › a timer ticks as often as the operator allows',
    ),
  },
  {
    rule: 'Hops from emitter to listener: 10',
    shownBy: in_.runnerRuns('runs of a source › at the tenth hop must not emit and report it on $errors'),
  },
  {
    rule: 'API requests: 100 a second per key, with bursts of twice that; then 429 with `Retry-After`',
    shownBy: in_.publicApi('a key over its rate gets 429 with Retry-After, and other keys are not delayed'),
  },
  {
    rule: 'Bodies and large answers of API requests, shared fairly by users: a part of the memory of a process; then 503 with `Retry-After`',
    shownBy: [
      ...in_.apiMemory(
        'a body is refused with 503 and Retry-After while its user fills the memory, and other users are served',
        'a body holds memory until its request was handled, also if the client leaves before',
        'a large answer holds memory until its client has taken it',
        'a large answer is a 503 without memory, except after a change; small ones need none',
      ),
      ...in_.listEvents(
        'a list of large events › ends early when memory runs out, and is a 503 without memory for one event',
      ),
    ],
  },
  {
    rule: 'Page of expanded events: ends at 32 MB, or a quarter of that part of the memory',
    shownBy: in_.listEvents(
      'a list of large events › has pages that end at their size, forth and back, and together show all',
    ),
  },
  {
    rule: 'Frames that readers of streams have not taken: a part of the memory of a process; then the streams of slow readers end, and resume',
    shownBy: in_.streams(
      'frames that a reader does not take count as its memory, at most some events of them',
      'a slow reader is disconnected when the memory for streams is used up, and resumes without a gap',
    ),
  },
  {
    rule: 'Time in which a client has to take something of an answer: 30 s, of a stream 15 s; then it is disconnected',
    shownBy: [
      ...in_.listening(
        'a client that takes nothing of an answer is disconnected; one that waits for its answer is not',
      ),
      ...in_.sse('a reader that stops reading is disconnected, and at most one piece waits for it'),
    ],
  },
  {
    rule: 'Daily invocations and compute time of a free account: enforced where set, reset at 00:00 UTC',
    shownBy: in_.quotas('%s at the quota are refused until midnight', 'an account %s is not refused'),
  },
  {
    rule: 'Files of calls: 2 GB within 40 minutes in a process, or what the operator allows, of an owner half; then 503 with `Retry-After`',
    shownBy: in_.multipartLimits(
      'calls get 503 when their owner has left too many files, those of another owner do not',
    ),
  },
  {
    rule: 'Components fetched from a URL at a time: 4 of an owner, 16 in all, in a process; others wait for a minute, then 429',
    shownBy: in_.fetchCode('one owner has at most four fetches at a time, and does not hold up another one'),
  },
  {
    rule: 'Events kept: as many, and as long, as the settings say; of logs always the newest 100',
    shownBy: in_.retention(
      'keeps the newest events of each stream of each emitter',
      'removes old events, however few',
      'keeps the newest hundred log records of an emitter, however old',
    ),
  },
  {
    rule: 'Compiled code that nothing uses is removed after a day; unpublished components that nothing runs at once',
    shownBy: in_.unusedCode(
      'a bundle is removed a day after its last component and deployment',
      'a bundle that is used again within the day starts anew',
      'a component of the registry goes when it is neither published nor deployed',
    ),
  },
  {
    rule: 'Deliveries, idempotency keys and use are kept for times of their own',
    shownBy: in_.retention(
      'deliveries, idempotency keys and usage have separate limits; the outbox has none',
    ),
  },
];
