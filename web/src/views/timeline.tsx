// What happened over time: the sums of all threads, each thread by itself, and markers. A part of
// the time is chosen with the pointer, or by numbers.

import type { RefObject } from "preact";
import { useRef, useState } from "preact/hooks";
import { NONE } from "../data/columns";
import { bytes, count, counted, duration, rate, visible } from "../data/format";
import { useQuery } from "../data/query";
import type { Description, Series, Source, Timeline } from "../data/source";
import { fit, fitText, niceStep, usePaint, useSize } from "./canvas";
import { isDark, MARKERS, stateColor } from "./palette";
import { color } from "./theme";
import { TimelineTwin } from "./timeline-twin";
import { TipView, type Tip } from "./tip";

/** Height of the sums, of the axis and of a thread. */
const SUMS = 46;
const AXIS = 18;
const LANE = 15;

/** Most pixels of lanes that are visible at the same time. */
const MOST_LANES = 165;

/** How many threads are fetched at a time. */
const STEP = 50;

export interface TimelineProps {
  source: Source;
  description: Description;
  series: Series;
  /** States that are shown. */
  states: string[] | undefined;
  from: string;
  to: string;
  choose: (from: string, to: string) => void;
  thread: string;
  chooseThread: (thread: string) => void;
}

/** Where things of a timeline are. */
interface Scale {
  label: number;
  width: number;
  x: (time: number) => number;
  time: (x: number) => number;
}

function scaleOf(timeline: Timeline, width: number): Scale {
  const label = timeline.lanes.length === 0 ? 0 : Math.min(150, width / 4);
  const length = Math.max(timeline.to - timeline.from, 1);
  const inner = Math.max(width - label, 1);
  return {
    label,
    width,
    x: (time) => label + ((time - timeline.from) / length) * inner,
    time: (x) => timeline.from + (Math.min(Math.max(x - label, 0), inner) / inner) * length,
  };
}

/** A weight per second, for a reader. */
function perSecond(series: Series, weight: number): string {
  if (series.unit === "bytes") return `${bytes(Math.round(weight))}/s`;
  if (series.unit === "count") return rate(weight);
  return series.id === "cpu"
    ? `${(weight / 1e9).toFixed(2)} processors`
    : `${(weight / 1e9).toFixed(1)} threads`;
}

/** What is shown: the latest answer, also while the next one is on its way. */
function useTimeline({ source, series, from, to }: TimelineProps, width: number, first: number) {
  const rows = STEP * 2;
  const key = `timeline ${source.id} ${series.id} ${from} ${to} ${width} ${first}`;
  const query = useQuery(key, async (signal) => {
    // Nothing is visible yet.
    if (width === 0) return new Promise<{ timeline: Timeline; first: number }>(() => {});
    const pixels = Math.max(1, Math.round(width));
    const asked = { profiler: series.id, from, to, width: pixels, first, rows };
    return { timeline: await source.timeline(asked, signal), first };
  });
  const shown = useRef<{ timeline: Timeline; first: number }>(undefined);
  if (query.data) shown.current = query.data;
  return { ...shown.current, problem: query.problem, busy: !query.data };
}

/** Chooses a part of the time by dragging. */
function useBrush(props: TimelineProps, timeline: Timeline | undefined, width: number) {
  const [brush, setBrush] = useState<[number, number]>();
  const begun = useRef<number>(undefined);
  const drag = (event: PointerEvent) => {
    if (!timeline || !props.source.timed) return;
    const element = event.currentTarget as HTMLElement;
    const x = event.clientX - element.getBoundingClientRect().left;
    const time = scaleOf(timeline, width).time(x);
    if (event.type === "pointerdown") {
      element.setPointerCapture(event.pointerId);
      begun.current = time;
      return;
    }
    if (begun.current === undefined) return;
    const part: [number, number] =
      begun.current < time ? [begun.current, time] : [time, begun.current];
    if (event.type === "pointermove") {
      setBrush(part);
      return;
    }
    begun.current = undefined;
    setBrush(undefined);
    // A click is no part.
    if (part[1] - part[0] > (timeline.to - timeline.from) / 200) {
      props.choose(seconds(part[0]), seconds(part[1]));
    }
  };
  return { brush, drag };
}

