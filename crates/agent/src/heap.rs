//! Looks at the heap.
//!
//! A thread of the agent's forces a collection with the collector's callbacks switched on. The runtime then tells every
//! root and every surviving object, one after another on one thread, while the world stands still. What it tells is
//! encoded into one buffer of fixed size, and each full buffer is written to clrscope from the callback itself: so a look
//! at a heap of any size takes a few megabytes. If clrscope does not read, the look is given up and the world goes on.
//!
//! Only numbers are taken while the world stands still; names are asked for afterwards. Where tasks keep their states is
//! asked for afterwards too, so these are read from the second look on ([`crate::machines`]).

use crate::agent::{Agent, Phase};
use crate::counters::Counters;
use crate::machines::{Machines, Plan, Plans};
use crate::os::clock;
use crate::os::connection::Outgoing;
use crate::runtime::Runtime;
use corprof::callback::{CollectedGenerations, DependentReferences, GcReason, GcRootKind, Roots};
use corprof::ids::{ClassId, FunctionId, ModuleId, RawObjectId};
use corprof::info::StringLayout;
use corprof::{EventMask, NameResolver, ObjectId};
use profilers::heap::HeapSettings;
use std::collections::HashMap;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::frame::{self, FrameBuilder};
use wire::heap::{self, Encoder, FIELD_CONTINUATION, FIELD_STATE, MAX_CHUNK, MAX_TEXT, RootKind};
use wire::{HeapEnd, LogLevel, Nanos, Record};

/// Longest time that a frame may take to be written while the world stands still.
const WRITE_LIMIT: Nanos = 5_000_000_000;
/// The same when it does not.
const CALM_LIMIT: Nanos = 10_000_000_000;
/// Longest time for the names of a look.
const NAMES_LIMIT: Nanos = 30_000_000_000;
/// How often a waiting thread looks whether the session ends.
const STEP: Nanos = 20_000_000;
/// When the runtime has surely finished to start a launched agent.
const STARTED: Nanos = 1_000_000_000;
/// How long the runtime may take from the end of a forced collection to the word that the world goes on.
const RESUME_LIMIT: Nanos = 100_000_000;

/// Slots for ids of classes, and most that are kept; the same for methods.
const CLASSES: usize = 128 << 10;
const METHODS: usize = 8 << 10;
/// Slots for hashes of strings.
const HASHES: usize = 64 << 10;
/// Most arrays in arrays that are followed to find the module of their elements.
const MOST_RANKS: usize = 8;

/// Bytes before an object's address that belong to it.
const HEADER: usize = 8;

/// How far a look is.
mod state {
    /// There is none.
    pub const NONE: u8 = 0;
    /// The next full collection that somebody asked for is the one.
    pub const ARMED: u8 = 1;
    /// The world stands still, and the runtime tells.
    pub const TELLING: u8 = 2;
    /// The runtime has told all.
    pub const TOLD: u8 = 3;
}

/// The look that is under way, where one is, as callbacks see it.
#[derive(Default)]
pub struct Heap {
    state: AtomicU8,
    /// Locked for a moment by each callback, and by nobody else while the runtime tells.
    look: Mutex<Option<Box<Look>>>,
    suspended: AtomicU64,
    resumed: AtomicU64,
    memory: AtomicUsize,
    /// Counts the modules whose unloading has begun: their classes must not be asked about any more.
    gone: AtomicU64,
}

impl Heap {
    /// A collection begins. `suspended` is when the world was asked to stop.
    pub fn collection_started(&self, collected: CollectedGenerations<'_>, reason: GcReason, suspended: Nanos) {
        // One that the program asks for just now is as good as ours.
        let full = collected.contains(corprof::callback::GcGeneration::GEN_2) && reason == GcReason::INDUCED;
        if full && self.state.compare_exchange(state::ARMED, state::TELLING, SeqCst, SeqCst).is_ok() {
            self.suspended.store(suspended, SeqCst);
            self.resumed.store(0, SeqCst);
        }
    }

    /// Roots that the collection found.
    pub fn roots(&self, agent: &Agent, roots: Roots<'_>) {
        self.with_look(|look| look.roots(agent, roots));
    }

    /// Entries of `ConditionalWeakTable`s that the collection found.
    pub fn dependent(&self, agent: &Agent, references: DependentReferences<'_>) {
        self.with_look(|look| look.dependent(agent, references));
    }

