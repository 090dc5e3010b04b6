use std::{cmp::Reverse, collections::HashMap};

use profilers::{
    allocations::{self, AllocationSample},
    finalizers::{Doing, Finalized, Queued, Run, Seen, Unfinished},
};
use rows::{FunctionId, StackId, ThreadId, TypeId};
use session::Nanos;

use crate::{
    Amount, CallSite, Estimate, Profile,
    series::{add, sum},
};

/// For how long objects must have waited at the end of the recording to count as waiting: some wait
/// for a moment after each collection.
const LASTING: Nanos = 2_000_000_000;

/// What the profiler `finalizers` has recorded, in numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FinalizerSummary {
    /// Objects that joined the queue.
    pub queued: u64,
    /// Objects whose finalizers have returned.
    pub finalized: u64,
    /// Objects that waited for the whole of the last two seconds, at least: what waited before the
    /// recording and was not finalized in it is not known.
    pub waiting: u64,
    /// The most objects that waited at a time, at least.
    pub most_waiting: u64,
    /// Objects by type, those whose finalizers took longest first.
    pub types: Vec<FinalizedType>,
    /// Time in finalizers that have returned.
    pub took: Nanos,
    /// The longest of them.
    pub longest: Nanos,
    /// How often the thread emptied the queue, and for how long together.
    pub runs: (u64, Nanos),
    /// What the finalizer thread did, where it was seen.
    pub thread: Option<FinalizerThread>,
    /// The finalizer that ran when the recording ended, where one did.
    pub current: Option<CurrentFinalizer>,
    /// Where objects of the types that were finalized are allocated, in the order of `types`, most
    /// bytes of each first; `None` where allocations were not recorded.
    pub allocated: Option<Vec<AllocatedFinalizable>>,
}

/// Objects of one type whose finalizers have returned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FinalizedType {
    /// The type.
    pub ty: TypeId,
    /// How many.
    pub objects: u64,
    /// How long their finalizers took together.
    pub took: Nanos,
    /// The longest.
    pub longest: Nanos,
    /// Share of `took` in that of all types, 0 to 1.
    pub share: f64,
}

/// Objects with a finalizer that one method allocates, by samples of allocations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AllocatedFinalizable {
    /// The type, as its finalizers are reported: without the arguments of a generic one.
    pub ty: TypeId,
    /// The innermost method of the program.
    pub place: CallSite,
    /// Samples there.
    pub samples: u64,
    /// Estimated objects, where their sizes are known.
    pub objects: Option<Amount>,
    /// Share in the bytes that are allocated of the type.
    pub share: Estimate,
}

/// What the finalizer thread did, by samples of it.
#[derive(Clone, Debug, PartialEq)]
pub struct FinalizerThread {
    /// Which it is.
    pub thread: ThreadId,
    /// For how long it was seen.
    pub seen: Nanos,
    /// Share of that time in which it ran a finalizer, and the part of it in which that was
    /// blocked, 0 to 1.
    pub busy: f64,
    /// See `busy`.
    pub blocked: f64,
    /// Where it was while it ran finalizers, most time first.
    pub places: Vec<FinalizerPlace>,
}

/// Where finalizers spend their time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FinalizerPlace {
    /// The finalizer: the outermost method of the stack.
    pub finalizer: FunctionId,
    /// The innermost method of the program.
    pub place: CallSite,
    /// The most frequent stack.
    pub stack: StackId,
    /// What it did there.
    pub doing: Doing,
    /// For how long.
    pub time: Nanos,
    /// Share of the time that the thread was seen, 0 to 1.
    pub share: f64,
}

/// A finalizer that had not returned when the recording ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurrentFinalizer {
    /// For how long it ran, at least: it may have begun before the recording.
    pub runs_for: Nanos,
    /// Whether that is all of the time.
    pub is_whole: bool,
    /// The type of its object, unless it began before the recording.
    pub ty: Option<TypeId>,
    /// Stack of the thread when it was seen last, and what it did.
    pub seen: Option<(StackId, Doing)>,
}

