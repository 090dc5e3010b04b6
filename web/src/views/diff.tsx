// The samples of two sessions: a differential flame graph, its call tree, and functions sorted by
// how they changed.

import { useState } from "preact/hooks";
import type {
  Change,
  ChangedFunction,
  ComparedSeries,
  ComparisonSource,
  DiffFlame,
  DiffRow,
  Overview,
  Pair,
} from "../data/comparison";
import { NONE } from "../data/columns";
import { bytes, duration, number, percent, visible } from "../data/format";
import { useQuery } from "../data/query";
import { fileOf } from "./calls";
import { useThemed } from "./canvas";
import { Crumbs } from "./crumbs";
import { FlameView, nameOf, type FlameLook } from "./flame";
import { LazyTree } from "./lazy-tree";
import { More } from "./more";
import { CHANGES, changeColor } from "./palette";
import { useKept } from "./state";
import type { Tip } from "./tip";

/** Rows that are shown at first, and that a click adds. */
const STEP = 100;

export interface DiffProps {
  source: ComparisonSource;
  overview: Overview;
  series: ComparedSeries;
  search: string;
}

/** An amount with its unit. */
export function written(series: ComparedSeries, amount: number): string {
  switch (series.unit) {
    case "share":
      return percent(amount);
    case "bytes":
      return bytes(Math.round(amount));
    case "nanoseconds":
      return duration(amount);
    case "count":
      return number(amount);
  }
}

/** What amounts are related to, behind one. */
export function per({ per: basis }: Overview): string {
  if (basis === "total") return "of all samples";
  return basis === "run" ? "per run" : "per second";
}

/** How much more or less, as a share of what there was. */
function relative([before, after]: Pair): string {
  if (before === 0) return after === 0 ? "±0 %" : "new";
  if (after === 0) return "gone";
  const change = after / before - 1;
  return `${change < 0 ? "−" : "+"}${percent(Math.abs(change))}`;
}

/** From -1 for gone to 1 for new. */
function sizeOf([before, after]: Pair): number {
  return (after - before) / (Math.max(before, after) || 1);
}

const WORDS = {
  changed: "changed",
  "within-noise": "can be noise",
  "too-few": "too few samples",
  "not-comparable": "not comparable",
} as const;

/** How certain a change is. */
export function wordOf(change: Change): string {
  return WORDS[change.significance];
}

function isCertain(fn: ChangedFunction | undefined): boolean {
  return fn?.total.significance === "changed" || fn?.self.significance === "changed";
}

const pairOf = (flame: DiffFlame, box: number): Pair => [
  flame.before_total[box]!,
  flame.after_total[box]!,
];

function lookOf(props: DiffProps): FlameLook<DiffFlame> {
  return {
    key: "change",
    fill: (flame, box) => {
      const fn = flame.functions[flame.function[box]!];
      return changeColor(sizeOf(pairOf(flame, box)), isCertain(fn));
    },
    // Colors alone do not say it.
    mark: (flame, box) => {
      const fn = flame.functions[flame.function[box]!];
      const pair = pairOf(flame, box);
      if (!isCertain(fn) || pair[0] === pair[1]) return "";
      return `${pair[1] > pair[0] ? "▲" : "▼"} ${relative(pair)}`;
    },
    all: "all",
    isEmpty: (flame) => flame.whole[0] + flame.whole[1] === 0,
    tip: (flame, box, at) => tipOf(props, flame, box, at),
    spoken: (flame, box) => {
      const pair = pairOf(flame, box);
      const fn = flame.functions[flame.function[box]!];
      const how = fn ? `, ${wordOf(fn.total)}` : "";
      return `${shares(flame, pair)}, ${relative(pair)}${how}`;
    },
  };
}

/** `12.0 % before, 20.0 % after`. */
function shares(flame: DiffFlame, [before, after]: Pair): string {
  const part = (amount: number, whole: number) => percent(amount / (whole || 1));
  return `${part(before, flame.whole[0])} before, ${part(after, flame.whole[1])} after`;
}

function interval(change: Change): string {
  const { relative_low: low, relative_high: high } = change;
  if (low === null || high === null) return "";
  const signed = (share: number) => `${share < 0 ? "−" : "+"}${percent(Math.abs(share))}`;
  return `${signed(low)} to ${signed(high)}`;
}

