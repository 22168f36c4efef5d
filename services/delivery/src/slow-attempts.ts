/** An attempt that takes longer than a second, and may be ended so that others get its permit. */
interface SlowAttempt {
  owner: string;
  /** To a webhook whose last attempt succeeded: ended only when none to another webhook of its owner is left. */
  isToAnswering: boolean;
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
  const failing = new Map<string, Set<SlowAttempt>>();
  const answering = new Map<string, Set<SlowAttempt>>();

  const mapOf = ({ isToAnswering }: SlowAttempt) => (isToAnswering ? answering : failing);

  function remove(attempt: SlowAttempt): void {
    const ofOwner = mapOf(attempt).get(attempt.owner);
    if (ofOwner?.delete(attempt) && ofOwner.size === 0) mapOf(attempt).delete(attempt.owner);
  }

  function end(attempt: SlowAttempt | undefined): void {
    if (!attempt) return;
    remove(attempt);
    attempt.end();
  }

  const oldestOf = (attempts: Map<string, Set<SlowAttempt>>, owner: string) =>
    attempts.get(owner)?.values().next().value;

  function ownerOfMost(): string | undefined {
    let found: string | undefined;
    let most = 0;
    for (const attempts of [failing, answering]) {
      for (const owner of attempts.keys()) {
        const count = (failing.get(owner)?.size ?? 0) + (answering.get(owner)?.size ?? 0);
        if (count > most) [found, most] = [owner, count];
      }
    }
    return found;
  }

  return {
    add(attempt) {
      const ofOwner = mapOf(attempt).get(attempt.owner);
      if (ofOwner) ofOwner.add(attempt);
      else mapOf(attempt).set(attempt.owner, new Set([attempt]));
      return () => remove(attempt);
    },
    endOf: (owner) => end(oldestOf(failing, owner)),
    endOfMost() {
      const owner = ownerOfMost();
      if (owner !== undefined) end(oldestOf(failing, owner) ?? oldestOf(answering, owner));
    },
  };
}