export function TimelineView(props: TimelineProps) {
  const { source, series } = props;
  const holder = useRef<HTMLDivElement>(null);
  const sums = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const { width } = useSize(holder);
  const [first, setFirst] = useState(0);
  const [tip, setTip] = useState<Tip>();
  const shown = useTimeline(props, width, first);
  const { timeline, problem, busy } = shown;
  const { brush, drag } = useBrush(props, timeline, width);
  usePaint(() => {
    if (!timeline || !sums.current) return;
    const context = fit(sums.current, width, SUMS + AXIS);
    if (context) drawSums(context, timeline, scaleOf(timeline, width), props, brush);
  });
  const point = (event: MouseEvent | undefined, lane?: number) => {
    if (!timeline || !event) {
      setTip(undefined);
      return;
    }
    const area = (event.currentTarget as HTMLElement).getBoundingClientRect();
    setTip(tipOf(timeline, scaleOf(timeline, width), props, event.clientX - area.left, lane, event));
  };
  return (
    <div class="timeline" ref={holder} aria-busy={busy}>
      {problem && <p class="banner bad">{visible(problem.reason)}</p>}
      <canvas
        class={source.timed ? "sums brush" : "sums"}
        ref={sums}
        role="img"
        aria-label={`${series.title} over time. ${summary(timeline)}`}
        onPointerDown={drag}
        onPointerMove={drag}
        onPointerUp={drag}
        onMouseMove={(event) => point(event)}
        onMouseLeave={() => point(undefined)}
      />
      {timeline && timeline.threads > 0 && (
        <Lanes {...props} {...{ timeline, width, setFirst, point, scroller }} first={shown.first ?? 0} />
      )}
      {timeline && (
        <TimelineTwin
          timeline={timeline}
          setFirst={(next) => {
            // The lanes show the same threads.
            if (scroller.current) scroller.current.scrollTop = next * LANE;
            setFirst(next);
          }}
          first={shown.first ?? 0}
          step={STEP}
          states={props.description.states}
          write={(weight) => perSecond(series, weight)}
          shown={rowsShown(timeline, props)}
          timed={source.timed}
          choose={(from, to) => props.choose(seconds(from), seconds(to))}
          thread={props.thread}
          chooseThread={props.chooseThread}
        />
      )}
      <TipView tip={tip} />
    </div>
  );
}

interface LanesProps extends TimelineProps {
  timeline: Timeline;
  width: number;
  /** The first thread that the timeline has. */
  first: number;
  setFirst: (first: number) => void;
  scroller: RefObject<HTMLDivElement | null>;
  point: (event: MouseEvent | undefined, lane?: number) => void;
}

/** The threads. Their canvas is no taller than its place; the bar at the side is that of all. */
function Lanes(props: LanesProps) {
  const { timeline, width, first, setFirst, point, thread, scroller } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [all, height] = [timeline.threads * LANE, Math.min(timeline.threads * LANE, MOST_LANES)];
  const repaint = usePaint(() => {
    const context = canvas.current && fit(canvas.current, width, height);
    const scroll = scroller.current?.scrollTop ?? 0;
    if (context) drawLanes(context, timeline, scaleOf(timeline, width), props, scroll, first);
  });
  const laneAt = (event: MouseEvent) => {
    const area = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const y = event.clientY - area.top + (scroller.current?.scrollTop ?? 0);
    return Math.floor(y / LANE) - first;
  };
  return (
    <div
      class="lane-place"
      ref={scroller}
      onScroll={() => {
        const top = Math.floor((scroller.current?.scrollTop ?? 0) / LANE);
        setFirst(Math.floor(top / STEP) * STEP);
        repaint();
      }}
      style={{ height: `${height}px` }}
      tabIndex={0}
      role="group"
      aria-label="Threads over time"
    >
      <canvas
        class="lanes"
        ref={canvas}
        role="img"
        aria-label={`What ${counted(timeline.threads, "thread")} did. The list of threads above chooses one.`}
        onMouseMove={(event) => point(event, laneAt(event))}
        onMouseLeave={() => point(undefined)}
        onClick={(event) => {
          const lane = timeline.lanes[laneAt(event)];
          if (lane) props.chooseThread(String(lane.id) === thread ? "" : String(lane.id));
        }}
      />
      <div style={{ height: `${Math.max(0, all - height)}px` }} />
    </div>
  );
}

/** Seconds with as many digits as are of use. */
function seconds(nanos: number): string {
  return (nanos / 1e9).toFixed(6).replace(/\.?0+$/, "");
}

