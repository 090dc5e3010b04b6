// Functions with their own and total sums, and who calls them.

import { useState } from "preact/hooks";
import { counted, percent, visible } from "../data/format";
import { useRounds } from "../data/query";
import type {
  Callers,
  Description,
  Fn,
  FunctionRow,
  Functions,
  Neighbor,
  Selection,
  Series,
  Source,
} from "../data/source";
import { fileOf } from "./calls";
import { useFocusKept } from "./focus";
import { LinesView } from "./lines";
import { More } from "./more";
import { kindColor } from "./palette";
import { keyOf } from "./samples-flame";
import { useKept } from "./state";
import { amount, points } from "./weights";

/** Rows that are shown at first, and that a click adds. */
const STEP = 100;

export interface FunctionsProps {
  source: Source;
  description: Description;
  series: Series;
  selection: Selection;
  search: string;
  /** With another one, the same is asked again, and what is shown stays until it is there. */
  round?: number;
  /** Shows a function in the flame graph. */
  show: (name: string) => void;
  /** Called with the number of functions, if something is searched for. */
  found: (text: string) => void;
}

type Sort = "own" | "total" | "name";

export function FunctionsView(props: FunctionsProps) {
  const { source, selection, search, series, round } = props;
  const [kept, keep] = useKept("sort", true);
  const [of, setOf] = useKept("of");
  const [most, setMost] = useState(STEP);
  const sort: Sort = kept === "total" || kept === "name" ? kept : "own";
  const key = `functions ${source.id} ${keyOf(selection)} ${search} ${sort} ${most}`;
  const query = useRounds(key, round, async (signal) => {
    const found = await source.functions({ selection, search, sort, rows: most }, signal);
    props.found(search === "" ? "" : counted(found.count, "method"));
    return found;
  });
  const table = query.data;
  return (
    <>
      {of !== "" && <CallersView {...props} of={Number(of)} choose={setOf} />}
      {query.problem && (
        <p class="banner bad" role="alert">
          {visible(query.problem.reason)} {query.problem.next}
        </p>
      )}
      <section class="card" aria-label="Methods" aria-busy={!table}>
        {table && table.rows.length > 0 && (
          <FunctionTable {...props} table={table} sort={sort} order={keep} callers={setOf} />
        )}
        {table && table.rows.length === 0 && <p class="empty">No method with this choice.</p>}
        {table && (
          <More shown={table.rows.length} all={table.count} what="method" most={most} setMost={setMost} />
        )}
      </section>
      <p class="hint">
        Self is what was sampled in the method itself, total includes what it called.{" "}
        {series.calls
          ? "Every call is counted."
          : "± is the 95 % interval in points: two methods whose intervals overlap may well be equal."}
      </p>
    </>
  );
}

interface TableProps extends FunctionsProps {
  table: Functions;
  sort: Sort;
  order: (sort: string) => void;
  callers: (of: string) => void;
}

