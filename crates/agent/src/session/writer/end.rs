//! The end of a session: the last words, and the request to detach.

use super::{CONNECT_LIMIT, Gone, Writer};
use crate::engines::probes::traced;
use crate::host::Phase;
use crate::ledger;
use crate::os::connection::Connection;
use crate::os::signals::{self};
use crate::os::{clock, tasks};
use crate::session::agent::Agent;
use crate::session::{event_mask, fault};
use com::codes::{
    CORPROF_E_IMMUTABLE_FLAGS_SET, CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT,
    CORPROF_E_PROFILER_DETACHING,
};
use com::hresult::E_FAIL;
use corprof::Error;
use std::sync::atomic::Ordering::SeqCst;
use wire::frame::FrameBuilder;
use wire::{Bye, ByeReason, Hello, LogLevel, Nanos, Record, Status};

/// How long and how often the runtime is asked to let us go before we stop to listen to it,
/// nanoseconds; and how often from then on.
const DETACH_SOON: Nanos = 5_000_000_000;
const DETACH_PAUSE: Nanos = 20_000_000;
const DETACH_LATER: Nanos = 500_000_000;

impl Writer<'_> {
    /// Everything that was collected, and the last words.
    pub(super) fn end(&mut self, reason: Result<ByeReason, Gone>) {
        self.agent.advance(Phase::Stopping);
        self.agent.stop_collecting();
        if let Ok(reason) = reason {
            // Where nobody listens any more, there is nothing else to do.
            let _ = self.say_goodbye(reason);
        }
        self.give_back_tables();
    }

    /// Gives back what threads that are gone have left. A process that ends takes it with it.
    pub(super) fn give_back_tables(&self) {
        if !self.agent.is_shutdown() {
            traced::give_back();
        }
    }

    pub(super) fn say_goodbye(&mut self, reason: ByeReason) -> Result<(), Gone> {
        self.flush_collectors()?;
        self.flush_calls(true)?;
        self.flush_allocated()?;
        self.flush_traced()?;
        self.drain()?;
        let mut status = self.status();
        // What is left of it decides whether we can leave.
        self.agent.signals.stop(self.agent);
        self.drain()?;
        self.give_back_tables();
        status.resources = ledger::report();
        let reason = match reason {
            _ if self.agent.is_shutdown() => reason,
            _ if signals::must_stay() => ByeReason::Handler,
            _ if self.agent.is_hooked() => ByeReason::Hooked,
            ByeReason::Stopped if self.agent.is_resident() => ByeReason::Resident,
            _ if self.agent.exceptions.is_kept() => ByeReason::Kept,
            _ if self.agent.leaving.may_leave(self.agent) => reason,
            _ => ByeReason::Stays,
        };
        self.put(Record::Bye(Bye { reason, status }))?;
        self.send()
    }
}

/// Says that there is no session, and why: a connection of its own.
pub fn say_bye(config: &wire::SessionConfig, hello: Hello, reason: ByeReason, why: &str) {
    let Ok(mut connection) = Connection::open(&config.socket, CONNECT_LIMIT / 4) else { return };
    connection.set_write_limit(200_000_000);
    let mut frame = FrameBuilder::default();
    let level = if reason == ByeReason::Skipped { LogLevel::Info } else { LogLevel::Error };
    let bye = Bye { reason, status: Status::default() };
    for record in
        [Record::Hello(hello), Record::Log { level, message: why.to_owned() }, Record::Bye(bye)]
    {
        if frame.push(&record).is_err() {
            return;
        }
    }
    if let Ok(mut turn) = connection.turn() {
        let _ = frame.write_to(&mut turn);
    }
}

impl Agent {
    /// The first words of a session.
    pub fn hello(&self, token: [u8; 16], entered: Nanos) -> Hello {
        Hello {
            protocol: wire::PROTOCOL_VERSION,
            token,
            pid: std::process::id(),
            runtime: self.runtime.version(),
            info_version: self.runtime.info().version(),
            notify_only: self.notify_only,
            event_mask: self.event_mask,
            entered,
            command_line: tasks::command_line(),
        }
    }

    /// clrscope is ready: a launched process may continue.
    pub(super) fn go(&self) {
        self.go.store(true, SeqCst);
    }

    /// Asks the runtime to let us go, again and again while it is busy with something else.
    pub(super) fn detach(&self) {
        if !self.leaving.is_safe_to_detach(self) {
            return event_mask::idle(self);
        }
        let soon = clock::monotonic() + DETACH_SOON;
        let mut is_idle = false;
        while !self.is_shutdown() {
            let answer = match fault::refuses_detach(self) && !is_idle {
                true => Err(Error::Hr { call: "RequestProfilerDetach", hresult: E_FAIL }),
                false => self.runtime.request_detach(self.config.quota),
            };
            match answer {
                Ok(()) => return,
                Err(Error::Hr { hresult: CORPROF_E_PROFILER_DETACHING, .. }) => return,
                // It never will: we stay, and do nothing.
                Err(Error::Hr {
                    hresult:
                        CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT | CORPROF_E_IMMUTABLE_FLAGS_SET,
                    ..
                }) => return event_mask::idle(self),
                Err(_) => {}
            }
            let is_late = clock::monotonic() >= soon;
            if is_late && !is_idle {
                // Until it does, it need not call us more than it has to.
                is_idle = true;
                event_mask::idle(self);
                fault::write_events(self);
            }
            clock::sleep_until(
                clock::monotonic() + if is_late { DETACH_LATER } else { DETACH_PAUSE },
            );
        }
    }
}
