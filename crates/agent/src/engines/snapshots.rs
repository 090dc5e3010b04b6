//! What all heap snapshots have in common: the notification from the runtime's callbacks to the
//! thread that takes the snapshot, and the way of the reported data to clrscope.

use crate::engines::heap::async_state_machines::Machines;
use crate::engines::heap::object_fields;
use crate::engines::heap::static_fields::{self, StaticArrays, Unfinished};
use crate::host::{Host, Phase};
use crate::os::clock;
use crate::os::connection::Outgoing;
use corprof::EventMask;
use corprof::ids::{ClassId, FunctionId, ModuleId};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wire::frame::{self, FrameBuilder};
use wire::heap::{Encoder, MAX_CHUNK};
use wire::{LogLevel, Nanos, Record};

/// Longest time that a frame may take to be written while the runtime is suspended: the program
/// must not wait for a clrscope that is stopped, or whose disk does not write.
pub const WRITE_LIMIT: Nanos = 100_000_000;
/// Bytes that may wait for clrscope meanwhile, so that one that is only slow is not waited for at
/// all.
const MOST_WAITING: usize = 8 << 20;
/// The same when it does not.
pub const CALM_LIMIT: Nanos = 10_000_000_000;
/// Longest time for the names of a snapshot.
const NAMES_LIMIT: Nanos = 30_000_000_000;
/// Longest time for the search for static fields of a snapshot.
const STATICS_LIMIT: Nanos = 10_000_000_000;
/// How often a waiting thread checks whether the session ends.
const STEP: Nanos = 20_000_000;
/// When the runtime has surely finished to start a launched agent.
pub const STARTED: Nanos = 1_000_000_000;
/// What is reported of a snapshot that was cut for that reason.
pub const UNREAD: &str = "clrscope did not read for 100 ms (it was stopped, or its disk does not \
    write), and the program must not wait for that: take the snapshot again";
/// How long the runtime may take from the end of a collection until it reports that it resumes.
const RESUME_LIMIT: Nanos = 100_000_000;
/// Most arrays in arrays that are followed to find the module of their elements.
const MOST_RANKS: usize = 8;

/// How far a snapshot is.
mod state {
    /// There is none.
    pub const NONE: u8 = 0;
    /// The next collection that fits is the one.
    pub const ARMED: u8 = 1;
    /// The runtime is suspended, and reports the collection.
    pub const TELLING: u8 = 2;
    /// The runtime has told all.
    pub const TOLD: u8 = 3;
}

/// The snapshot that is under way, where one is, as callbacks see it.
pub struct Slot<L> {
    state: AtomicU8,
    /// Locked for a moment by each callback, and by nobody else while the runtime tells.
    snapshot: Mutex<Option<Box<L>>>,
    suspended: AtomicU64,
    resumed: AtomicU64,
    memory: AtomicUsize,
}

impl<L> Default for Slot<L> {
    fn default() -> Self {
        Self {
            state: AtomicU8::new(state::NONE),
            snapshot: Mutex::new(None),
            suspended: AtomicU64::new(0),
            resumed: AtomicU64::new(0),
            memory: AtomicUsize::new(0),
        }
    }
}

/// How a snapshot ended.
pub struct Taken<L> {
    /// The snapshot.
    pub snapshot: Option<Box<L>>,
    /// Whether a collection was reported to it.
    pub told: bool,
    /// When the runtime was asked to suspend for it.
    pub suspended: Nanos,
    /// How long the runtime was suspended; 0 if that was not reported.
    pub paused: Nanos,
}

impl<L> Slot<L> {
    /// Handles the start of a collection that fits; returns whether a snapshot waits for it.
    /// `suspended` is when the runtime was asked to suspend.
    pub fn begin(&self, suspended: Nanos) -> bool {
        let begins =
            self.state.compare_exchange(state::ARMED, state::TELLING, SeqCst, SeqCst).is_ok();
        if begins {
            self.suspended.store(suspended, SeqCst);
            self.resumed.store(0, SeqCst);
        }
        begins
    }

    /// Handles the end of the collection; the runtime is still suspended.
    pub fn end(&self) {
        let _ = self.state.compare_exchange(state::TELLING, state::TOLD, SeqCst, SeqCst);
    }

