// A comparison that is in the page itself.

import { boxesOf } from "./boxes";
import { childrenOf, complete, find, type CallTree } from "./calltree";
import { NONE } from "./columns";
import type {
  Change,
  ChangedFunction,
  ComparisonSource,
  DiffFlame,
  DiffRow,
  HeapTypeChange,
  ListQuery,
  Overview,
  Pair,
} from "./comparison";
import { matcher } from "./matcher";
import type { BoxQuery } from "./source";

/** What crates/compare (viewed.rs) writes. */
export interface EmbeddedComparison {
  overview: Overview;
  series: EmbeddedSeries[];
  types: HeapTypeChange[] | null;
}

interface EmbeddedSeries {
  /** How many places before a node its parent is, 0 for a root. */
  up: number[];
  function: number[];
  /** Before and after, itself and with what it called. */
  amounts: [number[], number[], number[], number[]];
  functions: ChangedFunction[];
  left_out: number;
}

/** Functions that the list of a series has no change of: calls that are too light for a page. */
const UNKNOWN: Change = {
  before: 0,
  before_margin: 0,
  after: 0,
  after_margin: 0,
  relative: null,
  relative_low: null,
  relative_high: null,
  chance: null,
  significance: "too-few",
};

/** A series that is ready to be asked. Nodes are as wide as the mean of both. */
class Ready {
  readonly tree: CallTree;

  constructor(readonly data: EmbeddedSeries) {
    const size = data.up.length;
    const parent = Int32Array.from(data.up, (up, node) => (up === 0 ? -1 : node - up));
    const [, , before, after] = data.amounts;
    const own = Float64Array.from(before, (amount, node) => (amount + after[node]!) / 2);
    // Totals are known: what is not in a child is the node's own.
    for (let node = size - 1; node >= 0; node -= 1) {
      const above = parent[node]!;
      const width = (before[node]! + after[node]!) / 2;
      if (above >= 0) own[above]! -= width;
    }
    own.forEach((amount, node) => {
      own[node] = Math.max(amount, 0);
    });
    const shape = {
      size,
      parent,
      fn: Int32Array.from(data.function),
      place: new Uint32Array(size).fill(NONE),
    };
    this.tree = complete(shape, own, new Float64Array(size));
  }

  /** The function of this place in the list. */
  fn(place: number): ChangedFunction {
    const nothing = { id: 0, name: "(unknown)", short: "(unknown)", kind: 9, module: null };
    return (
      this.data.functions[place] ?? {
        ...nothing,
        place: null,
        self: UNKNOWN,
        total: UNKNOWN,
      }
    );
  }

  /** Before and after: itself if `at` is 0, with what it called if `at` is 2. */
  pair(node: number, at: 0 | 2): Pair {
    return [this.data.amounts[at]![node]!, this.data.amounts[at + 1]![node]!];
  }

  hits(search: string): Uint8Array | undefined {
    if (search === "") return undefined;
    const finds = matcher(search);
    const functions = Uint8Array.from(this.data.functions, ({ name }) => (finds(name) ? 1 : 0));
    return find(this.tree, functions);
  }

  whole(): Pair {
    const sum: Pair = [0, 0];
    for (const root of childrenOf(this.tree, undefined)) {
      const [before, after] = this.pair(root, 2);
      sum[0] += before;
      sum[1] += after;
    }
    return sum;
  }

  flame({ search, ...query }: BoxQuery): DiffFlame {
    const sums: number[][] = [[], [], [], []];
    const whole = this.whole();
    const boxes = boxesOf(this.tree, {
      ...query,
      hits: this.hits(search),
      ownSamples: false,
      fn: (fn) => this.fn(fn),
      see: (nodes) =>
        this.data.amounts.forEach((column, at) => {
          const all = at < 2 ? 0 : whole[at - 2]!;
          const sum = nodes.reduce((sum, node) => sum + column[node]!, 0);
          sums[at]!.push(nodes.length === 0 ? all : sum);
        }),
    });
    const [before, after, beforeTotal, afterTotal] = sums.map((column) => Float64Array.from(column));
    return {
      ...boxes,
      total: boxes.root === undefined ? whole : this.pair(boxes.root, 2),
      whole,
      before_self: before!,
      after_self: after!,
      before_total: beforeTotal!,
      after_total: afterTotal!,
    };
  }
}

/** Rows that a search finds, in order; the order of the data if it names none. */
function listed<Row>(
  rows: Row[],
  { search, sort, rows: most }: ListQuery,
  name: (row: Row) => string,
  orders: Record<string, (row: Row) => [boolean, number]>,
): { count: number; rows: Row[] } {
  const finds = search === "" ? () => true : matcher(search);
  const found = rows.filter((row) => finds(name(row)));
  const order = orders[sort];
  if (sort === "name") found.sort((one, other) => (name(one) < name(other) ? -1 : 1));
  else if (order) {
    const keyed = found.map((row) => ({ row, key: order(row) }));
    keyed.sort(({ key: one }, { key: other }) => Number(other[0]) - Number(one[0]) || other[1] - one[1]);
    found.splice(0, found.length, ...keyed.map(({ row }) => row));
  }
  return { count: found.length, rows: found.slice(0, most) };
}

/** What changed for certain comes first. */
function size(change: Change): [boolean, number] {
  return [change.significance === "changed", Math.abs(change.after - change.before)];
}

/** The comparison in a page. */
export function embeddedComparison(data: EmbeddedComparison): ComparisonSource {
  const ready = new Map<string, Ready>();
  const of = (id: string): Ready => {
    const at = data.overview.series.findIndex((series) => series.id === id);
    const known = ready.get(id) ?? new Ready(data.series[at]!);
    ready.set(id, known);
    return known;
  };
  return {
    id: "page",
    overview: async () => data.overview,
    flame: async (series, query) => of(series).flame(query),
    children: async (series, { node, search, rows }) => {
      const own = of(series);
      const hits = own.hits(search);
      const nodes = childrenOf(own.tree, node);
      const row = (child: number): DiffRow => ({
        node: child,
        function: own.fn(own.tree.fn[child]!),
        own: own.pair(child, 0),
        total: own.pair(child, 2),
        children: childrenOf(own.tree, child).length,
        hit: hits?.[child] ?? 0,
      });
      return { count: nodes.length, rows: [...nodes.subarray(0, rows)].map(row) };
    },
    functions: async (series, query) =>
      listed(of(series).data.functions, query, ({ name }) => name, {
        self: (row) => size(row.self),
        total: (row) => size(row.total),
        before: (row) => [false, row.total.before],
        after: (row) => [false, row.total.after],
      }),
    types: async (query) =>
      listed(data.types ?? [], query, ({ name }) => name, {
        bytes: (row) => [false, Math.abs(row.after_bytes - row.before_bytes)],
        objects: (row) => [false, Math.abs(row.after_count - row.before_count)],
        before: (row) => [false, row.before_bytes],
        after: (row) => [false, row.after_bytes],
      }),
  };
}
