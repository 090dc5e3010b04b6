//! `record`: a recording with profilers that the assistant chooses.

use super::{
    Ask, Need,
    checkup::{duration, heap_fits, name},
    next,
};
use crate::{
    answer::Answer,
    call::{Call, Failure, Target},
    foreign::{NAME, clean},
    observe::{Observed, observe},
};
use document::format::{bytes, count, duration as shown};
use profilers::Selection;
use recorder::{EngineChoice, RecordOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use server::{Plan, Work};

/// Seconds if none are named.
const SECONDS: f64 = 10.0;

/// CPU samples per second and running thread, if nothing is said.
const RATE: u32 = 100;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Process id. Give this or `process`.
    pid: Option<u32>,
    /// Process name.
    process: Option<String>,
    /// Profilers with parameters, such as cpu,wall:rate=50,allocations. cpu,wall,exceptions,gc if
    /// left out; also locks, threads, threadpool, counters, jit, loads, finalizers, survivors.
    profilers: Option<String>,
    /// How long; 10 if left out.
    seconds: Option<f64>,
    /// CPU samples per second of a running thread, 1 to 1000; 100 if left out.
    rate: Option<u32>,
}

impl Ask for Record {
    const NAME: &'static str = "record";
    const ABOUT: &'static str = "Records a process with profilers that you choose, and answers with \
        what it cost and a session for explore. Costs the process a few percent of a processor, more \
        at high rates. Use it if a checkup is not precise enough. Needs --allow-record.";
    const NEEDS: Need = Need::Record;

    async fn answer(self, call: Call) -> Result<Answer, Failure> {
        let options = self.options(&call)?;
        let target = Target { pid: self.pid, process: self.process.clone() };
        let process = call.process(&target).await?;
        let pid = process.pid;
        // These pause the process.
        let mut specs = options.profilers.iter().map(|selection| selection.spec);
        let takes_heap = specs.any(|spec| spec.heap_snapshots.is_some());
        if takes_heap && !heap_fits(&call, pid).await {
            return Err(Failure::Refused(
                "heap snapshots of a process of this size are not allowed here (--max-heap)".into(),
            ));
        }
        let plan = Plan {
            name: Some(name("record", pid)?),
            process,
            work: Work::Record(options),
            warnings: Vec::new(),
        };
        let observed = observe(&call, plan).await?;
        answer(&observed)
    }
}

impl Record {
    fn options(&self, call: &Call) -> Result<RecordOptions, Failure> {
        let rate_hz = self.rate.unwrap_or(RATE);
        if !(1..=1000).contains(&rate_hz) {
            return Err(Failure::Arguments("`rate` is from 1 to 1000".to_owned()));
        }
        let list = self.profilers.as_deref().unwrap_or(profilers::DEFAULT);
        let profilers = Selection::parse_list(list)
            .map_err(|error| Failure::Arguments(format!("`profilers`: {error}")))?;
        if profilers.is_empty() {
            return Err(Failure::Arguments("`profilers` names none".to_owned()));
        }
        if profilers.iter().any(|selection| selection.spec.needs_rules) {
            return Err(Failure::Arguments("use the tool `trace` for this profiler".to_owned()));
        }
        let duration = duration(self.seconds.unwrap_or(SECONDS))?;
        Ok(RecordOptions {
            profilers,
            rate_hz,
            engine: EngineChoice::Auto,
            duration: Some(duration),
            output: None,
            instrument: None,
            live: false,
            sdk_tools: false,
            agent: call.work().agent(),
        })
    }
}

fn answer(observed: &Observed) -> Result<Answer, Failure> {
    let session = observed.session();
    let mut answer = Answer::default();
    cost(&mut answer, observed)?;
    answer.next(format!("explore {{\"session\":{}}}", next::named(&session)));
    answer.fact("session", session);
    answer.fact("pid", observed.entry.pid);
    Ok(answer)
}

/// Says how a recording went and what it cost.
pub fn cost(answer: &mut Answer, observed: &Observed) -> Result<(), Failure> {
    let summary = &observed.end()?.summary["sessions"][0];
    let nanos = |name: &str| (summary[name].as_f64().unwrap_or_default() * 1e9) as u64;
    let end = match summary["end"].as_str() {
        Some("stopped") => "",
        Some("process-exited") => ", until the process ended",
        _ => ", until the connection to the process was lost",
    };
    let pid = observed.entry.pid;
    answer.say(format!("Recorded process {pid} for {}{end}.", shown(nanos("duration_seconds"))));
    answer.say(format!(
        "Cost in the process: {} of CPU time, {} suspended, {} of memory.",
        shown(nanos("target_cpu_seconds")),
        shown(nanos("target_stopped_seconds")),
        bytes(summary["target_memory_bytes"].as_u64().unwrap_or_default()),
    ));
    if let Some(why) = observed.ended_early {
        answer.say(format!("It was ended early: {why}."));
    }
    let samples = summary["samples"].as_object().into_iter().flatten();
    let samples: Vec<String> = samples
        .map(|(id, number)| format!("{id} {}", count(number.as_u64().unwrap_or_default())))
        .collect();
    answer.say(format!("Samples and events: {}.", samples.join(", ")));
    let dropped: u64 = summary["dropped"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(_, number)| number.as_u64())
        .sum();
    if dropped > 0 {
        answer.say(format!("{} were dropped.", count(dropped)));
    }
    for note in summary["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        answer.add(format!("note: {}", clean(note, NAME)));
    }
    Ok(())
}
