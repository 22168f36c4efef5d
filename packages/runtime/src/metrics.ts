import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Labels, Metrics } from '@wellspring/core/metrics';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

export interface Exposition {
  metrics: Metrics;
  contentType: string;
  /** All metrics in the text format of Prometheus. */
  read(): Promise<string>;
}

/** Seconds: from a warm run to the longest run. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300];

/** Those of prom-client sample the event loop with a timer, which would wake an idle process many times a second. */
const NEVER_MS = 2 ** 31 - 1;

interface Series {
  labels: Labels;
  read: () => number | Promise<number>;
}

/** A metric whose dependency is down must not hide the others. */
const readSeries = async ({ labels, read }: Series): Promise<[Labels, number]> => [
  labels,
  await Promise.resolve()
    .then(read)
    .catch(() => Number.NaN),
];

/** Metrics of this process and of Node.js. Equal names share a metric. */
export function createMetrics(): Exposition {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: NEVER_MS });
  for (const { name } of registry.getMetricsAsArray())
    if (name.startsWith('nodejs_eventloop_lag')) registry.removeSingleMetric(name);
  const turns = monitorEventLoopDelay({ samplePerIteration: true });
  turns.enable();
  const made = new Map<string, unknown>();
  const once = <M>(name: string, make: () => M): M => {
    if (!made.has(name)) made.set(name, make());
    return made.get(name) as M;
  };
  const registers = [registry];
  const metrics: Metrics = {
    counter(name, help, labels = []) {
      const counter = once(name, () => new Counter({ name, help, labelNames: labels, registers }));
      return { inc: (values = {}, by = 1) => counter.inc(values, by) };
    },
    gauge(name, help, read, labels = {}) {
      const series = once(name, () => {
        const all: Series[] = [];
        const labelNames = Object.keys(labels);
        const collect = async function (this: Gauge) {
          for (const [values, value] of await Promise.all(all.map(readSeries))) this.set(values, value);
        };
        new Gauge({ name, help, labelNames, registers, collect });
        return all;
      });
      series.push({ labels, read });
    },
    histogram(name, help, labels = []) {
      const histogram = once(
        name,
        () => new Histogram({ name, help, labelNames: labels, buckets: BUCKETS, registers }),
      );
      return { observe: (seconds, values = {}) => histogram.observe(values, seconds) };
    },
  };
  metrics.gauge(
    'wellspring_event_loop_turn_max_seconds',
    'Longest turn of the event loop since the last reading: all other work waits for it',
    () => {
      const { max } = turns;
      turns.reset();
      return max / 1e9;
    },
  );
  return { metrics, contentType: registry.contentType, read: () => registry.metrics() };
}
