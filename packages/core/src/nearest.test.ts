import { expect, test } from '@jest/globals';
import { nearest } from './nearest.ts';

test.each([
  ['emiter_id', 'emitter_id'],
  ['listner_id', 'listener_id'],
  ['event_naem', 'event_name'],
  ['id', undefined],
  ['description', undefined],
])('%s probably means %s', (name, meant) => {
  expect(nearest(name, ['emitter_id', 'listener_id', 'event_name'])).toBe(meant);
});
