// Tables of documents: typed columns, sortable, and usable by keyboard.

import { useMemo, useState } from "preact/hooks";
import type { Cell, Column, Table } from "../data/document";
import { count, counted } from "../data/format";
import { matcher } from "../data/matcher";
import { CellView, isText, sortKey, textsOf } from "./cells";
import { SearchField } from "./search";
import { useKept } from "./state";

/** Rows that are shown at first, and that a click adds. */
const STEP = 200;

/** Tables with fewer rows are read at a glance. */
const LONG = 15;

/** How a table is sorted: the column, and whether the largest comes first. */
interface Sorting {
  column: number;
  down: boolean;
}

/** Reads `2` (ascending) and `-2` (descending); columns count from 1. */
function sortingOf(text: string, columns: number): Sorting | undefined {
  const column = Math.abs(Number.parseInt(text, 10)) - 1;
  return column >= 0 && column < columns ? { column, down: text.startsWith("-") } : undefined;
}

function compare(one: number | string, other: number | string): number {
  if (typeof one === "number" && typeof other === "number") return one - other;
  if (typeof one === "number") return -1;
  if (typeof other === "number") return 1;
  return one < other ? -1 : one > other ? 1 : 0;
}

/** The rows in order. Rows that are equal stay in the order of the document. */
function sorted(rows: Cell[][], sorting: Sorting | undefined): Cell[][] {
  if (!sorting) return rows;
  const keyed = rows.map((row) => ({ row, key: sortKey(row[sorting.column] ?? "nothing") }));
  keyed.sort((one, other) => compare(one.key, other.key) * (sorting.down ? -1 : 1));
  return keyed.map(({ row }) => row);
}

/** The rows that have a text in one of their cells. */
function matching(rows: Cell[][], search: string): Cell[][] {
  if (search === "") return rows;
  const fits = matcher(search);
  return rows.filter((row) => row.some((cell) => textsOf(cell).some(fits)));
}

/** A table whose columns have titles. `id` names it among the tables of a page. */
export function TableView({ table, id, label }: { table: Table; id: string; label: string }) {
  const [kept, keep] = useKept(`sort.${id}`, true);
  const [most, setMost] = useState(STEP);
  const sorting = sortingOf(kept, table.columns.length);
  const [search, setSearch] = useKept(`find.${id}`, true);
  const found = useMemo(() => matching(table.rows, search), [table, search]);
  const rows = useMemo(() => sorted(found, sorting), [found, kept]);
  const hidden = rows.length - most;

  const sort = (index: number) => {
    const first = isText(table.rows[0]?.[index] ?? "nothing") ? "" : "-";
    const second = first === "" ? "-" : "";
    // A third click gives the order of the document back.
    const next =
      sorting?.column !== index ? first : sorting.down === (first === "-") ? second : undefined;
    keep(next === undefined ? "" : `${next}${index + 1}`);
  };
  return (
    <>
      {(table.rows.length >= LONG || search !== "") && (
        <p class="filter">
          <SearchField
            label={`Filter: ${label}`}
            placeholder="Filter rows, or /regular expression/"
            value={search}
            change={setSearch}
          />{" "}
          <span class="hint" role="status">
            {search !== "" && `${count(found.length)} of ${counted(table.rows.length, "row")}`}
          </span>
        </p>
      )}
      <div class="scroll" tabIndex={0} role="group" aria-label={label}>
        <table class="data">
          <thead>
            <tr>
              {table.columns.map((column, index) => (
                <Heading
                  key={index}
                  column={column}
                  sorting={sorting?.column === index ? sorting : undefined}
                  sort={() => sort(index)}
                />
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, most).map((row, index) => (
              <tr key={index}>
                {table.columns.map((column, at) => (
                  <td key={at} class={classOf(row[at], column)}>
                    <CellView cell={row[at] ?? "nothing"} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {hidden > 0 && (
        <p class="hint">
          <button class="plain" onClick={() => setMost(most + STEP * 5)}>
            Show more
          </button>{" "}
          {count(hidden)} rows are not shown
        </p>
      )}
      <More of={table.more} />
    </>
  );
}

function classOf(cell: Cell | undefined, column: Column): string | undefined {
  if (typeof cell === "object" && "name" in cell) return "fn";
  return column.right ? "n" : undefined;
}

function Heading(props: { column: Column; sorting: Sorting | undefined; sort: () => void }) {
  const { column, sorting, sort } = props;
  const order = sorting && (sorting.down ? "descending" : "ascending");
  // A heading without a title is above pictures of what other columns say in numbers.
  if (column.title === "") return <td class={column.right ? "n" : undefined} />;
  return (
    <th scope="col" class={column.right ? "n" : undefined} aria-sort={order}>
      <button onClick={sort}>
        {column.title}
        <span class="order" aria-hidden="true">
          {sorting ? (sorting.down ? " ▼" : " ▲") : ""}
        </span>
      </button>
    </th>
  );
}

/** How much there is that is not in the document. */
export function More({ of }: { of: number }) {
  return of === 0 ? null : <p class="hint">… {count(of)} more</p>;
}
