import type { Section } from './row.ts';
import * as in_ from './suites.ts';

export const GENERAL: Section = {
  title: 'Requests and answers',
  rules: [
    {
      rule: 'Paths of the API begin with `/v1`, those of the operator API with `/admin/v1` on a listener of its own; streams answer without `/v1` too',
      shownBy: [
        ...in_.publicApi('without a valid key › %s of the operator is 401, and not there for the public'),
        ...in_.apiEvents(
          'an event has its fields, cut over 1 KB unless expand=event, in lists, by id and on the stream',
        ),
      ],
    },
    {
      rule: 'Every declared path is found, also with a trailing slash; literal segments go before parameters',
      shownBy: in_.routeTable(
        'every declared endpoint is found under its method and path, with a slash at the end too',
        'literal segments go before parameters',
      ),
    },
    {
      rule: 'Ids have the prefix of their kind and sort by age',
      shownBy: in_.texts(
        'ids › sort by age as texts, even if the clock is set back, and are unique',
        'ids › of runs sort by age too, and differ from those that another process makes with the same time and counter',
        'ids › isId refuses other prefixes and malformed ids',
      ),
    },
    {
      rule: 'One resource is `{data}`, a list `{data: []}`, a page `{page_info, data: []}`',
      shownBy: [
        ...in_.apiOwners('lists have pages of 10 unless limit says 1 to 100, and cursors in both directions'),
        ...in_.apiEvents(
          'a subscription has its fields, and is made, listed and removed by triple and by id',
        ),
      ],
    },
    {
      rule: 'A cursor is the id of an item, which may have been deleted; padding is accepted; a malformed one is a 400',
      shownBy: [
        ...in_.texts(
          'cursor › gives back the id, with padding too',
          'cursor › a malformed cursor is a 400 that names the parameter',
        ),
        ...in_.operator('users › are listed newest first, page by page, with cursors both ways'),
      ],
    },
    {
      rule: '`include` and `exclude` select fields of each item, from the query or the body',
      shownBy: in_.bind(
        'an answer › keeps with ?%s only those fields',
        'an answer › selects fields of each item, never of page_info, also as the body asks',
      ),
    },
    {
      rule: 'Parameters of a POST, PUT or DELETE come from the query or the JSON body; the query wins',
      shownBy: in_.input('input › of a query is converted, of a body it is not; the query wins'),
    },
    {
      rule: 'Unknown fields and parameters are ignored, and named in the header `x-wellspring-ignored`',
      shownBy: in_.input(
        'input › that the endpoint does not have is named in a header, also if it is hostile',
      ),
    },
    {
      rule: 'A body needs a JSON content type (415), has to be JSON (400) and within the limit (413)',
      shownBy: in_.input(
        'input › of type "%s" is %i',
        'input › that is %s is 400',
        'input › over the limit is 413, and the connection goes on',
      ),
    },
    {
      rule: 'Missing and wrong values are a 400 that names the field',
      shownBy: in_.validate(
        'a query › limit=%j is a 400',
        'a body › %s = %j is a 400 that names it: values are not converted',
        'a body › a missing field is named',
      ),
    },
    {
      rule: 'Unknown paths are 404, other methods of known ones 405 with `Allow`',
      shownBy: in_.publicApi(
        'with a key › the unknown path %s is 404',
        'with a key › %s %s is 405 and tells %s',
      ),
    },
    {
      rule: 'A fault of the platform is a 500 with nothing but the id of the request',
      shownBy: in_.bind('a failure › that is internal shows only the id of the request in the log'),
    },
    {
      rule: 'Generated requests, valid and invalid, are answered with a documented status and shape, never with a 5xx',
      shownBy: in_.apiProperties('generated requests to the %s API › %s answers as documented'),
    },
    {
      rule: 'Every answer has a new `x-request-id`, which errors repeat',
      shownBy: in_.publicApi('every response has a new request id, never that of the client'),
    },
    {
      rule: 'An `Idempotency-Key` makes a repeated call answer as the first; with other content it is a 409',
      shownBy: in_.idempotency(
        'a repeated call gets the response of the first, and is not executed',
        'the key with %s is 409',
        'the key of another user is another key',
        'of concurrent calls one is executed, and the others wait for it',
        'an answer that is no success › of %i is not kept',
      ),
    },
    {
      rule: 'Pages of listed origins may call the API with a key; off by default',
      shownBy: in_.cors(
        'a page of a listed origin may call the API with a key and read its headers',
        'without origins in the configuration, no page is allowed',
      ),
    },
    {
      rule: 'The OpenAPI document and `/docs` need no key; a browser is led to `/docs`',
      shownBy: in_.publicApi(
        'documents › are there without a key, and list every public endpoint',
        'documents › are the page to which the root redirects a browser',
        'documents › are shown on a page that loads nothing from elsewhere',
      ),
    },
  ],
};

export const AUTHENTICATION: Section = {
  title: 'Authentication and access',
  rules: [
    {
      rule: 'Every endpoint needs `Authorization: Bearer <key>`; without a valid key it is a 401 with `WWW-Authenticate`',
      shownBy: in_.publicApi(
        'without a valid key › %s is 401',
        'without a valid key › headers of any other form are refused',
      ),
    },
    {
      rule: 'A revoked key is refused at once, and its streams end',
      shownBy: [
        ...in_.publicApi('with a key › that was revoked, requests are refused at once'),
        ...in_.follow('a stream › ends without access, and when the reader takes no more'),
      ],
    },
    {
      rule: 'Operator endpoints refuse keys of users',
      shownBy: [
        ...in_.publicApi('without a valid key › %s of the operator is 401, and not there for the public'),
        ...in_.bind('operator endpoints refuse every caller but the operator'),
      ],
    },
    {
      rule: 'What belongs to others is a 404; an explicit `org_id` of others is a 403, their lists are a 404',
      shownBy: [
        ...in_.apiOwners(
          'an organization lists what belongs to it, to its members; org_id says where something is created',
        ),
        ...in_.sources('sources of other tenants return 404'),
        ...in_.components('ids › of one’s own and of one’s organizations are found, others look unknown'),
        ...in_.webhooks(
          'a webhook › of another tenant returns 404; one of an organization is open to its members',
        ),
        ...in_.subscriptions('lists and deletions › a subscription of another tenant cannot be deleted'),
        ...in_.accounts('an account › belongs to its owner: for others it is unknown'),
        ...in_.runs('unknown runs and runs of others are 404'),
        ...in_.deliveries('deliveries of others, and requests of workflows, are not found'),
      ],
    },
    {
      rule: 'Members see resources of their organization without `org_id`, and no longer once they left',
      shownBy: [
        ...in_.operator('organizations › have members, who see them at once and no longer once they left'),
        ...in_.apiOwners(
          'an organization lists what belongs to it, to its members; org_id says where something is created',
        ),
      ],
    },
    {
      rule: 'Secrets and keys are stored encrypted or as hashes, under a root key that can be rotated',
      shownBy: [
        ...in_.operator('users › are made with a key that works and is shown once'),
        ...in_.sources('creating a source › stores secrets sealed and shows them never'),
        ...in_.seal('a rotated key opens old texts and seals no new ones'),
        ...in_.rootKey(
          'a key is rotated in steps; until its end each of the two alone is refused, afterwards the old one',
        ),
      ],
    },
  ],
};
