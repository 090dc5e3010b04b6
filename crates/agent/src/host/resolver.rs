//! From addresses to methods: what code stands where, what it is called, and how its frames are
//! unwound.

use crate::host::budget::Budget;
use crate::host::code_map::CodeMap;
use crate::host::code_regions::{CodeRegions, Trust};
use crate::host::counters::Counters;
use crate::host::event_class_names::full_name;
use crate::host::id_table::Meaning;
use crate::host::runtime::{NativeCode, Runtime};
use crate::os::{clock, memory::OwnMemory};
use corprof::ids::{ClassId, FunctionId, ModuleId};
use corprof::metadata::token::MethodDef;
use corprof::{Error, FunctionKind, MethodName};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use wire::memory::Memory;
use wire::unwind_table::{self, Image};
use wire::{Class, Code, Method, MethodKind, Module, Nanos, Record, UnwindTable, as_csharp};

/// Largest code whose bytes are sent along.
const MOST_BYTES: u32 = 256 << 10;

/// Share of the time, in thousandths, for which the runtime may be suspended for lookups. 40 ms are
/// in hand at the beginning: with suspensions of 25 to 300 us, enough for 4,000 addresses or more.
const MOST_SUSPENDED: u64 = 20;
/// As how much of it a suspension counts at most, nanoseconds. On a starving machine it takes long
/// until all threads have come to a stop; names are to come all the same.
const MOST_CHARGED: Nanos = 100_000_000;
/// Most addresses that wait for their lookup. Further ones are answered as no code.
const MOST_WAITING: usize = 100_000;
/// Most addresses that are answered at a time.
const PART: usize = 256;
/// How long an answer waits for the end of a suspension, nanoseconds: it may also come later.
const ANSWER_LIMIT: Nanos = 20_000_000;

/// Answers [`wire::Control::Resolve`], and gives ids to modules, classes and methods. Each is
/// defined before it is named, by records pushed to the list that every method takes.
#[derive(Default)]
pub struct Resolver {
    memory: Arc<OwnMemory>,
    /// Time for which the runtime may be suspended for lookups.
    suspensions: Budget,
    /// Addresses that were asked for and not answered yet, in the order in which they came.
    queue: Vec<u64>,
    waiting: HashMap<u64, Waiting>,
    /// How often lookups were put off.
    put_off: u32,
    /// Code that was sent: start of each range, its end, and its function.
    sent: BTreeMap<u64, Sent>,
    not_code: HashSet<u64>,
    /// Id and base of each.
    modules: HashMap<ModuleId, (u32, u64)>,
    last_module: u32,
    classes: HashMap<ClassId, u32>,
    /// Classes that are known by names of events only: those numbers never mean another.
    event_classes: HashMap<ClassId, u32>,
    /// Of numbers in the [table of ids](crate::host::id_table).
    numbered_classes: HashMap<u32, u32>,
    numbered_methods: HashMap<u32, u32>,
    last_class: u32,
    methods: HashMap<FunctionId, Named>,
    last_method: u32,
    /// Images with tables of functions, by base.
    images: BTreeMap<u64, Image>,
    regions: CodeRegions,
}

/// An address that was asked for and not answered yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    trust: Trust,
    /// How often lookups had been put off when it was asked for.
    put_off: u32,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    end: u64,
    function: FunctionId,
    /// Start of the first range: by that the code is called freed.
    entry: u64,
}

#[derive(Clone, Debug)]
struct Named {
    id: u32,
    module: Option<ModuleId>,
    /// Starts of the ranges of its code that were sent.
    code: Vec<u64>,
}

impl Resolver {
    /// Distinct code ranges, and addresses that are no code, that are remembered. When there are
    /// more, all are forgotten, and sent again when they are met again.
    const MOST: usize = 100_000;

    /// One that reads memory in this way.
    pub fn new(memory: Arc<OwnMemory>) -> Self {
        Self {
            memory,
            suspensions: Budget::full(MOST_SUSPENDED, clock::monotonic()),
            ..Self::default()
        }
    }

    /// About how many bytes this holds.
    pub fn memory(&self) -> usize {
        self.sent.len() * 64
            + self.not_code.capacity() * 9
            + (self.modules.capacity() + self.classes.capacity() + self.methods.capacity()) * 17
            + (self.event_classes.len() + self.numbered_classes.len() + self.numbered_methods.len())
                * 12
            + self.waiting.capacity() * 19
            + self.queue.capacity() * 8
            + self.images.len() * 64
    }

