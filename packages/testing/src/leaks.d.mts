/** See leaks.mjs, which Jest loads before TypeScript can be read. */
export function watchResources(): (ms?: number) => Promise<string[]>;

export function describeSockets(): string;
