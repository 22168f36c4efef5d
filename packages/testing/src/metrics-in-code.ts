import { glob, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createMetrics } from '@wellspring/runtime/metrics';

export interface MetricInCode {
  kind: 'counter' | 'gauge' | 'histogram';
  labels: string[];
}

const ROOT = join(import.meta.dirname, '../../..');
/** The start of a call that creates a metric: its kind and its name. */
const MADE = /\b(counter|gauge|histogram)\(\s*'(wellspring_\w+)',/g;

/** The text from `from` to the end of the enclosing call. */
function restOfCall(text: string, from: number): string {
  let open = 1;
  let to = from;
  for (; open > 0 && to < text.length; to++)
    open += '([{'.includes(text[to]!) ? 1 : ')]}'.includes(text[to]!) ? -1 : 0;
  return text.slice(from, to - 1);
}

/** The labels of a call, its last argument: a list of names, or an object for a gauge. */
function labelsOf(rest: string): string[] {
  const [, list, object] = /,\s*(?:\[([^[\]]*)\]|\{([^{}]*)\}),?\s*$/.exec(rest) ?? [];
  if (list !== undefined) return [...list.matchAll(/'(\w+)'/g)].map(([, name]) => name!);
  return (object ?? '').split(',').flatMap((part) => /^\s*(\w+)/.exec(part)?.[1] ?? []);
}

/** The metrics declared in the source code, and those of Node.js. */
export async function metricsInCode(): Promise<Map<string, MetricInCode>> {
  const found = new Map<string, MetricInCode>();
  for await (const path of glob('{packages,services}/*/src/**/*.ts', { cwd: ROOT })) {
    if (/\.(test|fixture)\.ts$|^packages\/testing\//.test(path)) continue;
    const text = await readFile(join(ROOT, path), 'utf8');
    for (const { 0: begun, 1: kind, 2: name, index } of text.matchAll(MADE)) {
      const labels = labelsOf(restOfCall(text, index + begun.length));
      found.set(name!, { kind: kind as MetricInCode['kind'], labels });
    }
  }
  const exposed = await createMetrics().read();
  for (const [, name, kind] of exposed.matchAll(/^# TYPE (\w+) (\w+)/gm)) {
    found.set(name!, { kind: kind as MetricInCode['kind'], labels: [] });
  }
  return found;
}
