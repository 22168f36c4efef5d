/** A frame of an event stream; every field only when the frame has it. */
export interface Frame {
  id?: string;
  event?: string;
  data?: string;
  /** Milliseconds to wait before a reconnect. */
  retry?: number;
}

/**
 * Reads an event stream (HTML standard, "server-sent events") piece by piece; a piece may end anywhere. Comments are
 * left out. Gives the frames that a piece completes.
 */
export function createSseParser(): (piece: string) => Frame[] {
  let rest = '';
  let frame: Frame = {};

  function read(line: string): void {
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'data') frame.data = frame.data === undefined ? value : `${frame.data}\n${value}`;
    else if (name === 'id' || name === 'event') frame[name] = value;
    else if (name === 'retry' && /^\d+$/.test(value)) frame.retry = Number(value);
  }

  return (piece) => {
    const frames: Frame[] = [];
    const text = rest + piece;
    let from = 0;
    // A CR at the end of a piece may be the first half of CRLF.
    for (const end of text.matchAll(/\r\n|\n|\r(?!$)/g)) {
      if (end.index > from) read(text.slice(from, end.index));
      else {
        if (Object.keys(frame).length > 0) frames.push(frame);
        frame = {};
      }
      from = end.index + end[0].length;
    }
    rest = text.slice(from);
    return frames;
  };
}
