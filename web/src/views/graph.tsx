// Things and how they lead to each other, on a canvas that is no larger than its place: only what is
// visible is drawn. A table beside it says the same.

import { useRef, useState } from "preact/hooks";
import type { Graph, GraphNode } from "../data/document";
import { count, visible } from "../data/format";
import { fit, fitText, usePaint, useSize, widthOf } from "./canvas";
import { color } from "./theme";
import { TipView, type Tip } from "./tip";

/** Height of a node and of the space between rows, in pixels. */
const NODE = 44;
const GAP = 42;

/** Least and greatest width of a node, and the space beside it. */
const WIDE = [116, 320] as const;
const SIDE = 18;

/** Pixels for edges that lead back, at the right. */
const BACK = 26;

/** Rows of the table that are shown at first, and that a click adds. */
const STEP = 100;

/** Where things are. */
interface Layout {
  width: number;
  height: number;
  node: number;
  x: (node: GraphNode) => number;
  y: (node: GraphNode) => number;
}

function layOut(graph: Graph, room: number): Layout {
  const columns = Math.max(graph.columns, 1);
  const hasBack = graph.edges.some(({ from, to }) => graph.nodes[to]!.row <= graph.nodes[from]!.row);
  const beside = hasBack ? BACK : 0;
  const each = (room - beside - SIDE) / columns - SIDE;
  const node = Math.max(Math.min(each, WIDE[1]), WIDE[0]);
  const inner = columns * (node + SIDE) + SIDE;
  const left = Math.max(0, (room - beside - inner) / 2);
  return {
    width: Math.max(room, inner + beside),
    height: graph.rows * (NODE + GAP) - GAP + 20,
    node,
    x: ({ column }) => left + SIDE + column * (node + SIDE),
    y: ({ row }) => 10 + row * (NODE + GAP),
  };
}

/** What is visible of a canvas. */
interface Window {
  left: number;
  top: number;
  width: number;
  height: number;
}

export function GraphView({ graph, label }: { graph: Graph; label: string }) {
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const size = useSize(scroller);
  const [tip, setTip] = useState<Tip>();
  const layout = layOut(graph, size.width);
  const window_ = (): Window => {
    const place = scroller.current;
    return {
      left: place?.scrollLeft ?? 0,
      top: place?.scrollTop ?? 0,
      width: size.width,
      height: Math.min(size.height, layout.height),
    };
  };
  const repaint = usePaint(() => {
    const element = canvas.current;
    if (!element || size.width === 0) return;
    const view = window_();
    const context = fit(element, view.width, view.height);
    if (context) draw(context, graph, layout, view);
  });
  const over = (event: MouseEvent) => {
    const area = canvas.current?.getBoundingClientRect();
    if (!area) return;
    const view = window_();
    const [x, y] = [event.clientX - area.left + view.left, event.clientY - area.top + view.top];
    const node = graph.nodes.find((own) => {
      const [left, top] = [layout.x(own), layout.y(own)];
      return x >= left && x < left + layout.node && y >= top && y < top + NODE;
    });
    setTip(node && tipOf(graph, node, event));
  };
  return (
    <>
      <div
        class="graph"
        ref={scroller}
        tabIndex={0}
        role="group"
        aria-label={label}
        onScroll={() => {
          setTip(undefined);
          repaint();
        }}
      >
        <div style={{ width: `${layout.width}px`, height: `${layout.height}px` }}>
          <canvas
            ref={canvas}
            role="img"
            aria-label={`${label}: ${count(graph.nodes.length)} things. The table below says the same.`}
            onMouseMove={over}
            onMouseLeave={() => setTip(undefined)}
          />
        </div>
      </div>
      <EdgeTable graph={graph} label={label} />
      <TipView tip={tip} />
    </>
  );
}

function tipOf(graph: Graph, node: GraphNode, at: MouseEvent): Tip {
  const index = graph.nodes.indexOf(node);
  const name = (other: number) => graph.nodes[other]?.forms[0] ?? "";
  const rows: [string, string][] = [];
  for (const { from, to, label } of graph.edges.slice(0, 5000)) {
    if (from === index && rows.length < 12) rows.push([label || "to", name(to)]);
  }
  const where = node.note === "" ? [] : [node.note];
  return { x: at.clientX, y: at.clientY, title: node.forms[0] ?? "", where, rows };
}