    /// Handles the end of the suspension: the runtime has resumed.
    pub fn resumed(&self, now: Nanos) {
        if self.state.load(Relaxed) == state::TOLD {
            let _ = self.resumed.compare_exchange(0, now, SeqCst, SeqCst);
        }
    }

    /// Whether the collection of the snapshot has ended.
    pub fn is_told(&self) -> bool {
        self.state.load(SeqCst) == state::TOLD
    }

    /// Bytes that the snapshot under way holds.
    pub fn memory(&self) -> usize {
        self.memory.load(Relaxed)
    }

    /// Does something with the snapshot, if the runtime tells just now.
    pub fn with<R>(&self, call: impl FnOnce(&mut L) -> R) -> Option<R> {
        if self.state.load(Relaxed) != state::TELLING {
            return None;
        }
        // With Server GC callbacks of one collection come from several of the collector's threads
        // at the same time, which wait for each other at its end in any case.
        self.snapshot().as_mut().map(|snapshot| call(snapshot))
    }

    fn snapshot(&self) -> MutexGuard<'_, Option<Box<L>>> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the next collection that fits be reported to `snapshot`, which holds `memory` bytes.
    pub fn arm(&self, snapshot: Box<L>, memory: usize) {
        self.memory.store(memory, Relaxed);
        *self.snapshot() = Some(snapshot);
        self.state.store(state::ARMED, SeqCst);
    }

    /// Takes the snapshot out again. If the runtime is reporting just now, this waits until it has
    /// reported everything.
    pub fn disarm(&self) -> Taken<L> {
        // No collection may begin between the two.
        let _ = self.state.compare_exchange(state::ARMED, state::NONE, SeqCst, SeqCst);
        // What tells ends by itself, for each snapshot has its limit; unless the process ends just now.
        let deadline = clock::monotonic() + CALM_LIMIT;
        while self.state.load(SeqCst) == state::TELLING && clock::monotonic() < deadline {
            clock::sleep_until(clock::monotonic() + 1_000_000);
        }
        let told = self.is_told();
        let deadline = clock::monotonic() + RESUME_LIMIT;
        // With Server GC another thread resumes the runtime.
        while told && self.resumed.load(SeqCst) == 0 && clock::monotonic() < deadline {
            clock::sleep_until(clock::monotonic() + 1_000_000);
        }
        self.state.store(state::NONE, SeqCst);
        self.memory.store(0, Relaxed);
        let suspended = self.suspended.load(SeqCst);
        let paused = self.resumed.load(SeqCst).saturating_sub(suspended);
        Taken {
            snapshot: self.snapshot().take(),
            told,
            suspended,
            paused: if told { paused } else { 0 },
        }
    }
}

/// Why a snapshot ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// The recording ends.
    Stopped,
    /// It took too long.
    Late,
    /// clrscope does not read. What is left of the last frame comes later.
    Unread,
    /// clrscope is gone.
    Gone,
}

/// Reported data on its way to clrscope: it is encoded into one buffer, which is written whenever
/// it is full.
pub struct Chunks {
    number: u32,
    outgoing: Outgoing,
    /// Where the next item goes, once [`Self::has_room`] has said that it fits.
    pub encoder: Encoder,
    /// Objects seen.
    pub objects: u64,
    /// When the snapshot is given up.
    pub deadline: Nanos,
    /// Why it was given up.
    pub abort: Option<Abort>,
}

impl Chunks {
    /// Those of a snapshot.
    pub fn new(number: u32, outgoing: &Outgoing, deadline: Nanos) -> Self {
        let (outgoing, encoder) = (outgoing.clone(), Encoder::new(MAX_CHUNK));
        Self { number, outgoing, encoder, objects: 0, deadline, abort: None }
    }

    /// Begins another snapshot with the same buffer.
    pub fn restart(&mut self, number: u32, deadline: Nanos) {
        self.encoder.clear();
        (self.number, self.deadline, self.objects, self.abort) = (number, deadline, 0, None);
    }

    /// Whether there is room for the next item; makes some if need be. False once the snapshot is given
    /// up.
    pub fn has_room(&mut self, host: &Host) -> bool {
        self.encoder.has_room() && self.abort.is_none() || self.make_room(host)
    }

