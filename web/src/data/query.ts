// Requests as hooks.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { problemOf, type Problem } from "./client";

/** The state of a request. */
export interface Query<T> {
  /** The latest answer; kept while the next one is on its way, and when it fails. */
  data: T | undefined;
  problem: Problem | undefined;
  /** Asks again. */
  reload: () => void;
}

/**
 * Asks when the key changes; with another round, asks the same again. The answer before stays until
 * the next one is there.
 */
export function useRounds<T>(
  key: string,
  round: number | undefined,
  ask: (signal: AbortSignal) => Promise<T>,
): Query<T> {
  const query = useQuery(`${key} ${round ?? 0}`, ask);
  const latest = useRef<{ key: string; data: T }>(undefined);
  if (query.data !== undefined) latest.current = { key, data: query.data };
  const data = latest.current?.key === key ? latest.current.data : undefined;
  return { ...query, data };
}

/**
 * Asks when the key changes, and again after each answer and `every` milliseconds; a function gets
 * how many milliseconds the answer took. While the page is hidden, nothing is asked again.
 */
export function useQuery<T>(
  key: string,
  ask: (signal: AbortSignal) => Promise<T>,
  every?: number | ((took: number) => number),
): Query<T> {
  const [state, setState] = useState<{ key: string; data?: T; problem?: Problem }>({ key });
  const [round, setRound] = useState(0);
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    const control = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const once = async () => {
      if (document.hidden && every !== undefined) {
        document.addEventListener("visibilitychange", once, { once: true, signal: control.signal });
        return;
      }
      const begun = performance.now();
      try {
        const data = await latest.current(control.signal);
        if (!control.signal.aborted) setState({ key, data });
      } catch (error) {
        if (control.signal.aborted) return;
        const problem = problemOf(error);
        setState((before) => ({ ...(before.key === key ? before : { key }), problem }));
        if (problem.isLockedOut) return;
      }
      if (every === undefined) return;
      const pause = typeof every === "number" ? every : every(performance.now() - begun);
      timer = setTimeout(() => void once(), pause);
    };
    void once();
    return () => {
      control.abort();
      clearTimeout(timer);
    };
  }, [key, round, every]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  const current = state.key === key ? state : undefined;
  return { data: current?.data, problem: current?.problem, reload };
}
