// Follows the section "Two minutes in the browser" of the README, step by step and by the words in
// it, and takes its pictures, for `cargo xtask pictures`. Arguments: the address that `clrscope ui`
// has printed, and the folder for pictures.

import { chromium } from "@playwright/test";
import { join } from "node:path";

const [url, folder] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CLRSCOPE_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run"],
});
const context = await browser.newContext({
  viewport: { width: 1280, height: 800 },
  colorScheme: "light",
  reducedMotion: "reduce",
});
const page = await context.newPage();
page.setDefaultTimeout(120_000);
const picture = async (name) => {
  await page.waitForTimeout(500);
  await page.mouse.move(1, 1);
  await page.screenshot({ path: join(folder, `${name}.png`) });
};
const say = (text) => console.log(`${((performance.now() - begun) / 1000).toFixed(1)} s: ${text}`);
const begun = performance.now();

// 1. Processes: Check-up in the row of the process.
await page.goto(url);
await page.getByRole("heading", { level: 1, name: "Processes" }).waitFor();
const row = page.getByRole("row").filter({ has: page.getByText("clinic", { exact: true }) });
await row.getByText("Check-up", { exact: true }).click();
// 2. The findings, worst first.
await page.getByText("worst first").or(page.getByText("1 finding")).first().waitFor();
say("the findings are there");
// 3. The first card is the diagnosis.
const card = page.getByRole("article").first();
const culprit = await card.locator("dt", { hasText: /^culprit$/ }).locator("+ dd").textContent();
if (!culprit.includes("HotLock.Reserve")) throw new Error(`the culprit is ${culprit}`);
await card.getByText("next step", { exact: true }).waitFor();
say(`the culprit is ${culprit}`);
await picture("checkup");
// 4. Open the session, and the samples of locks.
await page.getByRole("link", { name: "Open the session" }).click();
await page.getByRole("button", { name: "Locks", exact: true }).click();
await page.locator(".flame canvas").waitFor();
await page.getByRole("treegrid", { name: "Calls, heaviest first" }).waitFor();
await page.getByRole("treegrid").getByText("HotLock.Reserve").first().waitFor();
say("the flame graph of locks is there");
await picture("explore");
await browser.close();
const seconds = (performance.now() - begun) / 1000;
if (seconds > 120) throw new Error(`it took ${seconds.toFixed(0)} s`);
