//! Looks at the heap.
//!
//! A thread of the agent's forces a collection with the collector's callbacks switched on. The runtime then tells every
//! root and every surviving object, one after another on one thread, while the world stands still. What it tells is
//! encoded into one buffer of fixed size, and each full buffer is written to clrscope from the callback itself: so a look
//! at a heap of any size takes a few megabytes. If clrscope does not read, the look is given up and the world goes on.
//!
//! Only numbers are taken while the world stands still; names are asked for afterwards.

use crate::agent::{Agent, Phase};
use crate::counters::Counters;
use crate::looks::{Abort, Chunks, Ids, STARTED, Slot, Teller};
use crate::os::clock;
use crate::os::connection::Outgoing;
use crate::runtime::Runtime;
use corprof::ObjectId;
use corprof::callback::{CollectedGenerations, DependentReferences, GcGeneration, GcReason, GcRootKind, Roots};
use corprof::ids::{ClassId, RawObjectId};
use corprof::info::StringLayout;
use profilers::heap::HeapSettings;
use std::collections::HashSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wire::heap::{self, MAX_TEXT, RootKind};
use wire::{HeapEnd, Nanos, Record};

/// Slots for ids of classes, and most that are kept; the same for methods.
const CLASSES: usize = 128 << 10;
const METHODS: usize = 8 << 10;
/// Slots for hashes of strings.
const HASHES: usize = 64 << 10;

/// The look that is under way, where one is, as callbacks see it.
#[derive(Default)]
pub struct Heap {
    slot: Slot<Look>,
}

impl Heap {
    /// A collection begins. `suspended` is when the world was asked to stop.
    pub fn collection_started(&self, collected: CollectedGenerations<'_>, reason: GcReason, suspended: Nanos) {
        // One that the program asks for just now is as good as ours.
        if collected.contains(GcGeneration::GEN_2) && reason == GcReason::INDUCED {
            self.slot.begin(suspended);
        }
    }

    /// Roots that the collection found.
    pub fn roots(&self, agent: &Agent, roots: Roots<'_>) {
        self.slot.with(|look| look.roots(agent, roots));
    }

    /// Entries of `ConditionalWeakTable`s that the collection found.
    pub fn dependent(&self, agent: &Agent, references: DependentReferences<'_>) {
        self.slot.with(|look| look.dependent(agent, references));
    }

    /// An object that survived. False to be told of no more.
    pub fn object(&self, agent: &Agent, object: RawObjectId, class: ClassId, references: &[RawObjectId]) -> bool {
        self.slot.with(|look| look.object(agent, object, class, references)).unwrap_or(false)
    }

    /// The collection has ended; the world still stands.
    pub fn collection_finished(&self, agent: &Agent) {
        self.slot.with(|look| look.collection_finished(agent));
        self.slot.end();
    }

    /// The world goes on.
    pub fn resumed(&self, now: Nanos) {
        self.slot.resumed(now);
    }

    /// Bytes that the look under way holds.
    pub fn memory(&self) -> usize {
        self.slot.memory()
    }
}

/// A look that is under way.
struct Look {
    chunks: Chunks,
    classes: Ids,
    methods: Ids,
    strings: Option<Strings>,
}

impl Look {
    fn new(number: u32, outgoing: &Outgoing, strings: Option<Strings>, deadline: Nanos) -> Self {
        Self {
            chunks: Chunks::new(number, outgoing, deadline),
            classes: Ids::new(CLASSES),
            methods: Ids::new(METHODS),
            strings,
        }
    }

    fn memory(&self) -> usize {
        let strings = if self.strings.is_some() { HASHES * size_of::<u64>() } else { 0 };
        size_of::<Self>() + self.chunks.encoder.memory() + self.classes.memory() + self.methods.memory() + strings
    }

