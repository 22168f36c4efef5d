/** Every `code` of an API error, with its meaning. docs/errors.md lists them. */
export const PROBLEM_CODES = {
  invalid_parameter: 'A parameter has a wrong type or value; `param` names it.',
  missing_parameter: 'A required parameter is missing; `param` names it.',
  malformed_body: 'The body is not valid JSON, or is nested too deeply.',
  invalid_component:
    'The code does not parse, does not define a component, or its packages cannot be installed.',
  hook_failed: 'A deploy, activate or deactivate hook threw; nothing was changed.',
  configuration_failed: 'An options or additionalProps method of the component threw, or took too long.',
  unauthorized: 'The API key is missing, malformed, unknown or revoked.',
  forbidden: 'The caller is not a member of the organization, or is not a user.',
  not_found: 'It does not exist, or belongs to another owner.',
  method_not_allowed: 'The path exists, but not with this method; see the header `Allow`.',
  version_published: 'The version of this component is in the registry already; versions never change.',
  idempotency_key_reused: 'The `Idempotency-Key` was used with another request.',
  orgname_taken: 'Another organization has this name.',
  username_taken: 'Another user has this name.',
  limit_reached: 'The owner has as many of these as it can have.',
  component_in_use: 'Sources or workflows use the component; `sources` and `workflows` list them.',
  source_inactive: 'The source is inactive; enable it first.',
  run_ended: 'The run has ended, and cannot be cancelled.',
  source_busy: 'Another change of the source is in progress; repeat the call.',
  workflow_busy: 'Another change of the workflow is in progress; repeat the call.',
  webhook_inactive: 'The webhook is inactive; enable it first.',
  event_gone: 'The delivery was delivered, and its event no longer exists.',
  payload_too_large: 'The body is larger than allowed.',
  unsupported_media_type: 'The body must be JSON, with `content-type: application/json`, and not compressed.',
  quota_exceeded: 'A daily quota of the owner is used up; `Retry-After` tells when it is renewed.',
  too_many_requests:
    'The rate limit is exceeded, or the user has too many open streams; `Retry-After` tells when to repeat the call.',
  unavailable:
    'A server behind the platform is away, or the memory for API requests is used up; repeat the call after `Retry-After`.',
  internal_error: 'An unexpected failure; the log has the details under the `request_id`.',
} as const;

export type ProblemCode = keyof typeof PROBLEM_CODES;
