// What all canvas views have in common.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { onTheme } from "./theme";

/** Fits a canvas to its place at the resolution of the screen, and clears it. */
export function fit(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
): CanvasRenderingContext2D | undefined {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  // A new size costs a new canvas.
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  if (!context) return undefined;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Widths of texts; measuring is slow. */
const widths = new Map<string, number>();

/** Texts of which the width is kept. */
const MOST_WIDTHS = 20_000;

/** The width of a text. All texts of a canvas have the same font. */
export function widthOf(context: CanvasRenderingContext2D, text: string): number {
  const key = `${context.font}\n${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size >= MOST_WIDTHS) widths.clear();
    width = context.measureText(text).width;
    widths.set(key, width);
  }
  return width;
}

/** As much of a text as fits; dots stand for the rest. */
export function fitText(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (room < 14) return "";
  // Longer texts are not measured: no letter is narrower than two pixels.
  let [low, high] = [0, Math.min(text.length, Math.ceil(room / 2))];
  if (high === text.length && widthOf(context, text) <= room) return text;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (widthOf(context, `${text.slice(0, middle)}…`) <= room) low = middle;
    else high = middle - 1;
  }
  return low > 1 ? `${text.slice(0, low)}…` : "";
}

/** A step that makes about this number of marks on an axis of this length. */
export function niceStep(length: number, wanted: number): number {
  const raw = Math.max(length, 1e-9) / Math.max(wanted, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw) ?? raw;
}

/** Draws after each change of a component, and of the theme. Gives what draws at the next frame. */
export function usePaint(paint: () => void): () => void {
  const latest = useRef(paint);
  latest.current = paint;
  const again = useMemo(() => {
    let waiting = 0;
    return () => {
      if (waiting) return;
      waiting = requestAnimationFrame(() => {
        waiting = 0;
        latest.current();
      });
    };
  }, []);
  useLayoutEffect(() => latest.current());
  useEffect(() => onTheme(() => latest.current()), []);
  return again;
}

/** Renders a component again when the theme changes: colors in its elements are those of a theme. */
export function useThemed(): void {
  const [, again] = useState(0);
  useEffect(() => onTheme(() => again((times) => times + 1)), []);
}

/** The inner size of an element; 0 wide until it is known. */
export function useSize(place: { current: HTMLElement | null }): { width: number; height: number } {
  const [size, setSize] = useState({ width: 0, height: 400 });
  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return;
    const measure = () => {
      const { clientWidth: width, clientHeight: height } = element;
      setSize((now) => (now.width === width && now.height === height ? now : { width, height }));
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  return size;
}
