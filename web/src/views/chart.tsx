// Values over time as a line, drawn by uPlot.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useEffect, useRef } from "preact/hooks";
import { color, onTheme } from "./theme";

export interface ChartProps {
  /** What it shows; also its name for those who do not see it. */
  title: string;
  /** Seconds, ascending. */
  time: number[];
  values: (number | null)[];
  /** A value with its unit. */
  write: (value: number) => string;
  /** A color of style.css, such as `--series-1`. */
  stroke: string;
  /** The highest value that the axis has at least. */
  least?: number;
  /** The part of the time that is chosen, and how the pointer chooses one. */
  part?: ChartPart | undefined;
}

/** A part of the time of a chart, in seconds. */
export interface ChartPart {
  /** Where it begins; `undefined` if nothing is chosen. */
  from: number | undefined;
  /** Where it ends; `undefined` for the end of the chart. */
  to: number | undefined;
  choose: (from: number, to: number) => void;
}

/** Pixels that the pointer is dragged at least. */
const DRAGGED = 5;

/** Chooses a part of the time, and draws the chosen one behind the line. */
function partHooks(latest: { current: ChartProps }): uPlot.Hooks.Arrays {
  const choose = (plot: uPlot) => {
    const { left, width } = plot.select;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (width < DRAGGED) return;
    latest.current.part?.choose(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
  };
  const draw = (plot: uPlot) => {
    const { from, to } = latest.current.part ?? {};
    if (from === undefined) return;
    const { ctx, bbox } = plot;
    const [begin, end] = [bbox.left, bbox.left + bbox.width];
    const x = (time: number) => Math.min(Math.max(plot.valToPos(time, "x", true), begin), end);
    const [left, right] = [x(from), to === undefined ? end : x(to)];
    ctx.save();
    ctx.globalAlpha = 0.15;
    ctx.fillStyle = color("--accent");
    ctx.fillRect(left, bbox.top, right - left, bbox.height);
    ctx.restore();
  };
  return { setSelect: [choose], drawAxes: [draw] };
}

const HEIGHT = 150;

function seconds(value: number): string {
  const whole = Math.round(value);
  const two = (part: number) => part.toString().padStart(2, "0");
  return `${Math.floor(whole / 60)}:${two(whole % 60)}`;
}

function optionsOf(latest: { current: ChartProps }, width: number): uPlot.Options {
  const props = latest.current;
  const [soft, line, stroke] = [color("--faint"), color("--line"), color(props.stroke)];
  const font = `11px ${color("--sans")}`;
  const axis: uPlot.Axis = {
    stroke: soft,
    font,
    grid: { stroke: line, width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: {
      drag: { x: props.part !== undefined, y: false, setScale: false },
      points: { size: 6 },
    },
    hooks: partHooks(latest),
    scales: {
      x: { time: false },
      y: { range: (_, __, high) => [0, Math.max(high * 1.05, props.least ?? 0, 1e-9)] },
    },
    axes: [
      { ...axis, size: 26, values: (_, splits) => splits.map(seconds) },
      { ...axis, size: 68, values: (_, splits) => splits.map((value) => props.write(value)) },
    ],
    series: [
      {},
      { stroke, width: 1.5, fill: `${stroke}22`, points: { show: props.time.length < 2 } },
    ],
  };
}

/** A line over time. Its latest value stands beside its title. */
export function Chart(props: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const data = (): uPlot.AlignedData => [latest.current.time, latest.current.values];
    const make = () => {
      plot.current?.destroy();
      const width = Math.max(element.clientWidth, 120);
      plot.current = new uPlot(optionsOf(latest, width), data(), element);
    };
    make();
    const observer = new ResizeObserver(() => {
      plot.current?.setSize({ width: Math.max(element.clientWidth, 120), height: HEIGHT });
    });
    observer.observe(element);
    const forget = onTheme(make);
    return () => {
      observer.disconnect();
      forget();
      plot.current?.destroy();
      plot.current = undefined;
    };
    // Whether the pointer chooses a part is settled when it is made.
  }, [props.part !== undefined]);
  useEffect(() => plot.current?.setData([props.time, props.values]), [props.time, props.values]);
  const { part } = props;
  useEffect(() => plot.current?.redraw(false), [part?.from, part?.to]);
  const last = props.values.at(-1);
  const shown = last === null || last === undefined ? "–" : props.write(last);
  return (
    <figure class="card chart">
      <figcaption>
        {props.title} <b>{shown}</b>
      </figcaption>
      <div ref={place} role="img" aria-label={`${props.title}, now ${shown}`} />
    </figure>
  );
}
