//! Tells what was called of the methods that a session has rewritten.

use crate::engines::hooks;
use crate::engines::probes;
use crate::engines::probes::arguments::Value;
use crate::engines::probes::traced::{self, Totals};
use crate::host::resolver::Resolver;
use crate::host::runtime::Runtime;
use crate::os::clock;
use corprof::ids::ClassId;
use instrument::Manager;
use rules::RuleSet;
use std::collections::{BTreeMap, BTreeSet};
use wire::{Argument, CallArguments, Nanos, Record, SingleCall, Traced, TracedMethod};

/// Most methods of one record: it has to fit into a frame, with up to 656 buckets each.
const MOST: usize = 256;
/// Most single calls of one record.
const MOST_SINGLE: usize = 4096;
/// From how many bytes of arguments on another record begins, about. Those of one call are at most
/// 400 KB.
const MOST_ARGUMENTS: usize = 256 << 10;

struct Told {
    totals: Totals,
    rule: usize,
    /// Calls in this session.
    calls: u64,
}

/// Reads the counts of traced methods, and remembers what it has reported so far.
pub struct Reader {
    /// What methods had counted before this session.
    before: BTreeMap<u32, Totals>,
    told: BTreeMap<u32, Told>,
    /// Ticks and nanoseconds at the beginning.
    begun: Option<(u64, Nanos)>,
    /// When the rules began.
    since: Nanos,
    lost: u64,
    untold: u64,
    unshown: u64,
    /// Modules that had begun to go when single calls were taken for the last time.
    went: u64,
    expired: BTreeSet<usize>,
}

impl Reader {
    /// Other rules: their limits count from now on.
    pub fn limits_begin(&mut self) {
        self.expired.clear();
        self.told.values_mut().for_each(|told| told.calls = 0);
        self.since = clock::monotonic();
    }

    /// Creates a reader that reports what is counted from now on.
    pub fn new(runtime: &Runtime) -> Self {
        let went = runtime.unloads().went();
        // Those of a session before.
        traced::take_single_calls(|_, _| ());
        let slots = probes::manager().map_or(0, Manager::slots);
        let before = (0..slots)
            .map(|slot| (slot, traced::totals(slot)))
            .filter(|(_, totals)| *totals != Totals::default());
        Self {
            before: before.collect(),
            told: BTreeMap::new(),
            begun: None,
            since: clock::monotonic(),
            lost: traced::lost_calls(),
            untold: traced::untold_calls(),
            unshown: traced::unshown_arguments(),
            went,
            expired: BTreeSet::new(),
        }
    }

    /// A method was rewritten.
    pub fn begin(&mut self, slot: u32, rule: usize) {
        self.begun.get_or_insert_with(|| (hooks::ticks(), clock::monotonic()));
        let before = &mut self.before;
        let told = self.told.entry(slot).or_insert_with(|| {
            // It may have been called already.
            Told { totals: before.remove(&slot).unwrap_or_default(), rule, calls: 0 }
        });
        told.rule = rule;
    }