    #[cold]
    fn make_room(&mut self, host: &Host) -> bool {
        if self.abort.is_none() {
            self.abort = if host.phase() == Phase::Stopping {
                Some(Abort::Stopped)
            } else if clock::monotonic() >= self.deadline {
                Some(Abort::Late)
            } else {
                self.send(MOST_WAITING, WRITE_LIMIT).err()
            };
        }
        self.abort.is_none()
    }

    /// Writes what is left, if the snapshot was not given up. Says whether clrscope reads.
    pub fn finish(&mut self) -> io::Result<()> {
        if self.abort.is_none() {
            self.abort = self.send(0, CALM_LIMIT).err();
        }
        match self.abort {
            Some(Abort::Gone) => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(()),
        }
    }

    /// Writes the chunk and begins the next. Up to `most` bytes may wait for clrscope.
    fn send(&mut self, most: usize, limit: Nanos) -> Result<(), Abort> {
        let bytes = self.encoder.bytes();
        if bytes.is_empty() {
            return Ok(());
        }
        let head = frame::head_of_chunk(self.number, self.objects, bytes.len());
        let sent = self.outgoing.send_later([&head, bytes], most, limit);
        self.encoder.clear();
        match sent {
            Ok(true) => Ok(()),
            Ok(false) => Err(Abort::Unread),
            Err(_) => Err(Abort::Gone),
        }
    }
}

/// Ids that were met, as many as there is room for.
pub struct Ids {
    slots: Box<[u64]>,
    count: usize,
    /// How many there was no room for.
    pub lost: u64,
}

impl Ids {
    /// A set of `slots` slots, a power of two. Three quarters of them are used.
    pub fn new(slots: usize) -> Self {
        Self { slots: vec![0; slots].into_boxed_slice(), count: 0, lost: 0 }
    }

    /// Bytes that this holds.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.slots.fill(0);
        (self.count, self.lost) = (0, 0);
    }

    /// Adds an id. 0 is none.
    pub fn insert(&mut self, id: u64) {
        if id == 0 {
            return;
        }
        let mask = self.slots.len() - 1;
        let mut at = Self::place(id) & mask;
        while let Some(slot) = self.slots.get_mut(at) {
            if *slot == id {
                return;
            }
            if *slot == 0 {
                // A full table would be searched for ever.
                if self.count >= mask / 4 * 3 {
                    self.lost += 1;
                } else {
                    *slot = id;
                    self.count += 1;
                }
                return;
            }
            at = (at + 1) & mask;
        }
    }

    /// Whether an id was added.
    pub fn contains(&self, id: u64) -> bool {
        let mask = self.slots.len() - 1;
        let mut at = Self::place(id) & mask;
        // There is always a free slot.
        loop {
            match self.slots.get(at) {
                Some(0) | None => return false,
                Some(slot) if *slot == id => return true,
                Some(_) => at = (at + 1) & mask,
            }
        }
    }

    fn place(id: u64) -> usize {
        (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.iter().copied().filter(|id| *id != 0)
    }
}

/// What a thread that takes snapshots does while the runtime is not suspended.
pub struct Teller<'a> {
    host: &'a Host,
    outgoing: &'a Outgoing,
    /// Events while a snapshot is taken, and at other times.
    pub telling: EventMask,
    /// See [`Self::telling`].
    pub quiet: EventMask,
}

impl<'a> Teller<'a> {
    /// `None`, and a word to the user, where the runtime's one slot for a profiler that may do
    /// everything is taken.
    pub fn new(host: &'a Host, outgoing: &'a Outgoing, what: &str) -> Option<Self> {
        let (low, high) = host.event_mask;
        let telling = EventMask::from_words(low, high);
        if !telling.contains(EventMask::GC) {
            host.log(
                LogLevel::Error,
                format!(
                    "no {what}: they need the main profiler slot, and another profiler holds it"
                ),
            );
            return None;
        }
        Some(Self { host, outgoing, telling, quiet: telling.without(EventMask::GC) })
    }

