import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { SERVICES } from '@wellspring/contract/endpoint';
import { parse } from 'yaml';
import { type MetricInCode, metricsInCode } from './metrics-in-code.ts';

/** Checks the dashboard and the alerts against the metrics of the platform. */

const ROOT = join(import.meta.dirname, '../../..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

interface Alert {
  alert: string;
  expr: string;
  labels: { severity: string };
  annotations: { summary: string };
}
interface Panel {
  id: number;
  type: string;
  title: string;
  gridPos: { h: number; w: number; x: number; y: number };
  datasource?: { uid: string };
  targets?: { expr: string; legendFormat: string }[];
}

const alerts: Alert[] = parse(read('deploy/grafana/alerts.yml')).groups[0].rules;
const dashboard: { panels: Panel[]; templating: { list: { name: string }[] } } = JSON.parse(
  read('deploy/grafana/dashboard.json'),
);
const shown = dashboard.panels.filter(({ type }) => type !== 'row');
const queries = [
  ...alerts.map(({ alert, expr }) => [alert, expr] as const),
  ...shown.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => [`panel ${title}`, expr] as const)),
];

/** Labels added by Prometheus or the scrape configuration. */
const COMMON = ['job', 'instance', 'service', 'le'];

let known: Map<string, MetricInCode>;
beforeAll(async () => {
  known = await metricsInCode();
});

/** The metric of a series: a histogram has three series. */
function metricOf(series: string): MetricInCode | undefined {
  if (series === 'up') return { kind: 'gauge', labels: [] };
  const base = series.replace(/_(bucket|sum|count)$/, '');
  const histogram = known.get(base);
  if (base !== series && histogram?.kind === 'histogram') return histogram;
  const metric = known.get(series);
  return metric?.kind === 'histogram' ? undefined : metric;
}

const seriesOf = (expr: string) => [
  ...new Set(expr.match(/\b(wellspring_|process_|nodejs_)\w+|\bup\b/g) ?? []),
];

/** Labels that a query selects or groups by. */
function labelsOf(expr: string): string[] {
  const grouped = [...expr.matchAll(/\b(?:by|on|without) \(([^)]*)\)/g)].flatMap(([, names]) =>
    names!.split(','),
  );
  const matched = [...expr.matchAll(/\{([^}]*)\}/g)].flatMap(([, inner]) =>
    [...inner!.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, name]) => name!),
  );
  return [...new Set([...grouped.map((name) => name.trim()), ...matched])];
}

test('the metrics of the code are found, with their labels', () => {
  expect(known.get('wellspring_api_requests_total')).toEqual({
    kind: 'counter',
    labels: ['operation', 'status'],
  });
  expect(known.get('wellspring_queue_depth')).toEqual({ kind: 'gauge', labels: ['queue'] });
  expect(known.get('wellspring_outbox_oldest_seconds')).toEqual({ kind: 'gauge', labels: [] });
  expect(known.get('wellspring_run_seconds')).toEqual({ kind: 'histogram', labels: [] });
  expect(known.has('wellspring_event_loop_turn_max_seconds')).toBe(true);
});

test.each(queries)('%s queries only existing series and labels', (_name, expr) => {
  const series = seriesOf(expr);
  expect(series.length).toBeGreaterThan(0);
  expect(series.filter((one) => metricOf(one) === undefined)).toEqual([]);
  const labels = new Set([...COMMON, ...series.flatMap((one) => metricOf(one)!.labels)]);
  expect(labelsOf(expr).filter((label) => !labels.has(label))).toEqual([]);
});

test('queries use only the growth of counters', () => {
  for (const [name, expr] of queries) {
    for (const series of seriesOf(expr)) {
      if (!/_(total|bucket|sum|count)$/.test(series)) continue;
      const bare = new RegExp(`(?<!(rate|increase)\\()${series}\\b`).exec(expr)?.[0];
      expect([name, bare]).toEqual([name, undefined]);
    }
  }
});

describe('the alerts', () => {
  test('have unique names, a severity and a summary', () => {
    expect(alerts.length).toBeGreaterThan(10);
    expect(new Set(alerts.map(({ alert }) => alert)).size).toBe(alerts.length);
    for (const { alert, labels, annotations } of alerts) {
      expect(alert).toMatch(/^Wellspring[A-Z]\w+$/);
      expect(['critical', 'warning']).toContain(labels.severity);
      expect(annotations.summary.length).toBeGreaterThan(10);
    }
  });

  test('are explained in docs/operations.md, which explains no others', () => {
    const headings = [...read('docs/operations.md').matchAll(/^### (Wellspring\w+)$/gm)].map(
      ([, name]) => name!,
    );
    expect(headings.sort()).toEqual(alerts.map(({ alert }) => alert).sort());
  });

  test('fire for each service that is missing', () => {
    const { expr } = alerts.find(({ alert }) => alert === 'WellspringServiceMissing')!;
    expect([...expr.matchAll(/service="(\w+)"/g)].map(([, name]) => name)).toEqual(SERVICES);
  });
});

describe('the dashboard', () => {
  test('shows every metric of the platform', () => {
    const queried = new Set(
      shown
        .flatMap(({ targets = [] }) => targets.flatMap(({ expr }) => seriesOf(expr)))
        .map((series) => (known.has(series) ? series : series.replace(/_(bucket|sum|count)$/, ''))),
    );
    const ours = [...known.keys()].filter((name) => name.startsWith('wellspring_'));
    expect(ours.length).toBeGreaterThan(20);
    expect(ours.filter((name) => !queried.has(name))).toEqual([]);
  });

  test('has panels that do not overlap, and read the chosen data source', () => {
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
    const taken = new Set<string>();
    for (const { gridPos, title } of dashboard.panels) {
      expect([title, gridPos.x + gridPos.w <= 24]).toEqual([title, true]);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect([title, taken.has(`${x} ${y}`)]).toEqual([title, false]);
          taken.add(`${x} ${y}`);
        }
      }
    }
    for (const { datasource } of shown) expect(datasource?.uid).toMatch(/^\$\{datasource\}$/);
    const variables = dashboard.templating.list.map(({ name }) => name);
    const used = new Set([...JSON.stringify(shown).matchAll(/\$\{?(\w+)/g)].map(([, name]) => name!));
    expect([...used].filter((name) => ![...variables, '__rate_interval'].includes(name))).toEqual([]);
  });
});
