//! The event log of this process, if one is asked for.

use crate::log::Log;
use corprof::metadata::MethodDef;
use newrelic_compat::environment::{EVENT_LOG_VARIABLE, Environment};
use newrelic_compat::event_log::{Body, Event, EventLog, Head, What};
use newrelic_compat::loaded::{LoadedMethod, LoadedModule, Masked};
use newrelic_compat::log::Level;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Takes events from all threads. Nothing is made of what nobody asks for.
#[derive(Debug, Default)]
pub struct Events {
    log: Option<Mutex<EventLog>>,
    /// No more is written.
    has_ended: AtomicBool,
}

/// The bodies of a method before and after.
pub struct Bodies<'a> {
    /// The id by which the new one names the method.
    pub function: Option<u64>,
    /// Path of the managed agent, which they may name.
    pub agent: &'a str,
    pub before: &'a [u8],
    pub after: &'a [u8],
}

impl Events {
    /// The log that the environment asks for.
    ///
    /// # Errors
    /// It cannot be made. The text says why.
    pub fn open(environment: &Environment, head: &Head<'_>) -> Result<Self, String> {
        let Some(path) = environment.get(EVENT_LOG_VARIABLE).filter(|path| !path.is_empty()) else {
            return Ok(Self::default());
        };
        match EventLog::create(&path, head) {
            Ok(log) => Ok(Self { log: Some(Mutex::new(log)), has_ended: AtomicBool::new(false) }),
            Err(error) => Err(format!("Unable to make the event log {path}: {error}")),
        }
    }

    /// Whether there is a log that takes more. Ask before something is read for it alone.
    pub fn are_wanted(&self) -> bool {
        self.log.is_some() && !self.has_ended.load(Relaxed)
    }

    /// Path of the log.
    pub fn path(&self) -> Option<PathBuf> {
        let log = self.log.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(log.path().to_owned())
    }

    /// A method has a new body.
    pub fn rewritten(
        &self,
        log: &Log,
        (module, method): (&LoadedModule, &LoadedMethod),
        rule: &str,
        bodies: &Bodies<'_>,
    ) {
        if !self.are_wanted() {
            return;
        }
        let &Bodies { function, agent, before, after } = bodies;
        let masked = Masked { function, agent };
        let (text_before, text_after) = (module.text(before, masked), module.text(after, masked));
        let before = Body { bytes: before, text: text_before.as_deref() };
        let after = Body { bytes: after, text: text_after.as_deref() };
        self.write(log, (module, method), rule, What::Rewrite { function, before, after });
    }

    /// Something else happened to a method.
    pub fn write(
        &self,
        log: &Log,
        (module, method): (&LoadedModule, &LoadedMethod),
        rule: &str,
        what: What<'_>,
    ) {
        let Some(events) = self.log.as_ref().filter(|_| self.are_wanted()) else { return };
        let name = method.name_in_module(module);
        let line = Event { module: module.assembly(), name: &name, rule, what }.line();
        let written = events.lock().unwrap_or_else(PoisonError::into_inner).write(&line);
        if let Err(error) = written {
            self.has_ended.store(true, Relaxed);
            log.line(Level::Warn, || format!("The event log ends here: {error}"));
        }
    }

    /// The same for methods by their tokens.
    pub fn write_all(
        &self,
        log: &Log,
        module: &LoadedModule,
        methods: impl IntoIterator<Item = MethodDef>,
        rule: &str,
        what: What<'_>,
    ) {
        if !self.are_wanted() {
            return;
        }
        for method in
            methods.into_iter().filter_map(|method| LoadedMethod::read(module, method).ok())
        {
            self.write(log, (module, &method), rule, what);
        }
    }
}