    fn roots(&mut self, agent: &Agent, roots: Roots<'_>) {
        for root in roots.iter() {
            let Some(target) = root.object else { continue };
            if !self.chunks.has_room(agent) {
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
        }
    }

    fn dependent(&mut self, agent: &Agent, references: DependentReferences<'_>) {
        for reference in references.iter() {
            if reference.key.is_null() || reference.value.is_null() {
                continue;
            }
            if !self.chunks.has_room(agent) {
                return;
            }
            let (key, value) = (reference.key.0 as u64, reference.value.0 as u64);
            self.chunks.encoder.dependent(reference.handle.0 as u64, key, value);
        }
    }

    fn object(&mut self, agent: &Agent, object: RawObjectId, class: ClassId, references: &[RawObjectId]) -> bool {
        // SAFETY: the runtime names objects that are where they will stay, and waits for this callback while the world
        // stands still.
        let id = unsafe { ObjectId::from_raw(object) };
        let Ok(size) = agent.runtime.info().object_size(id) else { return true };
        if !self.chunks.has_room(agent) {
            return false;
        }
        self.chunks.objects += 1;
        if !self.chunks.encoder.object(object.0 as u64, class.0 as u64, size as u64) {
            self.classes.insert(class.0 as u64);
        }
        for reference in references.iter().filter(|reference| !reference.is_null()) {
            if !self.chunks.has_room(agent) {
                return false;
            }
            self.chunks.encoder.reference(reference.0 as u64);
        }
        if self.strings.as_ref().is_some_and(|strings| strings.class == class) {
            return self.string(agent, id, size);
        }
        true
    }

    fn string(&mut self, agent: &Agent, object: ObjectId<'_>, size: usize) -> bool {
        if !self.chunks.has_room(agent) {
            return false;
        }
        let Some(strings) = &mut self.strings else { return true };
        // SAFETY: the object is a string of `size` bytes, and stays what and where it is during this callback.
        let Some(units) = (unsafe { strings.units(object, size) }) else { return true };
        // SAFETY: every two bytes are a number, and a number's bytes may be looked at one by one.
        let bytes = unsafe { std::slice::from_raw_parts(units.as_ptr().cast::<u8>(), size_of_val(units)) };
        let hash = heap::string_hash(bytes);
        let text = strings.is_second(hash).then(|| units.get(..units.len().min(MAX_TEXT)).unwrap_or_default());
        self.chunks.encoder.string(object.address() as u64, hash, units.len() as u32, text);
        true
    }

    /// What is known only now, and until the world goes on: where generations lie. Objects that are never collected were
    /// told with those of generation 2.
    fn collection_finished(&mut self, agent: &Agent) {
        let info = agent.runtime.info();
        for range in info.generation_bounds().unwrap_or_default() {
            let generation = u8::try_from(range.generation.0).unwrap_or(u8::MAX);
            if self.chunks.has_room(agent) {
                self.chunks.encoder.generation(
                    generation,
                    range.start as u64,
                    range.used as u64,
                    range.reserved as u64,
                );
            }
        }
        for range in info.non_gc_heap_bounds().unwrap_or_default() {
            if self.chunks.has_room(agent) {
                self.chunks.encoder.generation(5, range.start as u64, range.used as u64, range.reserved as u64);
            }
        }
    }
}

/// What is known of strings.
struct Strings {
    class: ClassId,
    layout: StringLayout,
    /// Hashes that were met, the lowest bit of each replaced by whether the text was sent.
    hashes: Box<[u64]>,
}

impl Strings {
    /// Finds the class of strings: the one of that name in the module that has `System.Object`.
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
        Some(Self { class, layout: info.string_layout().ok()?, hashes: vec![0; HASHES].into_boxed_slice() })
    }

    /// The text of a string.
    ///
    /// # Safety
    /// The object is a string of `size` bytes, and stays what and where it is for as long as the result is used.
    unsafe fn units<'a>(&self, object: ObjectId<'a>, size: usize) -> Option<&'a [u16]> {
        /// Bytes before an object's address that belong to it.
        const HEADER: usize = 8;
        let (length_at, text_at) = (self.layout.length_offset as usize, self.layout.buffer_offset as usize);
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

