//! From addresses to methods: what code stands where, what it is called, and how its frames are
//! unwound.

mod forgetting;
mod ids;

use crate::host::budget::Budget;
use crate::host::code_map::CodeMap;
use crate::host::code_regions::{CodeRegions, Trust};
use crate::host::counters::Counters;
use crate::host::runtime::{NativeCode, Runtime};
use crate::os::{clock, memory::OwnMemory};
use corprof::ids::{ClassId, FunctionId, ModuleId};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use wire::memory::Memory;
use wire::unwind_table::{self, Image};
use wire::{Code, Nanos, Record, UnwindTable};

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

    /// Addresses are asked for. They wait for [`Self::answer`], also those that were answered
    /// before: the asker may have forgotten them, or they may have become code since.
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

    /// Answers some of the addresses that wait, the last ones first: samples wait for these.
    /// Whether all of those were answered; otherwise the runtime would be suspended for too long
    /// now, or is suspended.
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
}
