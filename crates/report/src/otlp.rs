use std::io::Write;

use profile::{
    Profile, ShownArgument, SingleCall,
    session::{Nanos, ThreadId},
};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

use crate::{Exporter, Options, ReportError};

pub const EXPORTER: Exporter = Exporter {
    id: "otlp",
    extension: "otlp.json",
    summary: "OpenTelemetry spans, as a collector accepts them at /v1/traces: individual calls of \
        traced methods",
    binary: false,
    single_samples: true,
    snapshots: false,
    render,
};

/// A span of OTLP as JSON: ids in hex, 64-bit numbers as text. Source:
/// opentelemetry/proto/trace/v1/trace.proto, and "JSON Protobuf Encoding" of the OTLP
/// specification.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Span {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    parent_span_id: String,
    name: String,
    /// 1 is `SPAN_KIND_INTERNAL`.
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Value>,
    status: Value,
}

/// A call that has not ended yet at the time that is looked at.
struct Open {
    end: Nanos,
    trace: [u8; 16],
    span: [u8; 8],
}

fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    let info = &profile.info;
    let started = u128::from(info.start_unix_ms) * 1_000_000;
    let unix = |time: Nanos| (started + u128::from(time.saturating_sub(profile.start))).to_string();
    let mut threads: BTreeMap<(ThreadId, bool), Vec<(usize, &SingleCall)>> = BTreeMap::new();
    for (index, call) in profile.traced.single.iter().enumerate() {
        threads.entry((call.thread, call.asynchronous)).or_default().push((index, call));
    }
    let resource = json!({"attributes": [
        text("service.name", &info.process_name),
        number("process.pid", u64::from(info.pid)),
        text("process.command_line", &info.command_line),
        text("process.runtime.name", ".NET"),
        text("process.runtime.version", &info.runtime),
    ]});
    let scope = json!({"name": "clrscope", "version": info.tool_version});
    let (resource, scope) = (document::plain::json(&resource)?, document::plain::json(&scope)?);
    write!(
        out,
        "{{\"resourceSpans\":[{{\"resource\":{resource},\"scopeSpans\":[{{\"scope\":{scope},\"spans\":["
    )?;
    let mut any = false;
    for ((thread, asynchronous), mut calls) in threads {
        // Who began first, or lasts longer, has called the other.
        calls.sort_by_key(|(index, call)| (call.begun, std::cmp::Reverse(call.taken), *index));
        let thread_attributes = [
            number("thread.id", u64::from(profile.tables.thread(thread).os_tid)),
            text("thread.name", &profile.tables.thread_name(thread)),
        ];
        let mut open: Vec<Open> = Vec::new();
        for (index, call) in calls {
            let end = call.begun.saturating_add(call.taken);
            // An asynchronous call leaves its thread, so it does not stand within another.
            while open.last().is_some_and(|caller| asynchronous || caller.end <= call.begun) {
                open.pop();
            }
            let (trace, span) = ids(info.pid, started, index);
            let caller = open.last();
            let trace = caller.map_or(trace, |caller| caller.trace);
            let mut attributes = vec![text(
                "code.function.name",
                &profile.tables.function_name(call.function, options.names),
            )];
            attributes.extend(thread_attributes.iter().cloned());
            if let Some(method) = profile.traced.method(call.function) {
                let arguments = ShownArgument::of(&profile.tables, method, call);
                attributes.extend(arguments.iter().map(|shown| {
                    text(&format!("code.argument.{}", shown.name), &shown.value_text())
                }));
            }
            let line = Span {
                trace_id: hex(&trace),
                span_id: hex(&span),
                parent_span_id: caller.map_or_else(String::new, |caller| hex(&caller.span)),
                name: profile.tables.function_name(call.function, profile::NameStyle::SHORT),
                kind: 1,
                start_time_unix_nano: unix(call.begun),
                end_time_unix_nano: unix(end),
                attributes,
                // 2 is `STATUS_CODE_ERROR`.
                status: if call.failed { json!({"code": 2}) } else { json!({}) },
            };
            out.write_all(if any { b",\n" } else { b"\n" })?;
            any = true;
            document::plain::write_json(&mut *out, &line)?;
            open.push(Open { end, trace, span });
        }
    }
    Ok(out.write_all(b"\n]}]}]}\n")?)
}

/// Ids of a call as the root of a trace, and as a span: the same again for the same session.
fn ids(pid: u32, started: u128, index: usize) -> ([u8; 16], [u8; 8]) {
    let digest: [u8; 32] = Sha256::digest(format!("{pid} {started} {index}")).into();
    let (mut trace, mut span) = ([0; 16], [0; 8]);
    trace.copy_from_slice(&digest[..16]);
    span.copy_from_slice(&digest[16..24]);
    (trace, span)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}
