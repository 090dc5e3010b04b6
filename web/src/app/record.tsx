// The form of a recording, made from the registry of profilers. All of its state is in the address.

import { useEffect } from "preact/hooks";
import { api } from "../data/client";
import { counted, visible } from "../data/format";
import { useQuery } from "../data/query";
import { parseSelection, whyNot, writeSelection, type Selection } from "../data/selection";
import type { Preset, Process, Profiler, ProfilerParam } from "../data/types";
import { LaunchFields, launchOf, LaunchSwitch, useLaunch } from "./launch";
import { Failure, Field, Head, useAction, Waiting } from "./parts";
import { go, link, setParams, usePlace } from "./router";

export function RecordPage() {
  const { params } = usePlace();
  const { data, problem, reload } = useQuery("registry", async (signal) => {
    const [processes, profilers, presets, launch] = await Promise.all([
      api.processes(signal),
      api.profilers(signal),
      api.presets(signal),
      api.launch(signal),
    ]);
    return { processes, profilers, presets, mayLaunch: launch.allowed };
  });
  const launch = useLaunch();
  const command = launch.chosen ? "launch" : "record";
  const usual = data?.presets[0]?.profilers ?? "";
  const pid = Number(params.get("pid") ?? "0");
  const selection = parseSelection(params.get("p") ?? usual);
  const seconds = params.get("seconds") ?? "";
  const rate = params.get("rate") ?? "";
  const start = useAction(async () => {
    const profilers = [...selection].map(([id, params]) => ({ id, params }));
    const recording = await api.record({
      ...(launch.chosen ? { launch: launchOf(launch) } : { pid }),
      profilers,
      ...(seconds === "" ? {} : { duration_seconds: Number(seconds) }),
      ...(rate === "" ? {} : { rate_hz: Number(rate) }),
    });
    go(link(["recordings", recording.id]));
  });
  const process = launch.chosen
    ? undefined
    : data?.processes.find((process) => process.pid === pid);
  const isReady = launch.chosen ? launch.command !== "" && data?.mayLaunch : pid !== 0;
  const choose = (next: Selection) => setParams({ p: writeSelection(next) }, { replace: true });
  return (
    <>
      <Head
        title={process ? `Record ${process.name}` : "Record"}
        about={
          launch.chosen
            ? "The program is recorded from its first instruction on, and ends with the recording."
            : "A recording does not stop or restart the program. Choose a question, or profilers."
        }
      >
        <LaunchSwitch chosen={launch.chosen} />
      </Head>
      {problem && !problem.isLockedOut && <Failure problem={problem} retry={reload} />}
      {!data && !problem && <Waiting what="Reading the list of profilers" />}
      {data && (
        <form
          class="record"
          onSubmit={(event) => {
            event.preventDefault();
            start.run();
          }}
        >
          <div class="card pad fields">
            {launch.chosen ? (
              <LaunchFields launch={launch} allowed={data.mayLaunch} />
            ) : (
              <ProcessChoice processes={data.processes} pid={pid} />
            )}
            <Field label="Seconds" hint="Until it is stopped if empty">
              <input
                type="number"
                min="0.1"
                max="604800"
                step="any"
                value={seconds}
                onInput={keep("seconds")}
              />
            </Field>
            <Field label="CPU samples per second" hint="Of each thread that runs; 1 to 1000">
              <input
                type="number"
                min="1"
                max="1000"
                placeholder="100"
                value={rate}
                onInput={keep("rate")}
              />
            </Field>
            <button
              class="primary"
              disabled={start.busy || selection.size === 0 || !isReady}
              type="submit"
            >
              {start.busy ? (launch.chosen ? "Starting …" : "Attaching …") : "Start recording"}
            </button>
          </div>
          {start.problem && <Failure problem={start.problem} />}
          <Presets presets={data.presets} selection={selection} choose={choose} />
          <fieldset class="profilers">
            <legend>{counted(selection.size, "profiler")} of the recording</legend>
            {data.profilers
              .filter((profiler) => profiler.commands.includes(command))
              .map((profiler) => (
                <ProfilerChoice
                  key={profiler.id}
                  profiler={profiler}
                  why={whyNot(profiler, process?.runtime ?? null, command)}
                  selection={selection}
                  choose={choose}
                />
              ))}
          </fieldset>
          <Others profilers={data.profilers} command={command} />
        </form>
      )}
    </>
  );
}

const keep = (name: string) => (event: Event & { currentTarget: HTMLInputElement }) =>
  setParams({ [name]: event.currentTarget.value }, { replace: true });

