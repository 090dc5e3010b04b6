import { bundled, checkAccess, expect, expectErrors, old, test } from "./help";

/** The oldest runtime that is supported, and a single-file application on the newest one. */
const TARGETS = [
  { pid: old, runtime: ".NET 3.1", sick: true, search: "clinic!clinic.storm", method: /^add ?: Clinic\.Storm\./ },
  {
    pid: bundled,
    runtime: ".NET 10",
    sick: false,
    search: "Json.JsonSerializer.Serialize",
    method: /^add ?: System\.Text\.Json\.JsonSerializer\.Serialize/,
  },
];

for (const { pid, runtime, sick, search, method } of TARGETS) {
  test(`from the process to a comparison on ${runtime}`, async ({ page }) => {
    // Of what is still recorded, nothing may be in the file yet.
    expectErrors(/status of 422.*\/explore/);
    expectErrors(/status of 404.*\/children\?/);
    await page.goto("/");
    const row = page.getByRole("row").filter({ hasText: String(pid) });
    await expect(row).toContainText(runtime);

    // A check-up, its finding and the evidence.
    const asked = { data: { pid, duration_seconds: 5, name: `checked-${pid}` } };
    const begun = await page.request.post("/api/v1/checkups", asked);
    expect(begun.ok(), await begun.text()).toBe(true);
    await page.goto(`/checkups/checked-${pid}`);
    const summary = page.locator(".summary");
    await expect(summary).toContainText(/ in [\d.]+ s/, { timeout: 90_000 });
    if (sick) {
      const finding = page.getByRole("article").filter({ hasText: "exception-storm" });
      await expect(finding).toContainText("culprit");
      await expect(finding).toContainText("evidence");
    }
    await page.getByRole("link", { name: "Open the session" }).click();
    await expect(page.locator(".flame canvas")).toBeVisible();

    // A recording is watched, stopped and explored.
    await page.goto(`/record?pid=${pid}&p=wall,gc`);
    await page.getByRole("button", { name: "Start recording" }).click();
    await expect(page).toHaveURL(/\/recordings\//);
    await expect(page.getByText(/[1-9][\d,]* samples and events/)).toBeVisible();
    const stacks = page.getByRole("region", { name: "Stacks so far" });
    await expect(stacks.locator(".flame canvas")).toBeVisible({ timeout: 30_000 });
    await page.getByRole("button", { name: "Stop" }).click();
    await expect(page).toHaveURL(/\/sessions\//);
    const id = decodeURIComponent(new URL(page.url()).pathname.split("/").at(-1) ?? "");
    const tree = page.getByRole("treegrid", { name: "Calls, heaviest first" });
    await expect(tree.getByRole("row").nth(1)).toContainText("%");
    await page.getByRole("button", { name: "Methods", exact: true }).click();
    const methods = page.getByRole("region", { name: "Methods" });
    await expect(methods.getByRole("row").nth(1)).toContainText(/ms|s/);
    await checkAccess(page);

    // It is compared with the check-up, downloaded and added again.
    await page.goto(`/compare?before=checked-${pid}&after=${id}`);
    await expect(page.getByText(`${id} compared with checked-${pid}`)).toBeVisible();
    const differences = page.getByRole("application", { name: /Differential flame graph/ });
    await expect(differences).toBeVisible();
    const file = await (await page.request.get(`/api/v1/sessions/${id}/file`)).body();
    await page.goto("/sessions");
    const again = { name: `again-${pid}.clrscope`, mimeType: "", buffer: file };
    await page.locator("input[type=file]").setInputFiles(again);
    await page.getByRole("link", { name: "open it" }).click();
    await expect(page).toHaveURL(new RegExp(`/sessions/again-${pid}$`));
    await expect(page.locator(".flame canvas")).toBeVisible();

    // Its methods are found, without an agent in the process.
    await page.goto(`/trace?pid=${pid}`);
    const found = page.getByRole("region", { name: "Methods of the process" });
    await found.getByRole("searchbox").fill(search);
    await found.getByRole("button", { name: method }).first().click();
    await expect(page.getByLabel("Methods", { exact: true })).toHaveValue(/!.*\..+/);
  });
}
