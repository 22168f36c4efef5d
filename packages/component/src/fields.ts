export type Fields = Record<string, unknown>;

/** An object or a list. */
export const isObject = (value: unknown): value is Fields => typeof value === 'object' && value !== null;

/** An object that is not a list. */
export const isFields = (value: unknown): value is Fields => isObject(value) && !Array.isArray(value);
