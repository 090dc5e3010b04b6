// The flame graph: only visible rows are fetched and drawn, on a canvas that is no taller than its
// place.

import { useEffect, useRef, useState } from "preact/hooks";
import { NONE } from "../data/columns";
import { visible } from "../data/format";
import { useQuery } from "../data/query";
import type { BoxQuery, FlameBoxes } from "../data/source";
import { fit, usePaint, useSize } from "./canvas";
import { boxAt, boxOfNode, coveringBox, neighborBox, type Place } from "./flame-boxes";
import { drawFlame, ROW, TOP, type BoxLook } from "./flame-draw";
import { TipView, type Tip } from "./tip";

/** How many rows are fetched at a time, so that scrolling asks seldom. */
const STEP = 64;

/** What boxes look like, and what there is to be said of them. */
export interface FlameLook<F extends FlameBoxes> extends BoxLook<F> {
  tip: (flame: F, box: number, at: MouseEvent) => Tip;
  /** What a reader of the screen hears of a box, behind its name. */
  spoken: (flame: F, box: number) => string;
}

export interface FlameProps<F extends FlameBoxes> {
  /** What is shown: with another one, the view begins at its beginning. */
  id: string;
  /** With another one, the same is asked again, and the view stays. */
  round?: number;
  ask: (query: BoxQuery, signal: AbortSignal) => Promise<F>;
  look: FlameLook<F>;
  /** Its name, and where the same is said in words. */
  label: string;
  search: string;
  /** The node that is as wide as the view; `undefined` for all. */
  root: number | undefined;
  zoom: (root: number | undefined) => void;
  /** The node that has the focus, and the nodes above it from the root of the view on. */
  focus: number | undefined;
  setFocus: (node: number | undefined, path: number[]) => void;
  /** The root at the bottom, as in a flame graph, instead of at the top, as in an icicle. */
  upward: boolean;
  /** Called with what is shown. */
  loaded: (flame: F) => void;
}

/** The full name of a box. */
export function nameOf(flame: FlameBoxes, box: number, all: string): string {
  const merged = flame.merged[box]!;
  if (merged > 0) return `${merged} narrow calls, merged`;
  if (flame.node[box] === NONE) return all;
  return flame.functions[flame.function[box]!]?.name ?? "(light calls, folded)";
}

/** What is shown: the latest answer, also while the next one is on its way. */
function useFlame<F extends FlameBoxes>(
  props: FlameProps<F>,
  width: number,
  first: number,
  rows: number,
) {
  const { id, root, search, round = 0 } = props;
  const key = `${id} ${root} ${search} ${width} ${first} ${rows} ${round}`;
  const query = useQuery(key, (signal) => {
    // Nothing is visible yet.
    if (width === 0) return new Promise<F>(() => {});
    const pixels = Math.max(1, Math.round(width));
    return props.ask({ root, width: pixels, top: first, rows, search }, signal);
  });
  const shown = useRef<F>(undefined);
  if (query.data) shown.current = query.data;
  useEffect(() => {
    if (query.data) props.loaded(query.data);
  }, [query.data]);
  return { flame: shown.current, problem: query.problem, busy: !query.data };
}

/** The box that is as wide as the view after a click on a box. */
function targetOf(flame: FlameBoxes, box: number): number {
  if (flame.merged[box] === 0) return box;
  // Merged calls become wider when what calls them does.
  const above = coveringBox(flame, box);
  const isRoot = above === undefined || flame.row[above] === 0 || flame.merged[above]! > 0;
  return isRoot ? box : above;
}

/** Nodes from the root of the view down to a box. */
function pathTo(flame: FlameBoxes, box: number): number[] {
  const path: number[] = [];
  for (let at: number | undefined = box; at !== undefined; at = coveringBox(flame, at)) {
    if (flame.node[at] !== NONE && flame.merged[at] === 0) path.unshift(flame.node[at]!);
  }
  return path;
}

const nodeOf = (flame: FlameBoxes, box: number) =>
  flame.node[box] === NONE ? undefined : flame.node[box];

/** The box that a key moves to; `undefined` if it is no such key. */
function moved(flame: FlameBoxes, at: number, key: string, upward: boolean): number | undefined {
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

export function FlameView<F extends FlameBoxes>(props: FlameProps<F>) {
  const { id, root, search, upward, focus, look } = props;
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
  }, [root, id, upward, flame === undefined]);
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
      setSpoken(`${nameOf(flame, next, look.all)}, ${look.spoken(flame, next)}`);
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

interface CanvasProps<F extends FlameBoxes> extends FlameProps<F> {
  flame: F | undefined;
  place: () => Placed;
  scroller: { current: HTMLElement | null };
  click: (box: number) => void;
  onKeyDown: (event: KeyboardEvent) => void;
  searching: boolean;
}

/** The canvas, and what the pointer is on. */
function FlameCanvas<F extends FlameBoxes>(props: CanvasProps<F>) {
  const { flame, place, focus, look, scroller } = props;
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
      look,
      hover: hover.current,
      focus: focused ? boxOfNode(flame, focus) : undefined,
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
    setTip(event && flame && box !== undefined ? look.tip(flame, box, event) : undefined);
  };
  return (
    <>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={`${props.label} Arrow keys move, Enter zooms in, Backspace zooms out, Escape shows all.`}
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
