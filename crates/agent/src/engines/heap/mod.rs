//! Heap snapshots.
//!
//! A thread of the agent induces a collection with the garbage collector's callbacks switched on.
//! The runtime then reports every root and every surviving object, one after another on one thread,
//! while it is suspended. These reports are encoded into one buffer of fixed size, and the callback
//! itself writes each full buffer to clrscope. So a snapshot of a heap of any size takes a few
//! megabytes. If clrscope does not read, the snapshot is given up and the runtime resumes.
//!
//! Only numbers are recorded while the runtime is suspended; names are queried afterwards. Where
//! tasks keep their states is queried afterwards, too, so these states are read from the second
//! snapshot on ([`crate::engines::heap::async_state_machines`]).

pub mod async_state_machines;
pub mod object_fields;
pub mod pending_tasks;
pub mod static_fields;

use crate::engines::heap::async_state_machines::{Machines, Plan, Plans};
use crate::engines::heap::static_fields::{StaticArrays, Unfinished};
use crate::engines::snapshots::{Abort, Chunks, Ids, STARTED, Slot, Taken, Teller, UNREAD};
use crate::host::counters::Counters;
use crate::host::runtime::Runtime;
use crate::host::{Host, Phase};
use crate::os::clock;
use crate::os::connection::Outgoing;
use corprof::ObjectId;
use corprof::callback::{
    CollectedGenerations, DependentReferences, GcGeneration, GcReason, GcRootKind, Roots,
};
use corprof::ids::{ClassId, RawObjectId};
use corprof::info::StringLayout;
use profilers::heap::{HeapSettings, SnapshotKind};
use std::collections::HashSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use wire::heap::{self, FIELD_CONTINUATION, FIELD_STATE, MAX_TEXT, RootKind};
use wire::{HeapEnd, Nanos, Record};

/// Slots for ids of classes, and most that are kept; the same for methods.
const CLASSES: usize = 128 << 10;
const METHODS: usize = 8 << 10;
/// Slots for ids of classes whose fields are named.
const WITH_FIELDS: usize = 64 << 10;
/// Slots for hashes of strings.
const HASHES: usize = 64 << 10;
/// Most roots whose objects are looked at where nothing but roots is wanted.
const TARGETS: usize = 128 << 10;
/// Bytes before an object's address that belong to it.
const HEADER: usize = 8;

/// The snapshot that is under way, where one is, as callbacks see it.
#[derive(Default)]
pub struct Heap {
    slot: Slot<Snapshot>,
    /// Whether the snapshot is for a collection that is not full.
    waits_for_small: AtomicBool,
}

impl Heap {
    /// Handles the start of a collection. `suspended` is when the runtime was asked to suspend.
    pub fn collection_started(
        &self,
        collected: CollectedGenerations<'_>,
        reason: GcReason,
        suspended: Nanos,
    ) {
        let fits = match collected.contains(GcGeneration::GEN_2) {
            // One that the program asks for just now is as good as ours.
            true => reason == GcReason::INDUCED && !self.waits_for_small.load(Relaxed),
            false => self.waits_for_small.load(Relaxed),
        };
        if fits {
            self.slot.begin(suspended);
        }
    }

    /// Roots that the collection found.
    pub fn roots(&self, host: &Host, roots: Roots<'_>) {
        self.slot.with(|snapshot| snapshot.roots(host, roots));
    }

    /// Entries of `ConditionalWeakTable`s that the collection found.
    pub fn dependent(&self, host: &Host, references: DependentReferences<'_>) {
        self.slot.with(|snapshot| snapshot.dependent(host, references));
    }

    /// Records an object that survived. Returns false to receive no more objects.
    pub fn object(
        &self,
        host: &Host,
        object: RawObjectId,
        class: ClassId,
        references: &[RawObjectId],
    ) -> bool {
        self.slot.with(|snapshot| snapshot.object(host, object, class, references)).unwrap_or(false)
    }

