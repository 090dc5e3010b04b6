// Methods of the process that is traced, found by name while one types.

import { useState } from "preact/hooks";
import { api } from "../data/client";
import { count, counted, visible } from "../data/format";
import { useQuery } from "../data/query";
import type { ProcessMethod, ProcessMethods } from "../data/types";
import { SearchField } from "../views/search";
import { Failure } from "./parts";

/** Shorter texts are in the names of nearly all methods. */
const SHORTEST = 2;

interface MethodsProps {
  pid: number;
  /** Patterns that are chosen already. */
  chosen: string[];
  choose: (pattern: string) => void;
}

export function MethodSearch({ pid, chosen, choose }: MethodsProps) {
  const [text, setText] = useState("");
  const isAsked = pid !== 0 && text.length >= SHORTEST;
  const query = useQuery(`methods ${pid} ${text}`, (signal) =>
    isAsked ? api.methods(pid, text, signal) : Promise.resolve(undefined),
  );
  const found = isAsked ? query.data : undefined;
  return (
    <section class="methods" aria-label="Methods of the process" aria-busy={isAsked && !found}>
      <SearchField
        label="Search the methods of the process"
        placeholder="Part of a name, such as Orders.Save"
        value={text}
        change={setText}
      />{" "}
      <span class="hint" role="status">
        {pid === 0 ? "Choose a process first." : statusOf(found, isAsked && !query.problem)}
      </span>
      {isAsked && query.problem && <Failure problem={query.problem} retry={query.reload} />}
      {found && found.methods.length > 0 && (
        <ul>
          {found.methods.map((method) => (
            <Found key={method.pattern} {...{ method, chosen, choose }} />
          ))}
        </ul>
      )}
    </section>
  );
}

function statusOf(found: ProcessMethods | undefined, isAsked: boolean): string {
  if (!found) return isAsked ? "Searching …" : "";
  const parts = [
    found.matched === 0
      ? `No method in ${counted(found.assemblies, "assembly file")} has this in its name.`
      : found.matched > found.methods.length
        ? `The first ${count(found.methods.length)} of ${counted(found.matched, "method")}.`
        : `${counted(found.matched, "method")}.`,
  ];
  if (found.unread > 0) {
    parts.push(`${counted(found.unread, "assembly file")} could not be read.`);
  }
  if (!found.complete) parts.push("The search took too long: more may match.");
  return parts.join(" ");
}

function Found({ method, chosen, choose }: Omit<MethodsProps, "pid"> & { method: ProcessMethod }) {
  const { type, name, assembly, overloads } = method;
  const button = (pattern: string, word: string, what: string) => (
    <button
      type="button"
      class="link"
      disabled={chosen.includes(pattern)}
      onClick={() => choose(pattern)}
    >
      {word}
      <span class="sr">: {visible(what)}</span>
    </button>
  );
  return (
    <li>
      <code class="name">{visible(`${type}.${name}`)}</code>{" "}
      <span class="where">
        {visible(assembly)}
        {overloads > 1 && `, ${count(overloads)} overloads`}
      </span>{" "}
      {button(method.pattern, "add", `${type}.${name}`)} ·{" "}
      {button(method.type_pattern, "add all methods of the type", `${type} for ${name}`)}
    </li>
  );
}
