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
}

const HEIGHT = 150;

function seconds(value: number): string {
  const whole = Math.round(value);
  const two = (part: number) => part.toString().padStart(2, "0");
  return `${Math.floor(whole / 60)}:${two(whole % 60)}`;
}

function optionsOf(props: ChartProps, width: number): uPlot.Options {
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
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
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
      plot.current = new uPlot(optionsOf(latest.current, width), data(), element);
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
  }, []);
  useEffect(() => plot.current?.setData([props.time, props.values]), [props.time, props.values]);
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
