//! Made-up recordings whose true distribution is known.
#![allow(dead_code)]

use compare::{Comparison, Options, Recording, compare};
use profile::{BuildOptions, Filter, ProfileBuilder, session::*};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
/// When recordings begin.
pub const START: u64 = 5 * SECOND;

/// Numbers that are as good as random, the same in every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number of 64 bits (xorshift, Marsaglia 2003, with a multiplication).
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// From 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Time to the next event, of events that come at random with this mean distance.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// A method on a stack: below one that all have in common.
pub fn name(method: usize) -> String {
    format!("Step{method}")
}

/// How a recording is described.
#[derive(Clone)]
pub struct Made {
    pub info: SessionInfo,
    pub methods: usize,
    /// Time since the start, and the method.
    pub samples: Vec<(u64, usize)>,
    /// What each stands for.
    pub weight: u64,
    pub duration: u64,
    pub end: SessionEnd,
    /// Names of methods are in this order, from this id on.
    pub reversed: bool,
    pub name_of: fn(usize) -> String,
}

pub fn info() -> SessionInfo {
    SessionInfo {
        tool_version: "0.1.0".into(),
        pid: 4242,
        process_name: "Shop".into(),
        command_line: "dotnet Shop.dll".into(),
        runtime: "9.0.5".into(),
        platform: "linux-x64".into(),
        entry: Entry::Attached,
        start_unix_ms: 1_700_000_000_000,
        start: START,
        cpus: 2,
        profilers: vec![ProfilerRun {
            id: "cpu".into(),
            engine: "kernel ring".into(),
            rate_hz: Some(100),
            params: vec![],
        }],
    }
}

impl Made {
    /// Of samples of 10 ms.
    pub fn of(seconds: u64, methods: usize, samples: Vec<(u64, usize)>) -> Self {
        let duration = seconds * SECOND;
        let end =
            SessionEnd { time: START + duration, reason: EndReason::Stopped, exit_code: None };
        let (info, weight, reversed) = (info(), 10 * MS, false);
        Self { info, methods, samples, weight, duration, end, reversed, name_of: name }
    }

    /// The session, record by record.
    pub fn records(&self) -> Vec<SessionRecord> {
        let mut records = vec![
            SessionRecord::Info(self.info.clone()),
            SessionRecord::Thread(ThreadDef {
                id: ThreadId(0),
                os_tid: 100,
                name: Some("worker".into()),
                managed: true,
                started: None,
                ended: None,
            }),
            SessionRecord::Module(ModuleDef {
                id: ModuleId(0),
                managed: true,
                name: "Shop.dll".into(),
                path: "/srv/Shop.dll".into(),
                build_id: None,
            }),
        ];
        let mut order: Vec<usize> = (0..self.methods).collect();
        if self.reversed {
            order.reverse();
        }
        // The common caller, then the methods.
        let names =
            std::iter::once("Main".to_owned()).chain(order.iter().map(|at| (self.name_of)(*at)));
        for (id, name) in names.enumerate() {
            let id = id as u32;
            records.extend([
                SessionRecord::Function(FunctionDef {
                    id: FunctionId(id),
                    kind: FunctionKind::Managed,
                    module: Some(ModuleId(0)),
                    type_name: "Contoso.Shop".into(),
                    name,
                    parameters: "()".into(),
                    state_machine: None,
                }),
                SessionRecord::Frame(FrameDef {
                    id: FrameId(id),
                    function: FunctionId(id),
                    line: Some(SourceLine { file: "/_/src/Shop.cs".into(), line: 10 + id }),
                    trust: FrameTrust::Tables,
                }),
                SessionRecord::Stack(StackDef {
                    id: StackId(id),
                    parent: (id > 0).then_some(StackId(0)),
                    frame: FrameId(id),
                }),
            ]);
        }
        let stack = |method: usize| {
            let at = order.iter().position(|own| *own == method).unwrap();
            StackId(1 + at as u32)
        };
        let mut samples = self.samples.clone();
        samples.sort_unstable();
        for samples in samples.chunks(1000) {
            let mut last = START;
            let mut batch = SampleBatch { start: START, ..SampleBatch::default() };
            for (time, method) in samples {
                batch.time_delta.push(START + time - last);
                last = START + time;
                batch.thread.push(ThreadId(0));
                batch.stack.push(stack(*method));
                batch.weight.push(self.weight);
                batch.state.push(ThreadState::Running);
                batch.truncated.push(false);
            }
            records.push(SessionRecord::CpuSamples(batch));
        }
        records.push(SessionRecord::End(self.end.clone()));
        records
    }

    pub fn recording(&self, name: &str) -> Recording {
        recording(name, &self.records())
    }

    /// As it is in a file.
    pub fn file(&self) -> Vec<u8> {
        let mut writer = SessionWriter::new(Vec::new(), "0.1.0").unwrap();
        self.records().iter().for_each(|record| writer.write(record).unwrap());
        writer.finish().unwrap()
    }

    /// A part of it.
    pub fn part(&self, name: &str, time: std::ops::Range<u64>) -> Recording {
        let filter = Filter { time: Some(time), ..Filter::default() };
        Recording::read(name, &self.file()[..], &filter).unwrap()
    }
}

pub fn recording(name: &str, records: &[SessionRecord]) -> Recording {
    let options = BuildOptions { slices: true, ..BuildOptions::default() };
    let mut builder = ProfileBuilder::new(options);
    records.iter().for_each(|record| builder.add(record).unwrap());
    Recording { name: name.into(), profile: builder.finish(false).unwrap(), heap: None }
}

/// Samples at a fixed rate of a thread that always runs. Each method has its part; the thread stays
/// in a method for this mean time.
pub fn busy(
    random: &mut Random,
    seconds: u64,
    hz: u64,
    parts: &[f64],
    stay_ms: f64,
) -> Vec<(u64, usize)> {
    let all: f64 = parts.iter().sum();
    let choose = |random: &mut Random| {
        let mut left = random.unit() * all;
        parts
            .iter()
            .position(|part| {
                left -= part;
                left <= 0.0
            })
            .unwrap_or(parts.len() - 1)
    };
    let mut samples = Vec::new();
    let (mut until, mut method) = (0.0, 0);
    let step = SECOND / hz;
    for tick in 0..seconds * hz {
        let time = tick * step + random.bits() % step;
        while time as f64 >= until {
            until += random.exponential(stay_ms * MS as f64);
            method = choose(random);
        }
        samples.push((time, method));
    }
    samples
}

pub fn compared(before: &Recording, after: &Recording, confidence: f64) -> Comparison {
    compare(before, after, &Options { confidence, ..Options::default() })
}
