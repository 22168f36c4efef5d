import type { IncomingMessage, ServerResponse } from 'node:http';
import { challengeOf } from '@wellspring/component/hook-event';
import { httpEvent } from '@wellspring/component/http-event';
import { endpointUrl, isEndpointKey, ownHostOf } from '@wellspring/contract/endpoint-url';
import { LIMITS } from '@wellspring/contract/limits';
import type { HttpReply, HttpRequestRecord, RunJob } from '@wellspring/contract/messages';
import { allowedHeaders, type ResponseHeaders } from '@wellspring/contract/response-headers';
import { createHold, type Hold } from '@wellspring/core/byte-budget';
import { newId, newRunId } from '@wellspring/core/ids';
import { spreadOrderingKey } from '@wellspring/core/ordering-key';
import { Problem } from '@wellspring/core/problem';
import { asUnavailable, NotSent, Unavailable } from '@wellspring/core/unavailable';
import { decodeUtf8 } from '@wellspring/core/utf8';
import { onceClosed } from '@wellspring/http/once-closed';
import { BodyTooLarge, ClientLeft, forgetBody, NoRoomForBody, readBody } from '@wellspring/http/read-body';
import type { Deps } from '@wellspring/runtime/deps';
import { createQuotas } from '@wellspring/runtime/quotas';
import type { EndpointRow } from '@wellspring/store/collections/sources';
import { createCallHeaders, hopOf } from './call-headers.ts';
import { createClientIp } from './client-ip.ts';
import { createFindEndpoint } from './find-endpoint.ts';
import { holdReply } from './hold-reply.ts';
import { bodyLimitOf, createMultipart, isMultipart } from './multipart.ts';
import { createRateLimit } from './rate-limit.ts';
import { assertSendable, sandboxed } from './reply-headers.ts';

export type IngestDeps = Pick<
  Deps,
  'store' | 'queue' | 'call' | 'blob' | 'clock' | 'log' | 'config' | 'metrics' | 'memory' | 'seal' | 'buckets'
>;

const METHODS = 'GET,HEAD,PUT,PATCH,POST,DELETE';
/** Of a call besides its body: headers, URL, the record itself. */
const CALL_BYTES = 2 * 1024;
/** Of a call that waits for a custom response: its connection, request and response. */
const WAITING_BYTES = 8 * 1024;
const PATH = /^\/e\/([^/?]*)/;

/** Between two log lines while calls cannot be made durable: the disk may be full. */
const LOG_INTERVAL_MS = 1000;
/** Statuses without a body. */
const BODILESS = new Set([204, 205, 304]);

/**
 * Accepts calls of sources' endpoints: `/e/{key}` with any sub-path, or a separate host below the endpoint domain. A
 * call is accepted once its job is durable, and refused with 503 while too many bytes of calls are not; with a custom
 * response the caller then waits for the run, and for memory for a large reply.
 * @returns false for other requests
 */
