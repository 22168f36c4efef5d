import { ProtocolError } from './protocol.ts';

/** Checks of single fields of a frame. */

export type Fields = Record<string, unknown>;

export const isText = (value: unknown): value is string => typeof value === 'string';
export const nullable = (check: (value: unknown) => boolean) => (value: unknown) =>
  value === null || check(value);
export const isNumber = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value);
export const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean';

/** @throws ProtocolError that names the first bad field */
export function expect(fields: Fields, checks: Record<string, (value: unknown) => boolean>): void {
  for (const name in checks) expectField(name, checks[name]!(fields[name]));
}

/** @throws ProtocolError that names the field */
export function expectField(name: string, isValid: boolean): void {
  if (!isValid) throw new ProtocolError(`a frame with a bad ${name}`);
}
