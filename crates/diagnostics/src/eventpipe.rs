#[cfg(target_os = "linux")]
use crate::keeper::{Keeper, Kept, Shared};
use crate::message::{Command, Fields, Payload};
use crate::platform::transport::Stream;
#[cfg(target_os = "linux")]
use crate::port::{message, read_answer};
use crate::{Error, Port};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The last form of the command that old runtimes know, which can hang when a session ends while
/// they are overloaded.
#[cfg(target_os = "linux")]
pub(crate) const OLD_FORM: u32 = 2;

/// How long an orderly end may take when a session is dropped that nobody keeps.
const END_LIMIT: Duration = Duration::from_secs(2);

/// There are no keepers.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) enum Kept {}

#[cfg(not(target_os = "linux"))]
impl Kept {
    pub(crate) fn is_taken(&self) -> bool {
        match *self {}
    }

    pub(crate) fn stopped(&self) {
        match *self {}
    }
}

/// One source of events of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its name, such as `Microsoft-Windows-DotNETRuntime`.
    pub name: String,
    /// Which groups of events: a bit for each.
    pub keywords: u64,
    /// How much of them: 1 critical, 2 error, 3 warning, 4 informational, 5 verbose.
    pub level: u32,
    /// Filter text that the provider itself reads; empty for none.
    pub arguments: String,
}

impl Provider {
    /// The runtime's own events.
    pub const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";

    /// A provider without filter text.
    pub fn new(name: &str, keywords: u64, level: u32) -> Self {
        Self { name: name.to_owned(), keywords, level, arguments: String::new() }
    }

    /// The runtime's garbage collection events: keyword `GC`, level informational.
    pub fn gc() -> Self {
        Self::new(Self::RUNTIME, 0x1, 4)
    }
}

/// What an EventPipe session collects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPipeConfig {
    /// The sources.
    pub providers: Vec<Provider>,
    /// Most memory that the runtime may use for buffers, in MiB. It drops events when they are
    /// full.
    pub buffer_mib: u32,
    /// Whether the runtime describes all loaded code when the session stops, which can take
    /// minutes. .NET Core 3.0 cannot leave it out.
    pub rundown: bool,
    /// Whether each event carries the stack of its thread. Runtimes before .NET 9 cannot leave it
    /// out.
    pub stacks: bool,
}

impl EventPipeConfig {
    /// A session without rundown and without stacks, with buffers of 16 MiB.
    pub fn new(providers: Vec<Provider>) -> Self {
        Self { providers, buffer_mib: 16, rundown: false, stacks: false }
    }

    /// The command in one of its forms, 1 to 4; see the table in the protocol's documentation.
    pub(crate) fn command(&self, form: u32) -> (Command, Payload) {
        /// The format of the stream: nettrace.
        const NETTRACE: u32 = 1;
        /// What a plain `true` stands for in the forms before 4: loaders, methods and compilation.
        const RUNDOWN_KEYWORDS: u64 = 0x8002_0139;
        let mut payload = Payload::new().u32(self.buffer_mib.max(1)).u32(NETTRACE);
        let command = match form {
            4.. => {
                payload = payload
                    .u64(if self.rundown { RUNDOWN_KEYWORDS } else { 0 })
                    .u8(self.stacks.into());
                Command::COLLECT_TRACING_4
            }
            3 => {
                payload = payload.u8(self.rundown.into()).u8(self.stacks.into());
                Command::COLLECT_TRACING_3
            }
            2 => {
                payload = payload.u8(self.rundown.into());
                Command::COLLECT_TRACING_2
            }
            _ => Command::COLLECT_TRACING,
        };
        payload = payload.u32(u32::try_from(self.providers.len()).unwrap_or(u32::MAX));
        for provider in &self.providers {
            payload = payload
                .u64(provider.keywords)
                .u32(provider.level)
                .string(&provider.name)
                .string(&provider.arguments);
        }
        (command, payload)
    }
}

/// A running EventPipe session: reading it gives the nettrace stream.
///
/// A read ends with [`io::ErrorKind::TimedOut`] when nothing came for the idle limit, which is
/// normal for a quiet process; reading again continues where it was. When the session is dropped it
/// is stopped.
///
/// Where the end was [put off](Stopper::stop), or nothing was read for so long that the keeper has
/// ended the session, reading fails with [`io::ErrorKind::ConnectionAborted`], so that whoever
/// reads drops the session.
///
/// The connection is never just closed: a runtime whose connection breaks ends the session in a way
/// that can hang .NET Core 3.1 and crash later ones.
#[derive(Debug)]
pub struct EventPipeSession {
    stream: Stream,
    stopper: Stopper,
    kept: Option<Kept>,
}

