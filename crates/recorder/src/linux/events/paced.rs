//! EventPipe sessions that are left out for a while where their events come too fast.
//!
//! A session has no filter below keyword and level, so that one event of many may cost a program
//! more than all others are worth: with the thread pool's, the runtime writes an event each time a
//! worker has run out of work, which on a web server is many thousands of times a second. While
//! more events come than a profiler allows, such a session is open for a twentieth of the time.

use super::{
    EventSessions, Followed, FromEvents, Gathered, QUEUE, STOP_LIMIT, first_session, read_to_end,
    stop_for_now,
};
use crate::{RecordError, linux::sources::Readers};
use diagnostics::{EventPipeConfig, EventPipeSession, Keeper, Port, Stopper};
use nettrace::Reader;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// How long events are counted before it is decided whether there are too many.
const WINDOW: Duration = Duration::from_millis(100);

/// How long a session is left out then: what it costs, it costs for a twentieth of the time.
const PAUSE: Duration = Duration::from_millis(1900);

/// How often in turn a session may fail to start before it is given up.
const MOST_FAILURES: u32 = 5;

/// What such sessions are of, and how many events are too many.
#[derive(Clone, Debug)]
pub(in crate::linux) struct Paced {
    pub config: EventPipeConfig,
    /// Events per second.
    pub most: u32,
    /// What a user calls them, plural.
    pub what: &'static str,
}

/// Makes the readers of a session.
type MakeReaders = Box<dyn Fn() -> Readers + Send>;

/// The sessions of a recording, and the thread that starts and stops them.
#[derive(Debug)]
pub(in crate::linux) struct PacedEvents(Followed);

impl PacedEvents {
    /// Starts the first session; that of a process that is still starting, and has no port yet, as
    /// soon as it has one.
    ///
    /// # Errors
    /// When the runtime does not start it.
    pub fn start(
        keeper: Keeper,
        port: Option<&Port>,
        pid: u32,
        paced: Paced,
        readers: MakeReaders,
    ) -> Result<Self, RecordError> {
        let opened = port
            .map(|port| Ok::<_, RecordError>((port.clone(), keeper.collect(port, &paced.config)?)))
            .transpose()?;
        let (sender, incoming) = sync_channel(QUEUE);
        let (stop, stopped) = sync_channel(0);
        let thread = std::thread::Builder::new()
            .name("clrscope-paced".into())
            .spawn(move || {
                let is_over = || stopped.try_recv() == Err(TryRecvError::Disconnected);
                let opened =
                    opened.map_or_else(|| first_session(&keeper, pid, &paced.config, is_over), Ok);
                match opened {
                    Ok((port, session)) => {
                        Pacer { keeper, port, paced, readers, sender, stopped }.run(session);
                    }
                    Err(error) => {
                        let _ =
                            sender.send(FromEvents::Failed(format!("no {}: {error}", paced.what)));
                    }
                }
            })
            .map_err(|source| RecordError::Io {
                what: "starting the EventPipe thread".into(),
                source,
            })?;
        Ok(Self(Followed { incoming, stop: Some(stop), thread: Some(thread) }))
    }
}

impl EventSessions for PacedEvents {
    fn incoming(&self) -> &Receiver<FromEvents> {
        &self.0.incoming
    }

    fn finish(&mut self, rest: &mut Vec<FromEvents>) {
        self.0.finish(rest);
    }
}

/// The recording is over.
struct Over;

/// What the thread that starts and stops sessions has.
struct Pacer {
    keeper: Keeper,
    port: Port,
    paced: Paced,
    readers: MakeReaders,
    sender: SyncSender<FromEvents>,
    stopped: Receiver<()>,
}

/// A session that is being read.
struct Open {
    stopper: Stopper,
    count: Arc<AtomicU64>,
    reader: JoinHandle<()>,
}

/// For how long sessions were open, and for how long there was none.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    open: Duration,
    paused: Duration,
}

impl Pacer {
    fn run(self, first: EventPipeSession) {
        let mut times = Times::default();
        if let Err(error) = self.follow(first, &mut times) {
            let _ = self.sender.send(FromEvents::Failed(format!(
                "{} are no longer recorded: {error}",
                self.paced.what
            )));
        }
        if let Some(note) = note(self.paced.what, times) {
            let _ = self.sender.send(FromEvents::Note(note));
        }
    }

