import { join } from "node:path";
import type { Locator, Page } from "@playwright/test";
import {
  checkAccess,
  checkWidths,
  expect,
  expectErrors,
  folder,
  program,
  sick,
  test,
  traced,
} from "./help";

/** While a recording runs, a part of the time can be chosen: the latest seconds, or in a chart. */
async function checkTimes(page: Page, stacks: Locator) {
  const times = stacks.getByRole("group", { name: "Time that is shown" });
  const crumbs = stacks.getByRole("navigation", { name: "Zoomed to" });
  const pressed = times.locator('[aria-pressed="true"]');
  await expect(pressed).toHaveText("All so far");
  // By keyboard, and the view stays zoomed to the same call.
  const graph = stacks.locator(".flame canvas");
  await graph.click({ position: { x: 30, y: 3 + 19 * 2 + 8 } });
  await expect(page).toHaveURL(/root=\d+/);
  await expect(crumbs.locator("b")).not.toHaveText("all");
  const zoomed = (await crumbs.locator("b").textContent()) ?? "";
  const asked = page.waitForResponse(/\/flame\?.*last=10/);
  await times.getByRole("button", { name: "Last 10 s" }).focus();
  await page.keyboard.press("Enter");
  expect((await asked).status()).toBe(200);
  await expect(page).toHaveURL(/last=10/);
  await expect(page).toHaveURL(/root=\d+/);
  await expect(pressed).toHaveText("Last 10 s");
  await expect(crumbs.locator("b")).toHaveText(zoomed);
  // It goes on with the recording.
  const before = (await crumbs.textContent()) ?? "";
  await expect(crumbs).not.toHaveText(before);
  await checkAccess(page);
  // The pointer chooses a part in a chart, and the fields have it.
  const chart = page.getByRole("figure").filter({ hasText: "CPU" }).locator(".u-over");
  await chart.scrollIntoViewIfNeeded();
  const area = (await chart.boundingBox())!;
  await page.mouse.move(area.x + area.width * 0.2, area.y + 40);
  await page.mouse.down();
  await page.mouse.move(area.x + area.width * 0.8, area.y + 40, { steps: 5 });
  await page.mouse.up();
  await expect(page).toHaveURL(/from=[\d.]+&to=[\d.]+/);
  await expect(page).not.toHaveURL(/last=/);
  const fields = stacks.getByRole("group", { name: "Part of the time, in seconds" });
  await expect(fields.getByLabel("From")).not.toHaveValue("");
  await expect(pressed).toHaveCount(0);
  await checkWidths(page, "recording-part");
  // What is typed stays while the page is drawn anew.
  await fields.getByLabel("From").fill("");
  await fields.getByLabel("From").pressSequentially("1.5", { delay: 200 });
  await page.keyboard.press("Tab");
  await expect(page).toHaveURL(/from=1\.5&/);
  await times.getByRole("button", { name: "All so far" }).click();
  await expect(page).not.toHaveURL(/from=|to=|last=/);
  await graph.focus();
  await page.keyboard.press("Escape");
  await expect(page).not.toHaveURL(/root=/);
}

/** While a recording runs, methods have callers and callees, which are counted on. */
async function checkMethods(page: Page, stacks: Locator) {
  await stacks.getByRole("button", { name: "Methods", exact: true }).click();
  await expect(page).toHaveURL(/view=functions/);
  const methods = stacks.getByRole("region", { name: "Methods" });
  const neighbors = methods.getByRole("button", { name: /callers and callees/ }).first();
  await neighbors.focus();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/of=\d+/);
  const callers = stacks.getByRole("region", { name: "Callers and callees" });
  await expect(callers.getByRole("columnheader", { name: "Called by" })).toBeVisible();
  const name = (await callers.getByRole("heading").textContent()) ?? "";
  await checkAccess(page);
  await checkWidths(page, "recording-callers");
  // More samples come; the method and the focus stay.
  await neighbors.focus();
  const total = methods.locator("table");
  const before = (await total.textContent()) ?? "";
  await expect(total).not.toHaveText(before);
  await expect(callers.getByRole("heading")).toHaveText(name);
  await expect(methods.locator("button:focus")).toHaveCount(1);
  // The address has all of it.
  await page.reload();
  await expect(callers.getByRole("heading")).toHaveText(name);
  await callers.getByRole("button", { name: "Close" }).click();
  await stacks.getByRole("button", { name: "Stacks", exact: true }).click();
  await expect(stacks.getByRole("region", { name: "Merged stacks" })).toContainText("thread");
  await stacks.getByRole("button", { name: "Flame graph", exact: true }).click();
  await expect(stacks.locator(".flame canvas")).toBeVisible();
}

