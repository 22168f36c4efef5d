import type { Section } from './row.ts';
import * as in_ from './suites.ts';

export const PROPS: Section = {
  title: 'Props',
  rules: [
    {
      rule: 'Values are converted to the type: string, integer, boolean, object, any, and arrays of them; else a 400',
      shownBy: in_.values(
        'values are converted to the type of the prop › %s: %p',
        'values are converted to the type of the prop › %s: %p is a 400 that names the prop',
      ),
    },
    {
      rule: 'A required prop without value is a 400; an optional one is left out; the default is taken',
      shownBy: in_.values(
        'absent values › a required one is missed, an optional one left out',
        'absent values › the default is taken, converted if it fits the type, else as it is; also in an update',
      ),
    },
    {
      rule: '`min` and `max` hold; values outside of fixed `options` are left free',
      shownBy: in_.values(
        'values are converted to the type of the prop › min and max hold for integers, also in lists; options are left free',
      ),
    },
    {
      rule: 'Options are given as texts or `{label, value}`, or by a method with `page` and `prevContext`, whose context leads to the next page',
      shownBy: [
        ...in_.define('props › options are data, or true when a function gives them'),
        ...in_.configure('options › texts, numbers, labelled values and a context become labels and values'),
        ...in_.configureRoutes('options › begin at page 0 with an empty context'),
      ],
    },
    {
      rule: 'A `propDefinition` takes a prop from an app, with inputs that may depend on earlier values',
      shownBy: [
        ...in_.define(
          'props › a propDefinition gives the attributes, and those beside it win',
          'props › a propDefinition that leads back to itself is refused',
        ),
        ...in_.configure(
          'options › of an app run on its app prop, with the inputs of each propDefinition that leads to them',
        ),
      ],
    },
    {
      rule: '`reloadProps` asks `additionalProps` for further props',
      shownBy: [
        ...in_.configureRoutes('props are asked of the code when a prop that reloads them has a value'),
        ...in_.configure(
          'additionalProps › adds props, and replaces static ones of the same name',
          'additionalProps › sees values of dynamic props, and their defaults in a second round',
        ),
        ...in_.apiComponents(
          'an app that additionalProps adds has its methods and the chosen account, in options and in runs',
        ),
      ],
    },
    {
      rule: 'A `secret` is stored encrypted, shown as `********`, kept when that comes back, and masked in logs and errors',
      shownBy: [
        ...in_.sources('creating a source › stores secrets sealed and shows them never'),
        ...in_.sources(
          'creating a source › stores secrets that are not strings sealed, too, and an update keeps them',
        ),
        ...in_.values('an update › a secret that comes back masked keeps its value'),
        ...in_.runnerSecrets(
          'values of secret props are masked in logs and errors, not in emitted events',
          'texts and numbers in secret lists and objects are masked in logs, and the code gets the values',
        ),
      ],
    },
    {
      rule: 'A timer is given as `{intervalSeconds}`, `{interval_seconds}` or `{cron}`, with `timezone`; without value it ticks hourly',
      shownBy: [
        ...in_.define(
          'props › a schedule among the attributes of a timer is its default: %j',
          'props › a static value of a timer wins over a schedule among its attributes',
        ),
        ...in_.times(
          'schedule › is read from either spelling of an interval, and from what the API returns',
          'schedule › knows %s',
          'schedule › %j is a 400 that names the prop',
          'schedule › a cron follows its time zone over a change of its clocks',
        ),
        ...in_.values('absent values › a timer ticks every hour, or as its default or static says'),
      ],
    },
    {
      rule: 'Timers are shown as `{cron, interval_seconds}`, HTTP interfaces as `{endpoint_url}`',
      shownBy: in_.values('presented values hide secrets and tell schedules and endpoints'),
    },
    {
      rule: 'An update merges values by name; null unsets; what has no prop is dropped',
      shownBy: in_.values(
        'an update › merges by name, null unsets',
        'absent values › interfaces, the database and alerts take no value; unknown names are dropped',
      ),
    },
    {
      rule: 'An app prop has the credentials of its account as `$auth`, and the methods of the app',
      shownBy: [
        ...in_.propTypes('an app prop has the credentials of its account, a copy for each run'),
        ...in_.program('this › has props, app instances and methods, which may be called detached'),
        ...in_.runnerAccounts(
          'accounts reach the code as $auth, each its own, and are masked in logs and errors',
        ),
      ],
    },
    {
      rule: 'An app prop without account deploys; an account that is unknown, of others, of another app or incomplete is a 400',
      shownBy: [
        ...in_.values('absent values › an app without account deploys; of an account, the id is kept'),
        ...in_.accounts(
          'an app prop › refuses accounts that are unknown, of others or of another app; nothing is deployed',
          'an app prop › refuses an account that lacks a field that the app declares',
        ),
      ],
    },
    {
      rule: '`withLabel`, `http_request` and `data_store` props do what they do in the original',
      shownBy: in_.propTypes(
        'values with their labels reach the code as labels and values, in lists too',
        'an http_request prop sends the configured request',
        'a data store keeps values by key in $service.db, apart from other stores',
      ),
    },
  ],
};
