use std::{
    collections::{BTreeMap, HashMap},
    io::Write,
};

use flate2::{Compression, write::GzEncoder};
use profile::{
    Profile, SeriesKind, Unit, kind_id,
    session::{StackId, ThreadId, TypeId},
    state_id,
};
use prost::Message;

use crate::{Exporter, Options, ReportError, kinds, one_kind};

pub const EXPORTER: Exporter = Exporter {
    id: "pprof",
    extension: "pb.gz",
    summary: "for go tool pprof, Pyroscope, Polar Signals and others",
    binary: true,
    single_samples: false,
    snapshots: false,
    render,
};

/// The messages of github.com/google/pprof/proto/profile.proto, as far as clrscope writes or reads
/// them.
#[allow(missing_docs)] // As documented there.
pub mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub comment: Vec<i64>,
        #[prost(int64, tag = "14")]
        pub default_sample_type: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ValueType {
        #[prost(int64, tag = "1")]
        pub ty: i64,
        #[prost(int64, tag = "2")]
        pub unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub label: Vec<Label>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Label {
        #[prost(int64, tag = "1")]
        pub key: i64,
        #[prost(int64, tag = "2")]
        pub str: i64,
        #[prost(int64, tag = "3")]
        pub num: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Mapping {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "5")]
        pub filename: i64,
        #[prost(int64, tag = "6")]
        pub build_id: i64,
        #[prost(bool, tag = "7")]
        pub has_functions: bool,
        #[prost(bool, tag = "8")]
        pub has_filenames: bool,
        #[prost(bool, tag = "9")]
        pub has_line_numbers: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Location {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub address: u64,
        #[prost(message, repeated, tag = "4")]
        pub line: Vec<Line>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Line {
        #[prost(uint64, tag = "1")]
        pub function_id: u64,
        #[prost(int64, tag = "2")]
        pub line: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Function {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "2")]
        pub name: i64,
        #[prost(int64, tag = "3")]
        pub system_name: i64,
        #[prost(int64, tag = "4")]
        pub filename: i64,
    }
}

/// The string table; number 0 is the empty string.
#[derive(Default)]
struct Strings {
    table: Vec<String>,
    ids: HashMap<String, i64>,
}

impl Strings {
    /// Number of a text with visible escapes: pprof prints names to terminals as they are.
    fn id(&mut self, text: &str) -> i64 {
        let text: &str = &document::plain::visible(text);
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = self.table.len() as i64;
        self.table.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A writer of samples: they go out one by one, since fields of a message may stand in any order
/// and repeatedly.
struct Samples<'a, W: Write> {
    profile: &'a Profile,
    out: GzEncoder<W>,
    buffer: Vec<u8>,
    /// Locations by frame: frames that read the same are one.
    locations: Vec<u64>,
    keys: Keys,
    /// Number of values of a sample.
    values: usize,
    /// Bytes that may be written before they are compressed, and how many are left.
    limit: u64,
    left: u64,
}

struct Keys {
    thread: i64,
    thread_id: i64,
    state: i64,
    exception: i64,
    ty: i64,
    states: Vec<i64>,
    threads: Vec<i64>,
    types: Vec<i64>,
}

impl Keys {
    fn of(profile: &Profile, strings: &mut Strings) -> Self {
        let tables = &profile.tables;
        Self {
            thread: strings.id("thread"),
            thread_id: strings.id("thread_id"),
            state: strings.id("state"),
            exception: strings.id("exception"),
            ty: strings.id("type"),
            states: profile::STATES.iter().map(|state| strings.id(state_id(*state))).collect(),
            threads: tables
                .threads
                .iter()
                .map(|thread| strings.id(&tables.thread_name(thread.id)))
                .collect(),
            types: tables.types.iter().map(|ty| strings.id(&ty.name)).collect(),
        }
    }
}

impl<W: Write> Samples<'_, W> {
    fn exceptions(&mut self, weight: usize) -> Result<(), ReportError> {
        let mut sums: BTreeMap<(StackId, ThreadId, TypeId), u64> = BTreeMap::new();
        for sample in &self.profile.exceptions.samples {
            let sum = sums.entry((sample.stack, sample.thread, sample.ty)).or_default();
            *sum = sum.saturating_add(sample.weight);
        }
        for ((stack, thread, ty), sum) in sums {
            let (key, str) = (self.keys.exception, self.keys.types[ty.index()]);
            self.write(stack, thread, proto::Label { key, str, num: 0 }, &[(weight, sum)])?;
        }
        Ok(())
    }