    /// An object that survived. False to be told of no more.
    pub fn object(&self, agent: &Agent, object: RawObjectId, class: ClassId, references: &[RawObjectId]) -> bool {
        self.with_look(|look| look.object(agent, object, class, references)).unwrap_or(false)
    }

    /// The collection has ended; the world still stands.
    pub fn collection_finished(&self, agent: &Agent) {
        self.with_look(|look| look.collection_finished(agent));
        let _ = self.state.compare_exchange(state::TELLING, state::TOLD, SeqCst, SeqCst);
    }

    /// The world goes on.
    pub fn resumed(&self, now: Nanos) {
        if self.state.load(Relaxed) == state::TOLD {
            let _ = self.resumed.compare_exchange(0, now, SeqCst, SeqCst);
        }
    }

    /// A module is being unloaded.
    pub fn module_goes(&self) {
        self.gone.fetch_add(1, SeqCst);
    }

    /// Bytes that the look under way holds.
    pub fn memory(&self) -> usize {
        self.memory.load(Relaxed)
    }

    fn with_look<R>(&self, call: impl FnOnce(&mut Look) -> R) -> Option<R> {
        if self.state.load(Relaxed) != state::TELLING {
            return None;
        }
        // Callbacks of a collection come one after another: nobody holds the lock, and nobody is waited for.
        self.look.try_lock().ok()?.as_mut().map(|look| call(look))
    }

    fn look(&self) -> MutexGuard<'_, Option<Box<Look>>> {
        self.look.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the next full collection that is asked for would be told to `look`.
    fn arm(&self, look: Look) {
        self.memory.store(look.memory(), Relaxed);
        *self.look() = Some(Box::new(look));
        self.state.store(state::ARMED, SeqCst);
    }

    /// Takes the look back, and says whether a collection was told to it and for how long the world stood still.
    fn disarm(&self) -> (Option<Box<Look>>, bool, Nanos) {
        let told = self.state.load(SeqCst) == state::TOLD;
        let deadline = clock::monotonic() + RESUME_LIMIT;
        // With server collections another thread lets the world go on.
        while told && self.resumed.load(SeqCst) == 0 && clock::monotonic() < deadline {
            clock::sleep_until(clock::monotonic() + 1_000_000);
        }
        self.state.store(state::NONE, SeqCst);
        self.memory.store(0, Relaxed);
        let paused = self.resumed.load(SeqCst).saturating_sub(self.suspended.load(SeqCst));
        (self.look().take(), told, if told { paused } else { 0 })
    }
}

/// Why a look ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Abort {
    /// The recording ends.
    Stopped,
    /// It took too long.
    Late,
    /// clrscope does not read.
    Unread,
    /// clrscope is gone.
    Gone,
}

/// A look that is under way.
struct Look {
    number: u32,
    outgoing: Outgoing,
    encoder: Encoder,
    classes: Ids,
    methods: Ids,
    strings: Option<Strings>,
    /// What is read of tasks.
    plans: Option<Arc<Plans>>,
    objects: u64,
    /// When it is given up.
    deadline: Nanos,
    abort: Option<Abort>,
}

impl Look {
    fn new(
        number: u32,
        outgoing: &Outgoing,
        strings: Option<Strings>,
        plans: Option<Arc<Plans>>,
        deadline: Nanos,
    ) -> Self {
        Self {
            number,
            outgoing: outgoing.clone(),
            encoder: Encoder::new(MAX_CHUNK),
            classes: Ids::new(CLASSES),
            methods: Ids::new(METHODS),
            strings,
            plans,
            objects: 0,
            deadline,
            abort: None,
        }
    }

    fn memory(&self) -> usize {
        let strings = if self.strings.is_some() { HASHES * size_of::<u64>() } else { 0 };
        let plans = self.plans.as_ref().map_or(0, |plans| plans.memory());
        size_of::<Self>() + self.encoder.memory() + self.classes.memory() + self.methods.memory() + strings + plans
    }