    /// Changes what the runtime tells.
    pub fn listen(&self, events: EventMask) -> bool {
        let set = self.host.runtime.info().set_event_mask(events);
        if let Err(error) = &set {
            self.host.log(
                LogLevel::Warning,
                format!("the runtime refused to change what it reports: {error}"),
            );
        }
        set.is_ok()
    }

    /// Waits until a point in time, until something is so, or until the session ends.
    pub fn wait(&self, until: Nanos, over: impl Fn() -> bool) {
        while self.host.phase() != Phase::Stopping && !over() && clock::monotonic() < until {
            clock::sleep_until(until.min(clock::monotonic() + STEP));
        }
    }

    /// Sends the names of all that a snapshot met, without those that were sent before; says how many
    /// have none. `gone` is the number of unloaded modules when the snapshot began.
    pub fn send_names(
        &self,
        number: u32,
        (classes, methods): (&Ids, &Ids),
        gone: u64,
        sent: &mut HashSet<u64>,
    ) -> io::Result<u64> {
        let deadline = clock::monotonic() + NAMES_LIMIT;
        let mut unnamed = classes.lost + methods.lost;
        let mut assemblies = HashMap::new();
        let mut frame = FrameBuilder::default();
        // What has been unloaded must not be asked for, and which classes that were is not known.
        // What may go waits for each question.
        let (names, unloads) = (self.host.runtime.names(), self.host.runtime.unloads());
        let in_time = || clock::monotonic() < deadline;
        let classes: Vec<u64> = classes.iter().filter(|class| !sent.contains(class)).collect();
        for part in classes.chunks(64) {
            let mut named = Vec::with_capacity(part.len());
            for &class in part {
                let id = ClassId(class as usize);
                let ask = || Some((names.class(id).ok()?, self.assembly_of(id, &mut assemblies)));
                match in_time().then(|| unloads.hold_since(gone, ask)).flatten().flatten() {
                    Some((name, assembly)) => {
                        sent.insert(class);
                        named.push((class, name.as_ref().to_owned(), assembly));
                    }
                    None => unnamed += 1,
                }
            }
            let count = named.len() as u64;
            unnamed += if self
                .put(&mut frame, &Record::HeapClasses { snapshot: number, classes: named })?
            {
                0
            } else {
                count
            };
        }
        let methods: Vec<u64> = methods.iter().filter(|method| !sent.contains(method)).collect();
        for part in methods.chunks(64) {
            let mut named = Vec::with_capacity(part.len());
            for &method in part {
                let ask = || names.method(FunctionId(method as usize)).ok();
                match in_time().then(|| unloads.hold_since(gone, ask)).flatten().flatten() {
                    Some(name) => {
                        sent.insert(method);
                        named.push((method, name.to_string()));
                    }
                    None => unnamed += 1,
                }
            }
            let count = named.len() as u64;
            unnamed += if self
                .put(&mut frame, &Record::HeapMethods { snapshot: number, methods: named })?
            {
                0
            } else {
                count
            };
        }
        frame.write_to(&mut self.outgoing.turn(CALM_LIMIT)?).map_err(io::Error::other)?;
        Ok(unnamed)
    }

    /// Sends the static fields among the elements that a snapshot has recorded; says if some may be
    /// missing, and why.
    pub fn send_statics(
        &self,
        number: u32,
        arrays: &StaticArrays,
    ) -> io::Result<Option<Unfinished>> {
        let deadline = clock::monotonic() + STATICS_LIMIT;
        let mut frame = FrameBuilder::default();
        let found = static_fields::find(&self.host.runtime, arrays, deadline, |fields| {
            for part in fields.chunks(64) {
                let fields = part.to_vec();
                self.put(&mut frame, &Record::HeapStatics { snapshot: number, fields })?;
            }
            Ok::<(), io::Error>(())
        })?;
        frame.write_to(&mut self.outgoing.turn(CALM_LIMIT)?).map_err(io::Error::other)?;
        Ok(found.err())
    }