    fn allocations(
        &mut self,
        [count, weight]: [usize; 2],
        objects: Option<usize>,
    ) -> Result<(), ReportError> {
        let mut sums: BTreeMap<(StackId, ThreadId, TypeId), (u64, u64, f64)> = BTreeMap::new();
        for sample in &self.profile.allocations.samples {
            let (samples, bytes, objects) =
                sums.entry((sample.stack, sample.thread, sample.ty)).or_default();
            *samples += 1;
            *bytes = bytes.saturating_add(sample.bytes);
            *objects += sample.objects().unwrap_or_default();
        }
        for ((stack, thread, ty), (number, bytes, of)) in sums {
            let (key, str) = (self.keys.ty, self.keys.types[ty.index()]);
            let mut values = vec![(count, number), (weight, bytes)];
            values.extend(objects.map(|column| (column, of.round() as u64)));
            self.write(stack, thread, proto::Label { key, str, num: 0 }, &values)?;
        }
        Ok(())
    }

    /// Of all other kinds, whose samples have a state.
    fn cells(&mut self, kind: SeriesKind, [count, weight]: [usize; 2]) -> Result<(), ReportError> {
        for cell in &self.profile.series(kind).cells {
            let (key, str) = (self.keys.state, self.keys.states[profile::state_index(cell.state)]);
            let values = [(count, cell.samples.into()), (weight, cell.weight)];
            self.write(cell.stack, cell.thread, proto::Label { key, str, num: 0 }, &values)?;
        }
        Ok(())
    }

    fn write(
        &mut self,
        stack: StackId,
        thread: ThreadId,
        label: proto::Label,
        values: &[(usize, u64)],
    ) -> Result<(), ReportError> {
        let tables = &self.profile.tables;
        let mut value = vec![0; self.values];
        for (at, amount) in values {
            value[*at] = signed(*amount);
        }
        let thread_id = i64::from(tables.thread(thread).os_tid);
        let sample = proto::Sample {
            location_id: tables.walk(stack).map(|frame| self.locations[frame.index()]).collect(),
            value,
            label: vec![
                proto::Label {
                    key: self.keys.thread,
                    str: self.keys.threads[thread.index()],
                    num: 0,
                },
                proto::Label { key: self.keys.thread_id, str: 0, num: thread_id },
                label,
            ],
        };
        self.buffer.clear();
        // A message of one sample is the sample behind its tag.
        prost::encoding::message::encode(2, &sample, &mut self.buffer);
        // Repeated stacks are compressed very well, so the size of the file bounds nothing.
        let left = self.left.checked_sub(self.buffer.len() as u64);
        self.left = left.ok_or(ReportError::TooLarge { limit: self.limit })?;
        Ok(self.out.write_all(&self.buffer)?)
    }
}

fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    one_kind(profile, options)?;
    let kinds = kinds(profile, options);
    let mut strings = Strings::default();
    strings.id("");
    let mut head = proto::Profile::default();
    let columns = Columns::of(profile, &kinds, &mut head, &mut strings);
    facts(profile, &mut head, &mut strings);
    let locations = places(profile, options, &mut head, &mut strings);
    let keys = Keys::of(profile, &mut strings);
    head.string_table = strings.table;

    let values = head.sample_type.len();
    let mut out = GzEncoder::new(out, Compression::fast());
    out.write_all(&head.encode_to_vec())?;
    drop(head);
    let (buffer, limit) = (Vec::new(), options.most_bytes);
    let mut samples = Samples { profile, out, buffer, locations, keys, values, limit, left: limit };
    for kind in kinds {
        let [count, weight] = columns.of_kind.get(&kind).copied().unwrap_or_default();
        match kind {
            SeriesKind::Exceptions => samples.exceptions(weight)?,
            SeriesKind::Allocations => samples.allocations([count, weight], columns.objects)?,
            _ => samples.cells(kind, [count, weight])?,
        }
    }
    samples.out.finish()?;
    Ok(())
}

/// Which value of a sample is what.
struct Columns {
    /// Of each kind its samples and what they stand for.
    of_kind: HashMap<SeriesKind, [usize; 2]>,
    /// Number of allocated objects.
    objects: Option<usize>,
}