    /// Follows events until the recording is over.
    fn follow(&self, first: EventPipeSession, times: &mut Times) -> Result<(), diagnostics::Error> {
        let mut next = Some(first);
        let mut failures = 0;
        loop {
            let session = match next.take() {
                Some(session) => Ok(session),
                None => self.keeper.collect(&self.port, &self.paced.config),
            };
            let opened = Instant::now();
            match session.and_then(|session| self.open(session)) {
                Ok(open) => {
                    failures = 0;
                    let over = self.wait_for_too_many(&open);
                    self.close(open, over.is_err());
                    times.open += opened.elapsed();
                    if over.is_err() {
                        return Ok(());
                    }
                }
                Err(error) if failures >= MOST_FAILURES => return Err(error),
                Err(_) => failures += 1,
            }
            let paused = Instant::now();
            let over = self.wait(PAUSE);
            times.paused += paused.elapsed();
            if over.is_err() {
                return Ok(());
            }
        }
    }

    /// Reads a session on a thread of its own.
    fn open(&self, session: EventPipeSession) -> Result<Open, diagnostics::Error> {
        let (stopper, count) = (session.stopper(), Arc::<AtomicU64>::default());
        let (mut readers, sender, theirs) =
            ((self.readers)(), self.sender.clone(), Arc::clone(&count));
        let reader = std::thread::Builder::new()
            .name("clrscope-events".into())
            .spawn(move || {
                let mut reader = Reader::new(Gathered::new(session));
                // Without a receiver the recording is over, which is no error.
                let _ = read_to_end(&mut reader, &mut readers, &sender, &theirs);
            })
            .map_err(|source| diagnostics::Error::Connect {
                address: self.port.address(),
                source,
            })?;
        Ok(Open { stopper, count, reader })
    }

    /// Waits until there are too many events.
    fn wait_for_too_many(&self, open: &Open) -> Result<(), Over> {
        let most = u128::from(self.paced.most);
        let (mut from, mut seen) = (Instant::now(), 0);
        loop {
            self.wait(WINDOW)?;
            // The process may have ended: nothing comes any more, and nothing is to be started.
            if open.reader.is_finished() {
                return Err(Over);
            }
            let count = open.count.load(Relaxed);
            let came = u128::from(count - seen) * 1000;
            if came > most * from.elapsed().as_millis().max(1) {
                return Ok(());
            }
            (from, seen) = (Instant::now(), count);
        }
    }

    /// Ends a session, and waits until all that it had is read.
    fn close(&self, open: Open, for_good: bool) {
        let Open { stopper, reader, .. } = open;
        let (keeper, port, config) =
            (self.keeper.clone(), self.port.clone(), self.paced.config.clone());
        // Stopping blocks until the runtime has written what it had, which the reader takes
        // meanwhile.
        let stopping = std::thread::spawn(move || match for_good {
            // A process that has ended has no session to stop.
            true => drop(stopper.stop(STOP_LIMIT)),
            false => stop_for_now(&stopper, &keeper, &port, config),
        });
        let _ = stopping.join();
        let until = Instant::now() + STOP_LIMIT;
        while !reader.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits, at most until the recording is over.
    fn wait(&self, time: Duration) -> Result<(), Over> {
        match self.stopped.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Err(Over),
        }
    }
}

/// What a user should know: how much of the time is missing.
fn note(what: &str, times: Times) -> Option<String> {
    let all = (times.open + times.paused).as_secs_f64();
    (times.paused > Duration::ZERO).then(|| {
        format!(
            "{what} came so fast that listening to them all would have slowed the program: they \
             were recorded for {:.1} of {all:.1} s, and those between are missing",
            times.open.as_secs_f64()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_stated() {
        let times = Times { open: Duration::from_millis(600), paused: Duration::from_secs(8) };
        let text = note("events of the thread pool", times).unwrap();
        assert!(text.ends_with("for 0.6 of 8.6 s, and those between are missing"), "{text}");
        let all = Times { open: Duration::from_secs(9), paused: Duration::ZERO };
        assert_eq!(note("events of the thread pool", all), None);
    }
}
