import type { Section } from './row.ts';
import * as in_ from './suites.ts';

export const WORKFLOWS: Section = {
  title: 'Workflows and actions',
  rules: [
    {
      rule: 'Deploying makes the source that triggers the workflow, unless `source_id` names one',
      shownBy: in_.workflows(
        'a deployed workflow is subscribed to the source that it made',
        'a source of the owner may be the trigger, and stays when the workflow is deleted',
      ),
    },
    {
      rule: 'An update keeps source and endpoint while the trigger is the same; one that fails changes nothing',
      shownBy: in_.workflows(
        'an update › keeps source and endpoint while the trigger is the same',
        'an update › replaces the source of another trigger, after its deactivate hook',
        'an update › that fails changes nothing',
      ),
    },
    {
      rule: 'Runs are serial; steps run one after the other, with the exports of earlier ones in `steps`',
      shownBy: in_.workflowRuns(
        'steps run one after the other with the exports of the earlier ones',
        'runs of a workflow are serial, in the order of arrival, however long their steps take',
      ),
    },
    {
      rule: 'A return value is `$return_value`; `$.export` gives further data, `$summary` a summary',
      shownBy: [
        ...in_.action('the return value and exports are data of the step, except undefined'),
        ...in_.componentDocs('the example $name › does what is said: $kind $#'),
      ],
    },
    {
      rule: '`{{steps.…}}` as the whole value keeps its type, within a text it is interpolated; it is a path, never code',
      shownBy: in_.expressions(
        'an expression that is the whole value keeps its type',
        'within a text it is interpolated',
        'an expression is never run as code › %s is refused',
      ),
    },
    {
      rule: '`$.flow.exit` ends the whole workflow without an error',
      shownBy: [
        ...in_.action('$.flow.exit ends the workflow, also without return'),
        ...in_.workflowRuns('the end of a run › $.flow.exit ends it without an error'),
      ],
    },
    {
      rule: 'A throw ends the run with a record that names the step; effects before it stay',
      shownBy: in_.workflowRuns(
        'the end of a run › a throw ends it, with a record that names the step; effects before it stay',
      ),
    },
    {
      rule: '`$.respond` answers the HTTP call at the end, or at once with `immediate`; its first call counts',
      shownBy: in_.workflowRuns(
        'the reply of an HTTP call › $.respond is sent at the end of the workflow, its first call counts',
        'the reply of an HTTP call › an immediate one does not wait for the later steps',
      ),
    },
    {
      rule: '`$.send.emit` emits to listeners and lists; `$.send.sse` reaches the stream only',
      shownBy: in_.workflowRuns(
        'what a workflow emits reaches the fan-out bare; what it sends to its stream does not',
      ),
    },
    {
      rule: '`$.send.http` makes the request once, without retries; a failure is a record on `$errors`',
      shownBy: in_.sends(
        '$.send.http › makes the request once, however often the commit is published',
        '$.send.http › a failure is not retried, and is a record on $errors of the workflow',
        '$.send.http › sends %s',
      ),
    },
    {
      rule: '`$.send.email` mails the owner; without configuration it is a record on `$errors`',
      shownBy: in_.sends(
        '$.send.email › mails the owner of the workflow, and nobody else',
        '$.send.email › that is refused or not configured is a record on $errors',
      ),
    },
    {
      rule: '`$.send.s3` writes an object; without configuration it is a record on `$errors`',
      shownBy: in_.s3Sends(
        '$.send.s3 › writes objects below the prefix, each under a name of its own',
        '$.send.s3 that is not configured is a record on $errors',
      ),
    },
    {
      rule: 'What the platform does not have, such as suspending, is an error that says so',
      shownBy: in_.action('an unsupported function is an error of the step › %s'),
    },
    {
      rule: 'A run whose commit failed is repeated as a whole, its effects stored once',
      shownBy: in_.workflowRuns(
        'a run that could not be committed is repeated whole, and its effects are stored once',
      ),
    },
    {
      rule: 'A deleted workflow leaves nothing behind',
      shownBy: in_.workflows('a deleted workflow leaves nothing behind'),
    },
  ],
};
