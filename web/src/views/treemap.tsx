// A treemap of what retains what: the server lays out the cells that are large enough to be seen, and
// the canvas draws them.

import { useEffect, useRef, useState } from "preact/hooks";
import { NONE } from "../data/columns";
import { bytes, count, counted, percent, visible } from "../data/format";
import type { HeapSource, Treemap } from "../data/heap";
import { useQuery } from "../data/query";
import { fit, fitText, usePaint, useSize } from "./canvas";
import { isDark, typeColor } from "./palette";
import { color } from "./theme";
import { TipView, type Tip } from "./tip";

export interface TreemapProps {
  source: HeapSource;
  /** The object that is as large as the view; `undefined` for all that roots retain. */
  root: number | undefined;
  zoom: (root: number | undefined) => void;
  focus: number | undefined;
  setFocus: (node: number | undefined, path: number[]) => void;
  /** Called with what is shown. */
  loaded: (map: Treemap) => void;
}

/** What a cell is called. */
function nameOf(map: Treemap, cell: number, form: "name" | "short"): string {
  const objects = map.objects[cell]!;
  const type = map.types[map.type[cell]!];
  if (!type || map.type[cell] === NONE) return `${counted(objects, "object")} of other types`;
  return objects > 1 ? `${type[form]} × ${count(objects)}` : type[form];
}

/** The cell above, if there is one. */
function above(map: Treemap, cell: number): number | undefined {
  const up = map.up[cell]!;
  return up === 0 ? undefined : cell - up;
}

/** The innermost cell at a point. */
function cellAt(map: Treemap, x: number, y: number): number | undefined {
  let found: number | undefined;
  // Cells come after those that they are in.
  for (let cell = 0; cell < map.size; cell += 1) {
    const inside = x >= map.x[cell]! && x < map.x[cell]! + map.width[cell]!;
    if (inside && y >= map.y[cell]! && y < map.y[cell]! + map.height[cell]!) found = cell;
  }
  return found;
}

/** The cell that an arrow key moves to: the nearest one of the same cell in that direction. */
function beside(map: Treemap, cell: number, key: string): number | undefined {
  const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[
    key
  ] ?? [0, 0];
  const middle = (at: number) => [map.x[at]! + map.width[at]! / 2, map.y[at]! + map.height[at]! / 2];
  const [x, y] = middle(cell) as [number, number];
  let best: number | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (let other = 0; other < map.size; other += 1) {
    if (other === cell || above(map, other) !== above(map, cell)) continue;
    const [left, top] = middle(other) as [number, number];
    const along = (left - x) * dx! + (top - y) * dy!;
    const across = Math.abs((left - x) * dy!) + Math.abs((top - y) * dx!);
    if (along <= 0.5 || along + across * 2 >= least) continue;
    [best, least] = [other, along + across * 2];
  }
  return best;
}

/** The first cell in a cell. */
function firstIn(map: Treemap, cell: number): number | undefined {
  for (let other = cell + 1; other < map.size; other += 1) {
    if (above(map, other) === cell) return other;
  }
  return undefined;
}

function tipOf(map: Treemap, cell: number, at: MouseEvent): Tip {
  const retained = map.retained[cell]!;
  const rows: [string, string][] = [
    ["retains", `${bytes(retained)}   ${percent(retained / (map.whole || 1))}`],
    [map.objects[cell]! > 1 ? "their own bytes" : "its own bytes", bytes(map.bytes[cell]!)],
  ];
  if (map.children[cell]! > 0) rows.push(["objects right below", count(map.children[cell]!)]);
  const outer = above(map, cell);
  const where = outer === undefined ? [] : [`in ${nameOf(map, outer, "short")}`];
  return { x: at.clientX, y: at.clientY, title: nameOf(map, cell, "name"), where, rows };
}

/** Objects from the root of the view down to a cell. */
function pathTo(map: Treemap, cell: number): number[] {
  const path: number[] = [];
  for (let at: number | undefined = cell; at !== undefined; at = above(map, at)) {
    path.unshift(map.node[at]!);
  }
  return path;
}

