const [LF, CR, ZERO, TWO] = Buffer.from('\n\r02');
/** Beginning of the status line of an informational response. */
const INFORMATIONAL = Buffer.from('HTTP/1.1 1');
const STATUS_END = INFORMATIONAL.length + 2;

/**
 * The HTTP client refuses a status 100 that it did not ask for, which servers may send nevertheless (RFC 9110 §15.2). It
 * ignores a 102: this changes one into the other, in place.
 */
export function acceptContinue() {
  /** Bytes of the status line that were read; -1: the response is not informational, and none follows. */
  let at = 0;
  let isZero = false;
  let isLineEmpty = false;
  const begin = () => {
    [at, isLineEmpty] = [0, false];
  };
  return {
    /** An answer begins. */
    begin,
    /** Takes the next piece of the answer. */
    read(piece: Buffer): void {
      for (let i = 0; i < piece.length && at >= 0; i++) {
        const byte = piece[i];
        if (at < INFORMATIONAL.length) {
          at = byte === INFORMATIONAL[at] ? at + 1 : -1;
        } else if (at < STATUS_END) {
          at += 1;
          if (at === STATUS_END && isZero && byte === ZERO) piece[i] = TWO!;
          isZero = byte === ZERO;
        } else if (byte !== LF) {
          if (byte !== CR) isLineEmpty = false;
        } else if (isLineEmpty) {
          begin();
        } else {
          isLineEmpty = true;
        }
      }
    },
  };
}
