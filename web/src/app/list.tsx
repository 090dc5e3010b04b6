// Lists of things that the server has, as tables that can be sorted. What they are sorted by is in
// the address.

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { useParam } from "./router";

export interface ListColumn<Row> {
  /** Name in the address. */
  id: string;
  title: string;
  right?: boolean;
  /** What rows are sorted by; left out for columns that cannot be sorted by. */
  key?: (row: Row) => string | number | null;
  cell: (row: Row) => ComponentChildren;
}

function compare(one: string | number | null, other: string | number | null): number {
  // What is not known comes last in both directions of reading: it is never the largest.
  if (one === null || other === null) return Number(one !== null) - Number(other !== null);
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), undefined, { numeric: true });
}

export function List<Row>(props: {
  label: string;
  columns: ListColumn<Row>[];
  rows: readonly Row[];
  id: (row: Row) => string | number;
  /** The column that it is sorted by at first, with `-` for the largest first. */
  first: string;
}) {
  const [kept, keep] = useParam("sort", true);
  const sorting = kept === "" ? props.first : kept;
  const [name, down] = sorting.startsWith("-") ? [sorting.slice(1), true] : [sorting, false];
  const column = props.columns.find((column) => column.id === name);
  const rows = useMemo(() => {
    const key = column?.key;
    if (!key) return props.rows;
    return [...props.rows].sort((a, b) => compare(key(a), key(b)) * (down ? -1 : 1));
  }, [props.rows, column, down]);
  const sort = (id: string, right: boolean) => {
    const same = id === name;
    keep((same ? !down : right) ? `-${id}` : id);
  };
  return (
    <div class="scroll card" tabIndex={0} role="group" aria-label={props.label}>
      <table class="data list">
        <caption class="sr">{props.label}</caption>
        <thead>
          <tr>
            {props.columns.map((own) => (
              <th
                key={own.id}
                scope="col"
                class={own.right ? "n" : undefined}
                aria-sort={own.id === name && own.key ? (down ? "descending" : "ascending") : undefined}
              >
                {own.key ? (
                  <button onClick={() => sort(own.id, own.right ?? false)}>
                    {own.title}
                    <span aria-hidden="true">
                      {own.id === name ? (down ? " ▼" : " ▲") : ""}
                    </span>
                  </button>
                ) : (
                  <span class="sr">{own.title}</span>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={props.id(row)}>
              {props.columns.map((own) => (
                <td key={own.id} class={own.right ? "n" : `col-${own.id}`}>
                  {own.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
