use profile::{Profile, STATES, SeriesKind, Unit, session::ThreadState, state_id, state_index};

use super::{Measure, rate};
use crate::grid::Grid;

/// The time of threads in each state, of profilers that see more than running threads.
pub(super) fn measures(profile: &Profile, grid: &Grid) -> Vec<Measure> {
    let kinds =
        SeriesKind::ALL.into_iter().filter(|kind| kind.value_type().unit == Unit::Nanoseconds);
    kinds.flat_map(|kind| of_series(profile, grid, kind)).collect()
}

fn of_series(profile: &Profile, grid: &Grid, kind: SeriesKind) -> Vec<Measure> {
    let series = profile.series(kind);
    let sums = series.by_state();
    let seen = STATES.into_iter().filter(|state| sums[state_index(*state)].samples > 0);
    let seen: Vec<ThreadState> = seen.collect();
    if seen.len() < 2 {
        return Vec::new();
    }
    let measure = |state: ThreadState| Measure {
        more_is_worse: is_waste(state),
        ..rate(
            kind.id(),
            format!("threads in the state {}", state_id(state)),
            Unit::Nanoseconds,
            grid.sums(series, Some(state)),
        )
    };
    seen.into_iter().map(measure).collect()
}

/// Whether a thread in this state would do something useful if it could. In the other states it may
/// have nothing to do.
fn is_waste(state: ThreadState) -> Option<bool> {
    match state {
        ThreadState::Running
        | ThreadState::Lock
        | ThreadState::Gc
        | ThreadState::NoProcessor
        | ThreadState::Throttled => Some(true),
        _ => None,
    }
}
