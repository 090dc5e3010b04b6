// What stands below a table that shows only its first rows.

import { count, counted } from "../data/format";

/** Most rows of a table. */
const MOST = 2000;

export interface MoreProps {
  shown: number;
  /** Rows that there are. */
  all: number;
  /** What a row is, as one word: "method". */
  what: string;
  /** Rows that were asked for. */
  most: number;
  setMost: (most: number) => void;
}

export function More({ shown, all, what, most, setMost }: MoreProps) {
  if (all <= shown) return null;
  return (
    <p class="more">
      {most < MOST && (
        <button class="plain" onClick={() => setMost(Math.min(most + 400, MOST))}>
          Show more
        </button>
      )}{" "}
      {count(shown)} of {counted(all, what)}
      {most >= MOST && ": search for the others"}
    </p>
  );
}
