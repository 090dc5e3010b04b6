use std::collections::{HashMap, HashSet};

use profilers::jit::{Compilation, JitTier, Lookups, PrecompiledCode};
use session::{FunctionId, FunctionKind, Nanos, ThreadId, ThreadState};

use crate::{
    CallSite, Profile, Series, SeriesKind, Totals,
    exceptions::heaviest,
    series::{Keep, Row},
};

/// Compiled methods.
#[derive(Clone, Debug)]
pub struct Jit {
    /// Calls that made compilations necessary; weights are nanoseconds.
    pub series: Series,
    /// Single compilations.
    pub compilations: Vec<Compilation>,
    /// How often precompiled code was looked for, and code was freed.
    pub lookups: Vec<Lookups>,
}

impl Jit {
    pub(crate) fn new(start: Nanos, keep: Keep) -> Self {
        let series = Series::new(SeriesKind::Jit, start, keep);
        Self { series, compilations: Vec::new(), lookups: Vec::new() }
    }

    pub(crate) fn add(&mut self, compilation: Compilation) {
        let row = Row {
            time: compilation.time,
            thread: compilation.thread,
            stack: compilation.stack,
            state: ThreadState::Running,
            truncated: compilation.truncated,
            weight: compilation.duration.unwrap_or(0),
        };
        self.series.add(row, 1);
        self.compilations.push(compilation);
    }

    /// Precompiled code that was looked for in all.
    pub fn lookups(&self) -> Lookups {
        self.lookups.iter().fold(Lookups::default(), |sum, count| Lookups {
            time: count.time,
            found: sum.found.saturating_add(count.found),
            missing: sum.missing.saturating_add(count.missing),
            duration: sum.duration.saturating_add(count.duration),
            freed: sum.freed.saturating_add(count.freed),
        })
    }
}

/// Sums of a part of all compilations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JitTotals {
    /// How many, and how long they took, nanoseconds.
    pub totals: Totals,
    /// Bytes of IL, as far as reported.
    pub il: u64,
    /// Bytes of code.
    pub native: u64,
}

impl JitTotals {
    fn add(&mut self, compilation: &Compilation) {
        self.totals.add(1, compilation.duration.unwrap_or(0));
        self.il = self.il.saturating_add(compilation.il_size.into());
        self.native = self.native.saturating_add(compilation.native_size.into());
    }

    fn of<'a>(compilations: impl Iterator<Item = &'a Compilation>) -> Self {
        let mut sum = Self::default();
        compilations.for_each(|compilation| sum.add(compilation));
        sum
    }
}

/// What can be said of all compilations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JitSummary {
    /// All.
    pub all: JitTotals,
    /// Those that a thread had to wait for.
    pub blocking: JitTotals,
    /// Those in the background.
    pub background: JitTotals,
    /// By tier, in the order of tiers; only those that occur.
    pub tiers: Vec<(JitTier, JitTotals)>,
    /// Of methods made at run time.
    pub dynamic: JitTotals,
    /// Of stubs of the runtime.
    pub stubs: JitTotals,
    /// Of methods without precompiled code that could be used, although their module has
    /// precompiled code.
    pub missing: JitTotals,
    /// Of methods whose precompiled code was refused.
    pub rejected: JitTotals,
    /// Of methods that were compiled before in this recording.
    pub again: JitTotals,
    /// Compilations whose beginning was not seen: their time is not known.
    pub untimed: u64,
    /// What threads had to wait for, longest first.
    pub by_thread: Vec<(ThreadId, Totals)>,
}

/// Compilations of a method, in all its instantiations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitRow {
    /// The method.
    pub function: FunctionId,
    /// Sums.
    pub sums: JitTotals,
    /// Of these, time that a thread had to wait for.
    pub blocking: u64,
    /// The longest, nanoseconds.
    pub longest: u64,
    /// Number of different methods by this name: instantiations, overloads without known
    /// parameters.
    pub methods: u64,
    /// Most compilations of one of them.
    pub most: u64,
    /// Tiers with their numbers, in the order of tiers.
    pub tiers: Vec<(JitTier, u64)>,
    /// What became of its precompiled code, the worst.
    pub precompiled: PrecompiledCode,
    /// The call that made most of it necessary; `None` if it was all in the background.
    pub called_at: Option<CallSite>,
}

impl Profile {
    /// The method that was compiled.
    pub fn compiled_function(&self, compilation: &Compilation) -> FunctionId {
        self.tables.stack_function(compilation.stack)
    }

