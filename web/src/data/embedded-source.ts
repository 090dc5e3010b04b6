// Samples that are in the page itself: a one-file report has call trees and sums, but no single
// samples.

import { boxesOf } from "./boxes";
import {
  childrenOf,
  complete,
  find,
  foundWeight,
  functionSums,
  invert,
  neighbors,
  type CallTree,
  type Pairs,
  type Shape,
} from "./calltree";
import { NONE } from "./columns";
import { counted } from "./format";
import { matcher } from "./matcher";
import type {
  Child,
  ChildrenQuery,
  Description,
  Flame,
  FlameQuery,
  Fn,
  FunctionRow,
  FunctionsQuery,
  Neighbor,
  Selection,
  Series,
  Source,
  Timeline,
  TimelineQuery,
} from "./source";

/** What crates/report (html.rs) writes. */
export interface EmbeddedSamples {
  description: Description;
  /** Ids in the operating system, by the numbers that cells have. */
  threads: number[];
  functions: {
    name: string[];
    short: string[];
    kind: number[];
    /** Number of the module plus one; 0 for none. */
    module: number[];
  };
  modules: string[];
  files: string[];
  series: EmbeddedSeries[];
  markers: EmbeddedMarkers;
}

interface EmbeddedSeries {
  id: string;
  /** What a weight is in the unit of the samples. */
  scale: number;
  /** Names of states or types. */
  classes: string[];
  shown: boolean[];
  /** Columns of the tree: how many places before a node its parent is, 0 for a root. */
  nodes: { up: number[]; function: number[]; file: number[]; line: number[] };
  /** Columns of sums; each node is given by its distance to the one before. */
  cells: {
    node: number[];
    thread: number[];
    class: number[];
    samples: number[];
    weight: number[];
  };
  /** Threshold as a share, number of nodes, and whether threads were folded. */
  folded: [number, number, boolean] | null;
  timeline: { start: number; width: number; rows: number[][] };
}

interface EmbeddedMarkers {
  kinds: string[];
  time: number[];
  length: number[];
  kind: number[];
  count: number[];
  text: string[];
}

/** A series that is ready to be asked. */
class Samples {
  readonly shape: Shape;
  readonly places: string[];
  readonly node: Uint32Array;
  private known: { key: string; down: CallTree; up: CallTree | undefined } | undefined;

  constructor(
    readonly data: EmbeddedSeries,
    files: string[],
  ) {
    const { up, function: fn, file, line } = data.nodes;
    const size = up.length;
    const numbers = new Map<string, number>();
    const places: string[] = [];
    const parent = new Int32Array(size);
    const place = new Uint32Array(size).fill(NONE);
    for (let node = 0; node < size; node += 1) {
      parent[node] = up[node] === 0 ? -1 : node - up[node]!;
      if (file[node] === 0) continue;
      const text = `${files[file[node]! - 1]}:${line[node]}`;
      let number = numbers.get(text);
      if (number === undefined) {
        number = places.length;
        numbers.set(text, number);
        places.push(text);
      }
      place[node] = number;
    }
    this.shape = { size, parent, fn: Int32Array.from(fn), place };
    this.places = places;
    this.node = new Uint32Array(data.cells.node.length);
    let at = 0;
    data.cells.node.forEach((distance, cell) => {
      at += distance;
      this.node[cell] = at;
    });
  }

  /** The tree of a selection; the latest is kept. */
  tree(selection: Selection, threads: number[]): CallTree {
    const key = `${selection.thread} ${selection.states?.join() ?? "all"}`;
    if (this.known?.key !== key) {
      this.known = { key, down: this.sum(selection, threads), up: undefined };
    }
    if (!selection.callers) return this.known.down;
    this.known.up ??= invert(this.known.down);
    return this.known.up;
  }

  private sum({ thread, states }: Selection, threads: number[]): CallTree {
    const { cells, classes, scale } = this.data;
    const own = new Float64Array(this.shape.size);
    const samples = new Float64Array(this.shape.size);
    const shown = classes.map((_, index) => states?.includes(String(index)) ?? true);
    const wanted = thread === "" ? undefined : threads.indexOf(Number(thread));
    for (let cell = 0; cell < this.node.length; cell += 1) {
      if (wanted !== undefined && cells.thread[cell] !== wanted) continue;
      if (!shown[cells.class[cell]!]) continue;
      own[this.node[cell]!]! += cells.weight[cell]! * scale;
      samples[this.node[cell]!]! += cells.samples[cell]!;
    }
    return complete(this.shape, own, samples);
  }
}

