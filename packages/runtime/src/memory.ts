import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';
import type { ByteBudget } from '@wellspring/core/byte-budget';
import { createMemory, type Memory } from '@wellspring/core/memory';
import type { Metrics } from '@wellspring/core/metrics';
import type { Config } from './config.ts';

const MB = 1024 * 1024;

/** Size of this process' heap: its limit, and at most half of the memory, as the rest is for user code. */
function heapBytes({ memoryMb }: Pick<Config, 'memoryMb'>): number {
  // 0: unknown.
  const available = Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());
  const memory = memoryMb === null ? available : memoryMb * MB;
  return Math.min(getHeapStatistics().heap_size_limit, memory / 2);
}

/** Divides the memory of this process. */
export function openMemory(config: Pick<Config, 'memoryMb'>, metrics: Metrics): Memory {
  const memory = createMemory(heapBytes(config));
  for (const [use, one] of Object.entries(memory) as [string, ByteBudget][]) {
    metrics.gauge('wellspring_memory_used_bytes', 'Bytes in use of a budget', () => one.used, {
      budget: use,
    });
    metrics.gauge('wellspring_memory_limit_bytes', 'Size of a memory budget', () => one.total, {
      budget: use,
    });
  }
  return memory;
}
