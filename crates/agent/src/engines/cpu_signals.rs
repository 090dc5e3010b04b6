//! CPU samples by timer signals: the place of the one [`SignalEngine`].

use crate::host::Host;
use crate::os::signals::SignalEngine;
use std::sync::{PoisonError, RwLock};
use wire::LogLevel;

/// The signal engine, where one runs.
#[derive(Default)]
pub struct CpuSignals(RwLock<Option<SignalEngine>>);

impl CpuSignals {
    /// Does something with the signal engine, where one runs. Callbacks may: the lock is held for
    /// writing only while the engine is put in its place or taken away.
    pub fn with<R>(&self, call: impl FnOnce(&SignalEngine) -> R) -> Option<R> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(call)
    }

    /// Puts the signal engine in its place: new threads are sampled from now on.
    pub fn keep(&self, engine: SignalEngine) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(engine);
    }

    /// Stops the signal engine, where one runs: no timer is left, and no handler.
    pub fn stop(&self, host: &Host) {
        // While threads that end are still heard.
        self.with(|engine| {
            engine.disarm();
            engine.give_back();
        });
        let engine = self.0.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(left) = engine.map(SignalEngine::stop) else { return };
        if let Some(why) = left.stays {
            host.log(
                LogLevel::Warning,
                format!("the agent remains loaded, and does nothing: {why}"),
            );
        }
        if left.stacks > 0 {
            let stacks = left.stacks;
            host.log(
                LogLevel::Warning,
                format!(
                    "{stacks} threads keep the alternate stacks (96 KB) that they got for the \
                    recording"
                ),
            );
        }
    }
}
