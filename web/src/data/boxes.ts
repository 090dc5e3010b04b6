// What is visible of a call tree that is in the page itself: boxes with the functions that they are
// of.

import { childrenOf, layOut, type CallTree } from "./calltree";
import { NONE } from "./columns";
import type { BoxQuery, FlameBoxes, Fn } from "./source";

/** Nodes of a path that are shown at its beginning, and at its end. */
const PATH = [2, 6] as const;

export interface TreeBoxes<F extends Fn> extends FlameBoxes {
  functions: F[];
  /** The root of the view, if there is such a node. */
  root: number | undefined;
  own: Float64Array;
  total_of: Float64Array;
  samples_of: Float64Array;
}

export interface TreeQuery<F extends Fn> extends Omit<BoxQuery, "search"> {
  hits: Uint8Array | undefined;
  /** Samples are those of a node itself. */
  ownSamples: boolean;
  /** The function of this number. */
  fn: (number: number) => F;
  /** Called with the nodes of each box; the whole has none. */
  see?: (nodes: number[]) => void;
}

/** Lays out the visible rows of a tree. */
export function boxesOf<F extends Fn>(tree: CallTree, query: TreeQuery<F>): TreeBoxes<F> {
  const root = query.root !== undefined && query.root < tree.size ? query.root : undefined;
  const boxes = layOut(tree, { ...query, root }, query.see);
  const numbers = new Map<number, number>();
  const numbered = boxes.node.map((node, box) => {
    const fn = node === NONE || boxes.merged[box]! > 0 ? -1 : tree.fn[node]!;
    if (fn < 0) return NONE;
    const number = numbers.get(fn) ?? numbers.size;
    numbers.set(fn, number);
    return number;
  });
  const path: number[] = [];
  for (let at = root ?? -1; at >= 0; at = tree.parent[at]!) path.unshift(at);
  const left_out = Math.max(0, path.length - PATH[0] - PATH[1]);
  const kept = left_out === 0 ? path : [...path.slice(0, PATH[0]), ...path.slice(PATH[0] + left_out)];
  const deepest = (nodes: Uint32Array) =>
    nodes.reduce((most, node) => Math.max(most, tree.heights[node]!), 0);
  return {
    root,
    height: root === undefined ? deepest(childrenOf(tree, undefined)) + 1 : tree.heights[root]!,
    path: kept.map((node) => ({ node, function: query.fn(tree.fn[node]!) })),
    left_out,
    functions: [...numbers.keys()].map((fn) => query.fn(fn)),
    size: boxes.row.length,
    row: Uint32Array.from(boxes.row),
    rows: Uint32Array.from(boxes.rows),
    left: Float32Array.from(boxes.left),
    width: Float32Array.from(boxes.width),
    node: Uint32Array.from(boxes.node),
    merged: Uint32Array.from(boxes.merged),
    function: Uint32Array.from(numbered),
    hit: Uint8Array.from(boxes.hit),
    own: Float64Array.from(boxes.own),
    total_of: Float64Array.from(boxes.total),
    samples_of: Float64Array.from(boxes.samples),
  };
}
