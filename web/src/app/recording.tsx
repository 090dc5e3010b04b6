// A recording or trace while it runs, and what became of it.

import { useEffect, useMemo, useState } from "preact/hooks";
import { api } from "../data/client";
import { bytes, count, duration, visible } from "../data/format";
import { useQuery } from "../data/query";
import { serverSource } from "../data/server-source";
import type { Recording } from "../data/types";
import { DocumentView } from "../views/document";
import { Samples as Explored } from "../views/explore";
import { Failed, Forgotten } from "./checkup";
import { ProgramOutput } from "./launch";
import { Charts, Now, Running, Samples } from "./live";
import { Failure, Head, Tile, Tiles, useAction, Waiting } from "./parts";
import { go, link, useParam } from "./router";
import { useWatched } from "./watched";

export function RecordingPage({ id }: { id: string }) {
  const watched = useWatched(id);
  const { recording, progress, figures, history, problem } = watched;
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
      {history.time.length > 0 && <Charts history={history} />}
      {progress && <Samples progress={progress} />}
      {command !== null && <ProgramOutput id={id} ended={ended} />}
      {!ended && figures && <Now figures={figures} />}
      {!ended && (figures?.elapsed_seconds ?? 0) > READABLE && <Stacks id={id} />}
      {!ended && <SoFar id={id} />}
    </>
  );
}

/** Seconds after which what was recorded is in the file. */
const READABLE = 2;

/** The stacks of all samples so far. Zoom and focus stay while more come. */
function Stacks({ id }: { id: string }) {
  const source = useMemo(() => serverSource(id, true), [id]);
  return (
    <section aria-label="Stacks so far">
      <Explored source={source} view="flame" go={() => ({})} />
    </section>
  );
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