    /// Handles the end of the collection; the runtime is still suspended.
    pub fn collection_finished(&self, host: &Host) {
        self.slot.with(|snapshot| snapshot.collection_finished(host));
        self.slot.end();
    }

    /// Handles the end of the suspension: the runtime has resumed.
    pub fn resumed(&self, now: Nanos) {
        self.slot.resumed(now);
    }

    /// Takes the snapshots that are wanted.
    pub fn run(&self, host: &Host, outgoing: &Outgoing, settings: HeapSettings) {
        let Some(teller) = Teller::new(host, outgoing, "heap snapshots") else { return };
        let machines = settings.tasks.then(Machines::default);
        let mut looker = Walker {
            heap: self,
            host,
            outgoing,
            teller,
            settings,
            machines,
            gone: host.modules_gone(),
        };
        // Otherwise the runtime would report each collection. Events that were requested while the
        // agent attached can be switched off and on later.
        looker.teller.listen(looker.teller.quiet);
        let every = settings.every * 1_000_000_000;
        // A launched process has nothing yet.
        let mut next = host.entered + if host.config.launched { every } else { 0 };
        for number in 0..settings.snapshots {
            if host.config.launched && number == 0 {
                // The runtime sets our events once more as it finishes to start us.
                looker.teller.wait(next.min(host.entered + STARTED), || false);
                looker.teller.listen(looker.teller.quiet);
            }
            looker.teller.wait(next, || false);
            if host.phase() == Phase::Stopping {
                return;
            }
            next = clock::monotonic() + every;
            let begun = clock::thread_cpu();
            let looked = looker.snapshot(number);
            host.tick_cpu.fetch_add(clock::thread_cpu().saturating_sub(begun), Relaxed);
            // A connection that is gone ends the session.
            if looked.is_err() {
                host.advance(Phase::Stopping);
                return;
            }
        }
    }

    /// Bytes that the snapshot under way holds.
    pub fn memory(&self) -> usize {
        self.slot.memory()
    }
}

/// A snapshot that is under way.
struct Snapshot {
    kind: SnapshotKind,
    chunks: Chunks,
    classes: Ids,
    methods: Ids,
    strings: Option<Strings>,
    /// What is read of tasks.
    plans: Option<Arc<Plans>>,
    /// What roots refer to, where nothing else is looked at: as many as there is room for, and the
    /// number of the others.
    targets: Vec<usize>,
    targets_lost: u64,
    /// Classes of objects whose references were found in their words.
    with_fields: Ids,
    /// Arrays of static fields, where references are wanted.
    statics: Option<StaticArrays>,
}

impl Snapshot {
    fn new(
        number: u32,
        kind: SnapshotKind,
        outgoing: &Outgoing,
        strings: Option<Strings>,
        plans: Option<Arc<Plans>>,
        deadline: Nanos,
    ) -> Self {
        let targets = if kind == SnapshotKind::Roots { TARGETS } else { 0 };
        Self {
            kind,
            chunks: Chunks::new(number, outgoing, deadline),
            classes: Ids::new(CLASSES),
            methods: Ids::new(METHODS),
            with_fields: Ids::new(if kind == SnapshotKind::All { WITH_FIELDS } else { 1 }),
            strings,
            plans,
            targets: Vec::with_capacity(targets),
            targets_lost: 0,
            statics: (kind == SnapshotKind::All).then(StaticArrays::default),
        }
    }

    fn memory(&self) -> usize {
        let strings = if self.strings.is_some() { HASHES * size_of::<u64>() } else { 0 };
        let plans = self.plans.as_ref().map_or(0, |plans| plans.memory());
        let ids = self.classes.memory() + self.methods.memory() + self.with_fields.memory();
        let targets = self.targets.capacity() * size_of::<usize>();
        let statics = self.statics.as_ref().map_or(0, StaticArrays::memory);
        let own = size_of::<Self>() + self.chunks.encoder.memory();
        own + ids + strings + plans + targets + statics
    }

