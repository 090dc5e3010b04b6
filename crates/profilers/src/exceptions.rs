//! `exceptions`: what is thrown, where, and who catches it.

use crate::{
    CallbackSample, Class, Collector, ExceptionCx, FlushCx, Function, Object, ParamKind, ParamSpec,
    ProfilerSpec, Settings, Tables, ValueSpec,
};
use rows::Row;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use wire::Record;

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "exceptions",
    summary: "Thrown exceptions by type, with message, throw stack and catcher",
    overhead: "At most 1.6 % of the program's speed at 10,000 exceptions per second. Nothing \
        while nothing is thrown.",
    description: "Counts every thrown exception by type, exactly, and keeps some of them as \
        samples with message, stack, and the method that caught them and when. The first ones of \
        each type in each second are always kept. In an exception storm only 1 in N of a type is \
        kept, so that rare types are not lost. Each sample says how many exceptions it stands for.",
    values: &[ValueSpec { kind: "exceptions", unit: "count" }],
    params: &[ParamSpec {
        name: "samples",
        help: "Samples kept per second, at most, over all types",
        default: "200",
        kind: ParamKind::Number(1, 10_000),
    }],
    // EXCEPTIONS, ENABLE_STACK_SNAPSHOT; DYNAMIC_FUNCTION_UNLOADS.
    events: (0x40 | 0x1000_0000, 0x4),
    event_pipe: &[],
    since: 3,
    too_old: "",
    attach: true,
    checkup: Some("exceptions"),
    engine: |facts| {
        let source = if facts.events_inside { "runtime events" } else { "runtime callbacks" };
        format!("{source}, adaptive sampling")
    },
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[ExceptionSample::table, ExceptionCount::table];

/// The collector.
pub(crate) fn create(settings: &Settings) -> Option<Box<dyn Collector>> {
    Some(Box::new(Exceptions::new(settings.number("samples") as u32)))
}

/// Classes that are distinguished. A program with more exception classes has the further ones
/// counted as lost.
const CLASSES: usize = 1024;
/// Samples of a class that are kept in each second whatever the others do.
const FIRST: u32 = 4;
/// Samples of a class per second that are aimed at in a storm, if few classes are in it.
const PER_CLASS: u32 = 20;

/// What is known of a class; one cache line, so that classes thrown on different threads do not
/// disturb each other.
#[derive(Default)]
#[repr(align(64))]
struct Slot {
    /// Number of the class, 0 while the slot is free.
    class: AtomicUsize,
    /// Thrown so far.
    total: AtomicU64,
    /// Of these, reported to the writer.
    reported: AtomicU64,
    /// `total` at the last sample.
    at_sample: AtomicU64,
    /// Second in the high half, thrown in it in the low half.
    window: AtomicU64,
    /// One in `1 << shift` is kept after the first ones, from what the last second was like.
    shift: AtomicU32,
}

struct Exceptions {
    slots: Box<[Slot]>,
    lost_classes: AtomicU64,
    /// Samples per second.
    cap: u32,
    /// Second in the high half, classes thrown in it in the low half; and how many there were in
    /// the last second.
    classes: AtomicU64,
    last_classes: AtomicU32,
    /// Second in the high half, samples in it in the low half.
    budget: AtomicU64,
    sequence: AtomicU64,
    over_cap: AtomicU64,
}

/// A sampled exception on its way to its catcher.
#[derive(Clone, Copy)]
struct InFlight {
    /// 0 for an exception that was not sampled but was thrown while a sampled one was in flight.
    sequence: u64,
    class: usize,
    /// The collector, and its period in which catches are reported: a later one must not take it
    /// for its own.
    session: usize,
}

/// Exceptions that can be in flight on one thread at once and still be distinguished: thrown by
/// filters and finally blocks.
const NESTING: usize = 4;

