//! Looks at a heap: of a running process, of a session file, of a `.gcdump`.

use crate::{
    agent::AgentArgs,
    commands::heap::no_snapshot,
    exit::{Code, failure},
    recording::{self, Attendant, SessionFile},
    session_file,
};
use anyhow::Context;
use heap::{
    Extent, Generation, MemoryBudget, Root, RootKind, Snapshot, SnapshotBuilder, SnapshotEnd,
    gcdump,
};
use profilers::{Selection, heap::SnapshotKind};
use recorder::Summary;
use session::{HeapEnd, SessionError, SessionInfo, SessionReader, SessionRecord};
use std::{
    fs::{self, File},
    io::{BufReader, Read},
    path::{Path, PathBuf},
};
use wire::heap::{
    FIELD_CONTINUATION, FIELD_STATE, HeapItem, ROOT_INTERIOR, ROOT_PINNING, ROOT_WEAK,
};

/// How snapshots of a running process are taken.
#[derive(clap::Args, Debug)]
pub struct TakeArgs {
    /// Session file to keep [default: none is kept]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Do not compare the contents of strings
    #[arg(long)]
    no_strings: bool,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    agent: AgentArgs,
}

/// How much memory an analysis may take.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct MemoryArgs {
    /// Memory limit for the analysis, in MB; references beyond half of it go to a temporary file
    #[arg(long = "memory", value_name = "MB", default_value_t = 3072, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    megabytes: u64,
}

impl MemoryArgs {
    fn budget(self) -> MemoryBudget {
        MemoryBudget { bytes: self.megabytes << 20, folder: None }
    }
}

impl Default for MemoryArgs {
    fn default() -> Self {
        Self { megabytes: MemoryBudget::default().bytes >> 20 }
    }
}

impl TakeArgs {
    /// For the analysis of what is read.
    pub fn memory(&self) -> MemoryArgs {
        self.memory
    }
}

/// What the user named.
pub enum Source {
    /// A running process.
    Process(Box<diagnostics::DotnetProcess>),
    /// A file of ours.
    Session(PathBuf),
    /// A file of `dotnet-gcdump` or PerfView.
    Gcdump(PathBuf),
}

impl Source {
    /// A file if there is one of that name with snapshots in it, else a process.
    pub fn find(name: &str) -> anyhow::Result<Self> {
        let path = Path::new(name);
        if path.is_file() && name.parse::<u32>().is_err() {
            let mut head = [0; 32];
            let mut file = File::open(path).with_context(|| format!("cannot open {name}"))?;
            let length = file.read(&mut head).with_context(|| format!("cannot read {name}"))?;
            if gcdump::is_gcdump(&head[..length]) {
                return Ok(Self::Gcdump(path.to_owned()));
            }
            // The reader reports a damaged session. A program of that name is none of these.
            let named = |extension: &str| path.extension().is_some_and(|own| own == extension);
            if named(session::EXTENSION)
                || SessionReader::new(BufReader::new(File::open(path)?)).is_ok()
            {
                return Ok(Self::Session(path.to_owned()));
            }
            if named("gcdump") {
                return Err(failure(
                    Code::BadSession,
                    format!("{name}: {}", gcdump::GcdumpError::NotGcdump),
                ));
            }
        } else if [session::EXTENSION, "gcdump"]
            .iter()
            .any(|own| path.extension().is_some_and(|given| given == *own))
        {
            let next = "check the path; `clrscope heap <PID> -o FILE` takes a snapshot";
            return Err(failure(Code::File, format!("there is no file {name}: {next}")));
        }
        Ok(Self::Process(Box::new(diagnostics::find(name)?)))
    }
}

/// Seconds for which a snapshot of roots waits for the program to collect its youngest objects.
const ROOTS_LIMIT: u32 = 30;

/// Takes snapshots of a process, one in each `every` seconds.
pub fn take(
    target: &diagnostics::DotnetProcess,
    args: &TakeArgs,
    extent: Extent,
    snapshots: u32,
    every: u64,
    attendant: &dyn Attendant,
) -> anyhow::Result<(SessionFile, Summary)> {
    let strings = if args.no_strings { "off" } else { "on" };
    let kind = match extent {
        Extent::All => String::new(),
        Extent::Histogram => ":kind=histogram".to_owned(),
        Extent::Roots => format!(":kind=roots:limit={ROOTS_LIMIT}"),
    };
    let selection = Selection::parse(&format!(
        "heap:snapshots={snapshots}:every={every}:strings={strings}{kind}"
    ))
    .map_err(|error| failure(Code::Usage, error.to_string()))?;
    let output = args.output.as_deref();
    recording::take_snapshots(target, vec![selection], output, &args.agent, attendant)
}

