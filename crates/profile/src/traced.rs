use session::{
    Argument, FunctionId, InstrumentState, InstrumentedMethod, MethodParameters, Nanos, Parameter,
    RecompiledMethod, RewrittenMethod, ThreadId, TracedCalls,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Buckets within each doubling, as [`session::TracedMethod::buckets`] says.
const PARTS: u64 = 16;
/// Slowest calls of each method that are kept where not all are.
const SLOWEST: usize = 16;

/// Bytes of memory of a bucket.
const BUCKET: usize = 24;

/// Methods that match rules, and their calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traced {
    methods: BTreeMap<FunctionId, TracedMethod>,
    slots: BTreeMap<u32, FunctionId>,
    /// When the first method was instrumented, and when calls were read or a method was reverted
    /// for the last time.
    times: Option<(Nanos, Nanos)>,
    /// Calls of methods that nobody has named: none, in a session that is whole.
    pub unnamed: u64,
    /// All that happened to methods, in the order in which it was reported. Only where single
    /// samples are kept.
    pub events: Vec<TracedEvent>,
    /// Single calls, where [`crate::BuildOptions::keep_samples`] asked for them, in the order in
    /// which they were reported. These are all that the session has: the slowest ones, unless it
    /// was asked for each call.
    pub single: Vec<SingleCall>,
    keep_single: bool,
    /// Bytes of memory of methods, and of all that calls have beside themselves.
    pub(crate) inner: usize,
}

/// Something that happened to a method that matches a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracedEvent {
    /// Its new state.
    State(InstrumentedMethod),
    /// It has a new body.
    Rewritten(RewrittenMethod),
    /// The new body was compiled.
    Recompiled(RecompiledMethod),
}

/// One call of a traced method that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct SingleCall {
    /// Of which.
    pub function: FunctionId,
    /// The thread on which it ended.
    pub thread: ThreadId,
    /// When it began.
    pub begun: Nanos,
    /// Nanoseconds that it took.
    pub taken: Nanos,
    /// Whether it ended by an exception.
    pub failed: bool,
    /// Whether it is the call of an asynchronous method, to the end of its task.
    pub asynchronous: bool,
    /// Arguments that were recorded with it, each with the place of its parameter: for
    /// [`ShownArgument`](crate::ShownArgument).
    pub arguments: Option<Arc<[(u16, Argument)]>>,
}

impl SingleCall {
    /// Bytes of memory that it takes, about.
    fn size(&self) -> usize {
        let text = |argument: &Argument| match argument {
            Argument::Text { text, .. } => text.len(),
            _ => 0,
        };
        let arguments = self.arguments.iter().flat_map(|arguments| arguments.iter());
        let arguments = arguments.map(|(_, own)| size_of::<(u16, Argument)>() + text(own));
        size_of::<Self>() + arguments.sum::<usize>()
    }
}

/// A method that matches a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedMethod {
    /// Which.
    pub function: FunctionId,
    /// Name of the rule.
    pub rule: String,
    /// Its state, or its last one.
    pub state: InstrumentState,
    /// Its calls.
    pub calls: CallStats,
    /// Its slowest calls, the slowest first: at most 16.
    pub slowest: Vec<SingleCall>,
    /// Its parameters, if arguments were asked for.
    pub parameters: Vec<Parameter>,
    /// Why no arguments are recorded, though they were asked for.
    pub no_arguments: Option<String>,
}

/// How many calls there were, and how long they took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallStats {
    /// Calls that have begun.
    pub calls: u64,
    /// Those that were timed and have ended.
    pub timed: u64,
    /// Of these, those that ended by an exception.
    pub failed: u64,
    /// Nanoseconds that the timed ones took together.
    pub total: f64,
    /// Nanoseconds that the longest took.
    pub longest: f64,
    /// Timed calls by buckets of ticks.
    buckets: BTreeMap<u16, u64>,
    /// Nanoseconds of a tick.
    tick: f64,
}

impl Traced {
    pub(crate) fn new(keep_single: bool) -> Self {
        Self { keep_single, ..Self::default() }
    }