/** What a reader hears who does not see the timeline. */
function summary(timeline: Timeline | undefined): string {
  if (!timeline) return "";
  const counts = timeline.kinds.map(() => 0);
  timeline.marker_kind.forEach((kind, at) => {
    counts[kind] = (counts[kind] ?? 0) + timeline.marker_count[at]!;
  });
  const words = timeline.kinds
    .map((title, kind) => ({ title, number: counts[kind] ?? 0 }))
    .filter(({ number }) => number > 0)
    .map(({ title, number }) => `${title}: ${count(number)}`);
  return words.length === 0 ? "" : `${words.join(", ")}.`;
}

/** States that are shown, as rows of the weights. */
function rowsShown(timeline: Timeline, { description, states, series }: TimelineProps): number[] {
  const titles = new Map(series.states.map((state) => [state.index, state.id]));
  return timeline.shown_states
    .map((state, row) => ({ row, id: titles.get(state) ?? description.states[state] ?? "" }))
    .filter(({ id }) => timeline.shown_states.length === 1 || (states?.includes(id) ?? true))
    .map(({ row }) => row);
}

/** Sums of several pixels together: samples that come every few pixels would look like a comb. */
function columnsOf(timeline: Timeline, rows: number[], series: Series) {
  const wanted = Math.max(20, Math.min(timeline.pixels / 4, series.samples / 6));
  const per = Math.max(1, Math.ceil(timeline.pixels / wanted));
  const columns: number[][] = [];
  let most = 1e-9;
  for (let at = 0; at < timeline.pixels; at += per) {
    const width = Math.min(per, timeline.pixels - at);
    const column = rows.map((row) => {
      let sum = 0;
      for (let pixel = at; pixel < at + width; pixel += 1) {
        sum += timeline.weights[row * timeline.pixels + pixel] ?? 0;
      }
      return sum / width;
    });
    most = Math.max(
      most,
      column.reduce((sum, value) => sum + value, 0),
    );
    columns.push(column);
  }
  return { per, columns, most };
}

function colorOf(timeline: Timeline, row: number, props: TimelineProps): string {
  const { series, description } = props;
  if (timeline.shown_states.length === 1) return isDark() ? "#5b86c9" : "#7fa8e6";
  const state = timeline.shown_states[row]!;
  const own = series.states.find((known) => known.index === state);
  return stateColor(own?.title ?? description.states[state] ?? "", state);
}

function drawSums(
  g: CanvasRenderingContext2D,
  timeline: Timeline,
  scale: Scale,
  props: TimelineProps,
  brush: [number, number] | undefined,
): void {
  const rows = rowsShown(timeline, props);
  const { per, columns, most } = columnsOf(timeline, rows, props.series);
  const pixel = (scale.width - scale.label) / timeline.pixels;
  columns.forEach((column, index) => {
    let y = SUMS;
    rows.forEach((row, at) => {
      const height = (column[at]! / most) * (SUMS - 12);
      g.fillStyle = colorOf(timeline, row, props);
      g.fillRect(scale.label + index * per * pixel, y - height, Math.max(0.5, per * pixel - 0.5), height);
      y -= height;
    });
  });
  drawMarkers(g, timeline, scale, NONE, SUMS + 1, 4);
  g.font = `11px ${color("--sans")}`;
  g.textBaseline = "alphabetic";
  g.fillStyle = color("--faint");
  const length = timeline.to - timeline.from;
  const step = niceStep(length, Math.max(2, (scale.width - scale.label) / 160));
  for (let time = Math.ceil(timeline.from / step) * step; time < timeline.to; time += step) {
    const x = scale.x(time);
    g.fillRect(x, SUMS, 1, 4);
    const text = time === 0 ? "0 s" : duration(time);
    g.fillText(text, Math.min(x + 4, scale.width - 44), SUMS + AXIS - 3);
  }
  g.textAlign = "right";
  g.fillText(`peak ${perSecond(props.series, most)}`, scale.width - 6, 10);
  g.textAlign = "left";
  if (scale.label > 0) g.fillText("all threads", 8, SUMS - 4);
  if (brush) {
    g.globalAlpha = 0.25;
    g.fillStyle = color("--accent");
    g.fillRect(scale.x(brush[0]), 0, scale.x(brush[1]) - scale.x(brush[0]), SUMS);
    g.globalAlpha = 1;
  }
}