thread_local! {
    // Without a destructor: one that runs at the end of a thread of the target would keep the
    // library mapped.
    static IN_FLIGHT: (Cell<usize>, [Cell<InFlight>; NESTING]) = const {
        (Cell::new(0), [const { Cell::new(InFlight { sequence: 0, class: 0, session: 0 }) }; NESTING])
    };
}

fn begin(in_flight: InFlight) {
    let _ = IN_FLIGHT.try_with(|(count, slots)| {
        if slots
            .get(count.get().wrapping_sub(1))
            .is_some_and(|newest| newest.get().session != in_flight.session)
        {
            // The end of those will not be reported.
            count.set(0);
        }
        let index = count.get();
        // Over the limit the newest is forgotten: its catch will be taken for nobody's.
        if let Some(slot) = slots.get(index) {
            slot.set(in_flight);
            count.set(index + 1);
        }
    });
}

fn anything_flies() -> bool {
    IN_FLIGHT.try_with(|(count, _)| count.get() != 0).unwrap_or(false)
}

/// The newest exception in flight, of a class where that is known. Those above it will not be
/// caught any more: they were replaced.
fn caught(class: Option<usize>) -> Option<InFlight> {
    IN_FLIGHT
        .try_with(|(count, slots)| {
            let is_it = |slot: &Cell<InFlight>| class.is_none_or(|class| slot.get().class == class);
            let newest = slots.get(..count.get())?.iter().rposition(is_it)?;
            count.set(newest);
            slots.get(newest).map(Cell::get)
        })
        .ok()
        .flatten()
}

impl Exceptions {
    fn new(cap: u32) -> Self {
        Self {
            slots: (0..CLASSES).map(|_| Slot::default()).collect(),
            lost_classes: AtomicU64::new(0),
            cap,
            classes: AtomicU64::new(0),
            last_classes: AtomicU32::new(0),
            budget: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            over_cap: AtomicU64::new(0),
        }
    }

    /// `None` while catches are not reported.
    fn session(&self, cx: &dyn ExceptionCx) -> Option<usize> {
        // An address has no more than 48 bits.
        Some(std::ptr::from_ref(self).addr() ^ (cx.catches()? as usize) << 48)
    }

    /// The slot of a class: open addressing without removal.
    fn slot(&self, class: usize) -> Option<&Slot> {
        // The low bits of numbers are all alike.
        let start = (class >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize) >> 20;
        for step in 0..CLASSES {
            let slot = self.slots.get((start + step) % CLASSES)?;
            let found = slot.class.load(Relaxed);
            if found == class {
                return Some(slot);
            }
            if found == 0 {
                match slot.class.compare_exchange(0, class, Relaxed, Relaxed) {
                    Ok(_) => return Some(slot),
                    Err(now) if now == class => return Some(slot),
                    Err(_) => {}
                }
            }
        }
        None
    }

    /// Counts an exception. `Some(weight)` if it should be a sample.
    fn count(&self, class: usize, second: u32) -> Option<u64> {
        let Some(slot) = self.slot(class) else {
            self.lost_classes.fetch_add(1, Relaxed);
            return None;
        };
        let total = slot.total.fetch_add(1, Relaxed) + 1;
        let nth = match slot.enter(second) {
            Entered::First { before } => {
                slot.shift.store(shift_for(before, self.aim(second)), Relaxed);
                1
            }
            Entered::Nth(nth) => nth,
        };
        let wanted = nth <= FIRST || {
            // Before the first second is over, what it was like so far says how many to keep.
            let shift = slot.shift.load(Relaxed).max(shift_for(nth, PER_CLASS));
            nth & ((1 << shift.min(31)) - 1) == 0
        };
        if !wanted || !self.take_budget(second, total, nth) {
            return None;
        }
        Some(total.saturating_sub(slot.at_sample.swap(total, Relaxed)).max(1))
    }

