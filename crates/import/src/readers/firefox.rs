//! Processed profiles of the Firefox Profiler, with tables for each thread or shared ones (since
//! version 56 of the format).
//!
//! Source: `src/types/profile.ts` and `docs-developer/CHANGELOG-formats.md` of
//! firefox-devtools/profiler.

use super::{collapsed::named, list::List, speedscope};
use crate::{
    ImportError,
    out::{Function, Out},
    samples::Sample,
};
use serde::{Deserialize, Deserializer, de};
use session::{FrameId, FunctionKind, ImportedUnit, StackId, ThreadId, ThreadState};
use std::fmt;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    product: String,
    start_time: f64,
    oscpu: Option<String>,
    interval: f64,
    preprocessed_profile_version: Option<u32>,
    categories: List<Category>,
    sample_units: Option<SampleUnits>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Category {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SampleUnits {
    #[serde(rename = "threadCPUDelta")]
    cpu: String,
}

/// Tables may be in it, too: a list that flattens them would be kept in a form of its own first.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Thread {
    name: String,
    process_name: Option<String>,
    tid: Id,
    pid: Id,
    samples: Samples,
    stack_table: StackTable,
    frame_table: FrameTable,
    func_table: FuncTable,
    resource_table: ResourceTable,
    string_array: List<String>,
}

