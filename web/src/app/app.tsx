// The frame of all pages, and which page an address shows.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { onLockedOut } from "../data/client";
import { StoreContext, type Store } from "../views/state";
import { choose, chosen, type Choice } from "../views/theme";
import { Head } from "./parts";
import { link, setParams, usePlace, type Place } from "./router";
import { CheckupPage } from "./checkup";
import { ComparePage } from "./compare";
import { Processes } from "./processes";
import { RecordPage } from "./record";
import { RecordingPage } from "./recording";
import { SessionPage } from "./session";
import { Sessions } from "./sessions";
import { TracePage } from "./trace";

const PAGES = [
  { path: "processes", title: "Processes" },
  { path: "record", title: "Record" },
  { path: "trace", title: "Trace" },
  { path: "sessions", title: "Sessions" },
  { path: "compare", title: "Compare" },
] as const;

/** The page at a place. */
function page(place: Place) {
  const [first = "processes", second] = place.path;
  switch (first) {
    case "processes":
      return <Processes />;
    case "record":
      return <RecordPage />;
    case "trace":
      return <TracePage />;
    case "checkups":
    case "recordings": {
      if (second === undefined) return <Processes />;
      const Page = first === "checkups" ? CheckupPage : RecordingPage;
      return <Page key={second} id={second} />;
    }
    case "compare":
      return <ComparePage />;
    case "sessions":
      return second === undefined ? <Sessions /> : <SessionPage key={second} id={second} />;
    default:
      return <Head title="Not found" about="There is nothing at this address." />;
  }
}

export function App() {
  const place = usePlace();
  const [lockedOut, setLockedOut] = useState(false);
  const main = useRef<HTMLElement>(null);
  const path = place.path.join("/");
  const before = useRef(path);
  useEffect(() => onLockedOut(() => setLockedOut(true)), []);
  useEffect(() => {
    if (before.current === path) return;
    before.current = path;
    // As after the load of a page: screen readers begin at its top.
    scrollTo(0, 0);
    main.current?.focus();
  }, [path]);
  const store: Store = useMemo(
    () => ({ get: (name) => place.params.get(name) ?? "", set: setParamsOf }),
    [place],
  );
  return (
    <StoreContext.Provider value={store}>
      <a class="skip plain" href="#main" onClick={() => main.current?.focus()}>
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href="/">
          clrscope
        </a>
        <nav aria-label="Pages">
          {PAGES.map(({ path, title }) => (
            <a
              key={path}
              href={link([path])}
              aria-current={(place.path[0] ?? "processes") === path ? "page" : undefined}
            >
              {title}
            </a>
          ))}
        </nav>
        <ThemeChoice />
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        {lockedOut ? <LockedOut /> : page(place)}
      </main>
    </StoreContext.Provider>
  );
}

function setParamsOf(values: Record<string, string>, replace?: boolean) {
  setParams(values, replace === undefined ? {} : { replace });
}

function ThemeChoice() {
  const [choice, setChoice] = useState(chosen);
  return (
    <label class="theme">
      <span class="sr">Colors</span>
      <select
        value={choice}
        onChange={(event) => {
          const next = event.currentTarget.value as Choice;
          choose(next);
          setChoice(next);
        }}
      >
        <option value="system">System colors</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}

/** The cookie is no longer valid, or the server was started again. */
function LockedOut() {
  return (
    <>
      <Head title="This browser is not let in any more" />
      <div class="card pad" role="alert">
        <p>
          Its cookie has expired, or the server was started again. Recordings that run continue, and
          sessions are kept.
        </p>
        <p>
          Open the address that <code>clrscope ui</code> or <code>clrscope serve</code> prints when
          it starts.
        </p>
      </div>
    </>
  );
}
