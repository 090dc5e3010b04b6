// What can be chosen of samples that are still being recorded: it does not vanish while the latest
// seconds have none of it.

import type { Description, Series, State } from "../data/source";

/** The elements of a list, and those of the one before that it does not have, without weight. */
function kept<T extends { id: string | number }>(before: T[], now: T[], none: (one: T) => T): T[] {
  const has = new Set(now.map((one) => one.id));
  return [...now, ...before.filter((one) => !has.has(one.id)).map(none)];
}

const noState = (state: State): State => ({ ...state, weight: 0 });

const noSeries = (series: Series): Series => ({
  ...series,
  samples: 0,
  weight: 0,
  effective: 0,
  threads: 0,
  states: series.states.map(noState),
});

/**
 * A description with the samples and states that an earlier one had, each in the same order as
 * before, and with the thread that was chosen. Otherwise a second without a garbage collection would
 * change which states are selected, and the view would begin at its beginning.
 */
export function steady(before: Description | undefined, now: Description, thread: string): Description {
  if (!before) return now;
  const order = new Map(before.series.map((one, at) => [one.id, at]));
  const place = (one: Series) => order.get(one.id) ?? before.series.length;
  const series = kept(before.series, now.series, noSeries).map((one) => {
    const old = before.series.find(({ id }) => id === one.id);
    if (!old) return one;
    const states = kept(old.states, one.states, noState);
    return { ...one, states: states.sort((some, other) => some.index - other.index) };
  });
  const chosen = before.threads.filter(({ id }) => String(id) === thread);
  const threads = kept(chosen, now.threads, (one) => ({
    ...one,
    weights: Object.fromEntries(Object.keys(one.weights).map((id) => [id, 0])),
  }));
  return { ...now, series: series.sort((one, other) => place(one) - place(other)), threads };
}
