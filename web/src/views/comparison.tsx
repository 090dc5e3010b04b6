// Two sessions compared: the answer, the samples of each profiler, and the heaps.

import { useState } from "preact/hooks";
import type { ComparedSeries, ComparisonSource, HeapTypeChange, Overview } from "../data/comparison";
import { bytes, count, counted, inUnit, visible } from "../data/format";
import { useQuery } from "../data/query";
import { ChangedFunctions, DiffView, wordOf, written } from "./diff";
import { DocumentView } from "./document";
import { More } from "./more";
import { SearchField } from "./search";
import { useKept } from "./state";
import "./explore.css";

/** The view of the heaps, beside those of series. */
const HEAP = "heap";

/** A comparison. */
export function ComparisonView({ source }: { source: ComparisonSource }) {
  const query = useQuery(source.id, (signal) => source.overview(signal));
  const overview = query.data;
  if (query.problem) {
    return (
      <div class="banner bad" role="alert">
        {visible(query.problem.reason)} {query.problem.next}
      </div>
    );
  }
  if (!overview) return <p class="empty" role="status">Comparing the sessions …</p>;
  return (
    <>
      <DocumentView document={overview.answer} />
      <Views {...{ source, overview }} />
      <DocumentView document={overview.rest} prefix="r" />
    </>
  );
}

/** What was sampled, and the heaps. */
function Views({ source, overview }: { source: ComparisonSource; overview: Overview }) {
  const [kept, keep] = useKept("of");
  const [view, setView] = useKept("view");
  const [search, setSearch] = useKept("search", true);
  const [, setRoot] = useKept("root", true);
  const { series: all, heap } = overview;
  const first = all[0]?.id ?? (heap ? HEAP : "");
  const isHeap = heap !== null && (kept === HEAP || first === HEAP);
  const series = all.find(({ id }) => id === kept) ?? all[0];
  const choose = (id: string) => {
    setRoot("");
    keep(id === first ? "" : id);
  };
  if (first === "") {
    return <section class="card empty">The sessions have no samples and no heaps in common.</section>;
  }
  const isTable = view === "functions";
  return (
    <>
      <div class="selectors">
        <div class="segments" role="group" aria-label="What is compared">
          {all.map(({ id, title }) => (
            <button
              key={id}
              aria-pressed={!isHeap && id === series?.id}
              onClick={() => choose(id)}
            >
              {title}
            </button>
          ))}
          {heap && (
            <button aria-pressed={isHeap} onClick={() => choose(HEAP)}>
              Heap
            </button>
          )}
        </div>
        {!isHeap && (
          <div class="segments" role="group" aria-label="View">
            <button aria-pressed={!isTable} onClick={() => setView("")}>
              Flame graph
            </button>
            <button aria-pressed={isTable} onClick={() => setView("functions")}>
              Methods
            </button>
          </div>
        )}
        <SearchField
          label={isHeap ? "Search types" : "Search methods"}
          value={search}
          change={setSearch}
        />
      </div>
      {isHeap && <HeapTypes {...{ source, overview, search }} />}
      {!isHeap && series && <Total {...{ overview, series }} />}
      {!isHeap && series && !isTable && (
        <DiffView key={series.id} {...{ source, overview, series, search }} />
      )}
      {!isHeap && series && isTable && (
        <ChangedFunctions
          key={series.id}
          {...{ source, overview, series, search }}
          show={(name) => {
            setSearch(name);
            setView("");
          }}
        />
      )}
    </>
  );
}

/** All samples of a series. */
function Total({ overview, series }: { overview: Overview; series: ComparedSeries }) {
  const { total, not_comparable: why } = series;
  // The sum of all samples is no share of itself.
  const unit = { ...series, unit: series.unit === "share" ? "count" : series.unit } as const;
  const relation = overview.per === "run" ? "per run" : "per second";
  return (
    <>
      {series.unit !== "share" && (
        <p class="hint">
          All samples: {written(unit, total.before)} → {written(unit, total.after)} {relation} (
          {wordOf(total)}); {counted(series.functions, "method")}.
        </p>
      )}
      {why !== null && <p class="banner">Nothing is claimed: {visible(why)}.</p>}
    </>
  );
}

const SORTS = ["bytes", "objects", "before", "after", "name"] as const;
const STEP = 100;

/** Types on both heaps. */
function HeapTypes(props: { source: ComparisonSource; overview: Overview; search: string }) {
  const { source, search } = props;
  const heap = props.overview.heap!;
  const [kept, keep] = useKept("types", true);
  const [most, setMost] = useState(STEP);
  const sort = SORTS.find((word) => word === kept) ?? "bytes";
  const query = useQuery(`types ${source.id} ${search} ${sort} ${most}`, (signal) =>
    source.types({ search, sort, rows: most }, signal),
  );
  const table = query.data;
  const { total } = heap;
  const heading = (id: (typeof SORTS)[number], title: string) => (
    <th
      scope="col"
      class={id === "name" ? undefined : "n"}
      aria-sort={sort === id ? (id === "name" ? "ascending" : "descending") : undefined}
    >
      <button onClick={() => keep(id === "bytes" ? "" : id)}>{title}</button>
    </th>
  );
  return (
    <section class="card" aria-label="Types on the heap" aria-busy={!table}>
      <p class="hint inner">
        {bytes(total.before_bytes)} → {bytes(total.after_bytes)} (
        {inUnit(total.after_bytes - total.before_bytes, "bytes-change")}),{" "}
        {counted(total.before_count, "object")} → {count(total.after_count)}. One snapshot of each does
        not say how much the heap varies: how certain a difference is, is not known.
        {!heap.complete && " A snapshot lacks objects."}
      </p>
      {query.problem && (
        <p class="banner bad" role="alert">
          {visible(query.problem.reason)} {query.problem.next}
        </p>
      )}
      {table?.rows.length === 0 && <p class="empty">No type differs with this choice.</p>}
      {table && table.rows.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label="Table of types">
          <table class="data">
            <thead>
              <tr>
                {heading("bytes", "Bytes")}
                {heading("before", "Before")}
                {heading("after", "After")}
                {heading("objects", "Objects")}
                <th scope="col" class="n">
                  Before
                </th>
                <th scope="col" class="n">
                  After
                </th>
                {heading("name", "Type")}
              </tr>
            </thead>
            <tbody>
              {table.rows.map((row) => (
                <TypeRow key={`${row.name} ${row.module}`} row={row} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {table && (
        <More shown={table.rows.length} all={table.count} what="type" most={most} setMost={setMost} />
      )}
    </section>
  );
}

function TypeRow({ row }: { row: HeapTypeChange }) {
  const more = row.after_bytes > row.before_bytes;
  return (
    <tr>
      <td class="n">
        <span aria-hidden="true">{more ? "▲" : "▼"} </span>
        {inUnit(row.after_bytes - row.before_bytes, "bytes-change")}
      </td>
      <td class="n">{bytes(row.before_bytes)}</td>
      <td class="n">{bytes(row.after_bytes)}</td>
      <td class="n">{inUnit(row.after_count - row.before_count, "count-change")}</td>
      <td class="n">{count(row.before_count)}</td>
      <td class="n">{count(row.after_count)}</td>
      <td class="fn">
        <code class="name">{visible(row.name)}</code>
        {row.module !== "" && <div class="where">{visible(row.module)}</div>}
      </td>
    </tr>
  );
}