    /// A call that has ended.
    pub(crate) fn add_single(
        &mut self,
        call: &session::SingleCall,
        arguments: Option<&[(u16, Argument)]>,
    ) {
        let method = self.slots.get(&call.slot).and_then(|function| self.methods.get_mut(function));
        let Some(method) = method else { return };
        let session::SingleCall { thread, begun, taken, failed, asynchronous, .. } = *call;
        let place = method.slowest.partition_point(|slower| slower.taken >= taken);
        if place >= SLOWEST && !self.keep_single {
            return;
        }
        let (function, arguments) = (method.function, arguments.map(Arc::from));
        let call = SingleCall { function, thread, begun, taken, failed, asynchronous, arguments };
        if place < SLOWEST {
            self.inner += call.size();
            method.slowest.insert(place, call.clone());
            let left_out = method.slowest.drain(SLOWEST.min(method.slowest.len())..);
            self.inner -= left_out.map(|call| call.size()).sum::<usize>();
        }
        if self.keep_single {
            self.inner += call.size();
            self.single.push(call);
        }
    }

    /// What has become of a method.
    pub(crate) fn add_method(&mut self, method: &InstrumentedMethod) {
        let InstrumentedMethod { time, of } = method;
        match (&of.state, &mut self.times) {
            (InstrumentState::Requested, None) => self.times = Some((*time, *time)),
            (InstrumentState::Original, Some((_, last))) => *last = (*time).max(*last),
            _ => {}
        }
        if let Some(slot) = of.slot {
            self.slots.insert(slot, of.method);
        }
        let known = self.methods.entry(of.method).or_insert_with(|| TracedMethod {
            function: of.method,
            rule: String::new(),
            state: InstrumentState::Original,
            calls: CallStats::default(),
            slowest: Vec::new(),
            parameters: Vec::new(),
            no_arguments: None,
        });
        known.rule.clone_from(&of.rule);
        known.state.clone_from(&of.state);
    }

    /// Parameters of a method that is known.
    pub(crate) fn add_parameters(&mut self, more: &MethodParameters) {
        if let Some(method) = self.methods.get_mut(&more.method) {
            method.parameters.clone_from(&more.parameters);
            method.no_arguments.clone_from(&more.refused);
        }
    }

    /// A method that matches a rule.
    pub fn method(&self, function: FunctionId) -> Option<&TracedMethod> {
        self.methods.get(&function)
    }

    /// Calls since those before.
    pub(crate) fn add_calls(&mut self, calls: &TracedCalls) {
        if let Some((_, last)) = &mut self.times {
            *last = calls.time.max(*last);
        }
        let tick = 1e9 / calls.ticks_per_second.max(1) as f64;
        for more in &calls.methods {
            let method =
                self.slots.get(&more.slot).and_then(|function| self.methods.get_mut(function));
            let Some(TracedMethod { calls, .. }) = method else {
                self.unnamed = self.unnamed.saturating_add(more.calls);
                continue;
            };
            calls.calls = calls.calls.saturating_add(more.calls);
            calls.timed = calls.timed.saturating_add(more.timed);
            calls.failed = calls.failed.saturating_add(more.failed);
            calls.total += more.ticks as f64 * tick;
            calls.longest = calls.longest.max(more.longest as f64 * tick);
            // The newest is the most exact.
            calls.tick = tick;
            let known_before = calls.buckets.len();
            for (bucket, count) in &more.buckets {
                let known = calls.buckets.entry(*bucket).or_default();
                *known = known.saturating_add(*count);
            }
            self.inner += (calls.buckets.len() - known_before) * BUCKET;
        }
    }

    /// Forgets calls and keeps methods.
    pub(crate) fn forget_calls(&mut self) {
        self.unnamed = 0;
        self.events.clear();
        self.single.clear();
        for method in self.methods.values_mut() {
            method.calls = CallStats::default();
            method.slowest.clear();
        }
    }

    /// From when the first method was instrumented to when the last one was reverted, as far as
    /// that is known.
    pub fn time(&self) -> Duration {
        self.times.map_or(Duration::ZERO, |(first, last)| Duration::from_nanos(last - first))
    }

    /// Whether no method matched a rule.
    pub fn is_empty(&self) -> bool {
        self.methods.is_empty()
    }

