// Requests to the server. All errors are `Problem`s, with a cause and a next step.

import type {
  Document,
  NewCheckup,
  NewRecording,
  NewTrace,
  Preset,
  Process,
  ProcessMethods,
  Profiler,
  Recording,
  ReportFormat,
  Session,
} from "./types";

const PREFIX = "/api/v1/";

/** Why a request was not fulfilled. */
export class Problem extends Error {
  constructor(
    /** Status of the response; 0 if there was none. */
    readonly status: number,
    /** What is wrong. */
    readonly reason: string,
    /** What to do about it. */
    readonly next: string,
  ) {
    super(reason);
  }

  /** Whether this browser is locked out: the cookie is no longer valid. */
  get isLockedOut(): boolean {
    return this.status === 401;
  }
}

/** Anything thrown, as a problem. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new Problem(0, reason, "Reload the page.");
}

type Listener = (problem: Problem) => void;
const lockedOut = new Set<Listener>();

/** Calls a function when a request finds that the cookie is no longer valid. */
export function onLockedOut(listener: Listener): () => void {
  lockedOut.add(listener);
  return () => lockedOut.delete(listener);
}

/** The address of a request. Parameters that are undefined or empty are left out. */
export function address(
  path: string,
  params: Record<string, string | number | boolean | undefined> = {},
): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return PREFIX + path + (text === "" ? "" : `?${text}`);
}

/** Sends a request; the response, if its status says that all went well. */
export async function send(url: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, { credentials: "same-origin", ...init });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Problem(
      0,
      "The server does not respond.",
      "See whether `clrscope serve` is still running, and start it again.",
    );
  }
  if (response.ok) return response;
  const problem = await readProblem(response);
  if (problem.isLockedOut) for (const listener of lockedOut) listener(problem);
  throw problem;
}

/** The problem that a response describes. */
async function readProblem(response: Response): Promise<Problem> {
  try {
    const { cause, next } = (await response.json()) as { cause: string; next: string };
    return new Problem(response.status, cause, next);
  } catch {
    return new Problem(
      response.status,
      `The server answered with status ${response.status}.`,
      "Try again.",
    );
  }
}

async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await send(address(path), signal ? { signal } : {});
  return (await response.json()) as T;
}

async function sendJson<T>(method: string, path: string, body: unknown): Promise<T> {
  const response = await send(address(path), {
    method,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  return (await response.json()) as T;
}

const named = (id: string) => encodeURIComponent(id);

/** What a document can be narrowed to, as in the query of `sessions/{id}/document`. */
export interface Narrowed {
  profiler?: string | undefined;
  thread?: string | undefined;
  function?: string | undefined;
  from?: string | undefined;
  to?: string | undefined;
  rows?: string | undefined;
}

export const api = {
  processes: (signal?: AbortSignal) => get<Process[]>("processes", signal),
  /** Methods of a process that have these words in their names. */
  methods: async (pid: number, search: string, signal?: AbortSignal) => {
    const url = address(`processes/${pid}/methods`, { search });
    return (await (await send(url, signal ? { signal } : {})).json()) as ProcessMethods;
  },
  profilers: (signal?: AbortSignal) => get<Profiler[]>("profilers", signal),
  presets: (signal?: AbortSignal) => get<Preset[]>("presets", signal),
  formats: (signal?: AbortSignal) => get<ReportFormat[]>("formats", signal),
  recordings: (signal?: AbortSignal) => get<Recording[]>("recordings", signal),
  recording: (id: string, signal?: AbortSignal) =>
    get<Recording>(`recordings/${named(id)}`, signal),
  /** Whether recordings may start programs. */
  launch: (signal?: AbortSignal) => get<{ allowed: boolean }>("launch", signal),
  /** What the program of a recording has printed. */
  output: (id: string, signal?: AbortSignal) =>
    get<{ text: string; left_out: number }>(`recordings/${named(id)}/output`, signal),
  record: (body: NewRecording) => sendJson<Recording>("POST", "recordings", body),
  checkUp: (body: NewCheckup) => sendJson<Recording>("POST", "checkups", body),
  trace: (body: NewTrace) => sendJson<Recording>("POST", "traces", body),
  stop: async (id: string) => {
    const response = await send(address(`recordings/${named(id)}`), { method: "DELETE" });
    return (await response.json()) as Recording;
  },
  sessions: (signal?: AbortSignal) => get<Session[]>("sessions", signal),
  session: (id: string, signal?: AbortSignal) =>
    get<SessionDetail>(`sessions/${named(id)}`, signal),
  changeSession: (id: string, body: { name?: string; note?: string }) =>
    sendJson<Session>("PATCH", `sessions/${named(id)}`, body),
  deleteSession: (id: string) => send(address(`sessions/${named(id)}`), { method: "DELETE" }),
  document: async (id: string, narrowed: Narrowed = {}, signal?: AbortSignal) => {
    const url = address(`sessions/${named(id)}/document`, { ...narrowed });
    return (await (await send(url, signal ? { signal } : {})).json()) as Document;
  },
  fileAddress: (id: string) => address(`sessions/${named(id)}/file`),
  reportAddress: (id: string, format: string) =>
    address(`sessions/${named(id)}/report`, { format }),
};

/** A session with what is only known when all of it was read. */
export interface SessionDetail extends Session {
  duration_seconds: number;
  /** Whether the recording ended in order and all of the file can be read. */
  complete: boolean;
  damage: string | null;
  end: string | null;
  threads: number;
  /** Profilers that have samples with stacks. */
  series: string[];
  heap_snapshots: number;
  dropped: number;
  notes: string[];
}
