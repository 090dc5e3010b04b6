// Weights of samples, for readers.

import { bytes, count, counted, duration } from "../data/format";
import type { Series } from "../data/source";

/** A weight in the unit of its samples. */
export function amount(series: Series, weight: number): string {
  if (series.unit === "nanoseconds") return duration(weight);
  if (series.unit === "bytes") return bytes(Math.round(weight));
  return series.noun === "" ? count(weight) : counted(weight, series.noun);
}

/** A number of samples, or of calls where these are counted. */
export function samples(series: Series, number: number): string {
  return counted(number, series.calls ? "call" : "sample");
}

/** Half the 95 % interval of a share that was estimated from `n` samples (Wilson), the larger side. */
export function margin(share: number, n: number): number {
  if (n <= 0) return 1;
  const z2 = 3.841458820694124;
  const center = (share + z2 / (2 * n)) / (1 + z2 / n);
  const half = Math.sqrt(z2 * ((share * (1 - share)) / n + z2 / (4 * n * n))) / (1 + z2 / n);
  return Math.max(Math.min(1, center + half) - share, share - Math.max(0, center - half));
}

/** ` ± 1.2`, in points; empty where there is no error. */
export function points(series: Series, share: number, effective: number): string {
  return series.exact ? "" : ` ± ${(margin(share, effective) * 100).toFixed(1)}`;
}
