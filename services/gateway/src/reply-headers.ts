import { validateHeaderName, validateHeaderValue } from 'node:http';
import { LIMITS } from '@wellspring/contract/limits';
import type { ResponseHeaders } from '@wellspring/contract/response-headers';

/**
 * To be called before the head is written: `writeHead` remembers a status without body also when it throws for a header,
 * and the answer that replaces this response would have a length, but no body.
 * @throws Error when the headers of a response are malformed, or too large to be sent
 */
export function assertSendable(headers: ResponseHeaders): void {
  let bytes = 0;
  for (const [name, value] of Object.entries(headers)) {
    validateHeaderName(name);
    for (const one of [value].flat()) {
      validateHeaderValue(name, one);
      bytes += name.length + one.length + 4;
    }
  }
  if (bytes > LIMITS.replyHeaderBytes) {
    throw new RangeError(
      `The headers of the response have ${bytes} bytes, more than ${LIMITS.replyHeaderBytes}.`,
    );
  }
}

/**
 * A page of user code on the origin of the API gets an opaque origin: it may run scripts, but neither access the pages
 * of the documentation, where people type their keys, nor register a service worker for them.
 */
const SANDBOX =
  'sandbox allow-downloads allow-forms allow-modals allow-popups allow-popups-to-escape-sandbox allow-scripts allow-top-navigation';

/** Browsers enforce all policies, so code can only narrow this one. */
export const sandboxed = (headers: ResponseHeaders): ResponseHeaders => ({
  ...headers,
  'content-security-policy': [headers['content-security-policy'] ?? [], SANDBOX].flat(),
});
