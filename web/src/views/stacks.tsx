// Merged stacks: threads that were sampled in the same stack are together, as a thread dump shows them.

import { useState } from "preact/hooks";
import { counted, visible } from "../data/format";
import { useRounds } from "../data/query";
import type { Selection, Series, Source, StackRow } from "../data/source";
import { fileOf } from "./calls";
import { More } from "./more";
import { kindColor } from "./palette";
import { keyOf } from "./samples-flame";
import { amount, samples } from "./weights";

/** Stacks that are shown at first. */
const STEP = 50;

/** Stacks that are open at first. */
const OPEN = 3;

export interface StacksProps {
  source: Source;
  series: Series;
  selection: Selection;
  search: string;
  /** With another one, the same is asked again. */
  round?: number;
  /** Called with the number of stacks, if something is searched for. */
  found: (text: string) => void;
}

export function StacksView(props: StacksProps) {
  const { source, series, selection, search, round } = props;
  const [most, setMost] = useState(STEP);
  const key = `stacks ${source.id} ${keyOf(selection)} ${search} ${most}`;
  const query = useRounds(key, round, async (signal) => {
    const found = await source.stacks?.({ selection, search, rows: most }, signal);
    props.found(search === "" || !found ? "" : counted(found.count, "stack"));
    return found;
  });
  const all = query.data;
  return (
    <>
      {query.problem && (
        <p class="banner bad" role="alert">
          {visible(query.problem.reason)} {query.problem.next}
        </p>
      )}
      <section class="card pad stacks" aria-label="Merged stacks" aria-busy={!all}>
        {all?.rows.length === 0 && <p class="empty">No stack with this choice.</p>}
        {all?.rows.map((row, at) => (
          <StackView key={`${at} ${row.weight}`} row={row} series={series} open={at < OPEN} />
        ))}
        {all && (
          <More shown={all.rows.length} all={all.count} what="stack" most={most} setMost={setMost} />
        )}
      </section>
      <p class="hint">
        Threads that were sampled in the same stack are together, those of most threads first. A
        thread that did several things is in several stacks.
      </p>
    </>
  );
}

function StackView({ row, series, open }: { row: StackRow; series: Series; open: boolean }) {
  const more = row.threads - row.names.length;
  return (
    <details open={open}>
      <summary>
        <b>{counted(row.threads, "thread")}</b>, {amount(series, row.weight)},{" "}
        {samples(series, row.samples)}: <code>{visible(row.frames[0]?.function.short ?? "")}</code>
      </summary>
      <p class="hint">
        {row.names.map(visible).join(", ")}
        {more > 0 && ` and ${counted(more, "more thread")}`}
      </p>
      <ol>
        {row.frames.map(({ function: fn, place }, at) => (
          <li key={at}>
            <i class="kind" aria-hidden="true" style={{ background: kindColor(fn.kind, 0) }} />
            <code class="name">{visible(fn.name)}</code>{" "}
            {place !== null && <span class="where">{visible(fileOf(place))}</span>}
          </li>
        ))}
      </ol>
      {row.left_out > 0 && (
        <p class="hint">{counted(row.left_out, "more frame")} towards the root are not shown.</p>
      )}
    </details>
  );
}
