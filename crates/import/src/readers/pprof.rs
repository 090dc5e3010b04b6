//! pprof (`profile.proto`), compressed or not.
//!
//! A file is read twice: first what samples refer to, then the samples, one at a time. So memory
//! does not depend on how many there are.

mod fields;
mod measures;

use crate::{
    ImportError, limits,
    out::{Function, Out, Stack},
    samples::Sample,
    unpack::Content,
};
use fields::Fields;
use measures::{Measure, Measures};
use profilers::{
    allocations::{AllocationHeap, AllocationSample, AllocationSampling},
    exceptions::ExceptionSample,
};
use prost::Message as _;
use report::pprof_messages::{self as proto, Label, Location, Mapping, ValueType};
use rustc_hash::FxHashMap;
use session::{FrameId, FunctionKind, ImportedUnit, SessionInfo, ThreadId, ThreadState};
use std::io::{BufReader, Read, Seek};

/// Rows that samples of a file may become. Where it counts more, a row stands for several.
const ROWS: u64 = 4_000_000;

/// What samples refer to.
#[derive(Default)]
pub(super) struct Head {
    pub types: Vec<ValueType>,
    pub default_type: i64,
    strings: Vec<String>,
    string_bytes: usize,
    /// Bytes of functions, locations and mappings.
    referred: usize,
    functions: FxHashMap<u64, proto::Function>,
    locations: FxHashMap<u64, Location>,
    mappings: FxHashMap<u64, Mapping>,
    time_nanos: i64,
    duration_nanos: i64,
    comments: Vec<i64>,
}

impl Head {
    pub fn text(&self, id: i64) -> &str {
        usize::try_from(id).ok().and_then(|id| self.strings.get(id)).map_or("", String::as_str)
    }

    fn read(input: impl Read, out: &Out<'_>) -> Result<Self, ImportError> {
        let mut head = Self::default();
        let mut fields = Fields::new(BufReader::new(input));
        let bad = |error: prost::DecodeError| out.damaged(error.to_string());
        while let Some((tag, number)) = fields.next(out)? {
            let bytes = fields.bytes();
            head.referred += if matches!(tag, 3..=5) { bytes.len() } else { 0 };
            match tag {
                1 => head.types.push(ValueType::decode(bytes).map_err(bad)?),
                3 => {
                    let mapping = Mapping::decode(bytes).map_err(bad)?;
                    head.mappings.insert(mapping.id, mapping);
                }
                4 => {
                    let location = Location::decode(bytes).map_err(bad)?;
                    head.locations.insert(location.id, location);
                }
                5 => {
                    let function = proto::Function::decode(bytes).map_err(bad)?;
                    head.functions.insert(function.id, function);
                }
                6 => {
                    head.string_bytes += bytes.len();
                    head.strings.push(String::from_utf8_lossy(bytes).into_owned());
                }
                9 => head.time_nanos = number.cast_signed(),
                10 => head.duration_nanos = number.cast_signed(),
                13 => head.comments.extend(fields.numbers(number, out)?),
                14 => head.default_type = number.cast_signed(),
                _ => {}
            }
            head.check()?;
        }
        if head.types.is_empty() || head.types.len() > 64 {
            return Err(out.damaged(format!("it has {} types of values", head.types.len())));
        }
        Ok(head)
    }

    fn check(&self) -> Result<(), ImportError> {
        let too_many = |what, limit: usize| ImportError::TooLarge { what, limit: limit as u64 };
        if self.referred > limits::REFERRED {
            return Err(too_many("bytes of locations and functions", limits::REFERRED));
        }
        let most = limits::NAMES;
        if self.locations.len() > most || self.functions.len() > most || self.mappings.len() > most
        {
            return Err(too_many("functions", most));
        }
        if self.strings.len() > most * 2 || self.string_bytes > limits::NAME_BYTES {
            return Err(too_many("bytes of names", limits::NAME_BYTES));
        }
        if self.comments.len() > 1000 || self.types.len() > 64 {
            return Err(too_many("comments and types of values", 1000));
        }
        Ok(())
    }

    /// Whether clrscope wrote it: then names of functions and labels have a form that is known.
    fn is_own(&self) -> bool {
        self.comments.first().is_some_and(|comment| self.text(*comment).starts_with("clrscope "))
    }

    fn info(&self, info: &mut SessionInfo) {
        info.start_unix_ms = u64::try_from(self.time_nanos / 1_000_000).unwrap_or(0);
        let Some(comment) = self.comments.first().filter(|_| self.is_own()) else { return };
        // `clrscope 1.2.3: shop (pid 12)`, then `.NET 9.0.1 on linux-x64`.
        if let Some((_, process)) = self.text(*comment).split_once(": ") {
            super::named_process(process, info);
        }
        let runtime = self.comments.get(1).map(|comment| self.text(*comment));
        let runtime = runtime.and_then(|text| text.strip_prefix(".NET ")?.split_once(" on "));
        if let Some((runtime, platform)) = runtime {
            (info.runtime, info.platform) = (runtime.to_owned(), platform.to_owned());
        }
    }
}

