const RESERVED: ReadonlySet<string> = new Set(['$errors', '$logs', '$in']);

/** Whether only the platform puts records on the channel: what code emits there could not be told from them. */
export const isReservedChannel = (name: string): boolean => RESERVED.has(name);
