// Call trees in the page: sums, layout and search, for reports that have no server. The layout is
// that of crates/explore (layout.rs).

import { NONE } from "./columns";

/** Narrower calls, in pixels, are merged with their neighbors. */
const NARROW = 1;

/** Where merged calls are narrower than this together, one line stands for all below them. */
const HAIR = 0.5;

/** Nodes of a tree of callers; beyond that the lightest stacks show no callers. */
const MOST_NODES = 400_000;

/** Which node each node is below, and what it is of. Parents stand before their children. */
export interface Shape {
  size: number;
  /** Index of the parent; -1 at a root. */
  parent: Int32Array;
  /** Number of the function; -1 for calls that are not shown singly. */
  fn: Int32Array;
  place: Uint32Array;
}

/** A tree with sums, whose children are in order. */
export interface CallTree extends Shape {
  own: Float64Array;
  ownSamples: Float64Array;
  total: Float64Array;
  samples: Float64Array;
  /** Children of all nodes, the heaviest first: those of node n from `starts[n + 1]` on. */
  children: Uint32Array;
  starts: Uint32Array;
  heights: Uint32Array;
  whole: number;
  wholeSamples: number;
  shortened: number;
}

/** Adds totals and children to own sums. */
export function complete(
  shape: Shape,
  own: Float64Array,
  ownSamples: Float64Array,
  shortened = 0,
): CallTree {
  const { size, parent } = shape;
  const [total, samples] = [own.slice(), ownSamples.slice()];
  const heights = new Uint32Array(size).fill(1);
  // Roots are below place 0; the children of node n are below place n + 1.
  const starts = new Uint32Array(size + 2);
  let [whole, wholeSamples] = [0, 0];
  for (let node = size - 1; node >= 0; node -= 1) {
    const above = parent[node]!;
    if (total[node]! <= 0 && samples[node]! <= 0) continue;
    starts[above + 2]! += 1;
    if (above >= 0) {
      total[above]! += total[node]!;
      samples[above]! += samples[node]!;
      heights[above] = Math.max(heights[above]!, heights[node]! + 1);
    } else {
      whole += total[node]!;
      wholeSamples += samples[node]!;
    }
  }
  for (let place = 0; place <= size; place += 1) starts[place + 1]! += starts[place]!;
  const next = starts.slice();
  const children = new Uint32Array(starts[size + 1]!);
  for (let node = 0; node < size; node += 1) {
    if (total[node]! <= 0 && samples[node]! <= 0) continue;
    const place = parent[node]! + 1;
    children[next[place]!] = node;
    next[place]! += 1;
  }
  for (let place = 0; place <= size; place += 1) {
    const [from, to] = [starts[place]!, starts[place + 1]!];
    if (to - from > 1) {
      children.subarray(from, to).sort((one, other) => total[other]! - total[one]! || one - other);
    }
  }
  return {
    ...shape,
    own,
    ownSamples,
    total,
    samples,
    children,
    starts,
    heights,
    whole,
    wholeSamples,
    shortened,
  };
}

/** Nodes right below a node, or the roots; heaviest first. */
export function childrenOf(tree: CallTree, node: number | undefined): Uint32Array {
  const place = node === undefined ? 0 : node + 1;
  return tree.children.subarray(tree.starts[place]!, tree.starts[place + 1]!);
}

/** From the leaves to the roots: who called it. */
export function invert(tree: CallTree): CallTree {
  const leaves: number[] = [];
  for (let node = 0; node < tree.size; node += 1) {
    if (tree.own[node]! > 0 || tree.ownSamples[node]! > 0) leaves.push(node);
  }
  leaves.sort((one, other) => tree.own[other]! - tree.own[one]!);
  const [parent, fn, place]: [number[], number[], number[]] = [[], [], []];
  const [own, samples]: [number[], number[]] = [[], []];
  const ids = new Map<number, number>();
  const below = (above: number, of: number) => {
    // Functions are fewer than 2^24, and nodes fewer than 2^29: both fit in a number.
    const key = (above + 1) * 2 ** 24 + tree.fn[of]! + 1;
    let id = ids.get(key);
    if (id === undefined) {
      id = parent.length;
      ids.set(key, id);
      parent.push(above);
      fn.push(tree.fn[of]!);
      place.push(tree.place[of]!);
      own.push(0);
      samples.push(0);
    }
    return id;
  };
  let shortened = 0;
  for (const leaf of leaves) {
    let at = below(-1, leaf);
    if (parent.length < MOST_NODES) {
      for (let node = tree.parent[leaf]!; node >= 0; node = tree.parent[node]!) at = below(at, node);
    } else {
      shortened += 1;
    }
    own[at]! += tree.own[leaf]!;
    samples[at]! += tree.ownSamples[leaf]!;
  }
  const shape = {
    size: parent.length,
    parent: Int32Array.from(parent),
    fn: Int32Array.from(fn),
    place: Uint32Array.from(place),
  };
  return complete(shape, Float64Array.from(own), Float64Array.from(samples), shortened);
}

