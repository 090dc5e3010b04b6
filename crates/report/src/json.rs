//! The complete profile as JSON; docs/formats.md describes every field.

use std::{collections::BTreeMap, io::Write};

use profile::{
    CallSite, Distribution, FunctionTotals, NameStyle, Profile, SampleTable, SeriesKind, Timeline,
    kind_id, session, state_id, state_machine_id,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{Exporter, Options, ReportError, format, kinds, views};

pub const EXPORTER: Exporter = Exporter {
    id: "json",
    extension: "json",
    summary: "everything, for programs",
    binary: false,
    single_samples: false,
    snapshots: true,
    render,
};

/// Version of the schema in docs/formats.md. It grows when a field changes its meaning or goes
/// away, not when one is added.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct File<'a> {
    format: &'static str,
    version: u32,
    recording: Value,
    threads: Vec<Value>,
    modules: &'a [session::ModuleDef],
    functions: Vec<Value>,
    files: &'a [String],
    frames: Vec<Value>,
    stacks: Stacks,
    types: Vec<&'a str>,
    series: Vec<Series>,
    /// What the views say, by their keys.
    #[serde(flatten)]
    views: BTreeMap<&'static str, Value>,
    observer: &'a [session::ObserverStatus],
    #[serde(skip_serializing_if = "Option::is_none")]
    processor_use: Option<Value>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    resources: &'a [session::ResourceUse],
    notes: Vec<Value>,
    /// `heap` and `async`, in recordings of these profilers.
    #[serde(flatten)]
    snapshots: BTreeMap<&'static str, &'a Value>,
}

#[derive(Serialize)]
struct Stacks {
    parent: Vec<Option<u32>>,
    frame: Vec<u32>,
}

#[derive(Serialize)]
struct Series {
    profiler: &'static str,
    unit: &'static str,
    samples: u64,
    weight: u64,
    truncated: u64,
    effective_samples: f64,
    states: Value,
    functions: Vec<Value>,
    sums: Sums,
    timeline: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    single: Option<Value>,
}

#[derive(Default, Serialize)]
struct Sums {
    stack: Vec<u32>,
    thread: Vec<u32>,
    state: Vec<&'static str>,
    truncated: Vec<bool>,
    samples: Vec<u32>,
    weight: Vec<u64>,
}

fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    let tables = &profile.tables;
    let stacks = (0..tables.stack_count()).map(|id| session::StackId(id as u32));
    let file = File {
        format: "clrscope-profile",
        version: SCHEMA,
        recording: recording(profile),
        threads: tables.threads.iter().map(|thread| json!({
            "id": thread.id.0, "os_tid": thread.os_tid, "name": thread.name, "managed": thread.managed,
            "started_ns": thread.started.map(|time| since(profile, time)),
            "ended_ns": thread.ended.map(|time| since(profile, time)),
        })).collect(),
        modules: &tables.modules,
        functions: tables.functions.iter().map(|function| json!({
            "id": function.id.0,
            "name": tables.function_name(function.id, NameStyle::FULL),
            "kind": kind_id(function.kind),
            "module": function.module,
            "type_name": function.type_name,
            "method": function.name,
            "parameters": function.parameters,
            "state_machine": function.state_machine.map(state_machine_id),
        })).collect(),
        files: &tables.files,
        frames: tables.frames.iter().map(|frame| match frame.line {
            Some(line) => json!({"function": frame.function.0, "file": line.file.0, "line": line.line, "trust": trust(frame.trust)}),
            None => json!({"function": frame.function.0, "trust": trust(frame.trust)}),
        }).collect(),
        stacks: Stacks {
            parent: stacks.clone().map(|id| tables.parent(id).map(|parent| parent.0)).collect(),
            frame: stacks.map(|id| tables.stack_frame(id).0).collect(),
        },
        types: tables.types.iter().map(|ty| ty.name.as_str()).collect(),
        series: kinds(profile, options).into_iter().map(|kind| series(profile, kind)).collect(),
        views: views::json(profile),
        observer: &profile.observer,
        processor_use: profile.processor_summary().map(|of| json!({
            "elapsed_ns": of.elapsed,
            "processors": of.processors,
            "ran_ns": of.ran,
            "waited_ns": of.waited,
            "busy_ns": of.busy,
            "quota": of.quota.map(|(time, period)| json!({"time_ns": time, "period_ns": period})),
            "periods": of.periods,
            "throttled_periods": of.throttled_periods,
            "throttled_ns": of.throttled,
        })),
        resources: &profile.resources,
        notes: profile.notes.iter().map(|(time, message)| json!({"time_ns": since(profile, *time), "message": message})).collect(),
        snapshots: options.snapshots.iter().map(|section| (section.id, &section.json)).collect(),
    };
    crate::plain::write_json(&mut *out, &file)?;
    writeln!(out)?;
    Ok(())
}

/// Nanoseconds since the start of the recording.
pub(crate) fn since(profile: &Profile, time: session::Nanos) -> u64 {
    time.saturating_sub(profile.info.start)
}

