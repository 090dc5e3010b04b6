// A recording that somebody watches.

import { useEffect, useReducer } from "preact/hooks";
import { api, problemOf, type Problem } from "../data/client";
import { watch } from "../data/events";
import type { Figures, Progress, Recording } from "../data/types";

/** Points of a chart that are kept: an hour of seconds. */
const MOST_POINTS = 3600;

/** Figures over time: one entry for each time, all lists of the same length. */
export interface History {
  /** Seconds since the start of the recording. */
  time: number[];
  /** CPU time by time: 1 is one processor. */
  cpu: number[];
  /** Share of the time in which the runtime was suspended. */
  paused: number[];
  exceptions: number[];
  /** Bytes per second; null before the first allocation was recorded. */
  allocated: (number | null)[];
  /** Bytes of all heaps after the latest collection; null before the first. */
  heap: (number | null)[];
  threads: number[];
}

export interface Watched {
  recording: Recording | undefined;
  progress: Progress | undefined;
  figures: Figures | undefined;
  history: History;
  /** Why nothing comes at the moment. */
  problem: Problem | undefined;
}

type Event =
  | { kind: "recording"; recording: Recording }
  | { kind: "progress"; progress: Progress }
  | { kind: "figures"; figures: Figures }
  | { kind: "problem"; problem: Problem | undefined };

const EMPTY: Watched = {
  recording: undefined,
  progress: undefined,
  figures: undefined,
  history: { time: [], cpu: [], paused: [], exceptions: [], allocated: [], heap: [], threads: [] },
  problem: undefined,
};

/** The history with one point more. */
function longer(history: History, figures: Figures): History {
  if ((history.time.at(-1) ?? -1) >= figures.elapsed_seconds) return history;
  const add = <T>(list: T[], value: T) => [...list.slice(-MOST_POINTS + 1), value];
  const heap = figures.collections[0]?.heap_bytes ?? history.heap.at(-1) ?? null;
  return {
    time: add(history.time, figures.elapsed_seconds),
    cpu: add(history.cpu, figures.cpu),
    paused: add(history.paused, figures.paused),
    exceptions: add(history.exceptions, figures.exceptions_per_second),
    allocated: add(history.allocated, figures.allocated_per_second),
    heap: add(history.heap, heap),
    threads: add(history.threads, figures.threads.length),
  };
}

function next(state: Watched, event: Event): Watched {
  switch (event.kind) {
    case "recording":
      return {
        ...state,
        recording: event.recording,
        progress: event.recording.progress,
        problem: undefined,
      };
    case "progress":
      return { ...state, progress: event.progress };
    case "figures":
      return {
        ...state,
        figures: event.figures,
        history: longer(state.history, event.figures),
      };
    case "problem":
      return { ...state, problem: event.problem };
  }
}

/** Watches a recording as long as the component is there. */
export function useWatched(id: string): Watched & { stopped: (recording: Recording) => void } {
  const [state, send] = useReducer(next, EMPTY);
  useEffect(() => {
    let gone = false;
    let leave = () => {};
    const begin = async () => {
      try {
        const recording = await api.recording(id);
        if (gone) return;
        send({ kind: "recording", recording });
        if (recording.ended) return;
        leave = watch(id, {
          progress: (progress) => send({ kind: "progress", progress }),
          figures: (figures) => send({ kind: "figures", figures }),
          end: (recording) => send({ kind: "recording", recording }),
          lost: (problem) => send({ kind: "problem", problem }),
          connected: () => send({ kind: "problem", problem: undefined }),
        });
      } catch (error) {
        if (!gone) send({ kind: "problem", problem: problemOf(error) });
      }
    };
    void begin();
    return () => {
      gone = true;
      leave();
    };
  }, [id]);
  return { ...state, stopped: (recording) => send({ kind: "recording", recording }) };
}
