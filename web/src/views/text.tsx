// Texts of others: always text nodes, never markup, and nothing in them is invisible.

import { visible } from "../data/format";

/** A text of the recorded program. */
export function Text({ of }: { of: string }) {
  return <>{visible(of)}</>;
}
