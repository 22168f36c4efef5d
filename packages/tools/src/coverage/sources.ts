import type { Section } from './row.ts';
import * as in_ from './suites.ts';

export const SOURCES: Section = {
  title: 'Sources and hooks',
  rules: [
    {
      rule: 'Creating runs `deploy`, then `activate`, with endpoint and timer live',
      shownBy: in_.sources(
        'creating a source › runs deploy, then activate, with the interfaces live and the source unseen',
      ),
    },
    {
      rule: 'If `deploy` or `activate` throws, the call is a 400 with its message, and nothing is left behind',
      shownBy: in_.sources('creating a source › if the %s hook throws, it leaves nothing behind'),
    },
    {
      rule: 'An update of code or props runs `deactivate` of the old and `activate` of the new; id, endpoint and timer stay',
      shownBy: in_.updateSource(
        'updating a source › new code: deactivate of the old, activate of the new, which runs already; endpoint and beat stay',
      ),
    },
    {
      rule: 'If `activate` of an update throws, everything is as before and the old code is activated',
      shownBy: in_.updateSource(
        'updating a source › an activate hook that throws brings everything back and activates the former code',
      ),
    },
    {
      rule: 'Disabling runs `deactivate`, enabling `activate`; without a change, and for a name, none runs',
      shownBy: in_.updateSource(
        'updating a source › toggles run their hook, disable and enable the interfaces; no change runs none',
      ),
    },
    {
      rule: 'A `deactivate` that throws stops nothing, unless `ignore_hook_errors` is false',
      shownBy: in_.updateSource(
        'updating a source › a deactivate hook that throws refuses the change only with ignore_hook_errors: false',
      ),
    },
    {
      rule: 'A failed hook is a record on `$errors` that names it; hooks hold up no runs, and runs see their sets',
      shownBy: in_.hooks(
        'a hook › that throws returns the error with its place and stores a record that names the hook',
        'a hook › blocks no run, and runs see its sets at once',
      ),
    },
    {
      rule: 'A hook may emit: its events, sets and logs are committed as those of a run',
      shownBy: in_.hooks('a hook › commits its emits, sets and logs as a separate run'),
    },
    {
      rule: 'Deleting runs `deactivate`; events, logs, db, subscriptions and endpoints go along',
      shownBy: [
        ...in_.sources('a deleted source takes everything along, but not what belongs to others'),
        ...in_.deleteRows('removes all rows of the source and none of another'),
      ],
    },
    {
      rule: 'The endpoint of a disabled or deleted source is a 404 within two seconds; new code answers at once',
      shownBy: in_.apiRules(
        'an endpoint follows its source: disabled and deleted it is a 404, enabled it answers, with new code at once',
      ),
    },
    {
      rule: 'Names become slugs, unique per owner by `-1`, `-2`, …',
      shownBy: [
        ...in_.texts('slug › lower-case letters and digits of any script, joined by hyphens'),
        ...in_.sources(
          'creating a source › gives each source of an owner a distinct slug, also when several are created at once',
        ),
      ],
    },
    {
      rule: 'Run by hand: a job with the given event, else that of its interface; a 409 while the source is inactive',
      shownBy: in_.sources(
        'running by hand › hands over %s',
        'running by hand › is refused while the source is inactive',
      ),
    },
    {
      rule: 'A process that dies during a creation, update, toggle or deletion leaves it done or undone',
      shownBy: in_.transitions(
        'a creation that was cut off anywhere leaves nothing behind',
        'an update that was cut off anywhere is either done or undone, as a whole',
        'a toggle that was cut off anywhere is either done or undone',
        'a deletion that was cut off is completed once it had begun',
      ),
    },
  ],
};

