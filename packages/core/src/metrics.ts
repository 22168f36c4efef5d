export type Labels = Record<string, string>;

/** Metrics as the services see them; runtime/metrics exposes them to Prometheus. Names start with `wellspring_`. */
export interface Metrics {
  counter(
    name: string,
    help: string,
    labels?: readonly string[],
  ): { inc(labels?: Labels, by?: number): void };
  /** `read` is called for each scrape. `labels` tell the series of one gauge apart: the same names in each of them. */
  gauge(name: string, help: string, read: () => number | Promise<number>, labels?: Labels): void;
  /** Seconds. */
  histogram(
    name: string,
    help: string,
    labels?: readonly string[],
  ): { observe(seconds: number, labels?: Labels): void };
}

export const noMetrics: Metrics = {
  counter: () => ({ inc() {} }),
  gauge() {},
  histogram: () => ({ observe() {} }),
};
