#[cfg(target_os = "linux")]
use crate::keeper::{Keeper, Kept, Shared};
use crate::message::{Command, Fields, Payload};
use crate::platform::transport::Stream;
#[cfg(target_os = "linux")]
use crate::port::{message, read_answer};
use crate::{Error, Port};
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The last form of the command that old runtimes know, which can hang when a session ends while
/// they are overloaded.
#[cfg(target_os = "linux")]
pub(crate) const OLD_FORM: u32 = 2;

/// How long an orderly end may take when a session is dropped that nobody keeps.
const END_LIMIT: Duration = Duration::from_secs(2);

/// How long a session is read before it is ended, where the keeper may have done so before it died.
const GRACE: Duration = Duration::from_secs(2);

/// How long the runtime may take to end a session whose keeper has died.
const ALONE_LIMIT: Duration = Duration::from_secs(10);

/// What is known of a session that a keeper has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// The keeper was asked to end the session.
    pub asked: bool,
    /// Whether the keeper ended the session when it was asked.
    pub answer: Option<bool>,
    /// The keeper has taken the session over, because it was not read: what comes from now on is
    /// incomplete.
    pub taken: bool,
    /// The keeper has read the session to its end.
    pub over: bool,
    /// The keeper does not have the session any more. If that is not over, the keeper was killed.
    pub gone: bool,
}

impl Known {
    /// Whether the runtime has ended the session.
    fn has_ended(self) -> bool {
        self.over || self.answer == Some(true)
    }

    /// Whether there is no process left that would end the session.
    fn is_abandoned(self) -> bool {
        self.gone && !self.has_ended()
    }

    /// Whether the keeper may have ended the session.
    fn may_have_ended(self) -> bool {
        self.taken || self.asked
    }
}

/// There are no keepers.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) enum Kept {}

#[cfg(not(target_os = "linux"))]
impl Kept {
    pub(crate) fn known(&self) -> Known {
        match *self {}
    }

    pub(crate) fn ask(&self) {
        match *self {}
    }

    pub(crate) fn answer(&self, _deadline: Instant) -> Known {
        match *self {}
    }

