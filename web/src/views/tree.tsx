// Trees of documents: stacks, call trees, retention paths.

import { useMemo, useState } from "preact/hooks";
import { bare, type Cell, type Tree } from "../data/document";
import { CellView, isText } from "./cells";
import { More } from "./table";
import { TreeGrid, type GridColumn, type GridRow } from "./treegrid";

interface Line extends GridRow {
  key: number;
  cells: Cell[];
}

/** The number of the parent of each node, and of the node behind its last descendant. */
interface Shape {
  parents: Int32Array;
  ends: Int32Array;
  places: [number, number][];
}

function shapeOf(tree: Tree): Shape {
  const size = tree.nodes.length;
  const [parents, ends] = [new Int32Array(size).fill(-1), new Int32Array(size).fill(size)];
  const children = new Map<number, number>();
  const places: [number, number][] = [];
  const path: number[] = [];
  const close = (depth: number, end: number) => {
    while (path.length > 0) {
      const top = path[path.length - 1] as number;
      if ((tree.nodes[top]?.depth ?? 0) < depth) break;
      ends[top] = end;
      path.pop();
    }
  };
  tree.nodes.forEach((node, index) => {
    close(node.depth, index);
    const parent = path[path.length - 1] ?? -1;
    parents[index] = parent;
    const number = (children.get(parent) ?? 0) + 1;
    children.set(parent, number);
    places.push([number, 0]);
    path.push(index);
  });
  places.forEach((place, index) => {
    place[1] = children.get(parents[index] ?? -1) ?? 1;
  });
  return { parents, ends, places };
}

/** A tree of a document. All of it is open at first. */
export function TreeView({ tree, label }: { tree: Tree; label: string }) {
  const shape = useMemo(() => shapeOf(tree), [tree]);
  const [closed, setClosed] = useState<ReadonlySet<number>>(new Set());
  const rows = useMemo(() => {
    const lines: Line[] = [];
    for (let index = 0; index < tree.nodes.length; ) {
      const node = tree.nodes[index];
      if (!node) break;
      const end = shape.ends[index] ?? index + 1;
      const open = end > index + 1 ? !closed.has(index) : undefined;
      const place = shape.places[index] ?? [1, 1];
      const depth = depthOf(shape, index);
      lines.push({ key: index, depth, open, place, cells: node.cells });
      index = open === false ? end : index + 1;
    }
    return lines;
  }, [tree, shape, closed]);
  const columns = useMemo(() => columnsOf(tree), [tree]);
  const toggle = (row: Line, open: boolean) =>
    setClosed((before) => {
      const next = new Set(before);
      if (open) next.delete(row.key);
      else next.add(row.key);
      return next;
    });
  return (
    <>
      <TreeGrid label={label} columns={columns} rows={rows} toggle={toggle} />
      <More of={tree.more} />
    </>
  );
}

/** Depths of documents may have gaps; those of rows have none. */
function depthOf({ parents }: Shape, index: number): number {
  let depth = 0;
  for (let above = parents[index] ?? -1; above >= 0; above = parents[above] ?? -1) depth += 1;
  return depth;
}

/** Numbers get columns of their own, if all lines have as many of them. */
function columnsOf(tree: Tree): GridColumn<Line>[] {
  const numbers = (cells: Cell[]) => cells.filter((cell) => isNumber(cell));
  const most = tree.nodes.reduce((most, node) => Math.max(most, numbers(node.cells).length), 0);
  const texts: GridColumn<Line> = {
    title: "",
    width: "minmax(12rem, 1fr)",
    cell: (row) =>
      row.cells
        .filter((cell) => !isNumber(cell))
        .map((cell, at) => (
          <span key={at} class={isText(cell) ? "part" : undefined}>
            <CellView cell={cell} />{" "}
          </span>
        )),
  };
  const column = (at: number): GridColumn<Line> => ({
    title: "",
    width: "7.5rem",
    right: true,
    cell: (row) => {
      const cell = numbers(row.cells)[at];
      return cell === undefined ? "" : <CellView cell={cell} />;
    },
  });
  return [texts, ...Array.from({ length: most }, (_, at) => column(at))];
}

function isNumber(cell: Cell): boolean {
  const inner = bare(cell);
  return typeof inner === "object" && "quantity" in inner;
}