impl Profile {
    /// What is finalized, how long that takes, and what blocks the finalizer thread; `None` where
    /// that was not recorded.
    pub fn finalizer_summary(&self) -> Option<FinalizerSummary> {
        let (queued, finalized) = (self.rows::<Queued>(), self.rows::<Finalized>());
        let seen = self.rows::<Seen>();
        if self.run("finalizers").is_none() && queued.is_empty() && finalized.is_empty() {
            return None;
        }
        let (waiting, most_waiting) = waiting(&queued, &finalized, self.stop);
        let runs = self.rows::<Run>();
        let types = types(&finalized);
        let unfinished = self.rows::<Unfinished>();
        let mut finalizable: Vec<TypeId> = types.iter().map(|of| of.ty).collect();
        finalizable
            .extend(unfinished.last().map(|row| row.ty).filter(|ty| !finalizable.contains(ty)));
        let has_allocations =
            self.run(allocations::SPEC.id).is_some() || !self.allocations.samples.is_empty();
        Some(FinalizerSummary {
            queued: sum(queued.iter().map(|row| row.objects)),
            finalized: sum(finalized.iter().map(|row| row.objects)),
            waiting,
            most_waiting,
            took: sum(finalized.iter().map(|row| row.took)),
            longest: finalized.iter().map(|row| row.longest).max().unwrap_or(0),
            allocated: has_allocations.then(|| self.allocated(&finalizable)),
            types,
            runs: (runs.len() as u64, sum(runs.iter().map(|run| run.duration))),
            thread: self.finalizer_thread(&seen),
            current: current(&unfinished, &finalized, &seen, self.start, self.stop),
        })
    }

    fn finalizer_thread(&self, seen: &[Seen]) -> Option<FinalizerThread> {
        let thread = seen.last()?.thread;
        let of = |wanted: fn(Doing) -> bool| -> Nanos {
            sum(seen.iter().filter(|row| wanted(row.doing)).map(|row| row.elapsed))
        };
        let all = of(|_| true);
        let share = |time: Nanos| time as f64 / all.max(1) as f64;
        let mut stacks: HashMap<(StackId, Doing), Nanos> = HashMap::new();
        for row in seen.iter().filter(|row| row.doing != Doing::Idle) {
            add(stacks.entry((row.stack, row.doing)).or_default(), row.elapsed);
        }
        let mut stacks: Vec<_> = stacks.into_iter().collect();
        order::sort_by_key(&mut stacks, |(key, time)| (Reverse(*time), *key));
        let mut places: Vec<FinalizerPlace> = Vec::new();
        let mut known: HashMap<(FunctionId, CallSite, Doing), usize> = HashMap::new();
        for ((stack, doing), time) in stacks {
            let place = self.tables.place(stack);
            let finalizer = self.outermost(stack).unwrap_or(place.function);
            let at = *known.entry((finalizer, place, doing)).or_insert(places.len());
            match places.get_mut(at) {
                Some(known) => add(&mut known.time, time),
                None => {
                    places.push(FinalizerPlace { finalizer, place, stack, doing, time, share: 0.0 })
                }
            }
        }
        places.iter_mut().for_each(|place| place.share = share(place.time));
        order::sort_by_key(&mut places, |place| (Reverse(place.time), place.stack));
        let busy = share(of(|doing| doing != Doing::Idle));
        let blocked = share(of(Doing::is_blocked));
        Some(FinalizerThread { thread, seen: all, busy, blocked, places })
    }

    /// Where objects of these types are allocated.
    fn allocated(&self, types: &[TypeId]) -> Vec<AllocatedFinalizable> {
        let name = |ty: TypeId| self.tables.ty(ty).name.as_str();
        let finalized = names_in_allocations(types.iter().map(|ty| name(*ty)));
        let mut known: HashMap<TypeId, Option<usize>> = HashMap::new();
        let mut places: HashMap<StackId, CallSite> = HashMap::new();
        let mut groups: HashMap<(usize, CallSite), Vec<&AllocationSample>> = HashMap::new();
        // Of each type the sum of bytes, and of their squares.
        let mut sums = vec![(0.0, 0.0); types.len()];
        for sample in &self.allocations.samples {
            let of_type = known.entry(sample.ty).or_insert_with(|| {
                let name = name(sample.ty);
                let found =
                    finalized.get(name).or_else(|| finalized.get(&*without_arguments(name)));
                found.copied().flatten()
            });
            let Some(index) = *of_type else { continue };
            let place =
                places.entry(sample.stack).or_insert_with(|| self.tables.place(sample.stack));
            groups.entry((index, *place)).or_default().push(sample);
            let bytes = sample.bytes as f64;
            sums[index] = (sums[index].0 + bytes, sums[index].1 + bytes * bytes);
        }
        let mut found: Vec<_> = groups.into_iter().collect();
        let weight = |samples: &[&AllocationSample]| sum(samples.iter().map(|sample| sample.bytes));
        order::sort_by_key(&mut found, |((index, place), samples)| {
            (*index, Reverse(weight(samples)), *place)
        });
        let row = |((index, place), samples): ((usize, CallSite), Vec<&AllocationSample>)| {
            let (all, squares): (f64, f64) = sums[index];
            let share = weight(&samples) as f64 / all.max(1.0);
            AllocatedFinalizable {
                ty: types[index],
                place,
                samples: samples.len() as u64,
                objects: self.allocations.objects_of(samples.iter().copied()),
                share: Estimate::wilson(share, all * all / squares.max(1.0)),
            }
        };
        found.into_iter().map(row).collect()
    }

