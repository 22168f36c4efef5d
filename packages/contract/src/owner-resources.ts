import Type from 'typebox';
import { dates, nullable, seconds } from './resource-fields.ts';

/** Users, organizations and what the operator sees. */

export const OrgOfUser = Type.Object({
  id: Type.String(),
  name: Type.String(),
  orgname: Type.String(),
  email: Type.String(),
});

export const Me = Type.Object({
  id: Type.String(),
  username: Type.String(),
  email: Type.String(),
  orgs: Type.Array(OrgOfUser),
  daily_compute_time_quota: Type.Optional(Type.Integer({ description: 'Milliseconds' })),
  daily_compute_time_used: Type.Optional(Type.Integer({ description: 'Milliseconds' })),
  daily_invocations_quota: Type.Optional(Type.Integer()),
  daily_invocations_used: Type.Optional(Type.Integer()),
  billing_period_start_ts: Type.Optional(Type.Integer()),
  billing_period_end_ts: Type.Optional(Type.Integer()),
  billing_period_invocations: Type.Optional(Type.Integer()),
});

export const ApiKey = Type.Object({
  id: Type.String({ description: 'key_…' }),
  name: nullable(Type.String()),
  created_at: seconds('Created'),
  last_used_at: nullable(seconds('Last request with it, to within a minute')),
});

export const ApiKeyWithText = Type.Object({
  ...ApiKey.properties,
  api_key: Type.String({ description: 'Shown only here' }),
});

export const Member = Type.Object({
  id: Type.String({ description: 'u_…' }),
  username: Type.String(),
  email: Type.String(),
});

export const Quotas = Type.Object({
  daily_invocations_quota: Type.Optional(nullable(Type.Integer({ minimum: 0 }))),
  daily_compute_time_quota: Type.Optional(
    nullable(Type.Integer({ minimum: 0, description: 'Milliseconds' })),
  ),
});

export const Plan = Type.Union([Type.Literal('free'), Type.Literal('paid')]);

export const User = Type.Object({
  id: Type.String({ description: 'u_…' }),
  username: Type.String(),
  email: Type.String(),
  plan: Plan,
  quotas: Quotas,
  ...dates,
});

export const UserWithKey = Type.Object({
  ...User.properties,
  api_key: Type.String({ description: 'Shown only here' }),
});

export const Org = Type.Object({
  id: Type.String({ description: 'o_…' }),
  orgname: Type.String(),
  name: Type.String(),
  email: Type.String(),
  code_allow_networks: Type.Array(Type.String(), {
    description:
      'Private networks (CIDRs) that its code may reach, besides those of WELLSPRING_CODE_ALLOW_NETWORKS',
  }),
  ...dates,
});

export const RegistryVersion = Type.Object({
  key: Type.String(),
  version: Type.String(),
  component_id: Type.String(),
  content_hash: Type.String({ description: 'SHA-256 of the code and its modules, hex' }),
  created_at: seconds('Published'),
});

export const DeadLetter = Type.Object({
  id: Type.String(),
  queue: Type.String(),
  key: Type.String(),
  payload: Type.String({ description: 'JSON text of the message' }),
  reason: Type.String(),
  attempts: Type.Integer(),
  died_at: Type.Integer({ description: 'Epoch ms' }),
});