/** Draws the markers of a lane, or of all threads. */
function drawMarkers(
  g: CanvasRenderingContext2D,
  timeline: Timeline,
  scale: Scale,
  lane: number,
  y: number,
  height: number,
): void {
  for (let at = 0; at < timeline.marker_time.length; at += 1) {
    if (timeline.marker_lane[at] !== lane) continue;
    const from = Math.max(scale.x(timeline.marker_time[at]!), scale.label);
    const to = scale.x(timeline.marker_time[at]! + timeline.marker_length[at]!);
    g.fillStyle = MARKERS[timeline.marker_kind[at]!] ?? "#7d8896";
    g.fillRect(from, y, Math.max(1.5, Math.min(to, scale.width) - from), height);
  }
}

function drawLanes(
  g: CanvasRenderingContext2D,
  timeline: Timeline,
  scale: Scale,
  props: TimelineProps,
  scroll: number,
  first: number,
): void {
  const { description, thread } = props;
  const height = g.canvas.clientHeight;
  const pixel = (scale.width - scale.label) / timeline.pixels;
  g.font = `11px ${color("--sans")}`;
  g.textBaseline = "middle";
  timeline.lanes.forEach((lane, row) => {
    const y = (first + row) * LANE - scroll;
    if (y > height || y + LANE < 0) return;
    const chosen = thread === "" || thread === String(lane.id);
    g.globalAlpha = chosen ? 1 : 0.35;
    g.fillStyle = color(chosen && thread !== "" ? "--accent" : "--soft");
    g.fillText(fitText(g, visible(lane.name), scale.label - 14), 8, y + LANE / 2);
    // Neighbors that are alike are drawn at once.
    for (let at = 0; at < timeline.pixels; ) {
      const place = row * timeline.pixels + at;
      const [state, share] = [timeline.state[place]!, timeline.share[place]!];
      let end = at + 1;
      while (
        end < timeline.pixels &&
        timeline.state[row * timeline.pixels + end] === state &&
        Math.abs(timeline.share[row * timeline.pixels + end]! - share) < 0.04
      ) {
        end += 1;
      }
      if (state !== 255) {
        const high = Math.max(1, share * (LANE - 3));
        g.fillStyle = stateColor(description.states[state] ?? "", state);
        g.fillRect(scale.label + at * pixel, y + LANE - 2 - high, (end - at) * pixel, high);
      }
      at = end;
    }
    drawMarkers(g, timeline, scale, row, y + 1, 4);
  });
  g.globalAlpha = 1;
}

function tipOf(
  timeline: Timeline,
  scale: Scale,
  props: TimelineProps,
  x: number,
  lane: number | undefined,
  event: MouseEvent,
): Tip | undefined {
  if (x < scale.label && lane === undefined) return undefined;
  const time = scale.time(x);
  const place = { x: event.clientX, y: event.clientY };
  const rows: [string, string][] = [["at", duration(Math.max(time, 1))]];
  const part = (x - scale.label) / (scale.width - scale.label);
  const pixel = Math.min(timeline.pixels - 1, Math.floor(part * timeline.pixels));
  let title = "";
  if (lane === undefined) {
    const shown = rowsShown(timeline, props);
    const { per, columns } = columnsOf(timeline, shown, props.series);
    const column = columns[Math.floor(pixel / per)];
    shown.forEach((row, at) => {
      const value = column?.[at] ?? 0;
      const state = timeline.shown_states[row]!;
      const name = props.series.states.find((known) => known.index === state)?.title;
      if (value > 0) rows.push([name ?? props.series.title, perSecond(props.series, value)]);
    });
  } else {
    const info = timeline.lanes[lane];
    if (!info) return undefined;
    title = info.name;
    const state = timeline.state[lane * timeline.pixels + pixel];
    if (x >= scale.label && state !== undefined && state !== 255) {
      rows.push(["mostly", props.description.states[state] ?? ""]);
    }
  }
  const near = ((timeline.to - timeline.from) / Math.max(scale.width - scale.label, 1)) * 3;
  let markers = 0;
  for (let at = 0; at < timeline.marker_time.length && markers < 4; at += 1) {
    if (timeline.marker_lane[at] !== (lane ?? NONE)) continue;
    const [begin, length] = [timeline.marker_time[at]!, timeline.marker_length[at]!];
    if (time < begin - near || time > begin + length + near) continue;
    const number = timeline.marker_count[at]!;
    const kind = timeline.kinds[timeline.marker_kind[at]!] ?? "";
    const text = timeline.texts[timeline.marker_text[at]!] ?? "";
    rows.push([kind, number > 1 ? `${count(number)}, such as ${text}` : text]);
    markers += 1;
  }
  return { ...place, title, where: [], rows };
}
