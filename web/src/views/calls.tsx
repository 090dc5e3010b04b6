// The same selection as the flame graph, as a treegrid: for keyboards and readers of the screen.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { percent, visible } from "../data/format";
import type { Child, Selection, Series, Source } from "../data/source";
import { keyOf } from "./flame";
import { kindColor } from "./palette";
import { TreeGrid, type GridColumn, type GridRow } from "./treegrid";
import { amount, points } from "./weights";

/** Children of a node that are fetched at first. */
const STEP = 200;

/** Most children in one answer. */
const MOST = 2000;

/** Levels of the heaviest path that are open at first. */
const OPEN = 12;

interface Loaded {
  count: number;
  rows: Child[];
}

interface CallRow extends GridRow {
  child: Child | undefined;
  /** Of a row that stands for others: whose children they are. */
  more: { parent: number | undefined; count: number } | undefined;
}

export interface CallsProps {
  source: Source;
  series: Series;
  selection: Selection;
  search: string;
  root: number | undefined;
  /** Weight of all that is selected, and the base of its error bars. */
  whole: number;
  effective: number;
  focus: number | undefined;
  /** Nodes from the root of the view to the focus. */
  path: number[];
  setFocus: (node: number | undefined, path: number[]) => void;
  zoom: (root: number | undefined) => void;
}

/** All rows that are not below closed ones. */
function rowsOf(
  children: ReadonlyMap<number | undefined, Loaded>,
  open: ReadonlySet<number>,
  root: number | undefined,
): CallRow[] {
  const rows: CallRow[] = [];
  // A level: the children of a node, and how many of them are done.
  const levels: { parent: number | undefined; loaded: Loaded; at: number }[] = [];
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
        rows.push({ key, depth, open: undefined, child: undefined, more: { parent, count: more } });
      }
      levels.pop();
      continue;
    }
    level.at += 1;
    const isOpen = open.has(child.node);
    rows.push({
      key: child.node,
      depth,
      open: child.children === 0 ? undefined : isOpen,
      place: [level.at, loaded.count],
      child,
      more: undefined,
    });
    if (isOpen) enter(child.node);
  }
  return rows;
}

export function CallsView(props: CallsProps) {
  const { source, series, selection, search, root, whole, effective, path } = props;
  const [children, setChildren] = useState<ReadonlyMap<number | undefined, Loaded>>(new Map());
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const key = `${source.id} ${keyOf(selection)} ${search}`;
  const state = useRef({ key: "", children: new Map<number | undefined, Loaded>() });
  if (state.current.key !== key) state.current = { key, children: new Map() };

  const load = async (node: number | undefined, rows = STEP): Promise<Loaded> => {
    const current = state.current;
    const known = current.children.get(node);
    if (known && (known.rows.length >= rows || known.rows.length === known.count)) return known;
    let loaded: Loaded = known ?? { count: rows, rows: [] };
    while (loaded.rows.length < Math.min(rows, loaded.count)) {
      const first = loaded.rows.length;
      const wanted = Math.min(rows - first, MOST);
      const next = await source.children({ selection, node, search, first, rows: wanted });
      loaded = { count: next.count, rows: [...loaded.rows, ...next.rows] };
      if (next.rows.length === 0) break;
    }
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
        const all = loaded.rows.reduce((sum, row) => sum + row.total, 0);
        if (!first || over || first.total * 2 < all) break;
        heaviest.push(first.node);
        at = first.node;
      }
      if (!over) unfold(heaviest);
    };
    begin().catch(() => setChildren(new Map()));
    return () => {
      over = true;
    };
  }, [key, root]);
  // What has the focus in the flame graph is opened here.
  const steps = path.join(".");
  useEffect(() => {
    const above = path.slice(0, -1).filter((node) => node !== root);
    void Promise.all(above.map((node) => load(node))).then(
      () => unfold(above),
      () => {},
    );
  }, [steps]);

  const toggle = (row: CallRow, wanted: boolean) => {
    const node = row.child?.node;
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
  const rows = useMemo(() => rowsOf(children, open, root), [children, open, root]);
  const columns = columnsOf({ series, whole, effective, callers: selection.callers });
  if (rows.length === 0) return <p class="hint">No calls with this choice.</p>;
  return (
    <TreeGrid
      label={selection.callers ? "Callers, heaviest first" : "Calls, heaviest first"}
      columns={columns}
      rows={rows}
      toggle={toggle}
      selected={props.focus}
      select={(row) => {
        if (row.child) props.setFocus(row.child.node, []);
      }}
      activate={(row) => {
        if (row.child) props.zoom(row.child.node);
        else if (row.more) void load(row.more.parent, Infinity).catch(() => {});
      }}
      height="420px"
    />
  );
}

interface Scale {
  series: Series;
  whole: number;
  effective: number;
  callers: boolean;
}

function columnsOf({ series, whole, effective, callers }: Scale): GridColumn<CallRow>[] {
  const share = (weight: number) => {
    const part = weight / (whole || 1);
    const error = points(series, part, effective);
    return (
      <>
        {percent(part)}
        {error !== "" && <span class="margin">{error}</span>}
      </>
    );
  };
  const columns: GridColumn<CallRow>[] = [
    {
      title: "Method",
      width: "minmax(240px, 1fr)",
      cell: ({ child, more }) => (child ? <Name child={child} /> : <MoreCalls of={more?.count} />),
    },
    {
      title: "Total",
      right: true,
      width: "120px",
      cell: ({ child }) => child && share(child.total),
    },
  ];
  if (!callers) {
    columns.push({
      title: "Self",
      right: true,
      width: "120px",
      cell: ({ child }) => child && share(child.own),
    });
  }
  columns.push({
    title: series.unit === "bytes" ? "Bytes" : series.unit === "count" ? "Number" : "Time",
    right: true,
    width: "96px",
    cell: ({ child }) => child && amount(series, child.total),
  });
  return columns;
}

function Name({ child }: { child: Child }) {
  return (
    <>
      <i
        class="kind"
        aria-hidden="true"
        style={{ background: kindColor(child.function.kind, child.function.id) }}
      />
      <code class={child.hit === 2 ? "name hit" : "name"}>{visible(child.function.name)}</code>
      {child.place !== null && <span class="where"> {visible(fileOf(child.place))}</span>}
    </>
  );
}

function MoreCalls({ of }: { of: number | undefined }) {
  return <span class="weak">{of} lighter ones: press Enter to show them</span>;
}

/** `Cart.cs:12` of `/src/Cart.cs:12`. */
export function fileOf(place: string): string {
  return place.split(/[\\/]/).at(-1) ?? place;
}
