// The flame graph: only visible rows are fetched and drawn, on a canvas that is no taller than its
// place.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { NONE } from "../data/columns";
import { percent, visible } from "../data/format";
import { useQuery } from "../data/query";
import type { Description, Flame, Selection, Series, Source } from "../data/source";
import { fit, once } from "./canvas";
import { boxAt, boxOfNode, coveringBox, neighborBox } from "./flame-boxes";
import { drawFlame, ROW, TOP, type Coloring } from "./flame-draw";
import { onTheme } from "./theme";
import { TipView, type Tip } from "./tip";
import { amount, points, samples } from "./weights";

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
  rows.push([series.calls ? "calls" : "samples", samples(series, flame.samples_of[box]!)]);
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

export function FlameView(props: FlameProps) {
  const { source, selection, root, search, upward, focus } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState({ width: 0, height: 400 });
  const [first, setFirst] = useState(0);
  const [tip, setTip] = useState<Tip>();
  const [spoken, setSpoken] = useState("");
  const [focused, setFocused] = useState(false);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const measure = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);

  const visibleRows = Math.ceil(size.height / ROW);
  const rows = (Math.ceil(visibleRows / STEP) + 2) * STEP;
  const key = `${source.id} ${keyOf(selection)} ${root} ${search} ${size.width} ${first} ${rows}`;
  const query = useQuery(key, (signal) => {
    const width = Math.max(1, Math.round(size.width));
    if (size.width === 0) return new Promise<Flame>(() => {});
    return source.flame({ selection, root, width, top: first, rows, search }, signal);
  });
  // What was shown before stays until the next answer is there.
  const shown = useRef<{ flame: Flame; first: number; root: number | undefined }>(undefined);
  useEffect(() => {
    if (query.data) props.loaded(query.data);
  }, [query.data]);
  if (query.data) shown.current = { flame: query.data, first, root };
  const flame = shown.current?.flame;
  const hover = useRef<number>(undefined);

  const height = flame ? flame.height * ROW + TOP + 4 : 0;
  /** The row at the top of the place, and how far it is scrolled. */
  const geometry = () => ({
    scroll: scroller.current?.scrollTop ?? 0,
    upward,
    levels: flame?.height ?? 0,
    width: size.width,
    height: Math.min(size.height, Math.max(height, ROW)),
  });
  const paint = () => {
    const element = canvas.current;
    if (!element || !flame) return;
    const place = geometry();
    const context = fit(element, place.width, place.height);
    if (!context) return;
    const focusBox = focused && flame ? boxOfNode(flame, focus) : undefined;
    drawFlame(context, flame, {
      ...place,
      searching: search !== "",
      coloring: props.coloring,
      hover: hover.current,
      focus: focusBox,
      callers: selection.callers,
    });
  };
  const latest = useRef(paint);
  latest.current = paint;
  const repaint = useMemo(() => once(() => latest.current()), []);
  useLayoutEffect(() => latest.current());
  useEffect(() => onTheme(() => latest.current()), []);
  useEffect(() => {
    // A new root is looked at from its beginning.
    const element = scroller.current;
    if (element) element.scrollTop = upward ? element.scrollHeight : 0;
    setFirst(0);
  }, [root, keyOf(selection), upward, flame === undefined]);

  const onScroll = () => {
    setTip(undefined);
    const element = scroller.current;
    if (!element || !flame) return;
    const top = Math.floor(element.scrollTop / ROW);
    const row = upward ? Math.max(0, flame.height - top - visibleRows) : top;
    const next = Math.max(0, Math.floor(row / STEP) - 1) * STEP;
    if (next !== first) setFirst(next);
    repaint();
  };
  const pointed = (event: MouseEvent) => {
    const area = canvas.current?.getBoundingClientRect();
    if (!area || !flame) return undefined;
    return boxAt(flame, event.clientX - area.left, event.clientY - area.top, geometry());
  };
  const pathTo = (box: number): number[] => {
    const path: number[] = [];
    if (!flame) return path;
    for (let at: number | undefined = box; at !== undefined; at = coveringBox(flame, at)) {
      if (flame.node[at] !== NONE && flame.merged[at] === 0) path.unshift(flame.node[at]!);
    }
    return path;
  };
  const zoomTo = (box: number) => {
    if (!flame) return;
    let target = box;
    if (flame.merged[box]! > 0) {
      // Merged calls become wider when what calls them does.
      const above = coveringBox(flame, box);
      const isRoot = above === undefined || flame.row[above] === 0 || flame.merged[above]! > 0;
      target = isRoot ? box : above;
    }
    const node = flame.node[target]!;
    const next = node === NONE ? undefined : node;
    props.zoom(next);
    props.setFocus(next, []);
  };
  const moveTo = (box: number | undefined) => {
    if (box === undefined || !flame) return;
    const node = flame.node[box]!;
    props.setFocus(node === NONE ? undefined : node, pathTo(box));
    setSpoken(
      `${nameOf(flame, box, selection)}, ${percent(flame.total_of[box]! / (flame.whole || 1))}`,
    );
    const element = scroller.current;
    if (!element) return;
    const row = upward ? flame.height - 1 - flame.row[box]! : flame.row[box]!;
    const y = row * ROW;
    if (y < element.scrollTop) element.scrollTop = y;
    if (y + ROW + 8 > element.scrollTop + element.clientHeight) {
      element.scrollTop = y + ROW + 8 - element.clientHeight;
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!flame || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = boxOfNode(flame, focus) ?? 0;
    const [down, up] = upward ? ["ArrowUp", "ArrowDown"] : ["ArrowDown", "ArrowUp"];
    switch (event.key) {
      case down:
        moveTo(neighborBox(flame, at, "below"));
        break;
      case up:
        moveTo(coveringBox(flame, at));
        break;
      case "ArrowRight":
        moveTo(neighborBox(flame, at, "right"));
        break;
      case "ArrowLeft":
        moveTo(neighborBox(flame, at, "left"));
        break;
      case "Enter":
      case " ":
        zoomTo(at);
        break;
      case "Backspace": {
        const above = flame.path.at(-2)?.node;
        props.zoom(above);
        props.setFocus(above, []);
        break;
      }
      case "Escape":
        props.zoom(undefined);
        props.setFocus(undefined, []);
        break;
      default:
        return;
    }
    event.preventDefault();
  };
  return (
    <>
      {query.problem && (
        <p class="banner bad" role="alert">
          {visible(query.problem.reason)} {query.problem.next}
        </p>
      )}
      <div class="flame" ref={scroller} onScroll={onScroll} aria-busy={!query.data}>
        <canvas
          ref={canvas}
          tabIndex={0}
          role="application"
          aria-label="Flame graph. Arrow keys move, Enter zooms in, Backspace zooms out, Escape shows all. The call tree below says the same."
          onMouseMove={(event) => {
            const box = pointed(event);
            if (box !== hover.current) {
              hover.current = box;
              repaint();
            }
            setTip(box === undefined || !flame ? undefined : tipOf(props, flame, box, event));
          }}
          onMouseLeave={() => {
            hover.current = undefined;
            setTip(undefined);
            repaint();
          }}
          onClick={(event) => {
            const box = pointed(event);
            if (box !== undefined) zoomTo(box);
          }}
          onFocus={() => setFocused(true)}
          onBlur={() => setFocused(false)}
          onKeyDown={onKeyDown}
        />
        <div style={{ height: `${Math.max(0, height - geometry().height)}px` }} />
      </div>
      <div class="sr" aria-live="polite">
        {visible(spoken)}
      </div>
      <TipView tip={tip} />
    </>
  );
}
