// How types grow over the heap snapshots of a session: a line for each of those that grew most, and
// a table of all of them.

import { useRef, useState } from "preact/hooks";
import { bytes, count, counted, inUnit, visible } from "../data/format";
import { heapGrowth, type Growth, type GrowthRow, type Trend } from "../data/heap";
import { useQuery } from "../data/query";
import { fit, fitText, niceStep, usePaint, useSize, useThemed } from "./canvas";
import { More } from "./more";
import { SearchField } from "./search";
import { useKept } from "./state";
import { color } from "./theme";
import { TipView, type Tip } from "./tip";

/** Rows that are shown at first, and that a click adds. */
const STEP = 100;

/** Types that have a line, at most: there are as many colors. */
const LINES = 6;

/** Pixels of the chart: all of it, the axis below, and the places of numbers and names beside it. */
const HEIGHT = 240;
const AXIS = 20;
const NUMBERS = 68;
const NAMES = 130;
const TOP = 10;

/** What is counted of a type. */
type Measure = "bytes" | "objects";

/** A type that has a line. */
interface Line {
  row: GrowthRow;
  /** A color of style.css. */
  stroke: string;
}

function valuesOf(row: GrowthRow, measure: Measure): number[] {
  return measure === "bytes" ? row.bytes : row.objects;
}

function trendOf(row: GrowthRow, measure: Measure): Trend {
  return measure === "bytes" ? row.bytes_trend : row.objects_trend;
}

function write(value: number, measure: Measure): string {
  return measure === "bytes" ? bytes(value) : count(value);
}

function change(value: number, measure: Measure): string {
  return inUnit(value, measure === "bytes" ? "bytes-change" : "count-change");
}

function perSecond(value: number, measure: Measure): string {
  return measure === "bytes" ? `${change(value, measure)}/s` : inUnit(value, "change-per-second");
}

/** What the analysis says of the growth of a type. */
const VERDICTS: Record<string, string> = {
  grew: "grew",
  likely: "probably leaks",
  leaking: "leaks",
};

/** The growth over the heap snapshots of a session. */
export function GrowthView({ session }: { session: string }) {
  useThemed();
  const [kept, setMeasure] = useKept("measure", true);
  const [search, setSearch] = useKept("type", true);
  const [grown, setGrown] = useKept("grown", true);
  const [most, setMost] = useState(STEP);
  const measure: Measure = kept === "objects" ? "objects" : "bytes";
  const query = useQuery(`growth ${session} ${measure} ${search} ${most}`, (signal) =>
    heapGrowth(session, { search, sort: measure, rows: most }, signal),
  );
  const last = useRef<Growth>(undefined);
  if (query.data) last.current = query.data;
  const growth = last.current;
  if (query.problem) {
    return (
      <div class="banner bad" role="alert">
        {visible(query.problem.reason)} {query.problem.next}
      </div>
    );
  }
  if (!growth) {
    return (
      <p class="empty" role="status">
        Comparing the heap snapshots …
      </p>
    );
  }
  const lines = linesOf(growth, measure, grown);
  return (
    <>
      <div class="selectors">
        <div class="segments" role="group" aria-label="Measure">
          <button aria-pressed={measure === "bytes"} onClick={() => setMeasure("")}>
            Bytes
          </button>
          <button aria-pressed={measure === "objects"} onClick={() => setMeasure("objects")}>
            Objects
          </button>
        </div>
      </div>
      <Summary growth={growth} />
      {lines.length > 0 && (
        <section class="card" aria-label="Growth over time">
          <Chart {...{ growth, lines, measure, grown }} />
          <Twin {...{ growth, lines, measure }} />
        </section>
      )}
      <Types
        {...{ growth, lines, measure, search, setSearch, grown, setGrown, most, setMost }}
        busy={!query.data}
      />
    </>
  );
}

function Summary({ growth }: { growth: Growth }) {
  const { snapshots, bytes: trend, objects } = growth;
  const missing = snapshots.filter((one) => !one.complete).length;
  const length = (snapshots.at(-1)?.seconds ?? 0) - (snapshots[0]?.seconds ?? 0);
  return (
    <>
      {missing > 0 && (
        <p class="banner">
          {counted(missing, "snapshot")} of {count(snapshots.length)} {missing === 1 ? "is" : "are"}{" "}
          not complete: objects are missing, so growth may be wrong.
        </p>
      )}
      <p class="hint">
        {counted(snapshots.length, "heap snapshot")} in {length.toFixed(1)} s: the heap changed by{" "}
        {change(trend.change, "bytes")} ({perSecond(trend.per_second, "bytes")}) and by{" "}
        {change(objects.change, "objects")} objects. Bytes are those of the objects themselves.
      </p>
    </>
  );
}

