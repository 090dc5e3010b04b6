// A tree of rows with columns, as the treegrid of WAI-ARIA: the arrow keys move and open, Home, End
// and the page keys jump, Enter activates, * opens all siblings. Only rows that are in view are in
// the page, so there may be very many.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

/** Height of a row in pixels; style.css has the same. */
export const ROW_HEIGHT = 26;

/** Rows beyond the edges that are in the page as well, so that scrolling shows no gaps. */
const BEYOND = 12;

/** Levels that are indented; deeper ones are not, and their number is shown instead. */
const MOST_INDENT = 24;

/** A row that is not hidden below a closed one. */
export interface GridRow {
  key: string | number;
  /** How many rows it stands below. */
  depth: number;
  /** Whether its children are shown; `undefined` if it has none. */
  open: boolean | undefined;
  /** Its number among its siblings, from 1, and how many they are; left out where not known. */
  place?: readonly [number, number];
}

export interface GridColumn<Row> {
  title: string;
  /** Whether its cells stand at the right, as numbers do. */
  right?: boolean;
  /** Width, as in `grid-template-columns`. */
  width: string;
  cell: (row: Row) => ComponentChildren;
}

export interface TreeGridProps<Row extends GridRow> {
  /** What it is a tree of, for those who do not see it. */
  label: string;
  /** The first column is the tree itself. */
  columns: GridColumn<Row>[];
  /** All rows that are not hidden below closed ones, from top to bottom. */
  rows: readonly Row[];
  /** Opens or closes a row. */
  toggle: (row: Row, open: boolean) => void;
  /** What Enter and a double click do. */
  activate?: ((row: Row) => void) | undefined;
  /** The key of the row that is selected. */
  selected?: string | number | undefined;
  select?: ((row: Row) => void) | undefined;
  /** Height at most, such as `60vh`. */
  height?: string;
}

/** The index of the row that a row stands below; -1 if there is none. */
function parentOf(rows: readonly GridRow[], index: number): number {
  const depth = rows[index]?.depth ?? 0;
  for (let above = index - 1; above >= 0; above -= 1) {
    if ((rows[above]?.depth ?? 0) < depth) return above;
  }
  return -1;
}

