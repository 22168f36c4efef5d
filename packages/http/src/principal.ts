import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Principal } from '@wellspring/contract/principal';
import { systemClock } from '@wellspring/core/clock';
import { forbidden, notFound } from '@wellspring/core/problem';

/** Carries the signed principal from the gateway to a service; a client's own header of this name is dropped. */
export const PRINCIPAL_HEADER = 'x-wellspring-principal';

/** Allowed clock difference between machines; also the time for which a leaked signature can be replayed. */
const MAX_AGE_MS = 5 * 60_000;

const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest();

/** @param key the newest of `seal.keysFor('principal')` */
export function signPrincipal(principal: Principal, key: Buffer, now = systemClock.now()): string {
  const text = Buffer.from(JSON.stringify({ principal, at: now })).toString('base64url');
  return `${text}.${hmac(key, text).toString('base64url')}`;
}

/** The principal, if one of the keys signed it within the last five minutes. */
export function verifyPrincipal(
  header: string | string[] | undefined,
  keys: readonly Buffer[],
  now = systemClock.now(),
): Principal | undefined {
  if (typeof header !== 'string') return undefined;
  const [text = '', signature = ''] = header.split('.');
  const given = Buffer.from(signature, 'base64url');
  const signed = keys.some((key) => {
    const expected = hmac(key, text);
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
  if (!signed) return undefined;
  const content = JSON.parse(Buffer.from(text, 'base64url').toString()) as {
    principal: Principal;
    at: number;
  };
  return Math.abs(now - content.at) <= MAX_AGE_MS ? content.principal : undefined;
}

/**
 * The owner of created or listed resources (the named organization, or else the caller), and the acting user.
 * @throws Problem 403 unless the caller is a member of the organization
 */
export function ownerFor(
  principal: Principal,
  orgId: string | null | undefined,
): { owner_id: string; user_id: string } {
  if (principal.kind !== 'user') throw forbidden('Only a user can do this.');
  const { user_id, org_ids } = principal;
  if (orgId === undefined || orgId === null) return { owner_id: user_id, user_id };
  if (!org_ids.includes(orgId)) {
    throw forbidden('You are not a member of the organization that org_id names.', 'org_id');
  }
  return { owner_id: orgId, user_id };
}

/** Whether the principal may access the resources of this user or organization. */
export const canAccess = (principal: Principal, ownerId: string): boolean =>
  principal.kind === 'user' && (ownerId === principal.user_id || principal.org_ids.includes(ownerId));

/** @throws Problem 404 unless the caller is a member of the organization */
export function checkMember(principal: Principal, orgId: string): void {
  if (principal.kind !== 'user' || !principal.org_ids.includes(orgId)) throw notFound('organization', orgId);
}
