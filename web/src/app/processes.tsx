// The .NET processes of the machine, live.

import { useMemo, useRef } from "preact/hooks";
import { api } from "../data/client";
import { bytes, count, percent, uptime, visible } from "../data/format";
import { useQuery } from "../data/query";
import type { Process, Recording } from "../data/types";
import { Bar } from "../views/cells";
import { List, type ListColumn } from "./list";
import { Failure, Head, Search, useAction, Waiting } from "./parts";
import { go, link, useParam } from "./router";

/** Milliseconds between two requests. */
const EVERY = 2000;

interface Row extends Process {
  /** CPU time by time since the last request, or since the process started: 1 is one processor. */
  cpu: number | null;
  /** The same of the threads that only collect garbage. */
  gc: number | null;
  recording: Recording | undefined;
}

/** The CPU time of each process at the last request, and that of its collector. */
type Before = Map<string, { seconds: number; at: number; cpu: number | null }>;

/** A process is the same if it has the same id and started at the same time. */
function identity(process: Process, now: number): string {
  const started = now / 1000 - (process.uptime_seconds ?? 0);
  return `${process.pid} ${Math.round(started / 10)}`;
}

/** CPU time by time, from two requests where there are two. */
function usage(
  processes: Process[],
  before: Before,
  now: number,
  of: (process: Process) => number | null | undefined,
): Map<number, number | null> {
  const found = new Map<number, number | null>();
  const next: Before = new Map();
  for (const process of processes) {
    const seconds = of(process) ?? null;
    if (seconds === null) continue;
    const id = identity(process, now);
    const last = before.get(id);
    const passed = last ? (now - last.at) / 1000 : 0;
    const since = last && passed > 0.5 ? (seconds - last.seconds) / passed : null;
    const whole = process.uptime_seconds ? seconds / process.uptime_seconds : null;
    const cpu = since ?? last?.cpu ?? whole;
    found.set(process.pid, cpu === null ? null : Math.max(cpu, 0));
    next.set(id, since === null && last ? last : { seconds, at: now, cpu });
  }
  before.clear();
  for (const [id, value] of next) before.set(id, value);
  return found;
}

export function Processes() {
  const before = useRef<Before>(new Map());
  const beforeGc = useRef<Before>(new Map());
  const { data, problem, reload } = useQuery(
    "processes",
    async (signal) => {
      const [processes, recordings] = await Promise.all([
        api.processes(signal),
        api.recordings(signal),
      ]);
      const now = Date.now();
      const cpu = usage(processes, before.current, now, (process) => process.cpu_seconds);
      const gc = usage(processes, beforeGc.current, now, (process) => process.gc_cpu_seconds);
      const running = recordings.filter((recording) => !recording.ended);
      return processes.map((process) => ({
        ...process,
        cpu: cpu.get(process.pid) ?? null,
        gc: gc.get(process.pid) ?? null,
        recording: running.find((recording) => recording.pid === process.pid),
      }));
    },
    EVERY,
  );
  const [query, setQuery] = useParam("q", true);
  const checkUp = useAction(async (pid: number) => {
    const recording = await api.checkUp({ pid });
    go(link(["checkups", recording.id]));
  });
  const found = useMemo(() => data?.filter((process) => matches(process, query)), [data, query]);
  const open = found?.filter((process) => process.attachable) ?? [];
  const closed = found?.filter((process) => !process.attachable) ?? [];
  return (
    <>
      <Head
        title="Processes"
        about={
          <>
            The .NET processes of this machine. A check-up observes one and says what is wrong. Or{" "}
            <a href={link(["record"], { what: "program" })}>start a program</a> and record it.
          </>
        }
      >
        <Search
          label="Find a process"
          value={query}
          change={setQuery}
          found={query && found ? `${found.length} found` : undefined}
        />
      </Head>
      {problem && !problem.isLockedOut && <Failure problem={problem} retry={reload} />}
      {checkUp.problem && <Failure problem={checkUp.problem} />}
      {!data && !problem && <Waiting what="Looking for .NET processes" />}
      {data && found?.length === 0 && <Nothing query={query} />}
      {open.length > 0 && (
        <List
          label="Processes that can be profiled"
          columns={columns(checkUp.run, checkUp.busy)}
          rows={open}
          id={(row) => row.pid}
          first="-cpu"
        />
      )}
      {closed.length > 0 && <Closed processes={closed} />}
    </>
  );
}

function matches(process: Process, query: string): boolean {
  const text = `${process.pid} ${process.name} ${process.command} ${process.user ?? ""}`;
  return text.toLowerCase().includes(query.toLowerCase());
}

function Nothing({ query }: { query: string }) {
  return (
    <div class="card empty">
      {query === "" ? (
        <>
          <p>No .NET process is running here that this server may see.</p>
          <p>
            Those of other users are seen if the server runs as root. Those in other containers are
            seen if it shares their process namespace.
          </p>
        </>
      ) : (
        <p>No process has this in its name, command line, user or id.</p>
      )}
    </div>
  );
}

