// Two sessions compared: where views of that get their data from, the server or the page itself.
// Amounts are in the unit of the series, related to what `per` says; the first of two is before, the
// second after.

import type { Document } from "./document";
import type { BoxQuery, FlameBoxes, Fn } from "./source";

export type Pair = [number, number];

/** A quantity before and after, and what can be said of the difference. */
export interface Change {
  before: number;
  before_margin: number;
  after: number;
  after_margin: number;
  relative: number | null;
  relative_low: number | null;
  relative_high: number | null;
  chance: number | null;
  significance: "changed" | "within-noise" | "too-few" | "not-comparable";
}

export interface Compared {
  name: string;
  process: string;
  pid: number;
  runtime: string;
  duration_seconds: number;
  start_unix_ms: number;
}

export interface ComparedSeries {
  id: string;
  title: string;
  unit: "nanoseconds" | "bytes" | "count" | "share";
  noun: string;
  more_is_worse: boolean;
  not_comparable: string | null;
  total: Change;
  functions: number;
}

export interface HeapCounts {
  before_count: number;
  after_count: number;
  before_bytes: number;
  after_bytes: number;
}

/** What is said of a comparison first. */
export interface Overview {
  before: Compared;
  after: Compared;
  per: "second" | "run" | "total";
  kinds: string[];
  series: ComparedSeries[];
  heap: { total: HeapCounts; types: number; complete: boolean } | null;
  answer: Document;
  rest: Document;
}

export interface ChangedFunction extends Fn {
  place: string | null;
  self: Change;
  total: Change;
}

/** What is visible of a differential flame graph. */
export interface DiffFlame extends FlameBoxes {
  functions: ChangedFunction[];
  total: Pair;
  whole: Pair;
  before_self: Float64Array;
  after_self: Float64Array;
  before_total: Float64Array;
  after_total: Float64Array;
}

export interface DiffRow {
  node: number;
  function: ChangedFunction;
  own: Pair;
  total: Pair;
  children: number;
  hit: number;
}

export interface HeapTypeChange extends HeapCounts {
  name: string;
  module: string;
}

export interface Listed<Row> {
  count: number;
  rows: Row[];
}

export interface ListQuery {
  search: string;
  sort: string;
  rows: number;
}

/** Where a comparison comes from. */
export interface ComparisonSource {
  /** Names the data, for requests that are kept. */
  readonly id: string;
  overview(signal?: AbortSignal): Promise<Overview>;
  flame(series: string, query: BoxQuery, signal?: AbortSignal): Promise<DiffFlame>;
  children(
    series: string,
    query: { node: number | undefined; search: string; rows: number },
    signal?: AbortSignal,
  ): Promise<Listed<DiffRow>>;
  functions(series: string, query: ListQuery, signal?: AbortSignal): Promise<Listed<ChangedFunction>>;
  types(query: ListQuery, signal?: AbortSignal): Promise<Listed<HeapTypeChange>>;
}
