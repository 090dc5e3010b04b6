//! Makes a large session and measures the way from the file to the report.
//!
//! `cargo run --release -p report --example large_session -- write large.clrscope [samples]
//! [stacks]` or `-- extreme extreme.clrscope`, then `… -- html large.clrscope
//! large.html` (or another format). Both print what they took; the peak of memory is the kernel's.

use std::{fs::File, io::BufWriter, time::Instant};

use profile::{BuildOptions, Profile, session::*};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: u32| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let path = |at: usize| arguments.get(at).ok_or("a file is missing");
    let begin = Instant::now();
    match arguments.first().map(String::as_str) {
        Some("write") => {
            let bytes =
                write(File::create(path(1)?)?, number(2, 10_000_000)?, number(3, 100_000)?)?;
            println!(
                "{:.1} MB written in {:.2} s",
                bytes as f64 / 1e6,
                begin.elapsed().as_secs_f64()
            );
        }
        Some("extreme") => {
            let bytes = extreme(File::create(path(1)?)?)?;
            println!("{:.1} MB written", bytes as f64 / 1e6);
        }
        Some("unpack") => {
            let records = SessionReader::new(File::open(path(1)?)?)?.count();
            println!("{records} records unpacked in {:.2} s", begin.elapsed().as_secs_f64());
        }
        Some("read") => {
            let profile = Profile::read(File::open(path(1)?)?, BuildOptions::default())?;
            println!(
                "{} samples read in {:.2} s",
                profile.cpu.totals.samples,
                begin.elapsed().as_secs_f64()
            );
            println!(
                "{} cells, {} stack nodes",
                profile.cpu.cells.len(),
                profile.tables.stack_count()
            );
        }
        Some(format) => {
            let exporter = report::exporter(format).ok_or("there is no such format")?;
            let mut output = File::create(path(2)?)?;
            exporter.convert(File::open(path(1)?)?, &report::Options::default(), &mut output)?;
            let size = output.metadata()?.len() as f64 / 1e6;
            println!("{size:.1} MB of {format} in {:.2} s", begin.elapsed().as_secs_f64());
        }
        None => {
            return Err(
                "say `write FILE [samples] [stacks]`, `read FILE` or a format, FILE and OUTPUT"
                    .into(),
            );
        }
    }
    println!("{}", peak());
    Ok(())
}

/// Peak of this process's memory as the kernel knows it.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap_or("no /proc/self/status here")
        .to_owned()
}

/// Numbers that look random and are the same in each run (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ z >> 31) >> 32).wrapping_mul(u64::from(limit)).wrapping_shr(32) as u32
    }
}

/// A service with 64 threads, 8,000 functions and stacks of 20 to 80 frames that share their
/// beginnings, as stacks do.
fn write(file: File, samples: u32, stacks: u32) -> Result<u64, SessionError> {
    const THREADS: u32 = 64;
    const FUNCTIONS: u32 = 8000;
    let mut random = Random(42);
    let mut out = SessionWriter::new(BufWriter::new(file), "0.1.0")?;
    begin(&mut out, "large", THREADS)?;
    for id in 0..100 {
        let (name, path) = (format!("Large.Part{id}.dll"), format!("/app/Large.Part{id}.dll"));
        out.write(&SessionRecord::Module(ModuleDef {
            id: ModuleId(id),
            managed: true,
            name,
            path,
            build_id: None,
        }))?;
    }
    for id in 0..FUNCTIONS {
        out.write(&SessionRecord::Function(FunctionDef {
            id: FunctionId(id),
            kind: if id % 10 == 0 { FunctionKind::Native } else { FunctionKind::Managed },
            module: Some(ModuleId(id % 100)),
            type_name: format!("Large.Part{}.Services.Handler{}<System.String>", id % 100, id / 10),
            name: format!("HandleRequest{id}"),
            parameters: "(System.String, System.Threading.CancellationToken)".into(),
            state_machine: None,
        }))?;
    }
    for id in 0..FUNCTIONS * 2 {
        let line = Some(SourceLine {
            file: format!("/src/Part{}/Handler.cs", id % 400),
            line: id % 900 + 1,
        });
        out.write(&SessionRecord::Frame(FrameDef {
            id: FrameId(id),
            function: FunctionId(id % FUNCTIONS),
            line,
            trust: FrameTrust::Tables,
        }))?;
    }
    // A new stack leaves an older one at a random depth and continues for one to five frames.
    let (mut nodes, mut leaves, mut parents, mut depths) =
        (0_u32, Vec::new(), Vec::new(), Vec::new());
    while leaves.len() < stacks as usize {
        let mut parent = if leaves.is_empty() { None } else { Some(random.below(nodes)) };
        let target: u32 = if leaves.is_empty() { 20 } else { 1 + random.below(5) };
        while let Some(node) = parent
            && depths[node as usize] > 75
        {
            parent = parents[node as usize];
        }
        for _ in 0..target {
            let frame = FrameId(random.below(FUNCTIONS * 2));
            out.write(&SessionRecord::Stack(StackDef {
                id: StackId(nodes),
                parent: parent.map(StackId),
                frame,
            }))?;
            parents.push(parent);
            depths.push(parent.map_or(0, |parent| depths[parent as usize] + 1));
            parent = Some(nodes);
            nodes += 1;
        }
        leaves.push(nodes - 1);
    }
    let mut time = 0;
    let mut left = samples;
    while left > 0 {
        let rows = left.min(4000);
        left -= rows;
        let mut batch = SampleBatch { start: time, ..SampleBatch::default() };
        for _ in 0..rows {
            let delta = u64::from(random.below(31_000));
            time += delta;
            batch.time_delta.push(delta);
            batch.thread.push(ThreadId(random.below(THREADS)));
            // Some stacks are hot and most are rare; all of them occur.
            let rank = u64::from(random.below(stacks)) * u64::from(random.below(1000)) / 1000;
            batch.stack.push(StackId(leaves[rank as usize]));
            batch.weight.push(1_000_000 + u64::from(random.below(2000)));
            batch.state.push(ThreadState::Running);
            batch.truncated.push(false);
        }
        out.write(&SessionRecord::CpuSamples(batch))?;
    }
    out.write(&SessionRecord::End(SessionEnd {
        time,
        reason: EndReason::Stopped,
        exit_code: None,
    }))?;
    let bytes = out.bytes_written();
    out.finish()?;
    Ok(bytes)
}

