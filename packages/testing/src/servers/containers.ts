import { existsSync } from 'node:fs';
import type { ServerName } from './server.ts';

interface Image {
  image: string;
  port: number;
  url(address: string): string;
}

const IMAGES: Record<ServerName, Image> = {
  rabbitmq: { image: 'rabbitmq:3.13-alpine', port: 5672, url: (address) => `amqp://guest:guest@${address}` },
  redis: { image: 'redis:7-alpine', port: 6379, url: (address) => `redis://${address}` },
  s3: { image: 'motoserver/moto:5.2.5', port: 5000, url: (address) => `http://test:test@${address}/test` },
  mongodb: { image: 'mongo:7', port: 27017, url: (address) => `mongodb://${address}/?directConnection=true` },
};

export interface Container {
  url: string;
  stop(): Promise<void>;
}

/**
 * Starts the server in a container, which ends with this process at the latest.
 * @returns undefined if no Docker engine answers
 * @throws Error if the container does not start
 */
export async function startContainer(name: ServerName): Promise<Container | undefined> {
  // Asking without any socket would take seconds.
  if (!process.env.DOCKER_HOST && !existsSync('/var/run/docker.sock')) return undefined;
  const { GenericContainer, Wait, getContainerRuntimeClient } = await import('testcontainers');
  if (!(await getContainerRuntimeClient().catch(() => undefined))) return undefined;
  const { image, port, url } = IMAGES[name];
  const container = await new GenericContainer(image)
    .withExposedPorts(port)
    .withWaitStrategy(Wait.forListeningPorts())
    .start();
  return {
    url: url(`${container.getHost()}:${container.getMappedPort(port)}`),
    async stop() {
      await container.stop();
    },
  };
}
