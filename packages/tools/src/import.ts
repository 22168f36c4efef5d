import { setTimeout as delay } from 'node:timers/promises';
import { ApiError } from '@wellspring/client/api-error';
import type { OperatorClient } from '@wellspring/client/client';
import { contentHash } from '@wellspring/component/modules/content-hash';
import { codeOfFolder } from '@wellspring/component/modules/folder-code';
import { Problem } from '@wellspring/core/problem';
import { type ComponentFolder, openComponentFolder } from './component-folder.ts';

/** Publishing the components of a folder in the registry. */
export interface ImportOptions {
  folder: string;
  operator: Pick<OperatorClient, 'operatorPublish' | 'operatorListRegistry'>;
  progress: Progress;
  /** Components published at a time. */
  concurrency?: number;
}

export interface Progress {
  start(total: number): void;
  step(path: string): void;
  stop(): void;
}

export interface ImportReport {
  published: string[];
  /** The same code is in the registry. */
  unchanged: string[];
  /** Paths by the reason of the refusal. */
  refused: Map<string, string[]>;
}

const CONCURRENCY = 8;
const MAX_RETRIES = 8;
const RETRY_MS = 2000;

/**
 * Publishes every component of a folder that is not yet in the registry. A refused component does not end the import; an
 * unreachable platform does.
 * @throws Error if the folder cannot be read, or the operator API does not answer or refuses the key
 */
export async function importFolder(options: ImportOptions): Promise<ImportReport> {
  const { operator, progress, concurrency = CONCURRENCY } = options;
  const folder = await openComponentFolder(options.folder);
  const known = await publishedHashes(operator);
  const report: ImportReport = { published: [], unchanged: [], refused: new Map() };
  const queue = folder.paths.values();
  progress.start(folder.paths.length);
  try {
    await Promise.all(
      Array.from({ length: concurrency }, async () => {
        for (const path of queue) {
          const outcome = await publish(path, folder, known, operator);
          if (outcome === 'published' || outcome === 'unchanged') report[outcome].push(path);
          else report.refused.set(outcome.reason, [...(report.refused.get(outcome.reason) ?? []), path]);
          progress.step(path);
        }
      }),
    );
  } finally {
    progress.stop();
  }
  return report;
}

const publishedHashes = async (operator: ImportOptions['operator']) =>
  new Set((await operator.operatorListRegistry()).map(({ content_hash }) => content_hash));

async function publish(
  path: string,
  folder: ComponentFolder,
  known: ReadonlySet<string>,
  operator: ImportOptions['operator'],
): Promise<'published' | 'unchanged' | { reason: string }> {
  const component = await folder.read(path);
  let hash: string;
  try {
    hash = await contentHash(codeOfFolder(component));
  } catch (error) {
    if (error instanceof Problem) return { reason: error.message };
    throw error;
  }
  if (known.has(hash)) return 'unchanged';
  for (let attempt = 1; ; attempt += 1) {
    try {
      await operator.operatorPublish({ ...component, include: 'id' });
      return 'published';
    } catch (error) {
      const status = error instanceof ApiError ? error.status : undefined;
      // It was published, but the answer was lost.
      if (status === 409 && attempt > 1 && (await publishedHashes(operator)).has(hash)) return 'published';
      // Overloaded, restarting, or the connection was lost.
      const isTemporary = status === undefined || status === 429 || status === 503;
      if (status === 401 || (isTemporary && attempt > MAX_RETRIES)) throw error;
      if (!isTemporary) return { reason: (error as Error).message };
      await delay(attempt * RETRY_MS);
    }
  }
}

/** The report as text: counts, then the refused components by reason, the most frequent first. */
export function describeReport({ published, unchanged, refused }: ImportReport): string {
  const groups = [...refused].sort(([, a], [, b]) => b.length - a.length);
  const count = groups.reduce((sum, [, paths]) => sum + paths.length, 0);
  const lines = [`${published.length} published, ${unchanged.length} unchanged, ${count} refused`];
  for (const [reason, paths] of groups) {
    lines.push('', `${reason} (${paths.length})`);
    for (const path of paths.toSorted()) lines.push(`  ${path}`);
  }
  return lines.join('\n');
}
