// The sessions that the server keeps.

import { useMemo, useRef, useState } from "preact/hooks";
import { api, problemOf, type Problem } from "../data/client";
import { bytes, clock, percent, visible } from "../data/format";
import { useQuery } from "../data/query";
import type { Session } from "../data/types";
import { upload } from "../data/upload";
import { DeleteDialog, DownloadDialog } from "./keep";
import { List, type ListColumn } from "./list";
import { Failure, Head, Search, Waiting } from "./parts";
import { link, useParam } from "./router";

/** Milliseconds after which the list is read again: others record, too. */
const EVERY = 5000;

type Asked = { what: "download" | "delete"; id: string };

export function Sessions() {
  const { data, problem, reload } = useQuery("sessions", (signal) => api.sessions(signal), EVERY);
  const [query, setQuery] = useParam("q", true);
  const [asked, setAsked] = useState<Asked>();
  const found = useMemo(() => data?.filter((session) => matches(session, query)), [data, query]);
  return (
    <DropZone added={reload}>
      <Head
        title="Sessions"
        about="What was recorded. Drop files anywhere on this page to add them: sessions, and what other tools have recorded (pprof, collapsed stacks, speedscope, Firefox Profiler, .nettrace, .gcdump)."
      >
        <Search
          label="Find a session"
          value={query}
          change={setQuery}
          found={query && found ? `${found.length} found` : undefined}
        />
      </Head>
      {problem && !problem.isLockedOut && <Failure problem={problem} retry={reload} />}
      {!data && !problem && <Waiting what="Reading the list of sessions" />}
      {found?.length === 0 && (
        <div class="card empty">
          <p>
            {query === ""
              ? "Nothing was recorded yet. Choose a process, or drop a file here."
              : "No session has this in its name, note, process, command line or profilers."}
          </p>
          {query === "" && (
            <a class="primary" href={link(["processes"])}>
              Processes
            </a>
          )}
        </div>
      )}
      {found && found.length > 0 && (
        <List
          label="Sessions"
          columns={columns(setAsked)}
          rows={found}
          id={(session) => session.id}
          first="-when"
        />
      )}
      {asked?.what === "download" && (
        <DownloadDialog id={asked.id} close={() => setAsked(undefined)} />
      )}
      {asked?.what === "delete" && (
        <DeleteDialog id={asked.id} close={() => setAsked(undefined)} deleted={reload} />
      )}
    </DropZone>
  );
}

function matches(session: Session, query: string): boolean {
  const { target } = session;
  const profilers = target?.profilers.map((profiler) => profiler.id).join(" ") ?? "";
  const text = `${session.id} ${session.note ?? ""} ${target?.process ?? ""} ${target?.command ?? ""} ${profilers}`;
  return text.toLowerCase().includes(query.toLowerCase());
}

function columns(ask: (asked: Asked) => void): ListColumn<Session>[] {
  return [
    {
      id: "name",
      title: "session",
      key: (session) => session.target?.process ?? session.id,
      cell: (session) => <Name session={session} />,
    },
    {
      id: "when",
      title: "recorded",
      key: (session) => session.recorded_unix_ms,
      cell: (session) => clock(session.recorded_unix_ms),
    },
    {
      id: "profilers",
      title: "profilers",
      key: (session) => session.target?.profilers.length ?? null,
      cell: (session) => (
        <span class="words">
          {session.target?.profilers.map((profiler) => (
            <span key={profiler.id}>{visible(profiler.id)} </span>
          ))}
        </span>
      ),
    },
    {
      id: "runtime",
      title: "runtime",
      key: (session) => session.target?.runtime ?? null,
      cell: (session) =>
        session.target?.runtime ? `.NET ${visible(session.target.runtime)}` : "·",
    },
    {
      id: "size",
      title: "size",
      right: true,
      key: (session) => session.bytes,
      cell: (session) => bytes(session.bytes),
    },
    {
      id: "actions",
      title: "what to do",
      cell: (session) => (
        <span class="tools">
          <button
            class="plain"
            aria-label={`Download ${visible(session.id)}`}
            onClick={() => ask({ what: "download", id: session.id })}
          >
            Download
          </button>
          <button
            class="danger"
            disabled={session.recording}
            aria-label={`Delete ${visible(session.id)}`}
            onClick={() => ask({ what: "delete", id: session.id })}
          >
            Delete
          </button>
        </span>
      ),
    },
  ];
}

function Name({ session }: { session: Session }) {
  const { target, id } = session;
  return (
    <>
      <a href={link(["sessions", id])}>
        <b>{visible(target?.process ?? id)}</b>
      </a>
      {session.recording && (
        <a class="badge inline" href={link(["recordings", id])}>
          recording
        </a>
      )}
      <span class="command">{visible(target ? id : (session.problem ?? id))}</span>
      {session.note !== null && <span class="noted">{visible(session.note)}</span>}
    </>
  );
}

interface Upload {
  name: string;
  share: number;
  problem?: Problem;
  done?: string;
}

/** A place where files are dropped, and a button that chooses them. */
function DropZone(props: { added: () => void; children: preact.ComponentChildren }) {
  const [over, setOver] = useState(false);
  const [uploads, setUploads] = useState<Upload[]>([]);
  const input = useRef<HTMLInputElement>(null);
  const send = async (files: File[]) => {
    for (const file of files) {
      const change = (more: Partial<Upload>) =>
        setUploads((all) =>
          all.map((one) => (one.name === file.name ? { ...one, ...more } : one)),
        );
      setUploads((all) => [
        { name: file.name, share: 0 },
        ...all.filter((one) => one.name !== file.name),
      ]);
      try {
        const abort = new AbortController();
        const session = await upload(file, (share) => change({ share }), abort.signal);
        change({ share: 1, done: session.id });
        props.added();
      } catch (error) {
        change({ problem: problemOf(error) });
      }
    }
  };
  return (
    <div
      class={over ? "drop over" : "drop"}
      onDragOver={(event) => {
        if (!event.dataTransfer?.types.includes("Files")) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={(event) => {
        if (event.target === event.currentTarget) setOver(false);
      }}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        void send([...(event.dataTransfer?.files ?? [])]);
      }}
    >
      {props.children}
      <p class="tools">
        <button class="plain" onClick={() => input.current?.click()}>
          Add files
        </button>
        <input
          ref={input}
          type="file"
          multiple
          hidden
          onChange={(event) => {
            const { files } = event.currentTarget;
            void send([...(files ?? [])]);
            event.currentTarget.value = "";
          }}
        />
      </p>
      <ul class="uploads" aria-live="polite">
        {uploads.map((one) => (
          <li key={one.name}>
            <UploadView upload={one} />
          </li>
        ))}
      </ul>
    </div>
  );
}

function UploadView({ upload }: { upload: Upload }) {
  const name = visible(upload.name);
  if (upload.problem) {
    return (
      <>
        <b>{name}</b>
        <Failure problem={upload.problem} />
      </>
    );
  }
  if (upload.done === undefined) {
    return (
      <>
        {name} <progress aria-label={`Sending ${name}`} value={upload.share} />{" "}
        {percent(upload.share)}
      </>
    );
  }
  return (
    <>
      {name} was added: <a href={link(["sessions", upload.done])}>open it</a>
    </>
  );
}
