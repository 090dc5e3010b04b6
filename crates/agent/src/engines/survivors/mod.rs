//! Snapshots of collections: what survives, and which references held young objects.
//!
//! The collections are those of the program itself. Before one of them the garbage collector's
//! callbacks are switched on, and within its last callback they are switched off again, so that
//! collections between two snapshots are as fast as ever. The runtime first reports which ranges it
//! moves (what it leaves in place lies where a collected generation was before). When it has
//! collected, it reports every root, then every object of the whole heap with its references, those
//! of generation 2 first. Of that, the agent keeps young survivors (of generations 0 and 1) with
//! references to each other, roots and older objects that refer to them, and sums by class of older
//! survivors. All of this goes to clrscope like a heap snapshot, in chunks of one buffer of fixed
//! size; clrscope computes chains and sums.

mod places;
mod sums;

use crate::engines::snapshots::{Abort, Chunks, Ids, Reported, STARTED, Slot, Teller, UNREAD};
use crate::host::counters::Counters;
use crate::host::unloads::Unloaded;
use crate::host::{Host, Phase};
use crate::os::clock;
use crate::os::connection::Outgoing;
use corprof::callback::{
    CollectedGenerations, DependentReferences, GcReason, GcRootFlags, MovedRanges, Roots,
};
use corprof::ids::{ClassId, RawObjectId};
use corprof::{EventMask, ObjectId};
use places::{Places, Stretch};
use profilers::survivors::SurvivorSettings;
use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use sums::Sums;
use wire::heap::{NOT_COLLECTED, RootKind};
use wire::{Nanos, Record, SurvivedCollection, SurvivorsEnd};

/// Slots for ids of classes, and most that are kept; the same for methods.
const CLASSES: usize = 32 << 10;
const METHODS: usize = 4 << 10;
/// Slots for sums of older survivors.
const SUMS: usize = 32 << 10;
/// Most ranges that are kept of what a collection moves. Neighbours become one.
const MOST_MOVED: usize = 64 << 10;
/// How many objects are reported between two checks of the clock.
const BETWEEN: u64 = 1 << 12;
/// The same for roots, of which each lot is looked at at its beginning, too.
const BETWEEN_ROOTS: usize = 256;
/// The oldest generation whose objects are young.
const YOUNG: u8 = 1;
/// Generations that are told apart: 0, 1, 2, large objects, pinned objects.
const GENERATIONS: usize = 5;
/// How long one snapshot waits for a collection at most, before the next one does.
const PATIENCE: Nanos = 3_600_000_000_000;

/// The collection that is being reported, or will be.
pub struct Survivors {
    slot: Slot<Snapshot>,
    settings: Option<SurvivorSettings>,
    memory: AtomicUsize,
}

impl Survivors {
    /// None yet. Without settings there will be none.
    pub fn new(settings: Option<SurvivorSettings>) -> Self {
        Self { slot: Slot::default(), settings, memory: AtomicUsize::new(0) }
    }

    /// Handles the start of a collection. `suspended` is when the runtime was asked to suspend.
    pub fn collection_started(
        &self,
        host: &Host,
        collected: CollectedGenerations<'_>,
        reason: GcReason,
        suspended: Nanos,
    ) {
        let wanted = |settings: &SurvivorSettings| settings.induced || reason != GcReason::INDUCED;
        let Some(settings) = self.settings.filter(wanted) else { return };
        if self.slot.begin(suspended) {
            let generation = collected.oldest().map_or(0, |generation| generation.0 as u8);
            self.slot.with(|snapshot| {
                snapshot.limit = settings.limit;
                snapshot.collection_started(host, generation, reason == GcReason::INDUCED);
            });
        }
    }

    /// Ranges that the collection moves.
    pub fn moved(&self, ranges: MovedRanges<'_, usize>) {
        self.slot.with(|snapshot| snapshot.places.moved(ranges));
    }