    /// Number of samples to aim at for a class that was just thrown for the first time in a second.
    /// With this number, all classes together stay within the budget for the whole second, and
    /// later ones are not left out.
    fn aim(&self, second: u32) -> u32 {
        let before = self.classes.fetch_update(Relaxed, Relaxed, |classes| {
            let (at, count) = ((classes >> 32) as u32, classes as u32);
            let count = if at == second { count.saturating_add(1) } else { 1 };
            Some(u64::from(second) << 32 | u64::from(count))
        });
        let before = before.unwrap_or_default();
        let (at, count) = ((before >> 32) as u32, before as u32);
        if at != second {
            self.last_classes.store(if at.wrapping_add(1) == second { count } else { 0 }, Relaxed);
        }
        (self.storm_budget() / self.last_classes.load(Relaxed).max(1)).clamp(1, PER_CLASS)
    }

    /// Samples per second that classes in a storm may use.
    fn storm_budget(&self) -> u32 {
        (self.cap / 4 * 3).max(1)
    }

    /// Whether the second's budget has room. Classes in a storm may use three quarters of it, the
    /// first ones of a class in a second all of it. The very first of a class is beyond any budget:
    /// there are few of them.
    fn take_budget(&self, second: u32, total: u64, nth: u32) -> bool {
        if total == 1 {
            return true;
        }
        let limit = if nth <= FIRST { self.cap } else { self.storm_budget() };
        let taken = self.budget.fetch_update(Relaxed, Relaxed, |budget| {
            let (at, used) = ((budget >> 32) as u32, budget as u32);
            let used = if at == second { used } else { 0 };
            (used < limit).then_some(u64::from(second) << 32 | u64::from(used + 1))
        });
        if taken.is_err() {
            self.over_cap.fetch_add(1, Relaxed);
        }
        taken.is_ok()
    }
}

/// Which exception of its class in a second it is.
enum Entered {
    /// The first, and how many there were in the second before.
    First { before: u32 },
    /// A later one.
    Nth(u32),
}

impl Slot {
    fn enter(&self, second: u32) -> Entered {
        let window = self.window.load(Relaxed);
        let (at, before) = ((window >> 32) as u32, window as u32);
        if at != second {
            let fresh = u64::from(second) << 32 | 1;
            if self.window.compare_exchange(window, fresh, Relaxed, Relaxed).is_ok() {
                return Entered::First {
                    before: if at.wrapping_add(1) == second { before } else { 0 },
                };
            }
        }
        Entered::Nth((self.window.fetch_add(1, Relaxed) as u32).wrapping_add(1))
    }
}

/// The smallest shift by which `count` becomes `aim` or less.
fn shift_for(count: u32, aim: u32) -> u32 {
    count.div_ceil(aim.max(1)).max(1).next_power_of_two().trailing_zeros()
}

impl Collector for Exceptions {
    fn id(&self) -> &'static str {
        SPEC.id
    }

    fn exception_thrown(&self, cx: &dyn ExceptionCx, object: Object) {
        let Some(class) = cx.class_of(object) else {
            self.lost_classes.fetch_add(1, Relaxed);
            return;
        };
        let Some(weight) = self.count(class.0, cx.second()) else {
            if anything_flies()
                && let Some(session) = self.session(cx)
            {
                begin(InFlight { sequence: 0, class: class.0, session });
            }
            return;
        };
        let sequence = self.sequence.fetch_add(1, Relaxed) + 1;
        if let Some(session) = self.session(cx) {
            begin(InFlight { sequence, class: class.0, session });
        }
        let time = cx.now();
        let (ips, truncated) = cx.own_stack();
        let message = cx.message_of(object);
        let os_tid = cx.os_tid();
        cx.send(CallbackSample::Exception {
            sequence,
            time,
            os_tid,
            class,
            message,
            ips,
            truncated,
            weight,
        });
    }

    fn exception_caught(&self, cx: &dyn ExceptionCx, function: Function, object: Object) {
        if !anything_flies() {
            return;
        }
        let Some(in_flight) = caught(cx.class_of(object).map(|class| class.0)) else { return };
        if in_flight.sequence != 0 && self.session(cx) == Some(in_flight.session) {
            cx.send(CallbackSample::ExceptionCaught {
                sequence: in_flight.sequence,
                time: cx.now(),
                function,
            });
        }
    }

    fn flush(&self, cx: &mut dyn FlushCx) {
        let time = cx.now();
        let mut counts = Vec::new();
        for slot in &self.slots {
            let total = slot.total.load(Relaxed);
            let new = total.saturating_sub(slot.reported.swap(total, Relaxed));
            if new > 0 {
                counts.push((cx.class(Class(slot.class.load(Relaxed))), new));
            }
        }
        if !counts.is_empty() {
            cx.write(Record::ExceptionCounts { time, counts });
        }
        cx.dropped("exceptions of too many classes", self.lost_classes.load(Relaxed));
        cx.dropped("exception samples over the limit", self.over_cap.load(Relaxed));
    }
}

