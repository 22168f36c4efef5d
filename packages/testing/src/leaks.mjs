import { setTimeout as pause } from 'node:timers/promises';

/** Resources that a test must not leave behind: servers, connections, child processes, watchers, workers. */
const WATCHED = new Set([
  'TCPServerWrap',
  'TCPSocketWrap',
  'PipeWrap',
  'ProcessWrap',
  'FSEventWrap',
  'StatWatcher',
  'MessagePort',
  'HTTPClientRequest',
  'UDPWrap',
]);

function count() {
  const counts = new Map();
  for (const name of process.getActiveResourcesInfo()) {
    if (WATCHED.has(name)) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}

/**
 * Records the resources that keep this process alive. The returned function resolves with those added since that are
 * not released within `ms` milliseconds, e.g. `['TCPServerWrap']`.
 */
export function watchResources() {
  // In a process whose output is a pipe, the first use of each of them opens one, which stays.
  void process.stdout;
  void process.stderr;
  const before = count();
  const added = () =>
    [...count()].flatMap(([name, n]) => Array(Math.max(0, n - (before.get(name) ?? 0))).fill(name));
  return async (ms = 3000) => {
    const end = performance.now() + ms;
    for (let left = added(); ; left = added()) {
      if (left.length === 0 || performance.now() >= end) return left;
      await pause(10);
    }
  };
}

/** The connections of this process, to identify their owner. */
export function describeSockets() {
  const sockets = process
    ._getActiveHandles()
    .filter(({ remotePort }) => remotePort !== undefined)
    .map(({ localPort, remotePort }) => `${localPort} to ${remotePort}`);
  return sockets.length === 0 ? '' : ` (connections: ${sockets.join(', ')})`;
}
