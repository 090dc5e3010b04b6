// The flame graph: only visible rows are fetched and drawn, on a canvas that is no taller than its
// place.

import { useEffect, useRef, useState } from "preact/hooks";
import { NONE } from "../data/columns";
import { count, percent, visible } from "../data/format";
import { useQuery } from "../data/query";
import type { Description, Flame, Selection, Series, Source } from "../data/source";
import { fit, usePaint, useSize } from "./canvas";
import { boxAt, boxOfNode, coveringBox, neighborBox, type Place } from "./flame-boxes";
import { drawFlame, ROW, TOP, type Coloring } from "./flame-draw";
import { TipView, type Tip } from "./tip";
import { amount, points } from "./weights";

/** Rows are fetched in steps of so many, so that scrolling asks seldom. */
const STEP = 64;

export interface FlameProps {
  source: Source;
  description: Description;
  series: Series;
  selection: Selection;
  search: string;
  /** The node that is as wide as the view; `undefined` for all. */
  root: number | undefined;
  zoom: (root: number | undefined) => void;
  /** The node that has the focus, and the nodes above it from the root of the view on. */
  focus: number | undefined;
  setFocus: (node: number | undefined, path: number[]) => void;
  /** The root at the bottom, as in a flame graph, instead of at the top, as in an icicle. */
  upward: boolean;
  coloring: Coloring;
  /** Called with what is shown. */
  loaded: (flame: Flame) => void;
}

/** What there is to be said of a box. */
function tipOf(props: FlameProps, flame: Flame, box: number, at: MouseEvent): Tip {
  const { series, description, selection, root } = props;
  const [total, own] = [flame.total_of[box]!, flame.own[box]!];
  const [share, self] = [total / (flame.whole || 1), own / (flame.whole || 1)];
  const fn = flame.functions[flame.function[box]!];
  const where: string[] = [];
  if (fn) {
    where.push(description.kinds[fn.kind] ?? "");
    if (fn.module !== null) where.push(fn.module);
    const place = flame.places[flame.place[box]!];
    if (place !== undefined) where.push(place);
  }
  const error = (of: number) => points(series, of, flame.effective);
  const rows: [string, string][] = [
    ["total", `${percent(share)}${error(share)}   ${amount(series, total)}`],
  ];
  if (!selection.callers && flame.node[box] !== NONE) {
    rows.push(["self", `${percent(self)}${error(self)}   ${amount(series, own)}`]);
  }
  rows.push([series.calls ? "calls" : "samples", count(flame.samples_of[box]!)]);
  if (root !== undefined) rows.push(["of the zoomed frame", percent(total / (flame.total || 1))]);
  const above = coveringBox(flame, box);
  if (above !== undefined && flame.node[above] !== NONE) {
    const name = selection.callers ? "of the callee" : "of the caller";
    rows.push([name, percent(total / (flame.total_of[above]! || 1))]);
  }
  return { x: at.clientX, y: at.clientY, title: nameOf(flame, box, selection), where, rows };
}

/** The full name of a box. */
export function nameOf(flame: Flame, box: number, selection: Selection): string {
  const merged = flame.merged[box]!;
  if (merged > 0) return `${merged} narrow calls, merged`;
  if (flame.node[box] === NONE) {
    return selection.callers ? "all samples, by the method they were in" : "all";
  }
  return flame.functions[flame.function[box]!]?.name ?? "(light calls, folded)";
}

/** Identifies what is selected. */
export function keyOf(selection: Selection): string {
  return JSON.stringify(selection);
}

/** What is shown: the latest answer, also while the next one is on its way. */
function useFlame(props: FlameProps, width: number, first: number, rows: number) {
  const { source, selection, root, search } = props;
  const key = `${source.id} ${keyOf(selection)} ${root} ${search} ${width} ${first} ${rows}`;
  const query = useQuery(key, (signal) => {
    // Nothing is visible yet.
    if (width === 0) return new Promise<Flame>(() => {});
    const pixels = Math.max(1, Math.round(width));
    return source.flame({ selection, root, width: pixels, top: first, rows, search }, signal);
  });
  const shown = useRef<Flame>(undefined);
  if (query.data) shown.current = query.data;
  useEffect(() => {
    if (query.data) props.loaded(query.data);
  }, [query.data]);
  return { flame: shown.current, problem: query.problem, busy: !query.data };
}

/** The box that is as wide as the view after a click on a box. */
function targetOf(flame: Flame, box: number): number {
  if (flame.merged[box] === 0) return box;
  // Merged calls become wider when what calls them does.
  const above = coveringBox(flame, box);
  const isRoot = above === undefined || flame.row[above] === 0 || flame.merged[above]! > 0;
  return isRoot ? box : above;
}

/** Nodes from the root of the view down to a box. */
function pathTo(flame: Flame, box: number): number[] {
  const path: number[] = [];
  for (let at: number | undefined = box; at !== undefined; at = coveringBox(flame, at)) {
    if (flame.node[at] !== NONE && flame.merged[at] === 0) path.unshift(flame.node[at]!);
  }
  return path;
}

const nodeOf = (flame: Flame, box: number) =>
  flame.node[box] === NONE ? undefined : flame.node[box];

/** The box that a key moves to; `undefined` if it is no such key. */
function moved(flame: Flame, at: number, key: string, upward: boolean): number | undefined {
  const [down, up] = upward ? ["ArrowUp", "ArrowDown"] : ["ArrowDown", "ArrowUp"];
  if (key === down) return neighborBox(flame, at, "below") ?? at;
  if (key === up) return coveringBox(flame, at) ?? at;
  if (key === "ArrowRight") return neighborBox(flame, at, "right") ?? at;
  if (key === "ArrowLeft") return neighborBox(flame, at, "left") ?? at;
  return undefined;
}