    /// What the callbacks of a collection are reported to.
    pub fn reported(&self) -> &Slot<impl Reported + use<>> {
        &self.slot
    }

    /// Handles the end of the suspension: the runtime has resumed.
    pub fn resumed(&self, now: Nanos) {
        self.slot.resumed(now);
    }

    /// Looks at collections until the session stops.
    pub fn run(&self, host: &Host, outgoing: &Outgoing, settings: SurvivorSettings) {
        let Some(teller) = Teller::new(host, outgoing, "snapshots of collections") else { return };
        teller.listen(teller.quiet);
        if host.config.launched {
            // The runtime sets our events once more as it finishes to start us.
            teller.wait(host.entered + STARTED, || false);
            teller.listen(teller.quiet);
        }
        let mut looker = Walker {
            survivors: self,
            host,
            teller,
            settings,
            sent: HashSet::new(),
            unloaded: host.unloaded(),
        };
        let mut snapshot = Box::new(Snapshot::new(outgoing, looker.teller.quiet));
        self.memory.store(snapshot.memory(), Relaxed);
        let mut number = 0;
        while host.phase() != Phase::Stopping {
            let begun = clock::monotonic();
            let Ok((back, telling)) = looker.snapshot(number, snapshot) else {
                // A connection that is gone ends the session.
                host.advance(Phase::Stopping);
                return;
            };
            let Some(back) = back else { return };
            snapshot = back;
            number = number.wrapping_add(1);
            let rested = clock::monotonic().saturating_add(settings.rest(telling));
            looker.teller.wait(rested.max(begun.saturating_add(settings.every)), || false);
        }
    }

    /// Bytes that looks hold, one after the other.
    pub fn memory(&self) -> usize {
        self.memory.load(Relaxed)
    }
}

/// A snapshot of a collection.
struct Snapshot {
    chunks: Chunks,
    places: Places,
    classes: Ids,
    methods: Ids,
    sums: Sums,
    /// Events when it is over.
    quiet: EventMask,
    /// How long the telling may take.
    limit: Nanos,
    time: Time,
    generation: u8,
    induced: bool,
    /// What had been unloaded by then.
    unloaded: Unloaded,
    before: [u64; GENERATIONS],
    /// When the first root or object was reported; 0 before that.
    first: Nanos,
    telling: Nanos,
    /// The origin of the last object that was recorded: the generation in which it was before the
    /// collection, or [`NOT_COLLECTED`].
    origin: Option<u8>,
}

/// Until when a collection may be reported.
struct Time {
    until: Nanos,
    /// Whether it took too long.
    is_over: bool,
}

impl Time {
    /// None has begun.
    const ANY: Self = Self { until: Nanos::MAX, is_over: false };

    /// Whether the time is over, at the root or reference of this number. Looks at the clock once
    /// in a while.
    fn is_over_at(&mut self, number: usize) -> bool {
        if number.is_multiple_of(BETWEEN_ROOTS) {
            self.look();
        }
        self.is_over
    }

    fn look(&mut self) {
        self.is_over |= clock::monotonic() >= self.until;
    }
}

impl Snapshot {
    fn new(outgoing: &Outgoing, quiet: EventMask) -> Self {
        Self {
            chunks: Chunks::new(0, outgoing, Nanos::MAX),
            places: Places::new(),
            classes: Ids::new(CLASSES),
            methods: Ids::new(METHODS),
            sums: Sums::new(SUMS),
            quiet,
            limit: 0,
            time: Time::ANY,
            generation: 0,
            induced: false,
            unloaded: Unloaded::default(),
            before: [0; GENERATIONS],
            first: 0,
            telling: 0,
            origin: None,
        }
    }

    fn restart(&mut self, number: u32) {
        self.chunks.restart(number, Nanos::MAX);
        self.places.clear();
        self.classes.clear();
        self.methods.clear();
        self.sums.clear();
        self.before = [0; GENERATIONS];
        (self.first, self.telling, self.time) = (0, 0, Time::ANY);
        self.origin = None;
    }