    /// Sends the names of the fields of classes, and of those that they are derived from. `gone` as
    /// in [`Self::send_names`]. What is not known in time has no names.
    pub fn send_fields(&self, number: u32, classes: &Ids, gone: u64) -> io::Result<()> {
        let deadline = clock::monotonic() + NAMES_LIMIT;
        let runtime = &self.host.runtime;
        let mut frame = FrameBuilder::default();
        let mut asked: HashSet<u64> = HashSet::new();
        for class in classes.iter() {
            let mut class = class;
            while class != 0 && asked.insert(class) {
                let id = ClassId(class as usize);
                let ask = || object_fields::names(runtime, id);
                if clock::monotonic() > deadline {
                    break;
                }
                let Some(fields) = runtime.unloads().hold_since(gone, ask).flatten() else { break };
                class = fields.parent;
                self.put(
                    &mut frame,
                    &Record::HeapFields { snapshot: number, classes: vec![fields] },
                )?;
            }
        }
        frame.write_to(&mut self.outgoing.turn(CALM_LIMIT)?).map_err(io::Error::other)
    }

    /// Learns where tasks of the classes that a snapshot met keep their states, and sends where their
    /// methods wait; says of how many classes that is not known because there are too many, or it
    /// took too long. `gone` as in [`Self::send_names`].
    pub fn send_machines(
        &self,
        number: u32,
        classes: &Ids,
        machines: &mut Machines,
        gone: u64,
    ) -> io::Result<u64> {
        let deadline = clock::monotonic() + NAMES_LIMIT;
        let (mut frame, mut left_out) = (FrameBuilder::default(), 0);
        for class in classes.iter() {
            let runtime = &self.host.runtime;
            let learn = || runtime.unloads().hold_since(gone, || machines.learn(runtime, class));
            match (clock::monotonic() <= deadline).then(learn).flatten() {
                None => left_out += 1,
                Some(None) => {}
                Some(Some(machine)) => {
                    let fits = self.put(
                        &mut frame,
                        &Record::AsyncStateMachines { snapshot: number, machines: vec![machine] },
                    )?;
                    left_out += u64::from(!fits);
                }
            }
        }
        frame.write_to(&mut self.outgoing.turn(CALM_LIMIT)?).map_err(io::Error::other)?;
        Ok(left_out + machines.left_out)
    }

    /// Name of the assembly that defines a class, or the elements of an array; empty if there is
    /// none.
    fn assembly_of(&self, mut class: ClassId, known: &mut HashMap<ModuleId, String>) -> String {
        let info = self.host.runtime.info();
        for _ in 0..MOST_RANKS {
            match info.array_class(class) {
                Ok(Some(array)) => match array.element_class {
                    Some(element) => class = element,
                    None => return String::new(),
                },
                _ => break,
            }
        }
        let Ok(about) = info.class_info(class) else { return String::new() };
        let name = || {
            let named = self.host.runtime.names().module(about.module);
            named.map(|module| module.assembly).unwrap_or_default()
        };
        known.entry(about.module).or_insert_with(name).clone()
    }

    /// Adds a record to a frame, which is sent when it is full. False if the record is too large
    /// for any.
    fn put(&self, frame: &mut FrameBuilder, record: &Record) -> io::Result<bool> {
        // Names have a greatest length, so that 64 of them fit.
        let fits = frame.push(record).is_ok();
        if frame.is_full() {
            frame.write_to(&mut self.outgoing.turn(CALM_LIMIT)?).map_err(io::Error::other)?;
        }
        Ok(fits)
    }

    /// Sends records at once.
    pub fn send(&self, records: impl IntoIterator<Item = Record>) -> io::Result<()> {
        let mut frame = FrameBuilder::default();
        for record in records {
            frame.push(&record).map_err(io::Error::other)?;
        }
        frame.write_to(&mut self.outgoing.turn(CALM_LIMIT)?).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_kept_once_and_within_bounds() {
        let mut ids = Ids::new(64);
        for id in [0, 5, 5, 7, 0, u64::MAX] {
            ids.insert(id);
        }
        let mut kept: Vec<u64> = ids.iter().collect();
        kept.sort_unstable();
        assert_eq!(kept, [5, 7, u64::MAX]);
        for id in 100..1000 {
            ids.insert(id);
        }
        assert_eq!(ids.iter().count(), 45);
        assert_eq!(ids.lost, 900 - 42);
        ids.insert(5);
        assert_eq!(ids.lost, 900 - 42);
        assert!(ids.contains(5) && ids.contains(110) && !ids.contains(999) && !ids.contains(0));
    }
}
