import { describe, expect, test } from '@jest/globals';
import type { Channel, ConsumeMessage } from '@wellspring/amqp/channel';
import { receivedJob, slowJobsByKey } from './received-job.ts';

const OPTIONS = { prefetch: 256, isUnderMemoryPressure: false, admissionSince: () => undefined };
const delivery = { channel: {} as Channel, message: {} as ConsumeMessage };

/** Jobs of so many keys, received `age` ms ago. */
const jobsOf = (keys: number, jobsOfKey: number, age: number) =>
  Array.from({ length: keys * jobsOfKey }, (_, n) => {
    const job = { id: `${n}`, epoch: 1, key: `dc_${n % keys}`, payload: '', publishedAt: 1, bytes: 0 };
    const received = receivedJob({ ...job, seq: undefined, redelivered: undefined }, [delivery]);
    return { ...received, arrivedAt: performance.now() - age };
  });

describe('keys that are too slow for the window of messages', () => {
  test('are those with many jobs after half a second, and those with few that wait for long', () => {
    expect([...slowJobsByKey(jobsOf(4, 32, 600), OPTIONS).keys()]).toHaveLength(4);
    expect([...slowJobsByKey(jobsOf(16, 16, 600), OPTIONS).keys()]).toHaveLength(0);
    expect([...slowJobsByKey(jobsOf(16, 16, 5_100), OPTIONS).keys()]).toHaveLength(16);
  });

  test('do not exist while less than half of the window is used', () => {
    expect([...slowJobsByKey(jobsOf(15, 8, 30_000), OPTIONS).keys()]).toHaveLength(0);
  });
});
