import { EventEmitter } from 'node:events';
import { expect, test } from '@jest/globals';
import type { Channel } from './channel.ts';
import { onOwnChannel } from './own-channel.ts';

test('an error of the channel does not end the process', async () => {
  const channel = new EventEmitter() as Channel;
  channel.close = async () => void channel.emit('error', new Error('The broker closed the channel.'));
  expect(await onOwnChannel({ createChannel: async () => channel }, async () => 'done')).toBe('done');
});
