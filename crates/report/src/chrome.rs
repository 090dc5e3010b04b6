use std::{collections::HashMap, io::Write};

use profile::{
    Profile, ShownArgument, SingleCall,
    session::{FunctionId, Nanos, ThreadId},
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
    profile: &'a Profile,
}

impl Events<'_> {
    fn put(&mut self, event: &impl Serialize) -> Result<(), ReportError> {
        self.out.write_all(if self.any { b",\n" } else { b"\n" })?;
        self.any = true;
        Ok(document::plain::write_json(&mut *self.out, event)?)
    }

    fn pid(&self) -> u32 {
        self.profile.info.pid
    }

    fn at(&self, time: Nanos) -> f64 {
        time.saturating_sub(self.profile.start) as f64 / 1e3
    }

    fn tid(&self, thread: ThreadId) -> u32 {
        self.profile.tables.thread(thread).os_tid
    }

    /// Names of the process and of its threads.
    fn names(&mut self) -> Result<(), ReportError> {
        let (profile, pid) = (self.profile, self.pid());
        let mut name = |kind: &str, tid: u32, name: &str| {
            self.put(
                &json!({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}),
            )
        };
        name("process_name", PROCESS, &format::process(&profile.info))?;
        name("thread_name", PROCESS, "Runtime")?;
        for thread in &profile.tables.threads {
            name("thread_name", thread.os_tid, &profile.tables.thread_name(thread.id))?;
        }
        Ok(())
    }

    /// Calls of traced methods that were recorded individually.
    fn calls(&mut self, options: &Options) -> Result<(), ReportError> {
        let mut names: HashMap<FunctionId, String> = HashMap::new();
        let tables = &self.profile.tables;
        for (index, call) in self.profile.traced.single.iter().enumerate() {
            let name = names
                .entry(call.function)
                .or_insert_with(|| tables.function_name(call.function, options.names));
            self.call(index, call, name)?;
        }
        Ok(())
    }

    fn call(&mut self, index: usize, call: &SingleCall, name: &str) -> Result<(), ReportError> {
        let (pid, tid) = (self.pid(), self.tid(call.thread));
        let event = Event {
            name,
            cat: "call",
            ph: "X",
            ts: self.at(call.begun),
            dur: None,
            pid,
            tid,
            id: None,
            s: None,
            args: arguments(self.profile, call),
        };
        if !call.asynchronous {
            return self.put(&Event { dur: Some(call.taken as f64 / 1e3), ..event });
        }
        // Such calls overlap as they like, so each has a row of its own.
        let id = Some(format!("{index:#x}"));
        self.put(&Event { cat: "async call", ph: "b", id: id.clone(), ..event })?;
        self.put(&Event {
            name,
            cat: "async call",
            ph: "e",
            ts: self.at(call.begun.saturating_add(call.taken)),
            dur: None,
            pid,
            tid,
            id,
            s: None,
            args: Map::new(),
        })
    }

    fn pauses(&mut self) -> Result<(), ReportError> {
        for pause in &self.profile.pauses {
            let to = pause.resume_end.max(pause.suspend_start);
            let mut args = Map::new();
            args.insert("reason".to_owned(), pause.reason.as_str().into());
            args.extend(pause.gc.map(|number| ("collection".to_owned(), number.into())));
            self.put(&Event {
                name: "Pause",
                cat: "gc",
                ph: "X",
                ts: self.at(pause.suspend_start),
                dur: Some((to - pause.suspend_start) as f64 / 1e3),
                pid: self.pid(),
                tid: PROCESS,
                id: None,
                s: None,
                args,
            })?;
        }
        Ok(())
    }

    fn exceptions(&mut self) -> Result<(), ReportError> {
        for sample in &self.profile.exceptions.samples {
            let mut args = Map::new();
            let message = sample.message.as_ref();
            args.extend(message.map(|text| ("message".to_owned(), text.as_str().into())));
            args.insert("stands_for".to_owned(), sample.weight.into());
            self.put(&Event {
                name: &self.profile.tables.ty(sample.ty).name,
                cat: "exception",
                ph: "i",
                ts: self.at(sample.time),
                dur: None,
                pid: self.pid(),
                tid: self.tid(sample.thread),
                id: None,
                s: Some("t"),
                args,
            })?;
        }
        Ok(())
    }
}

/// What is known of a call besides its time: whether it failed, and its arguments.
fn arguments(profile: &Profile, call: &SingleCall) -> Map<String, Value> {
    let mut args = Map::new();
    if call.failed {
        args.insert("error".to_owned(), true.into());
    }
    let method = profile.traced.method(call.function);
    let shown = method.map(|method| ShownArgument::of(&profile.tables, method, call));
    let shown = shown.unwrap_or_default().into_iter();
    let arguments: Map<_, _> =
        shown.map(|shown| (shown.name.clone(), shown.value_text().into())).collect();
    if !arguments.is_empty() {
        args.insert("arguments".to_owned(), arguments.into());
    }
    args
}

fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    let info = &profile.info;
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"otherData\":")?;
    let started = info.start_unix_ms.to_string();
    let version = format!("clrscope {}", info.tool_version);
    document::plain::write_json(
        &mut *out,
        &json!({"version": version, "start_unix_ms": started, "runtime": info.runtime}),
    )?;
    out.write_all(b",\"traceEvents\":[")?;
    let mut events = Events { out, any: false, profile };
    events.names()?;
    events.calls(options)?;
    events.pauses()?;
    events.exceptions()?;
    Ok(out.write_all(b"\n]}\n")?)
}
