// What a recording shows while it runs: the same for recordings, check-ups and traces.

import { bytes, count, duration, number, percent, rate, visible } from "../data/format";
import type { Figures, Progress, Recording } from "../data/types";
import { Bar } from "../views/cells";
import { Chart, type ChartPart } from "../views/chart";
import { Tile, Tiles } from "./parts";
import type { History } from "./watched";

/** Rows of each live list. */
const ROWS = 12;

/** How far a recording is. */
export function Running(props: { recording: Recording; progress: Progress }) {
  const { recording, progress } = props;
  const whole = recording.duration_seconds;
  const elapsed = progress.elapsed_seconds;
  const samples = Object.values(progress.samples).reduce((sum, more) => sum + more, 0);
  const of = whole === null ? "" : ` of ${number(whole)} s`;
  return (
    <div class="card pad running">
      <p role="status">
        <span class="dot" aria-hidden="true" /> {visible(progress.stage || "beginning")}
      </p>
      <progress
        aria-label="How far it is"
        max={whole ?? 1}
        value={whole === null ? undefined : Math.min(elapsed, whole)}
      />
      <p class="hint">
        {elapsed.toFixed(1)} s{of} · {count(samples)} samples and events
        {progress.dropped > 0 && ` · ${count(progress.dropped)} dropped`} · {bytes(progress.bytes)}
      </p>
    </div>
  );
}

/** Samples and events of each profiler. */
export function Samples({ progress }: { progress: Progress }) {
  return (
    <Tiles>
      {Object.entries(progress.samples).map(([profiler, samples]) => (
        <Tile key={profiler} label={profiler} value={count(samples)} note="samples and events" />
      ))}
    </Tiles>
  );
}

const perSecond = (value: number) => `${bytes(value)}/s`;

const cores = (value: number) => `${(value * 100).toFixed(0)} %`;

/**
 * Figures over time. What was zero all the time may just not be recorded, so it is not drawn: a
 * line at zero would say that there is nothing.
 */
export function Charts({ history, part }: { history: History; part?: ChartPart | undefined }) {
  const { time } = history;
  const charts = [
    { title: "CPU", values: history.cpu, write: cores, stroke: "--series-1", least: 0.1 },
    { title: "GC pauses", values: history.paused, write: percent, stroke: "--series-2", least: 0.01 },
    { title: "Exceptions", values: history.exceptions, write: rate, stroke: "--series-6", least: 1 },
    { title: "Allocated", values: history.allocated, write: perSecond, stroke: "--series-5" },
    { title: "Heap after the latest GC", values: history.heap, write: bytes, stroke: "--series-3" },
    { title: "Threads seen", values: history.threads, write: number, stroke: "--series-4", least: 4 },
  ];
  return (
    <div class="charts">
      {charts
        .filter((chart) => chart.values.some((value) => value !== null && value > 0))
        .map((chart) => (
          <Chart key={chart.title} time={time} part={part} {...chart} />
        ))}
    </div>
  );
}

/** What the process does now. */
export function Now({ figures }: { figures: Figures }) {
  return (
    <div class="grid2">
      <Methods figures={figures} />
      <Threads figures={figures} />
      <Exceptions figures={figures} />
      <Collections figures={figures} />
    </div>
  );
}

function Part(props: { title: string; head: string[]; rows: preact.ComponentChildren[][] }) {
  const { title, head, rows } = props;
  if (rows.length === 0) return null;
  const left = head.findIndex((name) => name.startsWith("<"));
  const place = (at: number) => (at === left ? "fn" : "n");
  return (
    <section class="card pad" aria-label={title}>
      <h2>{title}</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label={title}>
        <table class="data">
          <thead>
            <tr>
              {head.map((name, at) => (
                <th key={name} scope="col" class={place(at)}>
                  {name.replace("<", "")}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, index) => (
              <tr key={index}>
                {row.map((cell, at) => (
                  <td key={at} class={place(at)}>
                    {cell}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

const name = (text: string) => <code class="name">{visible(text)}</code>;

function Methods({ figures }: { figures: Figures }) {
  const rows = figures.methods.slice(0, ROWS).map((row) => [
    percent(row.own),
    percent(row.total),
    <>
      <Bar share={row.own} /> {name(row.name)}
    </>,
  ]);
  return <Part title="Methods on a processor" head={["self", "total", "<method"]} rows={rows} />;
}

function Threads({ figures }: { figures: Figures }) {
  const seen = figures.threads.filter((row) => row.cpu > 0 || row.state !== null);
  const busy = seen.sort((one, other) => other.cpu - one.cpu).slice(0, ROWS);
  const rows = busy.map((row) => [
    cores(row.cpu),
    row.state ?? "",
    <>
      {visible(row.name)} <span class="where">{visible(row.method ?? "")}</span>
    </>,
  ]);
  return <Part title="Threads" head={["CPU", "state", "<thread"]} rows={rows} />;
}

function Exceptions({ figures }: { figures: Figures }) {
  const rows = figures.exceptions.slice(0, ROWS).map((row) => [
    rate(row.per_second),
    count(row.count),
    <>
      {name(row.name)} <span class="where">{visible(row.message ?? "")}</span>
    </>,
  ]);
  return <Part title="Exceptions" head={["now", "total", "<type"]} rows={rows} />;
}

function Collections({ figures }: { figures: Figures }) {
  const rows = figures.collections.slice(0, ROWS).map((row) => [
    count(row.number),
    String(row.generation),
    row.pause_ms === null ? "·" : duration(row.pause_ms * 1e6),
    bytes(row.heap_bytes),
    `${visible(row.reason)}, ${visible(row.kind)}`,
  ]);
  const head = ["number", "gen", "pause", "heap after", "<reason"];
  return <Part title="Garbage collections" head={head} rows={rows} />;
}
