use std::{collections::HashMap, io::Write};

use profile::{
    Profile, ShownArgument,
    session::{FunctionId, Nanos},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{Exporter, Options, ReportError, format};

pub const EXPORTER: Exporter = Exporter {
    id: "chrome",
    // Not `chrome.json`: speedscope takes that for another format of Chrome.
    extension: "trace.json",
    summary: "for ui.perfetto.dev and chrome://tracing: individual calls of traced methods, GC \
        pauses, exceptions",
    binary: false,
    single_samples: true,
    snapshots: false,
    render,
};

/// The row of what belongs to no thread; no thread of the system has this id.
const PROCESS: u32 = 0;

/// An event of the Trace Event Format. Times are microseconds. Source: "Trace Event Format",
/// docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
#[derive(Serialize)]
struct Event<'a> {
    name: &'a str,
    cat: &'static str,
    ph: &'static str,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    args: Map<String, Value>,
}

/// Writes events as they come: a session may have millions.
struct Events<'a> {
    out: &'a mut dyn Write,
    any: bool,
}

impl Events<'_> {
    fn put(&mut self, event: &impl Serialize) -> Result<(), ReportError> {
        self.out.write_all(if self.any { b",\n" } else { b"\n" })?;
        self.any = true;
        Ok(document::plain::write_json(&mut *self.out, event)?)
    }
}

fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    let info = &profile.info;
    let pid = info.pid;
    let at = |time: Nanos| time.saturating_sub(profile.start) as f64 / 1e3;
    let tid = |thread| profile.tables.thread(thread).os_tid;
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"otherData\":")?;
    let started = info.start_unix_ms.to_string();
    let version = format!("clrscope {}", info.tool_version);
    document::plain::write_json(
        &mut *out,
        &json!({"version": version, "start_unix_ms": started, "runtime": info.runtime}),
    )?;
    out.write_all(b",\"traceEvents\":[")?;
    let mut events = Events { out, any: false };
    let mut name = |kind: &str, tid: u32, name: &str| {
        events
            .put(&json!({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}))
    };
    name("process_name", PROCESS, &format::process(info))?;
    name("thread_name", PROCESS, "Runtime")?;
    for thread in &profile.tables.threads {
        name("thread_name", thread.os_tid, &profile.tables.thread_name(thread.id))?;
    }
    let mut names: HashMap<FunctionId, String> = HashMap::new();
    for (index, call) in profile.traced.single.iter().enumerate() {
        let name = names
            .entry(call.function)
            .or_insert_with(|| profile.tables.function_name(call.function, options.names));
        let mut args = Map::new();
        if call.failed {
            args.insert("error".to_owned(), true.into());
        }
        let arguments = profile
            .traced
            .method(call.function)
            .map(|method| ShownArgument::of(&profile.tables, method, call));
        let arguments = arguments.unwrap_or_default().into_iter();
        let arguments: Map<_, _> =
            arguments.map(|shown| (shown.name.clone(), shown.value_text().into())).collect();
        if !arguments.is_empty() {
            args.insert("arguments".to_owned(), arguments.into());
        }
        let tid = tid(call.thread);
        let event = Event {
            name,
            cat: "call",
            ph: "X",
            ts: at(call.begun),
            dur: None,
            pid,
            tid,
            id: None,
            s: None,
            args,
        };
        if call.asynchronous {
            // Such calls overlap as they like, so each has a row of its own.
            let id = Some(format!("{index:#x}"));
            events.put(&Event { cat: "async call", ph: "b", id: id.clone(), ..event })?;
            let (ts, args) = (at(call.begun.saturating_add(call.taken)), Map::new());
            events.put(&Event {
                name,
                cat: "async call",
                ph: "e",
                ts,
                dur: None,
                pid,
                tid,
                id,
                s: None,
                args,
            })?;
        } else {
            events.put(&Event { dur: Some(call.taken as f64 / 1e3), ..event })?;
        }
    }
    for pause in &profile.pauses {
        let to = pause.resume_end.max(pause.suspend_start);
        let mut args = Map::new();
        args.insert("reason".to_owned(), pause.reason.as_str().into());
        args.extend(pause.gc.map(|number| ("collection".to_owned(), number.into())));
        let (ts, dur) = (at(pause.suspend_start), Some((to - pause.suspend_start) as f64 / 1e3));
        events.put(&Event {
            name: "Pause",
            cat: "gc",
            ph: "X",
            ts,
            dur,
            pid,
            tid: PROCESS,
            id: None,
            s: None,
            args,
        })?;
    }
    for sample in &profile.exceptions.samples {
        let mut args = Map::new();
        args.extend(
            sample.message.as_ref().map(|message| ("message".to_owned(), message.as_str().into())),
        );
        args.insert("stands_for".to_owned(), sample.weight.into());
        let name = &profile.tables.ty(sample.ty).name;
        let (ts, tid) = (at(sample.time), tid(sample.thread));
        events.put(&Event {
            name,
            cat: "exception",
            ph: "i",
            ts,
            dur: None,
            pid,
            tid,
            id: None,
            s: Some("t"),
            args,
        })?;
    }
    Ok(out.write_all(b"\n]}\n")?)
}
