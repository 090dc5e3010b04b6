// A heap snapshot: what retains what as a treemap and a tree, types, and what retains the objects of
// a type, or an object, as a graph.

import { useMemo, useRef, useEffect, useState } from "preact/hooks";
import { bytes, count, counted, duration, percent, visible } from "../data/format";
import {
  HeapSource,
  type HeapDescription,
  type HeapRow,
  type HeapType,
  type Treemap,
} from "../data/heap";
import { useQuery } from "../data/query";
import { useThemed } from "./canvas";
import { Crumbs } from "./crumbs";
import { GraphView } from "./graph";
import { LazyTree } from "./lazy-tree";
import { More } from "./more";
import { typeColor } from "./palette";
import { SearchField } from "./search";
import { useKept } from "./state";
import { TreemapView } from "./treemap";

/** Rows that are shown at first, and that a click adds. */
const STEP = 100;

/** Heap snapshots of a session; `snapshots` says how many there are. */
export function HeapView({ session, snapshots }: { session: string; snapshots: number }) {
  const [kept, keep] = useKept("snapshot");
  const number = Math.min(Math.max(Number(kept) || snapshots, 1), snapshots);
  const source = useMemo(() => new HeapSource(session, number), [session, number]);
  const query = useQuery(source.id, (signal) => source.describe(signal));
  const [, setRoot] = useKept("object", true);
  const [, setOf] = useKept("retains", true);
  return (
    <>
      {snapshots > 1 && (
        <div class="selectors">
          <label>
            Snapshot{" "}
            <select
              value={String(number)}
              onChange={(event) => {
                // Objects and types have other numbers there.
                setRoot("");
                setOf("");
                keep(event.currentTarget.value);
              }}
            >
              {Array.from({ length: snapshots }, (_, at) => (
                <option key={at} value={String(at + 1)}>
                  {at + 1} of {snapshots}
                </option>
              ))}
            </select>
          </label>
        </div>
      )}
      {query.problem && (
        <div class="banner bad" role="alert">
          {visible(query.problem.reason)} {query.problem.next}
        </div>
      )}
      {!query.data && !query.problem && (
        <p class="empty" role="status">
          Reading the heap snapshot …
        </p>
      )}
      {query.data && <Snapshot key={source.id} source={source} heap={query.data} />}
    </>
  );
}

function Snapshot({ source, heap }: { source: HeapSource; heap: HeapDescription }) {
  const [of, setOf] = useKept("retains");
  return (
    <>
      {!heap.complete && (
        <p class="banner">The snapshot is not complete: {visible(heap.note || "objects are missing")}.</p>
      )}
      <p class="hint">
        {counted(heap.objects, "object")} of {counted(heap.types, "type")}, {bytes(heap.bytes)}
        {heap.retention && (
          <>
            ; roots lead to {bytes(heap.reached_bytes)} in {counted(heap.reached_objects, "object")}
          </>
        )}
        {heap.pause_seconds !== null && (
          <>; the process was paused for {duration(heap.pause_seconds * 1e9)}</>
        )}
        .
      </p>
      {of !== "" && heap.retention && <Paths source={source} of={of} close={() => setOf("")} />}
      {heap.retention ? (
        <Retention source={source} heap={heap} show={setOf} />
      ) : (
        <p class="hint">A snapshot of this kind does not show what retains what.</p>
      )}
      <Types source={source} heap={heap} show={setOf} />
    </>
  );
}

interface PartProps {
  source: HeapSource;
  heap: HeapDescription;
  /** Shows what retains a type (`t12`) or an object (`o7`). */
  show: (of: string) => void;
}

/** What retains what, as a treemap and as a tree. */
function Retention({ source, heap, show }: PartProps) {
  useThemed();
  const [rootText, setRoot] = useKept("object");
  const root = rootText === "" ? undefined : Number(rootText);
  const [focus, setFocus] = useState<{ node: number | undefined; path: number[] }>({
    node: undefined,
    path: [],
  });
  const [map, setMap] = useState<Treemap>();
  const zoom = (node: number | undefined) => {
    setRoot(node === undefined ? "" : String(node));
    setFocus({ node, path: [] });
  };
  const shared = {
    root,
    zoom,
    focus: focus.node,
    setFocus: (node: number | undefined, path: number[]) => setFocus({ node, path }),
  };
  const way = map && {
    left_out: map.left_out,
    path: map.path.map(({ node, short }) => ({ node, function: { name: short, short } })),
  };
  const end = map ? `${bytes(map.total)} · ${percent(map.total / (map.whole || 1))}` : "";
  return (
    <>
      <section class="card" aria-label="What retains what">
        <Crumbs {...{ root, zoom, end }} of={way} noun="objects" />
        <TreemapView {...shared} source={source} loaded={setMap} />
      </section>
      <p class="hint">
        A cell is as large as the bytes that would be free without it; what is in it is kept alive by
        it alone. Click a cell to zoom.
      </p>
      <section class="card pad calls" aria-label="Objects by what retains them">
        <h2>Retained by</h2>
        <LazyTree
          {...shared}
          id={source.id}
          path={focus.path}
          load={(node, rows) => source.dominated(node, Math.min(rows, 2000))}
          label="Objects, those that retain most first"
          empty="It retains nothing but itself."
          weight={(row: HeapRow) => row.retained}
          activate={(row) => (row.children > 0 ? zoom(row.node) : show(`o${row.node}`))}
          columns={columnsOf(heap)}
        />
        {focus.node !== undefined && (
          <p class="tools">
            <button class="plain" onClick={() => show(`o${focus.node}`)}>
              What retains the selected object
            </button>
          </p>
        )}
      </section>
    </>
  );
}

