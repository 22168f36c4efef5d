import type { Rule } from './row.ts';
import * as in_ from './suites.ts';

const SOURCE = in_.apiComponents(
  'a source has its fields, and is created, read, listed, updated and deleted',
);
const CONFIGURING = in_.configureRoutes('options › are asked of the code with the values chosen so far');
const FIRST_PAGE = in_.configureRoutes('options › begin at page 0 with an empty context');
const ENDS = in_.subscriptions('creating › accepts every emitter and listener that the caller may access');
const FOUND = in_.deliveries('the deliveries of a webhook are found by state, event, emitter and time');
const USER = in_.apiOwners(
  'a user has the fields of its plan: daily use and quotas, or those of the billing period',
);
const FIELDS = in_.bind('an answer › keeps with ?%s only those fields');
const PAGES = in_.apiOwners(
  'lists have pages of 10 unless limit says 1 to 100, and cursors in both directions',
);
const RESOLVING = in_.components(
  'resolving › takes component_id before code, code before key, key before URL',
);
const TRIPLE = in_.apiEvents(
  'a subscription has its fields, and is made, listed and removed by triple and by id',
);
const RANGES = in_.apiEvents('deleting events answers 202 and null; ranges have both ends, one end or none');
const FOLDER = in_.registry(
  'the registry › takes a component with its modules; the list tells what is published',
);