    pub(crate) fn leave(&self) {
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
/// reads drops the session. So it does when the keeper was killed: nothing would end the session in
/// order if this process were killed as well.
///
/// The connection is never just closed: a runtime whose connection breaks ends the session in a way
/// that can hang .NET Core 3.1 and crash later ones.
#[derive(Debug)]
pub struct EventPipeSession {
    stream: Stream,
    stopper: Stopper,
    /// The keeper has died, and the session is to be dropped.
    abandoned: bool,
}

/// Ends a session from another thread than the one that reads it.
#[derive(Clone, Debug)]
pub struct Stopper {
    port: Port,
    id: u64,
    form: u32,
    /// What the keeper says, where there is one.
    kept: Option<Arc<Kept>>,
    state: Arc<State>,
}

/// What clones of a [`Stopper`] share.
#[derive(Debug, Default)]
struct State {
    /// The end was asked for.
    asked: AtomicBool,
    /// The session is ended by us, because its keeper has died.
    alone: AtomicBool,
    /// The session is left to its keeper, because of this.
    left: OnceLock<crate::Overload>,
    /// The stream has come to its end.
    ended: AtomicBool,
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
        let stopper = Stopper { port, id, form, kept: kept.map(Arc::new), state: Arc::default() };
        Self { stream, stopper, abandoned: false }
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
    /// stream has to be read meanwhile. Does nothing the second time, or when the keeper has taken
    /// the session over.
    ///
    /// The end of a session can make .NET Core 3.1 hang on an overloaded machine, and ends a
    /// process that has no address space left (see [`overload`](crate::overload), Linux): then it
    /// is put off for half of the time. A session that has a keeper is left to it afterwards; any
    /// other is ended all the same.
    ///
    /// # Errors
    /// [`Error::Overloaded`] when the session is left to its keeper: reading it fails from now on.
    pub fn stop(&self, timeout: Duration) -> Result<(), Error> {
        if self.state.asked.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let Some(kept) = &self.kept else {
            let _ = self.wait_while_overloaded(timeout / 2);
            return self.port.stop_tracing(self.id, timeout);
        };
        let known = kept.known();
        if known.has_ended() || self.state.ended.load(Ordering::Acquire) {
            return Ok(());
        }
        if !known.gone {
            // The keeper ends what it has taken.
            if known.taken {
                return Ok(());
            }
            if let Some(overload) = self.wait_while_overloaded(timeout / 2)
                && !kept.known().gone
            {
                let _ = self.state.left.set(overload);
                return Err(Error::Overloaded(overload));
            }
            // Ids of sessions come again: only the keeper knows whether this one has ended.
            kept.ask();
            let known = kept.answer(Instant::now() + timeout);
            if !known.is_abandoned() {
                let command = Command::STOP_TRACING.name;
                return match known.answer {
                    Some(false) if !known.over => Err(Error::Closed { command }),
                    None if !known.over && !known.taken => {
                        Err(Error::Timeout { command, after: timeout })
                    }
                    _ => Ok(()),
                };
            }
        }
        self.stop_alone(kept, timeout)
    }

    /// Ends a session whose keeper has died. Does nothing the second time.
    fn stop_alone(&self, kept: &Kept, timeout: Duration) -> Result<(), Error> {
        if self.state.alone.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let has_ended = || self.state.ended.load(Ordering::Acquire) || kept.known().has_ended();
        // Where the keeper has sent it, the end comes by itself.
        let until =
            Instant::now() + if kept.known().may_have_ended() { GRACE } else { Duration::ZERO };
        while !has_ended() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        if has_ended() {
            return Ok(());
        }
        let _ = self.wait_while_overloaded(timeout / 2);
        self.port.stop_tracing(self.id, timeout)
    }

    /// Whether there was a keeper, and no process is left that would end the session.
    fn is_abandoned(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.known().is_abandoned())
    }

    /// Waits as long as the end of the session could make the runtime hang, for `limit` at most.
    /// Why it still could.
    fn wait_while_overloaded(&self, limit: Duration) -> Option<crate::Overload> {
        #[cfg(target_os = "linux")]
        if self.form <= OLD_FORM
            && let Some(pid) = self.port.listening().and_then(|(_, pid)| pid)
        {
            return crate::overload::wait_until_over(pid, limit);
        }
        let _ = limit;
        None
    }
}

impl Read for EventPipeSession {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(overload) = self.stopper.state.left.get() {
            return Err(aborted(match overload {
                crate::Overload::AddressSpace { .. } => {
                    "the process has no address space left, and the end of an event session would \
                     end it: the session ends later, without what it has of the last moments"
                }
                _ => {
                    "the process waits long for processors, and the end of an event session could \
                     make it hang: the session ends later, without what it has of the last moments"
                }
            }));
        }
        if self.abandoned {
            return Err(abandoned());
        }
        let read = self.stream.read(buffer);
        let is_end = matches!(read, Ok(0)) && !buffer.is_empty();
        if is_end {
            self.stopper.state.ended.store(true, Ordering::Release);
        }
        // Looked at afterwards: what was read before the keeper began is whole.
        if self.stopper.kept.as_ref().is_some_and(|kept| kept.known().taken) {
            return Err(aborted(
                "clrscope was stopped, or waited for its disk, and did not read its events: the \
                 session was ended, so that the process does not wait for that",
            ));
        }
        self.abandoned = !is_end && self.stopper.is_abandoned();
        match read {
            // The next read says it.
            Ok(1..) => read,
            _ if self.abandoned => Err(abandoned()),
            _ => read,
        }
    }
}

fn abandoned() -> io::Error {
    aborted(
        "the event-keeper was killed: the session was ended, because nothing would have ended it in \
         order if clrscope had been killed, too",
    )
}

fn aborted(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, why)
}

