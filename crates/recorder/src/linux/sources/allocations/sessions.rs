//! The EventPipe sessions of `allocations`: one that lasts as long as a program allocates little,
//! and short ones now and then while it allocates much.
//!
//! The runtime walks a stack for each 100 KB that are allocated, whatever that costs the program,
//! and has no limit. To set one, clrscope records only some of the time where there are too many
//! samples: it cuts time into slots, cuts each slot into parts of equal length, and records one
//! randomly picked part of each slot. The number of parts is settled before anything is known of
//! the slot, so each moment has the same probability. The samples of the part times the number of
//! parts are therefore an unbiased estimate of the samples of the slot, whatever the program did.
//! The one exception: a program allocates less while recording slows it down.

use super::{
    LEFT_OUT,
    pace::{PART, Pace},
    reading::{Kept, Reading},
};
use crate::{
    RecordError,
    linux::{
        clock::now,
        events::{EventSessions, Followed, FromEvents, SessionStart, first_session, stop_for_now},
        staging::random,
    },
};
use diagnostics::{EventPipeConfig, EventPipeSession, Keeper, Port, Stopper};
use nettrace::Reader;
use profilers::allocations::{AllocationWindow, SPEC};
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, Release},
        },
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Allocations that may wait for the recorder.
const QUEUE: usize = 16 << 10;

/// How long the runtime may take to write what it has buffered when a session is stopped.
const STOP_LIMIT: Duration = Duration::from_secs(3);

/// Most sessions that are being stopped at a time.
const MAX_CLOSING: usize = 4;

/// How often in turn a session may fail to start before it is given up.
const MAX_FAILURES: u32 = 5;

/// How long one wait for something that ends is.
const TICK: Duration = Duration::from_millis(2);

/// The sessions of a recording, and the thread that starts and stops them.
#[derive(Debug)]
pub(super) struct AllocationEvents(Followed);

impl AllocationEvents {
    /// Starts to follow allocations, with at most as many samples per second on the average as the
    /// profiler is to take.
    pub fn start(start: SessionStart<'_>) -> Result<Self, RecordError> {
        let SessionStart { keeper, port, pid, config, selection } = start;
        let most =
            selection.param("samples").and_then(|most| most.parse().ok()).unwrap_or(u64::MAX);
        let opened = port
            .map(|port| Ok::<_, RecordError>((port.clone(), keeper.collect(port, &config)?)))
            .transpose()?;
        let (sender, incoming) = sync_channel(QUEUE);
        let (stop, stopped) = sync_channel(0);
        let failed =
            |source| RecordError::Io { what: "starting the thread for allocations".into(), source };
        let seed = random().map_err(failed)?;
        let thread = std::thread::Builder::new()
            .name("clrscope-alloc".into())
            .spawn(move || {
                let (port, session) = match opened
                    .map_or_else(|| first_session(&keeper, pid, &config, || false), Ok)
                {
                    Ok(opened) => opened,
                    Err(error) => {
                        let _ = sender
                            .send(FromEvents::Failed(format!("no EventPipe events: {error}")));
                        return;
                    }
                };
                let mut follower = Follower {
                    keeper,
                    port,
                    config,
                    sender,
                    stopped,
                    arrived: Arc::default(),
                    pace: Pace::new(most, now()),
                    closing: VecDeque::new(),
                    random: seed | 1,
                };
                // All that comes of the first session counts: nothing was left out before it.
                match follower.read(session, 0, true) {
                    Ok(first) => follower.run(first, most),
                    Err(error) => follower.fail(&error),
                }
                follower.settle(Some(Instant::now() + STOP_LIMIT));
            })
            .map_err(failed)?;
        Ok(Self(Followed { incoming, stop: Some(stop), thread: Some(thread) }))
    }
}

impl EventSessions for AllocationEvents {
    fn incoming(&self) -> &Receiver<FromEvents> {
        &self.0.incoming
    }

    /// The runtime drops allocations that are not read in time.
    fn are_urgent(&self) -> bool {
        true
    }

    fn finish(&mut self, rest: &mut Vec<FromEvents>) {
        self.0.finish(rest);
    }
}

/// The recording is over, or its target.
struct Over;

/// A session that is being read.
struct Following {
    /// What came before does not count: the session was not whole yet.
    from: u64,
    /// What comes later does not count: the session is being stopped.
    until: Arc<AtomicU64>,
    /// Samples that it has given.
    count: Arc<AtomicU64>,
    stopper: Stopper,
    reader: JoinHandle<Kept>,
}

/// A session that has been asked to stop.
struct Closing {
    reader: JoinHandle<Kept>,
    stopping: Option<JoinHandle<()>>,
    /// What its samples stand for; `None` for those of a session that passes them on itself.
    window: Option<Window>,
}

