//! Speedscope (`https://www.speedscope.app/file-format-schema.json`), sampled and evented.

use super::{collapsed::named, list::List};
use crate::{ImportError, limits, out::Out, samples::Sample};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use session::{FrameId, ImportedUnit, StackId, ThreadId, ThreadState};

#[derive(Deserialize)]
pub struct Frame {
    #[serde(default)]
    name: String,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    line: Option<u32>,
}

/// A profile of either kind: fields of the other are empty.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    #[serde(rename = "type")]
    ty: Kind,
    #[serde(default)]
    name: String,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    start_value: f64,
    #[serde(default)]
    samples: List<List<u32>>,
    #[serde(default)]
    weights: List<f64>,
    #[serde(default)]
    events: List<Event>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Sampled,
    Evented,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    ty: EventKind,
    frame: u32,
    at: f64,
}

#[derive(Deserialize)]
enum EventKind {
    #[serde(rename = "O")]
    Open,
    #[serde(rename = "C")]
    Close,
}

/// Kinds of samples that are named where they are left out.
const MOST_NAMED: usize = 20;

/// What is not in a profile.
pub struct Head {
    pub name: String,
    pub exporter: String,
    pub frames: List<Frame>,
}

/// What values become.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Cpu,
    Wall,
    Imported(ImportedUnit),
}

/// A profile with what its values mean.
struct Reading<'a> {
    profile: &'a Profile,
    thread: ThreadId,
    target: Target,
    /// By what values are multiplied.
    scale: f64,
    frames: &'a [FrameId],
}

pub fn read(head: Head, profiles: &[Profile], out: &mut Out<'_>) -> Result<(), ImportError> {
    let is_own = head.exporter.starts_with("clrscope ");
    let mut targets = Vec::new();
    let mut left_out = Vec::new();
    let mut taken: Vec<(ImportedUnit, &str)> = Vec::new();
    for profile in profiles {
        let (kind, thread) = match profile.name.split_once(" · ").filter(|_| is_own) {
            Some((kind, thread)) => (kind, thread),
            None => ("", profile.name.as_str()),
        };
        let (unit, scale) = unit_of(&profile.unit, out)?;
        let target = match (kind, unit) {
            ("cpu", ImportedUnit::Nanoseconds) => Target::Cpu,
            ("wall", ImportedUnit::Nanoseconds) => Target::Wall,
            _ => Target::Imported(unit),
        };
        if let Target::Imported(unit) = target {
            // Sums of several kinds have no meaning.
            match taken.iter().find(|(other, _)| *other == unit) {
                Some((_, other)) if *other != kind => {
                    if left_out.len() < MOST_NAMED && !left_out.contains(&kind) {
                        left_out.push(kind);
                    }
                    continue;
                }
                Some(_) => {}
                None => taken.push((unit, kind)),
            }
        }
        targets.push((profile, thread, target, scale));
    }
    let ids = [("cpu", Target::Cpu), ("wall", Target::Wall)].into_iter();
    let ids = ids.filter(|(_, wanted)| targets.iter().any(|(_, _, target, _)| target == wanted));
    let mut ids: Vec<&str> = ids.map(|(id, _)| id).collect();
    if !taken.is_empty() {
        ids.push("imported");
    }
    let from = match head.exporter.as_str() {
        "" => "speedscope".to_owned(),
        exporter => format!("speedscope, exported by {exporter}"),
    };
    let from: String = from.chars().take(200).collect();
    let profilers = ids.into_iter().map(|id| (id, from.clone())).collect();
    out.begin(profilers, |info| super::named_process(&head.name, info))?;
    notes(&left_out, profiles, out);
    let frames = frames(&head.frames, out)?;
    let mut threads: FxHashMap<&str, ThreadId> = FxHashMap::default();
    for (profile, name, target, scale) in targets {
        // A thread of several kinds of samples is one.
        let thread = match threads.get(name).filter(|_| is_own) {
            Some(thread) => *thread,
            None => out.thread(None, name)?,
        };
        threads.insert(name, thread);
        let reading = Reading { profile, thread, target, scale, frames: &frames };
        match profile.ty {
            Kind::Sampled => reading.sampled(out)?,
            Kind::Evented => reading.evented(out)?,
        }
    }
    Ok(())
}

fn notes(left_out: &[&str], profiles: &[Profile], out: &mut Out<'_>) {
    if profiles.iter().any(|profile| profile.ty == Kind::Sampled && is_time(&profile.unit)) {
        out.note(
            "The file is of speedscope. Its samples follow each other without times: a sample \
             begins where the one before it ends.",
        );
    }
    if !left_out.is_empty() {
        out.note(format!(
            "Of each unit one kind of samples is imported. Left out: {}. Export these alone to see \
             them.",
            left_out.join(", ")
        ));
    }
}

fn is_time(unit: &str) -> bool {
    !matches!(unit, "none" | "bytes" | "")
}