test("a process is found, checked, and what is wrong with it is shown", async ({ page }) => {
  await page.goto("/");
  await expect(page.getByRole("heading", { level: 1, name: "Processes" })).toBeVisible();
  const row = page.getByRole("row").filter({ hasText: String(sick) });
  await expect(row).toContainText("clinic");
  await expect(row).toContainText(".NET 9");
  await expect(row).toContainText(/[\d.]+ %/);
  await expect(row).toContainText(/[\d.]+ MB/);
  // Workstation GC: threads of the program collect, and at most one of the runtime's own.
  await expect(page.getByRole("columnheader", { name: /GC threads/ }).first()).toBeVisible();
  await expect(row).toContainText(/not visible from outside|% ?[\d.]+ %/);
  await checkAccess(page);
  await checkWidths(page, "processes");

  await page.getByRole("searchbox").fill("no such process");
  await expect(page.getByText("No process has this")).toBeVisible();
  await page.getByRole("searchbox").fill("clinic");
  await expect(page).toHaveURL(/q=clinic/);
  await page.getByRole("button", { name: `Check-up of clinic, process ${sick}` }).click();
  await expect(page).toHaveURL(/\/checkups\//);
  await expect(page.getByRole("progressbar", { name: "How far it is" })).toBeVisible();
  await checkWidths(page, "checkup-running");
  const finding = page.getByRole("article").filter({ hasText: "exception-storm" });
  await expect(finding).toBeVisible({ timeout: 90_000 });
  await expect(finding).toContainText("culprit");
  await expect(finding).toContainText("next step");
  // Evidence is drawn, and said in words beside it.
  const ring = page.getByRole("article").filter({ hasText: /deadlock, \d+ % sure/ });
  await expect(ring.getByRole("img", { name: /who waits for whom/ })).toBeVisible();
  await ring.getByText("As a table").click();
  await expect(ring.getByRole("row").filter({ hasText: "held by" }).first()).toBeVisible();
  await checkAccess(page);
  await checkWidths(page, "checkup");

  await page.getByRole("link", { name: "Open the session" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "clinic" })).toBeVisible();
});