/** The process of a form. */
export function ProcessChoice({ processes, pid }: { processes: Process[]; pid: number }) {
  const open = processes.filter((process) => process.attachable);
  const known = open.some((process) => process.pid === pid);
  const only = open.length === 1 && pid === 0 ? open[0] : undefined;
  useEffect(() => {
    if (only) setParams({ pid: only.pid }, { replace: true });
  }, [only]);
  return (
    <Field label="Process" hint={pid !== 0 && !known ? `Process ${pid} is not there` : ""}>
      <select
        value={known ? String(pid) : ""}
        required
        onChange={(event) => setParams({ pid: event.currentTarget.value }, { replace: true })}
      >
        <option value="">Choose a process</option>
        {open.map((process) => (
          <option key={process.pid} value={String(process.pid)}>
            {`${visible(process.name)} (${process.pid}, .NET ${process.runtime ?? "?"})`}
          </option>
        ))}
      </select>
    </Field>
  );
}

function Presets(props: {
  presets: Preset[];
  selection: Selection;
  choose: (selection: Selection) => void;
}) {
  const chosen = writeSelection(props.selection);
  return (
    <div class="presets" role="group" aria-label="Questions">
      {props.presets.map((preset) => (
        <button
          key={preset.id}
          type="button"
          class="plain"
          aria-pressed={chosen === preset.profilers}
          onClick={() => props.choose(parseSelection(preset.profilers))}
        >
          <b>{preset.title}</b> <span class="weak">{preset.profilers}</span>
        </button>
      ))}
    </div>
  );
}

interface ChoiceProps {
  profiler: Profiler;
  why: string | undefined;
  selection: Selection;
  choose: (selection: Selection) => void;
}

/** A profiler that can be chosen, with its parameters where it is. */
function ProfilerChoice({ profiler, why, selection, choose }: ChoiceProps) {
  const params = selection.get(profiler.id);
  const about = `about-${profiler.id}`;
  const change = (next: Record<string, string> | undefined) => {
    const all = new Map(selection);
    if (next) all.set(profiler.id, next);
    else all.delete(profiler.id);
    choose(all);
  };
  return (
    <div class={params ? "card pad profiler chosen" : "card pad profiler"}>
      <label>
        <input
          type="checkbox"
          checked={params !== undefined}
          disabled={why !== undefined && params === undefined}
          aria-describedby={about}
          onChange={(event) => change(event.currentTarget.checked ? {} : undefined)}
        />{" "}
        <b>{profiler.id}</b>
        {profiler.needs_main_slot && <span class="badge inline">main profiler slot</span>}
        {profiler.resident_agent && <span class="badge inline">resident agent</span>}
      </label>
      <div id={about}>
        <p>{profiler.summary}</p>
        {why !== undefined && <p class="why">{why}</p>}
        {profiler.overhead !== "" && <p class="hint">Overhead: {profiler.overhead}</p>}
      </div>
      <details>
        <summary>
          What it measures<span class="sr"> ({profiler.id})</span>
        </summary>
        <p>{profiler.description}</p>
        <p class="hint">{profiler.since} and newer.</p>
      </details>
      {params && profiler.params.length > 0 && (
        <div class="fields">
          {profiler.params.map((param) => (
            <Field key={param.name} label={param.name} hint={param.help}>
              <ParamInput
                param={param}
                value={params[param.name] ?? ""}
                change={(value) => change(withParam(params, param.name, value))}
              />
            </Field>
          ))}
        </div>
      )}
    </div>
  );
}

/** Parameters with another value; an empty one is the default, which is left out. */
function withParam(params: Record<string, string>, name: string, value: string) {
  const { [name]: _, ...rest } = params;
  return value === "" ? rest : { ...rest, [name]: value };
}

function ParamInput(props: {
  param: ProfilerParam;
  value: string;
  change: (value: string) => void;
  /** Id of what describes it. */
  "aria-describedby"?: string;
}) {
  const { param, value, change } = props;
  const described = { "aria-describedby": props["aria-describedby"] };
  if (param.choices) {
    return (
      <select {...described} value={value} onChange={(event) => change(event.currentTarget.value)}>
        <option value="">{`${param.default} (default)`}</option>
        {param.choices
          .filter((choice) => choice !== param.default)
          .map((choice) => (
            <option key={choice}>{choice}</option>
          ))}
      </select>
    );
  }
  const [least, most] = param.range ?? [];
  const same = {
    ...described,
    placeholder: param.default === "" ? "none" : param.default,
    value,
    onInput: (event: { currentTarget: HTMLInputElement }) => change(event.currentTarget.value),
  };
  // On the command line, colons and commas separate parameters.
  return param.range ? (
    <input type="number" min={least} max={most} {...same} />
  ) : (
    <input type="text" pattern="[^:,]*" {...same} />
  );
}

/** Profilers that no recording of this kind has, and how they are started. */
function Others({ profilers, command }: { profilers: Profiler[]; command: string }) {
  const others = profilers.filter((profiler) => !profiler.commands.includes(command));
  return (
    <details class="card pad">
      <summary>{counted(others.length, "profiler")} with commands of their own</summary>
      <dl class="facts">
        {others.map((profiler) => (
          <div key={profiler.id}>
            <dt>{profiler.id}</dt>
            <dd>
              {profiler.summary}: <code>clrscope {profiler.commands.join(", clrscope ")}</code>
            </dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