/// Ends a session from another thread than the one that reads it.
#[derive(Clone, Debug)]
pub struct Stopper {
    port: Port,
    id: u64,
    form: u32,
    /// Whether a keeper ends the session when it is dropped.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there are no keepers"))]
    is_kept: bool,
    asked: Arc<AtomicBool>,
    /// The session is left to its keeper.
    left: Arc<AtomicBool>,
    /// The runtime answered that the session has ended.
    stopped: Arc<AtomicBool>,
}

impl Port {
    /// Starts an EventPipe session. The newest form of the command that the runtime knows is used,
    /// see [`EventPipeConfig`] for what older runtimes leave out.
    ///
    /// .NET Core 3.1 answers some milliseconds before it collects: events of that time are missing
    /// without a trace. The head of the stream comes when it does collect.
    ///
    /// The session breaks if this process is killed, which can end or hang the runtime: see
    /// `Keeper` (Linux).
    pub fn collect(&self, config: &EventPipeConfig) -> Result<EventPipeSession, Error> {
        self.collect_with(config, |command, payload, timeout| {
            self.exchange(command, payload, timeout)
                .map(|(stream, payload)| (stream, payload, None))
        })
    }

    /// As [`Self::collect`], with a session that the keeper knows, where there is one.
    #[cfg(target_os = "linux")]
    fn collect_kept(
        &self,
        config: &EventPipeConfig,
        keeper: Option<&Shared>,
    ) -> Result<EventPipeSession, Error> {
        let (Some(keeper), Some((path, pid))) = (keeper, self.listening()) else {
            return self.collect(config);
        };
        if let Some(pid) = pid {
            crate::limits::check_session(pid)?;
        }
        self.collect_with(config, |command, payload, timeout| {
            let message = message(command, payload)?;
            let deadline = Instant::now() + timeout;
            let connection = self.connect(deadline)?;
            let channel = keeper
                .send(&connection, path, pid, &message)
                .map_err(|source| Error::Keeper { source })?;
            let again = channel.try_clone().map_err(|source| Error::Keeper { source })?;
            let payload = read_answer(&mut Stream::new(again, deadline), command, timeout)?;
            Ok((connection, payload, Some(Kept::new(channel))))
        })
    }

    /// Tries the forms of the command with `exchange`, newest first.
    fn collect_with(
        &self,
        config: &EventPipeConfig,
        exchange: impl Fn(Command, Payload, Duration) -> Result<(Stream, Vec<u8>, Option<Kept>), Error>,
    ) -> Result<EventPipeSession, Error> {
        let deadline = Instant::now() + self.session_timeout();
        let mut last = None;
        for form in (1..=4).rev() {
            let (command, payload) = config.command(form);
            match exchange(command, payload, deadline.saturating_duration_since(Instant::now())) {
                Ok((stream, payload, kept)) => {
                    let id = Fields::new(&payload)
                        .u64()
                        .map_err(|what| Error::Garbage { command: command.name, what })?;
                    return Ok(EventPipeSession::new(self.clone(), id, stream, form, kept));
                }
                Err(error) if error.is_unknown_command() => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or(Error::Closed { command: Command::COLLECT_TRACING.name }))
    }
}

#[cfg(target_os = "linux")]
impl Keeper {
    /// Starts an EventPipe session; see [`Port::collect`].
    ///
    /// # Errors
    /// Those of [`Port::collect`], and [`Error::Keeper`] when the keeper is gone.
    pub fn collect(
        &self,
        port: &Port,
        config: &EventPipeConfig,
    ) -> Result<EventPipeSession, Error> {
        port.collect_kept(config, self.0.as_deref())
    }
}

impl EventPipeSession {
    /// How long a read waits for events when nothing else was said.
    pub const DEFAULT_IDLE_LIMIT: Duration = Duration::from_millis(500);

