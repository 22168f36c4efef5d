import { createRelay, type Order, type Relay, type RelayConfig } from './relay.ts';
import { createLineReader } from './wire.ts';

/**
 * The program of the relay's process: orders of the runner on standard input, reports on standard output, lines of JSON
 * both. The first line is the configuration. It ends with the runner.
 */

const MAX_ORDER_BYTES = 1024 * 1024;

let relay: Relay | undefined;
const read = createLineReader(MAX_ORDER_BYTES, (line) => {
  if (relay) {
    relay.order(JSON.parse(line) as Order);
    return;
  }
  relay = createRelay(JSON.parse(line) as RelayConfig, (report) => {
    process.stdout.write(`${JSON.stringify(report)}\n`);
  });
});

// Every sandbox has a user of its own; who may reach the directory of a socket may connect.
process.umask(0);
process.stdin.on('data', read);
process.stdin.on('end', () => process.exit(0));
process.stdin.on('error', () => process.exit(0));
process.stdout.on('error', () => process.exit(0));