/** Threads with their weights, of what the cells have. */
function describe(data: EmbeddedSamples): Description {
  const weights = new Map<number, Record<string, number>>();
  const series = data.description.series.map((one): Series => {
    const own = data.series.find(({ id }) => id === one.id);
    if (!own) return one;
    const sums = own.classes.map(() => 0);
    own.cells.thread.forEach((thread, cell) => {
      const weight = own.cells.weight[cell]! * own.scale;
      sums[own.cells.class[cell]!]! += weight;
      if (thread < 0) return;
      const of = weights.get(thread) ?? {};
      of[one.id] = (of[one.id] ?? 0) + weight;
      weights.set(thread, of);
    });
    const states = own.classes.map((title, index) => ({
      id: String(index),
      title,
      index,
      weight: sums[index]!,
      shown: own.shown[index] ?? true,
    }));
    return { ...one, states };
  });
  const known = new Map(data.threads.map((id, number) => [id, weights.get(number)]));
  const threads = data.description.threads.map((thread) => ({
    ...thread,
    weights: known.get(thread.id) ?? {},
  }));
  // The page says these itself.
  return { ...data.description, warnings: [], series, threads };
}

class Embedded implements Source {
  readonly id = "page";
  readonly timed = false;
  readonly growing = false;
  private readonly description: Description;
  private readonly samples = new Map<string, Samples>();
  private hits: { search: string; functions: Uint8Array } | undefined;

  constructor(private readonly data: EmbeddedSamples) {
    this.description = describe(data);
  }

  private of(selection: Selection): { samples: Samples; series: Series; tree: CallTree } {
    const series = this.description.series.find(({ id }) => id === selection.profiler)!;
    let samples = this.samples.get(series.id);
    if (!samples) {
      const own = this.data.series.find(({ id }) => id === series.id)!;
      samples = new Samples(own, this.data.files);
      this.samples.set(series.id, samples);
    }
    return { samples, series, tree: samples.tree(selection, this.data.threads) };
  }

  private fn(id: number): Fn {
    const { name, short, kind, module } = this.data.functions;
    return {
      id,
      name: name[id] ?? "(light calls, folded)",
      short: short[id] ?? "(light calls, folded)",
      kind: kind[id] ?? 9,
      module: module[id] ? (this.data.modules[module[id] - 1] ?? null) : null,
    };
  }

  /** What was sampled in code of each kind itself. */
  private kinds(tree: CallTree, callers: boolean): number[] {
    const sums = this.description.kinds.map(() => 0);
    const add = (node: number, weight: number) => {
      const fn = tree.fn[node]!;
      if (fn >= 0) sums[this.data.functions.kind[fn]!]! += weight;
    };
    // In a tree of callers the roots are where the stacks end.
    if (callers) childrenOf(tree, undefined).forEach((node) => add(node, tree.total[node]!));
    else tree.own.forEach((weight, node) => add(node, weight));
    return sums;
  }

  private found(search: string): Uint8Array {
    if (this.hits?.search !== search) {
      const finds = matcher(search);
      const functions = Uint8Array.from(this.data.functions.name, (name) => (finds(name) ? 1 : 0));
      this.hits = { search, functions };
    }
    return this.hits.functions;
  }

  async describe(): Promise<Description> {
    return this.description;
  }

  async flame(query: FlameQuery): Promise<Flame> {
    const { samples, series, tree } = this.of(query.selection);
    const hits = query.search === "" ? undefined : find(tree, this.found(query.search));
    const ownSamples = series.calls && !query.selection.callers;
    const fn = (id: number) => this.fn(id);
    const boxes = boxesOf(tree, { ...query, hits, ownSamples, fn });
    const { root } = boxes;
    const total = root === undefined ? tree.whole : tree.total[root]!;
    const folded = samples.data.folded;
    return {
      ...boxes,
      total,
      samples: root === undefined ? tree.wholeSamples : tree.samples[root]!,
      whole: tree.whole,
      effective: series.samples ? (tree.wholeSamples * series.effective) / series.samples : 0,
      found: hits ? foundWeight(tree, root, hits) / (total || 1) : null,
      kinds: this.kinds(tree, query.selection.callers),
      shortened: tree.shortened,
      folded:
        folded && !query.selection.callers
          ? `${counted(folded[1], "node")} below ${(folded[0] * 100).toPrecision(2)} % folded`
          : "",
      places: samples.places,
      place: boxes.node.map((node) => (node === NONE ? NONE : tree.place[node]!)),
    };
  }

