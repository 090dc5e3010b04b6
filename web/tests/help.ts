// What all tests of the pages use.

import { expect, test as base, type Page } from "@playwright/test";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: run crates/cli/tests/pages.rs`);
  return value;
}

/** The address that the server printed, with a token that can be used once. */
const url = setting("CLRSCOPE_URL");

/** The process that throws exceptions, and one whose methods are called all the time. */
export const sick = Number(setting("CLRSCOPE_SICK"));
export const traced = Number(setting("CLRSCOPE_TRACED"));

/** Processes of the oldest runtime, and in a single-file application. */
export const old = Number(setting("CLRSCOPE_OLD"));
export const bundled = Number(setting("CLRSCOPE_BUNDLED"));

/** The command line of a program that can be started. */
export const program = setting("CLRSCOPE_PROGRAM");

/** A folder for files of this run. */
export const folder = setting("CLRSCOPE_FOLDER");

const state = join(folder, "state.json");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Errors that a test expects: those of requests that it makes fail. */
const expected: RegExp[] = [];

export function expectErrors(error: RegExp): void {
  expected.push(error);
}

/** A page that was let in. A test fails if the page has errors, or breaks its own policy. */
export const test = base.extend<{ page: Page }>({
  page: async ({ browser }, use) => {
    expected.length = 0;
    const known = existsSync(state);
    const context = await browser.newContext({
      baseURL: new URL(url).origin,
      viewport: { width: 1280, height: 860 },
      // Colors are looked at when they have changed, not while they change.
      reducedMotion: "reduce",
      ...(known ? { storageState: state } : {}),
    });
    const page = await context.newPage();
    const errors: string[] = [];
    page.on("pageerror", (error) => errors.push(String(error)));
    page.on("console", (message) => {
      if (message.type() === "error") errors.push(`${message.text()} ${message.location().url}`);
    });
    if (!known) {
      await page.goto(url);
      mkdirSync(dirname(state), { recursive: true });
      await context.storageState({ path: state });
    }
    await use(page);
    await context.close();
    const all = errors.filter((error) => !expected.some((known) => known.test(error)));
    expect(all).toEqual([]);
  },
});

/** Checks a page as people with impaired sight, or without a mouse, need it. */
export async function checkAccess(page: Page): Promise<void> {
  for (const theme of ["light", "dark"]) {
    await page.getByRole("combobox", { name: "Colors" }).selectOption(theme);
    await page.evaluate(axe);
    const violations = await page.evaluate(async () => {
      const { axe } = window as unknown as { axe: { run(): Promise<AxeResult> } };
      const { violations } = await axe.run();
      return violations
        .filter(({ impact }) => impact === "serious" || impact === "critical")
        .map(({ id, help, nodes }) => ({ id, help, nodes: nodes.map((node) => node.html) }));
    });
    expect(violations, theme).toEqual([]);
  }
  await page.getByRole("combobox", { name: "Colors" }).selectOption("system");
}

interface AxeResult {
  violations: { id: string; help: string; impact: string; nodes: { html: string }[] }[];
}

/** Checks that nothing is wider than the page at several widths, and takes pictures. */
export async function checkWidths(page: Page, name: string): Promise<void> {
  for (const [width, theme] of [[320, "dark"], [768, "light"], [3840, "light"], [1280, "dark"],
    [1280, "light"]] as const) {
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width, height: width === 3840 ? 1600 : 860 });
    await page.waitForTimeout(120);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    expect(wide, `${name} at ${width}`).toBeLessThanOrEqual(width);
    await page.screenshot({ path: join(folder, "pictures", `${name}-${width}-${theme}.png`) });
  }
}

export { expect };
