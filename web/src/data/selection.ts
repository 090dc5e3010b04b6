// Profilers with their parameters, written as on the command line: `cpu,wall:rate=50`.

import type { Profiler } from "./types";

/** Profilers that were chosen, with the parameters that are not to have their default. */
export type Selection = Map<string, Record<string, string>>;

/** Reads a selection. What is not of this form is left out. */
export function parseSelection(text: string): Selection {
  const selection: Selection = new Map();
  for (const part of text.split(",")) {
    const [id = "", ...pairs] = part.trim().split(":");
    if (id === "") continue;
    const params: Record<string, string> = {};
    for (const pair of pairs) {
      const at = pair.indexOf("=");
      if (at > 0) params[pair.slice(0, at)] = pair.slice(at + 1);
    }
    selection.set(id, params);
  }
  return selection;
}

export function writeSelection(selection: Selection): string {
  const written = [...selection].map(([id, params]) =>
    [id, ...Object.entries(params).map(([name, value]) => `${name}=${value}`)].join(":"),
  );
  return written.join(",");
}

/** The major version in `9.0.5` and in `.NET 9` or `.NET Core 3.1`. */
function major(version: string | null): number | undefined {
  const found = version?.match(/(\d+)(\.|$)/);
  return found ? Number(found[1]) : undefined;
}

/** Why a profiler cannot run by this command on this runtime; `undefined` if it can. */
export function whyNot(
  profiler: Profiler,
  runtime: string | null,
  command = "record",
): string | undefined {
  if (!profiler.commands.includes(command)) {
    return `Only with clrscope ${profiler.commands.join(" or clrscope ")}.`;
  }
  const [has, needs] = [major(runtime), major(profiler.since)];
  const old = has !== undefined && needs !== undefined && has < needs;
  return old ? `Needs ${profiler.since} or newer.` : undefined;
}