    /// The finalizer on a stack of the finalizer thread: the outermost method of that name, else
    /// the outermost method.
    fn outermost(&self, stack: StackId) -> Option<FunctionId> {
        let functions = self.tables.walk(stack).map(|frame| self.tables.frame(frame).function);
        let mut methods: Vec<_> = functions.filter(|id| self.tables.is_managed(*id)).collect();
        methods.reverse();
        let is_finalizer = |id: &&FunctionId| self.tables.function(**id).name == "Finalize";
        methods.iter().find(is_finalizer).or(methods.first()).copied()
    }
}

/// The indexes of types by the names that they can have in events of allocations: these name a
/// nested type without the types around it. `None` for a name that several of the types can have.
fn names_in_allocations<'n>(
    types: impl Iterator<Item = &'n str>,
) -> HashMap<&'n str, Option<usize>> {
    let mut names: HashMap<&str, Option<usize>> = HashMap::new();
    for (index, full) in types.enumerate() {
        let inner = full.rsplit('+').next().filter(|inner| *inner != full);
        for name in [full].into_iter().chain(inner) {
            let known = names.entry(name).or_insert(Some(index));
            *known = known.filter(|of| *of == index);
        }
    }
    names
}

/// The name of a type without the arguments of generic types, as finalizers report it.
fn without_arguments(name: &str) -> String {
    let mut depth = 0_usize;
    let outside = |letter: &char| {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    };
    name.chars().filter(outside).collect()
}

fn types(finalized: &[Finalized]) -> Vec<FinalizedType> {
    let mut types: HashMap<TypeId, FinalizedType> = HashMap::new();
    for row in finalized {
        let none = FinalizedType { ty: row.ty, objects: 0, took: 0, longest: 0, share: 0.0 };
        let of = types.entry(row.ty).or_insert(none);
        add(&mut of.objects, row.objects);
        of.took = of.took.saturating_add(row.took);
        of.longest = of.longest.max(row.longest);
    }
    let all: Nanos = sum(types.values().map(|of| of.took));
    let mut types: Vec<_> = types.into_values().collect();
    types.iter_mut().for_each(|of| of.share = of.took as f64 / all.max(1) as f64);
    order::sort_by_key(&mut types, |of| (Reverse((of.took, of.objects)), of.ty));
    types
}

/// How many objects waited at the end for [`LASTING`], and the most that waited at a time.
fn waiting(queued: &[Queued], finalized: &[Finalized], end: Nanos) -> (u64, u64) {
    let came = queued.iter().map(|row| (row.time, row.objects as i64));
    let went = finalized.iter().map(|row| (row.time, (row.objects as i64).saturating_neg()));
    let mut changes: Vec<(Nanos, i64)> = came.chain(went).collect();
    order::sort_by_key(&mut changes, |(time, change)| (*time, Reverse(*change)));
    let mut waits = Vec::with_capacity(changes.len());
    let mut now = 0_i64;
    for (time, change) in changes {
        now = now.saturating_add(change);
        waits.push((time, now));
    }
    // What was finalized before anything joined the queue had waited from before.
    let least = waits.iter().map(|(_, waits)| *waits).min().unwrap_or(0).min(0);
    let from = end.saturating_sub(LASTING);
    let before = waits.iter().rev().find(|(time, _)| *time < from).map_or(0, |(_, waits)| *waits);
    let last = waits.iter().filter(|(time, _)| *time >= from).map(|(_, waits)| *waits);
    let lasting = last.chain([before]).min().unwrap_or(0);
    let most = waits.iter().map(|(_, waits)| *waits).max().unwrap_or(0).max(0);
    let known = |waits: i64| u64::try_from(waits.saturating_sub(least)).unwrap_or(0);
    (known(lasting), known(most))
}

