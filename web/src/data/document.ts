// What clrscope says, as values: the same as crates/document sends.

/** A document: sections of sentences, tables, trees and code. */
export interface Document {
  sections: Section[];
}

export interface Section {
  title: string;
  /** A word such as `high` for how much the section matters. */
  badge: string | null;
  lead: string[];
  blocks: Block[];
}

export type Block = { table: Table } | { tree: Tree } | { code: Code } | { figure: Figure };

/** A picture of what other blocks say. */
export interface Figure {
  caption: string;
  drawing: { graph: Graph } | { series: Values } | { weights: Weights };
}

/** Things, and how they lead to each other, in rows and columns. */
export interface Graph {
  nodes: GraphNode[];
  edges: { from: number; to: number; label: string }[];
  rows: number;
  columns: number;
}

export interface GraphNode {
  /** The same name, the longest first. */
  forms: string[];
  note: string;
  /** Nodes of one number look alike; those of number 1 stand out. */
  kind: number;
  row: number;
  column: number;
}

/** Values over time. */
export interface Values {
  title: string;
  unit: Unit;
  seconds: number[];
  values: number[];
}

/** A tree whose nodes have weights. */
export interface Weights {
  unit: Unit;
  noun: string;
  /** Each after the one that it stands below. */
  nodes: WeightedNode[];
}

export interface WeightedNode {
  depth: number;
  forms: string[];
  place: string | null;
  /** Nodes of one number look alike. */
  kind: number;
  /** With all below it. */
  weight: number;
}

/** Rows of cells. If no column has a title, it is a list of facts. */
export interface Table {
  columns: Column[];
  rows: Cell[][];
  /** Rows that are not in the table. */
  more: number;
}

export interface Column {
  title: string;
  /** Whether its cells stand at the right, as numbers do. */
  right: boolean;
  least: number;
}

/** Lines below other lines. */
export interface Tree {
  branches: boolean;
  nodes: TreeNode[];
  /** Nodes that are not in the tree. */
  more: number;
}

export interface TreeNode {
  depth: number;
  cells: Cell[];
}

export interface Code {
  language: string;
  text: string;
}

export interface Quantity {
  value: number;
  /** Half of the 95 % interval, of an estimate. */
  margin: number | null;
  unit: Unit;
}

export interface Word {
  text: string;
  letter: string;
  /** Number of one of the 16 colors of terminals. */
  color: number | null;
}

export type Cell =
  | "nothing"
  | { text: string }
  | { quantity: Quantity }
  | { bar: number }
  | { line: number[] }
  | { name: { forms: string[]; place: string | null } }
  | { word: Word }
  | { parts: [Word, number][] }
  | { weak: Cell };

export type Unit =
  | "count"
  | "number"
  | "bytes"
  | "nanoseconds"
  | "per-second"
  | "share"
  | "whole-percent"
  | "count-change"
  | "bytes-change"
  | "nanoseconds-change"
  | "share-change"
  | "change-per-second";

/** Whether a table is a list of facts: names, and what is to be said of each. */
export function isFacts(table: Table): boolean {
  return table.columns.every((column) => column.title === "");
}

/** The cell itself, if it was marked as one that matters less. */
export function bare(cell: Cell): Exclude<Cell, { weak: Cell }> {
  let inner = cell;
  while (typeof inner === "object" && "weak" in inner) inner = inner.weak;
  return inner;
}