    fn memory(&self) -> usize {
        let sums = size_of_val(&*self.sums.slots);
        let ids = self.classes.memory() + self.methods.memory();
        size_of::<Self>() + self.chunks.encoder.memory() + self.places.memory() + ids + sums
    }

    /// Where generations lie is as it was before only now.
    fn collection_started(&mut self, host: &Host, generation: u8, induced: bool) {
        (self.generation, self.induced, self.unloaded) = (generation, induced, host.unloaded());
        for range in host.runtime.info().generation_bounds().unwrap_or_default() {
            let Ok(number) = u8::try_from(range.generation.0) else { continue };
            // Large and pinned objects are collected with generation 2.
            let is_collected = number <= generation || generation >= 2;
            if let (true, Some(before)) = (is_collected, self.before.get_mut(usize::from(number))) {
                *before += range.used as u64;
                let end = range.start.saturating_add(range.used);
                self.places.collected.push(Stretch { start: range.start, end, generation: number });
            }
        }
        self.places.collected.sort_unstable_by_key(|stretch| stretch.start);
    }

    /// The collection is done, and the telling begins.
    fn begin(&mut self) {
        if self.first == 0 {
            self.first = clock::monotonic();
            self.time.until = self.first.saturating_add(self.limit);
            self.places.settle();
        }
    }
}

impl Reported for Snapshot {
    fn roots(&mut self, host: &Host, roots: Roots<'_>) {
        self.begin();
        for (number, root) in roots.iter().enumerate() {
            if self.time.is_over_at(number) {
                return;
            }
            let Some(target) = root.object else { continue };
            if root.flags.0 & GcRootFlags::WEAKREF.0 != 0 || !self.places.is_young(target) {
                continue;
            }
            if !self.chunks.has_room(host) {
                return;
            }
            if self.chunks.root(target, &root) == RootKind::Stack {
                self.methods.insert(root.id as u64);
            }
        }
    }

    fn dependent(&mut self, host: &Host, references: DependentReferences<'_>) {
        self.begin();
        for (number, reference) in references.iter().enumerate() {
            if self.time.is_over_at(number) {
                return;
            }
            if reference.key.is_null()
                || reference.value.is_null()
                || !self.places.is_young(reference.value)
            {
                continue;
            }
            if !self.chunks.has_room(host) {
                return;
            }
            self.chunks.dependent(&reference);
        }
    }

    fn object(
        &mut self,
        host: &Host,
        object: RawObjectId,
        class: ClassId,
        references: &[RawObjectId],
    ) -> bool {
        self.begin();
        self.chunks.objects += 1;
        if self.chunks.objects.is_multiple_of(BETWEEN) {
            self.time.look();
            if host.phase() == Phase::Stopping {
                self.chunks.abort.get_or_insert(Abort::Stopped);
            }
        }
        if self.time.is_over || self.chunks.abort.is_some() {
            return false;
        }
        let origin = self.places.origin(object);
        let is_young = origin.is_some_and(|generation| generation <= YOUNG);
        let places = &self.places;
        let mut young = references
            .iter()
            .copied()
            .filter(|target| !target.is_null() && places.is_young(*target));
        let first = young.next();
        if origin.is_none() && first.is_none() {
            return true;
        }
        // SAFETY: the runtime names objects that are where they will stay, and waits for this
        // callback while it is suspended.
        let id = unsafe { ObjectId::from_raw(object) };
        let Ok(size) = host.runtime.info().object_size(id) else { return true };
        if let (Some(generation), false) = (origin, is_young) {
            self.classes.insert(class.0 as u64);
            self.sums.add(class.0 as u64, generation, (size as u64).next_multiple_of(8));
            if first.is_none() {
                return true;
            }
        }
        if !self.chunks.has_room(host) {
            return false;
        }
        if self.origin != Some(origin.unwrap_or(NOT_COLLECTED)) {
            let generation = origin.unwrap_or(NOT_COLLECTED);
            self.origin = Some(generation);
            self.chunks.encoder.origin(generation);
            if !self.chunks.has_room(host) {
                return false;
            }
        }
        if !self.chunks.encoder.object(object.0 as u64, class.0 as u64, size as u64, 0) {
            self.classes.insert(class.0 as u64);
        }
        for target in first.into_iter().chain(young) {
            if !self.chunks.has_room(host) {
                return false;
            }
            self.chunks.encoder.reference(target.0 as u64);
        }
        true
    }

