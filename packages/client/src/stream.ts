import { systemClock } from '@wellspring/core/clock';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { ApiError } from './api-error.ts';

/** The server writes at least every 15 s; a connection silent for longer is lost. */
const SILENCE_TIMEOUT_MS = 45_000;
const RETRY_DELAY_MS = 3000;

export interface StreamOptions {
  url: URL;
  headers: Record<string, string>;
  /** The stream starts after this event; undefined: where the server decides. */
  lastEventId: string | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * Opens a stream of records; resolves when it is open. A lost connection is resumed after the last record, without
 * gap or duplicate. The iteration ends when the signal is aborted or the caller leaves the loop.
 * @throws ApiError when the server refuses, at the beginning or later (the source was deleted, the key revoked)
 */
export async function openStream<T>(options: StreamOptions): Promise<AsyncIterableIterator<T, undefined>> {
  const stop = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal;
  let { lastEventId } = options;
  let retryMs = RETRY_DELAY_MS;

  async function connect(): Promise<Response> {
    const headers = {
      ...options.headers,
      accept: 'text/event-stream',
      ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
    };
    const response = await fetch(options.url, { headers, signal });
    if (!response.ok) throw new ApiError(response, await response.text());
    return response;
  }

  /** Reconnects until the server answers. */
  async function reconnect(): Promise<Response | undefined> {
    while (!signal.aborted) {
      try {
        return await connect();
      } catch (error) {
        if (error instanceof ApiError && error.status < 500 && error.status !== 429) throw error;
        await systemClock.sleep(retryMs, signal);
      }
    }
    return undefined;
  }

  async function* records(first: Response): AsyncGenerator<T, undefined> {
    let response: Response | undefined = first;
    try {
      while (response) {
        const read = createEventReader((ms) => {
          retryMs = ms;
        });
        for await (const piece of piecesOf(response, SILENCE_TIMEOUT_MS)) {
          for (const { id, data } of read(piece)) {
            lastEventId = id ?? lastEventId;
            yield JSON.parse(data) as T;
          }
        }
        await systemClock.sleep(retryMs, signal);
        response = await reconnect();
      }
    } finally {
      stop.abort();
    }
  }

  const iteration = records(await connect());
  const stream: AsyncIterableIterator<T, undefined> = {
    [Symbol.asyncIterator]: () => stream,
    next: () => iteration.next(),
    // A generator that has not started skips its `finally`, and one that waits does not end.
    async return() {
      stop.abort();
      return iteration.return(undefined);
    },
  };
  return stream;
}

/** Gives the events that a piece of the stream completes; a piece may end anywhere. */
export function createEventReader(onRetry: (ms: number) => void): (piece: string) => EventSourceMessage[] {
  const events: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => events.push(event), onRetry });
  return (piece) => {
    parser.feed(piece);
    return events.splice(0);
  };
}

/** The text of a body, until it ends or fails. */
async function* piecesOf(response: Response, silenceMs: number): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const reader = response.body!.getReader();
  const silent = setTimeout(() => reader.cancel().catch(() => {}), silenceMs);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      silent.refresh();
      yield decoder.decode(value, { stream: true });
    }
  } catch {
    // The connection was lost, or ended by the signal: the caller decides what follows.
  } finally {
    clearTimeout(silent);
    reader.cancel().catch(() => {});
  }
}
