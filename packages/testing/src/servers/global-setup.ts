import { KEEPER } from './ask-keeper.ts';
import { type Keeper, startKeeper } from './run-keeper.ts';

declare global {
  /** Of this run: jest's setup and teardown share nothing else. */
  var wellspringKeeper: Keeper | undefined;
}

/** Jest's globalSetup: whatever runs tests finds the keeper of the servers that they share. */
export default async function setUp(): Promise<void> {
  globalThis.wellspringKeeper = await startKeeper();
  process.env[KEEPER] = globalThis.wellspringKeeper.url;
}
