// The one-file report: the same views as the pages of the server, with its data in the page.

import { render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Document } from "../data/document";
import { embeddedComparison, type EmbeddedComparison } from "../data/embedded-comparison";
import { embeddedSource, type EmbeddedSamples } from "../data/embedded-source";
import { visible } from "../data/format";
import { ComparisonView } from "../views/comparison";
import { DocumentView } from "../views/document";
import { Samples, type View } from "../views/explore";
import { StoreContext, type Store } from "../views/state";
import { choose, followTheme } from "../views/theme";
import "../views/style.css";
import "./report.css";

/** What crates/report (html.rs) writes. */
interface Report {
  /** What made the page, behind the name of clrscope. */
  tool: string;
  heading: string;
  facts: string[];
  /** What a reader has to know first. */
  banners: string[];
  tiles: Tile[];
  /** `null` where the page is of no single recording. */
  samples: EmbeddedSamples | null;
  comparison: EmbeddedComparison | null;
  documents: { id: string; title: string; document: Document }[];
}

/** A figure that says most of a profiler. */
interface Tile {
  label: string;
  value: string;
  more: string;
  note: string;
}

/** Texts in the part of the address behind `#`. */
function useHash(): Store {
  const read = () => new URLSearchParams(location.hash.slice(1));
  const [params, setParams] = useState(read);
  useEffect(() => {
    const moved = () => setParams(read());
    addEventListener("hashchange", moved);
    addEventListener("popstate", moved);
    return () => {
      removeEventListener("hashchange", moved);
      removeEventListener("popstate", moved);
    };
  }, []);
  return {
    get: (name) => params.get(name) ?? "",
    set: (values, replace = false) => {
      const next = read();
      for (const [name, value] of Object.entries(values)) {
        if (value === "") next.delete(name);
        else next.set(name, value);
      }
      const hash = next.toString();
      const address = hash === "" ? location.pathname + location.search : `#${hash}`;
      history[replace ? "replaceState" : "pushState"](null, "", address);
      setParams(next);
    },
  };
}

interface Tab {
  id: string;
  title: string;
  view?: View;
  document?: Document;
}

function ReportPage({ report }: { report: Report }) {
  const store = useHash();
  const source = useMemo(() => report.samples && embeddedSource(report.samples), [report]);
  const comparison = useMemo(
    () => report.comparison && embeddedComparison(report.comparison),
    [report],
  );
  const tabs = tabsOf(report);
  // A recording without samples begins with what it has.
  const hasSamples = report.samples === null || report.samples.series.length > 0;
  const first = hasSamples ? tabs[0]! : (tabs[2] ?? tabs[0]!);
  const tab = tabs.find(({ id }) => id === store.get("tab")) ?? first;
  const open = (id: string) => store.set({ tab: id === first.id ? "" : id });
  return (
    <StoreContext.Provider value={store}>
      <div class="page">
        <Heading report={report} />
        {report.banners.map((banner) => (
          <p class="banner" role="alert" key={banner}>
            {visible(banner)}
          </p>
        ))}
        {report.tiles.length > 0 && <Tiles tiles={report.tiles} />}
        {tabs.length > 1 && <Tabs tabs={tabs} tab={tab} open={open} />}
        <main>
          <div
            id="content"
            {...(tabs.length > 1 ? { role: "tabpanel", "aria-label": tab.title } : {})}
            tabIndex={-1}
          >
            {tab.view && source && (
              <Samples
                source={source}
                view={tab.view}
                go={(view) => ({ tab: view === first.id ? "" : view })}
              />
            )}
            {tab.document && <DocumentView document={tab.document} key={tab.id} />}
            {tab.id === "comparison" && comparison && <ComparisonView source={comparison} />}
          </div>
        </main>
      </div>
    </StoreContext.Provider>
  );
}

/** What the page has, in tabs. */
function tabsOf(report: Report): Tab[] {
  const tabs: Tab[] = [];
  if (report.samples) {
    tabs.push({ id: "flame", title: "Flame graph", view: "flame" });
    tabs.push({ id: "functions", title: "Methods", view: "functions" });
  }
  if (report.comparison) tabs.push({ id: "comparison", title: "Comparison" });
  return [...tabs, ...report.documents];
}

function Heading({ report }: { report: Report }) {
  const isDark = () => document.documentElement.dataset["theme"] === "dark";
  return (
    <header>
      <div>
        <div class="brand">clrscope {report.tool}</div>
        <h1>{visible(report.heading)}</h1>
        <div class="facts">
          {report.facts.map((fact) => (
            <span key={fact}>{visible(fact)}</span>
          ))}
        </div>
      </div>
      <button
        class="plain theme"
        aria-label="Light or dark page"
        onClick={() => choose(isDark() ? "light" : "dark")}
      >
        ◐
      </button>
    </header>
  );
}

function Tiles({ tiles }: { tiles: Tile[] }) {
  return (
    <div class="tiles">
      {tiles.map(({ label, value, more, note }) => (
        <div class="tile" key={label}>
          <div class="label">{label}</div>
          <div class="value">
            {visible(value)} {more !== "" && <small>{visible(more)}</small>}
          </div>
          <div class="note">{visible(note)}</div>
        </div>
      ))}
    </div>
  );
}

function Tabs({ tabs, tab, open }: { tabs: Tab[]; tab: Tab; open: (id: string) => void }) {
  const list = useRef<HTMLDivElement>(null);
  const move = (index: number) => {
    const next = tabs[(index + tabs.length) % tabs.length]!;
    open(next.id);
    list.current?.querySelector<HTMLElement>(`[data-tab="${next.id}"]`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Views" ref={list}>
      {tabs.map(({ id, title }, index) => (
        <button
          key={id}
          role="tab"
          data-tab={id}
          aria-controls="content"
          aria-selected={id === tab.id}
          tabIndex={id === tab.id ? 0 : -1}
          onClick={() => open(id)}
          onKeyDown={(event) => {
            if (event.key === "ArrowRight") move(index + 1);
            if (event.key === "ArrowLeft") move(index - 1);
          }}
        >
          {title}
        </button>
      ))}
    </div>
  );
}

/** Draws the report, and says whether that went well. */
function start(): void {
  const root = document.getElementById("report");
  const data = document.getElementById("data")?.textContent;
  if (!root || !data) return;
  followTheme();
  try {
    render(<ReportPage report={JSON.parse(data) as Report} />, root);
    document.documentElement.dataset["ready"] = "yes";
  } catch (error) {
    const sorry = document.createElement("p");
    sorry.className = "banner";
    sorry.textContent = `This report cannot be drawn here: ${String(error)}`;
    root.replaceChildren(sorry);
    document.documentElement.dataset["ready"] = "failed";
    throw error;
  }
}

start();
