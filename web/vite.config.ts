import { defineConfig } from "vite";

// Two builds into one folder: the pages of the server, and the program of the one-file report.
// Names are fixed, so that changes of built files can be compared; the server puts a hash of all
// of them into their addresses (crates/web).
export default defineConfig(({ mode }) => ({
  base: "./",
  publicDir: mode === "report" ? false : "public",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "dist",
    emptyOutDir: mode !== "report",
    target: "es2022",
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions:
      mode === "report"
        ? {
            input: "src/report/main.tsx",
            output: {
              format: "iife",
              entryFileNames: "report.js",
              assetFileNames: "report[extname]",
              codeSplitting: false,
            },
          }
        : {
            input: "index.html",
            output: {
              entryFileNames: "app.js",
              chunkFileNames: "[name].js",
              assetFileNames: "app[extname]",
            },
          },
  },
}));