/** The same in words. */
function EdgeTable({ graph, label }: { graph: Graph; label: string }) {
  const [most, setMost] = useState(STEP);
  const name = (index: number) => {
    const node = graph.nodes[index];
    return (
      <>
        <code class="name">{visible(node?.forms[0] ?? "")}</code>
        {node && node.note !== "" && <span class="where"> {visible(node.note)}</span>}
      </>
    );
  };
  const alone = graph.edges.length === 0;
  return (
    <details class="twin">
      <summary>As a table</summary>
      <div class="scroll" tabIndex={0} role="group" aria-label={`${label}, as a table`}>
        <table class="data">
          <thead>
            <tr>
              <th scope="col">From</th>
              <th scope="col">How</th>
              <th scope="col">To</th>
            </tr>
          </thead>
          <tbody>
            {alone &&
              graph.nodes.map((_, index) => (
                <tr key={index}>
                  <td class="fn">{name(index)}</td>
                  <td />
                  <td />
                </tr>
              ))}
            {graph.edges.slice(0, most).map(({ from, to, label: how }, index) => (
              <tr key={index}>
                <td class="fn">{name(from)}</td>
                <td>{visible(how)}</td>
                <td class="fn">{name(to)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {graph.edges.length > most && (
        <p class="hint">
          <button class="plain" onClick={() => setMost(most + STEP * 5)}>
            Show more
          </button>{" "}
          {count(graph.edges.length - most)} rows are not shown
        </p>
      )}
    </details>
  );
}

/** Draws what is visible. */
function draw(g: CanvasRenderingContext2D, graph: Graph, layout: Layout, view: Window): void {
  g.save();
  g.translate(-view.left, -view.top);
  g.font = `12px ${color("--sans")}`;
  g.textBaseline = "middle";
  const [ink, soft, line] = [color("--ink"), color("--soft"), color("--faint")];
  g.lineWidth = 1.25;
  const labels: [string, number, number][] = [];
  for (const { from, to, label } of graph.edges) {
    const [one, other] = [graph.nodes[from]!, graph.nodes[to]!];
    const [top, bottom] = [Math.min(layout.y(one), layout.y(other)), Math.max(layout.y(one), layout.y(other))];
    if (bottom + NODE < view.top || top > view.top + view.height) continue;
    g.strokeStyle = line;
    g.fillStyle = line;
    const middle = edge(g, layout, one, other);
    if (label !== "") labels.push([visible(label), ...middle]);
  }
  for (const node of graph.nodes) {
    const [x, y] = [layout.x(node), layout.y(node)];
    if (y + NODE < view.top || y > view.top + view.height) continue;
    if (x + layout.node < view.left || x > view.left + view.width) continue;
    box(g, node, x, y, layout.node);
    const room = layout.node - 16;
    const name = node.forms.find((form) => widthOf(g, visible(form)) <= room) ?? node.forms.at(-1) ?? "";
    g.fillStyle = ink;
    g.fillText(fitText(g, visible(name), room), x + 8, y + (node.note === "" ? NODE / 2 : 15));
    g.fillStyle = soft;
    if (node.note !== "") g.fillText(fitText(g, visible(node.note), room), x + 8, y + 31);
  }
  const back = color("--card");
  for (const [text, x, y] of labels) {
    const shown = fitText(g, text, Math.max(layout.node - 8, 60));
    const wide = widthOf(g, shown);
    const left = Math.min(Math.max(x - wide / 2, 2), layout.width - wide - 4);
    g.fillStyle = back;
    g.fillRect(left - 3, y - 8, wide + 6, 16);
    g.fillStyle = soft;
    g.fillText(shown, left, y);
  }
  g.restore();
}

function box(g: CanvasRenderingContext2D, node: GraphNode, x: number, y: number, wide: number): void {
  const stands = node.kind === 1;
  g.fillStyle = color(stands ? "--accent-soft" : node.kind === 2 ? "--hover" : "--card");
  g.strokeStyle = color(stands ? "--accent" : "--faint");
  g.lineWidth = stands ? 2 : 1;
  g.setLineDash(node.kind === 2 ? [4, 3] : []);
  g.beginPath();
  g.roundRect(x, y, wide, NODE, 7);
  g.fill();
  g.stroke();
  g.setLineDash([]);
}

/** An arrow; gives the place of its label. */
function edge(
  g: CanvasRenderingContext2D,
  layout: Layout,
  from: GraphNode,
  to: GraphNode,
): [number, number] {
  const half = layout.node / 2;
  g.beginPath();
  if (to.row > from.row) {
    const [x1, y1] = [layout.x(from) + half, layout.y(from) + NODE];
    const [x2, y2] = [layout.x(to) + half, layout.y(to)];
    const bend = (y2 - y1) / 2;
    g.moveTo(x1, y1);
    g.bezierCurveTo(x1, y1 + bend, x2, y2 - bend, x2, y2 - 5);
    g.stroke();
    head(g, x2, y2, 0, 1);
    // Behind the middle, so that the labels of edges from one node stand apart.
    const part = 0.6;
    const rest = 1 - part;
    const x = x1 * rest ** 3 + 3 * x1 * rest ** 2 * part + 3 * x2 * rest * part ** 2 + x2 * part ** 3;
    return [x, y1 + (y2 - y1) * part];
  }
  // It leads back: around everything, at the right.
  const [x1, y1] = [layout.x(from) + layout.node, layout.y(from) + NODE / 2];
  const [x2, y2] = [layout.x(to) + layout.node, layout.y(to) + NODE / 2];
  const right = Math.max(x1, x2) + BACK - 8;
  g.moveTo(x1, y1);
  g.bezierCurveTo(right + 8, y1, right, y1, right, y1 - 12);
  g.lineTo(right, y2 + 12);
  g.bezierCurveTo(right, y2, right + 8, y2, x2 + 5, y2);
  g.stroke();
  head(g, x2, y2, -1, 0);
  return [right, (y1 + y2) / 2];
}

/** The head of an arrow that comes in this direction. */
function head(g: CanvasRenderingContext2D, x: number, y: number, dx: number, dy: number): void {
  g.beginPath();
  g.moveTo(x, y);
  g.lineTo(x - dx * 8 - dy * 4, y - dy * 8 - dx * 4);
  g.lineTo(x - dx * 8 + dy * 4, y - dy * 8 + dx * 4);
  g.fill();
}