/** Every parameter of a query or body by name, whichever endpoints take it. */
export const PARAMETER_RULES: Record<string, Rule> = {
  include: { rule: 'Fields to return; of each item, never of page_info; all by default', shownBy: FIELDS },
  exclude: { rule: 'Fields to leave out, after `include`; unknown names are ignored', shownBy: FIELDS },
  org_id: {
    rule: 'Organization in which something is created, listed or looked up; a 403 for others',
    shownBy: [
      ...in_.apiOwners(
        'an organization lists what belongs to it, to its members; org_id says where something is created',
      ),
      ...in_.bind(
        'an organization that the caller is not a member of is refused by every endpoint that takes org_id',
      ),
    ],
  },
  limit: { rule: 'Size of a page', shownBy: PAGES },
  n: {
    rule: 'Number of events in the short form; default 10',
    shownBy: in_.apiEvents('the newest events of a source are listed in the short form of older clients'),
  },
  after: { rule: 'Cursor: the items after it, which are older', shownBy: PAGES },
  before: { rule: 'Cursor: the items before it, which are newer; not together with `after`', shownBy: PAGES },
  component_id: { rule: 'A saved component; counts before all others', shownBy: RESOLVING },
  component_code: { rule: 'Code; counts before `key` and `component_url`', shownBy: RESOLVING },
  key: {
    rule: 'Key of a component, also `key@version`; counts before `component_url`',
    shownBy: [
      ...RESOLVING,
      ...in_.registry('the registry › gives the newest version, or the one that is named, to everybody'),
    ],
  },
  component_url: {
    rule: 'Where the code is; with other identifiers only kept',
    shownBy: [...RESOLVING, ...in_.components('saving › with code given, the URL is only kept')],
  },
  configured_props: { rule: 'Values by prop name', shownBy: SOURCE },
  name: {
    rule: 'Name of a source, webhook, account, API key or organization',
    shownBy: [
      ...SOURCE,
      ...in_.webhooks(
        'a webhook › an update keeps absent fields, accepts null, and resets failures on reactivation',
      ),
      ...in_.accounts('an account › changes name and credentials, each without the other'),
      ...in_.apiOwners('an API key has its fields; its text is shown when it is made'),
      ...in_.operator('organizations › have names of their own, also when they are renamed'),
    ],
  },
  active: { rule: 'False disables, true enables; an update without it enables', shownBy: SOURCE },
  concurrency: {
    rule: 'Runs of a source at a time: 1, or 2 to 10 without order, if the component allows',
    shownBy: in_.updateSource('updating a source › concurrency fits the component it is given to'),
  },
  ignore_hook_errors: {
    rule: 'False: a `deactivate` hook that throws stops the operation',
    shownBy: in_.updateSource(
      'updating a source › a deactivate hook that throws refuses the change only with ignore_hook_errors: false',
    ),
  },
  event: {
    rule: 'What `run` gets when started by hand, or in a test run',
    shownBy: [
      ...in_.sources('running by hand › hands over %s'),
      ...in_.apiComponents('options, props and a test run of a component have their fields'),
    ],
  },
  data: {
    rule: 'The new content of `$service.db`',
    shownBy: in_.apiComponents('the database of a source is read, replaced and emptied'),
  },
  prop_name: { rule: 'The prop whose options are asked', shownBy: CONFIGURING },
  page: {
    rule: 'Page of the options, from 0',
    shownBy: [...CONFIGURING, ...FIRST_PAGE],
  },
  prev_context: {
    rule: 'Context of the page before; an empty object at first',
    shownBy: [...CONFIGURING, ...FIRST_PAGE],
  },
  query: {
    rule: 'What the user searches for, given to props with `useQuery`',
    shownBy: in_.configure('options › search with a query only when the prop asks for it'),
  },
  start_id: { rule: 'First event of a range, included', shownBy: RANGES },
  end_id: { rule: 'Last event of a range, included', shownBy: RANGES },
  event_id: {
    rule: 'One event: to replay, or whose deliveries are listed',
    shownBy: [
      ...in_.eventsReplay(
        'counts the events of a range that exist now, and leaves them to the delivery service',
      ),
      ...FOUND,
    ],
  },
  event_name: {
    rule: 'Channel; empty: the default one; absent: default and named ones in lists',
    shownBy: in_.listEvents(
      'channels › the default list contains default and named channels, a name one channel; $errors is separate',
    ),
  },
  expand: {
    rule: '`event`: whole events; `attempt_log`: the attempts of listed deliveries',
    shownBy: [
      ...in_.apiEvents(
        'an event has its fields, cut over 1 KB unless expand=event, in lists, by id and on the stream',
      ),
      ...in_.deliveries('a delivery shows its attempts, newest first; in lists only when asked'),
    ],
  },
  last_event_id: {
    rule: 'Event after which a stream resumes, as the header Last-Event-ID',
    shownBy: in_.follow('a stream › resumes after the given id; an unknown id means all retained events'),
  },
  emitter_id: {
    rule: 'Source, workflow, glob or owner whose events are sent',
    shownBy: [...TRIPLE, ...ENDS],
  },
  listener_id: {
    rule: 'Webhook, source or workflow that gets the events',
    shownBy: [
      ...TRIPLE,
      ...ENDS,
      ...in_.workflows('a deployed workflow is subscribed to the source that it made'),
    ],
  },
  state: {
    rule: 'State of the listed runs',
    shownBy: in_.runs('runs are listed newest first, with figures, trigger and the first error'),
  },
  url: {
    rule: 'Address of a webhook: http or https, with a host name',
    shownBy: in_.webhookUrl(
      'the address of a webhook › %s is kept as it was given',
      'the address of a webhook › %j is refused, naming url',
    ),
  },
  payload_format: {
    rule: '`raw`: the body is the emitted value; `envelope`: `{type, timestamp, id, emitter_id, data}`',
    shownBy: in_.apiEvents('a webhook and a delivery have their fields'),
  },
  description: {
    rule: 'Description of a webhook',
    shownBy: in_.webhooks(
      'a webhook › an update keeps absent fields, accepts null, and resets failures on reactivation',
    ),
  },
  status: { rule: 'Status of the listed deliveries', shownBy: FOUND },
  since: {
    rule: 'Beginning of a time, as ISO 8601 or epoch seconds',
    shownBy: [...FOUND, ...in_.webhookTime('a point in time › %s', 'a point in time › %j is rejected')],
  },
  until: { rule: 'End of a time', shownBy: FOUND },
  app: { rule: 'Slug of the app of an account', shownBy: in_.accounts('an account › is listed by app') },
  credentials: {
    rule: 'Texts by field of `$auth`; an update replaces them as a whole',
    shownBy: in_.accounts('an account › changes name and credentials, each without the other'),
  },
  include_credentials: {
    rule: 'Shows the credentials too, to the owner',
    shownBy: in_.accounts('an account › is stored encrypted, and shows its credentials only when asked'),
  },
  owner_id: {
    rule: 'User or organization of a workflow',
    shownBy: in_.workflows(
      'a workflow belongs to the user or organization it is made for, and so does the source that it makes',
    ),
  },
  definition: {
    rule: 'Definition of a workflow; an error names the field at fault',
    shownBy: in_.workflows(
      'a wrong definition is refused with the field at fault, and nothing is stored › %s',
    ),
  },
  username: { rule: 'Unique name of a user', shownBy: in_.operator('users › have names of their own') },
  email: {
    rule: 'Address of a user or organization',
    shownBy: in_.operator('users › change only the given fields; null removes a quota'),
  },
  plan: { rule: '`free` or `paid`', shownBy: USER },
  quotas: {
    rule: 'Daily invocations and compute time; null removes one',
    shownBy: in_.operator('users › change only the given fields; null removes a quota'),
  },
  orgname: {
    rule: 'Unique name of an organization',
    shownBy: in_.operator('organizations › have names of their own, also when they are renamed'),
  },
  code_allow_networks: {
    rule: 'Private networks that the code of an organization may reach',
    shownBy: in_.operator(
      'organizations › have networks that their code may reach; an invalid network is refused by name',
    ),
  },
  component_path: { rule: 'Path of published code, against which its imports are resolved', shownBy: FOLDER },
  modules: { rule: 'Modules that published code imports, by path', shownBy: FOLDER },
  imports: {
    rule: 'Modules by the bare specifier under which code imports them',
    shownBy: in_.compile(
      'compilation in jail %s › imports › of a module by a bare specifier, and the range of a package that has none, are given beside the code',
    ),
  },
  dependencies: {
    rule: 'Ranges of packages that code imports without one',
    shownBy: in_.compile(
      'compilation in jail %s › imports › of a module by a bare specifier, and the range of a package that has none, are given beside the code',
    ),
  },
};
