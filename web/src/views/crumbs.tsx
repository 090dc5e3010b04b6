// The way from the outermost call, or from the roots, to what is zoomed to.

import { Fragment } from "preact";
import { visible } from "../data/format";

/** What is zoomed to, and what is above it. */
export interface Way {
  path: { node: number; function: { name: string; short: string } }[];
  left_out: number;
}

export function Crumbs(props: {
  /** `undefined` until it is known. */
  of: Way | undefined;
  root: number | undefined;
  zoom: (root: number | undefined) => void;
  /** What is said at the end. */
  end: string;
  /** What is left out of a long path. */
  noun?: string;
}) {
  const { of, root, zoom, end, noun = "frames" } = props;
  if (!of) return <nav class="crumbs" aria-label="Zoomed to" />;
  // Until the new picture is here, the way is that of the one before.
  const path = root === undefined ? [] : of.path;
  return (
    <nav class="crumbs" aria-label="Zoomed to">
      {root === undefined ? (
        <b aria-current="true">all</b>
      ) : (
        <button onClick={() => zoom(undefined)}>all</button>
      )}
      {path.map(({ node, function: fn }, index) => (
        <Fragment key={node}>
          <span aria-hidden="true">›</span>
          {of.left_out > 0 && index === 2 && (
            <span>
              … {of.left_out} {noun} … ›
            </span>
          )}
          {index === path.length - 1 ? (
            <b aria-current="true" title={visible(fn.name)}>
              {visible(fn.short)}
            </b>
          ) : (
            <button title={visible(fn.name)} onClick={() => zoom(node)}>
              {visible(fn.short)}
            </button>
          )}
        </Fragment>
      ))}
      <span class="end">{end}</span>
    </nav>
  );
}
