// A check-up: how far it is, and at its end what is wrong with the process.

import { useEffect } from "preact/hooks";
import { api } from "../data/client";
import { counted, percent, visible } from "../data/format";
import type { Checkup, Finding, Recording } from "../data/types";
import { FigureView } from "../views/figure";
import { Charts, Running } from "./live";
import { Failure, Head, useAction, Waiting } from "./parts";
import { go, link } from "./router";
import { useWatched } from "./watched";

export function CheckupPage({ id }: { id: string }) {
  const { recording, progress, history, problem, stopped } = useWatched(id);
  const stop = useAction(async () => stopped(await api.stop(id)));
  const again = useAction(async (pid: number) => {
    go(link(["checkups", (await api.checkUp({ pid })).id]));
  });
  if (!recording) {
    if (problem?.status === 404) return <Forgotten id={id} />;
    return problem ? <Failure problem={problem} /> : <Waiting what="Reading the check-up" />;
  }
  const { process, pid, ended } = recording;
  return (
    <>
      <Head title={`Check-up of ${process}`} about={`Process ${pid}`}>
        {ended ? (
          <>
            <button class="plain" disabled={again.busy} onClick={() => again.run(pid)}>
              Check again
            </button>
            <a class="primary" href={link(["sessions", id])}>
              Open the session
            </a>
          </>
        ) : (
          <button class="plain" disabled={stop.busy} onClick={stop.run}>
            {stop.busy ? "Stopping …" : "Stop and evaluate"}
          </button>
        )}
      </Head>
      {problem && <Failure problem={problem} />}
      {stop.problem && <Failure problem={stop.problem} />}
      {again.problem && <Failure problem={again.problem} />}
      {!ended && progress && <Running recording={recording} progress={progress} />}
      {!ended && history.time.length > 0 && <Charts history={history} />}
      {recording.failure !== null && <Failed recording={recording} />}
      {recording.checkup && <Findings checkup={recording.checkup} />}
    </>
  );
}

/** The server keeps only the latest recordings in memory; sessions are kept. */
export function Forgotten({ id }: { id: string }) {
  useEffect(() => go(link(["sessions", id]), { replace: true }), [id]);
  return <Waiting what="Opening its session" />;
}

export function Failed({ recording }: { recording: Recording }) {
  return (
    <div class="banner bad" role="alert">
      <p>{visible(recording.failure ?? "")}</p>
      <p>What was recorded before is in the session.</p>
    </div>
  );
}

function Findings({ checkup }: { checkup: Checkup }) {
  const { findings, notes, target } = checkup;
  return (
    <>
      <p role="status" class="summary">
        {findings.length === 0
          ? `Nothing was found to be wrong in ${target.observed_seconds.toFixed(1)} s.`
          : `${counted(findings.length, "finding")} in ${target.observed_seconds.toFixed(1)} s,
             worst first.`}
      </p>
      <ol class="findings">
        {findings.map((finding, index) => (
          <li key={index}>
            <FindingCard finding={finding} />
          </li>
        ))}
      </ol>
      {notes.length > 0 && (
        <section class="card pad" aria-labelledby="notes">
          <h2 id="notes">Notes</h2>
          {notes.map((note, index) => (
            <p key={index}>{visible(note)}</p>
          ))}
        </section>
      )}
    </>
  );
}

function FindingCard({ finding }: { finding: Finding }) {
  return (
    <article class={`card pad finding level-${finding.severity}`}>
      <h2>
        <span class="badge">{finding.severity}</span> {visible(finding.title)}
      </h2>
      <dl class="facts">
        {finding.culprit !== null && (
          <div>
            <dt>culprit</dt>
            <dd>
              <code class="name">{visible(finding.culprit)}</code>
            </dd>
          </div>
        )}
        {finding.evidence.length > 0 && (
          <div>
            <dt>evidence</dt>
            {finding.evidence.map((line, index) => (
              <dd key={index}>{visible(line)}</dd>
            ))}
          </div>
        )}
        <div>
          <dt>next step</dt>
          <dd>
            <b>{visible(finding.next)}</b>
          </dd>
        </div>
        <div>
          <dt>finding</dt>
          <dd class="weak">
            {finding.id}, {percent(finding.confidence).replace(".0", "")} sure
          </dd>
        </div>
      </dl>
      {finding.figures.map((figure, index) => (
        <FigureView key={index} figure={figure} />
      ))}
    </article>
  );
}