function tipOf(props: DiffProps, flame: DiffFlame, box: number, at: MouseEvent): Tip {
  const { series, overview } = props;
  const fn = flame.functions[flame.function[box]!];
  const pair = pairOf(flame, box);
  const [before, after] = pair;
  const own: Pair = [flame.before_self[box]!, flame.after_self[box]!];
  const share = (amount: number, side: 0 | 1) =>
    series.unit === "share" ? "" : `${percent(amount / (flame.whole[side] || 1))}   `;
  const rows: [string, string][] = [
    ["before", `${share(before, 0)}${written(series, before)} ${per(overview)}`],
    ["after", `${share(after, 1)}${written(series, after)} ${per(overview)}`],
    ["difference", `${relative(pair)}   ${difference(series, pair)}`],
  ];
  if (flame.node[box] !== NONE) {
    const [selfBefore, selfAfter] = [written(series, own[0]), written(series, own[1])];
    rows.push(["itself", `${selfBefore} → ${selfAfter}   ${relative(own)}`]);
  }
  if (fn) {
    const range = interval(fn.total);
    rows.push(["the method in all calls", `${wordOf(fn.total)}${range && `, ${range}`}`]);
  }
  const where: string[] = [];
  if (fn) {
    where.push(overview.kinds[fn.kind] ?? "");
    if (fn.module !== null) where.push(fn.module);
    if (fn.place !== null) where.push(fn.place);
  }
  return { x: at.clientX, y: at.clientY, title: nameOf(flame, box, "all"), where, rows };
}

/** An amount more or less. */
function difference(series: ComparedSeries, [before, after]: Pair): string {
  const change = after - before;
  if (change === 0) return "0";
  return `${change < 0 ? "−" : "+"}${written(series, Math.abs(change))}`;
}

/** The differential flame graph with its call tree. */
export function DiffView(props: DiffProps) {
  useThemed();
  const { source, series, search } = props;
  const [rootText, setRoot] = useKept("root");
  const [up, setUp] = useKept("up", true);
  const root = rootText === "" ? undefined : Number(rootText);
  const [focus, setFocus] = useState<{ node: number | undefined; path: number[] }>({
    node: root,
    path: [],
  });
  const [flame, setFlame] = useState<DiffFlame>();
  const zoom = (node: number | undefined) => setRoot(node === undefined ? "" : String(node));
  const shared = {
    root,
    zoom,
    focus: focus.node,
    setFocus: (node: number | undefined, path: number[]) => setFocus({ node, path }),
  };
  const end = flame ? `${shares(flame, flame.total)} · ${relative(flame.total)}` : "";
  return (
    <>
      <section class="card" aria-label="Differential flame graph">
        <Crumbs {...{ root, zoom, end }} of={flame} />
        <FlameView
          {...shared}
          id={`${source.id} ${series.id}`}
          ask={(query, signal) => source.flame(series.id, query, signal)}
          look={lookOf(props)}
          label="Differential flame graph. The call tree below says the same."
          search={search}
          upward={up !== ""}
          loaded={setFlame}
        />
        <Legend series={series}>
          <span class="segments" role="group" aria-label="Form">
            <button aria-pressed={up === ""} onClick={() => setUp("")}>
              Icicle
            </button>
            <button aria-pressed={up !== ""} onClick={() => setUp("1")}>
              Flames
            </button>
          </span>
        </Legend>
      </section>
      <p class="hint">
        A frame is as wide as the mean of both sessions. Click it to zoom; <kbd>←↑→↓</kbd>{" "}
        <kbd>Enter</kbd> <kbd>Backspace</kbd> <kbd>Esc</kbd> move and zoom. Pale frames can be noise.
      </p>
      <section class="card pad calls" aria-label="Call tree">
        <h2>Call tree</h2>
        <LazyTree
          {...shared}
          id={`${source.id} ${series.id} ${search}`}
          path={focus.path}
          load={(node, rows) => source.children(series.id, { node, search, rows: Math.min(rows, 2000) })}
          label="Calls before and after"
          empty="No calls in common."
          weight={({ total }) => total[0] + total[1]}
          columns={columnsOf(props)}
        />
      </section>
    </>
  );
}

function columnsOf({ series }: DiffProps) {
  const amount = (title: string, of: (row: DiffRow) => string, width = "92px") => ({
    title,
    width,
    right: true,
    cell: of,
  });
  return [
    {
      title: "Method",
      width: "minmax(220px, 1fr)",
      cell: (row: DiffRow) => (
        <>
          <Swatch of={row.total} certain={isCertain(row.function)} />
          <code class={row.hit === 2 ? "name hit" : "name"}>{visible(row.function.name)}</code>
        </>
      ),
    },
    amount("Before", ({ total }) => written(series, total[0])),
    amount("After", ({ total }) => written(series, total[1])),
    amount("Change", ({ total }) => relative(total), "84px"),
    amount("Itself", ({ own }) => difference(series, own)),
    { title: "Certain", width: "116px", cell: (row: DiffRow) => wordOf(row.function.total) },
  ];
}