    fn roots(&mut self, agent: &Agent, roots: Roots<'_>) {
        for root in roots.iter() {
            let Some(target) = root.object else { continue };
            if !self.has_room(agent) {
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
            self.encoder.root(target.0 as u64, kind, root.flags.0 as u8, root.id as u64);
        }
    }

    fn dependent(&mut self, agent: &Agent, references: DependentReferences<'_>) {
        for reference in references.iter() {
            if reference.key.is_null() || reference.value.is_null() {
                continue;
            }
            if !self.has_room(agent) {
                return;
            }
            let (key, value) = (reference.key.0 as u64, reference.value.0 as u64);
            self.encoder.dependent(reference.handle.0 as u64, key, value);
        }
    }

    fn object(&mut self, agent: &Agent, object: RawObjectId, class: ClassId, references: &[RawObjectId]) -> bool {
        // SAFETY: the runtime names objects that are where they will stay, and waits for this callback while the world
        // stands still.
        let id = unsafe { ObjectId::from_raw(object) };
        let Ok(size) = agent.runtime.info().object_size(id) else { return true };
        if !self.has_room(agent) {
            return false;
        }
        self.objects += 1;
        if !self.encoder.object(object.0 as u64, class.0 as u64, size as u64) {
            self.classes.insert(class.0 as u64);
        }
        for reference in references.iter().filter(|reference| !reference.is_null()) {
            if !self.has_room(agent) {
                return false;
            }
            self.encoder.reference(reference.0 as u64);
        }
        if let Some(plan) = self.plans.as_ref().and_then(|plans| plans.of(class.0 as u64)) {
            return self.task(agent, id, size, plan);
        }
        if self.strings.as_ref().is_some_and(|strings| strings.class == class) {
            return self.string(agent, id, size);
        }
        true
    }

    /// Reads where a task stands.
    fn task(&mut self, agent: &Agent, object: ObjectId<'_>, size: usize, plan: Plan) -> bool {
        if !self.has_room(agent) {
            return false;
        }
        let address = object.address() as u64;
        // SAFETY: the object stays what and where it is while the world stands still, and has this size.
        if let Some(state) = unsafe { read_field::<i32>(object, size, plan.state) } {
            self.encoder.field(address, FIELD_STATE, u64::from(state as u32));
        }
        if !self.has_room(agent) {
            return false;
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { read_field::<usize>(object, size, plan.continuation) } {
            self.encoder.field(address, FIELD_CONTINUATION, next as u64);
        }
        true
    }

    fn string(&mut self, agent: &Agent, object: ObjectId<'_>, size: usize) -> bool {
        if !self.has_room(agent) {
            return false;
        }
        let Some(strings) = &mut self.strings else { return true };
        // SAFETY: the object is a string of `size` bytes, and stays what and where it is during this callback.
        let Some(units) = (unsafe { strings.units(object, size) }) else { return true };
        // SAFETY: every two bytes are a number, and a number's bytes may be looked at one by one.
        let bytes = unsafe { std::slice::from_raw_parts(units.as_ptr().cast::<u8>(), size_of_val(units)) };
        let hash = heap::string_hash(bytes);
        let text = strings.is_second(hash).then(|| units.get(..units.len().min(MAX_TEXT)).unwrap_or_default());
        self.encoder.string(object.address() as u64, hash, units.len() as u32, text);
        true
    }

    /// What is known only now, and until the world goes on: where generations lie. Objects that are never collected were
    /// told with those of generation 2.
    fn collection_finished(&mut self, agent: &Agent) {
        let info = agent.runtime.info();
        for range in info.generation_bounds().unwrap_or_default() {
            let generation = u8::try_from(range.generation.0).unwrap_or(u8::MAX);
            if self.has_room(agent) {
                self.encoder.generation(generation, range.start as u64, range.used as u64, range.reserved as u64);
            }
        }
        for range in info.non_gc_heap_bounds().unwrap_or_default() {
            if self.has_room(agent) {
                self.encoder.generation(5, range.start as u64, range.used as u64, range.reserved as u64);
            }
        }
    }

    /// Whether there is room for the next item; makes some if need be. False once the look is given up.
    fn has_room(&mut self, agent: &Agent) -> bool {
        self.encoder.has_room() && self.abort.is_none() || self.make_room(agent)
    }

    #[cold]
    fn make_room(&mut self, agent: &Agent) -> bool {
        if self.abort.is_none() {
            self.abort = if agent.phase() == Phase::Stopping {
                Some(Abort::Stopped)
            } else if clock::monotonic() >= self.deadline {
                Some(Abort::Late)
            } else {
                self.send_chunk(WRITE_LIMIT).err()
            };
        }
        self.abort.is_none()
    }

    /// Writes the chunk and begins the next.
    fn send_chunk(&mut self, limit: Nanos) -> Result<(), Abort> {
        let bytes = self.encoder.bytes();
        if bytes.is_empty() {
            return Ok(());
        }
        let head = frame::head_of_chunk(self.number, self.objects, bytes.len());
        let written = self.outgoing.turn(limit).and_then(|mut turn| {
            turn.write_all(&head)?;
            turn.write_all(bytes)
        });
        self.encoder.clear();
        written.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => Abort::Unread,
            _ => Abort::Gone,
        })
    }
}

