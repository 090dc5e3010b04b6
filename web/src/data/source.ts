// Where views of samples get them from: the server, or the data in a one-file report. Weights are
// nanoseconds, bytes or numbers of things, as the unit of the samples says; times are nanoseconds
// since the start of the recording.

/** What can be explored. */
export interface Description {
  process: string;
  from: number;
  to: number;
  warnings: string[];
  /** Kinds of code that have colors of their own. */
  kinds: string[];
  /** All states of threads. */
  states: string[];
  series: Series[];
  /** The busiest first. */
  threads: Thread[];
}

/** Samples of a kind. */
export interface Series {
  id: string;
  title: string;
  unit: "nanoseconds" | "bytes" | "count";
  /** What is counted, where the unit is `count`. */
  noun: string;
  samples: number;
  weight: number;
  /** How many samples of equal weight say as much: the base of error bars. */
  effective: number;
  /** Whether its samples are calls, all of them. */
  calls: boolean;
  /** Whether its shares are no estimates. */
  exact: boolean;
  states: State[];
  threads: number;
}

/** What samples can be told apart by: states of threads, or types. */
export interface State {
  id: string;
  title: string;
  index: number;
  weight: number;
  /** Whether it is shown at first. */
  shown: boolean;
}

export interface Thread {
  /** Id in the operating system. */
  id: number;
  name: string;
  managed: boolean;
  weights: Record<string, number>;
}

/** A part of the time; all of it if nothing is set. */
export interface TimePart {
  /** Seconds; empty if not limited. */
  from: string;
  to: string;
  /** In place of these: the last seconds of what was recorded so far. */
  last: string;
}

/** Which samples, put together to which tree. */
export interface Selection extends TimePart {
  profiler: string;
  /** Id or name of threads; all if it is empty. */
  thread: string;
  /** States; `undefined` for all. */
  states: string[] | undefined;
  /** Callers instead of callees are below. */
  callers: boolean;
}

/** A function. */
export interface Fn {
  id: number;
  name: string;
  short: string;
  /** Index into the kinds. */
  kind: number;
  module: string | null;
}

/** A node of the path to the root of a view. */
export interface PathNode {
  node: number;
  function: Fn;
}

/** The boxes of a flame graph, of whatever it is. */
export interface FlameBoxes {
  /** Rows that there are. */
  height: number;
  path: PathNode[];
  left_out: number;
  functions: Fn[];
  /** Number of boxes. */
  size: number;
  row: Uint32Array;
  rows: Uint32Array;
  left: Float32Array;
  width: Float32Array;
  node: Uint32Array;
  merged: Uint32Array;
  function: Uint32Array;
  hit: Uint8Array;
}

/** What is visible of a flame graph. */
export interface Flame extends FlameBoxes {
  total: number;
  samples: number;
  /** Of all that is selected. */
  whole: number;
  effective: number;
  /** Share in which the search finds something. */
  found: number | null;
  /** What was sampled in code of each kind itself, of all that is selected. */
  kinds: number[];
  shortened: number;
  /** What is to be said of nodes that are not shown singly; empty if there is nothing. */
  folded: string;
  places: string[];
  place: Uint32Array;
  own: Float64Array;
  total_of: Float64Array;
  samples_of: Float64Array;
}

/** Which part of a flame graph is visible. */
export interface BoxQuery {
  root: number | undefined;
  width: number;
  top: number;
  rows: number;
  search: string;
}

export interface FlameQuery extends BoxQuery {
  selection: Selection;
}

export interface FunctionRow {
  function: Fn;
  place: string | null;
  own: number;
  own_samples: number;
  total: number;
}

export interface Functions {
  whole: number;
  effective: number;
  count: number;
  rows: FunctionRow[];
}

export interface FunctionsQuery {
  selection: Selection;
  search: string;
  sort: "own" | "total" | "name";
  rows: number;
}

export interface Neighbor {
  function: Fn | null;
  weight: number;
  samples: number;
}

export interface Callers {
  function: Fn;
  whole: number;
  own: number;
  total: number;
  callers: Neighbor[];
  callees: Neighbor[];
}

/** Lines of a method that were sampled. */
export interface Lines {
  function: Fn;
  whole: number;
  effective: number;
  own: number;
  total: number;
  /** Paths, as the symbols name them. */
  files: string[];
  count: number;
  /** File by file, in the order of their numbers. */
  rows: LineRow[];
}

export interface LineRow {
  /** Index into the files; null where the line is not known, as `line` is then. */
  file: number | null;
  line: number | null;
  own: number;
  own_samples: number;
  total: number;
}

export interface LinesQuery {
  selection: Selection;
  of: number;
  rows: number;
}

/** Stacks, those of most threads first. */
export interface Stacks {
  whole: number;
  count: number;
  rows: StackRow[];
}

/** A stack, and the threads that were sampled in it. */
export interface StackRow {
  threads: number;
  /** Names of some of them. */
  names: string[];
  weight: number;
  samples: number;
  /** The innermost first. */
  frames: { function: Fn; place: string | null }[];
  /** Further frames towards the root. */
  left_out: number;
}

export interface StacksQuery {
  selection: Selection;
  search: string;
  rows: number;
}

export interface Child {
  node: number;
  function: Fn;
  place: string | null;
  own: number;
  total: number;
  samples: number;
  /** Nodes right below it. */
  children: number;
  hit: number;
}

export interface Children {
  count: number;
  rows: Child[];
}

export interface ChildrenQuery {
  selection: Selection;
  node: number | undefined;
  search: string;
  /** Rows to leave out, and how many to answer after them. */
  first: number;
  rows: number;
}

/** What threads did. */
export interface Timeline {
  from: number;
  to: number;
  pixels: number;
  unit: "nanoseconds" | "bytes" | "count";
  shown_states: number[];
  /** How many there are. */
  threads: number;
  lanes: { id: number; name: string }[];
  kinds: string[];
  texts: string[];
  state: Uint8Array;
  share: Float32Array;
  weights: Float32Array;
  marker_time: Float64Array;
  marker_length: Float64Array;
  marker_lane: Uint32Array;
  marker_kind: Uint8Array;
  marker_count: Float64Array;
  marker_text: Uint32Array;
}

export interface TimelineQuery {
  profiler: string;
  from: string;
  to: string;
  width: number;
  first: number;
  rows: number;
}

/** Where samples come from. */
export interface Source {
  /** Names the data, for requests that are kept. */
  readonly id: string;
  /** Whether a part of the time can be chosen. */
  readonly timed: boolean;
  /** Whether it is still being written: it is asked again and again. */
  readonly growing: boolean;
  describe(part: TimePart, signal?: AbortSignal): Promise<Description>;
  flame(query: FlameQuery, signal?: AbortSignal): Promise<Flame>;
  functions(query: FunctionsQuery, signal?: AbortSignal): Promise<Functions>;
  callers(selection: Selection, of: number, signal?: AbortSignal): Promise<Callers>;
  /** Lines of a method, where they are known. */
  lines?(query: LinesQuery, signal?: AbortSignal): Promise<Lines>;
  /** Threads with the same stack, together. */
  stacks?(query: StacksQuery, signal?: AbortSignal): Promise<Stacks>;
  children(query: ChildrenQuery, signal?: AbortSignal): Promise<Children>;
  timeline(query: TimelineQuery, signal?: AbortSignal): Promise<Timeline>;
}
