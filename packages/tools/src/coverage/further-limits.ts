import type { Rule } from './row.ts';
import * as in_ from './suites.ts';

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
