import type { Channel, ChannelModel } from 'amqplib';

/** Works on a channel that is opened for it. An error of the channel is one of the call that is waiting. */
export async function onOwnChannel<T>(
  model: Pick<ChannelModel, 'createChannel'>,
  work: (channel: Channel) => Promise<T>,
): Promise<T> {
  const channel = await model.createChannel();
  // Without a listener it would end the process.
  channel.on('error', () => {});
  const result = await work(channel);
  await channel.close();
  return result;
}
