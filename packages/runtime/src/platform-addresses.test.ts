import { expect, test } from '@jest/globals';
import { readConfig } from './config.ts';
import { platformAddresses } from './platform-addresses.ts';

const addressesOf = (env: Record<string, string>, services: string[] = []) =>
  platformAddresses(readConfig({ env, services, isTerminal: false }));

test('the operator port is a private port in the distributed mode, which has other processes', () => {
  const env = { WELLSPRING_ADMIN_PORT: '4001' };
  expect(addressesOf(env).privatePorts).toBeUndefined();
  const servers = {
    WELLSPRING_AMQP_URL: 'amqp://rabbitmq',
    WELLSPRING_REDIS_URL: 'redis://redis',
    WELLSPRING_MONGODB_URL: 'mongodb://mongodb/wellspring',
    WELLSPRING_SECRET_KEY: Buffer.alloc(32, 1).toString('base64'),
    WELLSPRING_PUBLIC_URL: 'https://events.example.com',
  };
  expect(addressesOf({ ...env, ...servers }, ['runner']).privatePorts).toEqual([4001]);
});