export const RUNS: Section = {
  title: 'Runs',
  rules: [
    {
      rule: 'Runs of one source are serial, in the order of arrival, unless `concurrency` says otherwise',
      shownBy: in_.runnerRuns(
        'runs of a source › execute and commit in order of arrival',
        'with concurrency › runs execute concurrently and lose nothing',
      ),
    },
    {
      rule: 'A component of several files polls the API of a vendor with the account of its app: history on deploy, pages, waiting, dedupe',
      shownBy: in_.registryComponent(
        'a component of the registry, in tier %s, › polls with its account: history on deploy, pages, waits after a 429, and no event twice',
        'a component of the registry, in tier %s, › asks the API for options',
        'a component of the registry, in tier %s, › is refused with its own message, or that of the API, when it cannot be deployed',
        'a component of the registry, in tier %s, › fails visibly when the credentials are gone, and the token is in no record',
      ),
    },
    {
      rule: 'A tick has `timestamp` in seconds and the schedule; one that is due during the previous run is skipped and logged',
      shownBy: in_.ticks(
        'ticks › carry seconds and the schedule',
        'ticks › that fell due during the previous run are skipped, with a line in $logs',
        'ticks › of two timers that fall due at the same moment are both executed',
      ),
    },
    {
      rule: 'After downtime there is one run for all missed ticks',
      shownBy: [
        ...in_.times(
          'schedule › missed ticks are not repeated: the next one is later than now and on schedule',
        ),
        ...in_.scheduler(
          'the scheduler › loses no tick, publishes none twice without a mark, and makes up for missed ones by one run, wherever it dies',
        ),
      ],
    },
    {
      rule: 'The event of an HTTP call has method, path, query, headers, bodyRaw and body; bodies are parsed by their type',
      shownBy: [
        ...in_.httpEvent(
          'without a body, body is undefined and bodyRaw empty',
          'repeated names of the query become a list; names of Object.prototype are only names',
          'the body is parsed by its type › %s as %s',
          'the body is parsed by its type › bytes that are no text stay bytes',
        ),
        ...in_.ingest(
          'a call › by %s runs the source',
          'a call › to %s has its path relative to the endpoint',
        ),
      ],
    },
    {
      rule: 'A call is answered 200 and empty, a call of an inactive or unknown endpoint 404',
      shownBy: in_.ingest(
        'a call › is answered 200 and empty, and its job names the source',
        'a call › to an inactive endpoint is 404 and runs nothing',
        'a call › to %s is 404',
      ),
    },
    {
      rule: 'An endpoint has a host of its own, too, where the operator gives a domain',
      shownBy: in_.ingest('a call › by the endpoint’s own host is the same'),
    },
    {
      rule: 'Files of a multipart body have a signed address of their bytes',
      shownBy: in_.multipart(
        'a multipart body › becomes an object; a file a signed address of its bytes',
        'a multipart body › has every field that the size of the body allows, also thousands of one name',
        'a multipart body › may have 50 files',
        'a multipart body › of more than 50 files is text, so that none is lost',
      ),
    },
    {
      rule: '`respond()` needs customResponse and a status; headers and body (text, object, bytes) are optional; its first call counts',
      shownBy: [
        ...in_.responder(
          'respond › only its first call counts, in each run anew',
          'respond › an object becomes JSON with its type, bytes stay bytes',
          'respond › without customResponse it is ignored, with a line in the log',
        ),
        ...in_.customResponse(
          'a custom response › is given byte for byte, with its headers, without those of the connection',
        ),
        ...in_.responses(
          'a caller that waits › gets the reply before the run ends',
          'a caller that waits › learns the end of a run that gives none: %s',
        ),
      ],
    },
    {
      rule: '`$service.db`: `get` of an absent key is undefined, `set` needs JSON, values stay across runs',
      shownBy: [
        ...in_.database(
          '$service.db › keeps JSON clones and tells what was set',
          '$service.db › %p cannot be set',
        ),
        ...in_.e2e('a deployed source delivers signed events, streams and lists them, also after a restart'),
      ],
    },
    {
      rule: '`$emit(event, {id, name, summary, ts})`: serialised at once; `id` a text or number, `ts` epoch milliseconds',
      shownBy: in_.emitter(
        '$emit › serialises at once: later changes change nothing',
        '$emit › the id %p is kept as %p',
        '$emit › the ts %p is read as %p',
      ),
    },
    {
      rule: 'An event that cannot be serialised is an error; the other events of the run stay',
      shownBy: in_.emitter('$emit › a value without JSON form is a fault, and the other events stay'),
    },
    {
      rule: 'Code cannot emit on `$errors`, `$logs` and `$in`: such an emit is an error',
      shownBy: [
        ...in_.emitter('$emit › on the reserved channel %s is a fault'),
        ...in_.action('what a step sends on a reserved channel is a fault'),
        ...in_.frames('a frame of a child › %s is refused'),
      ],
    },
    {
      rule: 'Events of a run are emitted oldest first by `ts`',
      shownBy: in_.commit(
        'events are those that dedupe keeps, oldest first, in the order of their emits within one moment',
      ),
    },
    {
      rule: 'With a strategy an event needs an id; one without is an error',
      shownBy: [
        ...in_.records('records › every run stores its start, its log lines, and its end with counts'),
        ...in_.dedupe('every strategy › 0 is an id, null is not'),
      ],
    },
    {
      rule: '`unique` drops ids among the last 100, first in first out',
      shownBy: [
        ...in_.dedupe(
          'unique › agrees with a plain list of the last 100 ids, first in first out',
          'unique › a hit keeps its place, so the oldest id goes first',
          'unique › a number and its text are one id',
        ),
        ...in_.commit('the strategy unique drops the same emits of a later run'),
      ],
    },
    {
      rule: '`greatest` emits ids above the greatest one before the run',
      shownBy: in_.dedupe(
        'greatest › keeps exactly what is above the maximum known before the run',
        'greatest › decimals compare as numbers, other ids as strings',
      ),
    },
    {
      rule: '`last` emits what follows the last id, and everything when it is not there',
      shownBy: in_.dedupe(
        'last › keeps what follows the last emitted id, and everything when it is not there',
      ),
    },
    {
      rule: 'Without a strategy everything is emitted; channels are deduped apart',
      shownBy: in_.dedupe(
        'every strategy › without a strategy all candidates are kept, even without ids',
        'every strategy › channels are independent of each other',
      ),
    },
    {
      rule: 'A delayed event waits on `$in` and becomes an ordinary event once, when due',
      shownBy: [
        ...in_.delayed(
          'a delayed event waits on $in under an id of its own, and is not among the events',
          'when due it becomes an ordinary event once, however often that is published',
        ),
        ...in_.apiRules('a run that emits with delivery_ts emits when it is due'),
      ],
    },
    {
      rule: 'A run that throws keeps what it emitted and set before',
      shownBy: in_.runnerRuns('runs of a source › commit what they emitted and set before they threw'),
    },
    {
      rule: 'A run can be cancelled; what it emitted stays, and `$errors` says so',
      shownBy: in_.activeRuns(
        'a cancelled run keeps what it emitted, says so in $errors, and the next run starts',
      ),
    },
    {
      rule: 'Logs of a run can be read before it ends',
      shownBy: in_.activeRuns('the log lines of a run can be read before it ends, and are logged once'),
    },
    {
      rule: 'A replaced `$service.db` is seen by later runs, not by those accepted before',
      shownBy: [
        ...in_.replaceDb('a replaced $service.db is seen by later runs, not by those accepted before'),
        ...in_.sourceDb('bad values are refused before anything is queued'),
      ],
    },
  ],
};