    fn collection_finished(&mut self, host: &Host) {
        self.chunks.generations(host);
        for (class, generation, objects, bytes) in self.sums.iter() {
            if self.chunks.has_room(host) {
                self.chunks.encoder.sum(generation, class, objects, bytes);
            }
        }
        // The next collection is not slowed down any more. Should the runtime refuse, the thread
        // that waits tries again.
        let _ = host.runtime.info().set_event_mask(self.quiet);
        if self.first != 0 {
            self.telling = clock::monotonic().saturating_sub(self.first);
        }
    }
}

struct Walker<'a> {
    survivors: &'a Survivors,
    host: &'a Host,
    teller: Teller<'a>,
    settings: SurvivorSettings,
    /// Classes and methods whose names were sent, and what had been unloaded then.
    sent: HashSet<u64>,
    unloaded: Unloaded,
}

impl Walker<'_> {
    /// Waits for a collection and sends what survived it. Returns the snapshot for the next use,
    /// and how long the runtime took to report.
    fn snapshot(
        &mut self,
        number: u32,
        mut snapshot: Box<Snapshot>,
    ) -> io::Result<(Option<Box<Snapshot>>, Nanos)> {
        let host = self.host;
        snapshot.restart(number);
        self.teller.send([Record::SurvivorsBegin { snapshot: number }])?;
        let memory = snapshot.memory();
        // First the events, then the snapshot: of a collection that is under way it would see the
        // end only.
        if !self.teller.listen(self.teller.telling) {
            return Ok((None, 0));
        }
        self.survivors.slot.arm(snapshot, memory);
        self.teller.wait(clock::monotonic() + PATIENCE, || self.survivors.slot.is_told());
        let begun = clock::thread_cpu();
        // First the snapshot, then the events: without events, a collection that is under way would
        // be reported only in part.
        let taken = self.survivors.slot.disarm();
        self.teller.listen(self.teller.quiet);
        let Some(mut snapshot) = taken.snapshot else { return Ok((None, 0)) };
        snapshot.chunks.finish()?;
        let lost = snapshot.places.lost > 0 || snapshot.sums.lost > 0;
        let complete = taken.told
            && snapshot.first != 0
            && snapshot.chunks.abort.is_none()
            && !snapshot.time.is_over
            && !lost;
        // What has been unloaded may come again with another meaning.
        let (before, unloaded) = (self.unloaded, snapshot.unloaded);
        if unloaded.modules != before.modules {
            self.sent.clear();
        } else {
            host.runtime.unloads().freed().retain(before.functions, &mut self.sent);
        }
        self.unloaded = unloaded;
        let ids = (&snapshot.classes, &snapshot.methods);
        let unnamed = if taken.told {
            self.teller.send_names(number, ids, unloaded, &mut self.sent)?
        } else {
            0
        };
        let reason = match snapshot.chunks.abort {
            Some(Abort::Stopped) => Some("the recording was stopped".to_owned()),
            Some(Abort::Unread) => Some(UNREAD.to_owned()),
            _ if snapshot.time.is_over => {
                Some(format!("it took longer than {} ms", self.settings.limit / 1_000_000))
            }
            _ if taken.told && snapshot.first == 0 => {
                Some("the runtime reported nothing of it".to_owned())
            }
            _ if lost => {
                Some("more was moved, or of more classes, than there is room for".to_owned())
            }
            _ if unnamed > 0 => Some(format!("the names of {unnamed} classes or methods")),
            _ => None,
        };
        let telling = snapshot.telling;
        let collection = SurvivedCollection {
            time: if taken.told { taken.suspended } else { 0 },
            generation: snapshot.generation,
            induced: snapshot.induced,
            paused: taken.paused,
            telling,
            before: snapshot.before,
            moved: snapshot.places.bytes_moved,
            objects: snapshot.chunks.objects,
            complete,
            reason,
        };
        self.teller.send([Record::SurvivorsEnd(SurvivorsEnd { snapshot: number, collection })])?;
        Counters::add(&host.counters.survivor_snapshots, u64::from(taken.told));
        host.tick_cpu.fetch_add(clock::thread_cpu().saturating_sub(begun), Relaxed);
        Ok((Some(snapshot), telling))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        let mut places = Places::new();
        let stretch = |start, end, generation| Stretch { start, end, generation };
        places.collected = vec![stretch(0x1000, 0x2000, 1), stretch(0x2000, 0x4000, 0)];
        places
    }

    #[test]
    fn roots_end_with_the_time() {
        let mut time = Time { until: clock::monotonic() + 20_000_000, is_over: false };
        let begun = clock::monotonic();
        let told = (0..usize::MAX).take_while(|number| !time.is_over_at(*number)).count();
        let took = clock::monotonic() - begun;
        assert!(told > 0 && told.is_multiple_of(BETWEEN_ROOTS), "{told}");
        assert!(took >= 19_000_000, "{took} ns");
        assert!(time.is_over_at(1), "it stays so");
        let mut any = Time::ANY;
        assert!(!(0..1_000_000).any(|number| any.is_over_at(number)));
    }

    #[test]
    fn survivors_are_known_by_where_they_were() {
        let mut places = places();
        places.one_moved(0x2100, 0x1100, 0x40);
        places.one_moved(0x2200, 0x1140, 0x40);
        places.one_moved(0x1300, 0x9000, 0x10);
        assert_eq!(places.moved.len(), 2, "neighbours of one generation are one");
        places.settle();
        let origin = |address| places.origin(RawObjectId(address));
        assert_eq!(origin(0x1100), Some(0), "moved into what generation 1 was");
        assert_eq!(origin(0x117f), Some(0));
        assert_eq!(origin(0x1180), Some(1), "in place");
        assert_eq!(origin(0x3fff), Some(0), "in place");
        assert_eq!(origin(0x9008), Some(1), "moved to where nothing was");
        assert_eq!((origin(0x9010), origin(0xfff), origin(0x5000)), (None, None, None));
        assert_eq!(places.bytes_moved, 0x90);
    }

    #[test]
    fn moves_beyond_the_room_are_counted() {
        let mut places = places();
        for number in 0..MOST_MOVED + 3 {
            places.one_moved(0x2000, 0x10_0000 + number * 0x20, 8);
        }
        assert_eq!((places.moved.len(), places.lost), (MOST_MOVED, 24));
        places.one_moved(0x8000, 0x1000, 8);
        assert_eq!(places.moved.len(), MOST_MOVED, "what was not collected is no survivor");
    }

    #[test]
    fn sums_are_kept_by_class_and_generation() {
        let mut sums = Sums::new(64);
        for (class, generation, bytes) in
            [(0x1000, 2, 24), (0x1000, 3, 100), (0x1000, 2, 32), (0x2000, 2, 8)]
        {
            sums.add(class, generation, bytes);
        }
        let mut all: Vec<_> = sums.iter().collect();
        all.sort_unstable();
        assert_eq!(all, [(0x1000, 2, 2, 56), (0x1000, 3, 1, 100), (0x2000, 2, 1, 8)]);
        for class in 0..100 {
            sums.add(0x10_0000 + class * 8, 2, 8);
        }
        assert_eq!((sums.iter().count(), sums.lost), (45, 100 - 42));
    }
}