/// Reads a field of an object, if it lies within it. Offset 0 is none: the class stands there.
///
/// # Safety
/// The object has `size` bytes with its header, and stays what and where it is meanwhile. Every bit pattern is a `T`.
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

/// Ids that were met, as many as there is room for.
struct Ids {
    slots: Box<[u64]>,
    count: usize,
    lost: u64,
}

impl Ids {
    /// A set of `slots` slots, a power of two. Three quarters of them are used.
    fn new(slots: usize) -> Self {
        Self { slots: vec![0; slots].into_boxed_slice(), count: 0, lost: 0 }
    }

    fn memory(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// Adds an id. 0 is none.
    fn insert(&mut self, id: u64) {
        if id == 0 {
            return;
        }
        let mask = self.slots.len() - 1;
        let mut at = (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
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

    fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.iter().copied().filter(|id| *id != 0)
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
    let (low, high) = agent.event_mask;
    let telling = EventMask::from_words(low, high);
    if !telling.contains(EventMask::GC) {
        agent.log(
            LogLevel::Error,
            "no looks at the heap: they need the runtime's one slot for a profiler that may do everything, and another \
                profiler holds it",
        );
        return;
    }
    let mut looker = Looker {
        agent,
        outgoing,
        names: NameResolver::new(agent.runtime.info().clone()),
        telling,
        quiet: telling.without(EventMask::GC),
        machines: settings.tasks.then(Machines::default),
        gone: agent.heap.gone.load(SeqCst),
        settings,
    };
    // The runtime would tell of each collection. Once the events were asked for while it attached, they may come and go.
    looker.listen(looker.quiet);
    let every = settings.every * 1_000_000_000;
    // A launched process has nothing yet.
    let mut next = agent.entered + if agent.config.launched { every } else { 0 };
    for number in 0..settings.looks {
        if agent.config.launched && number == 0 {
            // The runtime sets our events once more as it finishes to start us.
            looker.wait(next.min(agent.entered + STARTED));
            looker.listen(looker.quiet);
        }
        looker.wait(next);
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
    names: NameResolver,
    /// Events while a look is taken, and at other times.
    telling: EventMask,
    quiet: EventMask,
    settings: HeapSettings,
    /// What is known of tasks, where that is wanted.
    machines: Option<Machines>,
    /// [`Heap::gone`] when that was asked for.
    gone: u64,
}

impl Looker<'_> {
    fn listen(&self, events: EventMask) -> bool {
        let set = self.agent.runtime.info().set_event_mask(events);
        if let Err(error) = &set {
            self.agent.log(LogLevel::Warning, format!("the runtime refused to change what it tells: {error}"));
        }
        set.is_ok()
    }

    /// Waits until a point in time, or until the session ends.
    fn wait(&self, until: Nanos) {
        while self.agent.phase() != Phase::Stopping && clock::monotonic() < until {
            clock::sleep_until(until.min(clock::monotonic() + STEP));
        }
    }

    fn look(&mut self, number: u32) -> io::Result<()> {
        let agent = self.agent;
        let strings = self.settings.strings.then(|| Strings::find(&agent.runtime)).flatten();
        let reads_strings = strings.is_some();
        let time = clock::monotonic();
        self.send([Record::HeapBegin { look: number, time }])?;
        let gone = agent.heap.gone.load(SeqCst);
        if gone != self.gone {
            // Which classes have gone is not known, and others may come in their places.
            self.gone = gone;
            self.machines.iter_mut().for_each(Machines::forget);
        }
        let plans = self.machines.as_ref().map(|machines| Arc::clone(&machines.plans));
        let deadline = time + self.settings.limit * 1_000_000_000;
        agent.heap.arm(Look::new(number, self.outgoing, strings, plans, deadline));
        // Whatever happens, the runtime must not be left telling.
        let forced = catch_unwind(AssertUnwindSafe(|| {
            if self.listen(self.telling) { agent.runtime.info().force_gc().map_err(Some) } else { Err(None) }
        }));
        self.listen(self.quiet);
        let (look, told, paused) = agent.heap.disarm();
        let Some(mut look) = look else { return Ok(()) };
        if look.abort.is_none() {
            look.abort = look.send_chunk(CALM_LIMIT).err();
        }
        if matches!(look.abort, Some(Abort::Unread | Abort::Gone)) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let complete = told && look.abort.is_none();
        look.plans = None;
        let unnamed = self.send_names(&look, gone)?;
        let unplanned = self.send_machines(&look, gone)?;
        let reason = match (look.abort, forced) {
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
            _ if unplanned > 0 => Some(format!("where tasks of {unplanned} classes stand")),
            _ if self.settings.strings && !reads_strings => Some("what strings say".to_owned()),
            _ => None,
        };
        let end = HeapEnd { look: number, time: clock::monotonic(), paused, objects: look.objects, complete, reason };
        self.send([Record::HeapEnd(end)])
    }

    /// Sends the names of all that the look met; says how many have none.
    fn send_names(&self, look: &Look, gone: u64) -> io::Result<u64> {
        let deadline = clock::monotonic() + NAMES_LIMIT;
        let number = look.number;
        let mut unnamed = look.classes.lost + look.methods.lost;
        let mut assemblies = HashMap::new();
        let mut frame = FrameBuilder::default();
        // What has been unloaded must not be asked for, and which classes that were is not known.
        let asks = || self.agent.heap.gone.load(SeqCst) == gone && clock::monotonic() < deadline;
        let classes: Vec<u64> = look.classes.iter().collect();
        for part in classes.chunks(64) {
            let mut named = Vec::with_capacity(part.len());
            for &class in part {
                let id = ClassId(class as usize);
                match if asks() { self.names.class(id).ok() } else { None } {
                    Some(name) => named.push((class, name.as_ref().to_owned(), self.assembly_of(id, &mut assemblies))),
                    None => unnamed += 1,
                }
            }
            self.put(&mut frame, &Record::HeapClasses { look: number, classes: named })?;
        }
        let methods: Vec<u64> = look.methods.iter().collect();
        for part in methods.chunks(64) {
            let mut named = Vec::with_capacity(part.len());
            for &method in part {
                match if asks() { self.names.method(FunctionId(method as usize)).ok() } else { None } {
                    Some(name) => named.push((method, name.to_string())),
                    None => unnamed += 1,
                }
            }
            self.put(&mut frame, &Record::HeapMethods { look: number, methods: named })?;
        }
        frame.write_to(&mut self.outgoing.turn(CALM_LIMIT)?).map_err(io::Error::other)?;
        Ok(unnamed)
    }

    /// Learns where tasks of the classes that the look met keep their states, and sends where their methods wait; says of
    /// how many classes that is not known because there are too many, or it took too long.
    fn send_machines(&mut self, look: &Look, gone: u64) -> io::Result<u64> {
        let Some(mut machines) = self.machines.take() else { return Ok(0) };
        let deadline = clock::monotonic() + NAMES_LIMIT;
        let (mut frame, mut left_out) = (FrameBuilder::default(), 0);
        let mut sent = Ok(());
        for class in look.classes.iter() {
            if self.agent.heap.gone.load(SeqCst) != gone || clock::monotonic() > deadline {
                left_out += 1;
                continue;
            }
            if let Some(machine) = machines.learn(&self.agent.runtime, &self.names, class) {
                let record = Record::HeapMachines { look: look.number, machines: vec![machine] };
                sent = sent.and_then(|()| self.put(&mut frame, &record));
            }
        }
        left_out += machines.left_out;
        self.machines = Some(machines);
        sent?;
        frame.write_to(&mut self.outgoing.turn(CALM_LIMIT)?).map_err(io::Error::other)?;
        Ok(left_out)
    }

    /// Name of the assembly that defines a class, or the elements of an array; empty if there is none.
    fn assembly_of(&self, mut class: ClassId, known: &mut HashMap<ModuleId, String>) -> String {
        let info = self.agent.runtime.info();
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
        let name = || self.names.module(about.module).map(|module| module.assembly).unwrap_or_default();
        known.entry(about.module).or_insert_with(name).clone()
    }

    fn put(&self, frame: &mut FrameBuilder, record: &Record) -> io::Result<()> {
        // A record of 64 names fits, whatever the names; should it not, the names are missing.
        let _ = frame.push(record);
        if frame.is_full() {
            frame.write_to(&mut self.outgoing.turn(CALM_LIMIT)?).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn send(&self, records: impl IntoIterator<Item = Record>) -> io::Result<()> {
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
    }

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
