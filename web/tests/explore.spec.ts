import { checkAccess, checkWidths, expect, expectErrors, sick, test } from "./help";

/** Records a process, and gives the name of the session. */
async function record(page: import("@playwright/test").Page): Promise<string> {
  const profilers = "cpu,wall,exceptions,gc,heap:snapshots=2:every=2";
  const body = { pid: sick, profilers, duration_seconds: 5 };
  const begun = await page.request.post("/api/v1/recordings", { data: body });
  expect(begun.ok(), await begun.text()).toBe(true);
  const { id } = (await begun.json()) as { id: string };
  await expect
    .poll(
      async () => {
        const recording = await page.request.get(`/api/v1/recordings/${id}`);
        return ((await recording.json()) as { ended: boolean }).ended;
      },
      { timeout: 40_000 },
    )
    .toBe(true);
  return id;
}

test("samples of a session are explored by pointer and by keyboard", async ({ page }) => {
  await page.goto("/sessions");
  const id = await record(page);
  await page.goto(`/sessions/${id}`);
  const canvas = page.locator(".flame canvas");
  await expect(canvas).toBeVisible();
  const crumbs = page.getByRole("navigation", { name: "Zoomed to" });
  await expect(crumbs).toContainText(/\d samples?/);
  await checkAccess(page);
  await checkWidths(page, "explore");

  // One click zooms, and the address has it.
  await canvas.click({ position: { x: 30, y: 3 + 19 * 2 + 8 } });
  await expect(page).toHaveURL(/root=\d+/);
  await expect(crumbs.locator("b")).not.toHaveText("all");
  const zoomed = await crumbs.locator("b").textContent();
  await page.reload();
  await expect(crumbs.locator("b")).toHaveText(zoomed ?? "");
  await page.goBack();
  await expect(crumbs.locator("b")).toHaveText("all");

  // The call tree by keyboard alone, which the flame graph follows.
  const tree = page.getByRole("treegrid", { name: "Calls, heaviest first" });
  const focused = tree.locator('[role="row"][tabindex="0"]');
  await focused.focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowLeft");
  await expect(focused).toHaveAttribute("aria-expanded", "false");
  await page.keyboard.press("ArrowRight");
  await expect(focused).toHaveAttribute("aria-expanded", "true");
  await page.keyboard.press("ArrowDown");
  await expect(focused).toHaveAttribute("aria-level", "2");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/root=\d+/);
  await canvas.focus();
  await page.keyboard.press("Escape");
  await expect(page).not.toHaveURL(/root=/);

  // What is searched for is marked, and its share said.
  await page.keyboard.press("/");
  await page.keyboard.type("throw");
  await expect(page.locator(".found")).toHaveText(/[\d.]+ % matched/);
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Callers", exact: true }).click();
  await expect(page.getByRole("treegrid", { name: "Callers, heaviest first" })).toBeVisible();
  await page.getByRole("button", { name: "Wall", exact: true }).click();
  await page.getByRole("button", { name: "Callees", exact: true }).click();
  await expect(page).toHaveURL(/series=wall/);

  // A part of the time, with the pointer and in numbers.
  const timeline = page.locator("canvas.sums");
  const box = (await timeline.boundingBox())!;
  await page.mouse.move(box.x + box.width * 0.5, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.8, box.y + 20, { steps: 4 });
  await page.mouse.up();
  await expect(page).toHaveURL(/from=[\d.]+.*to=[\d.]+/);
  await page.getByRole("spinbutton", { name: "From" }).first().fill("0.5");
  await page.keyboard.press("Tab");
  await expect(page).toHaveURL(/from=0\.5/);
  await page.getByRole("button", { name: "All of the time" }).click();
  await expect(page).not.toHaveURL(/from=/);

  // Methods, and who calls them.
  await page.getByRole("button", { name: "Methods", exact: true }).click();
  const methods = page.getByRole("region", { name: "Methods" });
  await expect(methods.getByRole("row").nth(1)).toContainText(/ms|%/);
  await methods.getByRole("button", { name: "Total" }).click();
  await expect(page).toHaveURL(/sort=total/);
  await methods.getByRole("button", { name: /callers and callees/ }).first().click();
  const detail = page.getByRole("region", { name: "Callers and callees" });
  await expect(detail).toContainText("Called by");
  await checkAccess(page);
  await checkWidths(page, "methods");

  // Lines of a method of the program: the address has them, and the reader brings the text.
  await page.getByRole("searchbox", { name: "Search methods" }).fill("Clinic.");
  await expect(page.locator(".found")).toHaveText(/method/);
  await methods.getByRole("button", { name: /callers and callees/ }).first().click();
  await detail.getByRole("button", { name: "Lines", exact: true }).click();
  await expect(page).toHaveURL(/detail=lines/);
  const lines = detail.getByRole("group", { name: /^Lines of .*\.cs$/ }).first();
  await expect(lines.getByRole("row").nth(1)).toContainText(/^\d+[\d.]* %/);
  const text = Array.from({ length: 5000 }, (_, index) => `text of line ${index + 1}`).join("\n");
  const source = { name: "Any.cs", mimeType: "text/plain", buffer: Buffer.from(text) };
  await detail.locator("input[type=file]").first().setInputFiles(source);
  const number = (await lines.getByRole("row").nth(1).getByRole("cell").first().textContent()) ?? "";
  await expect(lines.getByRole("row").nth(1)).toContainText(`text of line ${number}`);
  await page.reload();
  await expect(lines).toBeVisible();
  await checkAccess(page);
  await checkWidths(page, "lines");
  await page.getByRole("searchbox", { name: "Search methods" }).fill("");

  // Threads with the same stack, together.
  await page.getByRole("button", { name: "Wall", exact: true }).click();
  await page.getByRole("button", { name: "Stacks", exact: true }).click();
  await expect(page).toHaveURL(/view=stacks/);
  const merged = page.getByRole("region", { name: "Merged stacks" });
  const first = merged.locator("details").first();
  await expect(first.locator("summary")).toContainText(/^\d+ threads?, /);
  await expect(first.getByRole("listitem").first()).toBeVisible();
  await page.getByRole("searchbox", { name: "Search methods" }).fill("Clinic.");
  await expect(page.locator(".found")).toHaveText(/stack/);
  await expect(merged.getByRole("listitem").filter({ hasText: "Clinic." }).first()).toBeVisible();
  await checkAccess(page);
  await checkWidths(page, "stacks");
  await page.getByRole("searchbox", { name: "Search methods" }).fill("");

  // The heap: what retains what, by pointer and by keyboard, and paths from roots with their fields.
  await page.getByRole("button", { name: "Heap", exact: true }).click();
  await expect(page).toHaveURL(/view=heap/);
  const map = page.locator(".treemap canvas");
  await expect(map).toBeVisible();
  const objects = page.getByRole("treegrid", { name: "Objects, those that retain most first" });
  await expect(objects.getByRole("row").nth(1)).toContainText("%");
  await map.focus();
  await page.keyboard.press("ArrowRight");
  await expect(objects.getByRole("row", { selected: true })).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/object=\d+/);
  await page.keyboard.press("Escape");
  await expect(page).not.toHaveURL(/object=/);
  await page.getByRole("searchbox", { name: "Search types" }).fill("LeakedOrder");
  await page.getByRole("button", { name: /what retains them ?: .*LeakedOrder$/ }).click();
  const paths = page.getByRole("region", { name: "Retention paths" });
  await expect(paths.getByRole("img", { name: /Paths from roots/ })).toBeVisible();
  await paths.getByText("As a table").click();
  await expect(paths.getByRole("row").filter({ hasText: "_items" }).first()).toBeVisible();
  await checkAccess(page);
  await checkWidths(page, "heap");

  // Growth over both snapshots: the address has the view, the measure and the type.
  await page.getByRole("button", { name: "Heap growth", exact: true }).click();
  await expect(page).toHaveURL(/view=growth/);
  await expect(page.getByRole("img", { name: /over the heap snapshots/ })).toBeVisible();
  const grown = page.getByRole("region", { name: "Types that grew" });
  await page.getByRole("button", { name: "Objects", exact: true }).click();
  await expect(page).toHaveURL(/measure=objects/);
  await grown.getByRole("searchbox", { name: "Search types" }).fill("LeakedOrder");
  const leaked = grown.getByRole("row").filter({ hasText: "LeakedOrder" }).first();
  await expect(leaked).toContainText(/\+[\d,]+.*\/s/);
  await leaked.getByRole("button", { name: /^highlight/ }).click();
  await expect(page).toHaveURL(/grown=.*LeakedOrder/);
  const values = page.getByRole("region", { name: "Growth over time" });
  await values.getByText("As a table").click();
  await expect(values.getByRole("row")).toHaveCount(3);
  await checkAccess(page);
  await checkWidths(page, "growth");
});

