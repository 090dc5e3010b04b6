// Which part of the time is shown, in numbers: what the pointer chooses in a timeline or a chart.

import { useContext, useState } from "preact/hooks";
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
  const shown = (time: number) => (time / 1e9).toFixed(1);
  return (
    <div class="times" role="group" aria-label="Part of the time, in seconds">
      <Seconds
        label="From"
        value={from}
        placeholder={shown(description.from)}
        choose={(from) => choose({ ...ALWAYS, from, to })}
      />
      <Seconds
        label="to"
        value={to}
        placeholder={shown(description.to)}
        choose={(to) => choose({ ...ALWAYS, from, to })}
      />{" "}
      s
      {isPart(selection) && <AllOfIt />}
    </div>
  );
}

interface SecondsProps {
  label: string;
  value: string;
  placeholder: string;
  choose: (value: string) => void;
}

/** A field whose text stays while somebody types, however often the page is drawn anew. */
function Seconds({ label, value, placeholder, choose }: SecondsProps) {
  const [typed, setTyped] = useState<string>();
  return (
    <label>
      {label}{" "}
      <input
        type="number"
        min={0}
        step="any"
        value={typed ?? value}
        placeholder={placeholder}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onChange={(event) => {
          setTyped(undefined);
          choose(event.currentTarget.value);
        }}
        onBlur={() => setTyped(undefined)}
      />
    </label>
  );
}
