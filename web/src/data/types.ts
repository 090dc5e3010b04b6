// What the server sends and takes, as its OpenAPI document (GET /api/v1/openapi.json) says.

import type { Document, Figure } from "./document";

/** A .NET process. */
export interface Process {
  pid: number;
  namespace_pid: number;
  user: string | null;
  uid: number | null;
  runtime: string | null;
  arch: string | null;
  hosting: string | null;
  container: boolean;
  /** Who made the container, and the first digits of its id, where that is known. */
  container_engine: string | null;
  container_id: string | null;
  uptime_seconds: number | null;
  name: string;
  entry_assembly: string | null;
  command: string;
  args: string[];
  attachable: boolean;
  obstacle: string | null;
  /** CPU time since it started, of all its threads. */
  cpu_seconds?: number | null;
  /** The same of the threads that only collect garbage; null if it has none. */
  gc_cpu_seconds?: number | null;
  /** Memory that it has in RAM. */
  memory_bytes?: number | null;
  threads?: number | null;
}

/** Methods of a running process, those that fit best first. */
export interface ProcessMethods {
  methods: ProcessMethod[];
  /** How many there are. */
  matched: number;
  assemblies: number;
  /** Assemblies that could not be read. */
  unread: number;
  complete: boolean;
}

/** Methods of one name in one type. */
export interface ProcessMethod {
  assembly: string;
  type: string;
  name: string;
  overloads: number;
  /** What a trace of them says. */
  pattern: string;
  /** What a trace of all methods of the type says. */
  type_pattern: string;
}

export interface ProfilerParam {
  name: string;
  help: string;
  default: string;
  /** The smallest and the largest number, of a number. */
  range?: [number, number];
  /** The words, of a choice. */
  choices?: string[];
}

/** What can be recorded. */
export interface Profiler {
  id: string;
  summary: string;
  description: string;
  /** What it costs the program that is recorded. */
  overhead: string;
  since: string;
  attach: boolean;
  /** The commands that run it, such as `record`. */
  commands: string[];
  needs_main_slot: boolean;
  /** Whether the agent remains in the process until the process ends. */
  resident_agent: boolean;
  values: { kind: string; unit: string }[];
  params: ProfilerParam[];
}

/** Profilers that answer a question together. */
export interface Preset {
  id: string;
  title: string;
  profilers: string;
}

/** How far a recording is. */
export interface Progress {
  stage: string;
  elapsed_seconds: number;
  samples: Record<string, number>;
  dropped: number;
  bytes: number;
}

export interface Finding {
  id: string;
  severity: "low" | "medium" | "high" | "critical";
  /** How sure it is, 0 to 1. */
  confidence: number;
  title: string;
  /** The method, type, lock or thread that is to blame, where there is one. */
  culprit: string | null;
  evidence: string[];
  next: string;
  /** The evidence as pictures. */
  figures: Figure[];
}

export interface Checkup {
  target: { pid: number; name: string; runtime: string; observed_seconds: number };
  findings: Finding[];
  notes: string[];
}

/** What was recorded of one process. */
export interface RecordedSession {
  pid: number;
  process: string;
  duration_seconds: number;
  samples: Record<string, number>;
  dropped: Record<string, number>;
  target_cpu_seconds: number;
  target_stopped_seconds: number;
  target_memory_bytes: number;
  own_cpu_seconds: number;
  notes: string[];
  end: string;
}

/** A recording, a check-up or a trace. */
export interface Recording {
  id: string;
  is_checkup: boolean;
  pid: number;
  process: string;
  /** The command line, if the recording has started the process. */
  command: string | null;
  profilers: string[];
  started_unix_ms: number;
  duration_seconds: number | null;
  warnings: string[];
  progress: Progress;
  ended: boolean;
  summary: { exit_code: number | null; sessions: RecordedSession[] } | null;
  checkup: Checkup | null;
  failure: string | null;
}

/** What a recording shows while it runs. */
export interface Figures {
  elapsed_seconds: number;
  window_seconds: number;
  cpu: number;
  samples: number;
  exceptions_per_second: number;
  /** Bytes; null if no allocation was recorded yet. */
  allocated_per_second: number | null;
  paused: number;
  dropped: number;
  note: string | null;
  methods: {
    name: string;
    module: string | null;
    managed: boolean;
    own: number;
    total: number;
    own_ms: number;
  }[];
  threads: {
    tid: number;
    name: string;
    cpu: number;
    state: string | null;
    method: string | null;
  }[];
  exceptions: {
    name: string;
    per_second: number;
    count: number;
    message: string | null;
    thrown_at: string | null;
  }[];
  collections: {
    number: number;
    generation: number;
    reason: string;
    kind: string;
    pause_ms: number | null;
    heap_bytes: number;
    promoted_bytes: number;
  }[];
}

export interface SessionProfiler {
  id: string;
  engine: string;
  rate_hz: number | null;
  params: Record<string, string>;
}

/** A session in a list. */
export interface Session {
  id: string;
  bytes: number;
  recorded_unix_ms: number;
  recording: boolean;
  /** What somebody wrote about it. */
  note: string | null;
  target: {
    pid: number;
    process: string;
    command: string;
    runtime: string;
    platform: string;
    tool_version: string;
    profilers: SessionProfiler[];
  } | null;
  problem: string | null;
}

/** A format of reports. */
export interface ReportFormat {
  id: string;
  extension: string;
  summary: string;
}

/** A program to start. */
export interface NewLaunch {
  command: string;
  folder?: string;
  environment: Record<string, string>;
}

export interface NewRecording {
  /** Either this or `launch`. */
  pid?: number;
  launch?: NewLaunch;
  profilers?: { id: string; params: Record<string, string> }[];
  rate_hz?: number;
  duration_seconds?: number;
}

export interface NewCheckup {
  pid: number;
  duration_seconds?: number;
  heap?: boolean;
}

export interface NewTrace {
  pid: number;
  patterns: string[];
  exclude?: string[];
  count?: boolean;
  calls?: number;
  one_in?: number;
  arguments?: boolean;
  dry_run?: boolean;
  duration_seconds?: number;
}

export type { Document };
