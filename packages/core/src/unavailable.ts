/** A required server does not answer. Transient: HTTP answers 503, workers retry. */
export class Unavailable extends Error {
  override readonly name: string = 'Unavailable';
}
