// A session: what it has, what can be explored in it, and what it says.

import { useEffect, useState } from "preact/hooks";
import { api, type Narrowed, type SessionDetail } from "../data/client";
import type { Document } from "../data/document";
import { bytes, clock, count, duration, visible, visibleLines } from "../data/format";
import { useQuery } from "../data/query";
import { DocumentView } from "../views/document";
import { Explore } from "../views/explore";
import { ChangeDialog, DeleteDialog, DownloadDialog } from "./keep";
import { Failure, Field, Head, Tile, Tiles, Waiting } from "./parts";
import { go, link, setParams, usePlace } from "./router";

const NARROWED = ["profiler", "thread", "function", "from", "to", "rows"] as const;

/** What the document is narrowed to, from the address. */
function narrowedOf(params: URLSearchParams): Narrowed {
  const all: Narrowed = {};
  for (const name of NARROWED) all[name] = params.get(name) ?? undefined;
  return all;
}

export function SessionPage({ id }: { id: string }) {
  const { params } = usePlace();
  const narrowed = narrowedOf(params);
  const session = useQuery(`session ${id}`, (signal) => api.session(id, signal));
  const document = useQuery(`document ${id} ${JSON.stringify(narrowed)}`, (signal) =>
    api.document(id, narrowed, signal),
  );
  const [asked, setAsked] = useState<"change" | "download" | "delete">();
  const [shown, setShown] = useState<Document>();
  useEffect(() => {
    if (document.data) setShown(document.data);
  }, [document.data]);
  const { data, problem } = session;
  const name = data?.target?.process ?? id;
  return (
    <>
      <Head title={name} about={data && <About session={data} />}>
        {data?.recording && (
          <a class="primary" href={link(["recordings", id])}>
            Watch the recording
          </a>
        )}
        <button
          class="plain"
          disabled={!data || data.recording}
          onClick={() => setAsked("change")}
        >
          Name and note
        </button>
        <button class="plain" onClick={() => setAsked("download")}>
          Download
        </button>
        <a class="plain" href={link(["compare"], { after: id })}>
          Compare
        </a>
        <button class="danger" disabled={data?.recording} onClick={() => setAsked("delete")}>
          Delete
        </button>
      </Head>
      {problem && !problem.isLockedOut && <Failure problem={problem} retry={session.reload} />}
      {data && <Facts session={data} />}
      {data && <Explore session={data} />}
      {data && <Narrow session={data} narrowed={narrowed} />}
      {document.problem && document.problem.reason !== problem?.reason && (
        <Failure problem={document.problem} retry={document.reload} />
      )}
      {!shown && !document.problem && !problem && <Waiting what="Reading the session" />}
      {shown && (
        <div class={document.data ? undefined : "stale"} aria-busy={!document.data}>
          <Contents document={shown} />
          <DocumentView document={shown} />
        </div>
      )}
      {asked === "change" && data && (
        <ChangeDialog
          session={data}
          close={() => setAsked(undefined)}
          changed={(next) => {
            if (next.id === id) session.reload();
            else go(link(["sessions", next.id]), { replace: true });
          }}
        />
      )}
      {asked === "download" && <DownloadDialog id={id} close={() => setAsked(undefined)} />}
      {asked === "delete" && (
        <DeleteDialog
          id={id}
          close={() => setAsked(undefined)}
          deleted={() => go(link(["sessions"]), { replace: true })}
        />
      )}
    </>
  );
}

function About({ session }: { session: SessionDetail }) {
  const { target, recorded_unix_ms: when } = session;
  if (!target) return <>{visible(session.id)}</>;
  // Files of other tools may not say all of it.
  const words = [
    target.pid === 0 ? "" : `process ${target.pid}`,
    target.runtime === "" ? "" : `.NET ${target.runtime}`,
    target.platform,
    clock(when),
  ].filter((word) => word !== "");
  return <>{visible(words.join(" · "))}</>;
}

function Facts({ session }: { session: SessionDetail }) {
  const { target, damage, notes, complete, end } = session;
  return (
    <>
      {session.note !== null && <p class="remark">{visibleLines(session.note)}</p>}
      {damage !== null && <p class="banner bad">{visible(damage)}</p>}
      {!complete && damage === null && !session.recording && (
        <p class="banner">The recording did not end in order: what came before is shown.</p>
      )}
      {end === "agent-lost" && (
        <p class="banner">The connection to the agent was lost before the end.</p>
      )}
      <Tiles>
        <Tile
          label="recorded"
          value={duration(session.duration_seconds * 1e9)}
          note={end === "process-exited" ? "until the process ended" : undefined}
        />
        <Tile label="threads" value={count(session.threads)} />
        <Tile
          label="profilers"
          value={count(target?.profilers.length ?? 0)}
          note={target?.profilers.map((profiler) => visible(profiler.id)).join(", ")}
        />
        <Tile label="dropped" value={count(session.dropped)} note="samples and events" />
        <Tile label="size" value={bytes(session.bytes)} />
      </Tiles>
      {notes.map((note, index) => (
        <p key={index} class="banner">
          {visible(note)}
        </p>
      ))}
    </>
  );
}

/** Fields that narrow the document. */
function Narrow({ session, narrowed }: { session: SessionDetail; narrowed: Narrowed }) {
  const is = NARROWED.filter((name) => (narrowed[name] ?? "") !== "");
  return (
    <details class="card pad narrow" open={is.length > 0}>
      <summary>
        Narrow what is shown{is.length > 0 && ` (${is.map((name) => name).join(", ")})`}
      </summary>
      <form
        class="fields"
        onSubmit={(event) => {
          event.preventDefault();
          const data = new FormData(event.currentTarget);
          setParams(Object.fromEntries(NARROWED.map((name) => [name, String(data.get(name) ?? "")])));
        }}
      >
        <Field label="Samples of">
          <select name="profiler" value={narrowed.profiler ?? ""}>
            <option value="">all profilers</option>
            {session.series.map((series) => (
              <option key={series}>{series}</option>
            ))}
          </select>
        </Field>
        <Field label="Thread" hint="Part of its name, or its id">
          <input name="thread" value={narrowed.thread ?? ""} />
        </Field>
        <Field label="Function" hint="Part of its full name">
          <input name="function" value={narrowed.function ?? ""} />
        </Field>
        <Field label="From" hint="Seconds since the start">
          <input name="from" type="number" min="0" step="any" value={narrowed.from ?? ""} />
        </Field>
        <Field label="To" hint="Seconds since the start">
          <input name="to" type="number" min="0" step="any" value={narrowed.to ?? ""} />
        </Field>
        <Field label="Rows of each list">
          <input
            name="rows"
            type="number"
            min="1"
            max="100000"
            placeholder="15"
            value={narrowed.rows ?? ""}
          />
        </Field>
        <span class="tools">
          <button class="primary" type="submit">
            Apply
          </button>
          {is.length > 0 && (
            <button
              class="plain"
              type="button"
              onClick={() => setParams(Object.fromEntries(NARROWED.map((name) => [name, ""])))}
            >
              Show all
            </button>
          )}
        </span>
      </form>
    </details>
  );
}

/** Links to the sections of a long document. */
function Contents({ document }: { document: Document }) {
  if (document.sections.length < 4) return null;
  return (
    <nav class="contents" aria-label="Sections">
      {document.sections.map((section, index) => (
        <a key={index} href={`#s${index + 1}`}>
          {visible(section.title)}
        </a>
      ))}
    </nav>
  );
}
