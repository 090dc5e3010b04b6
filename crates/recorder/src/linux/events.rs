//! EventPipe sessions of a recording.

mod paced;

pub(super) use paced::{Paced, PacedEvents};

use super::sources::{EventSample, Readers};
use crate::RecordError;
use diagnostics::{EventPipeConfig, EventPipeSession, Keeper, Port, Stopper};
use nettrace::Reader;
use profilers::Selection;
use std::{
    fmt::Debug,
    io::{self, Read},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Events that may wait for the recorder.
const QUEUE: usize = 16 << 10;

/// How long the runtime may take to write what it has buffered when the session is stopped.
const STOP_LIMIT: Duration = Duration::from_secs(3);

/// How long a process that is starting may take to open its port, and how often it is looked for.
const PORT_LIMIT: Duration = Duration::from_secs(10);
const PORT_INTERVAL: Duration = Duration::from_millis(20);

/// The level of a session that wants next to nothing: critical events of no group, of which there
/// are none.
const QUIET: u32 = 1;

/// How long pieces of events are gathered, and how many bytes are worth no wait.
const GATHER: Duration = Duration::from_millis(1);
const MUCH: usize = 16 << 10;

/// What a session gives.
#[derive(Debug)]
pub(super) enum FromEvents {
    /// Something that a profiler of this id has made of events.
    Sample(&'static str, Box<dyn EventSample>),
    /// The runtime dropped this many events.
    Lost(u64),
    /// This many samples are missing, and why.
    LeftOut(&'static str, u64),
    /// Something that a user should know.
    Note(String),
    /// The session ended early, or never began; why.
    Failed(String),
}

/// Event sessions that run.
pub(super) trait EventSessions: Debug + Send {
    /// Where what they give comes in.
    fn incoming(&self) -> &Receiver<FromEvents>;

    /// Whether it is to be read without a delay.
    fn are_urgent(&self) -> bool {
        false
    }

    /// Ends them and waits until everything they had was read into `rest`.
    fn finish(&mut self, rest: &mut Vec<FromEvents>);
}

/// Sessions that come and go, and the thread that starts and stops them.
#[derive(Debug)]
pub(super) struct Followed {
    pub incoming: Receiver<FromEvents>,
    /// The thread ends when this is gone.
    pub stop: Option<SyncSender<()>>,
    pub thread: Option<JoinHandle<()>>,
}

impl Followed {
    /// Ends the thread, and with it the sessions; see [`EventSessions::finish`].
    pub fn finish(&mut self, rest: &mut Vec<FromEvents>) {
        drop(self.stop.take());
        // The channel ends when all threads do; a runtime that hangs is left after the limit.
        while let Ok(event) = self.incoming.recv_timeout(STOP_LIMIT) {
            rest.push(event);
        }
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

/// What it takes to start event sessions for a profiler alone.
pub(super) struct SessionStart<'a> {
    pub keeper: Keeper,
    /// `None` for a process that is still starting: its port is to be waited for.
    pub port: Option<&'a Port>,
    pub pid: u32,
    pub config: EventPipeConfig,
    /// The profiler, with its parameters.
    pub selection: &'a Selection,
}

/// How far a session is.
#[derive(Debug)]
enum Opened {
    /// It is still to be started.
    NotYet,
    Session(Stopper),
    /// The recording is over: none is to be started any more.
    Over,
}

/// A running EventPipe session, read by a thread of its own.
#[derive(Debug)]
pub(super) struct Events {
    incoming: Receiver<FromEvents>,
    opened: Arc<Mutex<Opened>>,
    reader: Option<JoinHandle<()>>,
    /// Dropping the last of these waits for the keeper's process, which ends with its sessions: so
    /// it lives as long as they do.
    _keeper: Keeper,
}

impl Events {
    /// Starts a session.
    pub fn start(
        keeper: Keeper,
        port: &Port,
        config: &EventPipeConfig,
        readers: Readers,
    ) -> Result<Self, RecordError> {
        let session = keeper.collect(port, config)?;
        let stopper = session.stopper();
        let (sender, incoming) = sync_channel(QUEUE);
        let reader = std::thread::Builder::new()
            .name("clrscope-events".into())
            .spawn(move || read(Reader::new(Gathered::new(session)), readers, &sender))
            .map_err(|source| RecordError::Io {
                what: "starting the EventPipe thread".into(),
                source,
            })?;
        let opened = Arc::new(Mutex::new(Opened::Session(stopper)));
        Ok(Self { incoming, opened, reader: Some(reader), _keeper: keeper })
    }

    /// Starts a session as soon as a process that is still starting has its port: .NET Core 3.1
    /// opens it only after the profiler was loaded.
    pub fn start_later(
        keeper: Keeper,
        pid: u32,
        config: EventPipeConfig,
        readers: Readers,
    ) -> Result<Self, RecordError> {
        let (sender, incoming) = sync_channel(QUEUE);
        let opened = Arc::new(Mutex::new(Opened::NotYet));
        let (theirs, kept) = (opened.clone(), keeper.clone());
        let reader = std::thread::Builder::new()
            .name("clrscope-events".into())
            .spawn(move || {
                let is_over = || matches!(*lock(&theirs), Opened::Over);
                let session = match first_session(&keeper, pid, &config, is_over) {
                    Ok((_, session)) => session,
                    Err(error) => {
                        let _ = sender
                            .send(FromEvents::Failed(format!("no EventPipe events: {error}")));
                        return;
                    }
                };
                match &mut *lock(&theirs) {
                    // No one would stop it. The keeper ends what is dropped.
                    Opened::Over => return,
                    opened => *opened = Opened::Session(session.stopper()),
                }
                read(Reader::new(Gathered::new(session)), readers, &sender);
            })
            .map_err(|source| RecordError::Io {
                what: "starting the EventPipe thread".into(),
                source,
            })?;
        Ok(Self { incoming, opened, reader: Some(reader), _keeper: kept })
    }
}

impl EventSessions for Events {
    fn incoming(&self) -> &Receiver<FromEvents> {
        &self.incoming
    }

    fn finish(&mut self, rest: &mut Vec<FromEvents>) {
        let opened = std::mem::replace(&mut *lock(&self.opened), Opened::Over);
        let Opened::Session(stopper) = opened else { return };
        // Stopping blocks until the runtime has written what it had, which the reader takes
        // meanwhile.
        let stopping = std::thread::spawn(move || stopper.stop(STOP_LIMIT));
        // The channel ends when the reader does; a runtime that hangs is left after the limit.
        while let Ok(event) = self.incoming.recv_timeout(STOP_LIMIT) {
            rest.push(event);
        }
        // A process that has ended has no session to stop.
        let _ = stopping.join();
        if let Some(reader) = self.reader.take().filter(JoinHandle::is_finished) {
            let _ = reader.join();
        }
    }
}

/// A session that is read a moment after something has come: the runtime writes its headers and the
/// ends of its blocks in pieces of a few bytes, on a thread of the program at the start and the
/// end, and each piece would wake us on its processor.
struct Gathered {
    session: EventPipeSession,
    /// Whether the last read brought little.
    little: bool,
}

impl Gathered {
    fn new(session: EventPipeSession) -> Self {
        Self { session, little: true }
    }
}

impl Read for Gathered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.little {
            std::thread::sleep(GATHER);
        }
        let read = self.session.read(buffer)?;
        self.little = read < MUCH;
        Ok(read)
    }
}

/// The first session of a process that may still be starting, and the port that it is from. It is
/// tried until `is_over`.
pub(super) fn first_session(
    keeper: &Keeper,
    pid: u32,
    config: &EventPipeConfig,
    is_over: impl Fn() -> bool,
) -> Result<(Port, EventPipeSession), diagnostics::Error> {
    let deadline = Instant::now() + PORT_LIMIT;
    loop {
        let port = diagnostics::find_pid(pid).and_then(|process| process.port());
        match port.and_then(|port| keeper.collect(&port, config).map(|session| (port, session))) {
            Ok(opened) => return Ok(opened),
            Err(error)
                if is_over()
                    || Instant::now() >= deadline
                    || diagnostics::proc::stat(pid).is_err() =>
            {
                return Err(error);
            }
            Err(_) => std::thread::sleep(PORT_INTERVAL),
        }
    }
}

/// Ends a session while the process runs on, and another one may begin.
///
/// When a session stops, the runtime computes the level of its provider with that session still
/// included, and continues to prepare events without a receiver. It computes the level anew with
/// the next session, even one that asks for next to nothing: so there is one.
pub(super) fn stop_for_now(
    stopper: &Stopper,
    keeper: &Keeper,
    port: &Port,
    mut config: EventPipeConfig,
) {
    // A process that has ended has no session to stop, and one that is overloaded is asked for
    // nothing more.
    if stopper.stop(STOP_LIMIT).is_err() {
        return;
    }
    config.stacks = false;
    for provider in &mut config.providers {
        (provider.keywords, provider.level) = (0, QUIET);
    }
    if let Ok(session) = keeper.collect(port, &config) {
        // What it holds fits in the socket.
        let _ = session.stopper().stop(STOP_LIMIT);
    }
}

fn lock(opened: &Mutex<Opened>) -> MutexGuard<'_, Opened> {
    opened.lock().unwrap_or_else(PoisonError::into_inner)
}

/// There is no receiver any more.
struct Gone;

fn send(sender: &SyncSender<FromEvents>, event: FromEvents) -> Result<(), Gone> {
    sender.send(event).map_err(|_| Gone)
}

fn read(mut reader: Reader<Gathered>, mut readers: Readers, sender: &SyncSender<FromEvents>) {
    // Without a receiver the recording is over, which is no error.
    let _ = read_to_end(&mut reader, &mut readers, sender, &AtomicU64::new(0));
}

/// Reads a session to its end, and counts its events. What is known of an event by then is sent at
/// once.
fn read_to_end(
    reader: &mut Reader<Gathered>,
    readers: &mut Readers,
    sender: &SyncSender<FromEvents>,
    count: &AtomicU64,
) -> Result<(), Gone> {
    let pass_on = |id, sample| send(sender, FromEvents::Sample(id, sample));
    let mut lost = 0;
    loop {
        let more = match reader.next_event() {
            Ok(Some(event)) => {
                count.fetch_add(1, Relaxed);
                readers.push(&event, pass_on)?;
                true
            }
            Ok(None) => false,
            Err(error) if error.is_timeout() => true,
            Err(error) => {
                let text = format!("the EventPipe stream broke off: {error}");
                let _ = send(sender, FromEvents::Failed(text));
                false
            }
        };
        if !more {
            readers.finish(pass_on)?;
        }
        let now = reader.statistics().lost;
        if now > lost {
            send(sender, FromEvents::Lost(now - lost))?;
            lost = now;
        }
        if !more {
            return Ok(());
        }
    }
}
