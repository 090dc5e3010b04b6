// What can be explored in a session: flame graph and call tree, methods with callers and callees,
// and what threads did over time, all of the same selection of samples.

import type { JSX } from "preact";
import { useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { SessionDetail } from "../data/client";
import { counted, percent, visible } from "../data/format";
import { useQuery } from "../data/query";
import { serverSource } from "../data/server-source";
import type { Description, Flame, Selection, Series, Source, TimePart } from "../data/source";
import { CallsView } from "./calls";
import { FunctionsView } from "./functions";
import { useThemed } from "./canvas";
import { Crumbs } from "./crumbs";
import { GrowthView } from "./growth";
import { HeapView } from "./heap";
import { kindColor, MARKERS, stateColor } from "./palette";
import { keyOf, SamplesFlame, type Coloring } from "./samples-flame";
import { StacksView } from "./stacks";
import { StoreContext, useKept } from "./state";
import { steady } from "./steady";
import { TimelineView } from "./timeline";
import { AllOfIt, ALWAYS, isPart, Latest, Times } from "./times";
import { amount, samples } from "./weights";
import "./explore.css";

export interface ExploreProps {
  session: SessionDetail;
}

/** Which view of the samples. */
export type View = "flame" | "functions" | "stacks";

/** The views of samples, as the address has them, with their titles. */
const VIEWS: [string, string][] = [["", "Flame graph"], ["functions", "Methods"], ["stacks", "Stacks"]];

/** The view of the samples that the address has; `undefined` if it has another one. */
function viewOf(kept: string): View | undefined {
  if (kept === "functions" || kept === "stacks") return kept;
  return kept === "" ? "flame" : undefined;
}

/** What the address has for a view of the samples. */
const addressOf = (view: View) => ({ view: view === "flame" ? "" : view });

/** Milliseconds after which samples that are still being recorded are read again, at least. */
const EVERY = 3000;

/** Reading takes at most 1 part in this number of the time. */
const SELDOM = 20;

const pace = (took: number) => Math.max(EVERY, took * SELDOM);

/** Threads that can be chosen from a list. */
const MOST_THREADS = 1000;

/** Views of what a session has: its samples, and its heap snapshots. */
export function Explore({ session }: ExploreProps) {
  const source = useMemo(() => serverSource(session.id), [session.id]);
  const [kept, setView] = useKept("view");
  const views: [string, string][] = [];
  if (session.series.length > 0) views.push(...VIEWS);
  if (session.heap_snapshots > 0) views.push(["heap", "Heap"]);
  if (session.heap_snapshots > 1) views.push(["growth", "Heap growth"]);
  if (views.length === 0) {
    return <p class="hint">This session has no samples with stacks. What it has is below.</p>;
  }
  const [view] = views.find(([id]) => id === kept) ?? views[0]!;
  const ofSamples = viewOf(view);
  return (
    <>
      <Views {...{ views, view, choose: setView }} />
      {view === "heap" && <HeapView session={session.id} snapshots={session.heap_snapshots} />}
      {view === "growth" && <GrowthView session={session.id} />}
      {ofSamples && <Samples source={source} view={ofSamples} go={addressOf} />}
    </>
  );
}

/** The samples of a recording that runs: the same views as of its session. */
export function RunningSamples({ session }: { session: string }) {
  const source = useMemo(() => serverSource(session, true), [session]);
  const [kept, setView] = useKept("view");
  const view = viewOf(kept) ?? "flame";
  const choice = <Views views={VIEWS} view={addressOf(view).view} choose={setView} />;
  return <Samples source={source} view={view} go={addressOf} choice={choice} />;
}

interface ViewsProps {
  views: [string, string][];
  view: string;
  choose: (view: string) => void;
}

/** Chooses a view. */
function Views({ views, view, choose }: ViewsProps) {
  return (
    <div class="segments views" role="group" aria-label="View">
      {views.map(([id, title]) => (
        <button key={id} aria-pressed={view === id} onClick={() => choose(id)}>
          {title}
        </button>
      ))}
    </div>
  );
}

export interface SamplesProps {
  source: Source;
  view: View;
  /** What to keep, so that another view is shown. */
  go: (view: View) => Record<string, string>;
  /** Where the view is chosen, if that is to be there only once there are samples. */
  choice?: JSX.Element;
}

/** A view of the samples of a source, with what selects them. */
export function Samples(props: SamplesProps) {
  const { source } = props;
  const store = useContext(StoreContext);
  const part: TimePart = { from: store.get("from"), to: store.get("to"), last: store.get("last") };
  const query = useQuery(
    `explore ${source.id} ${part.from} ${part.to} ${part.last}`,
    (signal) => source.describe(part, signal),
    source.growing ? pace : undefined,
  );
  // While another part of the time is read, the last one stays.
  const last = useRef<{ read: Description; shown: Description }>(undefined);
  const round = useRef(0);
  if (query.data && query.data !== last.current?.read) {
    const read = query.data;
    const before = source.growing ? last.current?.shown : undefined;
    last.current = { read, shown: steady(before, read, store.get("thread")) };
    if (source.growing) round.current += 1;
  }
  const description = last.current?.shown;
  // What is still being recorded may not be readable yet.
  if (query.problem && (!source.growing || query.problem.status === 400)) {
    return (
      <div class="banner bad" role="alert">
        {visible(query.problem.reason)} {query.problem.next} {isPart(part) && <AllOfIt />}
      </div>
    );
  }
  if (!description && source.growing) return null;
  if (!description) return <p class="empty">Reading the samples…</p>;
  const first = description.series[0];
  if (!first && source.growing && !isPart(part)) return null;
  if (!first) return <NoSamples isPart={isPart(part)} />;
  return <Selected {...props} {...{ description, part, first }} round={round.current} />;
}

function NoSamples({ isPart }: { isPart: boolean }) {
  return (
    <section class="card empty">
      {isPart ? "No samples in this part of the time. " : "No samples in this recording."}
      {isPart && <AllOfIt />}
    </section>
  );
}

interface SelectedProps extends SamplesProps {
  description: Description;
  part: TimePart;
  first: Series;
  /** How often samples that are still being recorded were read. */
  round: number;
}

/** Hidden states: those that were chosen, else those that are of no interest at first. */
function hiddenOf(series: Series, off: string): Set<string> {
  if (off === "") return new Set(series.states.filter((one) => !one.shown).map((one) => one.id));
  return new Set(off.split(",").filter((id) => series.states.some((one) => one.id === id)));
}

function Selected(props: SelectedProps) {
  const { source, description, view, go, part, first, round } = props;
  const store = useContext(StoreContext);
  const series = description.series.find((one) => one.id === store.get("series")) ?? first;
  const hidden = hiddenOf(series, store.get("off"));
  const shown = series.states.filter((one) => !hidden.has(one.id)).map((one) => one.id);
  const known = description.threads.some(
    (one) => String(one.id) === store.get("thread") && series.id in one.weights,
  );
  const selection: Selection = {
    profiler: series.id,
    thread: known ? store.get("thread") : "",
    states: hidden.size === 0 ? undefined : shown,
    ...part,
    // Nodes of callers have no numbers that stay the same while samples come.
    callers: store.get("callers") === "1" && !source.growing,
  };
  const search = store.get("search");
  const [found, setFound] = useState("");
  useEffect(() => {
    if (search === "") setFound("");
  }, [search]);
  // Nodes are those of one tree: with another selection the whole is shown.
  const select = (values: Record<string, string>) => store.set({ root: "", ...values });
  // While samples come, calls have numbers that are the same in each part: the zoom stays.
  const choose = (next: TimePart) => store.set(source.growing ? { ...next } : { root: "", ...next });
  const toolbar = {
    description,
    series,
    selection,
    hidden,
    select,
    choose,
    search,
    found,
    source,
    isFlame: view === "flame",
  };
  const timeline = !source.growing && (
    <TimelineView
      {...{ source, description, series }}
      states={selection.states}
      from={selection.from}
      to={selection.to}
      choose={(from, to) => choose({ ...ALWAYS, from, to })}
      thread={selection.thread}
      chooseThread={(thread) => select({ thread })}
    />
  );
  return (
    <>
      {/* What is still being recorded is incomplete, and the page says what was dropped. */}
      {!source.growing &&
        description.warnings.map((warning) => (
          <p class="banner" key={warning}>
            {visible(warning)}
          </p>
        ))}
      {props.choice}
      <Toolbar {...toolbar} />
      {view === "flame" ? (
        <FlameAndCalls {...{ source, description, series, selection, search, timeline, round }} found={setFound} />
      ) : view === "functions" ? (
        <>
          {timeline && <section class="card">{timeline}</section>}
          <FunctionsView
            {...{ source, description, series, selection, search, round }}
            found={setFound}
            show={(name) => store.set({ ...go("flame"), search: name, root: "" })}
          />
        </>
      ) : (
        <>
          {timeline && <section class="card">{timeline}</section>}
          <StacksView {...{ source, series, selection, search, round }} found={setFound} />
        </>
      )}
    </>
  );
}

interface ToolbarProps {
  source: Source;
  description: Description;
  series: Series;
  selection: Selection;
  hidden: Set<string>;
  select: (values: Record<string, string>) => void;
  choose: (part: TimePart) => void;
  search: string;
  found: string;
  isFlame: boolean;
}

function Toolbar(props: ToolbarProps) {
  const { description, series, selection, hidden, select, isFlame } = props;
  const threads = description.threads
    .filter((one) => series.id in one.weights)
    .sort((one, other) => other.weights[series.id]! - one.weights[series.id]!);
  const toggle = (id: string) => {
    const next = new Set(hidden);
    if (!next.delete(id)) next.add(id);
    // An empty text stands for what is hidden at first.
    select({ off: [...next].join(",") || "none" });
  };
  return (
    <div class="selectors">
      <div class="segments" role="group" aria-label="Profiler">
        {description.series.map((one) => (
          <button
            key={one.id}
            aria-pressed={one.id === series.id}
            onClick={() => select({ series: one.id, off: "", of: "" })}
          >
            {one.title}
          </button>
        ))}
      </div>
      <select
        aria-label="Thread"
        value={selection.thread}
        onChange={(event) => select({ thread: event.currentTarget.value })}
      >
        <option value="">All {counted(series.threads, "thread")}</option>
        {threads.slice(0, MOST_THREADS).map((one) => (
          <option key={one.id} value={String(one.id)}>
            {visible(one.name)} – {amount(series, one.weights[series.id]!)}
          </option>
        ))}
      </select>
      {isFlame && <Directions {...props} />}
      <Search {...props} />
      {series.states.length > 1 && (
        <div class="chips" role="group" aria-label="Samples that are shown">
          {series.states.map((one) => (
            <button key={one.id} aria-pressed={!hidden.has(one.id)} onClick={() => toggle(one.id)}>
              <i aria-hidden="true" style={{ background: stateColor(one.title, one.index) }} />
              {visible(one.title)}
            </button>
          ))}
        </div>
      )}
      {props.source.growing && <Latest {...props} />}
      {props.source.timed && <Times {...props} />}
    </div>
  );
}

function Directions({ selection, select, source }: ToolbarProps) {
  const [up, setUp] = useKept("up", true);
  const [coloring, setColoring] = useKept("color", true);
  const button = (title: string, pressed: boolean, press: () => void) => (
    <button aria-pressed={pressed} onClick={press}>
      {title}
    </button>
  );
  return (
    <>
      {!source.growing && (
        <div class="segments" role="group" aria-label="Direction">
          {button("Callees", !selection.callers, () => select({ callers: "" }))}
          {button("Callers", selection.callers, () => select({ callers: "1" }))}
        </div>
      )}
      <div class="segments" role="group" aria-label="Form">
        {button("Icicle", up === "", () => setUp(""))}
        {button("Flames", up !== "", () => setUp("1"))}
      </div>
      <div class="segments" role="group" aria-label="Colors">
        {button("by kind", coloring === "", () => setColoring(""))}
        {button("by module", coloring !== "", () => setColoring("module"))}
      </div>
    </>
  );
}

function Search({ search, found }: ToolbarProps) {
  const store = useContext(StoreContext);
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  // The page of a recording is drawn anew many times a second: what is being typed stays.
  const [typed, setTyped] = useState<string>();
  const set = (text: string) => store.set({ search: text.trim() }, true);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const typing = /INPUT|SELECT|TEXTAREA/.test(document.activeElement?.tagName ?? "");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      input.current?.focus();
      input.current?.select();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  return (
    <>
      <input
        ref={input}
        type="search"
        aria-label="Search methods"
        placeholder="Search methods, or /regular expression/"
        spellcheck={false}
        value={typed ?? search}
        onInput={(event) => {
          const { value } = event.currentTarget;
          setTyped(value);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => {
            set(value);
            setTyped(undefined);
          }, 120);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          clearTimeout(timer.current);
          setTyped(undefined);
          event.currentTarget.value = "";
          set("");
          event.currentTarget.blur();
        }}
      />
      <span class="found" role="status">
        {found}
      </span>
    </>
  );
}

