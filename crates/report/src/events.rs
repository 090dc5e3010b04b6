//! All that happened, one event a line; docs/formats.md describes every field.

use std::io::Write;

use profile::{NameStyle, Profile, TracedEvent, session};
use serde_json::{Value, json};
use session::{FunctionId, IlBody, InstrumentState, LoadOutcome, Nanos};

use crate::{Exporter, Options, ReportError, views::{jit::tier_id, loads::assembly_name}};

pub const EXPORTER: Exporter = Exporter {
    id: "events",
    extension: "jsonl",
    summary: "event log: loads, compilations, rewritten code, exceptions, one JSON object per line",
    binary: false,
    single_samples: true,
    snapshots: false,
    render,
};

/// Version of the lines as docs/formats.md describes them. It grows when a field changes its
/// meaning or goes away.
const SCHEMA: u32 = 1;

fn render(profile: &Profile, _: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    let info = &profile.info;
    let head = json!({
        "format": "clrscope-events",
        "version": SCHEMA,
        "process": info.process_name,
        "pid": info.pid,
        "runtime": info.runtime,
        "tool_version": info.tool_version,
        "start_unix_ms": info.start_unix_ms,
        "profilers": info.profilers.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(),
    });
    writeln!(out, "{}", crate::plain::json(&head)?)?;
    let mut events = Vec::new();
    traced(profile, &mut events);
    jit(profile, &mut events);
    loads(profile, &mut events);
    exceptions(profile, &mut events);
    events.sort_by_key(|(time, _)| *time);
    for (time, mut event) in events {
        event["time_ns"] = time.saturating_sub(info.start).into();
        writeln!(out, "{}", crate::plain::json(&event)?)?;
    }
    Ok(())
}

type Events = Vec<(Nanos, Value)>;

/// An event of a method.
fn of_method(profile: &Profile, event: &str, function: FunctionId) -> Value {
    let tables = &profile.tables;
    let module = tables.function(function).module.map(|module| tables.module(module).name.as_str());
    json!({
        "event": event, "module": module, "name": tables.function_name(function, NameStyle::FULL), "function": function.0,
    })
}

fn traced(profile: &Profile, events: &mut Events) {
    let all = &profile.traced.events;
    // Where bodies are recorded, they report what was requested as well.
    let has_bodies = all.iter().any(|event| matches!(event, TracedEvent::Rewritten(_)));
    for event in all {
        let (time, event) = match event {
            TracedEvent::State(method) => {
                let kind = match &method.state {
                    InstrumentState::Requested if has_bodies => continue,
                    InstrumentState::Requested => "rewrite",
                    InstrumentState::Possible => "possible",
                    InstrumentState::Original => "revert",
                    InstrumentState::Refused(_) => "refusal",
                };
                let mut event = of_method(profile, kind, method.function);
                event["rule"] = method.rule.as_str().into();
                match &method.state {
                    InstrumentState::Requested => event["left_out"] = "the recording was made \
                        without trace:il=yes".into(),
                    InstrumentState::Refused(reason) => event["reason"] = reason.as_str().into(),
                    InstrumentState::Possible | InstrumentState::Original => {}
                }
                (method.time, event)
            }
            TracedEvent::Rewritten(method) => {
                let mut event = of_method(profile, "rewrite", method.function);
                event["rule"] = method.rule.as_str().into();
                event["slot"] = method.slot.into();
                match &method.bodies {
                    Ok((before, after)) => {
                        event["before"] = il(before);
                        event["after"] = il(after);
                    }
                    Err(reason) => event["left_out"] = reason.as_str().into(),
                }
                (method.time, event)
            }
            TracedEvent::Recompiled(method) => {
                let mut event = of_method(profile, "rejit", method.function);
                event["failed"] = method.failed.as_deref().into();
                (method.time, event)
            }
        };
        events.push((time, event));
    }
}

fn il(body: &IlBody) -> Value {
    let bytes: String = body.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"bytes": bytes, "il": body.text.lines().collect::<Vec<_>>()})
}

fn jit(profile: &Profile, events: &mut Events) {
    for one in &profile.jit.compilations {
        let mut event = of_method(profile, "jit", profile.compiled_function(one));
        event["tier"] = tier_id(one.tier).into();
        event["duration_ns"] = one.duration.into();
        event["il_size"] = one.il_size.into();
        event["native_size"] = one.native_size.into();
        event["background"] = one.background.into();
        event["thread"] = one.thread.0.into();
        events.push((one.time, event));
    }
}

fn loads(profile: &Profile, events: &mut Events) {
    for load in &profile.loads.assemblies {
        let outcome = match load.outcome {
            LoadOutcome::Loaded => "loaded",
            LoadOutcome::Known => "known",
            LoadOutcome::Failed => "failed",
        };
        let (name, version) = assembly_name(&load.name);
        let event = json!({
            "event": "load", "name": name, "version": version, "outcome": outcome, "path": load.path,
            "dynamic": load.dynamic, "collectible": load.collectible, "thread": load.thread.0,
        });
        events.push((load.time, event));
    }
    for unload in &profile.loads.unloads {
        events.push((unload.time, json!({"event": "unload", "name": assembly_name(&unload.name).0})));
    }
    for load in &profile.loads.types {
        let name = &profile.tables.ty(load.ty).name;
        events.push((load.time, json!({"event": "type-load", "name": name, "type": load.ty.0, "thread": load.thread.0})));
    }
}

fn exceptions(profile: &Profile, events: &mut Events) {
    for sample in &profile.exceptions.samples {
        let name = |function| profile.tables.function_name(function, NameStyle::FULL);
        let event = json!({
            "event": "exception",
            "name": profile.tables.ty(sample.ty).name,
            "type": sample.ty.0,
            "message": sample.message,
            "thrown_at": name(profile.tables.stack_function(sample.stack)),
            "caught_by": sample.caught_by.map(name),
            "stands_for": sample.weight,
            "thread": sample.thread.0,
        });
        events.push((sample.time, event));
    }
}
