// Samples of a session on the server, which lays out, sums up and searches.

import { address, send } from "./client";
import { readColumns, type Columns } from "./columns";
import type {
  Callers,
  Children,
  Description,
  Flame,
  Functions,
  Lines,
  Selection,
  Source,
  Stacks,
  Timeline,
} from "./source";

type Params = Record<string, string | number | undefined>;

function selected({ profiler, thread, states, from, to, last, callers }: Selection): Params {
  return {
    profiler,
    thread,
    from,
    to,
    last,
    // A list without a state lets nothing through, and an empty text is no list.
    states: states === undefined ? undefined : states.join(",") || ",",
    direction: callers ? "callers" : undefined,
  };
}

function flameOf({ head, column }: Columns<Flame>): Flame {
  const row = column("row") as Uint32Array;
  return {
    ...head,
    folded: "",
    size: row.length,
    row,
    rows: column("rows") as Uint32Array,
    left: column("left") as Float32Array,
    width: column("width") as Float32Array,
    node: column("node") as Uint32Array,
    merged: column("merged") as Uint32Array,
    function: column("function") as Uint32Array,
    place: column("place") as Uint32Array,
    own: column("own") as Float64Array,
    total_of: column("total") as Float64Array,
    samples_of: column("samples") as Float64Array,
    hit: column("hit") as Uint8Array,
  };
}

function timelineOf({ head, column }: Columns<Timeline>): Timeline {
  return {
    ...head,
    state: column("state") as Uint8Array,
    share: column("share") as Float32Array,
    weights: column("weights") as Float32Array,
    marker_time: column("marker_time") as Float64Array,
    marker_length: column("marker_length") as Float64Array,
    marker_lane: column("marker_lane") as Uint32Array,
    marker_kind: column("marker_kind") as Uint8Array,
    marker_count: column("marker_count") as Float64Array,
    marker_text: column("marker_text") as Uint32Array,
  };
}

/**
 * The samples of a session. `growing`: it is still being written. Numbers of nodes then stay the same
 * from answer to answer.
 */
export function serverSource(session: string, growing = false): Source {
  const nodes = growing ? "stable" : undefined;
  const ask = async (what: string, params: Params, signal?: AbortSignal) => {
    const url = address(`sessions/${encodeURIComponent(session)}/${what}`, params);
    return send(url, signal ? { signal } : {});
  };
  const json = async <T>(what: string, params: Params, signal?: AbortSignal) =>
    (await (await ask(what, params, signal)).json()) as T;
  const columns = async <T>(what: string, params: Params, signal?: AbortSignal) =>
    readColumns<T>(await (await ask(what, params, signal)).arrayBuffer());
  return {
    id: `session ${session}`,
    timed: true,
    growing,
    describe: ({ from, to, last }, signal) =>
      json<Description>("explore", { from, to, last }, signal),
    flame: async ({ selection, root, width, top, rows, search }, signal) => {
      const params = { ...selected(selection), nodes, root, width, top, rows, search };
      return flameOf(await columns<Flame>("flame", params, signal));
    },
    functions: ({ selection, search, sort, rows }, signal) =>
      json<Functions>("functions", { ...selected(selection), search, sort, rows }, signal),
    callers: (selection, of, signal) =>
      json<Callers>("callers", { ...selected(selection), of, rows: 200 }, signal),
    lines: ({ selection, of, rows }, signal) =>
      json<Lines>("explore/lines", { ...selected(selection), direction: undefined, of, rows }, signal),
    stacks: ({ selection, search, rows }, signal) => {
      const params = { ...selected(selection), direction: undefined, search, rows };
      return json<Stacks>("explore/stacks", params, signal);
    },
    children: ({ selection, node, search, first, rows }, signal) => {
      const params = { ...selected(selection), nodes, root: node, search, first, rows };
      return json<Children>("children", params, signal);
    },
    timeline: async (query, signal) => timelineOf(await columns("timeline", { ...query }, signal)),
  };
}