fn trust(trust: session::FrameTrust) -> &'static str {
    match trust {
        session::FrameTrust::Context => "context",
        session::FrameTrust::Runtime => "runtime",
        session::FrameTrust::Tables => "tables",
        session::FrameTrust::Learned => "learned",
        session::FrameTrust::Scan => "scan",
    }
}

fn recording(profile: &Profile) -> Value {
    let info = &profile.info;
    json!({
        "tool_version": info.tool_version,
        "process": {"pid": info.pid, "name": info.process_name, "command_line": info.command_line},
        "runtime": info.runtime,
        "platform": info.platform,
        "processors": info.cpus,
        "entry": match info.entry {
            session::Entry::Attached => "attached",
            session::Entry::AttachedBeside => "attached-beside",
            session::Entry::Launched => "launched",
            session::Entry::LaunchedBeside => "launched-beside",
        },
        "start_unix_ms": info.start_unix_ms,
        "clock_start_ns": info.start,
        "from_ns": since(profile, profile.start),
        "duration_ns": profile.duration(),
        "profilers": info.profilers.iter().map(|run| json!({
            "id": run.id, "engine": run.engine, "rate_hz": run.rate_hz,
            "sampling": profile.sampling_rate(&run.id).map(|rate| json!({
                "achieved_hz": rate.achieved_hz(),
                "differs": rate.differs(),
                "limit": rate.limit.as_ref().filter(|_| rate.differs()),
                "kernel_tick_hz": rate.tick_hz,
                "samples": rate.samples,
                "cpu_ns": rate.cpu,
                "threads_without_timer": rate.threads_without_timer,
            })),
            "parameters": run.params.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<serde_json::Map<_, _>>(),
        })).collect::<Vec<_>>(),
        "end": profile.end.as_ref().map(|end| json!({
            "time_ns": since(profile, end.time),
            "reason": match end.reason {
                session::EndReason::Stopped => "stopped",
                session::EndReason::ProcessExited => "process-exited",
                session::EndReason::AgentLost => "agent-lost",
            },
            "exit_code": end.exit_code,
        })),
        "cut_short": profile.cut_short,
        "damage": profile.damage,
        "filtered": profile.filtered,
        "dropped": profile.dropped(),
        "summary": format::ending(profile),
    })
}

fn function(row: &FunctionTotals) -> Value {
    let share = |share: &profile::Estimate| json!({"share": share.share, "low": share.low, "high": share.high});
    json!({
        "function": row.function.0,
        "self_samples": row.own.samples, "self_weight": row.own.weight, "self": share(&row.own_share),
        "total_samples": row.total.samples, "total_weight": row.total.weight, "total": share(&row.total_share),
    })
}

fn series(profile: &Profile, kind: SeriesKind) -> Series {
    let series = profile.series(kind);
    let mut sums = Sums::default();
    for cell in &series.cells {
        sums.stack.push(cell.stack.0);
        sums.thread.push(cell.thread.0);
        sums.state.push(state_id(cell.state));
        sums.truncated.push(cell.truncated);
        sums.samples.push(cell.samples);
        sums.weight.push(cell.weight);
    }
    let states = profile::STATES.iter().zip(series.by_state());
    let states = states.filter(|(_, totals)| totals.samples > 0).map(|(state, totals)| {
        (state_id(*state).to_owned(), json!({"samples": totals.samples, "weight": totals.weight}))
    });
    Series {
        profiler: kind.id(),
        unit: kind.value_type().unit.id(),
        samples: series.totals.samples,
        weight: series.totals.weight,
        truncated: series.truncated,
        effective_samples: series.effective_samples(),
        states: Value::Object(states.collect()),
        functions: profile.top_functions(kind).iter().map(function).collect(),
        sums,
        timeline: timeline(profile, &series.timeline),
        single: series.samples.as_ref().map(|table| single(profile, table)),
    }
}

fn timeline(profile: &Profile, timeline: &Timeline) -> Value {
    let states: serde_json::Map<String, Value> = profile::STATES
        .iter()
        .map(|state| {
            let weights =
                timeline.buckets().iter().map(|bucket| bucket[profile::state_index(*state)]);
            (*state, weights.collect::<Vec<_>>())
        })
        .filter(|(_, weights)| weights.iter().any(|weight| *weight > 0))
        .map(|(state, weights)| (state_id(state).to_owned(), json!(weights)))
        .collect();
    json!({"from_ns": since(profile, timeline.start()), "width_ns": timeline.width(), "weight": states})
}

fn single(profile: &Profile, table: &SampleTable) -> Value {
    json!({
        "time_ns": table.time.iter().map(|time| since(profile, *time)).collect::<Vec<_>>(),
        "thread": table.thread,
        "stack": table.stack,
        "weight": table.weight,
        "state": table.state.iter().map(|state| state_id(*state)).collect::<Vec<_>>(),
        "truncated": table.truncated,
    })
}

pub(crate) fn distribution(distribution: &Distribution) -> Value {
    let Distribution { count, total, p50, p95, p99, max } = distribution;
    json!({"count": count, "total": total, "p50": p50, "p95": p95, "p99": p99, "max": max})
}

pub(crate) fn place(place: &CallSite) -> Value {
    json!({
        "function": place.function.0,
        "file": place.line.map(|line| line.file.0),
        "line": place.line.map(|line| line.line),
    })
}