    fn roots(&mut self, host: &Host, roots: Roots<'_>) {
        if self.kind == SnapshotKind::Histogram {
            return;
        }
        for root in roots.iter() {
            let Some(target) = root.object else { continue };
            if !self.chunks.has_room(host) {
                return;
            }
            let kind = match root.kind {
                GcRootKind::STACK => RootKind::Stack,
                GcRootKind::FINALIZER => RootKind::Finalizer,
                GcRootKind::HANDLE => RootKind::Handle,
                _ => RootKind::Other,
            };
            if kind == RootKind::Stack {
                self.methods.insert(root.id as u64);
            }
            // The runtime's flags are those of the format.
            self.chunks.encoder.root(target.0 as u64, kind, root.flags.0 as u8, root.id as u64);
            let flags = root.flags.0 as u8;
            if kind == RootKind::Handle
                && flags & (heap::ROOT_WEAK | heap::ROOT_REF_COUNTED) == 0
                && let Some(statics) = &mut self.statics
            {
                statics.held(target);
            }
            // What the root refers to is asked for its class, so it must be an object, and not
            // something within one.
            if self.kind == SnapshotKind::Roots && root.flags.0 as u8 & heap::ROOT_INTERIOR == 0 {
                self.target(target);
            }
        }
    }

    /// Keeps what a root refers to until it may be looked at, which is after the collection.
    fn target(&mut self, target: RawObjectId) {
        if self.targets.last() == Some(&target.0) {
            return;
        }
        if self.targets.len() >= TARGETS {
            if self.targets_lost == 0 {
                // Many roots may refer to the same few objects.
                self.targets.sort_unstable();
                self.targets.dedup();
            }
            // Sorting again and again for little room would keep the runtime suspended.
            if self.targets.len() > TARGETS / 8 * 7 {
                self.targets_lost += 1;
                return;
            }
        }
        self.targets.push(target.0);
    }

    fn dependent(&mut self, host: &Host, references: DependentReferences<'_>) {
        if self.kind != SnapshotKind::All {
            return;
        }
        for reference in references.iter() {
            if reference.key.is_null() || reference.value.is_null() {
                continue;
            }
            if !self.chunks.has_room(host) {
                return;
            }
            let (key, value) = (reference.key.0 as u64, reference.value.0 as u64);
            self.chunks.encoder.dependent(reference.handle.0 as u64, key, value);
        }
    }

    fn object(
        &mut self,
        host: &Host,
        object: RawObjectId,
        class: ClassId,
        references: &[RawObjectId],
    ) -> bool {
        let references = match self.kind {
            SnapshotKind::All => references,
            SnapshotKind::Histogram => &[],
            // Roots were reported before; the heap need not be walked.
            SnapshotKind::Roots => return false,
        };
        // SAFETY: the runtime names objects that are where they will stay, and waits for this
        // callback while it is suspended.
        let id = unsafe { ObjectId::from_raw(object) };
        let Ok(size) = host.runtime.info().object_size(id) else { return true };
        if !self.chunks.has_room(host) {
            return false;
        }
        self.chunks.objects += 1;
        // SAFETY: the object has this size, and stays what and where it is during this callback.
        let found = unsafe { object_fields::find(id, size, references) };
        let words = found.map_or(0, |found| found.words);
        if !self.chunks.encoder.object(object.0 as u64, class.0 as u64, size as u64, words) {
            self.classes.insert(class.0 as u64);
            if words != 0 {
                self.with_fields.insert(class.0 as u64);
            }
        }
        let all_told = match found {
            Some(found) => self.references(host, found.references()),
            None => {
                let references = references.iter().filter(|reference| !reference.is_null());
                self.references(host, references.map(|reference| reference.0))
            }
        };
        if !all_told {
            return false;
        }
        if !self.elements(host, id, size, references) {
            return false;
        }
        if let Some(plan) = self.plans.as_ref().and_then(|plans| plans.of(class.0 as u64)) {
            return self.task(host, id, size, plan);
        }
        if self.strings.as_ref().is_some_and(|strings| strings.class == class) {
            return self.string(host, id, size);
        }
        true
    }

