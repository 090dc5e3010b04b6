// Which part of the time is shown, in numbers: what the pointer chooses in a timeline or a chart.

import { useContext } from "preact/hooks";
import type { Description, Selection, TimePart } from "../data/source";
import { StoreContext } from "./state";

/** All of the time. */
export const ALWAYS: TimePart = { from: "", to: "", last: "" };

/** Seconds of a recording that runs, the latest of which can be looked at. */
const LATEST = ["10", "60"];

/** Whether it is only a part. */
export function isPart({ from, to, last }: TimePart): boolean {
  return from + to + last !== "";
}

/** Back to all of the time. */
export function AllOfIt() {
  const store = useContext(StoreContext);
  return (
    <button class="plain" onClick={() => store.set({ ...ALWAYS, root: "" })}>
      All of the time
    </button>
  );
}

export interface TimesProps {
  selection: Selection;
  description: Description;
  choose: (part: TimePart) => void;
}

/** The latest seconds of a recording that runs. */
export function Latest({ selection, choose }: TimesProps) {
  const button = (title: string, pressed: boolean, last: string) => (
    <button key={last} aria-pressed={pressed} onClick={() => choose({ ...ALWAYS, last })}>
      {title}
    </button>
  );
  return (
    <div class="segments" role="group" aria-label="Time that is shown">
      {button("All so far", !isPart(selection), "")}
      {LATEST.map((last) => button(`Last ${last} s`, selection.last === last, last))}
    </div>
  );
}

/** A part of the time by its beginning and end. */
export function Times({ selection, description, choose }: TimesProps) {
  const { from, to } = selection;
  const field = (label: string, name: "from" | "to", placeholder: string) => (
    <label>
      {label}{" "}
      <input
        type="number"
        min={0}
        step="any"
        value={selection[name]}
        placeholder={placeholder}
        onChange={(event) =>
          choose({ ...ALWAYS, from, to, [name]: event.currentTarget.value })
        }
      />
    </label>
  );
  return (
    <div class="times" role="group" aria-label="Part of the time, in seconds">
      {field("From", "from", (description.from / 1e9).toFixed(1))}
      {field("to", "to", (description.to / 1e9).toFixed(1))} s
      {isPart(selection) && <AllOfIt />}
    </div>
  );
}