/// A part of a slot that was followed.
struct Part {
    from: u64,
    until: u64,
    /// Samples of the session, all of them once its reader has ended.
    count: Arc<AtomicU64>,
    reader: JoinHandle<Kept>,
    stopping: Option<JoinHandle<()>>,
}

struct Window {
    slot: AllocationWindow,
    /// How many samples each stands for.
    factor: f64,
}

/// What the thread that starts and stops sessions has.
struct Follower {
    keeper: Keeper,
    port: Port,
    config: EventPipeConfig,
    sender: SyncSender<FromEvents>,
    stopped: Receiver<()>,
    /// Samples that have come from all sessions.
    arrived: Arc<AtomicU64>,
    pace: Pace,
    /// In the order of their times.
    closing: VecDeque<Closing>,
    random: u64,
}

impl Follower {
    /// Follows allocations to the end of the recording, of at most `most` samples per second on the
    /// average.
    fn run(&mut self, first: Following, most: u64) {
        let mut whole = first;
        while let Ok(start) = self.follow_all(whole) {
            let _ = self.sender.send(FromEvents::Note(format!(
                "allocations came faster than {most} samples per second: they were recorded in \
                 windows, and the rest is estimated from these"
            )));
            match self.follow_parts(start) {
                Ok(following) => whole = following,
                Err(Over) => return,
            }
        }
    }

    /// Follows all of the time, until there are too many: when that was.
    fn follow_all(&mut self, whole: Following) -> Result<u64, Over> {
        loop {
            let over = self.wait(PART).is_err() || whole.reader.is_finished();
            self.settle(None);
            let parts = self.pace.all_followed(now(), self.arrived.load(Relaxed));
            if over || parts > 1 {
                let end = now();
                // At the end of the recording all that the runtime still has counts.
                let until = if over { u64::MAX } else { end };
                let stopping = self.stop(&whole, until);
                self.closing.push_back(Closing { reader: whole.reader, stopping, window: None });
                return if over { Err(Over) } else { Ok(end) };
            }
        }
    }

    /// Follows one part of each slot, until all can be followed again: by the session that this
    /// gives.
    fn follow_parts(&mut self, mut start: u64) -> Result<Following, Over> {
        let (mut parts, mut failures) = (self.pace.parts, 0);
        loop {
            let (part, over) = match self.follow_part(start, parts) {
                Ok(taken) => taken,
                // The slot continues until a session can be started.
                Err(error) if failures >= MAX_FAILURES => {
                    self.fail(&error);
                    self.close(None, start, now(), 1.0);
                    return Err(Over);
                }
                Err(_) => {
                    failures += 1;
                    continue;
                }
            };
            failures = 0;
            if over {
                // The chances were those of a whole slot, and of a whole part.
                let length =
                    part.as_ref().map_or(0, |part| part.until.saturating_sub(part.from)).max(PART);
                self.close(part, start, now(), (parts * PART) as f64 / length as f64);
                return Err(Over);
            }
            let Some(part) = part else { continue };
            let length = part.until.saturating_sub(part.from).max(1);
            if part.reader.is_finished() {
                self.pace.part_followed(part.count.load(Relaxed), length);
            }
            parts = self.pace.parts;
            let whole = if parts == 1 { self.begin(true).ok() } else { None };
            let end = whole.as_ref().map_or_else(now, |whole| whole.from);
            self.close(Some(part), start, end, (end - start) as f64 / length as f64);
            match whole {
                Some(whole) => return Ok(whole),
                // All was to be followed, and could not be: as if there were two parts.
                None => parts = parts.max(2),
            }
            start = end;
            self.make_room();
        }
    }

    /// Follows one part of a slot and waits for the slot's end. Whether the recording was over
    /// before; then there may be no part.
    fn follow_part(
        &mut self,
        start: u64,
        parts: u64,
    ) -> Result<(Option<Part>, bool), diagnostics::Error> {
        let pick = self.pick(parts);
        if self.wait_until(start + pick * PART).is_err() {
            return Ok((None, true));
        }
        let following = match self.begin(false) {
            Ok(following) => following,
            Err(error) => {
                let over = self.wait(PART).is_err();
                return if over { Ok((None, true)) } else { Err(error) };
            }
        };
        let mut over = self.wait(PART).is_err() || following.reader.is_finished();
        let until = now();
        let stopping = self.stop(&following, until);
        let Following { from, count, reader, .. } = following;
        over = over || self.wait_until(start + parts * PART).is_err();
        Ok((Some(Part { from, until, count, reader, stopping }), over))
    }

