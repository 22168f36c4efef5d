import { maxOpenFiles, reduceTotals } from './descriptors.ts';
import { EGRESS_LIMITS } from './limits.ts';
import { createRelay, type Order, type Relay, type RelayConfig, type Report } from './relay.ts';
import { createLineReader } from './wire.ts';

/**
 * Program of the relay process. Reads the configuration and then orders from standard input, writes reports to standard
 * output, as lines of JSON. Ends with the runner.
 */

const MAX_ORDER_BYTES = 1024 * 1024;

const report = (one: Report) => void process.stdout.write(`${JSON.stringify(one)}\n`);

/** Limits that the descriptors of this process allow. */
function withinDescriptors(config: RelayConfig): RelayConfig {
  const openFiles = maxOpenFiles();
  const limits = { ...EGRESS_LIMITS, ...config.limits };
  const few = openFiles === undefined ? undefined : reduceTotals(limits, openFiles);
  if (few === undefined) return config;
  report({ type: 'descriptors', few });
  const { openFiles: _, ...totals } = few;
  return { ...config, limits: { ...limits, ...totals } };
}

let relay: Relay | undefined;
const read = createLineReader(MAX_ORDER_BYTES, (line) => {
  if (relay) {
    relay.order(JSON.parse(line) as Order);
    return;
  }
  relay = createRelay(withinDescriptors(JSON.parse(line) as RelayConfig), report);
});

// Sandboxes run as different users; the permissions of a socket's directory decide who may connect.
process.umask(0);
process.stdin.on('data', read);
process.stdin.on('end', () => process.exit(0));
process.stdin.on('error', () => process.exit(0));
process.stdout.on('error', () => process.exit(0));
