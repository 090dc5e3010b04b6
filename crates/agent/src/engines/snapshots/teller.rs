//! What is done for a snapshot while the runtime is not suspended: names are found out and sent.

use super::{CALM_LIMIT, Ids};
use crate::engines::heap::async_state_machines::Machines;
use crate::engines::heap::object_fields;
use crate::engines::heap::static_fields::{self, StaticArrays, Unfinished};
use crate::host::unloads::Unloaded;
use crate::host::{Host, Phase};
use crate::os::clock;
use crate::os::connection::Outgoing;
use corprof::EventMask;
use corprof::ids::{ClassId, FunctionId, ModuleId};
use std::collections::{HashMap, HashSet};
use std::io;
use wire::frame::FrameBuilder;
use wire::{LogLevel, Nanos, Record};

/// Longest time for the names of a snapshot.
const NAMES_LIMIT: Nanos = 30_000_000_000;
/// Longest time for the search for static fields of a snapshot.
const STATICS_LIMIT: Nanos = 10_000_000_000;
/// How often a waiting thread checks whether the session ends.
const STEP: Nanos = 20_000_000;
/// Most arrays in arrays that are followed to find the module of their elements.
const MOST_RANKS: usize = 8;

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

    /// Sends the names of all that a snapshot met, without those that were sent before; says how
    /// many have none. `unloaded` is what had been unloaded when the snapshot began.
    pub fn send_names(
        &self,
        number: u32,
        (classes, methods): (&Ids, &Ids),
        unloaded: Unloaded,
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
                match in_time()
                    .then(|| unloads.hold_since(unloaded.modules, ask))
                    .flatten()
                    .flatten()
                {
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
                let id = FunctionId(method as usize);
                let ask = || unloads.hold_function_since(unloaded, id, || names.method(id).ok());
                match in_time().then(ask).flatten().flatten() {
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

    /// Sends the names of the fields of classes, and of those that they are derived from. `gone` is
    /// the number of unloaded modules when the snapshot began. What is not known in time has no
    /// names.
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

    /// Learns where tasks of the classes that a snapshot met keep their states, and sends where
    /// their methods wait; says of how many classes that is not known because there are too many,
    /// or it took too long. `gone` as in [`Self::send_fields`].
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