    pub(crate) fn new(
        port: Port,
        id: u64,
        mut stream: Stream,
        form: u32,
        kept: Option<Kept>,
    ) -> Self {
        stream.set_idle_limit(Self::DEFAULT_IDLE_LIMIT);
        let stopper = Stopper {
            port,
            id,
            form,
            is_kept: kept.is_some(),
            asked: Arc::default(),
            left: Arc::default(),
            stopped: Arc::default(),
        };
        Self { stream, stopper, kept }
    }

    /// The runtime's number for the session.
    pub fn id(&self) -> u64 {
        self.stopper.id
    }

    /// The form of the command that the runtime knew: 1 (.NET Core 3.0) to 4 (.NET 9).
    pub fn form(&self) -> u32 {
        self.stopper.form
    }

    /// Sets how long a read waits for events.
    pub fn set_idle_limit(&mut self, limit: Duration) {
        self.stream.set_idle_limit(limit);
    }

    /// A handle that ends the session. The stream then ends after the events that the runtime still
    /// has.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }
}

impl Stopper {
    /// Ends the session. Blocks until the runtime has written everything that it buffered, so the
    /// stream has to be read meanwhile. Does nothing the second time.
    ///
    /// The end of a session can make .NET Core 3.1 hang on an overloaded machine (see
    /// [`overload`](crate::overload), Linux): then it is put off for half of the time. A session
    /// that has a keeper is left to it afterwards; any other is ended all the same.
    ///
    /// # Errors
    /// [`Error::Overloaded`] when the session is left to its keeper: reading it fails from now on.
    pub fn stop(&self, timeout: Duration) -> Result<(), Error> {
        if self.asked.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        #[cfg(target_os = "linux")]
        if self.form <= OLD_FORM
            && let Some(pid) = self.port.listening().and_then(|(_, pid)| pid)
            && let Some(wait) = crate::overload::wait_until_over(pid, timeout / 2)
            && self.is_kept
        {
            self.left.store(true, Ordering::Release);
            return Err(Error::Overloaded { pid, wait });
        }
        self.port.stop_tracing(self.id, timeout)?;
        self.stopped.store(true, Ordering::Release);
        Ok(())
    }
}

impl Read for EventPipeSession {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stopper.left.load(Ordering::Acquire) {
            return Err(aborted(
                "the process waits long for processors, and the end of an event session could \
                 make it hang: the session ends later, without what it has of the last moments",
            ));
        }
        let read = self.stream.read(buffer);
        // Looked at afterwards: what was read before the keeper began is whole.
        if self.kept.as_ref().is_some_and(Kept::is_taken) {
            self.stopper.asked.store(true, Ordering::Relaxed);
            return Err(aborted(
                "clrscope was stopped, or waited for its disk, and did not read its events: the \
                 session was ended, so that the process does not wait for that",
            ));
        }
        read
    }
}

fn aborted(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, why)
}

impl Drop for EventPipeSession {
    fn drop(&mut self) {
        if let Some(kept) = &self.kept {
            if self.stopper.stopped.load(Ordering::Acquire) {
                kept.stopped();
            }
            // The keeper reads and ends what has not ended.
            return;
        }
        let until = Instant::now() + END_LIMIT;
        let stopper = self.stopper.clone();
        // It may have stopped by itself meanwhile, or be gone.
        let stopping = std::thread::Builder::new().spawn(move || stopper.stop(END_LIMIT));
        self.stream.set_deadline(until);
        let mut buffer = vec![0; 64 << 10];
        // The runtime answers when everything was read. An error is the end of the time, or of the
        // connection.
        while stopping.is_ok() && self.stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
        if let Ok(stopping) = stopping {
            // Both had the same time.
            let _ = stopping.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::HEADER;

    #[test]
    fn the_forms_differ_by_their_flags() {
        let config = EventPipeConfig {
            stacks: true,
            ..EventPipeConfig::new(vec![Provider::new("P", 3, 4)])
        };
        let payload = |form| {
            let (command, payload) = config.command(form);
            payload.message(command).unwrap()[HEADER..].to_vec()
        };
        let head = [16, 0, 0, 0, 1, 0, 0, 0];
        let providers =
            [1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, b'P', 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(payload(1), [&head[..], &providers].concat());
        assert_eq!(payload(2), [&head[..], &[0], &providers].concat());
        assert_eq!(payload(3), [&head[..], &[0, 1], &providers].concat());
        assert_eq!(payload(4), [&head[..], &[0, 0, 0, 0, 0, 0, 0, 0, 1], &providers].concat());
    }
}