/// The finalizer that ran at the end.
fn current(
    unfinished: &[Unfinished],
    finalized: &[Finalized],
    seen: &[Seen],
    start: Nanos,
    end: Nanos,
) -> Option<CurrentFinalizer> {
    let last = seen.last().filter(|last| last.doing != Doing::Idle);
    let last = last.map(|last| (last.stack, last.doing));
    if let Some(row) = unfinished.last() {
        let runs_for = end.saturating_sub(row.time);
        return Some(CurrentFinalizer { runs_for, is_whole: true, ty: Some(row.ty), seen: last });
    }
    // One that began before the recording is on the stack all the time, and none returns.
    let is_stuck =
        last.is_some() && finalized.is_empty() && seen.iter().all(|row| row.doing != Doing::Idle);
    let from = seen.first().map_or(start, |row| row.time.saturating_sub(row.elapsed));
    let runs_for = end.saturating_sub(from);
    is_stuck.then_some(CurrentFinalizer { runs_for, is_whole: false, ty: None, seen: last })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    fn queued(at: Nanos, objects: u64) -> Queued {
        Queued { time: at * SECOND, objects, promoted: 0 }
    }

    fn finalized(at: Nanos, objects: u64) -> Finalized {
        Finalized { time: at * SECOND, ty: TypeId(0), objects, took: 5, longest: 2 }
    }

    #[test]
    fn what_joins_and_is_not_finalized_waits() {
        let came: Vec<_> = (1..=10).map(|at| queued(at, 100)).collect();
        let went: Vec<_> = (1..=10).map(|at| finalized(at, 40)).collect();
        assert_eq!(waiting(&came, &went, 10 * SECOND), (7 * 60, 9 * 60 + 100));
        let all: Vec<_> = (1..=10).map(|at| finalized(at, 100)).collect();
        assert_eq!(waiting(&came, &all, 10 * SECOND), (0, 100));
    }

    #[test]
    fn nested_types_are_found_by_their_own_names() {
        let names = names_in_allocations(
            ["Shop.Cart", "Shop.Cart+Line", "Bank+Entry", "Log+Entry"].into_iter(),
        );
        assert_eq!(names["Shop.Cart"], Some(0));
        assert_eq!((names["Shop.Cart+Line"], names["Line"]), (Some(1), Some(1)));
        assert_eq!((names["Bank+Entry"], names["Log+Entry"]), (Some(2), Some(3)));
        assert_eq!(names["Entry"], None, "it can be either");
        assert!(!names.contains_key("Cart"));
    }

    #[test]
    fn generic_types_are_compared_without_their_arguments() {
        for (name, expected) in [
            ("Shop.Cart", "Shop.Cart"),
            ("Shop.Cache<int>", "Shop.Cache"),
            ("Shop.Cache<int, List<string>>+Entry", "Shop.Cache+Entry"),
            ("Shop.Cache<int>[]", "Shop.Cache[]"),
        ] {
            assert_eq!(without_arguments(name), expected);
        }
    }

    #[test]
    fn a_burst_at_the_end_does_not_count() {
        assert_eq!(waiting(&[queued(9, 5000)], &[], 10 * SECOND), (0, 5000));
        assert_eq!(waiting(&[queued(5, 5000)], &[], 10 * SECOND), (5000, 5000));
    }

    #[test]
    fn what_is_finalized_before_anything_joins_has_waited_from_before() {
        let went = [finalized(1, 30), finalized(2, 30)];
        assert_eq!(waiting(&[], &went, 10 * SECOND), (0, 60));
        assert_eq!(waiting(&[queued(3, 50)], &went, 10 * SECOND), (50, 60));
        assert_eq!(
            types(&went)[0],
            FinalizedType { ty: TypeId(0), objects: 60, took: 10, longest: 2, share: 1.0 }
        );
    }

    #[test]
    fn a_finalizer_from_before_the_recording_is_on_all_stacks() {
        let seen = |at: Nanos, doing| Seen {
            time: at * SECOND,
            elapsed: SECOND,
            thread: ThreadId(0),
            stack: StackId(4),
            doing,
        };
        let stuck = [seen(1, Doing::Lock), seen(2, Doing::Lock)];
        let of = |unfinished: &[Unfinished], done: &[Finalized], seen: &[Seen]| {
            current(unfinished, done, seen, 0, 3 * SECOND)
        };
        let found = of(&[], &[], &stuck).unwrap();
        assert_eq!((found.runs_for, found.is_whole, found.ty), (3 * SECOND, false, None));
        assert_eq!(found.seen, Some((StackId(4), Doing::Lock)));
        assert_eq!(of(&[], &[finalized(1, 1)], &stuck), None);
        assert_eq!(of(&[], &[], &[seen(1, Doing::Idle), seen(2, Doing::Lock)]), None);
        let began = [Unfinished { time: SECOND, ty: TypeId(7) }];
        let found = of(&began, &[finalized(1, 1)], &stuck).unwrap();
        assert_eq!((found.runs_for, found.is_whole, found.ty), (2 * SECOND, true, Some(TypeId(7))));
    }
}
