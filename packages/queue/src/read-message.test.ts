import { expect, test } from '@jest/globals';
import type { Job } from './port.ts';
import { readMessage } from './read-message.ts';

const job = (payload: string, rest: Partial<Job> = {}): Job => ({
  ...{ id: 'job_1', key: 'dc_1', payload, attempt: 1, published_at: 0, epoch: 1 },
  ...rest,
});
const TYPES = ['run', 'record'];

test('a message is flagged if its job may have been handled before', () => {
  const message = { v: 1, type: 'run', extra: true };
  const payload = JSON.stringify(message);
  expect(readMessage(job(payload), TYPES)).toEqual(message);
  expect(readMessage(job(payload, { redelivered: true }), TYPES)).toEqual({ ...message, redelivered: true });
});

test.each(['', '{"v":1', 'null', '1', '[]', '{}', '{"v":0,"type":"run"}', '{"v":1,"type":"walk"}'])(
  'the payload %j is a dead letter, and no other job of its batch is to blame',
  (payload) => {
    const poison = expect.objectContaining({ name: 'PoisonJob', jobId: 'job_1' });
    expect(() => readMessage(job(payload), TYPES)).toThrow(poison);
  },
);

test('a message of a newer version waits for a process that knows it', () => {
  const newer = expect.objectContaining({ name: 'NewerVersion', jobId: 'job_1' });
  expect(() => readMessage(job('{"v":2,"type":"walk"}'), TYPES)).toThrow(newer);
});