test("two sessions are compared by pointer and by keyboard", async ({ page }) => {
  await page.goto("/sessions");
  const [before, after] = [await record(page), await record(page)];
  await page.goto("/compare");
  await expect(page.getByText("Choose the session to compare with")).toBeVisible();
  await page.getByRole("combobox", { name: "Before" }).selectOption(before);
  await page.getByRole("combobox", { name: "After" }).selectOption(after);
  await expect(page).toHaveURL(new RegExp(`before=${before}.*after=${after}`));
  await expect(page.getByText(`${after} compared with ${before}`)).toBeVisible();
  const canvas = page.getByRole("application", { name: /Differential flame graph/ });
  await expect(canvas).toBeVisible();
  const crumbs = page.getByRole("navigation", { name: "Zoomed to" });
  await expect(crumbs).toContainText(/% before, [\d.]+ % after/);
  await checkAccess(page);
  await checkWidths(page, "compare");

  await canvas.focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/root=\d+/);
  const tree = page.getByRole("treegrid", { name: "Calls before and after" });
  await tree.locator('[role="row"][tabindex="0"]').focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await canvas.focus();
  await page.keyboard.press("Escape");
  await expect(page).not.toHaveURL(/root=/);
  await page.getByRole("button", { name: "Methods", exact: true }).click();
  const methods = page.getByRole("region", { name: "Methods" });
  await expect(methods.getByRole("row").nth(1)).toContainText(/ms|%/);
  await methods.getByRole("button", { name: "After" }).click();
  await expect(page).toHaveURL(/sort=after/);
  await checkAccess(page);
  await checkWidths(page, "compare-methods");
  // The leak goes on between the two.
  await page.getByRole("button", { name: "Heap", exact: true }).click();
  const types = page.getByRole("region", { name: "Types on the heap" });
  await expect(types.getByRole("row").filter({ hasText: "LeakedOrder" })).toContainText("+");
  await checkAccess(page);
  await checkWidths(page, "compare-heap");
  await page.getByRole("button", { name: "Swap" }).click();
  await expect(page).toHaveURL(new RegExp(`before=${after}`));
  // What cannot be compared says so.
  expectErrors(/status of 404/);
  await page.goto(`/compare?before=${before}&after=none`);
  await expect(page.getByRole("alert")).toContainText("none");
});

test("a method that calls thousands of others can be read to the last one", async ({ page }) => {
  await page.goto("/sessions/wide");
  const tree = page.getByRole("treegrid", { name: "Calls, heaviest first" });
  const focused = tree.locator('[role="row"][tabindex="0"]');
  await focused.focus();
  await page.keyboard.press("Home");
  await expect(focused).toHaveAttribute("aria-expanded", "true");
  // The last row stands for those that were not fetched.
  await page.keyboard.press("End");
  await expect(focused).toContainText("2,800 lighter ones");
  await page.keyboard.press("Enter");
  await expect(tree).toHaveAttribute("aria-rowcount", "3002");
});
