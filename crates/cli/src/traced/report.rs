//! Calls of instrumented methods, for programs; the text is made of the same.

use profile::session::InstrumentState;
use profile::{CallTree, NameStyle, Profile, ShownArgument, SingleCall, TracedMethod, TreeOptions};
use recorder::Summary;
use schemars::JsonSchema;
use serde::Serialize;

/// What instrumented methods did: calls, errors and times.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report {
    pub pid: u32,
    pub process: String,
    /// From when the first method was instrumented to the end, in seconds.
    pub seconds: f64,
    /// How long the runtime was suspended for it, nanoseconds.
    pub stopped_ns: u64,
    pub dry_run: bool,
    /// Methods that were called, the one with the most time first.
    pub methods: Vec<Method>,
    /// Methods that were instrumented, and not called; in a dry run all that would be.
    pub not_called: Vec<Named>,
    /// Methods that match a pattern and are not instrumented.
    pub refused: Vec<Refused>,
    /// Who called whom, of what was timed.
    pub tree: Vec<Node>,
    /// Whether every method has its original code again.
    pub reverted: bool,
    /// What was dropped, by reason; nothing is missing where this is empty.
    pub dropped: std::collections::BTreeMap<String, u64>,
    pub notes: Vec<String>,
}

/// A method that was called.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Method {
    pub method: String,
    pub rule: String,
    pub calls: u64,
    /// Calls that were timed and have ended.
    pub timed: u64,
    /// Of these, those that ended by an exception.
    pub errors: u64,
    pub total_ns: u64,
    pub mean_ns: Option<u64>,
    pub p50_ns: Option<u64>,
    pub p90_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub max_ns: Option<u64>,
    /// Buckets that hold calls, from and to in nanoseconds, and how many.
    pub histogram: Vec<(u64, u64, u64)>,
    /// The slowest calls, the slowest first: at most 16.
    pub slowest: Vec<Slow>,
    /// Why arguments are not shown, although they were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_arguments: Option<String>,
}

/// One of the slowest calls.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Slow {
    pub ns: u64,
    /// When it began, from the start of the recording.
    pub time_ns: u64,
    pub thread: String,
    pub error: bool,
    /// Its arguments, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<ShownArgument>,
}

/// A method by its name.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Named {
    pub method: String,
    pub rule: String,
}

/// A method that is left alone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Refused {
    pub method: String,
    pub rule: String,
    pub reason: String,
}

/// A method as it was called by the one above.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Node {
    pub method: String,
    pub depth: u32,
    pub calls: u64,
    /// In it and in what it called, nanoseconds.
    pub total_ns: u64,
    /// In it alone.
    pub own_ns: u64,
}

impl Report {
    /// Of a recording that is over.
    pub fn of(profile: &Profile, dry_run: bool, summary: &Summary) -> Self {
        let name =
            |method: &TracedMethod| profile.tables.function_name(method.function, NameStyle::FULL);
        let session = summary.sessions.first();
        let traced = &profile.traced;
        let named =
            |method: &TracedMethod| Named { method: name(method), rule: method.rule.clone() };
        let mut not_called: Vec<Named> = traced
            .methods()
            .filter(|method| {
                method.calls.calls == 0 && !matches!(method.state, InstrumentState::Refused(_))
            })
            .map(named)
            .collect();
        order::sort_by(&mut not_called, |a, b| a.method.cmp(&b.method));
        let refused = traced.methods().filter_map(|method| match &method.state {
            InstrumentState::Refused(reason) => Some(Refused {
                method: name(method),
                rule: method.rule.clone(),
                reason: reason.clone(),
            }),
            _ => None,
        });
        let mut refused: Vec<Refused> = refused.collect();
        order::sort_by(&mut refused, |a, b| a.method.cmp(&b.method));
        let is_back = |method: &TracedMethod| method.state != InstrumentState::Requested;
        Self {
            pid: profile.info.pid,
            process: profile.info.process_name.clone(),
            seconds: traced.time().as_secs_f64(),
            stopped_ns: session.map(|session| session.observer.target_stopped).unwrap_or_default(),
            dry_run,
            methods: traced
                .called()
                .into_iter()
                .map(|method| Method::of(profile, method))
                .collect(),
            not_called,
            refused,
            tree: tree(profile),
            reverted: traced.methods().all(is_back),
            dropped: session
                .map(|session| session.observer.dropped.iter().cloned().collect())
                .unwrap_or_default(),
            notes: session.map(|session| session.notes.clone()).unwrap_or_default(),
        }
    }
}

impl Method {
    fn of(profile: &Profile, method: &TracedMethod) -> Self {
        let calls = &method.calls;
        let nanos = |time: Option<f64>| time.map(|time| time.round() as u64);
        Self {
            method: profile.tables.function_name(method.function, NameStyle::FULL),
            rule: method.rule.clone(),
            calls: calls.calls,
            timed: calls.timed,
            errors: calls.failed,
            total_ns: calls.total.round() as u64,
            mean_ns: nanos(calls.mean()),
            p50_ns: nanos(calls.quantile(0.5)),
            p90_ns: nanos(calls.quantile(0.9)),
            p99_ns: nanos(calls.quantile(0.99)),
            max_ns: nanos((calls.timed > 0).then_some(calls.longest)),
            histogram: calls
                .histogram()
                .map(|(from, to, count)| (from.round() as u64, to.round() as u64, count))
                .collect(),
            slowest: method.slowest.iter().map(|call| Slow::of(profile, method, call)).collect(),
            no_arguments: method.no_arguments.clone(),
        }
    }
}

impl Slow {
    fn of(profile: &Profile, method: &TracedMethod, call: &SingleCall) -> Self {
        Self {
            ns: call.taken,
            time_ns: call.begun.saturating_sub(profile.start),
            thread: profile.tables.thread_name(call.thread),
            error: call.failed,
            arguments: ShownArgument::of(&profile.tables, method, call),
        }
    }
}

/// Most nodes of a tree that are shown.
const MOST_NODES: usize = 10_000;

/// The tree of calls, depth first, the child with the most time first.
fn tree(profile: &Profile) -> Vec<Node> {
    let mut nodes = Vec::new();
    let tree = CallTree::new(
        &profile.tables,
        &profile.calls,
        TreeOptions { merge_recursion: true, ..TreeOptions::default() },
    );
    tree.visit(|node, enters| {
        if enters && nodes.len() < MOST_NODES {
            nodes.push(Node {
                method: profile.tables.function_name(node.function, NameStyle::FULL),
                depth: node.depth,
                calls: node.own.samples,
                total_ns: node.total.weight,
                own_ns: node.own.weight,
            });
        }
    });
    nodes
}