/** The types with a line: those that grew most, and the one that the reader chose. */
function linesOf(growth: Growth, measure: Measure, grown: string): Line[] {
  const rows = growth.rows.filter((row) => trendOf(row, measure).change > 0).slice(0, LINES);
  const chosen = growth.rows.find((row) => row.name === grown);
  const lines = rows.map((row, at) => ({ row, stroke: `--series-${at + 1}` }));
  if (chosen && !rows.includes(chosen)) lines.push({ row: chosen, stroke: "--ink" });
  return lines;
}

interface ChartProps {
  growth: Growth;
  lines: Line[];
  measure: Measure;
  /** Name of the type that the reader chose. */
  grown: string;
}

/** Where values are in the chart. */
interface Scale {
  x: (seconds: number) => number;
  y: (value: number) => number;
  high: number;
  right: number;
}

function scaleOf({ growth, lines, measure }: ChartProps, width: number): Scale {
  const seconds = growth.snapshots.map((one) => one.seconds);
  const [first, last] = [seconds[0] ?? 0, seconds.at(-1) ?? 0];
  const values = lines.flatMap(({ row }) => valuesOf(row, measure));
  const high = Math.max(...values, 1) * 1.05;
  const right = Math.max(width - (width > 480 ? NAMES : 10), NUMBERS + 1);
  const length = Math.max(last - first, 1e-9);
  return {
    x: (second) => NUMBERS + ((second - first) / length) * (right - NUMBERS),
    y: (value) => HEIGHT - AXIS - (value / high) * (HEIGHT - AXIS - TOP),
    high,
    right,
  };
}

function Chart(props: ChartProps) {
  const { growth, lines, measure } = props;
  const holder = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width } = useSize(holder);
  const [tip, setTip] = useState<Tip>();
  usePaint(() => {
    const context = canvas.current && width > 0 && fit(canvas.current, width, HEIGHT);
    if (context) draw(context, props, scaleOf(props, width));
  });
  const names = lines.map(({ row }) => visible(row.short)).join(", ");
  const label = `${measure === "bytes" ? "Bytes" : "Objects"} of ${names} over the heap snapshots.`;
  const point = (event: MouseEvent) => {
    const left = (event.currentTarget as HTMLElement).getBoundingClientRect().left;
    setTip(tipAt(growth, props, scaleOf(props, width), event, event.clientX - left));
  };
  return (
    <div class="grown" ref={holder}>
      <canvas
        ref={canvas}
        role="img"
        aria-label={`${label} The tables below say the same.`}
        onMouseMove={point}
        onMouseLeave={() => setTip(undefined)}
      />
      <TipView tip={tip} />
    </div>
  );
}

/** The values of the snapshot that is nearest to the pointer. */
function tipAt(growth: Growth, props: ChartProps, scale: Scale, event: MouseEvent, x: number): Tip {
  const distance = (at: number) => Math.abs(scale.x(growth.snapshots[at]!.seconds) - x);
  const all = growth.snapshots.map((_, at) => at);
  const nearest = all.reduce((best, at) => (distance(at) < distance(best) ? at : best), 0);
  const { seconds } = growth.snapshots[nearest]!;
  return {
    x: event.clientX,
    y: event.clientY,
    title: `Snapshot ${nearest + 1}`,
    where: [`${seconds.toFixed(1)} s`],
    rows: props.lines.map(({ row }) => [
      visible(row.short),
      write(valuesOf(row, props.measure)[nearest] ?? 0, props.measure),
    ]),
  };
}

function draw(context: CanvasRenderingContext2D, props: ChartProps, scale: Scale) {
  const { growth, lines, measure, grown } = props;
  context.font = `11px ${color("--sans")}`;
  context.textBaseline = "middle";
  context.lineWidth = 1;
  const step = niceStep(scale.high, 4);
  context.textAlign = "right";
  for (let value = 0; value <= scale.high; value += step) {
    const y = Math.round(scale.y(value)) + 0.5;
    context.strokeStyle = color("--line");
    context.beginPath();
    context.moveTo(NUMBERS, y);
    context.lineTo(scale.right, y);
    context.stroke();
    context.fillStyle = color("--soft");
    context.fillText(write(value, measure), NUMBERS - 6, y);
  }
  drawTimes(context, growth, scale);
  let free = -Infinity;
  const ends = lines.map((line) => ({ line, y: scale.y(valuesOf(line.row, measure).at(-1) ?? 0) }));
  for (const { line, y } of ends.sort((one, other) => one.y - other.y)) {
    drawLine(context, line, props, scale, line.row.name === grown);
    // Names stand beside the ends of their lines, below each other.
    free = Math.max(y, free + 13);
    const room = context.canvas.clientWidth - scale.right - 10;
    if (room < 30 || free > HEIGHT) continue;
    context.fillStyle = color(line.stroke);
    context.textAlign = "left";
    context.fillText(fitText(context, visible(line.row.short), room), scale.right + 7, free);
  }
}

