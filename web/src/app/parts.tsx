// Parts that several pages have.

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { Problem } from "../data/client";
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

/** What went wrong, and what to do about it. */
export function Failure({ problem, retry }: { problem: Problem; retry?: () => void }) {
  return (
    <div class="banner bad" role="alert">
      <p>{visible(problem.reason)}</p>
      <p>{visible(problem.next)}</p>
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
