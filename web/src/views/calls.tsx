// The same selection as the flame graph, as a treegrid: for keyboards and readers of the screen.

import { percent, visible } from "../data/format";
import type { Child, Selection, Series, Source } from "../data/source";
import { LazyTree, type LazyTreeProps } from "./lazy-tree";
import { kindColor } from "./palette";
import { keyOf } from "./samples-flame";
import { amount, points } from "./weights";

/** Most children in one answer. */
const MOST = 2000;

export interface CallsProps
  extends Pick<LazyTreeProps<Child>, "root" | "round" | "focus" | "path" | "setFocus" | "zoom"> {
  source: Source;
  series: Series;
  selection: Selection;
  search: string;
  /** Weight of all that is selected, and the base of its error bars. */
  whole: number;
  effective: number;
}

export function CallsView(props: CallsProps) {
  const { source, series, selection, search, whole, effective } = props;
  return (
    <LazyTree
      {...props}
      id={`${source.id} ${keyOf(selection)} ${search}`}
      load={async (node, wanted) => {
        const loaded: Child[] = [];
        let count = wanted;
        while (loaded.length < Math.min(wanted, count)) {
          const first = loaded.length;
          const rows = Math.min(wanted - first, MOST);
          const next = await source.children({ selection, node, search, first, rows });
          count = next.count;
          loaded.push(...next.rows);
          if (next.rows.length === 0) break;
        }
        return { count, rows: loaded };
      }}
      label={selection.callers ? "Callers, heaviest first" : "Calls, heaviest first"}
      empty="No calls with this choice."
      columns={columnsOf({ series, whole, effective, callers: selection.callers })}
      weight={(row) => row.total}
    />
  );
}

interface Scale {
  series: Series;
  whole: number;
  effective: number;
  callers: boolean;
}

function columnsOf({ series, whole, effective, callers }: Scale): LazyTreeProps<Child>["columns"] {
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
  const columns: LazyTreeProps<Child>["columns"] = [
    {
      title: "Method",
      width: "minmax(240px, 1fr)",
      cell: (child) => <Name child={child} />,
    },
    {
      title: "Total",
      right: true,
      width: "120px",
      cell: (child) => share(child.total),
    },
  ];
  if (!callers) {
    columns.push({
      title: "Self",
      right: true,
      width: "120px",
      cell: (child) => share(child.own),
    });
  }
  columns.push({
    title: series.unit === "bytes" ? "Bytes" : series.unit === "count" ? "Number" : "Time",
    right: true,
    width: "96px",
    cell: (child) => amount(series, child.total),
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

/** `Cart.cs:12` of `/src/Cart.cs:12`. */
export function fileOf(place: string): string {
  return place.split(/[\\/]/).at(-1) ?? place;
}