function Swatch({ of, certain }: { of: Pair; certain: boolean }) {
  return (
    <i class="kind" aria-hidden="true" style={{ background: changeColor(sizeOf(of), certain) }} />
  );
}

function Legend(props: { series: ComparedSeries; children: preact.ComponentChildren }) {
  const worse = props.series.more_is_worse;
  return (
    <div class="legend" role="group" aria-label="Colors">
      <span class="scale">
        ▼ less{worse && ", better"}
        {CHANGES.map((change) => (
          <i key={change} aria-hidden="true" style={{ background: changeColor(change, true) }} />
        ))}
        ▲ more{worse && ", worse"}
      </span>
      <span class="scale">
        {[-1, 1].map((change) => (
          <i key={change} aria-hidden="true" style={{ background: changeColor(change, false) }} />
        ))}
        can be noise
      </span>
      {props.children}
    </div>
  );
}

const SORTS = ["self", "total", "before", "after", "name"] as const;

/** Functions, sorted by how they changed. */
export function ChangedFunctions(props: DiffProps & { show: (name: string) => void }) {
  useThemed();
  const { source, series, search, overview, show } = props;
  const [kept, keep] = useKept("sort", true);
  const [most, setMost] = useState(STEP);
  const sort = SORTS.find((word) => word === kept) ?? "self";
  const key = `functions ${source.id} ${series.id} ${search} ${sort} ${most}`;
  const query = useQuery(key, (signal) =>
    source.functions(series.id, { search, sort, rows: most }, signal),
  );
  const table = query.data;
  const heading = (id: (typeof SORTS)[number], title: string, span = 1) => (
    <Heading {...{ id, title, span }} sort={sort} order={(next) => keep(next === "self" ? "" : next)} />
  );
  return (
    <section class="card" aria-label="Methods" aria-busy={!table}>
      {query.problem && (
        <p class="banner bad" role="alert">
          {visible(query.problem.reason)} {query.problem.next}
        </p>
      )}
      {table?.rows.length === 0 && <p class="empty">No method with this choice.</p>}
      {table && table.rows.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label="Table of methods">
          <table class="data">
            <thead>
              <tr>
                {heading("self", "Itself", 3)}
                {heading("total", "With what it calls")}
                {heading("before", "Before")}
                {heading("after", "After")}
                <th scope="col">Certain</th>
                {heading("name", "Method")}
              </tr>
            </thead>
            <tbody>
              {table.rows.map((fn) => (
                <FunctionRow key={fn.id} {...{ fn, series, show }} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {table && (
        <More shown={table.rows.length} all={table.count} what="method" most={most} setMost={setMost} />
      )}
      <p class="hint inner">
        Amounts are {per(overview)}; changes have their 95 % interval. What changed for certain comes
        first.
      </p>
    </section>
  );
}

function Heading(props: {
  id: string;
  title: string;
  span: number;
  sort: string;
  order: (sort: string) => void;
}) {
  const { id, title, span, sort, order } = props;
  const ascending = id === "name";
  return (
    <th
      scope="col"
      class={ascending ? undefined : "n"}
      colSpan={span}
      aria-sort={sort === id ? (ascending ? "ascending" : "descending") : undefined}
    >
      <button onClick={() => order(id)}>
        {title}
        <span class="order" aria-hidden="true">
          {sort === id ? (ascending ? " ▲" : " ▼") : ""}
        </span>
      </button>
    </th>
  );
}

function FunctionRow(props: {
  fn: ChangedFunction;
  series: ComparedSeries;
  show: (name: string) => void;
}) {
  const { fn, series, show } = props;
  const own: Pair = [fn.self.before, fn.self.after];
  const total: Pair = [fn.total.before, fn.total.after];
  const where = [fn.module ?? "", fn.place === null ? "" : fileOf(fn.place)];
  return (
    <tr class={isCertain(fn) ? undefined : "weak"}>
      <td class="n">{difference(series, own)}</td>
      <td class="n">{relative(own)}</td>
      <td class="n margin">{interval(fn.self)}</td>
      <td class="n">
        {relative(total)} <span class="margin">{interval(fn.total)}</span>
      </td>
      <td class="n">{written(series, total[0])}</td>
      <td class="n">{written(series, total[1])}</td>
      <td>{fn.self.significance === "changed" ? "changed itself" : wordOf(fn.total)}</td>
      <td class="fn">
        <div class="named">
          <Swatch of={total} certain={isCertain(fn)} />
          <button class="link name" title="Show in the flame graph" onClick={() => show(fn.name)}>
            {visible(fn.name)}
          </button>
        </div>
        <div class="where">{visible(where.filter((text) => text !== "").join(" · "))}</div>
      </td>
    </tr>
  );
}
