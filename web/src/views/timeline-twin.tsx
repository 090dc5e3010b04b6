// The timeline as a treegrid, for those who do not see it or use no pointer: threads, and what each
// did in equal parts of the time. Enter chooses what a click or a brush in the timeline chooses.

import { useState } from "preact/hooks";
import { NONE } from "../data/columns";
import { count, duration, percent, visible } from "../data/format";
import type { Timeline } from "../data/source";
import { TreeGrid, type GridColumn, type GridRow } from "./treegrid";

/** Parts of the time that each thread has. */
const PARTS = 20;

/** What is not in a state: the thread was not sampled there. */
const NO_STATE = 255;

export interface TimelineTwinProps {
  timeline: Timeline;
  /** The number of the first thread that the timeline has. */
  first: number;
  setFirst: (first: number) => void;
  /** How many threads are fetched at a time. */
  step: number;
  /** Names of the states. */
  states: string[];
  /** What is written for a weight per second. */
  write: (weight: number) => string;
  /** Rows of the weights that are shown. */
  shown: number[];
  /** Whether a part of the time can be chosen. */
  timed: boolean;
  choose: (from: number, to: number) => void;
  thread: string;
  chooseThread: (thread: string) => void;
}

/** A thread, or a part of its time. */
interface Row extends GridRow {
  name: string;
  /** The lane; `undefined` for all threads. */
  lane: number | undefined;
  /** From and to, in pixels. */
  from: number;
  to: number;
  isPart: boolean;
}

export function TimelineTwin(props: TimelineTwinProps) {
  const { timeline, first, setFirst, step, thread } = props;
  const [shownOnce, setShownOnce] = useState(false);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const last = first + timeline.lanes.length;
  return (
    <details class="twin pad" onToggle={(event) => setShownOnce(event.currentTarget.open)}>
      <summary>As a tree</summary>
      {shownOnce && (
        <>
          <TreeGrid
            label="Timeline"
            columns={columnsOf(props)}
            rows={rowsOf(props, open)}
            height="40vh"
            selected={thread === "" ? undefined : `t${thread}`}
            toggle={(row, isOpen) => {
              const next = new Set(open);
              if (isOpen) next.add(String(row.key));
              else next.delete(String(row.key));
              setOpen(next);
            }}
            activate={(row) => activate(row, props)}
          />
          <p class="hint">
            <kbd>Enter</kbd> {props.timed && "on a part shows only that part of the time, and "}on a
            thread shows only that thread.{" "}
            {timeline.threads > timeline.lanes.length && (
              <>
                Threads {count(first + 1)} to {count(last)} of {count(timeline.threads)}.{" "}
                <button class="plain" disabled={first === 0} onClick={() => setFirst(first - step)}>
                  Previous
                </button>{" "}
                <button
                  class="plain"
                  disabled={last >= timeline.threads}
                  onClick={() => setFirst(first + step)}
                >
                  Next
                </button>
              </>
            )}
          </p>
        </>
      )}
    </details>
  );
}

function activate(row: Row, props: TimelineTwinProps): void {
  const { timeline, thread } = props;
  if (row.isPart) {
    if (props.timed) props.choose(timeAt(timeline, row.from), timeAt(timeline, row.to));
    return;
  }
  const lane = row.lane === undefined ? undefined : timeline.lanes[row.lane];
  const id = lane ? String(lane.id) : "";
  props.chooseThread(id === thread ? "" : id);
}

function timeAt(timeline: Timeline, pixel: number): number {
  return timeline.from + (pixel / timeline.pixels) * (timeline.to - timeline.from);
}

function rowsOf({ timeline }: TimelineTwinProps, open: ReadonlySet<string>): Row[] {
  const parts = Math.max(1, Math.min(PARTS, timeline.pixels));
  const edge = (part: number) => Math.round((part / parts) * timeline.pixels);
  const rows: Row[] = [];
  const add = (key: string, name: string, lane: number | undefined, place: [number, number]) => {
    const isOpen = open.has(key);
    const whole = { name, lane, from: 0, to: timeline.pixels };
    rows.push({ ...whole, key, depth: 0, open: isOpen, isPart: false, place });
    for (let part = 0; isOpen && part < parts; part += 1) {
      const [from, to] = [edge(part), edge(part + 1)];
      const span = [from, to].map((pixel) => written(timeAt(timeline, pixel))).join(" to ");
      rows.push({
        key: `${key} ${part}`,
        depth: 1,
        open: undefined,
        place: [part + 1, parts],
        name: span,
        lane,
        from,
        to,
        isPart: true,
      });
    }
  };
  const siblings = timeline.lanes.length + 1;
  add("all", "All threads", undefined, [1, siblings]);
  timeline.lanes.forEach((lane, at) => add(`t${lane.id}`, lane.name, at, [at + 2, siblings]));
  return rows;
}

function written(time: number): string {
  return time === 0 ? "0 s" : duration(time);
}

function columnsOf(props: TimelineTwinProps): GridColumn<Row>[] {
  return [
    {
      title: "Thread, time",
      width: "minmax(180px, 2fr)",
      cell: (row) => visible(row.name),
    },
    { title: "What it did", width: "minmax(160px, 2fr)", cell: (row) => did(row, props) },
    { title: "Events", width: "minmax(140px, 2fr)", cell: (row) => eventsIn(row, props.timeline) },
  ];
}

/** All threads: the weight per second. A thread: its states, those that took longest first. */
function did({ lane, from, to }: Row, props: TimelineTwinProps): string {
  const { timeline, states, shown, write } = props;
  const pixels = Math.max(to - from, 1);
  const sums = new Map<number, number>();
  if (lane === undefined) {
    let sum = 0;
    for (const row of shown) {
      for (let pixel = from; pixel < to; pixel += 1) {
        sum += timeline.weights[row * timeline.pixels + pixel] ?? 0;
      }
    }
    return sum === 0 ? "nothing" : write(sum / pixels);
  }
  for (let pixel = from; pixel < to; pixel += 1) {
    const at = lane * timeline.pixels + pixel;
    const state = timeline.state[at] ?? NO_STATE;
    if (state !== NO_STATE) sums.set(state, (sums.get(state) ?? 0) + (timeline.share[at] ?? 0));
  }
  const heaviest = [...sums].sort((one, other) => other[1] - one[1]).slice(0, 3);
  const words = heaviest.map(
    ([state, sum]) => `${visible(states[state] ?? "")} ${percent(sum / pixels)}`.trim(),
  );
  return words.length === 0 ? "nothing" : words.join(", ");
}

function eventsIn({ lane, from, to }: Row, timeline: Timeline): string {
  const [begin, end] = [timeAt(timeline, from), timeAt(timeline, to)];
  const counts = new Map<number, number>();
  for (let at = 0; at < timeline.marker_time.length; at += 1) {
    const time = timeline.marker_time[at]!;
    if (timeline.marker_lane[at] !== (lane ?? NONE)) continue;
    if (time + timeline.marker_length[at]! < begin || time >= end) continue;
    const kind = timeline.marker_kind[at]!;
    counts.set(kind, (counts.get(kind) ?? 0) + timeline.marker_count[at]!);
  }
  return [...counts]
    .map(([kind, number]) => `${timeline.kinds[kind] ?? "event"}: ${count(number)}`)
    .join(", ");
}
