import type { ChildUsage } from './child-usage.ts';

/** A process is stopped while it is frozen, held, or both. */
export interface ProcessStops {
  /** Until `thaw`. @returns false if the platform must not stop it */
  freeze(): boolean;
  thaw(): void;
  /** Until `letGo`. @returns as `freeze` */
  hold(): boolean;
  letGo(): void;
}

export function createProcessStops({ stop, resume }: ChildUsage): ProcessStops {
  let frozen = false;
  let held = false;
  return {
    freeze() {
      frozen ||= held || stop();
      return frozen;
    },
    thaw() {
      if (frozen && !held) resume();
      frozen = false;
    },
    hold() {
      held ||= frozen || stop();
      return held;
    },
    letGo() {
      if (held && !frozen) resume();
      held = false;
    },
  };
}
