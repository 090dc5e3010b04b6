// Two sessions compared: which ones, and what amounts are related to.

import { useMemo } from "preact/hooks";
import { api } from "../data/client";
import { clock, visible } from "../data/format";
import { useQuery } from "../data/query";
import { serverComparison } from "../data/server-comparison";
import type { Session } from "../data/types";
import { ComparisonView } from "../views/comparison";
import { Failure, Field, Head, Waiting } from "./parts";
import { link, setParams, usePlace } from "./router";

const BASES = [
  ["", "what suits them"],
  ["second", "a second"],
  ["run", "a whole run"],
  ["total", "all samples of the profiler"],
] as const;

/** What is kept about the two: with others it means nothing. */
const OF_TWO = { root: "", of: "", view: "", search: "", sort: "", types: "" };

export function ComparePage() {
  const { params } = usePlace();
  const [before, after, per] = ["before", "after", "per"].map((name) => params.get(name) ?? "");
  const { data, problem, reload } = useQuery("sessions", (signal) => api.sessions(signal));
  const source = useMemo(
    () => serverComparison({ before: before!, after: after!, per: per! }),
    [before, after, per],
  );
  const choose = (values: Record<string, string>) => setParams({ ...OF_TWO, ...values });
  const finished = data?.filter((session) => !session.recording) ?? [];
  const chosen = before !== "" && after !== "";
  return (
    <>
      <Head title="Compare" about="What differs between two sessions, and how certain that is." />
      {problem && !problem.isLockedOut && <Failure problem={problem} retry={reload} />}
      {!data && !problem && <Waiting what="Reading the list of sessions" />}
      {data && finished.length < 2 && !chosen ? (
        <div class="card empty">
          <p>A comparison needs two sessions. Record a process twice, in the same way.</p>
          <a class="primary" href={link(["processes"])}>
            Processes
          </a>
        </div>
      ) : (
        data && (
          <div class="card pad fields">
            <Choice
              label="Before"
              chosen={before!}
              sessions={finished}
              choose={(id) => choose({ before: id })}
            />
            <Choice
              label="After"
              chosen={after!}
              sessions={finished}
              choose={(id) => choose({ after: id })}
            />
            <Field label="Amounts are related to">
              <select
                value={per!}
                onChange={(event) => setParams({ per: event.currentTarget.value })}
              >
                {BASES.map(([id, title]) => (
                  <option key={id} value={id}>
                    {title}
                  </option>
                ))}
              </select>
            </Field>
            <span class="tools">
              <button
                class="plain"
                disabled={!chosen}
                onClick={() => choose({ before: after!, after: before! })}
              >
                Swap
              </button>
            </span>
          </div>
        )
      )}
      {data && finished.length >= 2 && !chosen && (
        <p class="hint">Choose the session to compare with, and the one that is compared.</p>
      )}
      {chosen && <ComparisonView key={source.id} source={source} />}
    </>
  );
}

function Choice(props: {
  label: string;
  chosen: string;
  sessions: Session[];
  choose: (id: string) => void;
}) {
  const { label, chosen, sessions, choose } = props;
  const known = chosen === "" || sessions.some(({ id }) => id === chosen);
  return (
    <Field label={label}>
      <select value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
        <option value="">Choose a session</option>
        {!known && <option value={chosen}>{visible(chosen)}</option>}
        {sessions.map(({ id, target, recorded_unix_ms: when }) => (
          <option key={id} value={id}>
            {visible(`${target?.process ?? id} · ${clock(when)} · ${id}`)}
          </option>
        ))}
      </select>
    </Field>
  );
}
