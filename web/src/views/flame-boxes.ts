// Which box is where. Boxes are in the order of their rows, and from the left to the right; but
// lines for narrow calls go down several rows.

import type { FlameBoxes } from "../data/source";
import { ROW, TOP } from "./flame-draw";

/** Where the canvas is in the flame graph. */
export interface Place {
  scroll: number;
  upward: boolean;
  levels: number;
}

/** The first box of a row, or where it would be. */
export function firstOfRow(flame: FlameBoxes, row: number): number {
  let [low, high] = [0, flame.size];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (flame.row[middle]! < row) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The box at a place of a row. */
function boxInRow(flame: FlameBoxes, row: number, x: number): number | undefined {
  const end = firstOfRow(flame, row + 1);
  let [low, high] = [firstOfRow(flame, row), end];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (flame.left[middle]! <= x) low = middle + 1;
    else high = middle;
  }
  const box = low - 1;
  if (box < firstOfRow(flame, row) || flame.row[box] !== row) return undefined;
  return x < flame.left[box]! + Math.max(1, flame.width[box]!) ? box : undefined;
}

/** The box at a point of the canvas. */
export function boxAt(flame: FlameBoxes, x: number, y: number, place: Place): number | undefined {
  const at = Math.floor((y - TOP + place.scroll) / ROW);
  const row = place.upward ? place.levels - 1 - at : at;
  return row < 0 ? undefined : boxInRow(flame, row, x);
}

/** The box of a node that is shown singly; that of the root if none is given. */
export function boxOfNode(flame: FlameBoxes, node: number | undefined): number | undefined {
  if (node === undefined) return flame.size > 0 ? 0 : undefined;
  const box = flame.node.indexOf(node);
  return box < 0 ? undefined : box;
}

/** The box of the row above that a box belongs to. */
export function coveringBox(flame: FlameBoxes, box: number): number | undefined {
  const row = flame.row[box]!;
  if (row === 0) return undefined;
  return boxInRow(flame, row - 1, flame.left[box]! + Math.min(flame.width[box]! / 2, 0.25));
}

/** The box beside or below a box. */
export function neighborBox(
  flame: FlameBoxes,
  box: number,
  where: "below" | "left" | "right",
): number | undefined {
  const row = flame.row[box]!;
  if (where === "below") {
    const first = firstOfRow(flame, row + 1);
    const [left, right] = [flame.left[box]! - 0.01, flame.left[box]! + flame.width[box]!];
    for (let at = first; at < flame.size && flame.row[at] === row + 1; at += 1) {
      if (flame.left[at]! >= left) return flame.left[at]! < right ? at : undefined;
    }
    return undefined;
  }
  const next = box + (where === "left" ? -1 : 1);
  return next >= 0 && next < flame.size && flame.row[next] === row ? next : undefined;
}