  async functions({ selection, search, sort, rows: most }: FunctionsQuery) {
    const { samples, series, tree } = this.of({ ...selection, callers: false });
    const names = this.data.functions.name;
    const sums = functionSums(tree, names.length);
    const found = search === "" ? undefined : this.found(search);
    const ids = names
      .map((_, id) => id)
      .filter((id) => (sums.total[id]! > 0 || sums.ownSamples[id]! > 0) && (found?.[id] ?? 1) === 1);
    const { own, total } = sums;
    const orders = {
      own: (a: number, b: number) => own[b]! - own[a]! || total[b]! - total[a]!,
      total: (a: number, b: number) => total[b]! - total[a]! || own[b]! - own[a]!,
      name: (a: number, b: number) => (names[a]! < names[b]! ? -1 : 1),
    };
    ids.sort(orders[sort]);
    const row = (id: number): FunctionRow => ({
      function: this.fn(id),
      place: samples.places[sums.place[id]!] ?? null,
      own: own[id]!,
      own_samples: sums.ownSamples[id]!,
      total: total[id]!,
    });
    return {
      whole: tree.whole,
      effective: series.samples ? (tree.wholeSamples * series.effective) / series.samples : 0,
      count: ids.length,
      rows: ids.slice(0, most).map(row),
    };
  }

  async callers(selection: Selection, of: number) {
    const { tree } = this.of({ ...selection, callers: false });
    const found = neighbors(tree, of);
    const sums = functionSums(tree, this.data.functions.name.length);
    const rows = (pairs: Pairs): Neighbor[] =>
      [...pairs]
        .sort((one, other) => other[1].weight - one[1].weight)
        .map(([id, sum]) => ({ function: id < 0 ? null : this.fn(id), ...sum }));
    return {
      function: this.fn(of),
      whole: tree.whole,
      own: sums.own[of] ?? 0,
      total: sums.total[of] ?? 0,
      callers: rows(found.callers),
      callees: rows(found.callees),
    };
  }

  async children(query: ChildrenQuery) {
    const { samples, series, tree } = this.of(query.selection);
    const hits = query.search === "" ? undefined : find(tree, this.found(query.search));
    const ownSamples = series.calls && !query.selection.callers;
    const nodes = childrenOf(tree, query.node);
    const row = (node: number): Child => ({
      node,
      function: this.fn(tree.fn[node]!),
      place: samples.places[tree.place[node]!] ?? null,
      own: tree.own[node]!,
      total: tree.total[node]!,
      samples: ownSamples ? tree.ownSamples[node]! : tree.samples[node]!,
      children: childrenOf(tree, node).length,
      hit: hits?.[node] ?? 0,
    });
    const shown = nodes.subarray(query.first, query.first + query.rows);
    return { count: nodes.length, rows: [...shown].map(row) };
  }

  async timeline({ profiler, width }: TimelineQuery): Promise<Timeline> {
    const { from, to } = this.description;
    const series = this.description.series.find(({ id }) => id === profiler)!;
    const { scale, timeline } = this.data.series.find(({ id }) => id === profiler)!;
    const { start, width: step, rows } = timeline;
    const pixel = Math.max(to - from, 1) / width;
    const weights = new Float32Array(rows.length * width);
    rows.forEach((row, at) => {
      row.forEach((weight, bucket) => {
        const begin = (start + bucket * step - from) / pixel;
        const end = Math.max(Math.min(begin + step / pixel, width), begin + 1e-9);
        const last = Math.min(Math.ceil(end), width);
        for (let x = Math.max(0, Math.floor(begin)); x < last; x += 1) {
          const overlap = Math.max(0, Math.min(end, x + 1) - Math.max(begin, x));
          weights[at * width + x]! += (weight * scale * overlap) / (end - begin) / (pixel / 1e9);
        }
      });
    });
    const { markers } = this.data;
    const none = new Uint32Array(markers.time.length).fill(NONE);
    return {
      from,
      to,
      pixels: width,
      unit: series.unit,
      // Types share one row.
      shown_states: rows.map((_, index) => index),
      threads: 0,
      lanes: [],
      kinds: markers.kinds,
      texts: markers.text,
      state: new Uint8Array(),
      share: new Float32Array(),
      weights,
      marker_time: Float64Array.from(markers.time),
      marker_length: Float64Array.from(markers.length),
      marker_lane: none,
      marker_kind: Uint8Array.from(markers.kind),
      marker_count: Float64Array.from(markers.count),
      marker_text: Uint32Array.from(markers.text, (_, index) => index),
    };
  }
}

/** The samples in a page. */
export function embeddedSource(data: EmbeddedSamples): Source {
  return new Embedded(data);
}
