import type { Section } from './row.ts';
import * as in_ from './suites.ts';

const NEEDED = 'readDefinition › only a name is needed; the rest has its defaults';

export const COMPONENTS: Section = {
  title: 'Components and the registry',
  rules: [
    {
      rule: 'Saving needs `component_code` or `component_url`; with both, the code counts and the URL is kept',
      shownBy: in_.components('saving › %s is refused', 'saving › with code given, the URL is only kept'),
    },
    {
      rule: 'The same code of the same owner is the same component',
      shownBy: in_.components(
        'saving › the same code is the same component of its owner, and is evaluated once for everybody',
        'saving › posted many times at once, it is still one component, evaluated once',
      ),
    },
    {
      rule: 'Code that does not parse or define a component is a 400, and is not saved',
      shownBy: [
        ...in_.components(
          'saving › refused code is not saved, and is checked once more when it is posted again',
        ),
        ...in_.hooks('preparing code › %s is a 400 that says why'),
      ],
    },
    {
      rule: 'A saved component is found under its key; the newest post wins; own keys go before the registry',
      shownBy: [
        ...in_.components(
          'keys › the newest post wins, also when it is old code',
          'keys › belong to an owner: oneself, or the organization named',
          'keys › code given to a source takes no key',
        ),
        ...in_.registry('the registry › is searched after the components of the caller'),
      ],
    },
    {
      rule: 'Of several identifiers the first counts: component_id, component_code, key, component_url; none is a 400 that names all',
      shownBy: [
        ...in_.components('resolving › takes component_id before code, code before key, key before URL'),
        ...in_.sources('a source without a component is refused with the four ways to name one'),
      ],
    },
    {
      rule: 'A component of an unknown id or key is a 404',
      shownBy: in_.apiRules('unknown components are a 404, and a stream that cannot begin is a JSON error'),
    },
    {
      rule: 'Code of a URL comes with its relative imports; GitHub pages give the raw file; each redirect is checked',
      shownBy: in_.fetchCode(
        'relative imports come along by their addresses, each fetched once, circles too',
        'GitHub pages give the raw file',
        'each redirect is checked, and so is each name that is looked up',
        'a body over the limit is refused, also when it is compressed',
        'a URL without a listener is a 400 that names component_url',
      ),
    },
    {
      rule: 'The registry needs a key and a semantic version, takes a version once, and finds versions and ranges',
      shownBy: in_.registry(
        'the registry › gives the newest version, or the one that is named, to everybody',
        'the registry › takes a version once, with a key and by the rules',
        'the registry › finds the newest version in a range, own versions before those of the registry',
      ),
    },
    {
      rule: 'An unpublished version leaves the registry; sources that run it keep it',
      shownBy: in_.registry(
        'the registry › unpublished versions are gone from the registry; sources that run them keep them',
      ),
    },
    {
      rule: 'A folder of components is published at once, and what was refused is reported',
      shownBy: in_.importing(
        'a folder is published once; what was refused is reported by its reason',
        'a published version never changes: changed code is refused until it has another version',
      ),
    },
    {
      rule: 'A component that sources use cannot be deleted: 409 with their ids',
      shownBy: in_.ownComponents(
        'while sources use it, it is kept, and they are listed',
        'of an organization, it is kept while a source of another member uses it, which is not named',
      ),
    },
    {
      rule: 'A test run stores and emits nothing, has an empty db, and counts as an invocation',
      shownBy: in_.testRuns(
        'a test run shows what the code emitted, logged and replied; nothing is stored',
        'an error of the code is part of the answer, with secrets masked; emits before it are shown',
        'a test run counts as an invocation, and is refused over the quota',
      ),
    },
  ],
};

export const DEFINITION: Section = {
  title: 'Component definition',
  rules: [
    {
      rule: 'CommonJS, ES modules and TypeScript define a component; errors have the position',
      shownBy: in_.compile(
        'compilation in jail %s › code › %s is compiled to its module format',
        'compilation in jail %s › code › that does not parse is refused with the position',
      ),
    },
    {
      rule: '`name` is needed; `key`, `version`, `description` and the rest are optional',
      shownBy: in_.define(
        NEEDED,
        'readDefinition › refuses %p as a component, and the message names what is missing',
      ),
    },
    { rule: 'A component without `type` is a source', shownBy: in_.define(NEEDED) },
    {
      rule: '`run` is required of an action; a source without it emits its trigger event',
      shownBy: [
        ...in_.define('readDefinition › an action needs run, a source does not'),
        ...in_.emitter('$emit › a component without run emits its trigger event'),
      ],
    },
    {
      rule: 'An action cannot be deployed as a source',
      shownBy: in_.sources(
        'creating a source › refuses actions, unknown components and wrong values before any hook runs',
      ),
    },
    {
      rule: '`hooks` are functions `deploy`, `activate` and `deactivate`',
      shownBy: in_.define('readDefinition › hooks are the known ones that are given'),
    },
    {
      rule: 'Unknown strategies, types and malformed fields are refused',
      shownBy: in_.define('readDefinition › %p is refused'),
    },
    {
      rule: 'Configured values and `methods` are properties of `this`, in hooks too',
      shownBy: in_.program(
        'this › has props, app instances and methods, which may be called detached',
        'hooks have the same this, and what they throw is thrown',
      ),
    },
    {
      rule: 'Packages are imported by name, with an exact version or a range (`~`, `^`), several versions side by side',
      shownBy: [
        ...in_.installed(
          'packages in tier %s › are available in the requested versions, several per package, by import and require',
          'packages in tier %s › of ES modules are required as if they were of CommonJS',
        ),
        ...in_.compile(
          'compilation in jail %s › imports › of packages become aliases of their version; builtins stay',
          'compilation in jail %s › imports › of two versions of one package can be combined',
        ),
      ],
    },
    {
      rule: '`defineComponent`, `defineSource`, `defineAction` and `defineApp` return their argument; TypeScript may have enums',
      shownBy: in_.apiRules(
        'defineComponent, defineSource, defineAction and defineApp return their argument; TypeScript may have enums',
      ),
    },
    {
      rule: 'Code cannot read environment variables of the platform',
      shownBy: [
        ...in_.sandbox('code in tier %s › has an environment that reveals nothing about the host'),
        ...in_.apiRules('the environment of code has few variables, and none of the platform'),
      ],
    },
    {
      rule: 'Code starts no programs, reads no file of the host, and reaches public addresses only',
      shownBy: [
        ...in_.sandbox(
          'code in tier %s › can neither start processes or listeners nor send signals',
          'code in tier %s › reads no file of the host',
          'code in tier %s › can write only to its temporary directory, which no other code sees',
        ),
        ...in_.addresses('code in tier %s › reaches no address that is not public, in any notation'),
      ],
    },
    {
      rule: 'Every example of docs/components.md does what is said',
      shownBy: in_.componentDocs('the example $name › does what is said: $kind $#'),
    },
  ],
};
