/**
 * Settles as `work` does; after `ms` with the result of `onTimeout`, which may throw. The work itself is not stopped.
 */
export async function withTimeout<T, L = undefined>(
  work: Promise<T>,
  ms: number,
  onTimeout?: () => L,
): Promise<T | L | undefined> {
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, ms);
  try {
    return await Promise.race([work, late.promise.then(() => onTimeout?.())]);
  } finally {
    clearTimeout(timer);
  }
}