function columnsOf(heap: HeapDescription) {
  return [
    {
      title: "Object",
      width: "minmax(240px, 1fr)",
      cell: (row: HeapRow) => (
        <>
          <i class="kind" aria-hidden="true" style={{ background: typeColor(row.name, 0) }} />
          <code class="name">
            {visible(row.name)}
            {row.objects > 1 && ` × ${count(row.objects)}`}
          </code>
          {row.by !== "" && <span class="where"> {visible(row.by)}</span>}
        </>
      ),
    },
    {
      title: "Retains",
      width: "96px",
      right: true,
      cell: (row: HeapRow) => bytes(row.retained),
    },
    {
      title: "Share",
      width: "76px",
      right: true,
      cell: (row: HeapRow) => percent(row.retained / (heap.reached_bytes || 1)),
    },
    { title: "Itself", width: "96px", right: true, cell: (row: HeapRow) => bytes(row.bytes) },
  ];
}

/** What retains the objects of a type, or an object. */
function Paths(props: { source: HeapSource; of: string; close: () => void }) {
  const { source, of, close } = props;
  const id = Number(of.slice(1));
  const query = useQuery(`paths ${source.id} ${of}`, (signal) =>
    source.paths(of.startsWith("t") ? { type: id } : { of: id }, signal),
  );
  const found = query.data;
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    // What was asked for stands above what was clicked.
    heading.current?.scrollIntoView({ block: "nearest" });
    heading.current?.focus();
  }, [of]);
  const reached = found ? found.examined - found.unreached : 0;
  return (
    <section class="card pad" aria-label="Retention paths" aria-busy={!found}>
      <div class="titled">
        <h2 ref={heading} tabIndex={-1}>
          {found ? `What retains ${visible(found.name)}` : "What retains it"}
        </h2>
        <button class="plain" onClick={close}>
          Close
        </button>
      </div>
      {query.problem && (
        <p class="banner bad" role="alert">
          {visible(query.problem.reason)} {query.problem.next}
        </p>
      )}
      {found && reached === 0 && (
        <p>No root leads to {found.examined === 1 ? "it" : "them"}: the next full collection frees it.</p>
      )}
      {found && reached > 0 && (
        <>
          <p class="hint">
            Shortest paths from roots
            {found.examined > 1 && (
              <>
                {" "}
                to {count(reached)} of {counted(found.examined, "examined object")}
                {found.ways > 1 && `, in ${count(found.ways)} different ways`}
              </>
            )}
            . Words on arrows are fields, × is the number of objects.
          </p>
          <GraphView graph={found.graph} label={`Paths from roots to ${visible(found.name)}`} />
        </>
      )}
    </section>
  );
}

const SORTS = ["bytes", "retained", "objects", "name"] as const;

/** Types on the heap. */
function Types({ source, heap, show }: PartProps) {
  const [kept, keep] = useKept("types", true);
  const [search, setSearch] = useKept("type", true);
  const [most, setMost] = useState(STEP);
  const sort = SORTS.find((word) => word === kept) ?? "bytes";
  const query = useQuery(`types ${source.id} ${search} ${sort} ${most}`, (signal) =>
    source.types({ search, sort, rows: most }, signal),
  );
  const table = query.data;
  const heading = (id: (typeof SORTS)[number], title: string) => (
    <th
      scope="col"
      class={id === "name" ? undefined : "n"}
      aria-sort={sort === id ? (id === "name" ? "ascending" : "descending") : undefined}
    >
      <button onClick={() => keep(id === "bytes" ? "" : id)}>
        {title}
        <span class="order" aria-hidden="true">
          {sort === id ? (id === "name" ? " ▲" : " ▼") : ""}
        </span>
      </button>
    </th>
  );
  return (
    <section class="card" aria-label="Types" aria-busy={!table}>
      <div class="titled inner">
        <h2>Types</h2>
        <SearchField label="Search types" value={search} change={setSearch} />
      </div>
      {query.problem && (
        <p class="banner bad" role="alert">
          {visible(query.problem.reason)} {query.problem.next}
        </p>
      )}
      {table?.rows.length === 0 && <p class="empty">No type has this in its name.</p>}
      {table && table.rows.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label="Table of types">
          <table class="data">
            <thead>
              <tr>
                {heading("bytes", "Bytes")}
                <td />
                {heading("objects", "Objects")}
                {heap.retention && heading("retained", "Retains")}
                {heading("name", "Type")}
              </tr>
            </thead>
            <tbody>
              {table.rows.map((row) => (
                <TypeRow key={row.id} {...{ row, heap, show }} />
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

function TypeRow(props: { row: HeapType; heap: HeapDescription; show: (of: string) => void }) {
  const { row, heap, show } = props;
  return (
    <tr>
      <td class="n">{bytes(row.bytes)}</td>
      <td>
        <span class="bar" aria-hidden="true">
          <i style={{ width: `${((row.bytes / (heap.bytes || 1)) * 100).toFixed(1)}%` }} />
        </span>
      </td>
      <td class="n">{count(row.objects)}</td>
      {heap.retention && <td class="n">{bytes(row.retained)}</td>}
      <td class="fn">
        <code class="name">{visible(row.name)}</code>
        <div class="where">
          {visible(row.module)}{" "}
          {heap.retention && (
            <button class="link" onClick={() => show(`t${row.id}`)}>
              what retains them<span class="sr">: {visible(row.short)}</span>
            </button>
          )}
        </div>
      </td>
    </tr>
  );
}
