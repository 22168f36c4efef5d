import type { ByteBudget } from '@wellspring/core/byte-budget';
import type { Executor } from '@wellspring/sandbox/port';
import type { SourceState } from './source-state.ts';

/** The live states of the sources that this runner owns. */
export interface SourceStates {
  /** A state that stays in memory until it is disposed of. @param deploymentId that of a new state */
  use(sourceId: string, deploymentId: string): UsedState;
  /** The source was deleted. */
  forget(sourceId: string): Promise<void>;
}

export interface UsedState extends Disposable {
  state: SourceState;
  /** Retires the processes of the former deployment. */
  switchTo(deploymentId: string): void;
}

interface Entry {
  state: SourceState;
  deploymentId: string;
  /** Batches and hooks in progress. */
  uses: number;
  /** Gives its memory back; while it is in use, it has taken none. */
  release(): void;
}

/** States that are not in use take memory of the budget: without room, those that were used least recently are dropped. */
export function createSourceStates(
  executor: Pick<Executor, 'retire'>,
  memory: ByteBudget,
  create: (sourceId: string) => SourceState,
): SourceStates {
  const entries = new Map<string, Entry>();
  /** Those not in use, least recently used first. */
  const idle = new Map<string, Entry>();

  function keep(sourceId: string, entry: Entry): void {
    const bytes = entry.state.bytes();
    let release = memory.tryTake(bytes);
    for (const [oldest, { release: giveBack }] of idle) {
      if (release) break;
      giveBack();
      idle.delete(oldest);
      entries.delete(oldest);
      release = memory.tryTake(bytes);
    }
    if (!release) return void entries.delete(sourceId);
    entry.release = release;
    idle.set(sourceId, entry);
  }

  return {
    use(sourceId, deploymentId) {
      const entry = entries.get(sourceId) ?? { state: create(sourceId), deploymentId, uses: 0, release() {} };
      entries.set(sourceId, entry);
      entry.uses += 1;
      if (idle.delete(sourceId)) entry.release();
      return {
        state: entry.state,
        switchTo(next) {
          if (entry.deploymentId === next) return;
          executor.retire(`${sourceId}/${entry.deploymentId}/run`);
          entry.deploymentId = next;
        },
        [Symbol.dispose]() {
          entry.uses -= 1;
          // It may have been forgotten meanwhile.
          if (entry.uses === 0 && entries.get(sourceId) === entry) keep(sourceId, entry);
        },
      };
    },
    async forget(sourceId) {
      const known = entries.get(sourceId);
      entries.delete(sourceId);
      if (idle.delete(sourceId)) known?.release();
      await known?.state.forget();
    },
  };
}
