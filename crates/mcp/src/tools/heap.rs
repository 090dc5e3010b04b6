//! `heap`: what is on the heap, and what retains it.

use super::{
    Ask,
    checkup::{heap_fits, name},
    next,
};
use crate::{
    answer::Answer,
    call::{Call, Failure, Target, session},
    foreign::{NAME, SENTENCE, clean},
    observe::observe,
};
use ::heap::{PathRow, Report, ReportOptions, TypeRow};
use document::format::{bytes, count, duration};
use profilers::Selection;
use recorder::{EngineChoice, RecordOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use server::{Plan, Work};
use std::sync::Arc;

/// One snapshot, with the contents of strings.
const SNAPSHOT: &str = "heap:snapshots=1:every=10:strings=on";

/// CPU samples per second meanwhile, as of `clrscope heap`.
const RATE: u32 = 100;

/// Rows of each list.
const ROWS: usize = 10;

/// Retention paths of a type.
const PATHS: usize = 4;

/// Steps at each end of a path.
const STEPS: usize = 5;

/// Letters of the contents of a string.
const TEXT: usize = 40;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Heap {
    /// Process id: takes a snapshot. Give this, `process` or `session`.
    pid: Option<u32>,
    /// Process name.
    process: Option<String>,
    /// Session of an earlier call: reads it again and costs the process nothing.
    session: Option<String>,
    /// Also what retains objects of this type.
    #[serde(rename = "type")]
    type_name: Option<String>,
}

impl Ask for Heap {
    const NAME: &'static str = "heap";
    const ABOUT: &'static str = "What is on the managed heap: types by size, what retains most, \
        duplicate strings; with type: its retention paths. Costs a full collection and a pause of \
        about 0.2 s per million objects. Use it for leaks and memory, then again with the session.";

    async fn answer(self, call: Call) -> Result<Answer, Failure> {
        let (name, fresh) = match (&self.session, self.pid.is_some() || self.process.is_some()) {
            (Some(name), false) => (session(name)?, false),
            (None, true) => (self.take(&call).await?, true),
            _ => {
                let cause = "give one of `pid`, `process` and `session`";
                return Err(Failure::Arguments(cause.to_owned()));
            }
        };
        let options = ReportOptions { top: ROWS, type_name: self.type_name.clone(), paths: PATHS };
        let program = Arc::clone(&call.shared.program);
        let named = name.clone();
        let report = call.reading(move |work| {
            // That there is none of this name is said as of any other session.
            drop(work.read(&named)?);
            program.heap(&work.path(&named), &options).map_err(Failure::Failed)
        });
        let report = report.await?;
        if self.type_name.is_some() && report.asked.is_empty() {
            return Err(Failure::Failed("there is no such type in the snapshot".to_owned()));
        }
        Ok(answer(&report, &name.to_string(), fresh))
    }
}

impl Heap {
    /// Takes a snapshot; the session that has it.
    async fn take(&self, call: &Call) -> Result<server::SessionId, Failure> {
        let target = Target { pid: self.pid, process: self.process.clone() };
        let process = call.process(&target).await?;
        let pid = process.pid;
        if !heap_fits(call, pid).await {
            return Err(Failure::Refused(
                "heap snapshots of a process of this size are not allowed here (--max-heap)".into(),
            ));
        }
        let profilers = Selection::parse_list(SNAPSHOT);
        let profilers = profilers.map_err(|error| Failure::Failed(error.to_string()))?;
        let options = RecordOptions {
            profilers,
            rate_hz: RATE,
            engine: EngineChoice::Auto,
            // It ends with the snapshot.
            duration: None,
            output: None,
            instrument: None,
            live: false,
            sdk_tools: false,
            agent: call.work().agent(),
        };
        let name = name("heap", pid)?;
        let work = Work::Record(options);
        let plan = Plan { process, name: Some(name), work, warnings: Vec::new() };
        let observed = observe(call, plan).await?;
        observed.end()?;
        Ok(observed.entry.id.clone())
    }
}

fn answer(report: &Report, session: &str, fresh: bool) -> Answer {
    let totals = &report.totals;
    let mut answer = Answer::new(format!(
        "Heap of process {}: {} objects of {} types, {}; {} reachable.",
        report.pid,
        count(totals.objects),
        count(totals.types),
        bytes(totals.bytes),
        bytes(totals.reached_bytes),
    ));
    if let Some(pause) = report.pause_seconds.filter(|_| fresh) {
        answer.say(format!("The process was paused for {}.", duration((pause * 1e9) as u64)));
    }
    if !report.complete {
        let note = report.note.as_deref().unwrap_or("objects are missing");
        answer.add(format!("note: the snapshot is not complete: {}", clean(note, NAME)));
    }
    for asked in &report.asked {
        answer.add(format!("{}:", row(&asked.row)));
        for holding in &asked.holders {
            answer.add(format!("  {} retained by {}", count(holding.objects), path(&holding.path)));
        }
    }
    if report.asked.is_empty() {
        answer.add("types by own bytes:");
        report.types.iter().for_each(|of| answer.add(format!("  {}", row(of))));
        answer.add("types by what they retain:");
        report
            .retaining_types
            .iter()
            .take(ROWS / 2)
            .for_each(|of| answer.add(format!("  {}", row(of))));
        answer.add("objects that retain most:");
        for retainer in report.retainers.iter().take(ROWS / 2) {
            let name = clean(&retainer.name, NAME);
            let retained = bytes(retainer.retained_bytes);
            let held = retainer.path.as_ref().map_or_else(String::new, path);
            answer.add(format!("  {name} retains {retained}: {held}"));
        }
        strings(&mut answer, report);
        let queue = report.finalizer_queue.iter().take(ROWS / 2);
        queue.for_each(|of| answer.add(format!("waits for its finalizer: {}", row(of))));
    }
    answer.fact("session", session);
    answer.fact("bytes", totals.bytes);
    let named = next::named(session);
    answer.next(format!("heap {{\"session\":{named},\"type\":…}} for what retains a type"));
    answer
}

/// Contents that are on the heap many times.
fn strings(answer: &mut Answer, report: &Report) {
    let Some(strings) = &report.strings else { return };
    for same in strings.duplicates.iter().take(ROWS / 2) {
        let text = clean(same.text.as_deref().unwrap_or("?"), TEXT);
        let (times, wasted) = (count(same.objects), bytes(same.wasted_bytes));
        answer.add(format!("string {times} times, {wasted} wasted: \"{text}\""));
    }
}

fn row(of: &TypeRow) -> String {
    let name = clean(&of.name, NAME);
    let (own, retained) = (bytes(of.bytes), bytes(of.retained_bytes));
    format!("{name}: {} objects, {own}, retain {retained}", count(of.objects))
}

/// A retention path from the root on.
fn path(path: &PathRow) -> String {
    let step = |step: &::heap::Step| match &step.field {
        Some(field) if field != "[]" => format!("{}.{field}", step.name),
        _ => step.name.clone(),
    };
    let mut steps = vec![path.root_text()];
    let all: Vec<String> = path.steps.iter().map(step).collect();
    if all.len() > 2 * STEPS {
        steps.extend_from_slice(all.get(..STEPS).unwrap_or_default());
        steps.push("…".to_owned());
        steps.extend_from_slice(all.get(all.len() - STEPS..).unwrap_or_default());
    } else {
        steps.extend(all);
    }
    clean(&steps.join(" → "), SENTENCE)
}
