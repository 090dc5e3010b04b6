//! Faults that tests ask for, by parameters of a profiler that clrscope never sends. There are none
//! in release builds.

use crate::host::Host;

/// Whether a fault is asked for.
pub fn is_asked_for(host: &Host, name: &str) -> bool {
    cfg!(debug_assertions)
        && host
            .config
            .profilers
            .iter()
            .flat_map(|profiler| &profiler.params)
            .any(|(param, _)| param == name)
}

/// Panics, if that is asked for.
pub fn panic_if_asked(host: &Host, name: &str) {
    #[expect(clippy::panic, reason = "for tests only")]
    if is_asked_for(host, name) {
        panic!("a test has asked for it");
    }
}

/// Whether the runtime refuses to let the agent go, as a test has asked for.
pub fn refuses_detach(host: &Host) -> bool {
    is_asked_for(host, EVENTS_TO)
}

/// Writes the events that the agent still gets into the file that a test has named.
pub fn write_events(host: &Host) {
    // Without a test the runtime is not asked: the process may be ending.
    if !refuses_detach(host) {
        return;
    }
    let mut params = host.config.profilers.iter().flat_map(|profiler| &profiler.params);
    let file = params.find(|(param, _)| param == EVENTS_TO).map(|(_, file)| file);
    if let (Some(file), Ok(mask)) = (file, host.runtime.info().event_mask()) {
        let _ = std::fs::write(file, format!("{} {}", mask.low(), mask.high()));
    }
}

/// The parameter that names the file.
const EVENTS_TO: &str = "refuse-detach";
