export type ServerName = 'rabbitmq' | 'redis' | 'mongodb' | 's3';

/** A real server that a suite starts, on a free port of 127.0.0.1 and in a separate directory. */
export interface TestServer {
  name: 'RabbitMQ' | 'Redis' | 'MongoDB' | 'S3';
  /** Unchanged by `kill` and `start`. */
  url: string;
  /** SIGKILL to the server and its descendants; its data stay on disk. */
  kill(): Promise<void>;
  /** Restarts it after `kill` on the same port and data, and waits until it answers. */
  start(): Promise<void>;
  /** SIGSTOP: it keeps its connections and answers nothing. */
  freeze(): Promise<void>;
  /** SIGCONT after `freeze`. */
  resume(): void;
  /** Stops it and removes its data. */
  dispose(): Promise<void>;
}
