import type { LimitRules } from './row.ts';
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
  subscriptions: {
    rule: 'Subscriptions of an owner, those made from auto-subscriptions too: 10,000',
    shownBy: [
      ...in_.subscriptions('creating › is refused beyond the limit of its owner'),
      ...in_.autoSubscriptions(
        'a later source is refused if its subscriptions exceed the limit of its owner',
      ),
    ],
  },
  autoSubscriptions: {
    rule: 'Auto-subscriptions of an owner: 500',
    shownBy: in_.autoSubscriptions('creating is refused beyond the limit of its owner'),
  },
  apiKeys: {
    rule: 'API keys of a user: 1,000',
    shownBy: in_.apiKeys('a user has at most a thousand keys'),
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
