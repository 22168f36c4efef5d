import type { Section } from './row.ts';
import * as in_ from './suites.ts';

export const SUBSCRIPTIONS: Section = {
  title: 'Subscriptions',
  rules: [
    {
      rule: 'One subscription per triple of emitter, listener and channel',
      shownBy: in_.subscriptions('creating › creates one subscription per triple, also concurrently'),
    },
    {
      rule: 'Emitters are sources, workflows, `dc_*`, `p_*`, a user or an organization; other globs are a 400',
      shownBy: in_.subscriptions(
        'creating › accepts every emitter and listener that the caller may access',
        'creating › refuses %s %j',
      ),
    },
    {
      rule: 'Listeners are webhooks, sources and workflows; both ends need access, else a 404',
      shownBy: in_.subscriptions(
        'creating › returns 404 for unknown emitters and listeners and those of other tenants',
      ),
    },
    {
      rule: 'A glob matches emitters that are created later, too',
      shownBy: [
        ...in_.apiRules(
          'a listener of dc_* gets the events of sources created later, and none of other owners',
        ),
        ...in_.texts('glob › an emitter is found under its id, under all of its kind and under its owner'),
      ],
    },
    {
      rule: 'Without `event_name`, DELETE means the default channel, a list any channel',
      shownBy: in_.subscriptions(
        'lists and deletions › an absent event_name means the default channel when deleting, any channel when listing',
      ),
    },
    {
      rule: 'An auto-subscription is for `$errors` or `$logs`, and for emitters created after it, from before their deploy hook',
      shownBy: [
        ...in_.autoSubscriptions(
          'the channel %p is refused',
          'a later source of the owner gets one subscription of each, also after a repetition',
        ),
        ...in_.sources('auto-subscriptions apply to a new source before its deploy hook'),
      ],
    },
    {
      rule: 'Every listener of the channel gets an event once, however many subscriptions match; `$errors` is a channel of its own',
      shownBy: in_.fanOut(
        'fan-out › every listener of the channel gets the event once, with the emitted payload',
        'fan-out › $errors and events with the same event id are two events',
      ),
    },
    {
      rule: 'A listening source runs with the bare event; after ten hops a loop ends with a record on `$errors`',
      shownBy: [
        ...in_.fanOut(
          'fan-out › listening sources run with the event, one hop further, under a deterministic id',
        ),
        ...in_.runnerRuns('runs of a source › at the tenth hop must not emit and report it on $errors'),
      ],
    },
    {
      rule: 'A listening workflow gets the bare event as `steps.trigger.event`; its own events reach its listeners',
      shownBy: in_.apiRules('a workflow listens to a source, and its events reach sources and webhooks'),
    },
    {
      rule: 'Who loses access to an end loses the subscription',
      shownBy: [
        ...in_.fanOut('fan-out › subscriptions reach only what their owner or creator may still access'),
        ...in_.lostSubscriptions('a deleted organization leaves no subscription to all that it emits'),
        ...in_.lostSubscriptions(
          'a removed member leaves no auto-subscription that cannot deliver, and later sources get none from it',
        ),
        ...in_.reachedEvents('who left an organization resends and recovers no delivery of its events'),
      ],
    },
  ],
};