interface FlameAndCallsProps {
  source: Source;
  description: Description;
  series: Series;
  selection: Selection;
  search: string;
  timeline: JSX.Element | false;
  round: number;
  found: (text: string) => void;
}

function FlameAndCalls(props: FlameAndCallsProps) {
  useThemed();
  const { source, description, series, selection, search, found } = props;
  const [rootText, setRoot] = useKept("root");
  const [up] = useKept("up");
  const [coloring] = useKept("color");
  const root = rootText === "" ? undefined : Number(rootText);
  const [focus, setFocus] = useState<{ node: number | undefined; path: number[] }>({
    node: root,
    path: [],
  });
  const [flame, setFlame] = useState<Flame>();
  const zoom = (node: number | undefined) => setRoot(node === undefined ? "" : String(node));
  const { round } = props;
  const shared = { source, series, selection, search, root, zoom, round };
  const focused = (node: number | undefined, path: number[]) => setFocus({ node, path });
  return (
    <>
      <section class="card" aria-label="Flame graph">
        {props.timeline}
        <Crumbs {...{ root, zoom }} of={flame} end={flame ? notesOf(flame, series) : ""} />
        <SamplesFlame
          {...shared}
          id={`${source.id} ${keyOf(selection)}`}
          ask={(query, signal) => source.flame({ ...query, selection }, signal)}
          label="Flame graph. The call tree below says the same."
          description={description}
          focus={focus.node}
          setFocus={focused}
          upward={up !== ""}
          coloring={(coloring === "module" ? "module" : "kind") satisfies Coloring}
          loaded={(next) => {
            setFlame(next);
            found(next.found === null ? "" : `${percent(next.found)} matched`);
          }}
        />
        {flame && <Legend {...{ flame, description }} markers={props.timeline !== false} />}
      </section>
      <p class="hint">
        Click a frame to zoom. <kbd>/</kbd> searches; <kbd>←↑→↓</kbd> <kbd>Enter</kbd>{" "}
        <kbd>Backspace</kbd> <kbd>Esc</kbd> move and zoom. Width is weight; siblings stand heaviest
        first, not in time.
      </p>
      <section class="card pad calls" aria-label="Call tree">
        <h2>{selection.callers ? "Callers" : "Call tree"}</h2>
        <CallsView
          {...shared}
          whole={flame?.whole ?? series.weight}
          effective={flame?.effective ?? series.effective}
          focus={focus.node}
          path={focus.path}
          setFocus={focused}
        />
      </section>
    </>
  );
}

