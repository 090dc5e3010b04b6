// A heap snapshot of a session on the server, which lays out, sums up and searches.

import { address, send } from "./client";
import { readColumns } from "./columns";
import type { Graph } from "./document";

/** A snapshot. */
export interface HeapDescription {
  /** When it was taken, since the start of the recording. */
  seconds: number;
  pause_seconds: number | null;
  complete: boolean;
  note: string;
  /** Whether it is known what retains what. */
  retention: boolean;
  objects: number;
  bytes: number;
  types: number;
  reached_objects: number;
  reached_bytes: number;
}

export interface HeapType {
  id: number;
  name: string;
  short: string;
  module: string;
  objects: number;
  bytes: number;
  retained: number;
}

/** An object, or objects of one type that retain little each. */
export interface HeapRow {
  node: number;
  name: string;
  short: string;
  /** What refers to it; empty if that is not known. */
  by: string;
  objects: number;
  bytes: number;
  retained: number;
  children: number;
}

/** What retains objects. */
export interface HeapPaths {
  name: string;
  examined: number;
  unreached: number;
  ways: number;
  graph: Graph;
}

/** Cells of a treemap, parents before children. */
export interface Treemap {
  total: number;
  whole: number;
  path: { node: number; short: string }[];
  left_out: number;
  types: { name: string; short: string }[];
  size: number;
  x: Float32Array;
  y: Float32Array;
  width: Float32Array;
  height: Float32Array;
  depth: Uint32Array;
  /** How many cells before it the one is that it is in; 0 for none. */
  up: Uint32Array;
  node: Uint32Array;
  objects: Float64Array;
  bytes: Float64Array;
  retained: Float64Array;
  children: Uint32Array;
  type: Uint32Array;
}

/** How a quantity changed over heap snapshots. */
export interface Trend {
  /** First to last. */
  change: number;
  /** Slope of the line through all snapshots. */
  per_second: number;
}

/** A type over all heap snapshots; values are in the order of the snapshots. */
export interface GrowthRow {
  name: string;
  short: string;
  module: string;
  objects: number[];
  bytes: number[];
  objects_trend: Trend;
  bytes_trend: Trend;
  /** Whether it is suspected to leak: `grew`, `likely` or `leaking`. */
  verdict: string | null;
}

/** What grew over the heap snapshots of a session. */
export interface Growth {
  snapshots: { seconds: number; objects: number; bytes: number; complete: boolean }[];
  objects: Trend;
  bytes: Trend;
  count: number;
  rows: GrowthRow[];
}

/** Types that changed over the heap snapshots of a session, those that grew most first. */
export async function heapGrowth(
  session: string,
  query: { search: string; sort: string; rows: number },
  signal?: AbortSignal,
): Promise<Growth> {
  const path = `sessions/${encodeURIComponent(session)}/heap/growth`;
  const response = await send(address(path, query), signal ? { signal } : {});
  return (await response.json()) as Growth;
}

export interface Listed<Row> {
  count: number;
  rows: Row[];
}

type Params = Record<string, string | number | undefined>;

/** A heap snapshot of a session, by its number from 1 on. */
export class HeapSource {
  readonly id: string;

  constructor(
    private readonly session: string,
    private readonly snapshot: number,
  ) {
    this.id = `heap ${session} ${snapshot}`;
  }

  private ask(what: string, params: Params, signal?: AbortSignal): Promise<Response> {
    const path = `sessions/${encodeURIComponent(this.session)}/heap${what}`;
    return send(address(path, { ...params, snapshot: this.snapshot }), signal ? { signal } : {});
  }

  private async json<T>(what: string, params: Params, signal?: AbortSignal): Promise<T> {
    return (await (await this.ask(what, params, signal)).json()) as T;
  }

  describe(signal?: AbortSignal): Promise<HeapDescription> {
    return this.json("", {}, signal);
  }

  types(
    query: { search: string; sort: string; rows: number },
    signal?: AbortSignal,
  ): Promise<Listed<HeapType>> {
    return this.json("/types", query, signal);
  }

  dominated(root: number | undefined, rows: number): Promise<Listed<HeapRow>> {
    return this.json("/dominated", { root, rows });
  }

  paths(of: { type?: number; of?: number }, signal?: AbortSignal): Promise<HeapPaths> {
    return this.json("/paths", { ...of }, signal);
  }

  async treemap(
    query: { root: number | undefined; width: number; height: number },
    signal?: AbortSignal,
  ): Promise<Treemap> {
    const answer = await this.ask("/treemap", query, signal);
    const { head, column } = readColumns<Treemap>(await answer.arrayBuffer());
    const x = column("x") as Float32Array;
    return {
      ...head,
      size: x.length,
      x,
      y: column("y") as Float32Array,
      width: column("width") as Float32Array,
      height: column("height") as Float32Array,
      depth: column("depth") as Uint32Array,
      up: column("up") as Uint32Array,
      node: column("node") as Uint32Array,
      objects: column("objects") as Float64Array,
      bytes: column("bytes") as Float64Array,
      retained: column("retained") as Float64Array,
      children: column("children") as Uint32Array,
      type: column("type") as Uint32Array,
    };
  }
}