    /// Records references of the last object.
    fn references(&mut self, host: &Host, references: impl Iterator<Item = usize>) -> bool {
        for reference in references {
            if !self.chunks.has_room(host) {
                return false;
            }
            self.chunks.encoder.reference(reference as u64);
        }
        true
    }

    /// Records where the elements of an array are that may be static fields.
    fn elements(
        &mut self,
        host: &Host,
        object: ObjectId<'_>,
        size: usize,
        references: &[RawObjectId],
    ) -> bool {
        let Some(statics) = &mut self.statics else { return true };
        // SAFETY: the object has this size, and stays what and where it is during this callback.
        let Some(elements) = (unsafe { statics.elements(object, size, references) }) else {
            return true;
        };
        for (address, target) in elements {
            if !self.chunks.has_room(host) {
                return false;
            }
            self.chunks.encoder.slot(address, target);
        }
        true
    }

    /// Reads where a task stands.
    fn task(&mut self, host: &Host, object: ObjectId<'_>, size: usize, plan: Plan) -> bool {
        if !self.chunks.has_room(host) {
            return false;
        }
        let address = object.address() as u64;
        // SAFETY: the object stays what and where it is while the runtime is suspended, and has
        // this size.
        if let Some(state) = unsafe { read_field::<i32>(object, size, plan.state) } {
            self.chunks.encoder.field(address, FIELD_STATE, u64::from(state as u32));
        }
        if !self.chunks.has_room(host) {
            return false;
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { read_field::<usize>(object, size, plan.continuation) } {
            self.chunks.encoder.field(address, FIELD_CONTINUATION, next as u64);
        }
        true
    }

    fn string(&mut self, host: &Host, object: ObjectId<'_>, size: usize) -> bool {
        if !self.chunks.has_room(host) {
            return false;
        }
        let Some(strings) = &mut self.strings else { return true };
        // SAFETY: the object is a string of `size` bytes, and stays what and where it is during
        // this callback.
        let Some(units) = (unsafe { strings.units(object, size) }) else { return true };
        // SAFETY: every two bytes are a number, and a number's bytes may be looked at one by one.
        let bytes =
            unsafe { std::slice::from_raw_parts(units.as_ptr().cast::<u8>(), size_of_val(units)) };
        let hash = heap::string_hash(bytes);
        let text = strings
            .is_second(hash)
            .then(|| units.get(..units.len().min(MAX_TEXT)).unwrap_or_default());
        self.chunks.encoder.string(object.address() as u64, hash, units.len() as u32, text);
        true
    }

    /// Records where generations lie, which is known only now, and only until the runtime resumes.
    /// Objects that are never collected were reported with those of generation 2.
    fn collection_finished(&mut self, host: &Host) {
        let info = host.runtime.info();
        self.targets.sort_unstable();
        self.targets.dedup();
        for target in std::mem::take(&mut self.targets) {
            // SAFETY: the collection has ended, so that objects are where they will stay, and the
            // runtime is still suspended.
            let object = unsafe { ObjectId::from_raw(RawObjectId(target)) };
            let (Ok(class), Ok(size)) = (info.class_of(object), info.object_size(object)) else {
                continue;
            };
            if !self.chunks.has_room(host) {
                return;
            }
            self.chunks.objects += 1;
            if !self.chunks.encoder.object(target as u64, class.0 as u64, size as u64, 0) {
                self.classes.insert(class.0 as u64);
            }
        }
        for range in info.generation_bounds().unwrap_or_default() {
            let generation = u8::try_from(range.generation.0).unwrap_or(u8::MAX);
            if self.chunks.has_room(host) {
                self.chunks.encoder.generation(
                    generation,
                    range.start as u64,
                    range.used as u64,
                    range.reserved as u64,
                );
            }
        }
        for range in info.non_gc_heap_bounds().unwrap_or_default() {
            if self.chunks.has_room(host) {
                self.chunks.encoder.generation(
                    5,
                    range.start as u64,
                    range.used as u64,
                    range.reserved as u64,
                );
            }
        }
    }
}

/// Reads a field of an object, if it lies within it. Offset 0 is none: the class stands there.
///
/// # Safety
/// The object has `size` bytes with its header, and stays what and where it is meanwhile. Every bit
/// pattern is a `T`.
unsafe fn read_field<T: Copy>(object: ObjectId<'_>, size: usize, offset: u32) -> Option<T> {
    let offset = offset as usize;
    let end = offset.checked_add(size_of::<T>())?.checked_add(HEADER)?;
    if offset < size_of::<usize>() || end > size {
        return None;
    }
    let field = object.address().checked_add(offset)? as *const T;
    // SAFETY: the field lies within the object, as was checked, and may hold any bits.
    Some(unsafe { field.read_unaligned() })
}

/// What is known of strings.
struct Strings {
    class: ClassId,
    layout: StringLayout,
    /// Hashes that were met, the lowest bit of each replaced by whether the text was sent.
    hashes: Box<[u64]>,
}

impl Strings {
    /// Finds the class of strings: the one of that name in the module that has `System.Object`. To
    /// be called in a [hold](crate::host::unloads::Unloads::hold_all).
    fn find(runtime: &Runtime) -> Option<Self> {
        let info = runtime.info();
        let modules = info.modules().ok()?.filter_map(|module| module.ok()?.non_null());
        let class = modules.filter_map(|module| {
            let metadata = info.module_metadata(module).ok()?;
            metadata.find_type_def("System.Object", None).ok()??;
            let string = metadata.find_type_def("System.String", None).ok()??;
            info.class_from_token(module, string).ok()
        });
        let class = class.into_iter().next()?;
        Some(Self {
            class,
            layout: info.string_layout().ok()?,
            hashes: vec![0; HASHES].into_boxed_slice(),
        })
    }