/** What the flame graph shows, in short. */
function notesOf(flame: Flame, series: Series): string {
  const notes = [amount(series, flame.total), samples(series, flame.samples)];
  if (flame.folded !== "") notes.push(flame.folded);
  if (flame.shortened > 0) notes.push(`callers of ${counted(flame.shortened, "stack")} left out`);
  return notes.join(" · ");
}

/** Colors, with the share of each kind of code by itself. */
function Legend(props: { flame: Flame; description: Description; markers: boolean }) {
  const { flame, description, markers } = props;
  return (
    <div class="legend" role="group" aria-label="Colors, with the share of each kind itself">
      {description.kinds.map((kind, index) => {
        const weight = flame.kinds[index] ?? 0;
        return (
          weight > 0 && (
            <span key={kind}>
              <i aria-hidden="true" style={{ background: kindColor(index, 0) }} />
              {kind} <b>{percent(weight / (flame.whole || 1))}</b>
            </span>
          )
        );
      })}
      {markers && <Markers />}
    </div>
  );
}

function Markers() {
  const titles = ["GC pause", "exception", "wait for a lock", "traced call"];
  return (
    <span class="markers">
      {titles.map((title, kind) => (
        <span key={title}>
          <i aria-hidden="true" style={{ background: MARKERS[kind] ?? "" }} />
          {title}
        </span>
      ))}
    </span>
  );
}
