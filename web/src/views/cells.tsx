// Cells of tables and trees.

import { bare, type Cell, type Word } from "../data/document";
import { inUnit, percent, quantity, visible } from "../data/format";

/** Smaller parts of a whole would be 0 % of it. */
const LEAST_PART = 0.005;

/** What a cell says, in one line; empty for what is drawn. */
export function shown(cell: Cell): string {
  const inner = bare(cell);
  if (inner === "nothing") return "·";
  if ("text" in inner) return inner.text;
  if ("quantity" in inner) {
    const { value, margin, unit } = inner.quantity;
    return quantity(value, margin, unit);
  }
  if ("name" in inner) {
    const { forms, place } = inner.name;
    return place === null ? (forms[0] ?? "") : `${forms[0] ?? ""}  ${place}`;
  }
  if ("word" in inner) return inner.word.text;
  if ("parts" in inner) {
    const seen = inner.parts.filter(([, share]) => share >= LEAST_PART);
    return seen.map(([word, share]) => `${word.text} ${inUnit(share, "whole-percent")}`).join(", ");
  }
  return "";
}

/** What a cell can be found by: all forms of a name, and what it says. */
export function textsOf(cell: Cell): string[] {
  const inner = bare(cell);
  const isName = typeof inner === "object" && "name" in inner;
  return isName ? [...inner.name.forms, inner.name.place ?? ""] : [shown(inner)];
}

/** What rows are sorted by. */
export function sortKey(cell: Cell): number | string {
  const inner = bare(cell);
  if (inner === "nothing") return Number.NEGATIVE_INFINITY;
  if ("quantity" in inner) return inner.quantity.value;
  if ("bar" in inner) return inner.bar;
  if ("line" in inner) return inner.line.at(-1) ?? Number.NEGATIVE_INFINITY;
  if ("parts" in inner) return inner.parts[0]?.[1] ?? 0;
  return shown(inner).toLowerCase();
}

/** Whether a cell is a text rather than a number or a picture. */
export function isText(cell: Cell): boolean {
  const inner = bare(cell);
  return typeof inner === "object" && ("text" in inner || "name" in inner || "word" in inner);
}

/** A cell as it is shown. */
export function CellView({ cell }: { cell: Cell }) {
  if (typeof cell === "object" && "weak" in cell) {
    return (
      <span class="weak">
        <CellView cell={cell.weak} />
      </span>
    );
  }
  if (cell === "nothing") return <span class="weak">·</span>;
  if ("bar" in cell) return <Bar share={cell.bar} />;
  if ("line" in cell) return <Line values={cell.line} />;
  if ("name" in cell) {
    const { forms, place } = cell.name;
    return (
      <>
        <code class="name">{visible(forms[0] ?? "")}</code>
        {place !== null && <span class="where"> {visible(place)}</span>}
      </>
    );
  }
  if ("quantity" in cell && cell.quantity.margin !== null) {
    const { value, unit } = cell.quantity;
    const [plain, all] = [inUnit(value, unit), shown(cell)];
    return (
      <>
        {plain}
        <span class="margin">{all.slice(plain.length)}</span>
      </>
    );
  }
  if ("word" in cell) return <WordView word={cell.word} />;
  if ("parts" in cell) return <Parts parts={cell.parts} />;
  return <>{visible(shown(cell))}</>;
}

function WordView({ word }: { word: Word }) {
  return <span class={word.color === null ? undefined : `ansi-${word.color}`}>{word.text}</span>;
}

/** A share from 0 to 1. The number itself is in another cell. */
export function Bar({ share }: { share: number }) {
  const part = Math.min(Math.max(share, 0), 1);
  return (
    <span class="bar" role="img" aria-label={percent(share)}>
      <i style={{ width: `${(part * 100).toFixed(1)}%` }} />
    </span>
  );
}

/** Values over time, from the lowest to the highest. */
export function Line({ values }: { values: number[] }) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const most = Math.max(values.length - 1, 1);
  const points = values.map((value, index) => {
    const height = high > low ? (value - low) / (high - low) : 0.5;
    return `${((index / most) * 100).toFixed(1)},${(100 - height * 100).toFixed(1)}`;
  });
  const label =
    values.length === 0
      ? "no values"
      : `${values.length} values from ${low} to ${high}, the last is ${values.at(-1)}`;
  return (
    <svg class="line" viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label={label}>
      <polyline points={points.join(" ")} />
    </svg>
  );
}

/** Shares of words in a whole, as a bar and as a text. */
function Parts({ parts }: { parts: [Word, number][] }) {
  return (
    <span class="parts">
      <span class="stack" aria-hidden="true">
        {parts.map(([word, share]) => (
          <i
            key={word.text}
            class={`back-${word.color ?? 7}`}
            style={{ width: `${(share * 100).toFixed(1)}%` }}
          />
        ))}
      </span>
      <span>{shown({ parts })}</span>
    </span>
  );
}