pub fn read(file: &mut (impl Read + Seek), out: &mut Out<'_>) -> Result<(), ImportError> {
    let head = Head::read(Content::open(&mut *file, limits::STREAM)?, out)?;
    let measures = Measures::of(&head);
    let from = if head.is_own() { "pprof, exported by clrscope" } else { "pprof" };
    let profilers = measures.profilers().map(|id| (id, from.to_owned())).collect();
    out.begin(profilers, |info| head.info(info))?;
    out.note("The file is a pprof profile: sums, without the times of samples.");
    measures.notes(&head).into_iter().for_each(|note| out.note(note));
    let length = u64::try_from(head.duration_nanos).unwrap_or(0);
    out.time(length)?;
    let mut reader = Samples {
        is_own: head.is_own(),
        counts: Counts::read(Content::open(&mut *file, limits::STREAM)?, &measures, out)?,
        head,
        measures,
        frames: FxHashMap::default(),
        threads: FxHashMap::default(),
        path: Vec::new(),
    };
    let mut fields = Fields::new(BufReader::new(Content::open(file, limits::STREAM)?));
    while let Some((tag, _)) = fields.next(out)? {
        if tag == 2 {
            let sample = proto::Sample::decode(fields.bytes());
            reader.sample(&sample.map_err(|error| out.damaged(error.to_string()))?, out)?;
        }
    }
    Ok(())
}

/// How many samples CPU and wall time have together, by the file's own counts.
struct Counts {
    /// Whether each of them gets a row.
    single: bool,
}

impl Counts {
    fn read(input: impl Read, measures: &Measures, out: &Out<'_>) -> Result<Self, ImportError> {
        let columns: Vec<usize> = measures.counts().collect();
        let mut sum = 0_u64;
        if columns.is_empty() {
            return Ok(Self { single: false });
        }
        let mut fields = Fields::new(BufReader::new(input));
        while let Some((tag, _)) = fields.next(out)? {
            if tag == 2 {
                let sample = proto::Sample::decode(fields.bytes());
                let sample = sample.map_err(|error| out.damaged(error.to_string()))?;
                for column in &columns {
                    sum = sum.saturating_add(value_at(&sample, *column));
                }
            }
        }
        Ok(Self { single: sum <= ROWS })
    }
}

fn value_at(sample: &proto::Sample, column: usize) -> u64 {
    sample.value.get(column).copied().map_or(0, |value| u64::try_from(value).unwrap_or(0))
}

struct Samples {
    head: Head,
    is_own: bool,
    measures: Measures,
    counts: Counts,
    /// Frames of a location, leaf first: inlined functions are frames.
    frames: FxHashMap<u64, Vec<FrameId>>,
    threads: FxHashMap<(i64, i64), ThreadId>,
    path: Vec<FrameId>,
}

impl Samples {
    fn sample(&mut self, sample: &proto::Sample, out: &mut Out<'_>) -> Result<(), ImportError> {
        let thread = self.thread(sample, out)?;
        let stack = match self.stack(sample, out)? {
            Some(stack) => stack,
            None => out.no_stack()?,
        };
        for measure in &self.measures.list {
            let weight = value_at(sample, measure.weight).saturating_mul(measure.scale);
            let count = match measure.count {
                Some(at) => value_at(sample, at),
                None if measure.id == "imported" && measure.unit == ImportedUnit::Samples => weight,
                None => u64::from(weight > 0),
            };
            if weight > 0 || count > 0 {
                self.value(measure, sample, thread, stack, [count.max(1), weight], out)?;
            }
        }
        Ok(())
    }