export function createIngest(deps: IngestDeps): (req: IncomingMessage, res: ServerResponse) => boolean {
  const { queue, call, clock, log, config, metrics } = deps;
  const findEndpoint = createFindEndpoint(deps);
  const clientIp = createClientIp(config.trustProxy);
  const quotas = createQuotas(deps);
  const headersOf = createCallHeaders(config.publicUrl);
  const readMultipart = createMultipart(deps);
  const limit = createRateLimit('endpoint', config.endpointRate, deps.buckets);
  const accepted = metrics.counter('wellspring_endpoint_calls_total', 'Calls of source endpoints by status', [
    'status',
  ]);
  const seconds = metrics.histogram(
    'wellspring_endpoint_accept_seconds',
    'Time in which calls of source endpoints become durable, once their bodies are there',
  );

  /** Key and rest of the path of a request to an endpoint; its host if that belongs to this endpoint only. */
  function locate(
    req: IncomingMessage,
  ): { key: string; rest: string; ownHost: string | undefined } | undefined {
    const url = req.url ?? '/';
    const own = ownHostOf(config, req.headers.host);
    if (own) return { key: own.key, rest: url, ownHost: own.host };
    const match = PATH.exec(url);
    return match ? { key: match[1]!, rest: url.slice(match[0].length), ownHost: undefined } : undefined;
  }

  function answer(
    res: ServerResponse,
    status: number,
    headers: ResponseHeaders = {},
    body?: Buffer | string,
  ) {
    accepted.inc({ status: String(status) });
    const length = BODILESS.has(status)
      ? {}
      : { 'content-length': body === undefined ? 0 : Buffer.byteLength(body) };
    res.writeHead(status, { 'access-control-allow-origin': '*', ...headers, ...length });
    res.end(body);
  }

  const text = (res: ServerResponse, status: number, body: string, headers = {}) =>
    answer(res, status, { 'content-type': 'text/plain; charset=utf-8', ...headers }, body);

  const unavailable = (res: ServerResponse) => text(res, 503, 'Service Unavailable', { 'retry-after': '1' });

  async function take(
    req: IncomingMessage,
    res: ServerResponse,
    { key, rest, ownHost }: NonNullable<ReturnType<typeof locate>>,
  ): Promise<void> {
    const endpoint = isEndpointKey(key) ? await findEndpoint(key) : undefined;
    if (!endpoint) {
      req.resume();
      return text(res, 404, 'Not Found');
    }
    logAtEnd(req, res, endpoint.source_id);
    if (req.method === 'OPTIONS') {
      req.resume();
      const asked = req.headers['access-control-request-headers'];
      const headers = { 'access-control-allow-methods': METHODS, 'access-control-max-age': '600' };
      return answer(
        res,
        204,
        asked === undefined ? headers : { ...headers, 'access-control-allow-headers': asked },
      );
    }
    await limit(key);
    await quotas.check({ id: endpoint.source_id, owner_id: endpoint.owner_id }, 'HTTP');
    const held = createHold(deps.memory.intake, endpoint.owner_id);
    try {
      await accept(req, res, { key, rest, ownHost, endpoint, held });
    } finally {
      held.release();
    }
  }

  interface Call extends NonNullable<ReturnType<typeof locate>> {
    endpoint: EndpointRow;
    /** Its bytes, until its job is durable; then those of its wait for a custom response. */
    held: Hold;
    /** Removes its files. */
    discard?: () => Promise<void>;
  }

  /**
   * Separate from the wait for the reply, during which the body must not stay in memory.
   * @returns the challenge of a request that runs nothing, but verifies the URL of an app hook
   */
  async function enqueue(
    req: IncomingMessage,
    accepted: Call,
    replyTo: string | undefined,
  ): Promise<{ challenge: string } | undefined> {
    const { endpoint, held } = accepted;
    const waitingBytes = replyTo === undefined ? 0 : WAITING_BYTES;
    if (!held.take(CALL_BYTES + waitingBytes)) {
      req.resume();
      throw new NoRoomForBody();
    }
    const body = await readBody(req, bodyLimitOf(req), held);
    const complete = performance.now();
    const request = await toRecord(req, accepted, body);
    if (endpoint.body_only) {
      request.body_only = true;
      const challenge = challengeOf(httpEvent(request).body);
      if (challenge !== undefined) return { challenge };
    }
    const job: RunJob = {
      v: 1,
      type: 'run',
      run_id: newRunId(),
      source_id: endpoint.source_id,
      trigger: { kind: 'http', request },
      hop: hopOf(req),
      trace_id: newId('req'),
      accepted_at: clock.now(),
    };
    if (replyTo !== undefined) {
      job.reply_to = replyTo;
      if (endpoint.reply_by !== null) job.reply_by = endpoint.reply_by;
    }
    const key = spreadOrderingKey({ id: endpoint.source_id, concurrency: endpoint.concurrency }, calls++);
    await queue.publish('runs', { key, payload: JSON.stringify(job) }).catch(async (error: unknown) => {
      // Clients repeat the call: during a long alarm of the broker, files that no job names would fill the disk.
      if (error instanceof NotSent) await accepted.discard?.();
      throw error;
    });
    forgetBody(req);
    held.release();
    held.count(waitingBytes);
    seconds.observe((performance.now() - complete) / 1000);
    return undefined;
  }

  async function accept(req: IncomingMessage, res: ServerResponse, accepted: Call): Promise<void> {
    const { endpoint } = accepted;
    const replyAddress = endpoint.custom_response ? call.openReplyAddress() : undefined;
    if (replyAddress) onceClosed(res, replyAddress.close);
    try {
      const verified = await enqueue(req, accepted, replyAddress?.address);
      if (verified) return answer(res, 200, { 'content-type': 'application/json' }, JSON.stringify(verified));
      if (!replyAddress) return answer(res, 200);
      const received = (await replyAddress.receive(LIMITS.replyMs)) as HttpReply | undefined;
      accepted.held.release();
      const reply: HttpReply = received ?? { kind: 'none' };
      // Without $.respond, also of a workflow that takes longer.
      if (endpoint.reply_by !== null && reply.kind === 'none') return answer(res, 200);
      await answerWith(res, reply, accepted);
    } finally {
      replyAddress?.close();
    }
  }

  function logAtEnd({ method }: IncomingMessage, res: ServerResponse, source_id: string): void {
    const begun = performance.now();
    res.once('close', () => {
      const duration_ms = Math.round(performance.now() - begun);
      log.debug({ source_id, method, status: res.statusCode, duration_ms }, 'endpoint.called');
    });
  }

  /** @throws NoRoomForBody */
  async function answerWith(res: ServerResponse, reply: HttpReply, { endpoint, ownHost, held }: Call) {
    switch (reply.kind) {
      case 'none':
        text(res, 400, 'No response');
        return;
      case 'failed':
        text(res, 500, 'The run failed');
        return;
      case 'refused':
        text(res, 404, 'Not Found');
        return;
      case 'response': {
        // Informational statuses do not end an exchange, and have no body.
        const isInformational = reply.status < 200;
        const status = isInformational ? 200 : reply.status;
        const body = isInformational || BODILESS.has(status) ? undefined : Buffer.from(reply.body, 'base64');
        const memory = { owner: endpoint.owner_id, replies: deps.memory.replies, waiting: held };
        if (body) await holdReply(res, body.length, memory);
        try {
          const { sent } = allowedHeaders(reply.headers, ownHost);
          assertSendable(sent);
          answer(res, status, ownHost === undefined ? sandboxed(sent) : sent, body);
        } catch (error) {
          log.debug({ error: String(error) }, 'endpoint.bad_reply');
          if (!res.headersSent) text(res, 500, 'The run failed');
        }
      }
    }
  }

  let calls = 0;
  let loggedAt = Number.NEGATIVE_INFINITY;
  async function toRecord(req: IncomingMessage, accepted: Call, body: Buffer): Promise<HttpRequestRecord> {
    const { key, rest, endpoint } = accepted;
    const mark = rest.indexOf('?');
    const path = mark < 0 ? rest : rest.slice(0, mark);
    const client_ip = clientIp(req);
    const headers = headersOf(req, client_ip);
    const record: HttpRequestRecord = {
      method: req.method ?? 'GET',
      path: path.startsWith('/') ? path : `/${path}`,
      query: mark < 0 ? '' : rest.slice(mark + 1),
      headers,
      url: endpointUrl(config, key) + rest,
      client_ip,
    };
    if (body.length === 0) return record;
    if (isMultipart(req)) {
      const found = await readMultipart(endpoint.owner_id, headers, body);
      if (found) record.multipart = found.fields;
      if (found) accepted.discard = found.discard;
    }
    if (body.length > LIMITS.endpointBody) {
      if (record.multipart === undefined) throw new BodyTooLarge();
      return record;
    }
    const utf8 = decodeUtf8(body);
    if (utf8 === undefined) record.base64 = body.toString('base64');
    else record.text = utf8;
    return record;
  }

  return (req, res) => {
    const found = locate(req);
    if (!found) return false;
    take(req, res, found).catch((error: unknown) => {
      if (res.headersSent) return res.destroy();
      if (error instanceof BodyTooLarge) return text(res, 413, 'Payload Too Large');
      if (error instanceof NoRoomForBody) return unavailable(res);
      if (error instanceof Problem) return text(res, error.status, error.message, error.headers);
      if (error instanceof ClientLeft) return;
      const isUnavailable = asUnavailable(error) instanceof Unavailable;
      if (!isUnavailable || performance.now() - loggedAt >= LOG_INTERVAL_MS) {
        loggedAt = performance.now();
        log.error({ error: String(error) }, 'endpoint.failed');
      }
      if (isUnavailable) return unavailable(res);
      text(res, 500, 'Internal Server Error');
    });
    return true;
  };
}
