// Measures the pages in headless Chromium, for `cargo xtask bench ui`. Arguments: what to measure,
// the address with a token, and the session, or for `live` the process. Prints one line of JSON, or
// for `live` a word when it is as far.

import { chromium } from "@playwright/test";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { gzipSync } from "node:zlib";

const [part, url, about] = process.argv.slice(2);
const origin = new URL(url).origin;
const browser = await chromium.launch({
  executablePath: process.env.CLRSCOPE_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--enable-precise-memory-info"],
});
const context = await browser.newContext({ viewport: { width: 1600, height: 1000 } });
const page = await context.newPage();
page.setDefaultTimeout(120_000);
page.on("pageerror", (error) => {
  console.error(String(error));
  process.exit(1);
});
page.on("crash", () => {
  console.error("the page crashed");
  process.exit(1);
});

const canvas = page.locator(".flame canvas");

/** Milliseconds that something takes. */
async function timed(work) {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
}

/** Waits until the flame graph has boxes where it is in view. */
async function isPainted() {
  await page.waitForFunction(
    () => {
      const canvas = document.querySelector(".flame canvas");
      if (!canvas || canvas.width < 100 || canvas.height < 60) return false;
      if (document.querySelector(".flame").getAttribute("aria-busy") === "true") return false;
      const { data } = canvas.getContext("2d").getImageData(40, 40, 8, 8);
      return data.some((value) => value > 0);
    },
    undefined,
    { polling: "raf" },
  );
}

/** Milliseconds until the flame graph of a session is painted. */
const opened = (id) =>
  timed(async () => {
    await page.goto(`${origin}/sessions/${id}`, { waitUntil: "commit" });
    await isPainted();
  });

/** Bytes of the heap of the page, after a collection. */
async function heapOf() {
  const session = await context.newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  return page.evaluate(() => performance.memory.usedJSHeapSize);
}

/** Bytes of what is sent to a browser that opens the pages for the first time. */
function assetsOf() {
  const dist = new URL("../dist/", import.meta.url);
  return readdirSync(dist)
    .filter((name) => !name.startsWith("report."))
    .reduce((sum, name) => sum + gzipSync(readFileSync(new URL(name, dist)), { level: 9 }).length, 0);
}

const first = await timed(async () => {
  await page.goto(url, { waitUntil: "commit" });
  // The list of processes, or that there are none: not only the frame of the page.
  const usable = "table.list tbody tr, .card.empty, .banner.bad";
  await page.locator(usable).first().waitFor({ state: "visible" });
});

/** How soon a session is there, and again when the server has read it. */
async function open() {
  const open = await opened(about);
  const again = await opened(about);
  return { first, open, again, heap: await heapOf(), assets: assetsOf() };
}

/** How smooth zooming and panning are: the time between frames. */
async function smooth() {
  const open = await opened(about);
  await canvas.scrollIntoViewIfNeeded();
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
  const box = await canvas.boundingBox();
  let zooms = 0;
  for (let round = 0; round < 12; round += 1) {
    await page.mouse.move(box.x + 30 + round * 40, box.y + 60, { steps: 12 });
    await page.mouse.click(box.x + 200, box.y + 3 + 19 * (2 + (round % 3)) + 8);
    await page.waitForTimeout(250);
    if (page.url().includes("root=")) zooms += 1;
    for (let step = 0; step < 8; step += 1) {
      await page.mouse.wheel(0, 120);
      await page.waitForTimeout(30);
    }
    await canvas.focus();
    await page.keyboard.press(round % 4 === 3 ? "Escape" : "Backspace");
    await page.waitForTimeout(200);
  }
  if (zooms < 6) throw new Error(`only ${zooms} of 12 clicks have zoomed`);
  const frames = (await page.evaluate(() => window.frames_)).sort((a, b) => a - b);
  const p95 = frames[Math.floor(frames.length * 0.95)];
  return { open, frames: frames.length, p95, heap: await heapOf() };
}

/** Whether very deep stacks, very many rows and very long names can be used. */
async function extreme() {
  const open = await opened(about);
  const flame = page.locator(".flame");
  const deepest = await timed(async () => {
    await flame.evaluate((element) => element.scrollTo(0, element.scrollHeight));
    await page.waitForTimeout(50);
    await isPainted();
  });
  const [scrolled, tall] = await flame.evaluate((own) => [own.scrollTop, own.clientHeight]);
  if (scrolled < 40_000 * 19) throw new Error(`the graph ends at ${scrolled} pixels`);
  if ((await canvas.boundingBox()).height > tall + 1) throw new Error("the canvas is too tall");
  const tree = page.getByRole("treegrid", { name: "Calls, heaviest first" });
  const focused = tree.locator('[role="row"][tabindex="0"]');
  await focused.focus();
  await page.keyboard.press("Home");
  // The last row stands for those that were not fetched, which Enter does.
  const isAt = (row) =>
    page.waitForFunction(
      (least) => Number(document.activeElement?.getAttribute("aria-rowindex")) > least,
      row,
    );
  const last = await timed(async () => {
    await page.keyboard.press("End");
    await isAt(150);
    await page.keyboard.press("Enter");
    await page.waitForFunction(
      () => Number(document.querySelector("[role=treegrid]").getAttribute("aria-rowcount")) > 10_000,
    );
    await page.keyboard.press("End");
    await isAt(10_000);
  });
  // The first method is a long name, and the root of the deepest stack.
  const zoomed = await timed(async () => {
    await flame.evaluate((element) => element.scrollTo(0, 0));
    await page.waitForTimeout(50);
    await isPainted();
    await canvas.click({ position: { x: 40, y: 3 + 19 + 8 } });
    await page.waitForURL(/root=\d+/);
    await isPainted();
  });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  if (wide > 1600) throw new Error(`the page is ${wide} pixels wide`);
  return { open, deepest, last, zoomed };
}

/**
 * Records a process. With the line `open` it shows that live; with `rate` it prints how often a
 * second the page has changed since. It ends with the input.
 */
async function live() {
  const data = { pid: Number(about) };
  const begun = await page.request.post(`${origin}/api/v1/recordings`, {
    data,
    headers: { Origin: origin },
  });
  if (!begun.ok()) throw new Error(await begun.text());
  const { id } = await begun.json();
  await page.goto("about:blank");
  console.log("recording");
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === "rate") {
      console.log(await page.evaluate(() => changes_ / ((performance.now() - begun_) / 1000)));
      continue;
    }
    await page.goto(`${origin}/recordings/${id}`);
    await page.locator(".charts canvas").first().waitFor({ state: "visible" });
    await page.evaluate(() => {
      [window.changes_, window.begun_] = [0, performance.now()];
      const count = new MutationObserver(() => (window.changes_ += 1));
      const shown = document.querySelector(".running .hint");
      count.observe(shown, { characterData: true, childList: true, subtree: true });
    });
    console.log("open");
  }
  await page.request.delete(`${origin}/api/v1/recordings/${id}`, { headers: { Origin: origin } });
}

const parts = { open, smooth, extreme, live };
const measured = await parts[part]();
await browser.close();
if (measured) console.log(JSON.stringify(measured));
