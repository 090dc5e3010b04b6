// A tree whose rows are fetched when they are opened, as a treegrid: what a canvas draws, for
// keyboards and readers of the screen.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { count } from "../data/format";
import { TreeGrid, type GridColumn, type GridRow } from "./treegrid";

/** Children of a node that are fetched at first. */
const STEP = 200;

/** Levels of the heaviest path that are open at first. */
const OPEN = 12;

/** Open rows whose children are fetched again. */
const RENEWED = 100;

/** A row that was fetched. */
export interface TreeRow {
  node: number;
  /** Rows right below it. */
  children: number;
}

interface Loaded<Row> {
  count: number;
  rows: Row[];
}

interface Line<Row> extends GridRow {
  child: Row | undefined;
  /** Of a row that stands for others: whose children they are. */
  more: { parent: number | undefined; count: number } | undefined;
}

export interface LazyTreeProps<Row extends TreeRow> {
  /** What is shown: with another one, everything is fetched again. */
  id: string;
  /** With another one, the same rows are fetched again, and what is open stays open. */
  round?: number;
  /** Rows right below a node, the heaviest first. */
  load: (node: number | undefined, rows: number) => Promise<Loaded<Row>>;
  label: string;
  /** What stands where there are no rows. */
  empty: string;
  columns: { title: string; width: string; right?: boolean; cell: (row: Row) => ComponentChildren }[];
  /** What rows weigh: the heaviest path is open at first. */
  weight: (row: Row) => number;
  root: number | undefined;
  focus: number | undefined;
  /** Nodes from the root of the view to the focus. */
  path: number[];
  setFocus: (node: number | undefined, path: number[]) => void;
  zoom: (root: number | undefined) => void;
  /** What Enter and a double click do; they zoom if this is left out. */
  activate?: (row: Row) => void;
}

/** All rows that are not below closed ones. */
function linesOf<Row extends TreeRow>(
  children: ReadonlyMap<number | undefined, Loaded<Row>>,
  open: ReadonlySet<number>,
  root: number | undefined,
): Line<Row>[] {
  const lines: Line<Row>[] = [];
  // A level: the children of a node, and how many of them are done.
  const levels: { parent: number | undefined; loaded: Loaded<Row>; at: number }[] = [];
  const enter = (parent: number | undefined) => {
    const loaded = children.get(parent);
    if (loaded) levels.push({ parent, loaded, at: 0 });
  };
  enter(root);
  for (let level = levels.at(-1); level; level = levels.at(-1)) {
    const { loaded, parent } = level;
    const child = loaded.rows[level.at];
    const depth = levels.length - 1;
    if (!child) {
      const more = loaded.count - loaded.rows.length;
      if (more > 0) {
        const key = `more ${parent ?? "all"}`;
        lines.push({ key, depth, open: undefined, child: undefined, more: { parent, count: more } });
      }
      levels.pop();
      continue;
    }
    level.at += 1;
    const isOpen = child.children > 0 && open.has(child.node);
    lines.push({
      key: child.node,
      depth,
      open: child.children === 0 ? undefined : isOpen,
      place: [level.at, loaded.count],
      child,
      more: undefined,
    });
    if (isOpen) enter(child.node);
  }
  return lines;
}

export function LazyTree<Row extends TreeRow>(props: LazyTreeProps<Row>) {
  const { id, root, path, round } = props;
  const [children, setChildren] = useState<ReadonlyMap<number | undefined, Loaded<Row>>>(new Map());
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const state = useRef({ id: "", children: new Map<number | undefined, Loaded<Row>>() });
  if (state.current.id !== id) state.current = { id, children: new Map() };

  const load = async (node: number | undefined, rows = STEP): Promise<Loaded<Row>> => {
    const current = state.current;
    const known = current.children.get(node);
    if (known && (known.rows.length >= rows || known.rows.length === known.count)) return known;
    const loaded = await props.load(node, rows);
    current.children.set(node, loaded);
    if (state.current === current) setChildren(new Map(current.children));
    return loaded;
  };
  const unfold = (nodes: number[]) => setOpen((before) => new Set([...before, ...nodes]));

  useEffect(() => {
    let over = false;
    const begin = async () => {
      setOpen(new Set());
      const heaviest: number[] = [];
      let at = root;
      for (let level = 0; level < OPEN; level += 1) {
        const loaded = await load(at);
        const first = loaded.rows[0];
        const all = loaded.rows.reduce((sum, row) => sum + props.weight(row), 0);
        if (!first || over || first.children === 0 || props.weight(first) * 2 < all) break;
        heaviest.push(first.node);
        at = first.node;
      }
      if (!over) {
        if (at !== undefined) await load(at);
        unfold(heaviest);
      }
    };
    begin().catch(() => setChildren(new Map()));
    return () => {
      over = true;
    };
  }, [id, root]);
  // What has the focus in the picture is opened here.
  const steps = path.join(".");
  useEffect(() => {
    const above = path.slice(0, -1).filter((node) => node !== root);
    void Promise.all(above.map((node) => load(node))).then(
      () => unfold(above),
      () => {},
    );
  }, [steps]);

  // The same rows with newer numbers.
  useEffect(() => {
    const current = state.current;
    if (round === undefined || current.children.size === 0) return;
    let over = false;
    const shown = [root, ...[...open].slice(0, RENEWED)];
    const renew = async (node: number | undefined) => {
      const rows = current.children.get(node)?.rows.length ?? 0;
      const loaded = await props.load(node, Math.max(rows, STEP));
      if (!over) current.children.set(node, loaded);
    };
    void Promise.all(shown.map(renew)).then(
      () => {
        if (!over && state.current === current) setChildren(new Map(current.children));
      },
      () => {},
    );
    return () => {
      over = true;
    };
  }, [round]);

  const toggle = (line: Line<Row>, wanted: boolean) => {
    const node = line.child?.node;
    if (node === undefined) return;
    if (!wanted) {
      setOpen((before) => new Set([...before].filter((known) => known !== node)));
      return;
    }
    void load(node).then(
      () => unfold([node]),
      () => {},
    );
  };
  const lines = useMemo(() => linesOf(children, open, root), [children, open, root]);
  const columns = props.columns.map(
    (column, at): GridColumn<Line<Row>> => ({
      ...column,
      cell: ({ child, more }) => {
        if (child) return column.cell(child);
        return at === 0 && more ? (
          <span class="weak">{count(more.count)} lighter ones: press Enter to show them</span>
        ) : undefined;
      },
    }),
  );
  if (lines.length === 0) return <p class="hint">{props.empty}</p>;
  return (
    <TreeGrid
      label={props.label}
      columns={columns}
      rows={lines}
      toggle={toggle}
      selected={props.focus}
      select={(line) => {
        if (line.child) props.setFocus(line.child.node, []);
      }}
      activate={(line) => {
        if (line.child && props.activate) props.activate(line.child);
        else if (line.child) props.zoom(line.child.node);
        else if (line.more) void load(line.more.parent, line.more.count + STEP).catch(() => {});
      }}
      height="420px"
    />
  );
}