/// A number, which some writers write as text, with a part behind a dot.
#[derive(Default)]
struct Id(Option<u32>);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl de::Visitor<'_> for Any {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of a thread or process")
            }

            fn visit_u64<E>(self, number: u64) -> Result<Id, E> {
                Ok(Id(u32::try_from(number).ok()))
            }

            fn visit_i64<E>(self, _number: i64) -> Result<Id, E> {
                Ok(Id(None))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Id, E> {
                Ok(Id(Some(number as u32)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Id, E> {
                Ok(Id(text.split('.').next().and_then(|text| text.parse().ok())))
            }

            fn visit_unit<E>(self) -> Result<Id, E> {
                Ok(Id(None))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

/// What threads share: tables in newer versions, and frames of speedscope, which has the same key.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Shared {
    pub frames: List<speedscope::Frame>,
    stack_table: StackTable,
    frame_table: FrameTable,
    func_table: FuncTable,
    resource_table: ResourceTable,
    string_array: List<String>,
    sources: Sources,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StackTable {
    frame: List<u32>,
    prefix: List<Option<u32>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FrameTable {
    func: List<u32>,
    line: List<Option<u32>>,
    category: List<Option<u32>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FuncTable {
    name: List<u32>,
    resource: List<i64>,
    file_name: List<Option<u32>>,
    source: List<Option<u32>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResourceTable {
    name: List<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Sources {
    filename: List<u32>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Samples {
    stack: List<Option<u32>>,
    time: Option<List<f64>>,
    time_deltas: Option<List<f64>>,
    weight: Option<List<Option<f64>>>,
    weight_type: Option<String>,
    #[serde(rename = "threadCPUDelta")]
    cpu: Option<List<Option<f64>>>,
}

/// Kinds of samples that are named where they are left out.
const MOST_NAMED: usize = 20;

/// Nanoseconds of a millisecond: what times are in.
const MS: f64 = 1e6;

pub fn read(
    meta: &Meta,
    threads: &[Thread],
    shared: &Shared,
    out: &mut Out<'_>,
) -> Result<(), ImportError> {
    if meta.preprocessed_profile_version.is_none() {
        return Err(ImportError::Unsupported(
            "the file is a profile as Firefox itself writes it; open it at profiler.firefox.com and \
             save it there"
                .to_owned(),
        ));
    }
    let is_own = meta.product.contains(" – clrscope ");
    // clrscope writes each kind of samples as a process.
    let kind_of = |thread: &Thread| -> Option<String> {
        let name = thread.process_name.as_deref().filter(|_| is_own)?;
        let (_, kind) = name.strip_suffix(')')?.rsplit_once(" (")?;
        Some(kind.to_owned())
    };
    let with_samples = || threads.iter().filter(|thread| !thread.samples.stack.is_empty());
    let first = with_samples().next().and_then(kind_of);
    let cpu_scale = cpu_scale(meta);
    let has_cpu = |thread: &Thread| cpu_scale.is_some() && thread.samples.cpu.is_some();
    let mut profilers = vec![("imported", "Firefox Profiler".to_owned())];
    if with_samples().any(has_cpu) {
        profilers.push(("cpu", "CPU time that the Firefox Profiler has of samples".to_owned()));
    }
    out.begin(profilers, |info| {
        let product = meta.product.split(" – ").next().unwrap_or_default();
        super::named_process(product, info);
        info.start_unix_ms = meta.start_time.max(0.0) as u64;
        info.platform = meta.oscpu.clone().unwrap_or_default();
        info.pid = threads.first().and_then(|thread| thread.pid.0).unwrap_or(0);
    })?;
    out.note("The file is of the Firefox Profiler. Its markers are not imported.");
    let mut left_out = Vec::new();
    let mut shared_stacks: Option<Vec<StackId>> = None;
    for thread in with_samples() {
        let kind = kind_of(thread);
        if kind != first {
            let is_new = |kind: &String| left_out.len() < MOST_NAMED && !left_out.contains(kind);
            let new = kind.filter(is_new);
            left_out.extend(new);
            continue;
        }
        // CPU time of other kinds is what the exporter has for a sample, not what was measured.
        let cpu = cpu_scale.filter(|_| kind.as_deref().is_none_or(|kind| kind == "cpu"));
        let reading = Reading { thread, shared, meta, cpu };
        if reading.has_own_tables() {
            let stacks = reading.stacks(out)?;
            reading.read(&stacks, out)?;
            continue;
        }
        let stacks = match &mut shared_stacks {
            Some(stacks) => stacks,
            None => shared_stacks.insert(reading.stacks(out)?),
        };
        reading.read(stacks, out)?;
    }
    if !left_out.is_empty() {
        out.note(format!(
            "One kind of samples is imported. Left out: {}. Export these alone to see them.",
            left_out.join(", ")
        ));
    }
    Ok(())
}

/// Nanoseconds of a unit of CPU time; `None` where it is no time.
fn cpu_scale(meta: &Meta) -> Option<f64> {
    match meta.sample_units.as_ref().map(|units| units.cpu.as_str()) {
        Some("ns") => Some(1.0),
        Some("µs" | "us") => Some(1e3),
        _ => None,
    }
}

/// A list of the thread's own table, or else of the shared one.
macro_rules! either {
    ($self:ident.$($field:ident).+) => {
        if $self.thread.$($field).+.is_empty() {
            &*$self.shared.$($field).+
        } else {
            &*$self.thread.$($field).+
        }
    };
}

struct Reading<'a> {
    thread: &'a Thread,
    shared: &'a Shared,
    meta: &'a Meta,
    /// Nanoseconds of a unit of CPU time, where that is imported.
    cpu: Option<f64>,
}

impl Reading<'_> {
    fn text(&self, index: Option<u32>) -> &str {
        let strings = either!(self.string_array);
        index.and_then(|index| strings.get(index as usize)).map_or("", String::as_str)
    }

    /// Whether any table is its own.
    fn has_own_tables(&self) -> bool {
        let Thread { stack_table, frame_table, func_table, string_array, .. } = self.thread;
        !(stack_table.frame.is_empty()
            && frame_table.func.is_empty()
            && func_table.name.is_empty()
            && string_array.is_empty())
    }

    fn read(&self, stacks: &[StackId], out: &mut Out<'_>) -> Result<(), ImportError> {
        let tid = self.thread.tid.0.filter(|tid| *tid > 0);
        let thread = out.thread(tid, &self.thread.name)?;
        let samples = &self.thread.samples;
        let (unit, scale) = match samples.weight_type.as_deref() {
            Some("bytes") => (ImportedUnit::Bytes, 1.0),
            Some("tracing-ms") => (ImportedUnit::Nanoseconds, MS),
            _ => (ImportedUnit::Samples, 1.0),
        };
        let mut time = 0.0;
        for (index, stack) in samples.stack.iter().enumerate() {
            time = self.time(index, time, out)?;
            let Some(stack) = stack else { continue };
            let stack = stacks.get(*stack as usize).copied();
            let stack =
                stack.ok_or_else(|| out.damaged("a sample has a stack that is not there"))?;
            let weight = samples.weight.as_ref().and_then(|weights| *weights.get(index)?);
            // A negative one is what was freed.
            let weight = (weight.unwrap_or(1.0) * scale).round() as u64;
            let at = (time * MS).round() as u64;
            if weight > 0 {
                let count = if unit == ImportedUnit::Samples { weight } else { 1 };
                out.value(unit, at, thread, (stack, false), [count, weight])?;
            }
            self.cpu(index, at, thread, stack, out)?;
        }
        Ok(())
    }

    fn cpu(
        &self,
        index: usize,
        time: u64,
        thread: ThreadId,
        stack: StackId,
        out: &mut Out<'_>,
    ) -> Result<(), ImportError> {
        let Some(scale) = self.cpu else { return Ok(()) };
        let cpu = self.thread.samples.cpu.as_ref().and_then(|deltas| *deltas.get(index)?);
        let weight = (cpu.unwrap_or(0.0) * scale).round() as u64;
        if weight == 0 {
            return Ok(());
        }
        let state = ThreadState::Running;
        out.cpu(Sample { time, thread, stack, weight, state, truncated: false })
    }

    /// Milliseconds since the start, of a sample behind one at `before`.
    fn time(&self, index: usize, before: f64, out: &Out<'_>) -> Result<f64, ImportError> {
        let samples = &self.thread.samples;
        let time = match (&samples.time, &samples.time_deltas) {
            (Some(times), _) => times.get(index).copied(),
            (None, Some(deltas)) => deltas.get(index).map(|delta| before + delta),
            (None, None) => Some(index as f64 * self.meta.interval),
        };
        let time = time.ok_or_else(|| out.damaged("there are fewer times than samples"))?;
        // What was sampled before the start counts as at the start.
        Ok(if time.is_finite() { time.max(0.0) } else { before })
    }

    /// The stacks of the table, in its order. Each stands behind its prefix.
    fn stacks(&self, out: &mut Out<'_>) -> Result<Vec<StackId>, ImportError> {
        let frames = self.frames(out)?;
        let of_stack = either!(self.stack_table.frame);
        let prefixes = either!(self.stack_table.prefix);
        out.walk(of_stack.len() + frames.len())?;
        let mut stacks: Vec<StackId> = Vec::with_capacity(of_stack.len());
        for (index, frame) in of_stack.iter().enumerate() {
            let parent = match prefixes.get(index).copied().flatten() {
                Some(prefix) => Some(stacks.get(prefix as usize).copied().ok_or_else(|| {
                    out.damaged(format!("stack {index} comes before the one that it continues"))
                })?),
                None => None,
            };
            let frame = frames.get(*frame as usize).copied();
            let frame = frame.ok_or_else(|| {
                out.damaged(format!("stack {index} has a frame that is not there"))
            })?;
            stacks.push(out.child(parent, frame)?);
        }
        Ok(stacks)
    }

    fn frames(&self, out: &mut Out<'_>) -> Result<Vec<FrameId>, ImportError> {
        let functions = either!(self.frame_table.func);
        let lines = either!(self.frame_table.line);
        let categories = either!(self.frame_table.category);
        let mut frames = Vec::with_capacity(functions.len());
        for (index, function) in functions.iter().enumerate() {
            let at = *function as usize;
            let name = either!(self.func_table.name).get(at).copied();
            if name.is_none() {
                return Err(out.damaged(format!("frame {index} has a function that is not there")));
            }
            let resource = either!(self.func_table.resource).get(at).copied();
            let resource = resource.and_then(|resource| usize::try_from(resource).ok());
            let resources = either!(self.resource_table.name);
            let module = resource.and_then(|resource| resources.get(resource)).copied();
            let plain = named(self.text(name));
            let module = Some(self.text(module)).filter(|module| !module.is_empty());
            let kind = self.kind(categories.get(index).copied().flatten()).unwrap_or(plain.kind);
            let function =
                Function { name: plain.name, module: module.unwrap_or(plain.module), kind };
            let function = out.function(&function)?;
            let line = lines.get(index).copied().flatten();
            frames.push(out.frame(function, line.map(|line| (self.file(at), line)))?);
        }
        Ok(frames)
    }

    /// The source file of a function.
    fn file(&self, function: usize) -> &str {
        let own = either!(self.func_table.file_name).get(function).copied().flatten();
        let source = either!(self.func_table.source).get(function).copied().flatten();
        let sources = &*self.shared.sources.filename;
        let shared = source.and_then(|source| sources.get(source as usize)).copied();
        self.text(own.or(shared))
    }

    /// What kind of function a category is of, by the names that clrscope gives them.
    fn kind(&self, category: Option<u32>) -> Option<FunctionKind> {
        let category = self.meta.categories.get(category? as usize)?;
        super::kind(&category.name.to_lowercase())
    }
}
