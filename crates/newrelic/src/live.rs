//! What the managed agent changes while the program runs: instrumentation and configuration.

use crate::instance::{Instance, Live};
use crate::{refresh, start};
use newrelic_compat::log::{Level, Message, texts};
use std::sync::Arc;

/// `HRESULT`s that these functions give (winerror.h).
pub const S_OK: i32 = 0;
/// Nothing was changed.
pub const S_FALSE: i32 = 1;
/// It failed, or there is no profiler.
pub const E_FAIL: i32 = 0x8000_4005_u32.cast_signed();

/// Reads instrumentation again, and has methods compiled again where that changes something.
pub fn refresh_instrumentation(instance: &Arc<Instance>) -> i32 {
    told(instance, "InstrumentationRefresh", |instance| {
        refresh_with(instance, &mut instance.live())
    })
}

fn refresh_with(instance: &Arc<Instance>, live: &mut Live) -> i32 {
    let loaded = instance.load(live);
    instance.log.messages(&loaded.messages);
    if loaded.invalid_files > 0 {
        instance.log(
            Level::Error,
            "Unable to refresh the instrumentation: at least one file is invalid.",
        );
        return S_FALSE;
    }
    match refresh::apply(instance, loaded.points) {
        Ok(()) => S_OK,
        Err(problem) => {
            instance.log(Level::Error, &problem);
            E_FAIL
        }
    }
}

/// Reads the configuration again: the settings of the log and the classes that are ignored.
pub fn reload_configuration(instance: &Arc<Instance>) -> i32 {
    told(instance, "ReloadConfiguration", |instance| {
        let mut live = instance.live();
        match start::configuration(&instance.environment, &instance.home) {
            Ok(configuration) => {
                instance.log.messages(&configuration.messages);
                let (settings, _) = start::log_settings(&instance.environment, &configuration);
                instance.log.configure(settings);
                live.ignored = configuration.ignored;
                refresh_with(instance, &mut live)
            }
            Err(problem) => {
                instance.log(Level::Error, &problem);
                E_FAIL
            }
        }
    })
}

/// Keeps an instrumentation file until it is applied.
pub fn add_custom_instrumentation(instance: &Instance, name: String, xml: String) -> i32 {
    instance.live().custom.add(name, xml);
    S_OK
}

/// Applies the files that were added.
pub fn apply_custom_instrumentation(instance: &Arc<Instance>) -> i32 {
    told(instance, "ApplyCustomInstrumentation", |instance| {
        let mut live = instance.live();
        if live.custom.apply() { refresh_with(instance, &mut live) } else { S_OK }
    })
}

/// Logs that a function for the managed agent begins and ends.
fn told(instance: &Arc<Instance>, function: &str, run: impl FnOnce(&Arc<Instance>) -> i32) -> i32 {
    let log = |message: Message| instance.log(message.level, &message.text);
    log(texts::enter(function));
    let result = run(instance);
    log(texts::leave(function));
    result
}