    /// The text of a string.
    ///
    /// # Safety
    /// The object is a string of `size` bytes, and stays what and where it is for as long as the
    /// result is used.
    unsafe fn units<'a>(&self, object: ObjectId<'a>, size: usize) -> Option<&'a [u16]> {
        let (length_at, text_at) =
            (self.layout.length_offset as usize, self.layout.buffer_offset as usize);
        if size < HEADER + text_at || length_at + size_of::<u32>() > text_at {
            return None;
        }
        let length = object.address().checked_add(length_at)? as *const u32;
        // SAFETY: the field lies within the object, as was checked.
        let length = unsafe { length.read_unaligned() } as usize;
        if length.checked_mul(2)?.checked_add(HEADER + text_at)? > size {
            return None;
        }
        let text = object.address().checked_add(text_at)? as *const u16;
        if !text.is_aligned() {
            return None;
        }
        // SAFETY: the text lies within the object, as was checked, and the object stays what it is.
        Some(unsafe { std::slice::from_raw_parts(text, length) })
    }

    /// Whether a hash is met the second time, as far as is remembered.
    fn is_second(&mut self, hash: u64) -> bool {
        let at = (hash >> 40) as usize & (HASHES - 1);
        let Some(slot) = self.hashes.get_mut(at) else { return false };
        // 0 is for none.
        let (first, sent) = (hash & !1 | 2, hash | 3);
        let is_second = *slot == first;
        if *slot != sent {
            *slot = if is_second { sent } else { first };
        }
        is_second
    }
}

struct Walker<'a> {
    heap: &'a Heap,
    host: &'a Host,
    outgoing: &'a Outgoing,
    teller: Teller<'a>,
    settings: HeapSettings,
    /// What is known of tasks, where that is wanted.
    machines: Option<Machines>,
    /// How many modules had been unloaded when that was asked for.
    gone: u64,
}

