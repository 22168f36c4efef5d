/** As suites ask for them. */
export type ServerName = 'rabbitmq' | 'redis' | 'mongodb' | 'mongo-java-server' | 's3';

/** A real server that tests start for themselves, on a free port of 127.0.0.1 and in a directory of its own. */
export interface TestServer {
  name: 'RabbitMQ' | 'Redis' | 'MongoDB' | 'mongo-java-server' | 'S3';
  /** Stays the same over `kill` and `start`. */
  url: string;
  /** SIGKILL to the server and all that it forked. What it keeps stays on disk. Resolves when it is gone. */
  kill(): Promise<void>;
  /** Starts it again, on the same port and data, after `kill`. Resolves when it answers. */
  start(): Promise<void>;
  /** Ends it and removes its data. */
  dispose(): Promise<void>;
}