/// Takes the looks that are wanted.
pub fn run(agent: &Arc<Agent>, outgoing: &Outgoing, settings: HeapSettings) {
    let Some(teller) = Teller::new(agent, outgoing, "looks at the heap") else { return };
    let looker = Looker { agent, outgoing, teller, settings };
    // The runtime would tell of each collection. Once the events were asked for while it attached, they may come and go.
    looker.teller.listen(looker.teller.quiet);
    let every = settings.every * 1_000_000_000;
    // A launched process has nothing yet.
    let mut next = agent.entered + if agent.config.launched { every } else { 0 };
    for number in 0..settings.looks {
        if agent.config.launched && number == 0 {
            // The runtime sets our events once more as it finishes to start us.
            looker.teller.wait(next.min(agent.entered + STARTED), || false);
            looker.teller.listen(looker.teller.quiet);
        }
        looker.teller.wait(next, || false);
        if agent.phase() == Phase::Stopping {
            return;
        }
        next = clock::monotonic() + every;
        let begun = clock::thread_cpu();
        let looked = looker.look(number);
        agent.tick_cpu.fetch_add(clock::thread_cpu().saturating_sub(begun), Relaxed);
        // A connection that is gone ends the session.
        if looked.is_err() {
            agent.advance(Phase::Stopping);
            return;
        }
    }
}

struct Looker<'a> {
    agent: &'a Agent,
    outgoing: &'a Outgoing,
    teller: Teller<'a>,
    settings: HeapSettings,
}

impl Looker<'_> {
    fn look(&self, number: u32) -> io::Result<()> {
        let agent = self.agent;
        let strings = self.settings.strings.then(|| Strings::find(&agent.runtime)).flatten();
        let reads_strings = strings.is_some();
        let time = clock::monotonic();
        self.teller.send([Record::HeapBegin { look: number, time }])?;
        let gone = agent.modules_gone();
        let look = Look::new(number, self.outgoing, strings, time + self.settings.limit * 1_000_000_000);
        let memory = look.memory();
        agent.heap.slot.arm(Box::new(look), memory);
        // Whatever happens, the runtime must not be left telling.
        let forced = catch_unwind(AssertUnwindSafe(|| {
            if self.teller.listen(self.teller.telling) {
                agent.runtime.info().force_gc().map_err(Some)
            } else {
                Err(None)
            }
        }));
        self.teller.listen(self.teller.quiet);
        let taken = agent.heap.slot.disarm();
        let (told, paused) = (taken.told, taken.paused);
        let Some(mut look) = taken.look else { return Ok(()) };
        look.chunks.finish()?;
        let complete = told && look.chunks.abort.is_none();
        let unnamed = self.teller.send_names(number, (&look.classes, &look.methods), gone, &mut HashSet::new())?;
        let reason = match (look.chunks.abort, forced) {
            (Some(Abort::Stopped), _) => Some("the recording was stopped".to_owned()),
            (Some(Abort::Late), _) => Some(format!("it took longer than {} s", self.settings.limit)),
            (_, Ok(Err(Some(error)))) => Some(format!("the runtime refused to collect: {error}")),
            (_, Ok(Err(None))) => Some("the runtime does not tell of collections".to_owned()),
            (_, Err(_)) => {
                Counters::add(&agent.counters.panics, 1);
                Some("a fault in clrscope".to_owned())
            }
            _ if !told => Some("the runtime made no full collection".to_owned()),
            _ if unnamed > 0 => Some(format!("the names of {unnamed} classes or methods")),
            _ if self.settings.strings && !reads_strings => Some("what strings say".to_owned()),
            _ => None,
        };
        let end =
            HeapEnd { look: number, time: clock::monotonic(), paused, objects: look.chunks.objects, complete, reason };
        self.teller.send([Record::HeapEnd(end)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_sent_at_the_second_sight_of_its_hash_only() {
        let layout = StringLayout { length_offset: 8, buffer_offset: 12 };
        let mut strings = Strings { class: ClassId(1), layout, hashes: vec![0; HASHES].into_boxed_slice() };
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
        let bytes: Vec<u8> = object[0].to_le_bytes().into_iter().chain(3u32.to_le_bytes()).collect();
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