    /// Picks one of `parts` parts, each with the same probability (Marsaglia's xorshift).
    fn pick(&mut self, parts: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) % parts.max(1)
    }

    /// Starts a session; what it gives is passed on as it comes, or kept.
    fn begin(&self, pass_on: bool) -> Result<Following, diagnostics::Error> {
        let session = self.keeper.collect(&self.port, &self.config)?;
        self.read(session, now(), pass_on)
    }

    /// Reads a session on a thread of its own.
    fn read(
        &self,
        session: EventPipeSession,
        from: u64,
        pass_on: bool,
    ) -> Result<Following, diagnostics::Error> {
        let (until, count) = (Arc::new(AtomicU64::new(u64::MAX)), Arc::new(AtomicU64::new(0)));
        let stopper = session.stopper();
        let reading = Reading {
            from,
            until: until.clone(),
            count: count.clone(),
            arrived: self.arrived.clone(),
            pass_on: pass_on.then(|| self.sender.clone()),
        };
        let reader = std::thread::Builder::new()
            .name("clrscope-events".into())
            .spawn(move || reading.read(Reader::new(session)))
            .map_err(|source| diagnostics::Error::Connect {
                address: self.port.address(),
                source,
            })?;
        Ok(Following { from, until, count, stopper, reader })
    }

    /// Stops a session without waiting for it. Samples from `until` on do not count.
    fn stop(&self, following: &Following, until: u64) -> Option<JoinHandle<()>> {
        following.until.store(until, Release);
        let (stopper, keeper, port) =
            (following.stopper.clone(), self.keeper.clone(), self.port.clone());
        let config = self.config.clone();
        let stopping = std::thread::Builder::new()
            .name("clrscope-events".into())
            .spawn(move || stop_for_now(&stopper, &keeper, &port, config));
        stopping.ok()
    }

    /// Puts what was followed of a slot behind all that was followed before.
    fn close(&mut self, part: Option<Part>, start: u64, end: u64, factor: f64) {
        let (followed_from, followed_to) =
            part.as_ref().map_or((start, start), |part| (part.from, part.until));
        let slot = AllocationWindow { start, end, followed_from, followed_to };
        match part {
            Some(Part { reader, stopping, .. }) => {
                self.closing.push_back(Closing {
                    reader,
                    stopping,
                    window: Some(Window { slot, factor }),
                });
            }
            None => {
                let _ = self.sender.send(FromEvents::Sample(SPEC.id, Box::new(slot)));
            }
        }
        self.settle(None);
    }

    /// Waits until not too many sessions are being stopped: a runtime that is slow to do so is not
    /// asked for more.
    fn make_room(&mut self) {
        while self.closing.len() >= MAX_CLOSING && self.wait(PART).is_ok() {
            self.settle(None);
        }
    }

    /// Passes on what sessions gave that have ended. With a deadline all of them are waited for.
    fn settle(&mut self, deadline: Option<Instant>) {
        while let Some(first) = self.closing.front() {
            if !first.reader.is_finished() {
                if deadline.is_none_or(|deadline| Instant::now() >= deadline) {
                    return;
                }
                std::thread::sleep(TICK);
                continue;
            }
            let Some(Closing { reader, stopping, window }) = self.closing.pop_front() else {
                return;
            };
            let Ok(kept) = reader.join() else { continue };
            if let Some(Window { slot, factor }) = window {
                let _ = self.sender.send(FromEvents::Sample(SPEC.id, Box::new(slot)));
                for mut allocation in kept.allocations {
                    let bytes = &mut allocation.sample.row.bytes;
                    *bytes = (*bytes as f64 * factor).round() as u64;
                    let sample = FromEvents::Sample(SPEC.id, Box::new(allocation));
                    let _ = self.sender.send(sample);
                }
            }
            if kept.lost > 0 {
                let _ = self.sender.send(FromEvents::Lost(kept.lost));
            }
            if kept.left_out > 0 {
                let _ = self.sender.send(FromEvents::LeftOut(LEFT_OUT, kept.left_out));
            }
            if let Some(failed) = kept.failed {
                let _ = self.sender.send(FromEvents::Failed(failed));
            }
            while let Some(deadline) = deadline
                && stopping.as_ref().is_some_and(|stopping| !stopping.is_finished())
                && Instant::now() < deadline
            {
                std::thread::sleep(TICK);
            }
        }
    }

    fn fail(&self, error: &diagnostics::Error) {
        let _ = self
            .sender
            .send(FromEvents::Failed(format!("allocations are no longer recorded: {error}")));
    }

    /// Waits for `nanos` nanoseconds, or until the recording is over.
    fn wait(&self, nanos: u64) -> Result<(), Over> {
        match self.stopped.recv_timeout(Duration::from_nanos(nanos)) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Err(Over),
        }
    }

    fn wait_until(&self, time: u64) -> Result<(), Over> {
        self.wait(time.saturating_sub(now()))
    }
}