/** What a search says of each node: 0 nothing, 1 something below is found, 2 it is found itself. */
export function find(tree: CallTree, functions: Uint8Array): Uint8Array {
  const hits = new Uint8Array(tree.size);
  for (let node = tree.size - 1; node >= 0; node -= 1) {
    const fn = tree.fn[node]!;
    if (fn >= 0 && functions[fn]) hits[node] = 2;
    const above = tree.parent[node]!;
    if (hits[node] && above >= 0 && !hits[above] && tree.total[node]! > 0) hits[above] = 1;
  }
  return hits;
}

/** Weight below a node, or of all, of stacks on which something is found. */
export function foundWeight(tree: CallTree, root: number | undefined, hits: Uint8Array): number {
  for (let node = root ?? -1; node >= 0; node = tree.parent[node]!) {
    if (hits[node] === 2) return tree.total[root!]!;
  }
  let sum = 0;
  const open = [...childrenOf(tree, root)];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    if (hits[node] === 2) sum += tree.total[node]!;
    else if (hits[node] === 1) for (const child of childrenOf(tree, node)) open.push(child);
  }
  return sum;
}

/** Columns of boxes that are being made. */
export class Boxes {
  row: number[] = [];
  rows: number[] = [];
  left: number[] = [];
  width: number[] = [];
  node: number[] = [];
  merged: number[] = [];
  own: number[] = [];
  total: number[] = [];
  samples: number[] = [];
  hit: number[] = [];
}

/** A part of a level: one node, or narrow neighbors. */
interface Part {
  left: number;
  weight: number;
  node: number | undefined;
  members: number[] | undefined;
}

export interface LayoutQuery {
  root: number | undefined;
  width: number;
  top: number;
  rows: number;
  hits: Uint8Array | undefined;
  /** Samples are those of a node itself. */
  ownSamples: boolean;
}

/** Lays out the visible rows. `see` is called with the nodes of each box; the whole has none. */
export function layOut(
  tree: CallTree,
  query: LayoutQuery,
  see?: (nodes: number[]) => void,
): Boxes {
  const { root, width, top, rows } = query;
  const boxes = new Boxes();
  const all = root === undefined ? tree.whole : tree.total[root]!;
  const scale = width / Math.max(all, 1e-9);
  let level: Part[] = [{ left: 0, weight: all, node: root, members: undefined }];
  for (let row = 0; level.length > 0 && row < top + rows; row += 1) {
    const next: Part[] = [];
    for (const part of level) {
      const isHair = part.members !== undefined && part.weight * scale < HAIR;
      draw(tree, part, row, isHair, scale, query, boxes, see);
      if (isHair) continue;
      if (part.members !== undefined) {
        merge(tree, part.left, part.members.flatMap((node) => [...childrenOf(tree, node)]), next);
        continue;
      }
      let left = part.left;
      const children = childrenOf(tree, part.node);
      let wide = 0;
      while (wide < children.length && tree.total[children[wide]!]! * scale >= NARROW) {
        const child = children[wide]!;
        const weight = tree.total[child]!;
        next.push({ left, weight, node: child, members: undefined });
        left += weight * scale;
        wide += 1;
      }
      merge(tree, left, [...children.subarray(wide)], next);
    }
    level = next;
  }
  return boxes;
}

function merge(tree: CallTree, left: number, members: number[], next: Part[]): void {
  let weight = 0;
  for (const node of members) weight += tree.total[node]!;
  if (weight > 0) next.push({ left, weight, node: undefined, members });
}