/** Scrolls so that a row of the graph is in view. */
function reveal(place: HTMLElement | null, row: number): void {
  if (!place) return;
  const y = row * ROW;
  if (y < place.scrollTop) place.scrollTop = y;
  if (y + ROW + 8 > place.scrollTop + place.clientHeight) {
    place.scrollTop = y + ROW + 8 - place.clientHeight;
  }
}

export function FlameView(props: FlameProps) {
  const { selection, root, search, upward, focus } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const size = useSize(scroller);
  const [first, setFirst] = useState(0);
  const visibleRows = Math.ceil(size.height / ROW);
  const rows = (Math.ceil(visibleRows / STEP) + 2) * STEP;
  const { flame, problem, busy } = useFlame(props, size.width, first, rows);
  const [spoken, setSpoken] = useState("");
  const height = flame ? flame.height * ROW + TOP + 4 : 0;
  const place = (): Placed => ({
    scroll: scroller.current?.scrollTop ?? 0,
    upward,
    levels: flame?.height ?? 0,
    width: size.width,
    height: Math.min(size.height, Math.max(height, ROW)),
  });
  useEffect(() => {
    // A new root is looked at from its beginning.
    const element = scroller.current;
    if (element) element.scrollTop = upward ? element.scrollHeight : 0;
    setFirst(0);
  }, [root, keyOf(selection), upward, flame === undefined]);
  const scrolled = () => {
    const element = scroller.current;
    if (!element || !flame) return;
    const top = Math.floor(element.scrollTop / ROW);
    const row = upward ? Math.max(0, flame.height - top - visibleRows) : top;
    setFirst(Math.max(0, Math.floor(row / STEP) - 1) * STEP);
  };
  const zoom = (node: number | undefined) => {
    props.zoom(node);
    props.setFocus(node, []);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!flame || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = boxOfNode(flame, focus) ?? 0;
    const next = moved(flame, at, event.key, upward);
    if (next !== undefined) {
      props.setFocus(nodeOf(flame, next), pathTo(flame, next));
      const share = percent(flame.total_of[next]! / (flame.whole || 1));
      setSpoken(`${nameOf(flame, next, selection)}, ${share}`);
      const row = flame.row[next]!;
      reveal(scroller.current, upward ? flame.height - 1 - row : row);
    } else if (event.key === "Enter" || event.key === " ") {
      zoom(nodeOf(flame, targetOf(flame, at)));
    } else if (event.key === "Backspace") {
      zoom(flame.path.at(-2)?.node);
    } else if (event.key === "Escape") {
      zoom(undefined);
    } else {
      return;
    }
    event.preventDefault();
  };
  return (
    <>
      {problem && (
        <p class="banner bad" role="alert">
          {visible(problem.reason)} {problem.next}
        </p>
      )}
      <div class="flame" ref={scroller} onScroll={scrolled} aria-busy={busy}>
        <FlameCanvas
          {...props}
          flame={flame}
          place={place}
          scroller={scroller}
          click={(box) => flame && zoom(nodeOf(flame, targetOf(flame, box)))}
          onKeyDown={onKeyDown}
          searching={search !== ""}
        />
        <div style={{ height: `${Math.max(0, height - place().height)}px` }} />
      </div>
      <div class="sr" aria-live="polite">
        {visible(spoken)}
      </div>
    </>
  );
}

/** Where the canvas is in the flame graph, and how large. */
interface Placed extends Place {
  width: number;
  height: number;
}

interface CanvasProps extends FlameProps {
  flame: Flame | undefined;
  place: () => Placed;
  scroller: { current: HTMLElement | null };
  click: (box: number) => void;
  onKeyDown: (event: KeyboardEvent) => void;
  searching: boolean;
}

/** The canvas, and what the pointer is on. */
function FlameCanvas(props: CanvasProps) {
  const { flame, place, focus, selection, scroller } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [tip, setTip] = useState<Tip>();
  const [focused, setFocused] = useState(false);
  const hover = useRef<number>(undefined);
  const paint = () => {
    const element = canvas.current;
    if (!element || !flame) return;
    const placed = place();
    const context = fit(element, placed.width, placed.height);
    if (!context) return;
    drawFlame(context, flame, {
      ...placed,
      searching: props.searching,
      coloring: props.coloring,
      hover: hover.current,
      focus: focused ? boxOfNode(flame, focus) : undefined,
      callers: selection.callers,
    });
  };
  const repaint = usePaint(paint);
  useEffect(() => {
    const element = scroller.current;
    const scrolled = () => {
      setTip(undefined);
      repaint();
    };
    element?.addEventListener("scroll", scrolled);
    return () => element?.removeEventListener("scroll", scrolled);
  }, []);
  const pointed = (event: MouseEvent) => {
    const area = canvas.current?.getBoundingClientRect();
    if (!area || !flame) return undefined;
    return boxAt(flame, event.clientX - area.left, event.clientY - area.top, place());
  };
  const over = (event: MouseEvent | undefined) => {
    const box = event && pointed(event);
    if (box !== hover.current) {
      hover.current = box;
      repaint();
    }
    setTip(event && flame && box !== undefined ? tipOf(props, flame, box, event) : undefined);
  };
  return (
    <>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label="Flame graph. Arrow keys move, Enter zooms in, Backspace zooms out, Escape shows all. The call tree below says the same."
        onMouseMove={over}
        onMouseLeave={() => over(undefined)}
        onClick={(event) => {
          const box = pointed(event);
          if (box !== undefined) props.click(box);
        }}
        onFocus={() => setFocused(true)}
        onBlur={() => setFocused(false)}
        onKeyDown={props.onKeyDown}
      />
      <TipView tip={tip} />
    </>
  );
}