/** Seconds below the snapshots, as far as they do not touch. */
function drawTimes(context: CanvasRenderingContext2D, growth: Growth, scale: Scale) {
  context.fillStyle = color("--soft");
  context.textAlign = "center";
  let end = -Infinity;
  for (const { seconds } of growth.snapshots) {
    const text = `${seconds.toFixed(1)} s`;
    const [x, half] = [scale.x(seconds), context.measureText(text).width / 2];
    if (x - half < end + 8) continue;
    context.fillText(text, x, HEIGHT - AXIS / 2);
    end = x + half;
  }
}

function drawLine(
  context: CanvasRenderingContext2D,
  { row, stroke }: Line,
  { growth, measure }: ChartProps,
  scale: Scale,
  isChosen: boolean,
) {
  const values = valuesOf(row, measure);
  const points = growth.snapshots.map(
    ({ seconds }, at) => [scale.x(seconds), scale.y(values[at] ?? 0)] as const,
  );
  context.strokeStyle = context.fillStyle = color(stroke);
  context.lineWidth = isChosen ? 4 : 2;
  context.lineJoin = "round";
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  context.stroke();
  // Of many snapshots single points would hide the line.
  if (points.length > 60) return;
  for (const [x, y] of points) {
    context.beginPath();
    context.arc(x, y, isChosen ? 4 : 3, 0, 2 * Math.PI);
    context.fill();
  }
}

/** The values of the lines, snapshot by snapshot. */
function Twin({ growth, lines, measure }: Omit<ChartProps, "grown">) {
  return (
    <details class="twin pad">
      <summary>As a table</summary>
      <div class="scroll" tabIndex={0} role="group" aria-label="Growth by snapshot, as a table">
        <table class="data">
          <thead>
            <tr>
              <th scope="col" class="n">
                Second
              </th>
              {lines.map(({ row }) => (
                <th scope="col" class="n" key={`${row.module} ${row.name}`}>
                  {visible(row.short)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {growth.snapshots.map(({ seconds }, at) => (
              <tr key={at}>
                <td class="n">{seconds.toFixed(1)}</td>
                {lines.map(({ row }, column) => (
                  <td class="n" key={column}>
                    {write(valuesOf(row, measure)[at] ?? 0, measure)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

interface TypesProps extends ChartProps {
  search: string;
  setSearch: (search: string) => void;
  setGrown: (name: string) => void;
  most: number;
  setMost: (most: number) => void;
  busy: boolean;
}

/** Types that changed, those that grew most first. */
function Types(props: TypesProps) {
  const { growth, measure, search, setSearch, most, setMost } = props;
  return (
    <section class="card" aria-label="Types that grew" aria-busy={props.busy}>
      <div class="titled inner">
        <h2>Types that grew</h2>
        <SearchField label="Search types" value={search} change={setSearch} />
      </div>
      {growth.rows.length === 0 && (
        <p class="empty">
          {search === "" ? "No type has changed." : "No type that changed has this in its name."}
        </p>
      )}
      {growth.rows.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label="Table of types that grew">
          <table class="data">
            <thead>
              <tr>
                {["Growth", "Per second", "First", "Last"].map((title) => (
                  <th scope="col" class="n" key={title}>
                    {title}
                  </th>
                ))}
                <th scope="col">Type</th>
              </tr>
            </thead>
            <tbody>
              {growth.rows.map((row) => (
                <TypeRow key={`${row.module} ${row.name}`} {...{ row, measure }} {...props} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <More shown={growth.rows.length} all={growth.count} what="type" most={most} setMost={setMost} />
    </section>
  );
}

function TypeRow(props: TypesProps & { row: GrowthRow }) {
  const { row, lines, measure, grown, setGrown } = props;
  const [values, trend] = [valuesOf(row, measure), trendOf(row, measure)];
  const line = lines.find((one) => one.row === row);
  const isChosen = row.name === grown;
  const verdict = row.verdict === null ? undefined : VERDICTS[row.verdict];
  return (
    <tr>
      <td class="n">{change(trend.change, measure)}</td>
      <td class="n">{perSecond(trend.per_second, measure)}</td>
      <td class="n">{write(values[0] ?? 0, measure)}</td>
      <td class="n">{write(values.at(-1) ?? 0, measure)}</td>
      <td class="fn">
        {line && (
          <i class="kind" aria-hidden="true" style={{ background: `var(${line.stroke})` }} />
        )}
        <code class="name">{visible(row.name)}</code>
        <div class="where">
          {visible(row.module)} {verdict && <b>{verdict}</b>}{" "}
          <button class="link" aria-pressed={isChosen} onClick={() => setGrown(isChosen ? "" : row.name)}>
            {isChosen ? "highlighted" : "highlight"}
            <span class="sr">: {visible(row.short)}</span>
          </button>
        </div>
      </td>
    </tr>
  );
}
