import { afterAll, afterEach, beforeAll } from '@jest/globals';
import type { HttpReply, HttpRequestRecord, RunJob } from '@wellspring/contract/messages';
import { eventually } from '@wellspring/testing/eventually';
import { type CallOptions, type Platform, startGateway } from './platform.fixture.ts';

/** The gateway of the file, with a runner that records its jobs. */

export let platform: Platform;
/** Jobs in the order in which the runner of this test got them. */
export const jobs: RunJob[] = [];
let reply: ((job: RunJob) => HttpReply) | undefined;

/** Sets the answer of the runner for this test. */
export function replyWith(next: (job: RunJob) => HttpReply): void {
  reply = next;
}

beforeAll(async () => {
  platform = await startGateway({
    config: { trustProxy: ['127.0.0.1/32', '10.0.0.0/8'], endpointDomain: 'hooks.example.com' },
    others: {
      runner: ({ queue, call }) => ({
        name: 'runner',
        workers: [
          {
            name: 'runs',
            run: (signal) =>
              queue.consume(
                'runs',
                async ([job]) => {
                  const message = JSON.parse(job.payload) as RunJob;
                  jobs.push(message);
                  if (message.reply_to && reply) call.reply(message.reply_to, reply(message));
                },
                { signal },
              ),
          },
        ],
      }),
    },
  });
});
afterAll(() => platform.stop());
afterEach(() => {
  jobs.length = 0;
  reply = undefined;
});

/** Calls a new endpoint; gives the answer and what the runner was told. */
export async function received(path = '', method = 'POST', options: CallOptions = {}) {
  const endpoint = await platform.endpoint();
  const answer = await platform.call(method, `/e/${endpoint.id}${path}`, options);
  await eventually(() => jobs.length > 0);
  const job = jobs[0]!;
  const { request } = job.trigger as { request: HttpRequestRecord };
  return { endpoint, answer, job, request };
}
