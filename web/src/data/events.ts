// What happens in a recording, as it happens (server-sent events).

import { address, api, problemOf, type Problem } from "./client";
import type { Figures, Progress, Recording } from "./types";

/** Who watches a recording. */
export interface Watcher {
  progress(progress: Progress): void;
  figures(figures: Figures): void;
  end(recording: Recording): void;
  /** The connection was lost, and is made again unless the problem is final. */
  lost(problem: Problem): void;
  /** The connection is there. */
  connected(): void;
}

/** Watches a recording until it has ended or the returned function is called. */
export function watch(id: string, watcher: Watcher): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let over = false;

  const end = () => {
    over = true;
    clearTimeout(timer);
    source?.close();
  };
  const connect = () => {
    source = new EventSource(address(`recordings/${encodeURIComponent(id)}/events`));
    const on = <T>(name: string, take: (value: T) => void) =>
      source?.addEventListener(name, (event) => {
        take(JSON.parse((event as MessageEvent<string>).data) as T);
      });
    source.addEventListener("open", () => watcher.connected());
    on<Progress>("progress", (progress) => watcher.progress(progress));
    on<Figures>("figures", (figures) => watcher.figures(figures));
    on<Recording>("end", (recording) => {
      end();
      watcher.end(recording);
    });
    source.addEventListener("error", () => {
      source?.close();
      if (!over) void lost();
    });
  };
  // An EventSource does not say why it failed: the recording itself does.
  const lost = async () => {
    try {
      const recording = await api.recording(id);
      if (over) return;
      if (recording.ended) {
        end();
        watcher.end(recording);
        return;
      }
    } catch (error) {
      const problem = problemOf(error);
      if (over) return;
      watcher.lost(problem);
      if (problem.status === 404 || problem.isLockedOut) return end();
    }
    timer = setTimeout(connect, 1000);
  };
  connect();
  return end;
}
