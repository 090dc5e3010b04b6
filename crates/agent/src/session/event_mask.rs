//! Which events a session requests from the runtime.

use crate::session::agent::Agent;
use corprof::{EventMask, ProfilerInfo};
use profilers::trace::{self, Rewriting};
use wire::SessionConfig;

/// What may be asked for: the union of what the profilers need and what names threads and runtime
/// work.
pub fn event_mask(
    config: &SessionConfig,
    notify_only: bool,
    exceptions_by_events: bool,
) -> EventMask {
    let (low, high) = profilers::events_of(config);
    let always =
        EventMask::THREADS.union(EventMask::SUSPENDS).union(EventMask::ENABLE_STACK_SNAPSHOT);
    let always = always.union(EventMask::BASIC_GC).union(EventMask::DYNAMIC_FUNCTION_UNLOADS);
    let always = always.union(EventMask::MODULE_LOADS);
    let mut wanted = EventMask::from_words(low, high).union(always);
    if exceptions_by_events && wanted.contains(EventMask::EXCEPTIONS) {
        wanted = wanted.without(EventMask::EXCEPTIONS);
        // Calls do without.
        if config.profiler("exceptions").is_some() {
            wanted = wanted.union(EventMask::EVENT_PIPE);
        }
    }
    // Forbids the detach for ever. Full collection events (GC) forbid the concurrent collector
    // until then; only the profiler that cannot do without them asks for them, and only the main
    // one may.
    let rewrites = matches!(Rewriting::of(config), Rewriting::On { .. });
    let never = if rewrites { EventMask::NONE } else { EventMask::ENABLE_REJIT };
    // To have methods compiled that are instrumented when they are called for the first time.
    let searches =
        if config.launched && rewrites { EventMask::CACHE_SEARCHES } else { EventMask::NONE };
    let legal = if config.launched {
        wanted.union(searches)
    } else {
        both(wanted, EventMask::AFTER_ATTACH)
    };
    let legal = if notify_only { both(legal, EventMask::NOTIFICATION_ONLY) } else { legal };
    legal.without(never)
}

/// The message where heap snapshots cannot be allowed.
pub const HEAP_REFUSED: &str = "heap snapshots cannot be allowed: the runtime allows them only to \
    an agent that requests them when it is loaded, and this one did not";

/// Lets heap snapshots be taken later, if the session asks for that. The runtime allows callbacks
/// of full collections only to a profiler that has asked for them while it was loaded
/// (`CORPROF_E_CONCURRENT_GC_NOT_PROFILABLE`), and makes no background collections from then on.
/// They are not wanted now: the caller sets the mask without them right afterwards.
///
/// # Errors
/// The runtime refuses.
pub fn allow_heap(
    info: &ProfilerInfo,
    config: &SessionConfig,
    mask: EventMask,
) -> Result<(), corprof::Error> {
    if trace::allows_heap(config) { info.set_event_mask(mask.union(EventMask::GC)) } else { Ok(()) }
}

fn both(a: EventMask, b: EventMask) -> EventMask {
    EventMask::from_words(a.low() & b.low(), a.high() & b.high())
}

/// The events that stay on while nothing is recorded: those that the runtime never reverts, and
/// what makes ids stand for something else: loads and unloads of modules, and freed dynamic
/// methods. The next session still has the ids of this one.
pub fn kept(agent: &Agent) -> EventMask {
    let forever = EventMask::IMMUTABLE.union(EventMask::ENABLE_REJIT);
    let (low, high) = agent.event_mask;
    EventMask::from_words(low & forever.low(), high & forever.high())
        .union(EventMask::MODULE_LOADS)
        .union(EventMask::DYNAMIC_FUNCTION_UNLOADS)
}

/// The runtime does no more work for us than it has to. Should it refuse, callbacks find a session
/// that has ended.
pub fn idle(agent: &Agent) {
    let _ = agent.runtime.info().set_event_mask(kept(agent));
}
