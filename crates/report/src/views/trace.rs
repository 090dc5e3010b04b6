//! `trace`: calls of traced methods.

use profile::{NameStyle, Profile, ShownArgument, SingleCall};
use serde_json::{Value, json};

use super::{Cell, Section, Table, View, cells::name, left, right};
use crate::{Options, format};

pub const VIEW: View = View { section, json: Some(("traced", json)), page: None };

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown =
        options.series.is_none() && (!profile.traced.is_empty() || profile.run("trace").is_some());
    is_shown.then(|| traced(profile, options))
}

fn traced(profile: &Profile, options: &Options) -> Section {
    let mut section =
        Section { title: "Traced methods".to_owned(), lead: Vec::new(), tables: Vec::new() };
    let called = profile.traced.called();
    let refused: Vec<_> = profile
        .traced
        .methods()
        .filter_map(|method| method.refusal().map(|why| (method, why)))
        .collect();
    let instrumented = profile.traced.methods().count() - refused.len();
    section.lead.push(format!(
        "{} instrumented, {} called in {}. Times are from the call to its end, also of \
            asynchronous methods; a percentile is exact to 3 %.",
        format::counted(instrumented as u64, "method"),
        format::count(called.len() as u64),
        format::duration(profile.traced.time().as_nanos() as u64),
    ));
    if !called.is_empty() {
        let time = |nanos: Option<f64>| {
            Cell::text(
                nanos
                    .map_or_else(|| "-".to_owned(), |nanos| format::duration(nanos.round() as u64)),
            )
        };
        let rows = called.iter().take(options.rows).map(|method| {
            let calls = &method.calls;
            let timed = calls.timed > 0;
            vec![
                Cell::text(format::count(calls.calls)),
                Cell::text(if timed { format::count(calls.failed) } else { "-".to_owned() }),
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
        section.tables.push(Table {
            rows: rows.collect(),
            columns: columns.chain([left("method")]).collect(),
        });
    }
    let slowest = profile.traced.slowest();
    if !slowest.is_empty() {
        let rows = slowest.iter().take(options.rows).map(|call| {
            let from = call.begun.saturating_sub(profile.start) as f64 / 1e9;
            vec![
                Cell::text(format::duration(call.taken)),
                Cell::text(format!("{from:.3} s")),
                Cell::text(if call.failed { "error" } else { "" }),
                Cell::text(profile.tables.thread_name(call.thread)),
                name(profile, options, call.function),
            ]
        });
        let columns =
            vec![right("slowest"), right("from"), left(""), left("thread"), left("method")];
        section.tables.push(Table { rows: rows.collect(), columns });
        section.tables.extend(arguments(profile, &slowest, options));
    }
    if !refused.is_empty() {
        let rows = refused.iter().take(options.rows);
        let rows = rows
            .map(|(method, why)| vec![Cell::text(*why), name(profile, options, method.function)])
            .collect();
        section
            .tables
            .push(Table { rows, columns: vec![left("not instrumented, because"), left("method")] });
    }
    section
}

/// The slowest calls with their arguments, if those were asked for.
fn arguments(profile: &Profile, slowest: &[SingleCall], options: &Options) -> Option<Table> {
    let rows = slowest.iter().take(options.rows).filter_map(|call| {
        let method =
            profile.traced.method(call.function).filter(|method| !method.parameters.is_empty())?;
        let arguments = ShownArgument::of(&profile.tables, method, call);
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let name = profile.tables.function_name(call.function, NameStyle::SHORT);
        let text = format!("{name}({})", arguments.join(", "));
        Some(vec![Cell::text(format::duration(call.taken)), Cell::text(text)])
    });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty())
        .then(|| Table { rows, columns: vec![right("slowest"), left("with its arguments")] })
}

fn json(profile: &Profile) -> Value {
    let methods = profile.traced.methods().map(|method| {
        let calls = &method.calls;
        let nanos = |time: Option<f64>| time.map(|time| time.round() as u64);
        json!({
            "function": method.function.0,
            "rule": method.rule,
            "refused": method.refusal(),
            "calls": calls.calls,
            "timed": calls.timed,
            "errors": calls.failed,
            "total_ns": calls.total.round() as u64,
            "p50_ns": nanos(calls.quantile(0.5)),
            "p90_ns": nanos(calls.quantile(0.9)),
            "p99_ns": nanos(calls.quantile(0.99)),
            "max_ns": nanos((calls.timed > 0).then_some(calls.longest)),
            "histogram": calls.histogram().map(|(from, to, count)| json!([from.round() as u64, to.round() as u64, count])).collect::<Vec<_>>(),
            "slowest": method.slowest.iter().map(|call| json!({
                "ns": call.taken,
                "time_ns": call.begun.saturating_sub(profile.start),
                "thread": call.thread.0,
                "error": call.failed,
                "arguments": ShownArgument::of(&profile.tables, method, call),
            })).collect::<Vec<_>>(),
        })
    });
    json!({"seconds": profile.traced.time().as_secs_f64(), "methods": methods.collect::<Vec<_>>()})
}