    /// Calls that are not reported, by reason.
    pub fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let untold = traced::untold_calls() - self.untold;
        let unshown = traced::unshown_arguments() - self.unshown;
        [
            ("traced calls, no room", traced::lost_calls() - self.lost),
            ("individual traced calls, no room", untold),
            ("arguments of traced calls, no room", unshown),
        ]
        .into_iter()
    }

    /// About how many bytes it holds.
    pub fn memory(&self) -> usize {
        let of = |told: &Told| {
            size_of::<Told>() + told.totals.buckets.capacity() * size_of::<(u16, u32)>() + 16
        };
        self.told.values().map(of).sum::<usize>() + traced::memory()
    }

    /// Reads the calls since the last time that are recorded individually.
    pub fn read_single(
        &mut self,
        runtime: &Runtime,
        resolver: &mut Resolver,
        out: &mut Vec<Record>,
    ) {
        let Some((ticks, time)) = self.begun else { return };
        let nanos_per_tick = 1e9 / self.ticks_per_second();
        let went = std::mem::replace(&mut self.went, runtime.unloads().went());
        let (mut single, mut shown) = (Vec::new(), Vec::new());
        traced::take_single_calls(|call, values| {
            // Asynchronous calls of a session before may have ended in this one.
            if !self.told.contains_key(&call.slot) {
                return;
            }
            let since = (call.begun as f64 - ticks as f64) * nanos_per_tick;
            let told = SingleCall {
                slot: call.slot,
                thread: call.os_tid,
                begun: time.saturating_add_signed(since as i64),
                taken: (call.taken as f64 * nanos_per_tick) as Nanos,
                failed: call.failed,
                asynchronous: call.asynchronous,
            };
            if call.arguments { shown.push((told, values)) } else { single.push(told) }
        });
        out.extend(single.chunks(MOST_SINGLE).map(|part| Record::SingleCalls(part.to_vec())));

        let (mut part, mut bytes) = (Vec::new(), 0);
        for (call, values) in shown {
            let mut arguments = Vec::with_capacity(values.len());
            for (index, value) in values {
                let argument = argument(value, runtime, |class| {
                    // The class of an object that was alive when calls were last taken is there,
                    // unless its module has gone since.
                    runtime.unloads().hold_since(went, || resolver.class(runtime, class, out))
                });
                bytes += size_of::<Argument>()
                    + if let Argument::Text { text, .. } = &argument { text.len() } else { 0 };
                arguments.push((index, argument));
            }
            part.push(CallArguments { call, arguments });
            if bytes >= MOST_ARGUMENTS || part.len() >= MOST_SINGLE {
                out.push(Record::CallsWithArguments(std::mem::take(&mut part)));
                bytes = 0;
            }
        }
        if !part.is_empty() {
            out.push(Record::CallsWithArguments(part));
        }
    }

    fn ticks_per_second(&self) -> f64 {
        let (ticks, time) = self.begun.unwrap_or_default();
        let spent = clock::monotonic().saturating_sub(time).max(1);
        (hooks::ticks().saturating_sub(ticks).max(1)) as f64 / spent as f64 * 1e9
    }

    /// What was called since the last time.
    pub fn read(&mut self, out: &mut Vec<Record>) {
        if self.begun.is_none() {
            return;
        }
        traced::free_shards();
        let (ticks_per_second, time_now) = (self.ticks_per_second(), clock::monotonic());
        let mut methods = Vec::new();
        for (&slot, told) in &mut self.told {
            // Most are not called in a second, and histograms are large.
            if traced::counted(slot) == (told.totals.calls, told.totals.timed) {
                continue;
            }
            let totals = traced::totals(slot);
            let grown = grown(slot, &told.totals, &totals);
            told.calls += grown.calls;
            told.totals = totals;
            if grown.calls > 0 || grown.timed > 0 {
                methods.push(grown);
            }
        }
        for part in methods.chunks(MOST) {
            out.push(Record::Traced(Traced {
                time: time_now,
                ticks_per_second: ticks_per_second.round() as u64,
                methods: part.to_vec(),
            }));
        }
    }

    /// Whether all rules have come to their ends.
    pub fn is_over(&self, rules: &RuleSet) -> bool {
        !rules.rules().is_empty() && self.expired.len() == rules.rules().len()
    }

    /// Rules that have come to their ends since the last time.
    pub fn expired(&mut self, rules: &RuleSet) -> Vec<usize> {
        let seconds = clock::monotonic().saturating_sub(self.since) / 1_000_000_000;
        let mut calls = vec![0; rules.rules().len()];
        for told in self.told.values() {
            if let Some(calls) = calls.get_mut(told.rule) {
                *calls += told.calls;
            }
        }
        let over = rules.rules().iter().zip(calls).enumerate().filter(|(_, (rule, calls))| {
            rule.limits.calls.is_some_and(|most| *calls >= most)
                || rule.limits.seconds.is_some_and(|most| seconds >= u64::from(most))
        });
        over.map(|(index, _)| index).filter(|index| self.expired.insert(*index)).collect()
    }
}

/// Converts an argument to its reported form. Before .NET 5 arrays of several classes had one
/// method table.
fn argument(
    value: Value,
    runtime: &Runtime,
    mut class: impl FnMut(ClassId) -> Option<u32>,
) -> Argument {
    match value {
        Value::Number(number) => Argument::Number(number),
        Value::Float(number) => Argument::Float(number),
        Value::Text(mut units, length) => {
            // A letter of two units that was cut in the middle is left out.
            let is_cut = units.len() < length as usize;
            units.pop_if(|last| is_cut && (0xd800..0xdc00).contains(last));
            Argument::Text { text: String::from_utf16_lossy(&units), length }
        }
        Value::Null => Argument::Null,
        Value::Object(of) => Argument::Object { class: class(ClassId(of)), elements: None },
        Value::Array(of, elements) => {
            let class = if runtime.version()[0] >= 5 { class(ClassId(of)) } else { None };
            Argument::Object { class, elements: Some(elements) }
        }
    }
}

fn grown(slot: u32, before: &Totals, now: &Totals) -> TracedMethod {
    let buckets = now.buckets.iter().filter_map(|&(bucket, count)| {
        let told = before.buckets.binary_search_by_key(&bucket, |(of, _)| *of).ok();
        let told = told.and_then(|at| before.buckets.get(at)).map_or(0, |(_, count)| *count);
        let more = count.wrapping_sub(told);
        (more > 0).then_some((bucket, more.into()))
    });
    TracedMethod {
        slot,
        calls: now.calls.saturating_sub(before.calls),
        timed: now.timed.saturating_sub(before.timed),
        failed: now.failed.saturating_sub(before.failed),
        ticks: now.ticks.saturating_sub(before.ticks),
        longest: now.longest,
        buckets: buckets.collect(),
    }
}