/// One snapshot of a process, kept nowhere.
pub fn snapshot_once(
    target: &diagnostics::DotnetProcess,
    agent: &AgentArgs,
    attendant: &dyn Attendant,
) -> anyhow::Result<Snapshot> {
    let memory = MemoryArgs::default();
    let args = TakeArgs { output: None, no_strings: false, memory, agent: agent.clone() };
    let (file, summary) = take(target, &args, Extent::All, 1, 10, attendant)?;
    let mut found = None;
    read_session(file.path(), memory, |_| true, |snapshot| found = Some(snapshot))?;
    found.filter(|snapshot| !snapshot.is_empty()).ok_or_else(|| no_snapshot(&summary))
}

/// What became of reading a session.
#[derive(Debug, Default)]
pub struct Reading {
    /// How many snapshots there are.
    pub snapshots: u32,
    /// Why the end of the file could not be read.
    pub damage: Option<String>,
}

/// Reads the snapshots of a session, in order, those that are wanted by their number from 0 on.
pub fn read_session(
    path: &Path,
    memory: MemoryArgs,
    wanted: impl Fn(u32) -> bool,
    mut take: impl FnMut(Snapshot),
) -> anyhow::Result<Reading> {
    let file = session_file::open(path)?;
    let mut reader =
        SessionReader::new(BufReader::new(file)).with_context(|| format!("{}", path.display()))?;
    let mut read = Reading::default();
    let mut info: Option<SessionInfo> = None;
    let mut open: Option<Building> = None;
    for record in &mut reader {
        match record {
            Ok(SessionRecord::Info(first)) => info = Some(first),
            Ok(SessionRecord::HeapBegin { snapshot, time }) => {
                read.snapshots += 1;
                open = wanted(snapshot).then(|| Building::new(time, memory.budget()));
            }
            Ok(SessionRecord::HeapEnd(end)) => {
                if let Some(snapshot) = open.take() {
                    take(snapshot.finish(info.as_ref(), Some(end)));
                }
            }
            Ok(record) => {
                if let Some(snapshot) = &mut open {
                    snapshot.add(&record);
                }
            }
            Err(SessionError::Io(error)) => {
                return Err(error).with_context(|| format!("{}", path.display()));
            }
            Err(error) => {
                read.damage = Some(error.to_string());
                break;
            }
        }
    }
    if read.damage.is_none() && reader.cut_short() {
        read.damage = Some("the session was cut short".to_owned());
    }
    if let Some(snapshot) = open {
        take(snapshot.finish(info.as_ref(), None));
    }
    Ok(read)
}

/// A `.gcdump` file.
pub fn read_gcdump(path: &Path, memory: MemoryArgs) -> anyhow::Result<Snapshot> {
    let budget = memory.budget();
    let length =
        fs::metadata(path).with_context(|| format!("cannot open {}", path.display()))?.len();
    if length > budget.bytes {
        let message = format!(
            "{} has {} MB, which is more than fits into memory",
            path.display(),
            length >> 20
        );
        return Err(failure(Code::BadSession, message));
    }
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    gcdump::read(&bytes, budget)
        .map_err(|error| failure(Code::BadSession, format!("{}: {error}", path.display())))
}

/// Writes a `.gcdump` file, whole or not at all.
pub fn write_gcdump(snapshot: &Snapshot, path: &Path) -> anyhow::Result<u64> {
    let file =
        session::create_file(path).with_context(|| format!("cannot write {}", path.display()))?;
    gcdump::write(snapshot, std::io::BufWriter::new(file)).map_err(|error| {
        drop(fs::remove_file(path));
        failure(Code::File, format!("cannot write {}: {error}", path.display()))
    })
}

/// A snapshot whose end has not come.
struct Building {
    builder: SnapshotBuilder,
    time: u64,
    /// What could not be read of it.
    damage: Option<String>,
}

impl Building {
    fn new(time: u64, budget: MemoryBudget) -> Self {
        Self { builder: SnapshotBuilder::new(budget), time, damage: None }
    }

