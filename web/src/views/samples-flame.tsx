// The flame graph of samples: what its boxes look like, and what there is to be said of them.

import { NONE } from "../data/columns";
import { count, percent } from "../data/format";
import type { Description, Flame, Selection, Series } from "../data/source";
import { FlameView, nameOf, type FlameLook, type FlameProps } from "./flame";
import { coveringBox } from "./flame-boxes";
import { kindColor, moduleColor } from "./palette";
import type { Tip } from "./tip";
import { amount, points } from "./weights";

export type Coloring = "kind" | "module";

export interface SamplesFlameProps extends Omit<FlameProps<Flame>, "look"> {
  description: Description;
  series: Series;
  selection: Selection;
  coloring: Coloring;
}

/** Identifies what is selected. */
export function keyOf(selection: Selection): string {
  return JSON.stringify(selection);
}

export function SamplesFlame(props: SamplesFlameProps) {
  return <FlameView {...props} look={lookOf(props)} />;
}

function lookOf(props: SamplesFlameProps): FlameLook<Flame> {
  const { coloring, selection } = props;
  return {
    key: coloring,
    fill: (flame, box) => {
      const fn = flame.functions[flame.function[box]!]!;
      return coloring === "module" ? moduleColor(fn.module) : kindColor(fn.kind, fn.id);
    },
    all: allOf(selection),
    // A call to which the view is zoomed may have no samples in a part of the time.
    isEmpty: (flame) => flame.total === 0,
    tip: (flame, box, at) => tipOf(props, flame, box, at),
    spoken: (flame, box) => percent(flame.total_of[box]! / (flame.whole || 1)),
  };
}

function allOf(selection: Selection): string {
  return selection.callers ? "all samples, by the method they were in" : "all";
}

/** What there is to be said of a box. */
function tipOf(props: SamplesFlameProps, flame: Flame, box: number, at: MouseEvent): Tip {
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
  // Where weights are all that is known, there are no samples.
  if (flame.samples > 0) rows.push([series.calls ? "calls" : "samples", count(flame.samples_of[box]!)]);
  if (root !== undefined) rows.push(["of the zoomed frame", percent(total / (flame.total || 1))]);
  const above = coveringBox(flame, box);
  if (above !== undefined && flame.node[above] !== NONE) {
    const name = selection.callers ? "of the callee" : "of the caller";
    rows.push([name, percent(total / (flame.total_of[above]! || 1))]);
  }
  const title = nameOf(flame, box, allOf(selection));
  return { x: at.clientX, y: at.clientY, title, where, rows };
}
