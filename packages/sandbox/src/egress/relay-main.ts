import { createRelay, type Order, type Relay, type RelayConfig } from './relay.ts';
import { createLineReader } from './wire.ts';

/**
 * Program of the relay process. Reads the configuration and then orders from standard input, writes reports to standard
 * output, as lines of JSON. Ends with the runner.
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

// Sandboxes run as different users; the permissions of a socket's directory decide who may connect.
process.umask(0);
process.stdin.on('data', read);
process.stdin.on('end', () => process.exit(0));
process.stdin.on('error', () => process.exit(0));
process.stdout.on('error', () => process.exit(0));
