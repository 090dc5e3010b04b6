// Measures the pages in headless Chromium, for `cargo xtask bench ui`: prints one line of JSON.
// Arguments: the address with a token, a session of 100,000 distinct stacks, and one of a million.

import { chromium } from "@playwright/test";
import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const [url, session, large] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CLRSCOPE_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--enable-precise-memory-info"],
});
const context = await browser.newContext({ viewport: { width: 1600, height: 1000 } });
const page = await context.newPage();

/** Milliseconds until something is visible. */
async function until(address, selector) {
  const begun = performance.now();
  await page.goto(address, { waitUntil: "commit" });
  await page.locator(selector).first().waitFor({ state: "visible", timeout: 120_000 });
  return performance.now() - begun;
}

/** Milliseconds until the flame graph of a session is painted. */
async function painted(id) {
  const begun = performance.now();
  await page.goto(`/sessions/${id}`, { waitUntil: "commit" });
  await page.waitForFunction(
    () => {
      const canvas = document.querySelector(".flame canvas");
      if (!canvas || canvas.width < 100 || canvas.height < 60) return false;
      const { data } = canvas.getContext("2d").getImageData(40, 40, 8, 8);
      return data.some((value) => value > 0);
    },
    undefined,
    { polling: "raf", timeout: 120_000 },
  );
  return performance.now() - begun;
}

const origin = new URL(url).origin;
const first = await until(url, "h1");
await context.storageState();
const address = (path) => origin + path;
const go = page.goto.bind(page);
page.goto = (path, options) => go(path.startsWith("http") ? path : address(path), options);

const open = await painted(session);
const again = await painted(session);
// A million stacks: read once, then zoomed into and scrolled.
const openLarge = await painted(large);
await page.evaluate(() => {
  window.frames_ = [];
  let last = performance.now();
  const tick = (now) => {
    window.frames_.push(now - last);
    last = now;
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
});
const canvas = page.locator(".flame canvas");
const box = await canvas.boundingBox();
for (let round = 0; round < 12; round += 1) {
  await page.mouse.move(box.x + 30 + round * 40, box.y + 60, { steps: 12 });
  await page.mouse.click(box.x + 200, box.y + 3 + 19 * (2 + (round % 3)) + 8);
  await page.waitForTimeout(250);
  for (let step = 0; step < 8; step += 1) {
    await page.mouse.wheel(0, 120);
    await page.waitForTimeout(30);
  }
  await canvas.focus();
  await page.keyboard.press(round % 4 === 3 ? "Escape" : "Backspace");
  await page.waitForTimeout(200);
}
const frames = (await page.evaluate(() => window.frames_)).sort((a, b) => a - b);
const heap = await page.evaluate(() => performance.memory.usedJSHeapSize);
await browser.close();

const dist = new URL("../dist/", import.meta.url);
const assets = readdirSync(dist)
  .filter((name) => !name.startsWith("report."))
  .reduce((sum, name) => sum + gzipSync(readFileSync(new URL(name, dist)), { level: 9 }).length, 0);
const p95 = frames[Math.floor(frames.length * 0.95)];
console.log(JSON.stringify({ first, open, again, openLarge, frames: frames.length, p95, heap, assets }));