    /// Says what code stands at these addresses of a walked stack, each once. Where the runtime
    /// would be suspended for too long, nothing is said of the rest.
    pub fn resolve(
        &mut self,
        runtime: &Runtime,
        counters: &Counters,
        ips: &[u64],
        out: &mut Vec<Record>,
    ) {
        Counters::add(&counters.addresses, ips.len() as u64);
        let left_out = self.look_up(runtime, counters, ips, CodeMap::LOOKUP_LIMIT, out);
        Counters::add(&counters.not_looked_up, left_out.len() as u64);
    }

    /// As [`Self::resolve`], with a limit for each wait for the end of a suspension. Returns the
    /// addresses that were left out.
    fn look_up(
        &mut self,
        runtime: &Runtime,
        counters: &Counters,
        ips: &[u64],
        limit: Nanos,
        out: &mut Vec<Record>,
    ) -> Vec<u64> {
        let is_unknown = |ip: &u64| !self.covers(*ip) && !self.not_code.contains(ip);
        let mut unknown: Vec<u64> = ips.iter().copied().filter(is_unknown).collect();
        unknown.sort_unstable();
        unknown.dedup();
        let mut rest = unknown.into_iter();
        loop {
            if runtime.removes_while_running() && !self.suspensions.allows(clock::monotonic()) {
                return rest.collect();
            }
            // Code that was sent just now covers many of the next ones.
            let part =
                rest.by_ref().filter(|ip| !self.covers(*ip)).take(runtime.lookups_at_a_time());
            let mut part: Vec<u64> = part.collect();
            if part.is_empty() {
                return part;
            }
            if self.sent.len() >= Self::MOST {
                self.forget_all_code();
            }
            let looked_up = runtime.with_code_at(&part, limit, |ip, code| match code {
                Some(code) => self.send_code(runtime, counters, code, out),
                None => {
                    if self.not_code.len() >= Self::MOST {
                        self.not_code.clear();
                    }
                    self.not_code.insert(ip);
                    out.push(Record::NotCode(ip));
                }
            });
            if looked_up.stopped > 0 {
                self.suspensions.spend(looked_up.stopped.min(MOST_CHARGED));
                Counters::add(&counters.suspensions, 1);
                Counters::add(&counters.stopped, looked_up.stopped);
            }
            if !looked_up.done {
                part.extend(rest);
                return part;
            }
        }
    }

    /// Addresses are asked for. They wait for [`Self::answer`], also those that were answered before:
    /// the asker may have forgotten them, or they may have become code since.
    pub fn ask(
        &mut self,
        counters: &Counters,
        addresses: &[u64],
        trust: Trust,
        out: &mut Vec<Record>,
    ) {
        Counters::add(&counters.addresses, addresses.len() as u64);
        for &ip in addresses {
            if self.queue.len() >= MOST_WAITING {
                out.push(Record::NotCode(ip));
                continue;
            }
            match self.waiting.entry(ip) {
                Entry::Vacant(entry) => {
                    entry.insert(Waiting { trust, put_off: self.put_off });
                    self.not_code.remove(&ip);
                    self.queue.push(ip);
                }
                // What was executed is so also if it is guessed at later.
                Entry::Occupied(mut entry) if trust == Trust::Executed => {
                    entry.get_mut().trust = trust;
                }
                Entry::Occupied(_) => {}
            }
        }
    }

    /// Answers some of the addresses that wait, the last ones first: samples wait for these. Whether
    /// all of those were answered; otherwise the runtime would be suspended for too long now, or is
    /// suspended.
    pub fn answer(
        &mut self,
        runtime: &Runtime,
        counters: &Counters,
        out: &mut Vec<Record>,
    ) -> bool {
        // Nothing is checked in vain.
        let must_wait =
            runtime.removes_while_running() && !self.suspensions.allows(clock::monotonic());
        if must_wait || !self.regions.is_ready() {
            self.put_off = self.put_off.wrapping_add(1);
            return false;
        }
        let part = self.queue.split_off(self.queue.len().saturating_sub(PART));
        let mut safe = Vec::with_capacity(part.len());
        let mut later = HashSet::new();
        for trust in [Trust::Executed, Trust::Guessed] {
            let is_of = |ip: &u64| self.waiting.get(ip).is_some_and(|of| of.trust == trust);
            let of_trust: Vec<u64> = part.iter().copied().filter(is_of).collect();
            // Not earlier: while they waited, other code may have taken the place.
            safe.extend(self.filter_safe(&of_trust, trust, &mut later, out));
        }
        later.extend(self.look_up(runtime, counters, &safe, ANSWER_LIMIT, out));
        for ip in part {
            if later.contains(&ip) {
                self.queue.push(ip);
            } else if let Some(of) = self.waiting.remove(&ip) {
                let is_late = of.put_off != self.put_off;
                Counters::add(&counters.postponed, u64::from(is_late));
            }
        }
        if !later.is_empty() {
            self.put_off = self.put_off.wrapping_add(1);
        }
        later.is_empty()
    }

