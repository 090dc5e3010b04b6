// Where views keep what the reader chose: the pages of the server keep it in the address, the
// one-file report in the part of the address behind `#`.

import { createContext } from "preact";
import { useContext } from "preact/hooks";

/** Texts by name. */
export interface Store {
  get(name: string): string;
  /** Sets texts; empty ones are removed. `replace`: without a step of the history. */
  set(values: Record<string, string>, replace?: boolean): void;
}

const NOTHING: Store = { get: () => "", set: () => {} };

export const StoreContext = createContext<Store>(NOTHING);

/** A text that is kept, and how to change it. */
export function useKept(name: string, replace = false): [string, (value: string) => void] {
  const store = useContext(StoreContext);
  return [store.get(name), (value) => store.set({ [name]: value }, replace)];
}