function columns(checkUp: (pid: number) => void, busy: boolean): ListColumn<Row>[] {
  return [
    { id: "name", title: "process", key: (row) => row.name, cell: (row) => <Name of={row} /> },
    {
      id: "actions",
      title: "what to do",
      cell: (row) =>
        row.recording ? (
          <a class="plain" href={watching(row.recording)}>
            <span class="dot" aria-hidden="true" /> Being recorded
          </a>
        ) : (
          <span class="tools">
            <button
              class="primary"
              disabled={busy}
              aria-label={`Check-up of ${visible(row.name)}, process ${row.pid}`}
              onClick={() => checkUp(row.pid)}
            >
              Check-up
            </button>
            <a
              class="plain"
              href={link(["record"], { pid: row.pid })}
              aria-label={`Record ${visible(row.name)}, process ${row.pid}`}
            >
              Record
            </a>
          </span>
        ),
    },
    {
      id: "cpu",
      title: "CPU",
      right: true,
      key: (row) => row.cpu,
      cell: (row) =>
        row.cpu === null ? (
          <span class="weak">·</span>
        ) : (
          <span class="figure">
            {`${(row.cpu * 100).toFixed(row.cpu < 0.1 ? 1 : 0)} %`} <Bar share={row.cpu} />
          </span>
        ),
    },
    {
      id: "gc",
      title: "of it GC threads",
      right: true,
      key: (row) => gcShare(row),
      cell: (row) => <GcShare of={row} />,
    },
    {
      id: "memory",
      title: "memory",
      right: true,
      key: (row) => row.memory_bytes ?? null,
      cell: (row) => (row.memory_bytes ? bytes(row.memory_bytes) : <span class="weak">·</span>),
    },
    {
      id: "threads",
      title: "threads",
      right: true,
      key: (row) => row.threads ?? null,
      cell: (row) => (row.threads ? count(row.threads) : <span class="weak">·</span>),
    },
    {
      id: "runtime",
      title: "runtime",
      key: (row) => row.runtime,
      cell: (row) => `.NET ${row.runtime ?? "of unknown version"} ${row.arch ?? ""}`,
    },
    {
      id: "user",
      title: "user",
      key: (row) => row.user ?? String(row.uid ?? ""),
      cell: (row) => visible(row.user ?? String(row.uid ?? "·")),
    },
    {
      id: "uptime",
      title: "runs for",
      right: true,
      key: (row) => row.uptime_seconds,
      cell: (row) => (row.uptime_seconds === null ? "·" : uptime(row.uptime_seconds)),
    },
    {
      id: "pid",
      title: "process id",
      right: true,
      key: (row) => row.pid,
      cell: (row) => String(row.pid),
    },
  ];
}

/** The part of a process's CPU time that its GC threads have; null if that is not known. */
function gcShare({ cpu, gc }: Row): number | null {
  if (cpu === null || gc === null) return null;
  return cpu > 0 ? Math.min(gc / cpu, 1) : 0;
}

const NOT_SEEN =
  "No GC threads can be seen from outside: the threads of the program collect, or it is .NET Core 3.1. " +
  "A check-up measures GC pauses.";

function GcShare({ of }: { of: Row }) {
  const share = gcShare(of);
  return share === null ? (
    <span class="weak" title={NOT_SEEN}>
      <span aria-hidden="true">·</span>
      <span class="sr">not visible from outside</span>
    </span>
  ) : (
    <>{percent(share)}</>
  );
}

/** The page that shows a recording while it runs. */
export function watching(recording: Recording): string {
  return link([recording.is_checkup ? "checkups" : "recordings", recording.id]);
}

function containerName({ container_engine: engine, container_id: id }: Process): string {
  return engine === null || id === null ? "container" : visible(`${engine} ${id}`);
}

function Name({ of }: { of: Process }) {
  const assembly = of.entry_assembly !== null && of.entry_assembly !== of.name;
  return (
    <>
      <b>{visible(of.name)}</b>
      {of.container && <span class="badge inline">{containerName(of)}</span>}
      {assembly && <span class="weak"> {visible(of.entry_assembly ?? "")}</span>}
      <span class="command" title={visible(of.command)}>
        {visible(of.command)}
      </span>
    </>
  );
}

/** Processes that cannot be profiled, with the reasons. */
function Closed({ processes }: { processes: Process[] }) {
  return (
    <section class="card pad" aria-labelledby="closed">
      <h2 id="closed">These cannot be profiled</h2>
      <dl class="facts">
        {processes.map((process) => (
          <div key={process.pid}>
            <dt>
              <b>{visible(process.name)}</b> {process.pid}
              {process.container && (
                <span class="badge inline">{containerName(process)}</span>
              )}
            </dt>
            <dd>{visible(process.obstacle ?? "")}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
