// Drawing of a flame graph: only boxes of visible rows.

import { NONE } from "../data/columns";
import { visible } from "../data/format";
import type { FlameBoxes } from "../data/source";
import { fitText, widthOf } from "./canvas";
import { firstOfRow } from "./flame-boxes";
import { isDark } from "./palette";
import { color } from "./theme";

/** Height of a row in pixels. */
export const ROW = 19;

/** Pixels above the first row. */
export const TOP = 3;

/** What boxes look like. */
export interface BoxLook<F extends FlameBoxes> {
  /** Changes when colors do. */
  key: string;
  /** The color of a box that stands for a node of a function. */
  fill: (flame: F, box: number) => string;
  /** What stands before the name of a box, if there is room for that. */
  mark?: (flame: F, box: number) => string;
  /** The name of the whole. */
  all: string;
  /** Whether there is nothing to draw. */
  isEmpty: (flame: F) => boolean;
}

export interface Drawing<F extends FlameBoxes> {
  scroll: number;
  upward: boolean;
  levels: number;
  width: number;
  height: number;
  searching: boolean;
  look: BoxLook<F>;
  hover: number | undefined;
  focus: number | undefined;
}

/** Colors of boxes. */
interface Paints {
  key: string;
  fills: (string | undefined)[];
}

const paints = new WeakMap<FlameBoxes, Paints>();

function paintsOf(flame: FlameBoxes, look: string): Paints {
  const key = `${look} ${isDark()}`;
  const known = paints.get(flame);
  if (known?.key === key) return known;
  const made = { key, fills: new Array<string | undefined>(flame.size) };
  paints.set(flame, made);
  return made;
}

/** Draws the visible rows. */
export function drawFlame<F extends FlameBoxes>(
  g: CanvasRenderingContext2D,
  flame: F,
  drawing: Drawing<F>,
): void {
  const { scroll, upward, levels, height } = drawing;
  const first = Math.max(0, Math.floor((scroll - TOP) / ROW));
  const last = Math.ceil((scroll + height) / ROW);
  const [from, to] = upward ? [levels - 1 - last, levels - 1 - first] : [first, last];
  const style: Style = {
    ink: isDark() ? "#f2f4f7" : "#1b2330",
    hit: color("--hit"),
    soft: color("--faint"),
    accent: color("--accent"),
    all: isDark() ? "#39424f" : "#d5dbe4",
    merged: isDark() ? "#4a5361" : "#c3cad4",
    paints: paintsOf(flame, drawing.look.key),
  };
  g.font = `12px ${color("--sans")}`;
  g.textBaseline = "middle";
  const start = firstOfRow(flame, Math.max(0, from));
  for (let box = 0; box < start; box += 1) {
    // Lines that begin above go down into the view.
    if (flame.rows[box]! > 1 && flame.row[box]! + flame.rows[box]! > from) {
      drawBox(g, flame, box, drawing, style);
    }
  }
  const end = firstOfRow(flame, to + 1);
  for (let box = start; box < end; box += 1) drawBox(g, flame, box, drawing, style);
  g.globalAlpha = 1;
  if (drawing.look.isEmpty(flame)) {
    g.fillStyle = style.soft;
    g.textAlign = "center";
    g.fillText("No samples with this choice.", drawing.width / 2, Math.min(60, height - 10));
    g.textAlign = "left";
  }
}

interface Style {
  ink: string;
  hit: string;
  soft: string;
  accent: string;
  all: string;
  merged: string;
  paints: Paints;
}

function fillOf<F extends FlameBoxes>(flame: F, box: number, look: BoxLook<F>, style: Style): string {
  if (flame.merged[box]! > 0) return style.merged;
  if (!flame.functions[flame.function[box]!]) {
    return flame.node[box] === NONE ? style.all : style.soft;
  }
  return (style.paints.fills[box] ??= look.fill(flame, box));
}

function drawBox<F extends FlameBoxes>(
  g: CanvasRenderingContext2D,
  flame: F,
  box: number,
  drawing: Drawing<F>,
  style: Style,
): void {
  const { scroll, upward, levels, searching } = drawing;
  const [row, rows] = [flame.row[box]!, flame.rows[box]!];
  const y = (upward ? levels - row - rows : row) * ROW - scroll + TOP;
  const [left, wide] = [flame.left[box]!, flame.width[box]!];
  const width = Math.max(0.7, wide - (wide > 3 ? 1 : 0));
  const isHit = searching && flame.hit[box] === 2;
  const dimmed = searching && !isHit && flame.node[box] !== NONE;
  g.globalAlpha = dimmed ? 0.42 : 1;
  g.fillStyle = isHit ? style.hit : fillOf(flame, box, drawing.look, style);
  g.fillRect(left, y, width, rows * ROW - 1);
  const focused = box === drawing.focus;
  if (focused || box === drawing.hover) {
    g.globalAlpha = 1;
    g.strokeStyle = focused ? style.accent : style.ink;
    g.lineWidth = focused ? 2 : 1;
    g.strokeRect(left + 1, y + 1, Math.max(1, width - 2), rows * ROW - 3);
  }
  if (wide < 26) return;
  g.globalAlpha = dimmed ? 0.65 : 1;
  g.fillStyle = isHit ? (isDark() ? "#201018" : "#ffffff") : style.ink;
  g.fillText(labelOf(g, flame, box, wide - 9, drawing.look), left + 5, y + ROW / 2);
}

/** The longest form of a name that fits, or the beginning of the shortest. */
function labelOf<F extends FlameBoxes>(
  g: CanvasRenderingContext2D,
  flame: F,
  box: number,
  room: number,
  look: BoxLook<F>,
): string {
  const merged = flame.merged[box]!;
  if (merged > 0) return fitText(g, `${merged} narrow calls`, room);
  const fn = flame.functions[flame.function[box]!];
  const mark = look.mark?.(flame, box) ?? "";
  const before = mark === "" ? "" : `${mark} `;
  if (!fn) {
    const name = flame.node[box] === NONE ? look.all : "(light calls, folded)";
    return fitText(g, before + name, room);
  }
  const forms = [before + fn.name, before + fn.short, fn.short];
  // No letter is narrower than two pixels, so most forms need not be measured.
  const fitting = forms.find((form) => form.length * 2 <= room && widthOf(g, visible(form)) <= room);
  return fitText(g, visible(fitting ?? fn.short), room);
}
