// Pictures of documents: graphs, values over time, and trees with weights. Nothing here knows what
// they are about.

import { useMemo, useState } from "preact/hooks";
import { inUnit, percent, visible } from "../data/format";
import type { Figure, Values, Weights } from "../data/document";
import type { Child, Description, Flame, Selection } from "../data/source";
import { WeightsTree } from "../data/weights-source";
import { Crumbs } from "./crumbs";
import { GraphView } from "./graph";
import { LazyTree } from "./lazy-tree";
import { SamplesFlame } from "./samples-flame";
import { amount } from "./weights";

export function FigureView({ figure }: { figure: Figure }) {
  const { caption, drawing } = figure;
  const label = visible(caption);
  return (
    <figure class="drawn">
      <figcaption>{label}</figcaption>
      {"graph" in drawing && <GraphView graph={drawing.graph} label={label} />}
      {"series" in drawing && <ValuesView values={drawing.series} />}
      {"weights" in drawing && <WeightsView weights={drawing.weights} label={label} />}
    </figure>
  );
}

/** Values over time as a line. */
export function ValuesView({ values: series }: { values: Values }) {
  const { seconds, values, unit } = series;
  const [first, last] = [seconds[0] ?? 0, seconds.at(-1) ?? 0];
  const high = Math.max(...values, 0);
  const length = Math.max(last - first, 1e-9);
  const points = values.map((value, at) => {
    const x = ((seconds[at]! - first) / length) * 100;
    return [x, 100 - (high > 0 ? value / high : 0) * 100] as const;
  });
  const write = (value: number) => inUnit(value, unit);
  const [begin, end] = [write(values[0] ?? 0), write(values.at(-1) ?? 0)];
  const label = `${visible(series.title)}: ${begin} at first, ${end} at last`;
  return (
    <>
      <div class="growth" role="img" aria-label={label}>
        <span class="high">{write(high)}</span>
        <svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">
          <polyline points={points.map(([x, y]) => `${x.toFixed(2)},${y.toFixed(2)}`).join(" ")} />
          {points.length <= 40 &&
            points.map(([x, y], at) => (
              <line key={at} x1={x} x2={x} y1={y} y2={y} class="point" />
            ))}
        </svg>
        <span class="low">0</span>
        <span class="from">{first.toFixed(1)} s</span>
        <span class="to">{last.toFixed(1)} s</span>
      </div>
      <details class="twin">
        <summary>As a table</summary>
        <div class="scroll" tabIndex={0} role="group" aria-label={`${label}, as a table`}>
          <table class="data">
            <thead>
              <tr>
                <th scope="col" class="n">
                  Second
                </th>
                <th scope="col" class="n">
                  {visible(series.title)}
                </th>
              </tr>
            </thead>
            <tbody>
              {values.slice(0, 500).map((value, at) => (
                <tr key={at}>
                  <td class="n">{seconds[at]!.toFixed(1)}</td>
                  <td class="n">{write(value)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </>
  );
}

const ALL: Selection = {
  profiler: "",
  thread: "",
  states: undefined,
  from: "",
  to: "",
  last: "",
  callers: false,
};

/** Kinds of frames have the colors of all flame graphs. */
const PLAIN: Description = {
  process: "",
  from: 0,
  to: 0,
  warnings: [],
  kinds: [],
  states: [],
  series: [],
  threads: [],
};

/** A tree with weights, as a small flame graph and as a treegrid. */
function WeightsView({ weights, label }: { weights: Weights; label: string }) {
  const tree = useMemo(() => new WeightsTree(weights), [weights]);
  const [root, setRoot] = useState<number>();
  const [focus, setFocus] = useState<{ node: number | undefined; path: number[] }>({
    node: undefined,
    path: [],
  });
  const [flame, setFlame] = useState<Flame>();
  const { series } = tree;
  const shared = {
    root,
    zoom: setRoot,
    focus: focus.node,
    setFocus: (node: number | undefined, path: number[]) => setFocus({ node, path }),
  };
  const share = (row: Child) => percent(row.total / (series.weight || 1));
  return (
    <>
      <div class="small">
        <Crumbs {...{ root }} zoom={setRoot} of={flame} end={flame ? amount(series, flame.total) : ""} />
        <SamplesFlame
          {...shared}
          ask={async (query) => tree.flame(query)}
          id={label}
          description={PLAIN}
          series={series}
          selection={ALL}
          coloring="kind"
          search=""
          upward={false}
          loaded={setFlame}
          label={`${label}, as a flame graph. The tree below says the same.`}
        />
      </div>
      <details class="twin">
        <summary>As a tree</summary>
        <LazyTree
          {...shared}
          id={label}
          path={focus.path}
          load={async (node, rows) => tree.children(node, rows)}
          label={`${label}, as a tree`}
          empty="Nothing."
          weight={(row) => row.total}
          columns={[
            {
              title: weights.noun,
              width: "minmax(180px, 1fr)",
              cell: (row) => <code class="name">{visible(row.function.name)}</code>,
            },
            { title: "share", width: "80px", right: true, cell: share },
            {
              title: "amount",
              width: "96px",
              right: true,
              cell: (row) => amount(series, row.total),
            },
          ]}
        />
      </details>
    </>
  );
}
