// A program that is started to be recorded: its fields in the form, and what it prints.

import { useState } from "preact/hooks";
import { api } from "../data/client";
import { bytes, visibleLines } from "../data/format";
import { useQuery } from "../data/query";
import type { NewLaunch } from "../data/types";
import { Failure, Field } from "./parts";
import { link, setParams, usePlace } from "./router";

/** What a form says of a program. */
export interface Launch {
  /** Whether the form is for a program rather than for a process. */
  chosen: boolean;
  command: string;
  folder: string;
  /** A variable in each line. Not in the address: variables can be secrets. */
  environment: string;
  setEnvironment: (text: string) => void;
}

export function useLaunch(): Launch {
  const { params } = usePlace();
  const [environment, setEnvironment] = useState("");
  return {
    chosen: params.get("what") === "program",
    command: params.get("command") ?? "",
    folder: params.get("folder") ?? "",
    environment,
    setEnvironment,
  };
}

/** The program as it is sent. */
export function launchOf({ command, folder, environment }: Launch): NewLaunch {
  const variables: Record<string, string> = {};
  for (const line of environment.split("\n")) {
    const at = line.indexOf("=");
    // What is no variable is refused by the server, with its name.
    if (line.trim() !== "") variables[at < 0 ? line : line.slice(0, at)] = line.slice(at + 1);
  }
  return { command, ...(folder === "" ? {} : { folder }), environment: variables };
}

const keep = (name: string) => (event: Event & { currentTarget: HTMLInputElement }) =>
  setParams({ [name]: event.currentTarget.value }, { replace: true });

/** The fields of a program, if the server may start some. */
export function LaunchFields({ launch, allowed }: { launch: Launch; allowed: boolean }) {
  if (!allowed) {
    return (
      <p class="banner">
        This server does not start programs. Start it with <code>--allow-launch</code>, if everybody
        whom it lets in may run programs as its user, or run{" "}
        <code>clrscope launch -- COMMAND</code> yourself.
      </p>
    );
  }
  return (
    <>
      <Field label="Command" hint="With its arguments, quoted as in a shell; there is no shell">
        <input
          type="text"
          required
          spellcheck={false}
          placeholder="dotnet Shop.dll --urls http://127.0.0.1:5000"
          value={launch.command}
          onInput={keep("command")}
        />
      </Field>
      <Field label="Folder" hint="Whole path; that of the server if empty">
        <input
          type="text"
          spellcheck={false}
          value={launch.folder}
          onInput={keep("folder")}
        />
      </Field>
      <Field label="Environment variables" hint="NAME=value, one in each line">
        <textarea
          rows={2}
          spellcheck={false}
          value={launch.environment}
          onInput={(event) => launch.setEnvironment(event.currentTarget.value)}
        />
      </Field>
    </>
  );
}

/** The way to the other kind of form. */
export function LaunchSwitch({ chosen }: { chosen: boolean }) {
  return (
    <a class="plain" href={chosen ? link(["record"]) : link(["record"], { what: "program" })}>
      {chosen ? "Record a process that runs" : "Start a program instead"}
    </a>
  );
}

/** Milliseconds after which the output is read again while the program runs. */
const EVERY = 1000;

/** What the program of a recording has printed. */
export function ProgramOutput({ id, ended }: { id: string; ended: boolean }) {
  const { data, problem } = useQuery(
    `output ${id} ${ended}`,
    (signal) => api.output(id, signal),
    ended ? undefined : EVERY,
  );
  return (
    <section aria-labelledby="output-title">
      <h2 id="output-title">Output of the program</h2>
      {problem && !problem.isLockedOut && <Failure problem={problem} />}
      {data && data.left_out > 0 && (
        <p class="hint">{bytes(data.left_out)} before this are left out.</p>
      )}
      {data && (
        <pre class="card pad code output" tabIndex={0} aria-labelledby="output-title">
          {data.text === "" ? "It has printed nothing." : visibleLines(data.text)}
        </pre>
      )}
    </section>
  );
}