    /// The methods, in the order of their ids.
    pub fn methods(&self) -> impl Iterator<Item = &TracedMethod> {
        self.methods.values()
    }

    /// The slowest calls of all methods, the slowest first.
    pub fn slowest(&self) -> Vec<&SingleCall> {
        let mut slowest: Vec<_> = self.methods().flat_map(|method| method.slowest.iter()).collect();
        order::sort_by_key(&mut slowest, |call| std::cmp::Reverse(call.taken));
        slowest
    }

    /// Those that were called: the one with the most time first, and where none was timed, the one
    /// with the most calls.
    pub fn called(&self) -> Vec<&TracedMethod> {
        let mut called: Vec<_> = self.methods().filter(|method| method.calls.calls > 0).collect();
        order::sort_by(&mut called, |a, b| {
            b.calls.total.total_cmp(&a.calls.total).then(b.calls.calls.cmp(&a.calls.calls))
        });
        called
    }
}

impl TracedMethod {
    /// Why it was left alone, if it was.
    pub fn refusal(&self) -> Option<&str> {
        match &self.state {
            InstrumentState::Refused(why) => Some(why),
            _ => None,
        }
    }
}

impl CallStats {
    /// Nanoseconds that a share of the timed calls did not exceed, from 0 to 1; `None` if none was
    /// timed. Exact to 3 %: that is half of a bucket.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = (self.timed_in_buckets() as f64 * share).ceil().max(1.0);
        let mut seen = 0_u64;
        for (bucket, count) in &self.buckets {
            seen = count.saturating_add(seen);
            if seen as f64 >= wanted {
                return Some((middle(*bucket) * self.tick).min(self.longest));
            }
        }
        None
    }

    /// Nanoseconds that a timed call took on average.
    pub fn mean(&self) -> Option<f64> {
        (self.timed > 0).then(|| self.total / self.timed as f64)
    }

    /// Buckets that hold calls: nanoseconds from and to, and how many.
    pub fn histogram(&self) -> impl Iterator<Item = (f64, f64, u64)> + '_ {
        self.buckets.iter().map(|(bucket, count)| {
            let (from, width) = bounds(*bucket);
            (from * self.tick, (from + width) * self.tick, *count)
        })
    }

    fn timed_in_buckets(&self) -> u64 {
        self.buckets.values().fold(0_u64, |sum, count| sum.saturating_add(*count))
    }
}

/// First value and width of a bucket, in ticks.
fn bounds(bucket: u16) -> (f64, f64) {
    let bucket = u64::from(bucket);
    if bucket < PARTS {
        return (bucket as f64, 1.0);
    }
    let (doubling, part) = ((bucket - PARTS) / PARTS, (bucket - PARTS) % PARTS);
    let width = 2_f64.powi(i32::try_from(doubling).unwrap_or(i32::MAX));
    ((PARTS + part) as f64 * width, width)
}

