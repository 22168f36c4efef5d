import {
  createServer,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type RequestListener,
  request,
} from 'node:http';
import type { AddressInfo } from 'node:net';

export interface HttpServer extends AsyncDisposable {
  port: number;
  /** `http://127.0.0.1:<port>`, without trailing slash. */
  url: string;
  /** Cuts every connection. */
  close(): Promise<void>;
}

/** An HTTP server on 127.0.0.1. @param port 0: a free one */
export async function startHttpServer(listener: RequestListener, port = 0): Promise<HttpServer> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const { port: actual } = server.address() as AddressInfo;
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { port: actual, url: `http://127.0.0.1:${actual}`, close, [Symbol.asyncDispose]: close };
}

export interface Response {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: any response
  json: any;
}

export interface RequestOptions {
  headers?: OutgoingHttpHeaders;
  /** An object is sent as JSON. */
  body?: string | Buffer | object;
}

/** One request to 127.0.0.1 on a new connection, with exactly the given headers. */
export function send(
  port: number,
  method: string,
  path: string,
  { headers = {}, body }: RequestOptions = {},
): Promise<Response> {
  const isObject = typeof body === 'object' && !Buffer.isBuffer(body);
  const bytes = isObject ? JSON.stringify(body) : body;
  return new Promise((resolve, reject) => {
    const req = request({
      port,
      method,
      path,
      agent: false,
      headers: {
        ...(isObject && { 'content-type': 'application/json' }),
        ...(bytes !== undefined &&
          !('transfer-encoding' in headers) && { 'content-length': Buffer.byteLength(bytes) }),
        ...headers,
      },
    });
    req.on('error', reject);
    req.on('response', async (res) => {
      const received = Buffer.concat(await res.toArray());
      const text = received.toString();
      const isJson = /^application\/json/.test(res.headers['content-type'] ?? '') && text !== '';
      resolve({
        status: res.statusCode!,
        headers: res.headers,
        body: received,
        text,
        json: isJson ? JSON.parse(text) : undefined,
      });
    });
    req.end(bytes);
  });
}
