import type { Section } from './row.ts';
import * as in_ from './suites.ts';

const RANGES = in_.apiEvents('deleting events answers 202 and null; ranges have both ends, one end or none');

export const EVENTS: Section = {
  title: 'Events and streams',
  rules: [
    {
      rule: 'Ids of events rise with the time of emission, in each channel',
      shownBy: [
        ...in_.times('event id › ascends for any clock, and its sort key does, too'),
        ...in_.commit('over any runs, ids rise within each stream, even when the clock goes back'),
      ],
    },
    {
      rule: 'Lists show the newest first and reach the newest 100, of one channel or of the default and named ones',
      shownBy: in_.listEvents(
        'a list of %s › shows the newest first, ten by default, and counts up to a hundred',
        'channels › the default list contains default and named channels, a name one channel; $errors is separate',
      ),
    },
    {
      rule: 'A cursor of a list of events is the id of an event, raw or encoded',
      shownBy: in_.listEvents(
        'a list of %s › a cursor is a raw or encoded event id, even of a deleted event; anything else is a 400',
      ),
    },
    {
      rule: 'Over 1 KB an event is its beginning as a text, unless `expand=event`',
      shownBy: in_.record(
        'an event of a list › is complete up to 1 KB, beyond it the start of its JSON text',
      ),
    },
    {
      rule: 'One event is read by its id, whole, also beyond the newest 100',
      shownBy: in_.listEvents(
        'a list of %s › each event is found by its id, whole and beyond the newest hundred',
      ),
    },
    {
      rule: '`$errors` has `original_event`, `original_context` and `error` of each failure, with a `cellId` for a step of a workflow',
      shownBy: [
        ...in_.apiEvents('a run and the records of its error and its logs have their fields'),
        ...in_.apiOwners(
          'a workflow has its fields; its events, errors, logs, runs and stream are read as those of a source',
        ),
      ],
    },
    {
      rule: '`$logs` has start, lines and end of each run, and is emitted to subscribers',
      shownBy: in_.records(
        'records › every run stores its start, its log lines, and its end with counts',
        'records › $logs are emitted only to subscribers, and never those of a run triggered by a record',
      ),
    },
    {
      rule: 'DELETE without ids removes all events; a range includes both ends; an end before the start removes nothing',
      shownBy: RANGES,
    },
    {
      rule: 'DELETE reaches everything retained, of one channel, and leaves `$errors` and `$logs` unless they are named',
      shownBy: in_.deleteRange(
        'deletion › removes exactly the range of one channel, both ends included',
        'deletion › of more events than one batch deletes them all',
      ),
    },
    {
      rule: 'A stream sends `retry`, a handshake, and a frame with `id` and `data` per event, never cut',
      shownBy: [
        ...in_.apiEvents(
          'an event has its fields, cut over 1 KB unless expand=event, in lists, by id and on the stream',
        ),
        ...in_.record('a frame of a stream › has one id and one data line with the payload byte for byte'),
      ],
    },
    {
      rule: 'The stream of a workflow begins with its newest 100 events unless Last-Event-ID is given, and has the comment `:keepalive`',
      shownBy: [
        ...in_.follow(
          'a stream › of a workflow starts with the newest 100 events, unless an id is given',
          'a stream › sends its comment every 15 seconds',
        ),
        ...in_.apiOwners(
          'a workflow has its fields; its events, errors, logs, runs and stream are read as those of a source',
        ),
      ],
    },
    {
      rule: 'A stream without valid key, or of an unknown source, is a JSON error',
      shownBy: in_.apiRules('unknown components are a 404, and a stream that cannot begin is a JSON error'),
    },
    {
      rule: 'Last-Event-ID resumes without gap and without repetition',
      shownBy: in_.follow(
        'a stream › sends retained events after the cursor, then new ones, each once and in order',
        'a stream › resumes after the given id; an unknown id means all retained events',
      ),
    },
    {
      rule: 'A replay sends events of a range to all present listeners, or to one, under new delivery ids',
      shownBy: [
        ...in_.eventsReplay(
          'counts the events of a range that exist now, and leaves them to the delivery service',
          'a chosen listener has to be one’s own, and to listen to the source',
        ),
        ...in_.deliveryReplay(
          'present listeners get the events again, under a new webhook-id, with a header that says so',
          'one listener may be chosen, and a channel',
        ),
      ],
    },
  ],
};
