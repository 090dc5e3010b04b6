import { join } from "node:path";
import { writeFileSync } from "node:fs";
import type { Page } from "@playwright/test";
import { checkWidths, expect, folder, test } from "./help";

/** What names of methods, types, threads, modules and the process have in them. */
const IMAGE = '<img src=x onerror="window.ran=1"><script>window.ran=1</script>';

/** Nothing of the names ran or became a part of the page, and nothing turns its text around. */
async function expectText(page: Page, shown = IMAGE): Promise<void> {
  const state = await page.evaluate(() => ({
    ran: "ran" in window,
    images: document.querySelectorAll("img").length,
    // Data of a report are in the page, too, but as data.
    scripts: [...document.scripts].filter(
      ({ type, textContent }) =>
        !type.startsWith("application/") && textContent?.includes("window.ran=1"),
    ).length,
    text: document.body.innerText,
    title: document.title,
  }));
  expect([state.ran, state.images, state.scripts]).toEqual([false, 0, 0]);
  expect(state.text + state.title).not.toMatch(/[\u202e\u2066\u200b\u0007\u001b]/);
  expect(state.text).toContain(shown);
}

test("hostile names are shown as text and run nothing", async ({ page }) => {
  await page.goto("/sessions");
  await expect(page.getByText(IMAGE).first()).toBeVisible();
  await expectText(page);
  await page.goto("/sessions/hostile");
  await expect(page.getByRole("heading", { level: 1 })).toContainText(IMAGE);
  const canvas = page.locator(".flame canvas");
  await expect(canvas).toBeVisible();
  const tree = page.getByRole("treegrid", { name: "Calls, heaviest first" });
  await expect(tree.getByRole("row").nth(2)).toBeVisible();
  await expect(tree.getByRole("row").filter({ hasText: "LongLongLong" })).toBeVisible();
  await expectText(page);
  await checkWidths(page, "hostile");
  // What floats above the graph has the names, too.
  await canvas.hover({ position: { x: 60, y: 3 + 19 * 2 + 8 } });
  await expectText(page);
  await page.keyboard.press("/");
  await page.keyboard.type("<img");
  await expect(page.locator(".found")).toHaveText(/[\d.]+ % matched/);
  await expectText(page);

  await page.getByText("As a tree", { exact: true }).first().click();
  const timeline = page.getByRole("treegrid", { name: "Timeline" });
  await expect(timeline.getByRole("row").filter({ hasText: IMAGE })).toBeVisible();
  await page.getByRole("searchbox", { name: "Search methods" }).fill("");
  await page.getByRole("button", { name: "Methods", exact: true }).click();
  const methods = page.getByRole("region", { name: "Methods" });
  await expect(methods.getByRole("row").nth(1)).toContainText("%");
  await methods.getByRole("button", { name: /callers and callees/ }).first().click();
  const detail = page.getByRole("region", { name: "Callers and callees" });
  await expect(detail).toContainText("Called by");
  await detail.getByRole("button", { name: "Lines", exact: true }).click();
  await expect(detail.getByRole("group", { name: /^Lines of / }).first()).toBeVisible();
  await expectText(page);
  await checkWidths(page, "hostile-methods");
  await page.goto("/sessions/hostile?view=stacks");
  await expect(page.getByRole("region", { name: "Merged stacks" })).toContainText(IMAGE);
  await expectText(page);
  await checkWidths(page, "hostile-stacks");
  await page.goto("/compare?before=hostile&after=hostile");
  await expect(page.getByRole("application", { name: /Differential flame/ })).toBeVisible();
  // Only short names are shown there.
  await expectText(page, "ran=1</script>");

  // The report is one file, which is opened without a server.
  const report = await page.request.get("/api/v1/sessions/hostile/report?format=html");
  const path = join(folder, "hostile.html");
  writeFileSync(path, await report.body());
  await page.goto(`file://${path}`);
  await expect(page.locator(".flame canvas")).toBeVisible();
  await expectText(page);
});

test("the timeline is read and used by keyboard alone", async ({ page }) => {
  await page.goto("/sessions/hostile");
  const summary = page.getByText("As a tree", { exact: true }).first();
  await summary.focus();
  await page.keyboard.press("Enter");
  const grid = page.getByRole("treegrid", { name: "Timeline" });
  // All threads, and the only one.
  await expect(grid).toHaveAttribute("aria-rowcount", "3");
  const focused = grid.locator('[role="row"]:focus');
  for (let tabs = 0; tabs < 5 && (await focused.count()) === 0; tabs += 1) {
    await page.keyboard.press("Tab");
  }
  await expect(focused).toContainText("All threads");
  await expect(focused).toContainText(/[\d.]+ processors/);
  await page.keyboard.press("ArrowRight");
  await expect(grid).toHaveAttribute("aria-rowcount", "23");
  await page.keyboard.press("ArrowDown");
  await expect(focused).toHaveAttribute("aria-level", "2");
  await expect(focused).toContainText(/0 s to [\d.]+ m?s/);
  // A part of the time is chosen, as with the pointer.
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/from=0&to=0\.\d+/);
  await page.goBack();
  await expect(page).not.toHaveURL(/from=/);
  // And a thread.
  await focused.or(grid.locator('[role="row"][tabindex="0"]')).first().focus();
  await page.keyboard.press("End");
  await expect(focused).toContainText("<img");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/thread=100/);
});

test("long tables of a document are filtered", async ({ page }) => {
  await page.goto("/sessions/wide?rows=200");
  const filter = page.getByRole("searchbox", { name: /^Filter: / }).first();
  await filter.fill("Step12");
  await expect(page).toHaveURL(/find\.[\w.]+=Step12/);
  await expect(page.getByText(/^\d+ of 200 rows$/)).toBeVisible();
  const rows = page.locator("table.data").filter({ hasText: "Step12" }).first().locator("tbody tr");
  const [count, found] = [await rows.count(), await rows.filter({ hasText: "Step12" }).count()];
  expect([count > 0, found]).toEqual([true, count]);
  await filter.fill("/step1[23]$/");
  await expect(page.getByText(/^2 of 200 rows$/)).toBeVisible();
  await filter.fill("no such row");
  await expect(page.getByText(/^0 of 200 rows$/)).toBeVisible();
});
