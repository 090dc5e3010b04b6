//! `trace`: calls of traced methods.

use profile::{NameStyle, Profile, ShownArgument, SingleCall, TracedMethod};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Cell, Section, Table, View, cells::name, json_part, left, right};
use crate::{Options, format, json::values::since};

pub const VIEW: View = View {
    section,
    json: Some(json_part!("traced", Json<'_>, json)),
    tab: ("trace", "Traced methods"),
    tile: None,
    rows_of: None,
};

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown =
        options.series.is_none() && (!profile.traced.is_empty() || profile.run("trace").is_some());
    is_shown.then(|| traced(profile, options))
}

fn traced(profile: &Profile, options: &Options) -> Section {
    let mut section = Section::new("Traced methods");
    let called = profile.traced.called();
    let refused: Vec<_> = profile
        .traced
        .methods()
        .filter_map(|method| method.refusal().map(|why| (method, why)))
        .collect();
    let instrumented = profile.traced.methods().count() - refused.len();
    section.say(format!(
        "{} instrumented, {} called in {}. Times are from the call to its end, also of \
            asynchronous methods; a percentile is exact to 3 %.",
        format::counted(instrumented as u64, "method"),
        format::count(called.len() as u64),
        format::duration(profile.traced.time().as_nanos() as u64),
    ));
    if !called.is_empty() {
        let time = |nanos: Option<f64>| {
            nanos.map_or(Cell::Nothing, |nanos| Cell::nanoseconds(nanos.round() as u64))
        };
        let rows = called.iter().take(options.rows).map(|method| {
            let calls = &method.calls;
            let timed = calls.timed > 0;
            vec![
                Cell::count(calls.calls),
                if timed { Cell::count(calls.failed) } else { Cell::Nothing },
                time(timed.then_some(calls.total)),
                time(calls.quantile(0.5)),
                time(calls.quantile(0.9)),
                time(calls.quantile(0.99)),
                time(timed.then_some(calls.longest)),
                name(profile, options, method.function),
            ]
        });
        let columns =
            ["calls", "errors", "total", "p50", "p90", "p99", "max"].map(right).into_iter();
        section.add(Table::new(columns.chain([left("method")]).collect(), rows));
    }
    let slowest = profile.traced.slowest();
    if !slowest.is_empty() {
        let rows = slowest.iter().take(options.rows).map(|call| {
            let from = since(profile, call.begun) as f64 / 1e9;
            vec![
                Cell::nanoseconds(call.taken),
                Cell::text(format!("{from:.3} s")),
                Cell::text(if call.failed { "error" } else { "" }),
                Cell::text(profile.tables.thread_name(call.thread)),
                name(profile, options, call.function),
            ]
        });
        let columns =
            vec![right("slowest"), right("from"), left(""), left("thread"), left("method")];
        section.add(Table::new(columns, rows));
        section.extend(arguments(profile, &slowest, options));
    }
    if !refused.is_empty() {
        let rows = refused.iter().take(options.rows);
        let rows = rows
            .map(|(method, why)| vec![Cell::text(*why), name(profile, options, method.function)]);
        section.add(Table::new(vec![left("not instrumented, because"), left("method")], rows));
    }
    section
}

/// The slowest calls with their arguments, if those were asked for.
fn arguments(profile: &Profile, slowest: &[&SingleCall], options: &Options) -> Option<Table> {
    let rows = slowest.iter().take(options.rows).filter_map(|call| {
        let method =
            profile.traced.method(call.function).filter(|method| !method.parameters.is_empty())?;
        let arguments = ShownArgument::of(&profile.tables, method, call);
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let name = profile.tables.function_name(call.function, NameStyle::SHORT);
        let text = format!("{name}({})", arguments.join(", "));
        Some(vec![Cell::nanoseconds(call.taken), Cell::text(text)])
    });
    Table::of(vec![right("slowest"), left("with its arguments")], rows)
}

/// Calls of instrumented methods.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Traced")]
struct Json<'a> {
    /// Time since the first method was instrumented, seconds.
    seconds: f64,
    /// Methods that match a rule.
    methods: Vec<MethodJson<'a>>,
}

/// A method that matches a rule. Times of calls are from the call to its end, also of asynchronous
/// methods.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TracedMethod")]
struct MethodJson<'a> {
    /// Index in `functions`.
    function: u32,
    /// Name of the rule.
    rule: &'a str,
    /// Why the method was not instrumented, or null.
    refused: Option<&'a str>,
    /// Number of calls.
    calls: u64,
    /// Calls that were timed and have ended.
    timed: u64,
    /// Those of them that ended with an exception.
    errors: u64,
    /// Time of the timed calls, nanoseconds.
    total_ns: u64,
    /// The median, nanoseconds, exact to 3 %; null without timed calls.
    p50_ns: Option<u64>,
    /// 90 % of the timed calls took at most this, nanoseconds, exact to 3 %.
    p90_ns: Option<u64>,
    /// 99 % of the timed calls took at most this, nanoseconds, exact to 3 %.
    p99_ns: Option<u64>,
    /// The longest call, nanoseconds; null without timed calls.
    max_ns: Option<u64>,
    /// Rows of from, to (nanoseconds) and the number of timed calls.
    histogram: Vec<(u64, u64, u64)>,
    /// The slowest calls, slowest first.
    slowest: Vec<CallJson>,
}

/// A call that has ended.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TracedCall")]
struct CallJson {
    /// How long it took, nanoseconds.
    ns: u64,
    /// When it began, nanoseconds since the start of the recording.
    time_ns: u64,
    /// The thread on which it ended: index in `threads`.
    thread: u32,
    /// Whether it ended with an exception.
    error: bool,
    /// In the order of the parameters; empty unless arguments were requested.
    arguments: Vec<ShownArgument>,
}

fn json(profile: &Profile) -> Json<'_> {
    Json {
        seconds: profile.traced.time().as_secs_f64(),
        methods: profile.traced.methods().map(|method| method_json(profile, method)).collect(),
    }
}

fn method_json<'a>(profile: &Profile, method: &'a TracedMethod) -> MethodJson<'a> {
    let calls = &method.calls;
    let nanos = |time: Option<f64>| time.map(|time| time.round() as u64);
    let histogram = calls.histogram();
    let slowest = method.slowest.iter().map(|call| CallJson {
        ns: call.taken,
        time_ns: since(profile, call.begun),
        thread: call.thread.0,
        error: call.failed,
        arguments: ShownArgument::of(&profile.tables, method, call),
    });
    MethodJson {
        function: method.function.0,
        rule: &method.rule,
        refused: method.refusal(),
        calls: calls.calls,
        timed: calls.timed,
        errors: calls.failed,
        total_ns: calls.total.round() as u64,
        p50_ns: nanos(calls.quantile(0.5)),
        p90_ns: nanos(calls.quantile(0.9)),
        p99_ns: nanos(calls.quantile(0.99)),
        max_ns: nanos((calls.timed > 0).then_some(calls.longest)),
        histogram: histogram
            .map(|(from, to, count)| (from.round() as u64, to.round() as u64, count))
            .collect(),
        slowest: slowest.collect(),
    }
}
