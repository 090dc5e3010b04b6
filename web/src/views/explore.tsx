// What can be explored in a session: a place for views of its samples.

import type { SessionDetail } from "../data/client";

export interface ExploreProps {
  session: SessionDetail;
}

/** Views of the samples of a session. */
export function Explore({ session }: ExploreProps) {
  const series = session.series;
  return series.length === 0 ? (
    <p class="hint">This session has no samples with stacks.</p>
  ) : (
    <p class="hint">Samples with stacks: {series.join(", ")}.</p>
  );
}
