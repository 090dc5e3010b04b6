// Where the keyboard is in a table whose rows are renewed.

import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/**
 * Keeps the focus within an element while its rows change places: a browser takes it away from what
 * is moved. If the row is not there any more, the element itself has it.
 */
export function useFocusKept<T extends HTMLElement>(): RefObject<T | null> {
  const place = useRef<T>(null);
  const active = document.activeElement;
  const before = place.current?.contains(active) ? active : null;
  useLayoutEffect(() => {
    if (!(before instanceof HTMLElement) || document.activeElement === before) return;
    // Somebody else may have taken it on purpose.
    if (document.activeElement !== document.body) return;
    (before.isConnected ? before : place.current)?.focus({ preventScroll: true });
  });
  return place;
}
