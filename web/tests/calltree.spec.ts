// The layout of call trees in the page, without a browser.

import { expect, test } from "@playwright/test";
import {
  childrenOf,
  complete,
  find,
  foundWeight,
  functionSums,
  invert,
  layOut,
  neighbors,
  type CallTree,
} from "../src/data/calltree";
import { NONE } from "../src/data/columns";

/** A tree of nodes, each with its parent before it, its function and its own weight. */
function treeOf(nodes: [parent: number, fn: number, own: number][]): CallTree {
  const own = Float64Array.from(nodes, ([, , weight]) => weight);
  return complete(
    {
      size: nodes.length,
      parent: Int32Array.from(nodes, ([parent]) => parent),
      fn: Int32Array.from(nodes, ([, fn]) => fn),
      place: new Uint32Array(nodes.length).fill(NONE),
    },
    own,
    own.slice(),
  );
}

/** Numbers that look random and are the same in each run. */
function random(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

function randomTree(seed: number): CallTree {
  const below = random(seed);
  return treeOf(
    Array.from({ length: 150 }, (_, node) => [
      node === 0 ? -1 : below(node + 1) - 1,
      below(9),
      below(3) * below(300),
    ]),
  );
}

/** An assertion that may be made very often: those of the test runner keep a record of each. */
function check(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

const near = (one: number | undefined, other: number) =>
  one !== undefined && Math.abs(one - other) < 1e-4;

const all = { root: undefined, top: 0, rows: 1e9, hits: undefined, ownSamples: false };

test("boxes are where a naive layout has them, and nothing is lost", () => {
  for (let seed = 1; seed <= 200; seed += 1) {
    const tree = randomTree(seed);
    const width = 1 + (seed * 37) % 700;
    const boxes = layOut(tree, { ...all, width });
    const scale = width / Math.max(tree.whole, 1e-9);
    const rowSums: number[] = [];
    const walk = (node: number, row: number, left: number): void => {
      rowSums[row] = (rowSums[row] ?? 0) + tree.total[node]!;
      const box = boxes.node.findIndex((of, at) => of === node && boxes.merged[at] === 0);
      if (tree.total[node]! * scale >= 1) {
        check(boxes.row[box] === row, `row of ${node}, seed ${seed}`);
        check(near(boxes.left[box], left * scale), `left of ${node}, seed ${seed}`);
        check(near(boxes.width[box], tree.total[node]! * scale), `width of ${node}, seed ${seed}`);
      } else check(box === -1, `${node} is narrow, seed ${seed}`);
      let at = left;
      for (const child of childrenOf(tree, node)) {
        walk(child, row + 1, at);
        at += tree.total[child]!;
      }
    };
    let at = 0;
    for (const root of childrenOf(tree, undefined)) {
      walk(root, 1, at);
      at += tree.total[root]!;
    }
    rowSums.forEach((weight, row) => {
      if (row === 0) return;
      let [own, lines] = [0, 0];
      boxes.row.forEach((of, box) => {
        if (of === row) own += boxes.total[box]!;
        else if (of < row && of + boxes.rows[box]! > row) lines += boxes.total[box]!;
      });
      check(own <= weight + 1e-6, `row ${row} has too much, seed ${seed}`);
      check(own + lines >= weight - 1e-6, `row ${row} has too little, seed ${seed}`);
    });
    const part = layOut(tree, { ...all, width, top: 2, rows: 3 });
    const expected = boxes.row.filter((row, box) => row < 5 && row + boxes.rows[box]! > 2);
    check(part.row.join() === expected.join(), `a part of the rows, seed ${seed}`);
  }
});

test("a stack of 50,000 frames is laid out in parts, searched and turned around", () => {
  const depth = 50_000;
  const tree = treeOf(
    Array.from({ length: depth }, (_, node) => [node - 1, node % 10, node === depth - 1 ? 7 : 0]),
  );
  expect(tree.heights[0]).toBe(depth);
  const boxes = layOut(tree, { ...all, width: 1000, top: 49_000, rows: 40 });
  expect(boxes.row.length).toBe(40);
  expect(boxes.row[0]).toBe(49_000);
  const hits = find(tree, Uint8Array.from({ length: 10 }, (_, fn) => (fn === 3 ? 1 : 0)));
  expect(foundWeight(tree, undefined, hits)).toBe(7);
  expect(functionSums(tree, 10).total[3]).toBe(7);
  const callers = invert(tree);
  expect(callers.size).toBe(depth);
  expect(callers.whole).toBe(7);
});

test("a stack counts once for each pair of caller and callee", () => {
  // a → b → a → b, and a → c.
  const tree = treeOf([
    [-1, 0, 1],
    [0, 1, 2],
    [1, 0, 0],
    [2, 1, 4],
    [0, 2, 8],
  ]);
  const { callers, callees } = neighbors(tree, 1);
  expect([...callers].map(([fn, sum]) => [fn, sum.weight])).toEqual([[0, 6]]);
  expect([...callees].map(([fn, sum]) => [fn, sum.weight])).toEqual([[0, 4]]);
  const outermost = neighbors(tree, 0);
  expect(outermost.callers.get(-1)?.weight).toBe(15);
  expect(outermost.callees.get(2)?.weight).toBe(8);
  expect(functionSums(tree, 3).total).toEqual(Float64Array.from([15, 6, 8]));
});
