/** Timers for createRunSlots that end when a test tells them to. */
export function createSlotTimers() {
  const timers = new Set<() => void>();
  return {
    later(_ms: number, then: () => void) {
      timers.add(then);
      return () => void timers.delete(then);
    },
    /** Lets the time pass for which the current slots may be held. */
    expire() {
      for (const then of [...timers]) then();
    },
  };
}