export function TreeGrid<Row extends GridRow>(props: TreeGridProps<Row>) {
  const { columns, rows, label, toggle, activate, selected, select, height = "60vh" } = props;
  const body = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const [active, setActive] = useState(0);
  const [focusing, setFocusing] = useState(0);
  const current = Math.min(active, Math.max(rows.length - 1, 0));

  useLayoutEffect(() => {
    const element = body.current;
    if (!element) return;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  // The row that is selected elsewhere, such as in a flame graph, comes into view.
  useEffect(() => {
    const index = selected === undefined ? -1 : rows.findIndex((row) => row.key === selected);
    if (index >= 0 && index !== current) {
      setActive(index);
      reveal(body.current, index);
    }
  }, [selected]);
  useLayoutEffect(() => {
    if (focusing === 0) return;
    const row = body.current?.querySelector<HTMLElement>('[role="row"][tabindex="0"]');
    row?.focus({ preventScroll: true });
    // The page scrolls, too, where the tree is higher than what is seen of it.
    row?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [focusing]);

  // Rows may come and go above the one that has the focus, and change their order.
  const kept = useRef<{ rows: readonly Row[]; active: number; key: GridRow["key"] | undefined }>({
    rows,
    active,
    key: rows[current]?.key,
  });
  const held = useRef(false);
  held.current ||= body.current?.contains(document.activeElement) ?? false;
  useLayoutEffect(() => {
    const isSame = kept.current.rows === rows || kept.current.active !== active;
    const index = isSame ? -1 : rows.findIndex((row) => row.key === kept.current.key);
    if (index >= 0 && index !== current) {
      setActive(index);
      return;
    }
    kept.current = { rows, active, key: rows[current]?.key };
    if (held.current && !body.current?.contains(document.activeElement)) {
      const row = body.current?.querySelector<HTMLElement>('[role="row"][tabindex="0"]');
      row?.focus({ preventScroll: true });
    }
    held.current = false;
  });

  const move = (index: number) => {
    const target = Math.min(Math.max(index, 0), rows.length - 1);
    const row = rows[target];
    if (!row) return;
    setActive(target);
    reveal(body.current, target);
    setFocusing((before) => before + 1);
    select?.(row);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (press(event.key, { rows, current, page: pageOf(view.height), move, toggle, activate })) {
      event.preventDefault();
      event.stopPropagation();
    }
  };
  const first = Math.max(Math.floor(view.top / ROW_HEIGHT) - BEYOND, 0);
  const last = Math.min(Math.ceil((view.top + view.height) / ROW_HEIGHT) + BEYOND, rows.length);
  const indexes = useMemo(() => {
    const list = Array.from({ length: Math.max(last - first, 0) }, (_, at) => first + at);
    // The row that has the focus stays in the page when it is scrolled out of view.
    if (rows.length > 0 && (current < first || current >= last)) list.push(current);
    return list;
  }, [first, last, current, rows.length]);
  const template = columns.map((column) => column.width).join(" ");
  return (
    <div
      class="treegrid"
      role="treegrid"
      aria-label={label}
      aria-rowcount={rows.length + 1}
      aria-colcount={columns.length}
    >
      <div role="rowgroup" class="head">
        <div role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
          {columns.map((column, at) => (
            <span key={at} role="columnheader" class={column.right ? "n" : undefined}>
              {column.title}
            </span>
          ))}
        </div>
      </div>
      <div
        role="rowgroup"
        class="body"
        ref={body}
        style={{ maxHeight: height, height: `${rows.length * ROW_HEIGHT}px` }}
        onScroll={(event) => {
          const { scrollTop, clientHeight } = event.currentTarget;
          setView({ top: scrollTop, height: clientHeight });
        }}
        onKeyDown={onKeyDown}
      >
        <div role="none" class="all" style={{ height: `${rows.length * ROW_HEIGHT}px` }}>
          {indexes.map((index) => {
            const row = rows[index];
            return (
              row && (
                <RowView
                  key={row.key}
                  row={row}
                  index={index}
                  columns={columns}
                  template={template}
                  active={index === current}
                  selected={row.key === selected}
                  onClick={() => move(index)}
                  onToggle={() => toggle(row, row.open === false)}
                  onActivate={() => activate?.(row)}
                />
              )
            );
          })}
        </div>
      </div>
    </div>
  );
}

function pageOf(height: number): number {
  return Math.max(Math.floor(height / ROW_HEIGHT) - 1, 1);
}

/** Scrolls so that a row is in view. */
function reveal(body: HTMLElement | null, index: number): void {
  if (!body) return;
  const top = index * ROW_HEIGHT;
  if (top < body.scrollTop) body.scrollTop = top;
  else if (top + ROW_HEIGHT > body.scrollTop + body.clientHeight) {
    body.scrollTop = top + ROW_HEIGHT - body.clientHeight;
  }
}

interface Keys<Row extends GridRow> {
  rows: readonly Row[];
  current: number;
  page: number;
  move: (index: number) => void;
  toggle: (row: Row, open: boolean) => void;
  activate: ((row: Row) => void) | undefined;
}

/** Does what a key means; whether it means something. */
function press<Row extends GridRow>(key: string, keys: Keys<Row>): boolean {
  const { rows, current, page, move, toggle, activate } = keys;
  const row = rows[current];
  if (!row) return false;
  switch (key) {
    case "ArrowDown":
      move(current + 1);
      return true;
    case "ArrowUp":
      move(current - 1);
      return true;
    case "ArrowRight":
      if (row.open === false) toggle(row, true);
      else if (row.open === true) move(current + 1);
      return true;
    case "ArrowLeft":
      if (row.open === true) toggle(row, false);
      else move(Math.max(parentOf(rows, current), 0));
      return true;
    case "Home":
      move(0);
      return true;
    case "End":
      move(rows.length - 1);
      return true;
    case "PageDown":
      move(current + page);
      return true;
    case "PageUp":
      move(current - page);
      return true;
    case "Enter":
      if (activate) activate(row);
      else if (row.open !== undefined) toggle(row, !row.open);
      return true;
    case "*":
      for (const sibling of siblingsOf(rows, current)) toggle(sibling, true);
      return true;
    default:
      return false;
  }
}

/** The closed rows with the same parent. */
function siblingsOf<Row extends GridRow>(rows: readonly Row[], index: number): Row[] {
  const depth = rows[index]?.depth ?? 0;
  const found: Row[] = [];
  for (let at = parentOf(rows, index) + 1; at < rows.length; at += 1) {
    const row = rows[at];
    if (!row || row.depth < depth) break;
    if (row.depth === depth && row.open === false) found.push(row);
  }
  return found;
}

interface RowProps<Row extends GridRow> {
  row: Row;
  index: number;
  columns: GridColumn<Row>[];
  template: string;
  active: boolean;
  selected: boolean;
  onClick: () => void;
  onToggle: () => void;
  onActivate: () => void;
}

function RowView<Row extends GridRow>(props: RowProps<Row>) {
  const { row, index, columns, template, active, selected, onToggle } = props;
  const indent = Math.min(row.depth, MOST_INDENT) * 14;
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      aria-level={row.depth + 1}
      aria-expanded={row.open}
      aria-posinset={row.place?.[0]}
      aria-setsize={row.place?.[1]}
      aria-selected={selected ? "true" : undefined}
      tabIndex={active ? 0 : -1}
      style={{ top: `${index * ROW_HEIGHT}px`, gridTemplateColumns: template }}
      onClick={props.onClick}
      onDblClick={props.onActivate}
    >
      {columns.map((column, at) => (
        <span
          key={at}
          role="gridcell"
          class={column.right ? "n" : undefined}
          style={at === 0 ? { paddingLeft: `${indent}px` } : undefined}
        >
          {at === 0 && (
            <span
              class={row.open === undefined ? "twist none" : "twist"}
              aria-hidden="true"
              onClick={(event) => {
                event.stopPropagation();
                if (row.open !== undefined) onToggle();
              }}
            >
              {row.open === undefined ? "" : row.open ? "▾" : "▸"}
            </span>
          )}
          {at === 0 && row.depth > MOST_INDENT && <span class="weak">{row.depth} </span>}
          {column.cell(row)}
        </span>
      ))}
    </div>
  );
}
