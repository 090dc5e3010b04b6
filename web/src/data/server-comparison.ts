// A comparison on the server, which compares, lays out, sums up and searches.

import { address, send } from "./client";
import { readColumns } from "./columns";
import type {
  ChangedFunction,
  ComparisonSource,
  DiffFlame,
  DiffRow,
  HeapTypeChange,
  Listed,
  Overview,
} from "./comparison";

/** Which sessions, and what amounts are related to. */
export interface Compare {
  before: string;
  after: string;
  per: string;
}

export function serverComparison(compare: Compare): ComparisonSource {
  const ask = (
    what: string,
    params: Record<string, string | number | undefined>,
    signal?: AbortSignal,
  ) => send(address(`compare/${what}`, { ...compare, ...params }), signal ? { signal } : {});
  const json = async <T>(...args: Parameters<typeof ask>) => (await (await ask(...args)).json()) as T;
  return {
    id: `compare ${JSON.stringify(compare)}`,
    overview: (signal) => json<Overview>("overview", {}, signal),
    flame: async (profiler, query, signal) => {
      const answer = await ask("flame", { ...query, profiler }, signal);
      const { head, column } = readColumns<DiffFlame>(await answer.arrayBuffer());
      const row = column("row") as Uint32Array;
      return {
        ...head,
        size: row.length,
        row,
        rows: column("rows") as Uint32Array,
        left: column("left") as Float32Array,
        width: column("width") as Float32Array,
        node: column("node") as Uint32Array,
        merged: column("merged") as Uint32Array,
        function: column("function") as Uint32Array,
        hit: column("hit") as Uint8Array,
        before_self: column("before_self") as Float64Array,
        after_self: column("after_self") as Float64Array,
        before_total: column("before_total") as Float64Array,
        after_total: column("after_total") as Float64Array,
      };
    },
    children: (profiler, { node, search, rows }, signal) =>
      json<Listed<DiffRow>>("children", { profiler, root: node, search, rows }, signal),
    functions: (profiler, query, signal) =>
      json<Listed<ChangedFunction>>("functions", { ...query, profiler }, signal),
    types: (query, signal) => json<Listed<HeapTypeChange>>("types", { ...query }, signal),
  };
}
