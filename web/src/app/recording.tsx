// A recording or trace while it runs, and what became of it.

import { useEffect, useState } from "preact/hooks";
import { api } from "../data/client";
import { bytes, count, duration, visible } from "../data/format";
import { useQuery } from "../data/query";
import type { Recording } from "../data/types";
import { DocumentView } from "../views/document";
import type { ChartPart } from "../views/chart";
import { RunningSamples } from "../views/explore";
import { ALWAYS } from "../views/times";
import { Failed, Forgotten } from "./checkup";
import { ProgramOutput } from "./launch";
import { Charts, Now, Running, Samples } from "./live";
import { Failure, Head, Tile, Tiles, useAction, Waiting } from "./parts";
import { go, link, setParams, useParam, usePlace } from "./router";
import { useWatched, type History } from "./watched";

export function RecordingPage({ id }: { id: string }) {
  const watched = useWatched(id);
  const { recording, progress, figures, history, problem } = watched;
  const chosen = usePart(history);
  const stop = useAction(async () => {
    const stopped = await api.stop(id);
    watched.stopped(stopped);
    if (stopped.failure === null) go(link(["sessions", id]), { replace: true });
  });
  if (!recording) {
    if (problem?.status === 404) return <Forgotten id={id} />;
    return problem ? <Failure problem={problem} /> : <Waiting what="Reading the recording" />;
  }
  const { process, pid, command, profilers, ended } = recording;
  const readable = !ended && (figures?.elapsed_seconds ?? 0) > READABLE;
  const about = `Process ${pid} · ${profilers.join(", ")}${command ? ` · ${visible(command)}` : ""}`;
  return (
    <>
      <Head title={ended ? `Recording of ${process}` : `Recording ${process}`} about={about}>
        {ended ? (
          <a class="primary" href={link(["sessions", id])}>
            Open the session
          </a>
        ) : (
          <button class="primary" disabled={stop.busy} onClick={stop.run}>
            {stop.busy ? "Stopping …" : "Stop"}
          </button>
        )}
      </Head>
      {problem && <Failure problem={problem} />}
      {stop.problem && <Failure problem={stop.problem} />}
      {recording.warnings.map((warning, index) => (
        <p key={index} class="banner">
          {visible(warning)}
        </p>
      ))}
      {recording.failure !== null && <Failed recording={recording} />}
      {!ended && progress && <Running recording={recording} progress={progress} />}
      {ended && <Ended recording={recording} />}
      {figures?.note && <p class="banner">{visible(figures.note)}</p>}
      {history.time.length > 0 && <Charts history={history} part={readable ? chosen : undefined} />}
      {progress && <Samples progress={progress} />}
      {command !== null && <ProgramOutput id={id} ended={ended} />}
      {!ended && figures && <Now figures={figures} />}
      {readable && (
        <section aria-label="Stacks so far">
          <RunningSamples session={id} />
        </section>
      )}
      {!ended && <SoFar id={id} />}
    </>
  );
}

/** Seconds after which what was recorded is in the file. */
const READABLE = 2;

/** The part of the time that the samples are of, as charts choose and show it. */
function usePart(history: History): ChartPart {
  const { params } = usePlace();
  const seconds = (name: string) => (params.get(name) ? Number(params.get(name)) : undefined);
  const [from, to, last] = [seconds("from"), seconds("to"), seconds("last")];
  const now = history.time.at(-1) ?? 0;
  return {
    from: last === undefined ? (from ?? (to === undefined ? undefined : 0)) : now - last,
    to: last === undefined ? to : undefined,
    choose: (from, to) => setParams({ ...ALWAYS, from: from.toFixed(1), to: to.toFixed(1) }),
  };
}

/** Milliseconds after which what was recorded so far is read again, if it is followed. */
const EVERY = 3000;

/**
 * What the session says already. All of it is read each time, so this is done only when somebody
 * asks, or follows it; the latter is in the address.
 */
function SoFar({ id }: { id: string }) {
  const [followed, follow] = useParam("follow", true);
  const [asked, setAsked] = useState(0);
  const reading = asked > 0 || followed !== "";
  const { data, problem } = useQuery(
    `so far ${id} ${asked} ${followed}`,
    async (signal) => (reading ? api.document(id, {}, signal) : undefined),
    followed === "" ? undefined : EVERY,
  );
  const [shown, setShown] = useState(data);
  useEffect(() => {
    if (data) setShown(data);
  }, [data]);
  return (
    <section aria-label="What was recorded so far">
      <p class="tools">
        <button class="plain" onClick={() => setAsked(asked + 1)}>
          {shown ? "Read it again" : "Show what was recorded so far"}
        </button>
        <label>
          <input
            type="checkbox"
            checked={followed !== ""}
            onChange={(event) => follow(event.currentTarget.checked ? "1" : "")}
          />
          Follow it
        </label>
      </p>
      {problem?.status === 422 && <p class="hint">Nothing of it can be read yet.</p>}
      {problem && problem.status !== 422 && !problem.isLockedOut && <Failure problem={problem} />}
      {shown && <DocumentView document={shown} from={1} />}
    </section>
  );
}

/** What was recorded, and what it cost. */
function Ended({ recording }: { recording: Recording }) {
  const session = recording.summary?.sessions[0];
  if (!session) return null;
  const dropped = Object.values(session.dropped).reduce((sum, more) => sum + more, 0);
  const cpu = (seconds: number) => duration(seconds * 1e9);
  return (
    <>
      <Tiles>
        <Tile label="recorded" value={cpu(session.duration_seconds)} note={session.end} />
        <Tile
          label="CPU time in the process"
          value={cpu(session.target_cpu_seconds)}
          note="taken by the recording"
        />
        <Tile label="process suspended" value={cpu(session.target_stopped_seconds)} />
        <Tile label="memory in the process" value={bytes(session.target_memory_bytes)} />
        <Tile label="dropped" value={count(dropped)} note="samples and events" />
      </Tiles>
      {session.notes.map((note, index) => (
        <p key={index} class="banner">
          {visible(note)}
        </p>
      ))}
    </>
  );
}