function draw(
  tree: CallTree,
  part: Part,
  row: number,
  isHair: boolean,
  scale: number,
  query: LayoutQuery,
  boxes: Boxes,
  see: ((nodes: number[]) => void) | undefined,
): void {
  const nodes = part.members ?? (part.node === undefined ? [] : [part.node]);
  let [own, samples, hit, height] = [0, 0, 0, 1];
  let heaviest: number | undefined;
  for (const node of nodes) {
    own += tree.own[node]!;
    samples += query.ownSamples ? tree.ownSamples[node]! : tree.samples[node]!;
    hit = Math.max(hit, query.hits?.[node] ?? 0);
    height = Math.max(height, tree.heights[node]!);
    if (heaviest === undefined || tree.total[node]! > tree.total[heaviest]!) heaviest = node;
  }
  const rows = isHair ? height : 1;
  if (row + rows <= query.top) return;
  see?.(nodes);
  boxes.row.push(row);
  boxes.rows.push(rows);
  boxes.left.push(part.left);
  boxes.width.push(part.weight * scale);
  boxes.node.push(heaviest ?? NONE);
  boxes.merged.push(part.members?.length ?? 0);
  boxes.own.push(own);
  boxes.total.push(part.weight);
  boxes.samples.push(heaviest === undefined ? tree.wholeSamples : samples);
  boxes.hit.push(heaviest === undefined && query.hits?.some((found) => found > 0) ? 1 : hit);
}

/** Sums of functions, and of pairs of caller and callee. A stack counts once for each. */
export interface Sums {
  own: Float64Array;
  ownSamples: Float64Array;
  total: Float64Array;
  place: Uint32Array;
}

/** Walks all nodes; `enter` and `leave` enclose what is below. */
export function visit(
  tree: CallTree,
  enter: (node: number) => void,
  leave: (node: number) => void,
): void {
  const open: number[] = [...childrenOf(tree, undefined)].reverse();
  for (let top = open.pop(); top !== undefined; top = open.pop()) {
    if (top < 0) {
      leave(~top);
      continue;
    }
    enter(top);
    open.push(~top);
    const children = childrenOf(tree, top);
    for (let at = children.length - 1; at >= 0; at -= 1) open.push(children[at]!);
  }
}

/** Sums of each function. */
export function functionSums(tree: CallTree, functions: number): Sums {
  const sums: Sums = {
    own: new Float64Array(functions),
    ownSamples: new Float64Array(functions),
    total: new Float64Array(functions),
    place: new Uint32Array(functions).fill(NONE),
  };
  const onPath = new Uint32Array(functions);
  const best = new Float64Array(functions).fill(-1);
  visit(
    tree,
    (node) => {
      const fn = tree.fn[node]!;
      if (fn < 0) return;
      const own = tree.own[node]!;
      sums.own[fn]! += own;
      sums.ownSamples[fn]! += tree.ownSamples[node]!;
      if (onPath[fn] === 0) sums.total[fn]! += tree.total[node]!;
      onPath[fn]! += 1;
      if (tree.place[node] !== NONE && own > best[fn]!) {
        best[fn] = own;
        sums.place[fn] = tree.place[node]!;
      }
    },
    (node) => {
      const fn = tree.fn[node]!;
      if (fn >= 0) onPath[fn]! -= 1;
    },
  );
  return sums;
}

/** Weights and samples by function; -1 stands for no function. */
export type Pairs = Map<number, { weight: number; samples: number }>;

/** Who calls a function, and whom it calls. */
export function neighbors(tree: CallTree, function_: number): { callers: Pairs; callees: Pairs } {
  const [callers, callees]: [Pairs, Pairs] = [new Map(), new Map()];
  const [from, to] = [new Map<number, number>(), new Map<number, number>()];
  const pairsOf = (node: number): [number, Pairs, Map<number, number>][] => {
    const above = tree.parent[node]!;
    const [fn, caller] = [tree.fn[node]!, above >= 0 ? tree.fn[above]! : -1];
    const pairs: [number, Pairs, Map<number, number>][] = [];
    if (fn === function_) pairs.push([caller, callers, from]);
    if (above >= 0 && caller === function_ && fn >= 0) pairs.push([fn, callees, to]);
    return pairs;
  };
  visit(
    tree,
    (node) => {
      for (const [other, sums, onPath] of pairsOf(node)) {
        const times = onPath.get(other) ?? 0;
        onPath.set(other, times + 1);
        if (times > 0) continue;
        const sum = sums.get(other) ?? { weight: 0, samples: 0 };
        sum.weight += tree.total[node]!;
        sum.samples += tree.samples[node]!;
        sums.set(other, sum);
      }
    },
    (node) => {
      for (const [other, , onPath] of pairsOf(node)) onPath.set(other, onPath.get(other)! - 1);
    },
  );
  return { callers, callees };
}