fn middle(bucket: u16) -> f64 {
    let (from, width) = bounds(bucket);
    // A bucket of one value is that value.
    if width > 1.0 { from + width / 2.0 } else { from }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::{Instrumented, ParameterShown, TracedMethod as More};

    fn named(slot: u32, function: u32) -> InstrumentedMethod {
        let (method, state) = (FunctionId(function), InstrumentState::Requested);
        let of = Instrumented { method, rule: "r".into(), slot: Some(slot), state };
        InstrumentedMethod { time: 0, of }
    }

    #[test]
    fn buckets_are_what_they_were_counted_in() {
        assert_eq!(
            [bounds(0), bounds(15), bounds(16), bounds(31)],
            [(0.0, 1.0), (15.0, 1.0), (16.0, 1.0), (31.0, 1.0)]
        );
        assert_eq!([bounds(32), bounds(33), bounds(48)], [(32.0, 2.0), (34.0, 2.0), (64.0, 4.0)]);
    }

    #[test]
    fn quantiles_are_within_half_a_bucket() {
        let mut traced = Traced::default();
        traced.add_method(&named(3, 7));
        // 90 calls of 100 ticks, 10 of 1000, at half a nanosecond each.
        let buckets = vec![(16 + 2 * 16 + 9, 90), (16 + 5 * 16 + 15, 10)];
        let methods = vec![More {
            slot: 3,
            calls: 101,
            timed: 100,
            failed: 4,
            ticks: 19_000,
            longest: 1003,
            buckets,
        }];
        let calls = TracedCalls { time: 1, ticks_per_second: 2_000_000_000, methods };
        traced.add_calls(&calls);
        let found = &traced.called()[0].calls;
        assert_eq!((found.calls, found.timed, found.failed, found.total), (101, 100, 4, 9500.0));
        assert_eq!(found.mean(), Some(95.0));
        let near = |share, right: f64| (found.quantile(share).unwrap() / right - 1.0).abs() < 0.04;
        assert!(near(0.5, 50.0) && near(0.9, 50.0) && near(0.91, 500.0) && near(1.0, 500.0));
        assert_eq!(found.histogram().map(|(.., count)| count).sum::<u64>(), 100);
        assert_eq!(CallStats::default().quantile(0.5), None);
    }

    #[test]
    fn the_slowest_calls_are_kept_and_all_where_they_are_wanted() {
        for keep in [false, true] {
            let mut traced = Traced::new(keep);
            traced.add_method(&named(3, 7));
            let call = |slot, taken| {
                let thread = ThreadId(1);
                session::SingleCall {
                    slot,
                    thread,
                    begun: 5,
                    taken,
                    failed: taken == 30,
                    asynchronous: false,
                }
            };
            (0..31).for_each(|taken| traced.add_single(&call(3, taken), None));
            traced.add_single(&call(4, 1000), None);
            let slowest: Vec<_> = traced.slowest().iter().map(|call| call.taken).collect();
            assert_eq!(slowest, (15..31).rev().collect::<Vec<_>>());
            assert!(traced.slowest()[0].failed && !traced.slowest()[1].failed);
            assert_eq!(traced.single.len(), if keep { 31 } else { 0 });
            traced.forget_calls();
            assert!(traced.slowest().is_empty() && traced.single.is_empty());
        }
    }

    #[test]
    fn parameters_and_arguments_are_kept() {
        let mut traced = Traced::new(true);
        let parameter = Parameter {
            name: "id".into(),
            type_name: "int".into(),
            shown: ParameterShown::ByValue,
        };
        let parameters = |method| MethodParameters {
            method,
            parameters: vec![parameter.clone()],
            refused: Some("why".into()),
        };
        traced.add_parameters(&parameters(FunctionId(7)));
        assert!(traced.method(FunctionId(7)).is_none());
        traced.add_method(&named(3, 7));
        traced.add_parameters(&parameters(FunctionId(7)));
        let thread = ThreadId(1);
        let call = session::SingleCall {
            slot: 3,
            thread,
            begun: 5,
            taken: 6,
            failed: false,
            asynchronous: false,
        };
        traced.add_single(&call, Some(&[(0, Argument::Number(9))]));
        let method = traced.method(FunctionId(7)).unwrap();
        assert_eq!((method.parameters.len(), method.no_arguments.as_deref()), (1, Some("why")));
        let shown = crate::ShownArgument::of(&crate::Tables::default(), method, &method.slowest[0]);
        assert_eq!((shown.len(), shown[0].to_string().as_str()), (1, "id=9"));
        assert_eq!(traced.single[0].arguments, method.slowest[0].arguments);
    }

    #[test]
    fn what_comes_later_counts_and_what_is_unnamed_is_told() {
        let mut traced = Traced::default();
        traced.add_method(&named(0, 1));
        let more = |slot| More {
            slot,
            calls: 2,
            timed: 0,
            failed: 0,
            ticks: 0,
            longest: 0,
            buckets: vec![],
        };
        let calls = TracedCalls { time: 1, ticks_per_second: 1, methods: vec![more(0), more(9)] };
        traced.add_calls(&calls);
        let mut reverted = named(0, 1);
        reverted.of.state = InstrumentState::Original;
        traced.add_method(&reverted);
        assert_eq!((traced.unnamed, traced.methods().count()), (2, 1));
        assert_eq!(traced.methods().next().unwrap().state, InstrumentState::Original);
        assert_eq!(traced.methods().next().unwrap().calls.calls, 2);
        traced.forget_calls();
        assert!(traced.called().is_empty() && !traced.is_empty());
    }
}
