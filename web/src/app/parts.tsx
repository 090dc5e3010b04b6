// Parts that several pages have.

import { cloneElement, type ComponentChildren, type VNode } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { problemOf, type Problem } from "../data/client";
import { visible } from "../data/format";

/** The head of a page: what it is, and what can be done with all of it. */
export function Head(props: {
  title: string;
  about?: ComponentChildren;
  children?: ComponentChildren;
}) {
  const title = visible(props.title);
  useEffect(() => {
    document.title = `${title} – clrscope`;
  }, [title]);
  return (
    <div class="head">
      <div class="title">
        <h1>{title}</h1>
        {props.about !== undefined && <p>{props.about}</p>}
      </div>
      {props.children !== undefined && <div class="tools">{props.children}</div>}
    </div>
  );
}

/** A text of the server as a sentence. */
function sentence(text: string): string {
  const shown = visible(text);
  const whole = /[.!?]$/.test(shown) ? shown : `${shown}.`;
  return whole.charAt(0).toUpperCase() + whole.slice(1);
}

/** What went wrong, and what to do about it. */
export function Failure({ problem, retry }: { problem: Problem; retry?: () => void }) {
  return (
    <div class="banner bad" role="alert">
      <p>{sentence(problem.reason)}</p>
      {/* Next steps that name requests are for scripts. */}
      {!/^(GET|POST|DELETE) /.test(problem.next) && <p>{sentence(problem.next)}</p>}
      {retry && (
        <p>
          <button class="plain" onClick={retry}>
            Try again
          </button>
        </p>
      )}
    </div>
  );
}

/** Something is on its way. */
export function Waiting({ what }: { what: string }) {
  return (
    <p class="empty" role="status">
      {what} …
    </p>
  );
}

/** Something that is done once, and may fail. */
export interface Action<A extends unknown[]> {
  run: (...args: A) => void;
  busy: boolean;
  problem: Problem | undefined;
}

/** An action of a page. While it runs, it is not run again. */
export function useAction<A extends unknown[]>(
  work: (...args: A) => Promise<void>,
): Action<A> {
  const [state, setState] = useState<{ busy: boolean; problem?: Problem }>({ busy: false });
  const busy = useRef(false);
  const run = (...args: A) => {
    if (busy.current) return;
    busy.current = true;
    setState({ busy: true });
    work(...args).then(
      () => {
        busy.current = false;
        setState({ busy: false });
      },
      (error: unknown) => {
        busy.current = false;
        setState({ busy: false, problem: problemOf(error) });
      },
    );
  };
  return { run, busy: state.busy, problem: state.problem };
}

/** A number that matters, with its name. */
export function Tile(props: { label: string; value: string; note?: string | undefined }) {
  return (
    <div class="tile">
      <dt>{props.label}</dt>
      <dd class="value">{props.value}</dd>
      {props.note !== undefined && <dd class="note">{props.note}</dd>}
    </div>
  );
}

/** Numbers that matter. */
export function Tiles({ children }: { children: ComponentChildren }) {
  return <dl class="tiles">{children}</dl>;
}

/** A field of a form with its label, and a hint that describes it. */
export function Field(props: { label: string; hint?: string; children: VNode<object> }) {
  const { label, hint, children } = props;
  const id = useId();
  const described = hint ? cloneElement(children, { "aria-describedby": id }) : children;
  return (
    <div class="field">
      <label>
        <span>{label}</span>
        {described}
      </label>
      {hint && <small id={id}>{hint}</small>}
    </div>
  );
}

/** A box that has to be closed before the page can be used again. */
export function Dialog(props: {
  title: string;
  close: () => void;
  children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onClose={props.close}>
      <h2 id="dialog-title">{props.title}</h2>
      {props.children}
    </dialog>
  );
}

/** A field that filters a list while one types. */
export function Search(props: {
  label: string;
  value: string;
  change: (value: string) => void;
  found?: string | undefined;
}) {
  return (
    <span class="search">
      <input
        type="search"
        aria-label={props.label}
        placeholder={props.label}
        value={props.value}
        onInput={(event) => props.change(event.currentTarget.value)}
      />
      <span class="hint" role="status">
        {props.found ?? ""}
      </span>
    </span>
  );
}
