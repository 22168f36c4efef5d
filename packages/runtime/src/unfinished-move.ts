import type { CollectionDefinition, Store } from '@wellspring/store/port';

/** Row of the servers that identifies the move to them; see packages/tools/src/move.ts. */
export interface MoveRow {
  id: 'move';
  /** Content of the file MOVING in the data directory. */
  from: string;
  /** Epoch ms; null: in progress. */
  done_at: number | null;
}

export const moves: CollectionDefinition<MoveRow> = { name: 'moves', indexes: [] };

/**
 * A process on servers to which a move is in progress would write rows that the move then keeps instead of the moved ones.
 * @throws Error while a move is in progress, or was interrupted
 */
export async function refuseUnfinishedMove(store: Store): Promise<void> {
  if ((await store.collection(moves).get('move'))?.done_at !== null) return;
  throw new Error(
    'A move to these servers is in progress, or was interrupted. Complete it with "npx -y pnpm@12 move" before starting the platform.',
  );
}