function FunctionTable(props: TableProps) {
  const { table, sort, order } = props;
  const place = useFocusKept<HTMLDivElement>();
  const heading = (id: Sort, title: string, span: number) => {
    const ascending = id === "name";
    return (
      <th
        scope="col"
        class={ascending ? undefined : "n"}
        colSpan={span}
        aria-sort={sort === id ? (ascending ? "ascending" : "descending") : undefined}
      >
        <button onClick={() => order(id === "own" ? "" : id)}>
          {title}
          <span class="order" aria-hidden="true">
            {sort === id ? (ascending ? " ▲" : " ▼") : ""}
          </span>
        </button>
      </th>
    );
  };
  return (
    <div ref={place} class="scroll" tabIndex={0} role="group" aria-label="Table of methods">
      <table class="data">
        <thead>
          <tr>
            {heading("own", "Self", 2)}
            <td />
            {heading("total", "Total", 2)}
            {heading("name", "Method", 1)}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row) => (
            <FunctionRowView key={row.function.id} {...props} row={row} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Share({ part, series, effective }: { part: number; series: Series; effective: number }) {
  const error = points(series, part, effective);
  return (
    <>
      {percent(part)}
      {error !== "" && <span class="margin">{error}</span>}
    </>
  );
}

function FunctionRowView(props: TableProps & { row: FunctionRow }) {
  const { row, table, series, description } = props;
  const [own, total] = [row.own / (table.whole || 1), row.total / (table.whole || 1)];
  const fn = row.function;
  const where = [
    series.calls ? counted(row.own_samples, "call") : "",
    fn.module ?? description.kinds[fn.kind] ?? "",
    row.place === null ? "" : fileOf(row.place),
  ];
  return (
    <tr>
      <td class="n">
        <Share part={own} series={series} effective={table.effective} />
      </td>
      <td class="n">{amount(series, row.own)}</td>
      <td>
        <span class="bar" aria-hidden="true">
          <i class="total" style={{ width: `${total * 100}%` }} />
          <i style={{ width: `${own * 100}%` }} />
        </span>
      </td>
      <td class="n">
        <Share part={total} series={series} effective={table.effective} />
      </td>
      <td class="n">{amount(series, row.total)}</td>
      <td class="fn">
        <FunctionName fn={fn} show={props.show} />
        <div class="where">
          {visible(where.filter((text) => text !== "").join(" · "))}{" "}
          <button class="link" onClick={() => props.callers(String(fn.id))}>
            callers and callees<span class="sr"> of {visible(fn.short)}</span>
          </button>
        </div>
      </td>
    </tr>
  );
}

function FunctionName({ fn, show }: { fn: Fn; show: (name: string) => void }) {
  return (
    <div class="named">
      <i class="kind" aria-hidden="true" style={{ background: kindColor(fn.kind, fn.id) }} />
      <button class="link name" title="Show in the flame graph" onClick={() => show(fn.name)}>
        {visible(fn.name)}
      </button>
    </div>
  );
}

interface CallersProps extends FunctionsProps {
  of: number;
  choose: (of: string) => void;
}

/** Who calls a function, and whom it calls. */
export function CallersView(props: CallersProps) {
  const { source, selection, series, round, of, choose } = props;
  const [detail, setDetail] = useKept("detail");
  const isLines = detail === "lines" && source.lines !== undefined;
  const key = `callers ${source.id} ${keyOf(selection)} ${of}`;
  const query = useRounds(key, round, (signal) => source.callers(selection, of, signal));
  const found = query.data;
  return (
    <section class="card pad callers" aria-label="Callers and callees" aria-busy={!found}>
      <div class="titled">
        <h2>{found ? visible(found.function.name) : "Callers and callees"}</h2>
        <button class="plain" onClick={() => choose("")}>
          Close
        </button>
      </div>
      {query.problem && <p class="banner bad">{visible(query.problem.reason)}</p>}
      {found && (
        <>
          <p>
            Self {percent(found.own / (found.whole || 1))} ({amount(series, found.own)}), total{" "}
            {percent(found.total / (found.whole || 1))} ({amount(series, found.total)})
          </p>
          {source.lines && (
            <div class="segments" role="group" aria-label="Details of the method">
              <button aria-pressed={!isLines} onClick={() => setDetail("")}>
                Callers and callees
              </button>
              <button aria-pressed={isLines} onClick={() => setDetail("lines")}>
                Lines
              </button>
            </div>
          )}
          {isLines ? (
            <LinesView {...{ source, selection, series, round, of }} />
          ) : (
            <div class="pair">
              <Neighbors title="Called by" rows={found.callers} {...{ found, series, choose }} />
              <Neighbors title="Calls" rows={found.callees} {...{ found, series, choose }} />
            </div>
          )}
        </>
      )}
    </section>
  );
}

interface NeighborsProps {
  title: string;
  rows: Neighbor[];
  found: Callers;
  series: Series;
  choose: (of: string) => void;
}

function Neighbors({ title, rows, found, series, choose }: NeighborsProps) {
  const place = useFocusKept<HTMLDivElement>();
  return (
    <div ref={place} class="scroll" tabIndex={0} role="group" aria-label={title}>
      <table class="data">
        <thead>
          <tr>
            <th scope="col" class="n" colSpan={2}>
              Total
            </th>
            <th scope="col">{title}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.function?.id ?? -1}>
              <td class="n">{percent(row.weight / (found.total || 1))}</td>
              <td class="n">{amount(series, row.weight)}</td>
              <td class="fn">
                {row.function ? (
                  <button class="link name" onClick={() => choose(String(row.function?.id))}>
                    {visible(row.function.name)}
                  </button>
                ) : (
                  <span class="weak">none: it is the outermost call</span>
                )}
              </td>
            </tr>
          ))}
          {rows.length === 0 && (
            <tr>
              <td colSpan={3} class="weak">
                none
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}