export function TreemapView(props: TreemapProps) {
  const { source, root, focus } = props;
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const size = useSize(place);
  const [width, height] = [Math.round(size.width), Math.round(size.height)];
  const query = useQuery(`treemap ${source.id} ${root} ${width} ${height}`, (signal) => {
    // Nothing is visible yet.
    if (width === 0 || height === 0) return new Promise<Treemap>(() => {});
    return source.treemap({ root, width, height }, signal);
  });
  const shown = useRef<Treemap>(undefined);
  if (query.data) shown.current = query.data;
  const map = shown.current;
  useEffect(() => {
    if (query.data) props.loaded(query.data);
  }, [query.data]);
  const [tip, setTip] = useState<Tip>();
  const [focused, setFocused] = useState(false);
  const [spoken, setSpoken] = useState("");
  const hover = useRef<number>(undefined);
  const cellOf = (node: number | undefined): number | undefined => {
    const cell = map && node !== undefined ? map.node.indexOf(node) : -1;
    return cell < 0 ? undefined : cell;
  };
  const repaint = usePaint(() => {
    const element = canvas.current;
    if (!element || !map || width === 0) return;
    const context = fit(element, width, height);
    if (context) draw(context, map, hover.current, focused ? cellOf(focus) : undefined);
  });
  const pointed = (event: MouseEvent) => {
    const area = canvas.current?.getBoundingClientRect();
    return area && map ? cellAt(map, event.clientX - area.left, event.clientY - area.top) : undefined;
  };
  const over = (event: MouseEvent | undefined) => {
    const cell = event && pointed(event);
    if (cell !== hover.current) {
      hover.current = cell;
      repaint();
    }
    setTip(event && map && cell !== undefined ? tipOf(map, cell, event) : undefined);
  };
  const open = (cell: number) => {
    if (!map) return;
    // Objects that are shown together, and those without any below them, have nothing to show.
    const alone = map.children[cell]! > 0 ? cell : above(map, cell);
    if (alone !== undefined && map.node[alone] !== root) props.zoom(map.node[alone]);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!map || map.size === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = cellOf(focus);
    const go = (cell: number | undefined) => {
      if (cell === undefined) return;
      props.setFocus(map.node[cell], pathTo(map, cell));
      setSpoken(`${nameOf(map, cell, "name")}, ${bytes(map.retained[cell]!)}`);
    };
    if (event.key.startsWith("Arrow")) go(at === undefined ? 0 : beside(map, at, event.key));
    else if (event.key === "PageDown") go(at === undefined ? 0 : firstIn(map, at));
    else if (event.key === "PageUp") go(at === undefined ? 0 : above(map, at));
    else if ((event.key === "Enter" || event.key === " ") && at !== undefined) open(at);
    else if (event.key === "Backspace") props.zoom(map.path.at(-2)?.node);
    else if (event.key === "Escape") props.zoom(undefined);
    else return;
    event.preventDefault();
  };
  return (
    <>
      {query.problem && (
        <p class="banner bad" role="alert">
          {visible(query.problem.reason)} {query.problem.next}
        </p>
      )}
      <div class="treemap" ref={place} aria-busy={!query.data}>
        <canvas
          ref={canvas}
          tabIndex={0}
          role="application"
          aria-label="Treemap of what retains what. Arrow keys move, Page down and Page up go into a cell and out of it, Enter zooms in, Backspace zooms out, Escape shows all. The tree below says the same."
          onMouseMove={over}
          onMouseLeave={() => over(undefined)}
          onClick={(event) => {
            const cell = pointed(event);
            if (cell !== undefined) open(cell);
          }}
          onFocus={() => setFocused(true)}
          onBlur={() => setFocused(false)}
          onKeyDown={onKeyDown}
        />
      </div>
      <div class="sr" aria-live="polite">
        {visible(spoken)}
      </div>
      <TipView tip={tip} />
    </>
  );
}

/** Draws all cells: the server sent only those that can be seen. */
function draw(
  g: CanvasRenderingContext2D,
  map: Treemap,
  hover: number | undefined,
  focus: number | undefined,
): void {
  g.font = `12px ${color("--sans")}`;
  g.textBaseline = "middle";
  const ink = isDark() ? "#f2f4f7" : "#1b2330";
  const line = color("--card");
  for (let cell = 0; cell < map.size; cell += 1) {
    const [x, y, width, height] = [map.x[cell]!, map.y[cell]!, map.width[cell]!, map.height[cell]!];
    const type = map.types[map.type[cell]!];
    g.fillStyle = typeColor(type?.name, map.depth[cell]!);
    g.fillRect(x, y, Math.max(width, 1), Math.max(height, 1));
    if (width > 3 && height > 3) {
      g.strokeStyle = line;
      g.lineWidth = 1;
      g.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
    }
    if (width < 40 || height < 15) continue;
    g.fillStyle = ink;
    const name = visible(nameOf(map, cell, "short"));
    g.fillText(fitText(g, name, width - 8), x + 4, y + 10);
    const isLeaf = cell + 1 >= map.size || above(map, cell + 1) !== cell;
    if (isLeaf && height > 34 && map.children[cell] === 0) {
      g.fillText(fitText(g, bytes(map.retained[cell]!), width - 8), x + 4, y + 26);
    }
  }
  for (const [cell, stroke] of [
    [hover, ink],
    [focus, color("--accent")],
  ] as const) {
    if (cell === undefined) continue;
    g.strokeStyle = stroke;
    g.lineWidth = cell === focus ? 3 : 1.5;
    g.strokeRect(map.x[cell]! + 1, map.y[cell]! + 1, map.width[cell]! - 2, map.height[cell]! - 2);
  }
  if (map.size === 0) {
    g.fillStyle = color("--soft");
    g.fillText("It retains nothing but itself.", 12, 24);
  }
}