    fn value(
        &self,
        measure: &Measure,
        sample: &proto::Sample,
        thread: ThreadId,
        (stack, truncated): Stack,
        [count, weight]: [u64; 2],
        out: &mut Out<'_>,
    ) -> Result<(), ImportError> {
        match measure.id {
            "cpu" | "wall" => {
                let state = self.state(sample);
                let rows = if self.counts.single { count } else { 1 };
                // The weight is spread over the samples so that it stays the same in all.
                for row in 0..rows {
                    let weight = weight / rows + u64::from(row < weight % rows);
                    let sample = Sample { time: 0, thread, stack, weight, state, truncated };
                    if measure.id == "cpu" { out.cpu(sample)? } else { out.wall(sample)? }
                }
                Ok(())
            }
            "exceptions" => {
                let ty = out.ty(self.label(sample, "exception").unwrap_or("unknown"))?;
                out.row(&ExceptionSample {
                    time: 0,
                    thread,
                    ty,
                    message: None,
                    stack,
                    weight,
                    caught_by: None,
                    time_to_catch: None,
                })
            }
            "allocations" => {
                let ty = out.ty(self.label(sample, "type").unwrap_or("unknown"))?;
                out.row(&AllocationSample {
                    time: 0,
                    thread,
                    stack,
                    ty,
                    heap: AllocationHeap::Small,
                    size: 0,
                    bytes: weight,
                    truncated,
                    sampling: AllocationSampling::Random,
                })
            }
            _ => out.value(measure.unit, 0, thread, (stack, truncated), [count, weight]),
        }
    }

    fn label(&self, sample: &proto::Sample, key: &str) -> Option<&str> {
        let label = sample.label.iter().find(|label| self.head.text(label.key) == key)?;
        Some(self.head.text(label.str)).filter(|text| !text.is_empty())
    }

    fn state(&self, sample: &proto::Sample) -> ThreadState {
        let word = if self.is_own { self.label(sample, "state") } else { None };
        word.and_then(super::state).unwrap_or(ThreadState::Running)
    }

    /// The thread that labels say, or one for all.
    fn thread(
        &mut self,
        sample: &proto::Sample,
        out: &mut Out<'_>,
    ) -> Result<ThreadId, ImportError> {
        let of = |label: &&Label, key: &str| self.head.text(label.key) == key;
        let name = sample.label.iter().find(|label| of(label, "thread"));
        let name = name.map_or(0, |label| label.str);
        let ids = |label: &&Label| of(label, "thread_id") || of(label, "tid");
        let number = sample.label.iter().find(ids).map_or(0, |label| label.num);
        if let Some(id) = self.threads.get(&(name, number)) {
            return Ok(*id);
        }
        let text = self.head.text(name);
        let text = if text.is_empty() && number == 0 { "all threads" } else { text };
        let id = out.thread(u32::try_from(number).ok().filter(|number| *number > 0), text)?;
        self.threads.insert((name, number), id);
        Ok(id)
    }

    fn stack(
        &mut self,
        sample: &proto::Sample,
        out: &mut Out<'_>,
    ) -> Result<Option<Stack>, ImportError> {
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        // Locations are leaf first. The outer ones of a stack that is too deep are not needed.
        for id in &sample.location_id {
            if path.len() > limits::DEPTH {
                break;
            }
            if !self.frames.contains_key(id) {
                let frames = self.location(*id, out)?;
                self.frames.insert(*id, frames);
            }
            path.extend(self.frames.get(id).into_iter().flatten());
        }
        path.reverse();
        let stack = out.stack(&path);
        self.path = path;
        stack
    }

    fn location(&self, id: u64, out: &mut Out<'_>) -> Result<Vec<FrameId>, ImportError> {
        let Some(location) = self.head.locations.get(&id) else {
            return Err(out.damaged(format!("a sample is at location {id}, which is not there")));
        };
        let mapping = self.head.mappings.get(&location.mapping_id);
        let module = mapping.map_or("", |mapping| self.head.text(mapping.filename));
        let mut frames = Vec::with_capacity(location.line.len().max(1));
        // The innermost inlined function comes first.
        for line in location.line.iter().take(limits::DEPTH) {
            let function = self.head.functions.get(&line.function_id);
            let Some(function) = function else {
                let id = line.function_id;
                return Err(
                    out.damaged(format!("a location has function {id}, which is not there"))
                );
            };
            let file = self.head.text(function.filename);
            let line = u32::try_from(line.line).unwrap_or(0);
            let id = out.function(&self.function(function, module))?;
            frames.push(out.frame(id, Some((file, line)))?);
        }
        if frames.is_empty() {
            let name = format!("0x{:x}", location.address);
            let function = Function { name: &name, module, kind: FunctionKind::Native };
            let id = out.function(&function)?;
            frames.push(out.frame(id, None)?);
        }
        Ok(frames)
    }

    /// Its name; from clrscope also what kind it is.
    fn function<'a>(&'a self, function: &proto::Function, module: &'a str) -> Function<'a> {
        let (name, system) = (self.head.text(function.name), self.head.text(function.system_name));
        if let Some((full, kind)) =
            system.strip_suffix(']').filter(|_| self.is_own).and_then(|name| name.rsplit_once(" ["))
            && let Some(kind) = super::kind(kind)
        {
            return Function { name: full, module, kind };
        }
        let name = if name.is_empty() { system } else { name };
        Function { name, module, kind: FunctionKind::Native }
    }
}