    /// Sums of compilations.
    pub fn jit_summary(&self) -> JitSummary {
        let all = &self.jit.compilations;
        let of = |wanted: &dyn Fn(&Compilation) -> bool| {
            JitTotals::of(all.iter().filter(|one| wanted(one)))
        };
        let kind = |one: &Compilation| self.tables.function(self.compiled_function(one)).kind;
        let mut tiers: Vec<(JitTier, JitTotals)> = Vec::new();
        let mut threads: HashMap<ThreadId, Totals> = HashMap::new();
        // Numbers of dynamic methods come again with other meanings.
        let mut seen: HashSet<u64> = HashSet::new();
        let mut again = JitTotals::default();
        for one in all {
            match tiers.iter_mut().find(|(tier, _)| *tier == one.tier) {
                Some((_, sums)) => sums.add(one),
                None => tiers.push((one.tier, JitTotals::of(std::iter::once(one)))),
            }
            if !one.background {
                threads.entry(one.thread).or_default().add(1, one.duration.unwrap_or(0));
            }
            if kind(one) == FunctionKind::Managed && !seen.insert(one.method) {
                again.add(one);
            }
        }
        order::sort_by_key(&mut tiers, |(tier, _)| *tier);
        let mut by_thread: Vec<_> = threads.into_iter().collect();
        order::sort_by_key(&mut by_thread, |(thread, sums)| {
            (std::cmp::Reverse(sums.weight), *thread)
        });
        JitSummary {
            all: of(&|_| true),
            blocking: of(&|one| !one.background),
            background: of(&|one| one.background),
            tiers,
            dynamic: of(&|one| kind(one) == FunctionKind::Dynamic),
            stubs: of(&|one| kind(one) == FunctionKind::Stub),
            missing: of(&|one| {
                one.precompiled == PrecompiledCode::Missing && kind(one) == FunctionKind::Managed
            }),
            rejected: of(&|one| {
                matches!(
                    one.precompiled,
                    PrecompiledCode::Rejected | PrecompiledCode::RejectedByProfiler
                )
            }),
            again,
            untimed: all.iter().filter(|one| one.duration.is_none()).count() as u64,
            by_thread,
        }
    }

    /// Compiled methods by the time that their compilations took, longest first.
    pub fn jit_rows(&self) -> Vec<JitRow> {
        let mut by_function: HashMap<FunctionId, Vec<&Compilation>> = HashMap::new();
        for one in &self.jit.compilations {
            by_function.entry(self.compiled_function(one)).or_default().push(one);
        }
        let mut rows: Vec<JitRow> = by_function
            .into_iter()
            .map(|(function, of)| {
                let (mut methods, mut tiers, mut places) =
                    (HashMap::new(), HashMap::new(), HashMap::new());
                for one in &of {
                    *methods.entry(one.method).or_insert(0_u64) += 1;
                    *tiers.entry(one.tier).or_insert(0_u64) += 1;
                    if let Some(caller) = self.tables.parent(one.stack).filter(|_| !one.background)
                    {
                        *places.entry(self.tables.place(caller)).or_insert(0_u64) +=
                            one.duration.unwrap_or(0);
                    }
                }
                let mut tiers: Vec<_> = tiers.into_iter().collect();
                order::sort_by(&mut tiers, Ord::cmp);
                let managed = self.tables.function(function).kind == FunctionKind::Managed;
                JitRow {
                    function,
                    sums: JitTotals::of(of.iter().copied()),
                    blocking: JitTotals::of(of.iter().copied().filter(|one| !one.background))
                        .totals
                        .weight,
                    longest: of.iter().filter_map(|one| one.duration).max().unwrap_or(0),
                    // Numbers of dynamic methods come again.
                    methods: if managed { methods.len() as u64 } else { of.len() as u64 },
                    most: if managed { methods.into_values().max().unwrap_or(1) } else { 1 },
                    tiers,
                    precompiled: of
                        .iter()
                        .map(|one| one.precompiled)
                        .max()
                        .unwrap_or(PrecompiledCode::NotSought),
                    called_at: heaviest(places),
                }
            })
            .collect();
        order::sort_by_key(&mut rows, |row| {
            (std::cmp::Reverse(row.sums.totals.weight), row.function)
        });
        rows
    }

    /// Compilations over the time of the recording, which is divided into `parts` parts of equal
    /// length: how many began in each, and how long they took.
    pub fn jit_over_time(&self, parts: usize) -> Vec<Totals> {
        let mut over_time = vec![Totals::default(); parts];
        let length = self.duration().max(1);
        for one in &self.jit.compilations {
            let at =
                one.time.saturating_sub(self.start) as u128 * parts as u128 / u128::from(length);
            // What began at the very end belongs to the last part.
            if let Some(part) = over_time.get_mut((at as usize).min(parts.saturating_sub(1))) {
                part.add(1, one.duration.unwrap_or(0));
            }
        }
        over_time
    }
}