test("a process is recorded, watched, stopped, kept, downloaded and added again", async ({
  page,
}) => {
  // A tree that another choice has just replaced may still be asked about.
  expectErrors(/status of 404.*\/children\?/);
  // On a busy machine, nothing may be in the file yet.
  expectErrors(/status of 422.*\/explore/);
  await page.goto(`/record?pid=${sick}`);
  await expect(page.getByRole("heading", { name: "Record clinic" })).toBeVisible();
  await checkAccess(page);
  await checkWidths(page, "record");
  await page.getByRole("button", { name: /What fails/ }).click();
  await expect(page).toHaveURL(/p=exceptions/);
  await page.getByRole("checkbox", { name: "cpu", exact: true }).check();
  await page.getByRole("checkbox", { name: "wall", exact: true }).check();
  await page.getByLabel("samples", { exact: true }).fill("100");
  await expect(page).toHaveURL(/p=exceptions%3Asamples%3D100%2Ccpu%2Cwall/);
  // The address is the state of the form.
  await page.reload();
  await expect(page.getByLabel("samples", { exact: true })).toHaveValue("100");
  await page.getByRole("checkbox", { name: "allocations", exact: true }).check();
  await page.getByRole("button", { name: "Start recording" }).click();

  await expect(page).toHaveURL(/\/recordings\//);
  const thrown = page.getByRole("region", { name: "Exceptions" });
  await expect(thrown).toContainText("Exception");
  for (const title of ["CPU", "Exceptions", "Allocated"]) {
    const chart = page.getByRole("figure").filter({ hasText: title });
    await expect(chart.locator("canvas")).toBeVisible();
  }
  await expect(page.getByText(/[1-9][\d,]* samples and events/)).toBeVisible();
  // The flame graph of all samples so far: zoom and focus stay while more come.
  const stacks = page.getByRole("region", { name: "Stacks so far" });
  const graph = stacks.locator(".flame canvas");
  await expect(graph).toBeVisible({ timeout: 20_000 });
  const calls = stacks.getByRole("treegrid", { name: "Calls, heaviest first" });
  await expect(calls.getByRole("row").nth(1)).toContainText("%");
  await graph.click({ position: { x: 30, y: 3 + 19 * 2 + 8 } });
  await expect(page).toHaveURL(/root=\d+/);
  const crumbs = stacks.getByRole("navigation", { name: "Zoomed to" });
  await expect(crumbs.locator("b")).not.toHaveText("all");
  const zoomed = (await crumbs.locator("b").textContent()) ?? "";
  const focused = calls.locator('[role="row"][tabindex="0"]');
  await focused.focus();
  await page.keyboard.press("Home");
  const row = ((await focused.textContent()) ?? "").split(/\d/)[0] ?? "";
  const before = (await crumbs.textContent()) ?? "";
  await expect(crumbs).not.toHaveText(before, { timeout: 20_000 });
  await expect(crumbs.locator("b")).toHaveText(zoomed);
  await expect(calls.locator('[role="row"]:focus')).toContainText(row);
  const painted = await graph.evaluate((element) => {
    const canvas = element as HTMLCanvasElement;
    const { data } = canvas.getContext("2d")!.getImageData(40, 10, 8, 8);
    return data.some((value) => value > 0);
  });
  expect(painted).toBe(true);
  await graph.focus();
  await page.keyboard.press("Escape");
  await expect(page).not.toHaveURL(/root=/);
  await checkTimes(page, stacks);
  await checkMethods(page, stacks);
  await page.getByRole("button", { name: "Show what was recorded so far" }).click();
  await expect(page.locator("#s2-title")).toBeVisible();
  await checkAccess(page);
  await checkWidths(page, "recording");
  await page.goto("/");
  await expect(page.getByRole("link", { name: "Being recorded" })).toBeVisible();
  await page.getByRole("link", { name: "Being recorded" }).click();
  await page.getByRole("button", { name: "Stop" }).click();

  await expect(page).toHaveURL(/\/sessions\//);
  await expect(page.getByRole("heading", { name: /exceptions/i }).first()).toBeVisible();
  await checkAccess(page);
  await checkWidths(page, "session");
  const name = decodeURIComponent(new URL(page.url()).pathname.split("/").at(-1) ?? "");
  await page.getByRole("button", { name: "Download" }).click();
  const formats = page.getByRole("dialog");
  await expect(formats.getByRole("link", { name: "pprof" })).toBeVisible();
  await checkAccess(page);
  const coming = page.waitForEvent("download");
  await formats.getByRole("link", { name: "Session file" }).click();
  const download = await coming;
  expect(download.suggestedFilename()).toBe(`${name}.clrscope`);
  const file = join(folder, `${name}.clrscope`);
  await download.saveAs(file);
  await formats.getByRole("button", { name: "Close" }).click();

  await page.getByRole("button", { name: "Name and note" }).click();
  await page.getByLabel("Name", { exact: true }).fill("before-the-fix");
  await page.getByLabel("Note", { exact: true }).fill("two\nlines");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page).toHaveURL(/\/sessions\/before-the-fix$/);
  await expect(page.locator(".remark")).toHaveText("two\nlines");

  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Sessions" })).toBeVisible();
  await expect(page.getByText("before-the-fix")).toHaveCount(0);
  await page.locator("input[type=file]").setInputFiles(file);
  await page.getByRole("link", { name: "open it" }).click();
  await expect(page.getByRole("heading", { name: /exceptions/i }).first()).toBeVisible();
});

test("files are dropped, and those that are no sessions are refused", async ({ page }) => {
  await page.goto("/sessions");
  await expect(page.getByRole("table", { name: "Sessions" })).toBeVisible();
  await checkAccess(page);
  await checkWidths(page, "sessions");
  expectErrors(/status of 422/);
  const data = await page.evaluateHandle(() => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(["nonsense"], "<b>no session</b>.clrscope"));
    transfer.items.add(new File(["main;work 3\nmain;rest 1\n"], "of another tool.folded"));
    return transfer;
  });
  await page.dispatchEvent(".drop", "drop", { dataTransfer: data });
  await expect(page.getByRole("alert")).toBeVisible();
  await expect(page.getByText("<b>no session</b>.clrscope")).toBeVisible();
  await page.getByRole("link", { name: "open it" }).click();
  await expect(page).toHaveURL(/\/sessions\/of_another_tool$/);
  await expect(page.getByRole("cell", { name: "work" }).first()).toBeVisible();
  await expect(page.getByText(/no times, no threads/).first()).toBeVisible();
  await checkAccess(page);
});

