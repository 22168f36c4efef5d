import { withServers } from '@wellspring/testing/servers/servers';
import { queueContract } from './contract.ts';
import { openRabbitSubject } from './rabbitmq.kit.ts';

await withServers(['rabbitmq', 'redis'], ({ rabbitmq, redis }) => {
  queueContract('RabbitMQ', () => openRabbitSubject({ amqp: rabbitmq, redis }));
});
