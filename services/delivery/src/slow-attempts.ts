/** An attempt that takes longer than a second, and may be ended so that others get its permit. */
interface SlowAttempt {
  owner: string;
  /** To a webhook whose last attempt succeeded, or a request: ended only when no other of its owner is left. */
  isSpared: boolean;
  end(): void;
}

export interface SlowAttempts {
  /** @returns removes it */
  add(attempt: SlowAttempt): () => void;
  /** Ends the oldest attempt of this owner to a webhook that does not answer, if there is one. */
  endOf(owner: string): void;
  /** Ends the oldest attempt of the owner that has the most, if there is one. */
  endOfMost(): void;
}

export function createSlowAttempts(): SlowAttempts {
  /** By owner; oldest first. */
  const byOwner = new Map<string, Set<SlowAttempt>>();

  function remove(attempt: SlowAttempt): void {
    const ofOwner = byOwner.get(attempt.owner);
    if (ofOwner?.delete(attempt) && ofOwner.size === 0) byOwner.delete(attempt.owner);
  }

  function end(attempt: SlowAttempt | undefined): void {
    if (!attempt) return;
    remove(attempt);
    attempt.end();
  }

  const oldestFailing = (attempts: Iterable<SlowAttempt>) =>
    Iterator.from(attempts).find(({ isSpared }) => !isSpared);

  return {
    add(attempt) {
      const ofOwner = byOwner.get(attempt.owner);
      if (ofOwner) ofOwner.add(attempt);
      else byOwner.set(attempt.owner, new Set([attempt]));
      return () => remove(attempt);
    },
    endOf: (owner) => end(oldestFailing(byOwner.get(owner) ?? [])),
    endOfMost() {
      let most = new Set<SlowAttempt>();
      for (const attempts of byOwner.values()) if (attempts.size > most.size) most = attempts;
      const [oldest] = most;
      end(oldestFailing(most) ?? oldest);
    },
  };
}