test("a program is started, watched, and ended with its recording", async ({ page }) => {
  expectErrors(/status of 422.*\/explore/);
  await page.goto("/");
  await page.getByRole("link", { name: "start a program" }).click();
  await expect(page).toHaveURL(/what=program/);
  const start = page.getByRole("button", { name: "Start recording" });
  await expect(start).toBeDisabled();
  await page.getByLabel("Command", { exact: true }).fill(program);
  await page.getByLabel("Environment variables").fill("DOTNET_gcServer=1\nSHOP_SECRET=hidden");
  await expect(page).not.toHaveURL(/hidden/);
  await checkAccess(page);
  await checkWidths(page, "launch");
  await start.click();
  await expect(page).toHaveURL(/\/recordings\//);
  const output = page.getByRole("region", { name: "Output of the program" });
  await expect(output).toContainText("ready", { timeout: 60_000 });
  await checkAccess(page);
  await checkWidths(page, "launch-running");
  await page.getByRole("button", { name: "Stop" }).click();
  await expect(page).toHaveURL(/\/sessions\//);
  await expect(page.getByRole("heading", { level: 1, name: "burn" })).toBeVisible();
});

test("a tree is operated by keyboard alone", async ({ page }) => {
  // A document with a tree, as the server would send it, of a session that is there.
  await page.goto("/sessions");
  const link = page.getByRole("table").getByRole("link").first();
  const address = (await link.getAttribute("href")) ?? "";
  const node = (depth: number, name: string) => ({
    depth,
    cells: [
      { name: { forms: [name], place: null } },
      { quantity: { value: depth + 1, margin: null, unit: "count" } },
    ],
  });
  const nodes = [node(0, "Main"), node(1, "Load"), node(2, "Read"), node(2, "Parse")];
  nodes.push(node(1, "<img src=x onerror=alert(1)>"));
  for (let index = 0; index < 5000; index += 1) nodes.push(node(0, `Root${index}`));
  const tree = { tree: { branches: true, nodes, more: 0 } };
  const hot = (depth: number, name: string, weight: number) => ({
    depth,
    forms: [name],
    place: null,
    kind: depth,
    weight,
  });
  const weights = {
    unit: "nanoseconds",
    noun: "method",
    nodes: [hot(0, "Root", 5e9), hot(1, "Hot", 4e9), hot(1, "Cold", 1e9)],
  };
  const figure = { figure: { caption: "where the time is", drawing: { weights } } };
  const sections = [{ title: "Calls", badge: null, lead: [], blocks: [tree, figure] }];
  await page.route("**/document*", (route) => route.fulfill({ json: { sections } }));
  await page.goto(address);
  const grid = page.getByRole("treegrid", { name: "Calls", exact: true });
  await expect(grid).toHaveAttribute("aria-rowcount", "5006");
  // A small flame graph is zoomed by keyboard, and its tree follows.
  await page.getByRole("region", { name: "Calls" }).getByText("As a tree").click();
  const small = page.getByRole("application", { name: /where the time is/ });
  await small.focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  const twin = page.getByRole("treegrid", { name: "where the time is, as a tree" });
  await expect(twin.getByRole("row", { selected: true })).toContainText("Hot");
  await expect(twin.getByRole("row", { selected: true })).toContainText("80.0 %");
  await checkAccess(page);
  const focused = grid.locator('[role="row"]:focus');
  // The tab key enters the tree once, from what is before it: another tree, too.
  for (let tabs = 0; tabs < 120 && (await focused.count()) === 0; tabs += 1) {
    await page.keyboard.press("Tab");
  }
  await expect(focused).toContainText("Main");
  const press = async (key: string, row: string) => {
    await page.keyboard.press(key);
    await expect(focused).toContainText(row);
  };
  await press("ArrowDown", "Load");
  await press("ArrowRight", "Read");
  await expect(focused).toHaveAttribute("aria-level", "3");
  await press("ArrowDown", "Parse");
  await press("ArrowLeft", "Load");
  await press("ArrowLeft", "Load");
  await expect(focused).toHaveAttribute("aria-expanded", "false");
  await press("ArrowDown", "<img src=x onerror=alert(1)>");
  await press("ArrowUp", "Load");
  await press("*", "Load");
  await expect(focused).toHaveAttribute("aria-expanded", "true");
  await press("End", "Root4999");
  await expect(focused).toBeInViewport();
  await press("PageUp", "Root49");
  await press("Home", "Main");
  await press("Enter", "Main");
  await expect(focused).toHaveAttribute("aria-expanded", "false");
  await press("ArrowDown", "Root0");
  // The tab key leaves it again, at once.
  await page.keyboard.press("Tab");
  await expect(focused).toHaveCount(0);
});

test("methods are traced, and reverted", async ({ page }) => {
  await page.goto(`/trace?pid=${traced}`);
  await checkAccess(page);
  // Methods are found by name while one types.
  const patterns = page.getByLabel("Methods", { exact: true });
  const found = page.getByRole("region", { name: "Methods of the process" });
  const search = found.getByRole("searchbox", { name: "Search the methods of the process" });
  await search.fill("no.such.method");
  await expect(found.getByRole("status")).toContainText(/No method in [1-9]\d* assembly files/);
  await search.fill("traced! Traced.Plain");
  const add = found.getByRole("button", { name: /^add ?: .*\.Traced\.Plain$/ });
  await expect(add).toBeVisible();
  await checkAccess(page);
  await checkWidths(page, "trace-search");
  await add.focus();
  await page.keyboard.press("Enter");
  await expect(patterns).toHaveValue(/^traced![\w.]+\.Traced\.Plain$/);
  await expect(add).toBeDisabled();
  await checkWidths(page, "trace");
  await page.getByRole("button", { name: "Start the trace" }).click();
  await expect(page).toHaveURL(/\/recordings\//);
  // What was recorded so far is followed: the number of calls grows. At first there is nothing.
  expectErrors(/status of 422/);
  await expect(page.getByRole("checkbox", { name: "Follow it" })).toBeChecked();
  const row = page.getByRole("row").filter({ hasText: "Traced.Plain" }).first();
  await expect(row).toBeVisible();
  const before = await row.textContent();
  await expect(row).not.toHaveText(before ?? "");
  await checkWidths(page, "trace-running");
  await page.getByRole("button", { name: "Stop" }).click();
  await expect(page).toHaveURL(/\/sessions\//);
  await expect(page.getByRole("cell", { name: /Traced\.Plain/ }).first()).toBeVisible();
});

test("a browser that is not let in any more shows what to do", async ({ page }) => {
  await page.goto("/sessions");
  await expect(page.getByRole("table", { name: "Sessions" })).toBeVisible();
  expectErrors(/status of 401/);
  await page.context().clearCookies();
  await page.getByRole("link", { name: "Processes" }).click();
  await expect(page.getByRole("heading", { name: /not let in/ })).toBeVisible();
  await checkAccess(page);
  const response = await page.goto("/sessions");
  expect(response?.status()).toBe(401);
  await expect(page.getByText("clrscope ui")).toBeVisible();
});

test("an address that is none says so", async ({ page }) => {
  expectErrors(/status of 404/);
  await page.goto("/sessions/no-such-session");
  await expect(page.getByRole("alert").first()).toContainText("no-such-session");
  await checkAccess(page);
  await page.goto("/recordings/no-such-recording");
  await expect(page.getByRole("alert").first()).toContainText("no-such-recording");
});