fn unit_of(unit: &str, out: &Out<'_>) -> Result<(ImportedUnit, f64), ImportError> {
    Ok(match unit {
        "nanoseconds" => (ImportedUnit::Nanoseconds, 1.0),
        "microseconds" => (ImportedUnit::Nanoseconds, 1e3),
        "milliseconds" => (ImportedUnit::Nanoseconds, 1e6),
        "seconds" => (ImportedUnit::Nanoseconds, 1e9),
        "bytes" => (ImportedUnit::Bytes, 1.0),
        "none" | "" => (ImportedUnit::Samples, 1.0),
        other => {
            let other: String = other.chars().take(40).collect();
            return Err(out.damaged(format!("there is no unit `{}`", other.escape_default())));
        }
    })
}

fn frames(frames: &[Frame], out: &mut Out<'_>) -> Result<Vec<FrameId>, ImportError> {
    let mut ids = Vec::with_capacity(frames.len());
    for frame in frames {
        let function = out.function(&named(&frame.name))?;
        let file = frame.file.as_deref().unwrap_or_default();
        ids.push(out.frame(function, frame.line.map(|line| (file, line)))?);
    }
    Ok(ids)
}

impl Reading<'_> {
    /// A value as a whole number; what is no number or negative is none.
    fn whole(&self, value: f64) -> u64 {
        // Saturates, and 0 for what is no number.
        (value * self.scale).round() as u64
    }

    /// When, on a clock that begins with the profile; 0 where values are no times.
    fn time(&self, value: f64) -> u64 {
        match self.target {
            Target::Imported(ImportedUnit::Samples | ImportedUnit::Bytes) => 0,
            _ => self.whole(value - self.profile.start_value),
        }
    }

    fn frame(&self, index: u32, out: &Out<'_>) -> Result<FrameId, ImportError> {
        let frame = self.frames.get(index as usize).copied();
        frame.ok_or_else(|| out.damaged(format!("frame {index} is used and not there")))
    }

    fn add(
        &self,
        out: &mut Out<'_>,
        time: u64,
        (stack, truncated): (StackId, bool),
        weight: u64,
    ) -> Result<(), ImportError> {
        if weight == 0 {
            return Ok(());
        }
        let (thread, state) = (self.thread, ThreadState::Running);
        let sample = Sample { time, thread, stack, weight, state, truncated };
        match self.target {
            Target::Cpu => out.cpu(sample),
            Target::Wall => out.wall(sample),
            Target::Imported(unit) => {
                let count = if unit == ImportedUnit::Samples { weight } else { 1 };
                out.value(unit, time, thread, (stack, truncated), [count, weight])
            }
        }
    }

    fn sampled(&self, out: &mut Out<'_>) -> Result<(), ImportError> {
        let Profile { samples, weights, .. } = self.profile;
        if !weights.is_empty() && weights.len() != samples.len() {
            return Err(out.damaged(format!(
                "a profile has {} samples and {} weights",
                samples.len(),
                weights.len()
            )));
        }
        let mut path = Vec::new();
        let mut at = self.profile.start_value;
        for (index, frames) in samples.iter().enumerate() {
            let weight = if weights.is_empty() { 1.0 } else { *weights.get(index).unwrap_or(&0.0) };
            path.clear();
            for frame in frames.iter() {
                path.push(self.frame(*frame, out)?);
            }
            // A sample without a stack is a time of nothing.
            if let Some(stack) = out.stack(&path)? {
                self.add(out, self.time(at), stack, self.whole(weight))?;
            }
            at += weight.max(0.0);
        }
        Ok(())
    }

    fn evented(&self, out: &mut Out<'_>) -> Result<(), ImportError> {
        // The calls that are open, each with the stack that ends with it.
        let mut open: Vec<(u32, StackId)> = Vec::new();
        let mut too_deep = 0_usize;
        let mut last = self.profile.start_value;
        for (index, event) in self.profile.events.iter().enumerate() {
            if event.at < last {
                return Err(
                    out.damaged(format!("event {index} is before the one that precedes it"))
                );
            }
            if let Some((_, stack)) = open.last() {
                let (from, to) = (self.whole(last), self.whole(event.at));
                let stack = (*stack, too_deep > 0);
                self.add(out, self.time(last), stack, to.saturating_sub(from))?;
            }
            last = event.at;
            match event.ty {
                EventKind::Open if open.len() >= limits::DEPTH => too_deep += 1,
                EventKind::Open => {
                    let frame = self.frame(event.frame, out)?;
                    let caller = open.last().map(|(_, stack)| *stack);
                    open.push((event.frame, out.child(caller, frame)?));
                }
                EventKind::Close if too_deep > 0 => too_deep -= 1,
                EventKind::Close => match open.pop() {
                    Some((frame, _)) if frame == event.frame => {}
                    _ => {
                        return Err(out.damaged(format!(
                            "event {index} ends frame {}, which is not the innermost one",
                            event.frame
                        )));
                    }
                },
            }
        }
        Ok(())
    }
}