export const WEBHOOKS: Section = {
  title: 'Webhooks and deliveries',
  rules: [
    {
      rule: 'The URL has the protocol http or https and a host name; else a 400',
      shownBy: in_.webhookUrl(
        'the address of a webhook › %s is kept as it was given',
        'the address of a webhook › %j is refused, naming url',
      ),
    },
    {
      rule: 'A delivery is a POST of the event byte for byte, signed as Standard Webhooks say',
      shownBy: [
        ...in_.e2e('a deployed source delivers signed events, streams and lists them, also after a restart'),
        ...in_.request(
          'the headers of an attempt › any JSON body passes the Standard Webhooks verification, with the new and the old secret',
        ),
      ],
    },
    {
      rule: 'Headers tell emitter, event, channel, attempt and hops',
      shownBy: in_.request(
        'the headers of an attempt › include id, attempt and hops; a test delivery has no emitter and no event',
        'the headers of an attempt › every event name is sent as percent-encoded UTF-8',
      ),
    },
    {
      rule: 'The secret is shown on creation and rotation; the old one signs for a day more',
      shownBy: [
        ...in_.webhooks('a webhook › shows its secret only on creation and rotation'),
        ...in_.attempts('attempts › after a rotation the former secrets sign, too, for a day'),
      ],
    },
    {
      rule: '2xx is a success; redirects are not followed; anything else is retried ten times over about three days',
      shownBy: [
        ...in_.outcome(
          'the outcome of an attempt › %i delivers',
          'the outcome of an attempt › %p is retried',
          'the outcome of an attempt › a receiver that never answers gets ten attempts over about three days',
        ),
        ...in_.attempts(
          'attempts › redirects are not followed and count as failures',
          'attempts › the tenth failure is final',
        ),
        ...in_.times('retry delay › is the table, spread by 20 % to both sides, and ends with it'),
      ],
    },
    {
      rule: '`Retry-After` is respected; a 410 disables the webhook',
      shownBy: [
        ...in_.times('retry delay › is never shorter than Retry-After, which counts up to 24 h'),
        ...in_.attempts('attempts › 410 fails the delivery and disables the webhook'),
      ],
    },
    {
      rule: 'Five days of failures disable a webhook and tell its emitters once',
      shownBy: in_.attempts(
        'attempts › five days without a success disable the webhook and notify its emitters once',
        'attempts › a success resets the five days',
      ),
    },
    {
      rule: 'A webhook has at most eight attempts at a time; one that hangs delays no other',
      shownBy: [
        ...in_.permits('permits › a webhook that answers has eight, one that was never tried has one'),
        ...in_.recovery(
          'fairness › a webhook that hangs has one attempt in progress and delays no other; later all are delivered',
        ),
      ],
    },
    {
      rule: 'Private and local addresses are refused when connecting, unless the operator allows them',
      shownBy: [
        ...in_.egress(
          'connections › to %s are refused before a packet is sent',
          'connections › to an allowed network are made and reused',
        ),
        ...in_.attempts('attempts › an unreachable or forbidden address is retried, and the log says why'),
      ],
    },
    {
      rule: 'A repeated message delivers nothing twice; a delivery that was cut off is repeated under the same id',
      shownBy: [
        ...in_.fanOut('fan-out › a repeated message delivers nothing twice'),
        ...in_.attempts(
          'attempts › a failed delivery is retried when due, with the same id and a new signature',
        ),
      ],
    },
    {
      rule: 'Deliveries are found by status, event, emitter and time, and show their attempts',
      shownBy: in_.deliveries(
        'the deliveries of a webhook are found by state, event, emitter and time',
        'filtered lists have pages, in both directions',
        'a delivery shows its attempts, newest first; in lists only when asked',
      ),
    },
    {
      rule: 'A resend counts on, a recovery anew; what was delivered is resent only while its event exists: else 410',
      shownBy: in_.webhooks(
        'manual deliveries › a resend of what was delivered continues the count, with the payload of the event',
        'manual deliveries › recovery resends every delivery failed since then once, with a new count',
        'manual deliveries › what was delivered is resent only while its event exists: 410',
      ),
    },
    {
      rule: 'A test delivery names no event; an inactive webhook is sent nothing',
      shownBy: in_.webhooks(
        'manual deliveries › a test delivery is due at once and names no event',
        'manual deliveries › an inactive webhook is sent nothing',
      ),
    },
    {
      rule: 'A deleted webhook takes its subscriptions and deliveries along',
      shownBy: in_.webhooks('a webhook › is deleted with its subscriptions and deliveries'),
    },
  ],
};