rows::rows! {
    /// Thrown exceptions that were kept as samples.
    #[derive(Eq)]
    pub struct ExceptionSample in "exceptions", "samples" {
        /// When it was thrown.
        time: rows::Time,
        /// By whom.
        thread: rows::Thread,
        /// Its type.
        ty: rows::Type,
        /// Its message, where the thrower set one.
        message: Option<rows::Text>,
        /// Where it was thrown.
        stack: rows::Stack,
        /// How many exceptions of this type it stands for.
        weight: rows::Count,
        /// What caught it, where known.
        caught_by: Option<rows::Function>,
        /// From throw to the entry of the catch block, where known.
        time_to_catch: Option<rows::Duration>,
    }

    /// Exact numbers of thrown exceptions of a type since the row before of this type.
    #[derive(Copy, Eq)]
    pub struct ExceptionCount in "exceptions", "counts" {
        /// When they were counted.
        time: rows::Time,
        /// The type.
        ty: rows::Type,
        /// How many.
        count: rows::Count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use wire::Nanos;

    const STORM: usize = 0x7f00_1000;
    const RARE: usize = 0x7f00_2000;

    #[derive(Default)]
    struct Calls {
        second: Cell<u32>,
        /// Number of the period in which catches are reported.
        time: Cell<u32>,
        catches_untold: Cell<bool>,
        sent: RefCell<Vec<CallbackSample>>,
    }

    /// Objects are numbered like their class.
    impl ExceptionCx for Calls {
        fn now(&self) -> Nanos {
            5
        }
        fn second(&self) -> u32 {
            self.second.get()
        }
        fn os_tid(&self) -> u32 {
            9
        }
        fn class_of(&self, object: Object) -> Option<Class> {
            (object.0 != 0).then_some(Class(object.0))
        }
        fn message_of(&self, _: Object) -> Option<String> {
            None
        }
        fn catches(&self) -> Option<u32> {
            (!self.catches_untold.get()).then(|| self.time.get())
        }
        fn own_stack(&self) -> (Vec<u64>, bool) {
            (vec![1, 2], false)
        }
        fn send(&self, sample: CallbackSample) {
            self.sent.borrow_mut().push(sample);
        }
    }

    #[derive(Default)]
    struct Flush {
        written: Vec<Record>,
        dropped: Vec<(&'static str, u64)>,
    }

    impl FlushCx for Flush {
        fn now(&self) -> Nanos {
            5
        }
        fn class(&mut self, class: Class) -> u32 {
            class.0 as u32
        }
        fn write(&mut self, record: Record) {
            self.written.push(record);
        }
        fn dropped(&mut self, reason: &'static str, total: u64) {
            self.dropped.push((reason, total));
        }
    }

    fn samples_of(calls: &Calls, wanted: usize) -> (usize, u64) {
        calls.sent.borrow().iter().fold((0, 0), |(count, sum), sample| match sample {
            CallbackSample::Exception { class, weight, .. } if class.0 == wanted => {
                (count + 1, sum + weight)
            }
            _ => (count, sum),
        })
    }

    #[test]
    fn counts_are_exact_from_many_threads() {
        let exceptions = Exceptions::new(200);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for index in 0..50_000 {
                        exceptions.count(0x1000 + index % 3 * 8, 0);
                    }
                });
            }
        });
        let mut flush = Flush::default();
        exceptions.flush(&mut flush);
        let Some(Record::ExceptionCounts { counts, .. }) = flush.written.first() else { panic!() };
        let mut counts = counts.clone();
        counts.sort_unstable();
        assert_eq!(counts, [(0x1000, 66_668), (0x1008, 66_668), (0x1010, 66_664)]);
        let mut again = Flush::default();
        exceptions.flush(&mut again);
        assert_eq!(again.written, []);
    }

    #[test]
    fn a_rare_class_survives_a_storm() {
        let exceptions = Exceptions::new(200);
        let calls = Calls::default();
        for second in 0..5 {
            calls.second.set(second);
            for index in 0..190_000 {
                exceptions.exception_thrown(&calls, Object(STORM));
                exceptions.exception_caught(&calls, Function(1), Object(STORM));
                if index % 100_000 == 99_999 {
                    exceptions.exception_thrown(&calls, Object(RARE));
                    exceptions.exception_caught(&calls, Function(1), Object(RARE));
                }
            }
        }
        assert_eq!(samples_of(&calls, RARE), (5, 5));
        let (kept, stands_for) = samples_of(&calls, STORM);
        assert!((5 * 10..=5 * 150).contains(&kept), "{kept}");
        // Only what came after the last sample stands for nothing yet.
        assert!((930_000..=950_000).contains(&stands_for), "{stands_for}");
        let caught = calls
            .sent
            .borrow()
            .iter()
            .filter(|s| matches!(s, CallbackSample::ExceptionCaught { .. }))
            .count();
        assert_eq!(caught, kept + 5);
    }

    #[test]
    fn many_classes_in_a_storm_leave_room_for_a_new_one() {
        let exceptions = Exceptions::new(100);
        let calls = Calls::default();
        for round in 0..1000 {
            for class in 1..=200 {
                exceptions.exception_thrown(&calls, Object(class * 64));
            }
            if round == 500 {
                exceptions.exception_thrown(&calls, Object(RARE));
                exceptions.exception_caught(&calls, Function(1), Object(RARE));
            }
        }
        let caught = 1;
        assert!(
            calls.sent.borrow().len() <= 200 + 1 + 100 + caught,
            "{}",
            calls.sent.borrow().len()
        );
        assert_eq!(samples_of(&calls, RARE).0, 1);
    }

    #[test]
    fn many_classes_in_a_storm_share_the_budget_over_the_whole_second() {
        let exceptions = Exceptions::new(200);
        let calls = Calls::default();
        for second in 0..4 {
            calls.second.set(second);
            for _ in 0..500 {
                for class in 1..=10 {
                    exceptions.exception_thrown(&calls, Object(class * 64));
                }
            }
        }
        for class in 1..=10 {
            let (kept, stands_for) = samples_of(&calls, class * 64);
            assert!(kept >= 4 * 8, "{kept}");
            // The first second had to learn; of the others nothing but the end is missing.
            assert!(stands_for >= 1900, "{stands_for}");
        }
        assert!(exceptions.over_cap.load(Relaxed) < 700, "{}", exceptions.over_cap.load(Relaxed));
    }

    #[test]
    fn shifts_reach_the_aim() {
        for (count, aim, shift) in
            [(0, 20, 0), (20, 20, 0), (21, 20, 1), (41, 20, 2), (190_000, 20, 14), (5, 0, 3)]
        {
            assert_eq!(shift_for(count, aim), shift, "{count} {aim}");
        }
        assert_eq!(shift_for(u32::MAX, 20), 28);
    }

    #[test]
    fn too_many_classes_are_counted_as_lost() {
        let exceptions = Exceptions::new(1);
        for class in 1..=CLASSES + 10 {
            exceptions.count(class * 8, 0);
        }
        let mut flush = Flush::default();
        exceptions.flush(&mut flush);
        assert_eq!(flush.dropped.first(), Some(&("exceptions of too many classes", 10)));
    }

    #[test]
    fn nested_exceptions_land_with_their_own_catcher() {
        let exceptions = Exceptions::new(200);
        let calls = Calls::default();
        exceptions.exception_thrown(&calls, Object(STORM));
        exceptions.exception_thrown(&calls, Object(RARE));
        exceptions.exception_caught(&calls, Function(2), Object(RARE));
        exceptions.exception_caught(&calls, Function(1), Object(STORM));
        exceptions.exception_caught(&calls, Function(3), Object(STORM));
        let caught: Vec<_> = calls
            .sent
            .borrow()
            .iter()
            .filter_map(|sample| match sample {
                CallbackSample::ExceptionCaught { sequence, function, .. } => {
                    Some((*sequence, function.0))
                }
                CallbackSample::Exception { .. } => None,
            })
            .collect();
        assert_eq!(caught, [(2, 2), (1, 1)]);
    }

    #[test]
    fn without_a_class_the_newest_lands() {
        let exceptions = Exceptions::new(200);
        let calls = Calls::default();
        exceptions.exception_thrown(&calls, Object(STORM));
        exceptions.exception_thrown(&calls, Object(RARE));
        exceptions.exception_caught(&calls, Function(2), Object(0));
        exceptions.exception_caught(&calls, Function(1), Object(0));
        let caught = calls.sent.borrow();
        let caught = caught.iter().filter_map(|sample| match sample {
            CallbackSample::ExceptionCaught { sequence, function, .. } => {
                Some((*sequence, function.0))
            }
            CallbackSample::Exception { .. } => None,
        });
        assert_eq!(caught.collect::<Vec<_>>(), [(2, 2), (1, 1)]);
        assert!(!anything_flies());
    }

    #[test]
    fn a_catch_belongs_only_to_a_throw_of_the_same_time() {
        let exceptions = Exceptions::new(200);
        let calls = Calls::default();
        // Thrown while catches were reported, and caught when they are reported again: the catches
        // between are not known.
        for time in 0..10 {
            calls.time.set(time);
            exceptions.exception_caught(&calls, Function(1), Object(0));
            exceptions.exception_thrown(&calls, Object(STORM + time as usize * 64));
        }
        calls.catches_untold.set(true);
        exceptions.exception_thrown(&calls, Object(RARE));
        exceptions.exception_caught(&calls, Function(1), Object(0));
        calls.catches_untold.set(false);
        exceptions.exception_caught(&calls, Function(1), Object(0));
        assert!(
            !calls
                .sent
                .borrow()
                .iter()
                .any(|sample| matches!(sample, CallbackSample::ExceptionCaught { .. }))
        );
        calls.time.set(10);
        exceptions.exception_thrown(&calls, Object(RARE));
        exceptions.exception_caught(&calls, Function(7), Object(0));
        let sent = calls.sent.borrow();
        assert!(matches!(
            sent.last(),
            Some(CallbackSample::ExceptionCaught { sequence: 12, function: Function(7), .. })
        ));
        assert_eq!(samples_of(&calls, RARE), (2, 2), "untold catches make no exception less");
    }

    #[test]
    fn a_replaced_exception_is_never_caught() {
        let exceptions = Exceptions::new(200);
        let calls = Calls::default();
        exceptions.exception_thrown(&calls, Object(STORM));
        exceptions.exception_thrown(&calls, Object(RARE));
        exceptions.exception_caught(&calls, Function(1), Object(STORM));
        assert!(!anything_flies());
    }
}