/// The beginning of a session: the process and its threads.
fn begin(
    out: &mut SessionWriter<BufWriter<File>>,
    process: &str,
    threads: u32,
) -> Result<(), SessionError> {
    out.write(&SessionRecord::Info(SessionInfo {
        tool_version: "0.1.0".into(),
        pid: 4711,
        process_name: process.into(),
        command_line: format!("dotnet {process}.dll"),
        runtime: "9.0.5".into(),
        platform: "linux-x64".into(),
        entry: Entry::Attached,
        start_unix_ms: 1_700_000_000_000,
        start: 0,
        cpus: 64,
        profilers: vec![ProfilerRun {
            id: "cpu".into(),
            engine: "kernel ring".into(),
            rate_hz: Some(1000),
            params: vec![],
        }],
    }))?;
    for id in 0..threads {
        out.write(&SessionRecord::Thread(ThreadDef {
            id: ThreadId(id),
            os_tid: 5000 + id,
            name: Some(format!(".NET TP Worker {id}")),
            managed: true,
            started: None,
            ended: None,
        }))?;
    }
    Ok(())
}

/// What viewers fail at: a stack of 50,000 frames, 10,000 methods side by side, and names of 4 kB.
fn extreme(file: File) -> Result<u64, SessionError> {
    const DEPTH: u32 = 50_000;
    const METHODS: u32 = 10_000;
    const LONG: usize = 4096;
    let mut out = SessionWriter::new(BufWriter::new(file), "0.1.0")?;
    begin(&mut out, "extreme", 1)?;
    for id in 0..METHODS {
        // Each hundredth name is long.
        let name = if id % 100 == 0 { "Long".repeat(LONG / 4) } else { "Short".to_owned() };
        out.write(&SessionRecord::Function(FunctionDef {
            id: FunctionId(id),
            kind: FunctionKind::Managed,
            module: None,
            type_name: "Extreme".into(),
            name: format!("{name}{id}"),
            parameters: "()".into(),
            state_machine: None,
        }))?;
        let (function, trust) = (FunctionId(id), FrameTrust::Tables);
        out.write(&SessionRecord::Frame(FrameDef {
            id: FrameId(id),
            function,
            line: None,
            trust,
        }))?;
    }
    for id in 0..DEPTH + METHODS {
        let parent = (0..DEPTH).contains(&id).then(|| id.checked_sub(1)).flatten();
        let (id, parent, frame) = (StackId(id), parent.map(StackId), FrameId(id % METHODS));
        out.write(&SessionRecord::Stack(StackDef { id, parent, frame }))?;
    }
    let leaves = std::iter::repeat_n(DEPTH - 1, METHODS as usize).chain(DEPTH..DEPTH + METHODS);
    let mut batch = SampleBatch::default();
    for leaf in leaves {
        batch.time_delta.push(1_000_000);
        batch.thread.push(ThreadId(0));
        batch.stack.push(StackId(leaf));
        batch.weight.push(1_000_000);
        batch.state.push(ThreadState::Running);
        batch.truncated.push(false);
    }
    let time = u64::from(2 * METHODS) * 1_000_000;
    out.write(&SessionRecord::CpuSamples(batch))?;
    let reason = EndReason::Stopped;
    out.write(&SessionRecord::End(SessionEnd { time, reason, exit_code: None }))?;
    let bytes = out.bytes_written();
    out.finish()?;
    Ok(bytes)
}
