import { percentile } from '../load.ts';

/** A measured figure and its goal. */
export interface Row {
  what: string;
  measured: number;
  /** At most, or at least with `atLeast`. */
  goal: number;
  atLeast?: boolean;
  unit: string;
  /** The absolute figures. */
  behind: string;
}

export const p50 = (values: readonly number[]): number => percentileOf(values, 50);

export const percentileOf = (values: readonly number[], p: number): number =>
  percentile(
    [...values].sort((a, b) => a - b),
    p,
  );

export const ms = (value: number): string =>
  value < 1 ? `${(value * 1000).toFixed(0)} µs` : `${value.toFixed(1)} ms`;

export function printRows(rows: readonly Row[]): void {
  for (const { what, measured, goal, atLeast, unit, behind } of rows) {
    const passed = atLeast ? measured >= goal : measured <= goal;
    console.log(
      [
        passed ? 'met   ' : 'missed',
        what.padEnd(52),
        `${measured.toFixed(2)}${unit}`.padStart(10),
        `${atLeast ? '≥' : '≤'} ${goal}${unit}`.padStart(10),
        `  ${behind}`,
      ].join(' '),
    );
  }
}
