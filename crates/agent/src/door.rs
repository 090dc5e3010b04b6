//! What becomes of an agent that the runtime never lets go of: it waits for the next session.
//!
//! Whoever has rewritten methods, or set hooks, stays in the one slot for a main profiler until the process ends. So the agent opens a
//! door before it goes idle: a socket that is known by the process alone. Through it comes what an attach request would
//! bring, and a session begins as after one. While one runs the door is shut.

use crate::agent::{Agent, Phase};
use crate::entry::event_mask;
use crate::os::clock;
use crate::os::door::Door;
use crate::sessions::Sessions;
use crate::{compiling, exception_events, instrumentation, writer};
use corprof::EventMask;
use profilers::trace::Rewriting;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use wire::SessionConfig;

/// Runs a session to its end, and those that come after it, if the runtime does not let go of us.
pub fn run(first: Arc<Agent>, sessions: &Sessions) {
    let mut agent = first;
    loop {
        writer::run(&agent);
        if agent.is_shutdown() || agent.notify_only || !agent.is_hooked() {
            return;
        }
        let Some(next) = next(&agent) else { return };
        sessions.replace(Some(Arc::clone(&next)));
        next.attached.store(true, SeqCst);
        next.advance(Phase::Running);
        agent = next;
    }
}

/// Waits for the next session; `None` if there can be none.
fn next(agent: &Arc<Agent>) -> Option<Arc<Agent>> {
    let door = Door::open().ok()?;
    loop {
        let mut caller = door.wait()?;
        let entered = clock::monotonic();
        let config = caller.read().ok().and_then(|bytes| SessionConfig::from_bytes(&bytes).ok());
        let Some(mut config) = config else { continue };
        config.launched = false;
        let mask = mask_of(agent, &config);
        compiling::restart();
        let made = agent.runtime.info().set_event_mask(mask).ok().and_then(|()| {
            if Rewriting::of(&config) != Rewriting::Off {
                instrumentation::allow(&agent.runtime);
            }
            let mask = (mask.low(), mask.high());
            Agent::new(Arc::clone(&agent.runtime), config, false, mask, entered).ok().map(Arc::new)
        });
        match made {
            Some(next) if caller.answer(wire::DoorAnswer::Begins).is_ok() => return Some(next),
            // Who has gone meanwhile wants nothing any more.
            Some(_) => idle(agent),
            None => {
                let _ = caller.answer(wire::DoorAnswer::Refused);
                idle(agent);
            }
        }
    }
}

/// What a session through the door may ask for: what one that attaches may, and what is never taken back.
fn mask_of(agent: &Agent, config: &SessionConfig) -> EventMask {
    event_mask(config, false, exception_events::needed(agent.runtime.version())).union(kept(agent))
}

/// What stays while nothing is recorded: what the runtime never takes back, and which modules come and go.
fn kept(agent: &Agent) -> EventMask {
    let forever = EventMask::IMMUTABLE.union(EventMask::ENABLE_REJIT);
    let (low, high) = agent.event_mask;
    EventMask::from_words(low & forever.low(), high & forever.high()).union(EventMask::MODULE_LOADS)
}

/// The runtime does no more work for us than it has to. Should it refuse, callbacks find a session that has ended.
pub fn idle(agent: &Agent) {
    let _ = agent.runtime.info().set_event_mask(kept(agent));
}
