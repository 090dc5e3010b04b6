import { defineConfig } from "@playwright/test";

// Real pages of a real server in the browser of the system. `crates/cli/tests/pages.rs` starts the
// server and the processes, and runs this.
export default defineConfig({
  testDir: "tests",
  outputDir: "results",
  workers: 1,
  fullyParallel: false,
  // A busy machine takes several times as long as an idle one.
  timeout: 180_000,
  expect: { timeout: 20_000 },
  reporter: [["list"]],
  use: {
    browserName: "chromium",
    viewport: { width: 1280, height: 860 },
    trace: "retain-on-failure",
    launchOptions: {
      executablePath: process.env["CLRSCOPE_CHROMIUM"] ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-gpu", "--no-first-run"],
    },
  },
});
