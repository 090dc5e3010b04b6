//! What a resident agent does after a session: it waits for the next one.
//!
//! An agent that has rewritten methods, or set hooks, keeps the main profiler slot until the
//! process ends. So does an agent that was asked to stay. Such an agent opens a reattach listener.
//! The listener is in no file system, and only users who may debug the process can find it
//! ([`crate::os::reattach`]). It receives what an attach request would bring, and a session begins
//! as after an attach.

use crate::engines::exceptions;
use crate::engines::probes;
use crate::engines::probes::jit_activity;
use crate::heap_memory;
use crate::host::Phase;
use crate::os::clock;
use crate::os::reattach::ReattachListener;
use crate::session::agent::Agent;
use crate::session::event_mask::{HEAP_REFUSED, allow_heap, event_mask, idle, kept};
use crate::session::sessions::Sessions;
use crate::session::writer;
use corprof::EventMask;
use profilers::trace::Rewriting;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use wire::{LogLevel, ResidentState, SessionConfig};

/// The message where memory that is set aside for a process without any is still in use.
const NO_RESERVE: &str = "the process ran out of memory during an earlier recording, and the agent \
    in it has no reserve left to survive that again; it can be recorded once it was restarted";

/// Runs a session to its end, and those that come after it, if the agent stays.
pub fn run(first: Arc<Agent>, sessions: &Sessions) {
    // Without one (no descriptors are left) the agent stays all the same, and cannot be reached.
    let door = if first.is_resident() { ReattachListener::open().ok().map(Arc::new) } else { None };
    let mut agent = first;
    loop {
        if let Some(door) = &door {
            agent.show_door(door);
        }
        writer::run(&agent);
        // One whose callbacks are switched off would hear nothing in a further session.
        if agent.is_shutdown() || !agent.is_resident() || agent.has_failed() {
            return;
        }
        let Some(next) = door.as_ref().and_then(|door| next(&agent, door)) else { return };
        sessions.replace(Some(Arc::clone(&next)));
        next.attached.store(true, SeqCst);
        next.advance(Phase::Running);
        agent = next;
    }
}

/// Waits for the next session; `None` if there can be none.
fn next(agent: &Arc<Agent>, door: &ReattachListener) -> Option<Arc<Agent>> {
    loop {
        door.say(ResidentState::Waits);
        let bytes = door.wait()?;
        if agent.is_shutdown() || agent.runtime.is_closed() {
            return None;
        }
        #[cfg(feature = "fault-injection")]
        crate::faults::begin();
        let entered = clock::monotonic();
        let Ok(mut config) = SessionConfig::from_bytes(&bytes) else { continue };
        door.say(ResidentState::Records);
        config.launched = false;
        if !heap_memory::has_reserve() {
            let hello = agent.hello(config.token, entered);
            writer::say_bye(&config, hello, wire::ByeReason::Refused, NO_RESERVE);
            continue;
        }
        // What was asked for before may keep the library here for good, whatever this session asks
        // for.
        config.stays = true;
        let mask = mask_of(agent, &config);
        jit_activity::restart();
        // The last mask may have left out suspensions.
        agent.runtime.code_map().begin();
        let heap_is_refused = allow_heap(agent.runtime.info(), &config, mask).is_err();
        let refused = match agent.runtime.info().set_event_mask(mask) {
            Ok(()) => {
                if Rewriting::of(&config) != Rewriting::Off {
                    probes::allow(&agent.runtime);
                }
                let mask = (mask.low(), mask.high());
                match Agent::new(Arc::clone(&agent.runtime), config.clone(), false, mask, entered) {
                    Ok(next) => {
                        if heap_is_refused {
                            next.log(LogLevel::Warning, HEAP_REFUSED.to_owned());
                        }
                        return Some(Arc::new(next));
                    }
                    Err(error) => error.to_string(),
                }
            }
            Err(error) => error.to_string(),
        };
        idle(agent);
        writer::say_bye(
            &config,
            agent.hello(config.token, entered),
            wire::ByeReason::Refused,
            &refused,
        );
    }
}

/// The events that a session through the reattach listener may request: those that a session that
/// attaches may request, and those that the runtime never reverts.
fn mask_of(agent: &Agent, config: &SessionConfig) -> EventMask {
    event_mask(config, false, exceptions::needed(agent.runtime.version())).union(kept(agent))
}