    fn add(&mut self, record: &SessionRecord) {
        match record {
            SessionRecord::HeapChunk { bytes, .. } => {
                let builder = &mut self.builder;
                for item in wire::heap::decode(bytes) {
                    match item {
                        Ok(item) => add(builder, item),
                        Err(error) => self.damage = Some(error.to_string()),
                    }
                }
            }
            SessionRecord::HeapClasses { classes, .. } => {
                for (class, name, module) in classes {
                    self.builder.class(*class, name, module);
                }
            }
            SessionRecord::HeapMethods { methods, .. } => {
                for (method, name) in methods {
                    self.builder.root_name(*method, name.as_str());
                }
            }
            SessionRecord::HeapStatics { fields, .. } => {
                for field in fields {
                    self.builder.static_field(field.address, &field.name);
                }
            }
            SessionRecord::HeapFields { classes, .. } => {
                for class in classes {
                    let fields = class.fields.iter();
                    let fields = fields.map(|field| (field.offset, field.name.clone(), field.kind));
                    self.builder.class_fields(class.class, class.parent, fields);
                }
            }
            _ => {}
        }
    }

    fn finish(self, info: Option<&SessionInfo>, end: Option<HeapEnd>) -> Snapshot {
        let start = info.map_or(0, |info| info.start);
        let reasons = [
            end.as_ref().and_then(|end| end.reason.clone()),
            end.is_none().then(|| "the session ends before the snapshot does".to_owned()),
            self.damage.clone(),
        ];
        let time = self.time.saturating_sub(start);
        self.builder.finish(SnapshotEnd {
            time,
            unix_ms: info.map_or(0, |info| info.start_unix_ms + time / 1_000_000),
            pause_ns: end.as_ref().map(|end| end.paused).filter(|paused| *paused > 0),
            extent: info.map_or(Extent::All, extent),
            complete: self.damage.is_none() && end.is_some_and(|end| end.complete),
            reason: reasons.into_iter().flatten().collect::<Vec<_>>().join("; "),
            process: info.map(|info| info.process_name.clone()).unwrap_or_default(),
            pid: info.map_or(0, |info| info.pid),
            runtime: info.map(|info| format!(".NET {}", info.runtime)).unwrap_or_default(),
        })
    }
}

/// What the snapshots of a session were meant to contain.
fn extent(info: &SessionInfo) -> Extent {
    // Where tasks are looked for, snapshots contain everything.
    if info.profilers.iter().any(|run| run.id == profilers::r#async::SPEC.id) {
        return Extent::All;
    }
    let run = info.profilers.iter().find(|run| run.id == profilers::heap::SPEC.id);
    let kind = run.and_then(|run| run.params.iter().find(|(name, _)| name == "kind"));
    match kind.map(|(_, value)| SnapshotKind::by_name(value)) {
        Some(SnapshotKind::Histogram) => Extent::Histogram,
        Some(SnapshotKind::Roots) => Extent::Roots,
        Some(SnapshotKind::All) | None => Extent::All,
    }
}

fn add(builder: &mut SnapshotBuilder, item: HeapItem<'_>) {
    match item {
        HeapItem::Object { address, class, size, fields } => {
            builder.object(address, class, size);
            builder.words(fields);
        }
        HeapItem::Reference { target } => builder.reference(target),
        HeapItem::Root { target, kind, flags, id } => {
            use wire::heap::RootKind as Kind;
            // Other kinds have an id without meaning, which could be taken for that of a method.
            let (kind, id) = match kind {
                Kind::Stack => (RootKind::Stack, id),
                Kind::Handle => (RootKind::Handle, 0),
                Kind::Finalizer => (RootKind::Finalizer, 0),
                Kind::Other => (RootKind::Other, 0),
            };
            let is = |flag: u8| flags & flag != 0;
            let (pinned, weak, interior) = (is(ROOT_PINNING), is(ROOT_WEAK), is(ROOT_INTERIOR));
            builder.root(Root { target, kind, pinned, weak, interior, id });
        }
        HeapItem::Dependent { key, value, .. } => builder.dependent_handle(key, value),
        HeapItem::Generation { generation, start, length, .. } => {
            builder.generation(Generation { generation, start, length });
        }
        HeapItem::StringContent { address, hash, length, text } => {
            builder.string(address, hash, length, text)
        }
        HeapItem::Field { object, field: FIELD_STATE, value } => {
            builder.state(object, value as u32 as i32)
        }
        HeapItem::Field { object, field: FIELD_CONTINUATION, value } => {
            builder.continuation(object, value)
        }
        HeapItem::Slot { address, target } => builder.slot(address, target),
        HeapItem::Field { .. } | HeapItem::Origin { .. } | HeapItem::Sum { .. } => {}
    }
}
