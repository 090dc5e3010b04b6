//! EventPipe sessions of a recording, but for those of `allocations`.

use super::sources::{EventSample, Readers};
use crate::RecordError;
use diagnostics::{EventPipeConfig, EventPipeSession, Keeper, Port, Stopper};
use nettrace::{
    Event, Reader,
    allocations::Allocation,
    counters::{self, Counted},
};
use profilers::allocations::AllocationWindow;
use std::{
    io::{self, Read},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
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

/// How long pieces of events are gathered, and how many bytes are worth no wait.
const GATHER: Duration = Duration::from_millis(1);
const MUCH: usize = 16 << 10;

/// What the session gives.
#[derive(Debug)]
pub(super) enum FromEvents {
    /// Something that a profiler of this id has made of events.
    Sample(&'static str, Box<dyn EventSample>),
    Allocation(Allocation),
    /// Allocations were followed for a part of a time only; those of it come next.
    AllocationWindow(AllocationWindow),
    /// Values at a time.
    Counted(u64, Vec<Counted>),
    /// The runtime dropped this many events.
    Lost(u64),
    /// There was no room for this many samples of allocations.
    LeftOut(u64),
    /// Something that a user should know.
    Note(String),
    /// The session ended early, or never began; why.
    Failed(String),
}

/// A running EventPipe session, read by a thread of its own.
#[derive(Debug)]
pub(super) struct Events {
    pub incoming: Receiver<FromEvents>,
    stopper: Arc<Mutex<Option<Stopper>>>,
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
        collectors: Collectors,
    ) -> Result<Self, RecordError> {
        let session = keeper.collect(port, config)?;
        let stopper = session.stopper();
        let (sender, incoming) = sync_channel(QUEUE);
        let reader = std::thread::Builder::new()
            .name("clrscope-events".into())
            .spawn(move || read(Reader::new(Gathered::new(session)), collectors, &sender))
            .map_err(|source| RecordError::Io {
                what: "starting the EventPipe thread".into(),
                source,
            })?;
        let stopper = Arc::new(Mutex::new(Some(stopper)));
        Ok(Self { incoming, stopper, reader: Some(reader), _keeper: keeper })
    }

    /// Starts a session as soon as a process that is still starting has its port: .NET Core 3.1
    /// opens it only after the profiler was loaded.
    pub fn start_later(
        keeper: Keeper,
        pid: u32,
        config: EventPipeConfig,
        collectors: Collectors,
    ) -> Result<Self, RecordError> {
        let (sender, incoming) = sync_channel(QUEUE);
        let stopper = Arc::new(Mutex::new(None));
        let (stoppers, kept) = (stopper.clone(), keeper.clone());
        let reader = std::thread::Builder::new()
            .name("clrscope-events".into())
            .spawn(move || {
                let session = match first_session(&keeper, pid, &config) {
                    Ok((_, session)) => session,
                    Err(error) => {
                        let _ = sender
                            .send(FromEvents::Failed(format!("no EventPipe events: {error}")));
                        return;
                    }
                };
                *lock(&stoppers) = Some(session.stopper());
                read(Reader::new(Gathered::new(session)), collectors, &sender);
            })
            .map_err(|source| RecordError::Io {
                what: "starting the EventPipe thread".into(),
                source,
            })?;
        Ok(Self { incoming, stopper, reader: Some(reader), _keeper: kept })
    }

    /// Ends the session and waits until everything it had was read into `rest`.
    pub fn finish(&mut self, rest: &mut Vec<FromEvents>) {
        let Some(stopper) = lock(&self.stopper).take() else { return };
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

/// The first session of a process that may still be starting, and the port that it is from.
pub(super) fn first_session(
    keeper: &Keeper,
    pid: u32,
    config: &EventPipeConfig,
) -> Result<(Port, EventPipeSession), diagnostics::Error> {
    let deadline = Instant::now() + PORT_LIMIT;
    loop {
        let port = diagnostics::find_pid(pid).and_then(|process| process.port());
        match port.and_then(|port| keeper.collect(&port, config).map(|session| (port, session))) {
            Ok(opened) => return Ok(opened),
            Err(_) if Instant::now() < deadline && diagnostics::proc::stat(pid).is_ok() => {
                std::thread::sleep(PORT_INTERVAL);
            }
            Err(error) => return Err(error),
        }
    }
}

fn lock(stopper: &Mutex<Option<Stopper>>) -> MutexGuard<'_, Option<Stopper>> {
    stopper.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(mut reader: Reader<Gathered>, mut collectors: Collectors, sender: &SyncSender<FromEvents>) {
    // Without a receiver the recording is over, which is no error.
    let _ = collectors.read(&mut reader, sender);
}

/// There is no receiver any more.
struct Gone;

fn send(sender: &SyncSender<FromEvents>, event: FromEvents) -> Result<(), Gone> {
    sender.send(event).map_err(|_| Gone)
}

/// What make of single events what happened.
pub(super) struct Collectors {
    readers: Readers,
    counters: counters::Collector,
}

impl Collectors {
    /// Those of a session for the profilers that run; `id` is what they know it by.
    pub fn new(runs: impl Fn(&str) -> bool, id: &str) -> Self {
        Self { readers: Readers::of(runs), counters: counters::Collector::new(id) }
    }

    /// Reads the session to its end.
    fn read(
        &mut self,
        reader: &mut Reader<Gathered>,
        sender: &SyncSender<FromEvents>,
    ) -> Result<(), Gone> {
        let mut lost = 0;
        loop {
            let more = match reader.next_event() {
                Ok(Some(event)) => {
                    self.push(&event, sender)?;
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
                self.readers.finish(|id, sample| send(sender, FromEvents::Sample(id, sample)))?;
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

    /// Takes an event. What is known by now is sent at once.
    fn push(&mut self, event: &Event, sender: &SyncSender<FromEvents>) -> Result<(), Gone> {
        self.readers.push(event, |id, sample| send(sender, FromEvents::Sample(id, sample)))?;
        match self.counters.push(event) {
            Some(counters::Output::Values(values)) => {
                send(sender, FromEvents::Counted(event.timestamp, values))
            }
            Some(counters::Output::Complaint(text)) => send(sender, FromEvents::Failed(text)),
            None => Ok(()),
        }
    }
}