impl Drop for EventPipeSession {
    fn drop(&mut self) {
        let state = &self.stopper.state;
        if let Some(kept) = &self.stopper.kept {
            let known = kept.known();
            if !known.gone {
                // The keeper reads to the end, and ends what has not ended.
                kept.leave();
                return;
            }
            if known.has_ended() || state.ended.load(Ordering::Acquire) {
                return;
            }
        }
        let limit = if self.stopper.kept.is_some() { ALONE_LIMIT } else { END_LIMIT };
        let stopper = self.stopper.clone();
        // It may have stopped by itself meanwhile, or be gone.
        let stopping = std::thread::Builder::new().spawn(move || match &stopper.kept {
            Some(kept) => stopper.stop_alone(kept, limit),
            None => stopper.stop(limit),
        });
        self.stream.set_deadline(Instant::now() + limit);
        let mut buffer = vec![0; 64 << 10];
        // The runtime answers when everything was read. An error is the end of the time, or of the
        // connection.
        let mut is_more = || match self.stream.read(&mut buffer) {
            Ok(read) => read > 0,
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
        };
        while stopping.is_ok() && is_more() {}
        state.ended.store(true, Ordering::Release);
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
    #[cfg(target_os = "linux")]
    use std::{
        io::Write,
        os::unix::net::{UnixListener, UnixStream},
    };

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

    /// A session, with a test that acts as the runtime and as the keeper.
    #[cfg(target_os = "linux")]
    struct Played {
        session: EventPipeSession,
        listener: UnixListener,
        runtime: UnixStream,
        keeper: UnixStream,
        _folder: tempfile::TempDir,
    }

    #[cfg(target_os = "linux")]
    impl Played {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("port");
            let listener = UnixListener::bind(&path).unwrap();
            let port = Port::new(&path, None);
            let stream = port.connect(Instant::now() + LIMIT).unwrap();
            let (runtime, _) = listener.accept().unwrap();
            listener.set_nonblocking(true).unwrap();
            let (ours, keeper) = UnixStream::pair().unwrap();
            keeper.set_read_timeout(Some(LIMIT)).unwrap();
            let session = EventPipeSession::new(port, 77, stream, 4, Some(Kept::new(ours)));
            Self { session, listener, runtime, keeper, _folder: folder }
        }

        fn is_stopped_within(&self, limit: Duration) -> bool {
            is_stopped_within(&self.listener, limit)
        }

        /// Reads until something else than events comes.
        fn read_all(&mut self) -> io::Result<usize> {
            loop {
                match self.session.read(&mut [0; 64]) {
                    Ok(1..) => {}
                    Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                    other => return other,
                }
            }
        }
    }

    /// Whether somebody has connected to end the session, in this time.
    #[cfg(target_os = "linux")]
    fn is_stopped_within(listener: &UnixListener, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        loop {
            match listener.accept() {
                Ok((mut stop, _)) => {
                    stop.set_nonblocking(false).unwrap();
                    let mut message = [0; HEADER + 8];
                    stop.read_exact(&mut message).unwrap();
                    assert_eq!(message, crate::message::stop_tracing(77));
                    let answer = Payload::new().u64(77).message(OK).unwrap();
                    stop.write_all(&answer).unwrap();
                    return true;
                }
                Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                Err(_) => return false,
            }
        }
    }

    #[cfg(target_os = "linux")]
    const LIMIT: Duration = Duration::from_secs(20);

    #[cfg(target_os = "linux")]
    const OK: Command = Command { set: 0xff, id: 0, name: "OK" };

