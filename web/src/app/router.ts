// The address is the state: every page, selection and filter can be linked to.

import { useEffect, useState } from "preact/hooks";

/** A place in the application. */
export interface Place {
  /** Parts of the path, decoded: `/sessions/a` is `["sessions", "a"]`. */
  path: string[];
  params: URLSearchParams;
}

/** Parameters to set; `undefined` and empty texts remove one. */
export type Changes = Record<string, string | number | undefined>;

const MOVED = "clrscope:moved";

/** Where the browser is. */
export function here(): Place {
  return parse(location.pathname, location.search);
}

function parse(pathname: string, search: string): Place {
  const decoded = (part: string) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  };
  const path = pathname.split("/").filter((part) => part !== "").map(decoded);
  return { path, params: new URLSearchParams(search) };
}

/** The address of a place. */
export function link(path: string[], params: Changes = {}): string {
  const query = changed(new URLSearchParams(), params).toString();
  return `/${path.map(encodeURIComponent).join("/")}${query === "" ? "" : `?${query}`}`;
}

function changed(params: URLSearchParams, changes: Changes): URLSearchParams {
  const next = new URLSearchParams(params);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === "") next.delete(name);
    else next.set(name, String(value));
  }
  return next;
}

/** Goes to an address of the application. */
export function go(address: string, how: { replace?: boolean } = {}): void {
  if (address !== location.pathname + location.search) {
    history[how.replace ? "replaceState" : "pushState"](null, "", address);
  }
  dispatchEvent(new Event(MOVED));
}

/**
 * Changes parameters of the address. What a reader would go back from is pushed; what changes many
 * times a second, such as a zoom, is replaced.
 */
export function setParams(changes: Changes, how: { replace?: boolean } = {}): void {
  const query = changed(here().params, changes).toString();
  go(location.pathname + (query === "" ? "" : `?${query}`), how);
}

/** Where the browser is, always the latest. */
export function usePlace(): Place {
  const [place, setPlace] = useState(here);
  useEffect(() => {
    const moved = () => setPlace(here());
    addEventListener("popstate", moved);
    addEventListener(MOVED, moved);
    return () => {
      removeEventListener("popstate", moved);
      removeEventListener(MOVED, moved);
    };
  }, []);
  return place;
}

/** A parameter of the address, and how to change it. */
export function useParam(name: string, replace = false): [string, (value: string) => void] {
  const { params } = usePlace();
  return [params.get(name) ?? "", (value) => setParams({ [name]: value }, { replace })];
}

/** Makes links of the application move within it, instead of loading a page. */
export function catchLinks(): void {
  addEventListener("click", (event) => {
    const plain =
      event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
    const anchor = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!plain || event.defaultPrevented || !(anchor instanceof HTMLAnchorElement)) return;
    const leaves = anchor.target !== "" || anchor.hasAttribute("download");
    if (leaves || anchor.origin !== location.origin) return;
    if (anchor.pathname.startsWith("/api/") || anchor.hash !== "") return;
    event.preventDefault();
    go(anchor.pathname + anchor.search);
  });
}
