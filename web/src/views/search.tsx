// A field that searches while one types, and waits for a pause of the typing.

import { useEffect, useRef } from "preact/hooks";

/** Milliseconds without a key after which the text is searched for. */
const PAUSE = 150;

export interface SearchFieldProps {
  /** What is searched, as "Search types". */
  label: string;
  /** What can be typed; the label, or a regular expression, if it is left out. */
  placeholder?: string;
  value: string;
  change: (value: string) => void;
}

export function SearchField({ label, placeholder, value, change }: SearchFieldProps) {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const latest = useRef(change);
  latest.current = change;
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <input
      type="search"
      aria-label={label}
      placeholder={placeholder ?? `${label}, or /regular expression/`}
      spellcheck={false}
      value={value}
      onInput={(event) => {
        const text = event.currentTarget.value.trim();
        clearTimeout(timer.current);
        timer.current = setTimeout(() => latest.current(text), PAUSE);
      }}
    />
  );
}
