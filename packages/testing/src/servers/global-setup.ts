import { DAEMON } from './ask-daemon.ts';
import { type ServerDaemon, startServerDaemon } from './start-daemon.ts';

declare global {
  /** Passes the daemon from jest's setup to its teardown. */
  var wellspringDaemon: ServerDaemon | undefined;
}

/** Jest's globalSetup: starts the server daemon; the workers find it by an environment variable. */
export default async function setUp(): Promise<void> {
  globalThis.wellspringDaemon = await startServerDaemon();
  process.env[DAEMON] = globalThis.wellspringDaemon.url;
}