impl Walker<'_> {
    fn snapshot(&mut self, number: u32) -> io::Result<()> {
        let host = self.host;
        let kind = self.settings.kind;
        let wants_strings = self.settings.strings && kind == SnapshotKind::All;
        let find = || host.runtime.unloads().hold_all(|| Strings::find(&host.runtime));
        let strings = wants_strings.then(find).flatten();
        let lacks_strings = wants_strings && strings.is_none();
        let time = clock::monotonic();
        self.teller.send([Record::HeapBegin { snapshot: number, time }])?;
        let gone = host.modules_gone();
        if gone != self.gone {
            // Which classes have gone is not known, and others may come in their places.
            self.gone = gone;
            self.machines.iter_mut().for_each(Machines::forget);
        }
        let plans = self.machines.as_ref().map(|machines| Arc::clone(&machines.plans));
        let deadline = time + self.settings.limit * 1_000_000_000;
        let snapshot = Snapshot::new(number, kind, self.outgoing, strings, plans, deadline);
        let (taken, forced) = self.collect(snapshot, deadline);
        let (told, paused) = (taken.told, taken.paused);
        let Some(mut snapshot) = taken.snapshot else { return Ok(()) };
        snapshot.chunks.finish()?;
        let complete = told && snapshot.chunks.abort.is_none();
        let lacks = self.send_names(number, &mut snapshot, gone, complete)?;
        let reason = self.why_incomplete(&snapshot, forced, told).or_else(|| match lacks {
            _ if snapshot.targets_lost > 0 => {
                Some(format!("the objects of {} roots", snapshot.targets_lost))
            }
            Some(lacks) => Some(lacks),
            None => lacks_strings.then(|| "the contents of strings".to_owned()),
        });
        let end = HeapEnd {
            snapshot: number,
            time: clock::monotonic(),
            paused,
            objects: snapshot.chunks.objects,
            complete,
            reason,
        };
        self.teller.send([Record::HeapEnd(end)])
    }

    /// Lets a collection be reported to a snapshot: one that is induced, or for a snapshot of roots
    /// the program's next one.
    fn collect(&self, snapshot: Snapshot, deadline: Nanos) -> (Taken<Snapshot>, Forced) {
        let (heap, kind) = (self.heap, self.settings.kind);
        let memory = snapshot.memory();
        heap.waits_for_small.store(kind == SnapshotKind::Roots, Relaxed);
        heap.slot.arm(Box::new(snapshot), memory);
        // Whatever happens, the runtime must not be left telling.
        let forced = catch_unwind(AssertUnwindSafe(|| {
            if !self.teller.listen(self.teller.telling) {
                return Forced::NotReported;
            }
            if kind == SnapshotKind::Roots {
                self.teller.wait(deadline, || heap.slot.is_told());
                return Forced::Yes;
            }
            self.host.runtime.info().force_gc().map_or_else(Forced::Refused, |()| Forced::Yes)
        }));
        // A collection that is being reported must be received to its end.
        let taken = heap.slot.disarm();
        self.teller.listen(self.teller.quiet);
        (taken, forced.unwrap_or(Forced::Fault))
    }

    /// Sends the names of what a snapshot met; says what is missing of them.
    fn send_names(
        &mut self,
        number: u32,
        snapshot: &mut Snapshot,
        gone: u64,
        complete: bool,
    ) -> io::Result<Option<String>> {
        let teller = &self.teller;
        let met = (&snapshot.classes, &snapshot.methods);
        let unnamed = teller.send_names(number, met, gone, &mut HashSet::new())?;
        let mut unfinished = None;
        if complete {
            if let Some(statics) = &snapshot.statics {
                unfinished = teller.send_statics(number, statics)?;
            }
            teller.send_fields(number, &snapshot.with_fields, gone)?;
        }
        snapshot.plans = None;
        let unplanned = match &mut self.machines {
            Some(machines) => teller.send_machines(number, &snapshot.classes, machines, gone)?,
            None => 0,
        };
        Ok(match unfinished {
            _ if unnamed > 0 => Some(format!("the names of {unnamed} classes or methods")),
            _ if unplanned > 0 => Some(format!("the states of tasks of {unplanned} classes")),
            Some(Unfinished::Late) => Some("the names of some static fields".to_owned()),
            Some(Unfinished::Edited) => Some(
                "the names of static fields, because a debugger is attached or hot reload is on"
                    .to_owned(),
            ),
            None => None,
        })
    }

    /// Why a snapshot does not have all that it should, if it does not.
    fn why_incomplete(&self, snapshot: &Snapshot, forced: Forced, told: bool) -> Option<String> {
        let (host, limit) = (self.host, self.settings.limit);
        let waits_for_small = self.settings.kind == SnapshotKind::Roots;
        let reason = match (snapshot.chunks.abort, forced) {
            (Some(Abort::Stopped), _) => "the recording was stopped".to_owned(),
            (Some(Abort::Late), _) => format!("it took longer than {limit} s"),
            (Some(Abort::Unread), _) => UNREAD.to_owned(),
            (_, Forced::Refused(error)) => format!("the runtime refused to collect: {error}"),
            (_, Forced::NotReported) => "the runtime does not report collections".to_owned(),
            (_, Forced::Fault) => {
                Counters::add(&host.counters.panics, 1);
                "a fault in clrscope".to_owned()
            }
            _ if told => return None,
            _ if waits_for_small && host.phase() == Phase::Stopping => {
                "the recording was stopped".to_owned()
            }
            _ if waits_for_small => format!(
                "the program made no collection of its youngest objects within {limit} s, and a \
                    snapshot of roots needs one; a full snapshot forces a collection"
            ),
            _ => "the runtime made no full collection".to_owned(),
        };
        Some(reason)
    }
}

