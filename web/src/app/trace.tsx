// The form of a trace: which methods of a running process are instrumented, and until when.

import { api } from "../data/client";
import { useQuery } from "../data/query";
import { MethodSearch } from "./methods";
import { Failure, Field, Head, useAction, Waiting } from "./parts";
import { ProcessChoice } from "./record";
import { go, link, setParams, usePlace } from "./router";

/** Fields of the form that are in the address. */
const FIELDS = ["patterns", "exclude", "seconds", "calls", "one_in"] as const;
const FLAGS = ["count", "arguments"] as const;

/** The lines of a text that say something. */
function lines(text: string): string[] {
  return text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
}

export function TracePage() {
  const { params } = usePlace();
  const { data, problem, reload } = useQuery("processes of traces", (signal) =>
    api.processes(signal),
  );
  const pid = Number(params.get("pid") ?? "0");
  const field = (name: (typeof FIELDS)[number]) => params.get(name) ?? "";
  const flag = (name: (typeof FLAGS)[number]) => params.get(name) === "1";
  const start = useAction(async (dry: boolean) => {
    const whole = (name: (typeof FIELDS)[number]) =>
      field(name) === "" ? {} : { [name]: Number(field(name)) };
    const recording = await api.trace({
      pid,
      patterns: lines(field("patterns")),
      exclude: lines(field("exclude")),
      count: flag("count"),
      arguments: flag("arguments"),
      dry_run: dry,
      ...whole("calls"),
      ...whole("one_in"),
      ...(field("seconds") === "" ? {} : { duration_seconds: Number(field("seconds")) }),
    });
    // Calls are in what was recorded so far.
    go(link(["recordings", recording.id], { follow: 1 }));
  });
  const keep = (name: string) => (event: Event) => {
    const { value } = event.currentTarget as HTMLInputElement | HTMLTextAreaElement;
    setParams({ [name]: value }, { replace: true });
  };
  const ready = !start.busy && pid !== 0 && lines(field("patterns")).length > 0;
  return (
    <>
      <Head
        title="Trace"
        about="Counts and times the calls of methods that you choose, while the program runs."
      />
      {problem && !problem.isLockedOut && <Failure problem={problem} retry={reload} />}
      {!data && !problem && <Waiting what="Looking for .NET processes" />}
      {data && (
        <form
          class="card pad trace"
          onSubmit={(event) => {
            event.preventDefault();
            start.run(false);
          }}
        >
          <div class="fields">
            <ProcessChoice processes={data} pid={pid} />
          </div>
          <MethodSearch
            key={pid}
            pid={pid}
            chosen={lines(field("patterns"))}
            choose={(pattern) => {
              const patterns = [...lines(field("patterns")), pattern].join("\n");
              setParams({ patterns }, { replace: true });
            }}
          />
          <div class="fields">
            <Field label="Methods" hint="One pattern a line, such as MyApp.Orders.**.Save*">
              <textarea
                rows={3}
                spellcheck={false}
                required
                value={field("patterns")}
                onInput={keep("patterns")}
              />
            </Field>
            <Field label="But not" hint="Patterns of methods that are left out">
              <textarea
                rows={3}
                spellcheck={false}
                value={field("exclude")}
                onInput={keep("exclude")}
              />
            </Field>
          </div>
          <div class="fields">
            <Field label="Seconds" hint="Until it is stopped if empty">
              <input
                type="number"
                min="0.1"
                step="any"
                value={field("seconds")}
                onInput={keep("seconds")}
              />
            </Field>
            <Field label="Calls" hint="After this number of calls, the methods are reverted">
              <input type="number" min="1" value={field("calls")} onInput={keep("calls")} />
            </Field>
            <Field label="Time 1 in N calls" hint="All are counted">
              <input
                type="number"
                min="1"
                placeholder="1"
                value={field("one_in")}
                onInput={keep("one_in")}
              />
            </Field>
          </div>
          <p>
            <Flag name="count" on={flag("count")} label="Only count calls, which costs least" />
          </p>
          <p>
            <Flag
              name="arguments"
              on={flag("arguments")}
              label="Keep the arguments of the slowest calls; never those of parameters whose names
                look secret"
            />
          </p>
          <p class="banner">
            A trace adds code to the methods that match, and reverts them at its end. The agent then
            remains in the process, idle, until the process ends.
          </p>
          {start.problem && <Failure problem={start.problem} />}
          <p class="tools">
            <button class="primary" type="submit" disabled={!ready}>
              {start.busy ? "Attaching …" : "Start the trace"}
            </button>
            <button
              class="plain"
              type="button"
              disabled={!ready}
              onClick={() => start.run(true)}
            >
              Only find which methods match
            </button>
          </p>
        </form>
      )}
    </>
  );
}

function Flag({ name, on, label }: { name: string; on: boolean; label: string }) {
  return (
    <label>
      <input
        type="checkbox"
        checked={on}
        onChange={(event) =>
          setParams({ [name]: event.currentTarget.checked ? "1" : "" }, { replace: true })
        }
      />{" "}
      {label}
    </label>
  );
}