    /// Whether anything waits for its lookup.
    pub fn has_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Those of these addresses that the runtime may be asked about; answers the others, or adds
    /// them to `later`.
    fn filter_safe(
        &mut self,
        addresses: &[u64],
        trust: Trust,
        later: &mut HashSet<u64>,
        out: &mut Vec<Record>,
    ) -> Vec<u64> {
        let (mut safe, unknown): (Vec<u64>, Vec<u64>) =
            addresses.iter().partition(|ip| self.covers(**ip));
        // Not remembered: a refused guess may turn out to be code.
        let refused = |ip| out.push(Record::NotCode(ip));
        safe.extend(self.regions.filter_safe(&*self.memory, &unknown, trust, refused, |ip| {
            later.insert(ip);
        }));
        safe
    }

    fn covers(&self, ip: u64) -> bool {
        self.sent.range(..=ip).next_back().is_some_and(|(_, sent)| ip < sent.end)
    }

    fn send_code(
        &mut self,
        runtime: &Runtime,
        counters: &Counters,
        code: NativeCode,
        out: &mut Vec<Record>,
    ) {
        let Some(&(entry, length)) = code.ranges.first() else { return };
        let method = self.method(runtime, counters, code.function, out);
        for &(start, length) in &code.ranges {
            let end = start.saturating_add(u64::from(length));
            // Older code whose place this takes was freed without a word.
            self.forget_overlapping(start, end);
            self.sent.insert(start, Sent { end, function: code.function, entry });
        }
        if let Some(named) = self.methods.get_mut(&code.function) {
            named.code.extend(code.ranges.iter().map(|(start, _)| start));
        }
        let unwind = self.unwind_table(&code);
        if unwind.is_none() {
            Counters::add(&counters.without_unwind, 1);
        }
        let bytes =
            if length <= MOST_BYTES { self.memory.bytes(entry, length as usize) } else { None };
        out.push(Record::Code(Code {
            method,
            rejit: code.rejit.0 as u64,
            ranges: code.ranges,
            unwind,
            bytes: bytes.unwrap_or_default(),
            il_map: code.il_map,
        }));
    }

    fn forget_overlapping(&mut self, start: u64, end: u64) {
        while let Some((&first, _)) = self
            .sent
            .range(..end)
            .next_back()
            .filter(|(first, sent)| **first >= start || sent.end > start)
        {
            self.sent.remove(&first);
        }
    }

    fn unwind_table(&mut self, code: &NativeCode) -> Option<UnwindTable> {
        if cfg!(not(target_arch = "x86_64")) {
            // Other processors have other formats.
            return None;
        }
        let &(entry, length) = code.ranges.first()?;
        if let Some(image) = self.image_of(entry) {
            return image.unwind_table(&*self.memory, &code.ranges);
        }
        let jitted = unwind_table::of_jitted(&*self.memory, entry, length);
        if jitted.is_some() {
            return jitted;
        }
        // Code of an image that no module names as its own: a composite one holds the code of many.
        let image = self.regions.image_at(&*self.memory, entry)?;
        self.images.insert(image.base, image);
        image.unwind_table(&*self.memory, &code.ranges)
    }

    fn image_of(&self, address: u64) -> Option<Image> {
        let (_, image) =
            self.images.range((Bound::Unbounded, Bound::Included(address))).next_back()?;
        image.contains(address).then_some(*image)
    }

