import type { Section } from './row.ts';
import * as in_ from './suites.ts';

export const OWNERS: Section = {
  title: 'Users, organizations and quotas',
  rules: [
    {
      rule: 'A free account shows daily use and quotas, a paid one its billing period',
      shownBy: in_.apiOwners(
        'a user has the fields of its plan: daily use and quotas, or those of the billing period',
      ),
    },
    {
      rule: 'Each run of a source or workflow is an invocation of its owner; hooks count their time only',
      shownBy: [
        ...in_.runnerRuns('runs of a source › are counted for their owner'),
        ...in_.hooks(
          'processor time outside of runs › of a hook is charged to the owner without counting an invocation',
        ),
      ],
    },
    {
      rule: 'Over quota an HTTP call is a 429, a tick is skipped, and `$errors` has one record a day',
      shownBy: [
        ...in_.ingest(
          'a call › to an endpoint whose owner is over quota is 429 with the time to wait, and runs nothing',
        ),
        ...in_.ticks('ticks › over the quota of the owner are skipped, with one record in $errors'),
        ...in_.quotas(
          'stops are one record a day on $errors, with any number of processes',
          'organizations and unknown accounts have no quota',
        ),
      ],
    },
    {
      rule: 'A deleted user or organization takes along what belongs to it, and nothing else',
      shownBy: in_.operator(
        'users › are deleted with everything that is theirs, and nothing else',
        'organizations › are deleted with their memberships',
      ),
    },
    {
      rule: 'Accounts are stored encrypted; credentials that change or go reach later runs',
      shownBy: [
        ...in_.accounts('an account › is stored encrypted, and shows its credentials only when asked'),
        ...in_.runnerAccounts(
          'a run after a change of the credentials has the new ones',
          'a run after the deletion of the account has no credentials, and says so',
          'an account of an organization is lost with the membership, and an account lent to one too',
        ),
      ],
    },
  ],
};

export const OPERATION: Section = {
  title: 'Operation',
  rules: [
    {
      rule: 'The first start makes the user `admin` and its keys, in a file only its owner can read; presets override them',
      shownBy: [
        ...in_.credentials(
          'the first start makes keys that only their owner can read',
          'presets override stored credentials and are stored',
        ),
        ...in_.running('a platform that runs › has the user admin with its key, also after a restart'),
      ],
    },
    {
      rule: 'Health is on both listeners, metrics on the operator’s only; a platform that drains is not ready',
      shownBy: in_.running(
        'a platform that runs › answers health on both listeners, metrics only on the operator’s, the rest by the gateway',
        'stopping › finishes requests in progress while the workers continue, is not ready, and accepts nothing new',
      ),
    },
    {
      rule: 'Settings come from the environment; faults are reported together, unknown names with the nearest known one',
      shownBy: in_.runtimeConfig(
        'all faults are reported together, each with the name of its variable',
        'unknown variables are named with the nearest known one',
      ),
    },
    {
      rule: 'RabbitMQ, Redis and MongoDB are given all or none; some are refused, naming the missing',
      shownBy: in_.runtimeConfig(
        'of the servers of the distributed mode › some without the others are refused, and the missing ones are named',
        'nothing set gives an embedded platform on loopback',
      ),
    },
    {
      rule: 'Accepted calls are emitted once and delivered at least once, over crashes',
      shownBy: in_.crash(
        // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a title
        'accepted calls are emitted once and delivered, over ${CRASHES} crashes (seed ${SEED})',
      ),
    },
  ],
};