impl Columns {
    /// Declares the values.
    fn of(
        profile: &Profile,
        kinds: &[SeriesKind],
        head: &mut proto::Profile,
        strings: &mut Strings,
    ) -> Self {
        // Each kind has two values: its samples and what they stand for. The exceptions' samples
        // say nothing beside their number.
        let mut of_kind: HashMap<SeriesKind, [usize; 2]> = HashMap::new();
        for kind in kinds {
            let mut column = |name: &str, unit: &str| {
                head.sample_type
                    .push(proto::ValueType { ty: strings.id(name), unit: strings.id(unit) });
                head.sample_type.len() - 1
            };
            let value_type = kind.value_type();
            let weight = |column: &mut dyn FnMut(&str, &str) -> usize| {
                column(value_type.kind, value_type.unit.id())
            };
            let columns_of_kind = match value_type.unit {
                Unit::Count => [weight(&mut column); 2],
                _ => [column(&format!("{}_samples", kind.id()), "count"), weight(&mut column)],
            };
            of_kind.insert(*kind, columns_of_kind);
        }
        // Where the runtime tells the sizes of objects, samples of allocations are also a number of
        // objects.
        let objects = profile
            .allocations
            .objects()
            .filter(|_| of_kind.contains_key(&SeriesKind::Allocations));
        let objects = objects.map(|_| {
            head.sample_type.push(proto::ValueType {
                ty: strings.id("allocated_objects"),
                unit: strings.id("count"),
            });
            head.sample_type.len() - 1
        });
        if let Some(first) = kinds.first() {
            head.default_sample_type = strings.id(first.value_type().kind);
            let value_type = first.value_type();
            head.period_type = Some(proto::ValueType {
                ty: strings.id(value_type.kind),
                unit: strings.id(value_type.unit.id()),
            });
            let rate = profile.rate_hz(first.id()).filter(|rate| *rate > 0.0);
            head.period = rate.map_or(1, |rate| (1e9 / rate) as i64);
        }
        Self { of_kind, objects }
    }
}

/// When it was recorded, and comments.
fn facts(profile: &Profile, head: &mut proto::Profile, strings: &mut Strings) {
    head.time_nanos = signed(profile.info.start_unix_ms.saturating_mul(1_000_000))
        .saturating_add(signed(profile.start.saturating_sub(profile.info.start)));
    head.duration_nanos = signed(profile.duration());
    let comments = [
        format!(
            "clrscope {}: {}",
            profile.info.tool_version,
            crate::format::process(&profile.info)
        ),
        format!(".NET {} on {}", profile.info.runtime, profile.info.platform),
        format!("{} samples dropped", profile.dropped()),
    ];
    let rates = profile.rates.iter().map(|rate| (rate.profiler.as_str(), rate.to_string()));
    let rates = rates.filter(|(_, text)| !text.is_empty());
    let rates = rates.map(|(profiler, text)| format!("{profiler}: {text}"));
    let notes = profile.notes.iter().map(|(_, note)| note.clone());
    let comments = comments.into_iter().chain(rates).chain(notes);
    head.comment = comments.map(|comment| strings.id(&comment)).collect();
}

/// Declares locations, functions and mappings. The location of each frame.
fn places(
    profile: &Profile,
    options: &Options,
    head: &mut proto::Profile,
    strings: &mut Strings,
) -> Vec<u64> {
    let tables = &profile.tables;
    let mut has_lines = vec![false; tables.modules.len()];
    let (mut filenames, mut locations) = (vec![0; tables.functions.len()], HashMap::new());
    let mut location_of = Vec::with_capacity(tables.frames.len());
    for frame in &tables.frames {
        let line = frame.line.filter(|_| options.lines);
        let module = tables.function(frame.function).module;
        if let Some(line) = line {
            let filename = &mut filenames[frame.function.index()];
            if *filename == 0 {
                *filename = strings.id(tables.file(line.file));
            }
            if let Some(module) = module {
                has_lines[module.index()] = true;
            }
        }
        // A location of pprof has the file of its function, so files do not tell locations apart.
        let next = locations.len() as u64 + 1;
        let id = *locations.entry((frame.function, line.map(|line| line.line))).or_insert(next);
        if id == next {
            head.location.push(proto::Location {
                id,
                mapping_id: module.map_or(0, |module| u64::from(module.0) + 1),
                address: 0,
                line: vec![proto::Line {
                    function_id: u64::from(frame.function.0) + 1,
                    line: line.map_or(0, |line| line.line.into()),
                }],
            });
        }
        location_of.push(id);
    }
    for function in &tables.functions {
        let name = tables.function_name(function.id, options.names);
        let full = tables.function_name(function.id, profile::NameStyle::FULL);
        head.function.push(proto::Function {
            id: u64::from(function.id.0) + 1,
            name: strings.id(&name),
            system_name: strings.id(&format!("{full} [{}]", kind_id(function.kind))),
            filename: filenames[function.id.index()],
        });
    }
    for module in &tables.modules {
        head.mapping.push(proto::Mapping {
            id: u64::from(module.id.0) + 1,
            filename: strings.id(if module.path.is_empty() { &module.name } else { &module.path }),
            build_id: module.build_id.as_deref().map_or(0, |id| strings.id(id)),
            has_functions: true,
            has_filenames: has_lines[module.id.index()],
            has_line_numbers: has_lines[module.id.index()],
        });
    }
    location_of
}