    /// Id of a method, which must be loaded: see [`crate::host::unloads::Unloads`].
    pub fn method(
        &mut self,
        runtime: &Runtime,
        counters: &Counters,
        function: FunctionId,
        out: &mut Vec<Record>,
    ) -> u32 {
        if let Some(named) = self.methods.get(&function) {
            return named.id;
        }
        // The thread's own time: what it waits for a processor is no cost of naming.
        let begun = clock::thread_cpu();
        let name = runtime.names().method(function);
        let taken = clock::thread_cpu().saturating_sub(begun);
        Counters::add(&counters.naming, taken);
        Counters::add(&counters.methods, 1);
        let module = name.as_ref().ok().and_then(|name| name.module);
        if module.is_some_and(|module| !self.modules.contains_key(&module)) {
            Counters::add(&counters.first_methods, 1);
            Counters::add(&counters.opening, taken);
        }
        self.define(runtime, function, name, out)
    }

    /// Id of a method that has a name already, or cannot have one.
    pub fn define(
        &mut self,
        runtime: &Runtime,
        function: FunctionId,
        name: Result<MethodName, Error>,
        out: &mut Vec<Record>,
    ) -> u32 {
        if let Some(named) = self.methods.get(&function) {
            return named.id;
        }
        let module = name.as_ref().ok().and_then(|name| name.module);
        if self.methods.len() >= Self::MOST {
            self.forget_all_code();
            self.methods.clear();
        }
        self.last_method = self.last_method.wrapping_add(1);
        let id = self.last_method;
        self.methods.insert(function, Named { id, module, code: Vec::new() });
        let method = self.record(runtime, id, name, out);
        out.push(Record::Method(method));
        id
    }

    fn record(
        &mut self,
        runtime: &Runtime,
        id: u32,
        name: Result<MethodName, Error>,
        out: &mut Vec<Record>,
    ) -> Method {
        match name {
            Ok(name) => {
                let (kind, module) = match name.kind {
                    FunctionKind::Normal => (MethodKind::Normal, name.module),
                    FunctionKind::Dynamic => (MethodKind::Dynamic, None),
                    FunctionKind::IlStub => (MethodKind::IlStub, None),
                };
                Method {
                    id,
                    module: module.and_then(|module| self.module(runtime, module, out)),
                    token: if kind == MethodKind::Normal { name.token.raw() } else { 0 },
                    kind,
                    type_name: name.type_name.as_ref().to_owned(),
                    name: name.name,
                    parameters: name.parameters,
                }
            }
            Err(error) => Method {
                id,
                module: None,
                token: 0,
                kind: MethodKind::Normal,
                type_name: String::new(),
                name: format!("[unnamed: {error}]"),
                parameters: String::new(),
            },
        }
    }

    /// A new id for a method by its place in metadata, with generic parameters in place of
    /// arguments.
    pub fn method_def(
        &mut self,
        runtime: &Runtime,
        module: ModuleId,
        method: MethodDef,
        out: &mut Vec<Record>,
    ) -> u32 {
        let name = runtime.names().method_def(module, method);
        self.last_method = self.last_method.wrapping_add(1);
        let record = self.record(runtime, self.last_method, name, out);
        out.push(Record::Method(record));
        self.last_method
    }

    /// Id of a module; `None` if it is gone, and was not met before.
    fn module(
        &mut self,
        runtime: &Runtime,
        module: ModuleId,
        out: &mut Vec<Record>,
    ) -> Option<u32> {
        if let Some(&(id, _)) = self.modules.get(&module) {
            return Some(id);
        }
        let found =
            runtime.unloads().hold(module, || (runtime.module(module), runtime.mvid(module)));
        let ((base, path, assembly), mvid) = found?;
        self.last_module = self.last_module.wrapping_add(1);
        let id = self.last_module;
        self.modules.insert(module, (id, base));
        if let Some(image) = Image::at(&*self.memory, base) {
            self.images.insert(base, image);
        }
        out.push(Record::Module(Module { id, base, path, assembly, mvid }));
        Some(id)
    }

    /// Id of a class, which must be loaded: see [`crate::host::unloads::Unloads`].
    pub fn class(&mut self, runtime: &Runtime, class: ClassId, out: &mut Vec<Record>) -> u32 {
        if let Some(&id) = self.classes.get(&class) {
            return id;
        }
        let id = match runtime.names().class(class) {
            Ok(name) => self.named_class(&name, out),
            Err(error) => self.named_class(&format!("[unnamed: {error}]"), out),
        };
        self.classes.insert(class, id);
        id
    }

