use std::collections::HashMap;

use profilers::loads::{AssemblyLoad, LoadOutcome, TypeLoad, Unloaded};
use session::{Nanos, StackId, ThreadId, ThreadState, TypeId};

use crate::{
    CallSite, Profile, Series, SeriesKind, Totals,
    exceptions::heaviest,
    series::{Keep, Row, add},
};

/// Loaded assemblies and types.
#[derive(Clone, Debug)]
pub struct Loads {
    /// Calls that made loads necessary; weights are nanoseconds, each without loads within it.
    pub series: Series,
    /// Assemblies that were loaded, or asked for.
    pub assemblies: Vec<AssemblyLoad>,
    /// Assemblies that were unloaded.
    pub unloads: Vec<Unloaded>,
    /// Steps of loading types.
    pub types: Vec<TypeLoad>,
}

impl Loads {
    pub(crate) fn new(start: Nanos, keep: Keep) -> Self {
        let series = Series::new(SeriesKind::Loads, start, keep);
        Self { series, assemblies: Vec::new(), unloads: Vec::new(), types: Vec::new() }
    }

    fn add_row(
        &mut self,
        time: Nanos,
        thread: ThreadId,
        stack: StackId,
        truncated: bool,
        weight: u64,
    ) {
        let state = ThreadState::Running;
        self.series.add(Row { time, thread, stack, state, truncated, weight }, 1);
    }

    pub(crate) fn add_assembly(&mut self, load: AssemblyLoad) {
        self.add_row(load.time, load.thread, load.stack, load.truncated, load.own.unwrap_or(0));
        self.assemblies.push(load);
    }

    pub(crate) fn add_type(&mut self, load: TypeLoad) {
        self.add_row(load.time, load.thread, load.stack, load.truncated, load.own);
        self.types.push(load);
    }
}

/// What can be said of all loads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadSummary {
    /// Assemblies that were loaded.
    pub loaded: u64,
    /// Requests for assemblies that had been loaded before.
    pub known: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Of those loaded: made at run time, can be unloaded, with precompiled code.
    pub dynamic: u64,
    /// Those that can be unloaded.
    pub collectible: u64,
    /// Those with precompiled code.
    pub precompiled: u64,
    /// Assemblies that were unloaded.
    pub unloaded: u64,
    /// Whether the runtime reported how long anything took.
    pub timed: bool,
    /// Time for assemblies, without loads within them, nanoseconds.
    pub assembly_time: u64,
    /// Time for requests that failed, likewise.
    pub failed_time: u64,
    /// Steps of loading types, and their time without loads within them.
    pub types: Totals,
    /// Different types, by name.
    pub distinct_types: u64,
    /// Time of each thread, longest first: for assemblies and for types.
    pub by_thread: Vec<(ThreadId, Totals, Totals)>,
}

/// Loads of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeLoadRow {
    /// The type.
    pub ty: TypeId,
    /// Steps, and their time without loads within them.
    pub totals: Totals,
    /// The longest step with all that was loaded within it, nanoseconds.
    pub longest: u64,
    /// The call that made most of it necessary.
    pub called_at: Option<CallSite>,
}

impl Profile {
    /// Sums of loads.
    pub fn load_summary(&self) -> LoadSummary {
        let assemblies = &self.loads.assemblies;
        let count = |wanted: &dyn Fn(&AssemblyLoad) -> bool| {
            assemblies.iter().filter(|load| wanted(load)).count() as u64
        };
        let time = |wanted: &dyn Fn(&AssemblyLoad) -> bool| {
            let of = assemblies.iter().filter(|load| wanted(load)).filter_map(|load| load.own);
            of.fold(0_u64, u64::saturating_add)
        };
        let loaded = |load: &AssemblyLoad| load.outcome == LoadOutcome::Loaded;
        let mut threads: HashMap<ThreadId, (Totals, Totals)> = HashMap::new();
        for load in assemblies {
            threads.entry(load.thread).or_default().0.add(1, load.own.unwrap_or(0));
        }
        let mut types = Totals::default();
        let mut distinct = vec![false; self.tables.types.len()];
        for load in &self.loads.types {
            threads.entry(load.thread).or_default().1.add(1, load.own);
            types.add(1, load.own);
            distinct[load.ty.index()] = true;
        }
        let mut by_thread: Vec<_> = threads
            .into_iter()
            .map(|(thread, (assemblies, types))| (thread, assemblies, types))
            .collect();
        order::sort_by_key(&mut by_thread, |(thread, assemblies, types)| {
            (std::cmp::Reverse(assemblies.weight.saturating_add(types.weight)), *thread)
        });
        LoadSummary {
            loaded: count(&loaded),
            known: count(&|load| load.outcome == LoadOutcome::Known),
            failed: count(&|load| load.outcome == LoadOutcome::Failed),
            dynamic: count(&|load| loaded(load) && load.dynamic),
            collectible: count(&|load| loaded(load) && load.collectible),
            precompiled: count(&|load| loaded(load) && load.precompiled),
            unloaded: self.loads.unloads.len() as u64,
            timed: !self.loads.types.is_empty()
                || assemblies.iter().any(|load| load.duration.is_some()),
            assembly_time: time(&|_| true),
            failed_time: time(&|load| load.outcome == LoadOutcome::Failed),
            types,
            distinct_types: distinct.into_iter().filter(|seen| *seen).count() as u64,
            by_thread,
        }
    }

    /// Types by the time that loading them took, longest first.
    pub fn type_load_rows(&self) -> Vec<TypeLoadRow> {
        let mut places: HashMap<StackId, CallSite> = HashMap::new();
        let mut by_type: HashMap<TypeId, (Totals, u64, HashMap<CallSite, u64>)> = HashMap::new();
        for load in &self.loads.types {
            let place = *places.entry(load.stack).or_insert_with(|| self.tables.place(load.stack));
            let (totals, longest, of) = by_type.entry(load.ty).or_default();
            totals.add(1, load.own);
            *longest = (*longest).max(load.duration);
            add(of.entry(place).or_default(), load.own);
        }
        let mut rows: Vec<TypeLoadRow> = by_type
            .into_iter()
            .map(|(ty, (totals, longest, places))| TypeLoadRow {
                ty,
                totals,
                longest,
                called_at: heaviest(places),
            })
            .collect();
        order::sort_by_key(&mut rows, |row| (std::cmp::Reverse(row.totals.weight), row.ty));
        rows
    }
}