    /// Its id may be that of another tool's session by then.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_session_that_its_keeper_has_taken_is_not_ended_here() {
        let mut played = Played::new();
        let stopper = played.session.stopper();
        played.keeper.write_all(b"t").unwrap();
        stopper.stop(LIMIT).unwrap();
        assert!(!played.is_stopped_within(Duration::from_millis(100)));
        // It is also not asked to do so.
        let error = played.read_all().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
        let Played { session, mut keeper, .. } = played;
        drop(session);
        assert_eq!(keeper.read(&mut [0; 8]).unwrap(), 0);
    }

    /// Only one process sends it.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_keeper_ends_the_session_when_it_is_asked() {
        for (answer, ends) in [(b"d", true), (b"f", false), (b"e", true), (b"t", true)] {
            let mut played = Played::new();
            let stopper = played.session.stopper();
            let stopping = std::thread::spawn(move || stopper.stop(LIMIT).is_ok());
            let mut asked = [0; 8];
            assert_eq!(played.keeper.read(&mut asked).unwrap(), 1);
            assert_eq!(asked[0], b's');
            played.keeper.write_all(answer).unwrap();
            assert_eq!(stopping.join().unwrap(), ends, "{}", answer.escape_ascii());
            played.session.stopper().stop(LIMIT).unwrap();
            assert!(!played.is_stopped_within(Duration::from_millis(100)));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_session_whose_keeper_was_killed_is_ended_in_order() {
        let mut played = Played::new();
        let (_, gone) = UnixStream::pair().unwrap();
        drop(std::mem::replace(&mut played.keeper, gone));
        played.runtime.write_all(b"events").unwrap();
        // What was there is read, and then whoever reads drops the session.
        assert_eq!(played.session.read(&mut [0; 64]).unwrap(), 6);
        for _ in 0..2 {
            let error = played.session.read(&mut [0; 64]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
            assert!(error.to_string().starts_with("the event-keeper was killed"), "{error}");
        }
        let Played { session, listener, mut runtime, .. } = played;
        let stopper = session.stopper();
        let dropping = std::thread::spawn(move || drop(session));
        assert!(is_stopped_within(&listener, LIMIT), "it was not ended");
        // What the runtime still had is read.
        runtime.write_all(&[0; 1 << 20]).expect("the connection broke");
        runtime.shutdown(std::net::Shutdown::Both).unwrap();
        dropping.join().unwrap();
        // Whoever stops it later does nothing.
        stopper.stop(LIMIT).unwrap();
        assert!(!is_stopped_within(&listener, Duration::from_millis(100)));
    }

    /// A keeper that dies when it was asked may have ended the session.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_session_whose_keeper_dies_when_it_is_asked_is_ended_once() {
        for sent in [true, false] {
            let mut played = Played::new();
            let stopper = played.session.stopper();
            let stopping = std::thread::spawn(move || stopper.stop(LIMIT));
            assert_eq!(played.keeper.read(&mut [0; 8]).unwrap(), 1);
            let (_, gone) = UnixStream::pair().unwrap();
            drop(std::mem::replace(&mut played.keeper, gone));
            if sent {
                // The end comes by itself.
                played.runtime.shutdown(std::net::Shutdown::Both).unwrap();
                assert_eq!(played.read_all().unwrap(), 0);
            }
            assert_eq!(played.is_stopped_within(GRACE * 2), !sent);
            stopping.join().unwrap().unwrap();
        }
    }

    /// Whoever does not read it any more still ends it, where no other process does.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_session_that_is_dropped_without_a_keeper_is_read_and_ended() {
        let Played { session, listener, mut runtime, keeper, _folder } = Played::new();
        drop(keeper);
        let dropping = std::thread::spawn(move || drop(session));
        assert!(is_stopped_within(&listener, LIMIT), "it was not ended");
        runtime.write_all(&[0; 1 << 20]).expect("the connection broke");
        runtime.shutdown(std::net::Shutdown::Both).unwrap();
        dropping.join().unwrap();
    }

    /// A limit of time would be one of whoever has a duplicate, too.
    #[cfg(target_os = "linux")]
    #[test]
    fn reading_sets_no_limit_of_the_socket() {
        let mut played = Played::new();
        let duplicate = played.session.stream.socket().try_clone().unwrap();
        let error = played.session.read(&mut [0; 64]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(duplicate.read_timeout().unwrap(), None);
    }
}
