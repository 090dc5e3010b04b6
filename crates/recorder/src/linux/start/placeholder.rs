//! A library that stays in place of a main profiler of ours.

use crate::{
    RecordError, RecordOptions,
    linux::{
        reattach::Loaded,
        staging::{IDLE_NAME, Staging},
        target::{Target, no_viewer},
    },
};
use diagnostics::HResult;
use std::{path::Path, time::Duration};
use wire::{CpuEngine, SessionConfig, sdk::SdkTools};

/// How long the runtime may take to load an agent that only stays.
const MAKE_UP_LIMIT: Duration = Duration::from_secs(5);

/// Compensates for a main profiler of ours that detaches from a process that keeps running: loads
/// an instance that does nothing as a notification-only profiler (see
/// [`SessionConfig::placeholder`]). All such instances of a process are in one library. Returns
/// false if there are too many to spend another profiler slot of the runtime on one, or if that
/// library is not found again.
pub(in crate::linux) fn make_up(pid: u32, options: &RecordOptions) -> Result<bool, RecordError> {
    let process = diagnostics::find_pid(pid)?;
    if !matches!(process.runtime_major_minor(), Some((6.., _))) {
        return Ok(true);
    }
    let port = process.port()?;
    let config = SessionConfig {
        protocol: wire::PROTOCOL_VERSION,
        socket: String::new(),
        token: [0; 16],
        profilers: Vec::new(),
        cpu: CpuEngine::Off,
        rate_hz: 1,
        max_frames: 1,
        launched: false,
        sdk_tools: SdkTools::None,
        placeholder: true,
        stays: false,
        quota: None,
        free_memory: None,
    };
    let load = |library: &Path| {
        let library = library.display().to_string();
        match port.attach_profiler(
            wire::CLSID_NOTIFY_ONLY,
            &library,
            &config.to_bytes(),
            MAKE_UP_LIMIT,
        ) {
            Ok(()) => Ok(true),
            Err(error) => match error.hresult() {
                Some(HResult::PROFILER_CANCEL_ACTIVATION | HResult::PROFILER_ALREADY_ACTIVE) => {
                    Ok(false)
                }
                _ => Err(error),
            },
        }
    };
    let target = Target::new(pid).map_err(|source| no_viewer(pid, source))?;
    let viewer = target.viewer()?;
    let Some(known) = Loaded::of(pid).placeholder else {
        let place = Staging::make_named(&viewer, &options.agent, IDLE_NAME)?;
        return match load(&place.agent_path()) {
            // Somebody may have removed it before it was loaded.
            Err(error) if error.hresult() == Some(HResult::MODULE_NOT_FOUND) => {
                let place = Staging::make_named(&viewer, &options.agent, IDLE_NAME)?;
                Ok(load(&place.agent_path())?)
            }
            result => Ok(result?),
        };
    };
    // Its file is removed; a library that is loaded is found by its name all the same (dlopen(3) of
    // glibc).
    for name in viewer.names_of(&known) {
        match load(&name) {
            Err(error) if error.hresult() == Some(HResult::MODULE_NOT_FOUND) => {}
            result => return Ok(result?),
        }
    }
    // Another library would be left, and one more each time.
    Ok(false)
}
