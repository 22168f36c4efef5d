import type { IncomingMessage } from 'node:http';

/** The path of a request, without its query. */
export const pathOf = ({ url = '/' }: Pick<IncomingMessage, 'url'>): string => url.split('?', 1)[0]!;