/// What became of the request for a collection.
enum Forced {
    /// It was made, or is not needed.
    Yes,
    /// The runtime would not report it.
    NotReported,
    /// The runtime refused.
    Refused(corprof::info::Error),
    /// We panicked.
    Fault,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_sent_at_the_second_sight_of_its_hash_only() {
        let layout = StringLayout { length_offset: 8, buffer_offset: 12 };
        let mut strings =
            Strings { class: ClassId(1), layout, hashes: vec![0; HASHES].into_boxed_slice() };
        for hash in [0, 4, u64::MAX, 0x1234_5678_9abc_def0] {
            let met: Vec<bool> = (0..4).map(|_| strings.is_second(hash)).collect();
            assert_eq!(met, [false, true, false, false], "{hash:x}");
        }
        // Two that share a slot take it from each other.
        assert!(!strings.is_second(8) && !strings.is_second(16) && !strings.is_second(8));
    }

    #[test]
    fn a_string_is_read_within_its_object_only() {
        let layout = StringLayout { length_offset: 8, buffer_offset: 12 };
        let strings = Strings { class: ClassId(1), layout, hashes: Box::new([]) };
        // Class, length, text, zero.
        let mut object = [0u64; 4];
        let bytes: Vec<u8> =
            object[0].to_le_bytes().into_iter().chain(3u32.to_le_bytes()).collect();
        let text = "abc".encode_utf16().chain([0]).flat_map(u16::to_le_bytes);
        for (index, byte) in bytes.into_iter().chain(text).enumerate() {
            object[index / 8] |= u64::from(byte) << (index % 8 * 8);
        }
        // SAFETY: the object is a local that nobody changes.
        let id = unsafe { ObjectId::from_raw(RawObjectId(object.as_ptr().addr())) };
        // SAFETY: as above, and the object has at least the sizes that are tried.
        let units = |size| unsafe { strings.units(id, size) };
        assert_eq!(units(28), Some(&[0x61, 0x62, 0x63][..]));
        assert_eq!(units(26), Some(&[0x61, 0x62, 0x63][..]));
        assert_eq!(units(25), None);
        assert_eq!(units(0), None);
    }
}
