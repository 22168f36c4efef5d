/**
 * A server that this process depends on does not answer at the moment. Transient: HTTP answers 503, a worker tries
 * again.
 */
export class Unavailable extends Error {
  override readonly name: string = 'Unavailable';
}