    /// Id of a class that is known by its name in an event only.
    pub fn event_class(
        &mut self,
        runtime: &Runtime,
        class: ClassId,
        name: &str,
        out: &mut Vec<Record>,
    ) -> u32 {
        if let Some(&id) = self.event_classes.get(&class) {
            return id;
        }
        let name = full_name(runtime, name).unwrap_or_else(|| as_csharp(name));
        let id = self.named_class(&name, out);
        self.event_classes.insert(class, id);
        id
    }

    /// Id of a class by its number in the [table of ids](crate::host::id_table). It may have been
    /// unloaded.
    pub fn numbered_class(&mut self, runtime: &Runtime, number: u32, out: &mut Vec<Record>) -> u32 {
        if let Some(&id) = self.numbered_classes.get(&number) {
            return id;
        }
        if self.numbered_classes.len() >= Self::MOST {
            self.numbered_classes.clear();
        }
        let id = runtime.unloads().hold_all(|| match runtime.ids().class_of(number) {
            Meaning::Loaded(class) => self.class(runtime, class, out),
            Meaning::Unloaded(name) => self.named_class(&name, out),
            Meaning::Unknown => self.named_class("[unloaded type]", out),
        });
        self.numbered_classes.insert(number, id);
        id
    }

    /// Id of a method by its number in the [table of ids](crate::host::id_table). It may have been
    /// unloaded.
    pub fn numbered_method(
        &mut self,
        runtime: &Runtime,
        counters: &Counters,
        number: u32,
        out: &mut Vec<Record>,
    ) -> Option<u32> {
        if let Some(&id) = self.numbered_methods.get(&number) {
            return Some(id);
        }
        if self.numbered_methods.len() >= Self::MOST {
            self.numbered_methods.clear();
        }
        let id = runtime.unloads().hold_all(|| match runtime.ids().function_of(number) {
            Meaning::Loaded(function) => Some(self.method(runtime, counters, function, out)),
            Meaning::Unloaded(name) => {
                self.last_method = self.last_method.wrapping_add(1);
                let method = self.record(runtime, self.last_method, Ok(name), out);
                out.push(Record::Method(method));
                Some(self.last_method)
            }
            Meaning::Unknown => None,
        })?;
        self.numbered_methods.insert(number, id);
        Some(id)
    }

    /// A new id for a class that is known by its full name.
    pub fn named_class(&mut self, name: &str, out: &mut Vec<Record>) -> u32 {
        self.last_class = self.last_class.wrapping_add(1);
        out.push(Record::Class(Class { id: self.last_class, name: name.to_owned() }));
        self.last_class
    }

    /// Forgets everything that may have been unloaded: there were too many unloaded modules and
    /// functions to report each of them.
    pub fn forget_loaded(&mut self, out: &mut Vec<Record>) {
        self.regions.forget();
        self.modules.clear();
        self.images.clear();
        self.classes.clear();
        self.methods.clear();
        let entries: HashSet<u64> = self.sent.values().map(|sent| sent.entry).collect();
        out.extend(entries.into_iter().map(Record::CodeFreed));
        self.sent.clear();
    }

    /// The code of a dynamic method was freed: its id and its addresses may come again.
    pub fn freed(&mut self, function: FunctionId, out: &mut Vec<Record>) {
        if let Some(named) = self.methods.remove(&function) {
            self.forget_code(function, &named, out);
        }
    }

    /// A module was unloaded, and with it everything in it.
    pub fn unloaded(&mut self, module: ModuleId, out: &mut Vec<Record>) {
        self.regions.forget();
        if let Some((_, base)) = self.modules.remove(&module) {
            self.images.remove(&base);
        }
        // Which of them were its own is not known; those that live get new ids when they are met
        // again.
        self.classes.clear();
        let gone: Vec<_> =
            self.methods.extract_if(|_, named| named.module == Some(module)).collect();
        for (function, named) in gone {
            self.forget_code(function, &named, out);
        }
    }

    fn forget_all_code(&mut self) {
        self.sent.clear();
        for named in self.methods.values_mut() {
            named.code.clear();
        }
    }

    fn forget_code(&mut self, function: FunctionId, named: &Named, out: &mut Vec<Record>) {
        for start in &named.code {
            // Its place may have been taken by other code in the meantime.
            if self.sent.get(start).is_some_and(|sent| sent.function == function)
                && let Some(sent) = self.sent.remove(start)
                && sent.entry == *start
            {
                out.push(Record::CodeFreed(sent.entry));
            }
        }
    }
}
