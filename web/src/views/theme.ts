// Dark and light: what the reader chose, else what the system says.

export type Choice = "system" | "light" | "dark";

const KEY = "clrscope-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

/** What the reader chose. */
export function chosen(): Choice {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === "light" || kept === "dark" ? kept : "system";
  } catch {
    // Pages without an origin, such as reports that the server sends, keep nothing.
    return "system";
  }
}

function apply(choice: Choice): void {
  const dark = choice === "dark" || (choice === "system" && system.matches);
  document.documentElement.dataset["theme"] = dark ? "dark" : "light";
  for (const listener of listeners) listener();
}

let current = chosen();

/** Chooses, and keeps the choice. */
export function choose(choice: Choice): void {
  current = choice;
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // It holds for this page.
  }
  apply(choice);
}

/** Begins to follow choice and system. */
export function followTheme(): void {
  system.addEventListener("change", () => apply(current));
  apply(current);
}

/** Calls a function after each change: canvases are drawn again. */
export function onTheme(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The value of a color of style.css, such as `--accent`, for canvases. */
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
