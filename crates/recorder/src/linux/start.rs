//! What attach and launch have in common: from an agent that said hello to a recorder that runs.

use super::{
    allocation_events::AllocationEvents,
    cpu::CpuSource,
    events::{Collectors, Events},
    link::AgentLink,
    reattach::Loaded,
    recorder::{Out, Recorder, Sources, now},
    room,
    staging::{IDLE_NAME, Staging, random},
    target::Target,
};
use crate::{EngineChoice, Progress, RecordError, RecordOptions, RuleHandle, StopHandle};
use diagnostics::{EventPipeConfig, HResult, Keeper, Port, Provider, processors::CpuGroup};
use profilers::{EventPipeSpec, EventSource, ProfilerSpec, Selection};
use rustix::{
    fs::{self, FileType, Mode, OFlags},
    io::Errno,
};
use sampler::{Binding, OpenError};
use session::{Entry, LiveSink, LiveStream, ProfilerRun, SessionInfo, SessionWriter, Tee, live};
use std::{
    fs::File,
    io::{self, BufWriter},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use wire::{CpuEngine, ProfilerConfig, SessionConfig, sdk::SdkTools};

/// Records that may wait for a live view.
const LIVE_QUEUE: usize = 16 << 10;

/// In the high word of the event mask (corprof.idl): events of the agent's own come to it. Only
/// exceptions do.
const COR_PRF_HIGH_MONITOR_EVENT_PIPE: u32 = 0x80;

/// The profiler that has EventPipe sessions of its own.
const ALLOCATIONS: &str = profilers::allocations::SPEC.id;

/// The level of an EventPipe provider that tells most.
const VERBOSE: u32 = 5;

/// How long the runtime may take to load an agent that only stays.
const MAKE_UP_LIMIT: Duration = Duration::from_secs(5);

/// Most frames of a stack that the agent walks.
const MAX_FRAMES: u32 = 512;

/// Samples per second of the CPU engine: as asked for, and where it runs for other profilers alone
/// no fewer than they have ticks. `None` where no profiler needs it.
pub(super) fn cpu_rate(options: &RecordOptions) -> Option<u32> {
    if runs_cpu(options) {
        return Some(options.rate_hz);
    }
    let shown = options.profilers.iter().filter(|selection| selection.spec.shows_running);
    let rates = shown
        .map(|selection| selection.param("rate").and_then(|rate| rate.parse().ok()).unwrap_or(0));
    rates.max().map(|rate| options.rate_hz.max(rate))
}

fn runs_cpu(options: &RecordOptions) -> bool {
    options.profilers.iter().any(|selection| selection.spec.id == profilers::cpu::SPEC.id)
}

/// Opens the CPU engine that was asked for, or the best that works.
pub(super) fn open_cpu(target: &Target, options: &RecordOptions) -> Result<CpuSource, RecordError> {
    let Some(rate_hz) = cpu_rate(options) else { return Ok(CpuSource::off()) };
    let opened = open_engine(target, options, rate_hz);
    if runs_cpu(options) {
        return opened;
    }
    // Without it the other profilers suspend the runtime, and walk running threads too.
    Ok(opened
        .ok()
        .filter(|source| source.engine != CpuEngine::SuspendWalk)
        .unwrap_or_else(CpuSource::off))
}

fn open_engine(
    target: &Target,
    options: &RecordOptions,
    rate_hz: u32,
) -> Result<CpuSource, RecordError> {
    let ring = |binding| CpuSource::kernel_ring(target.pid, rate_hz, binding);
    let refused =
        |engine, error: OpenError| RecordError::Engine { engine, reason: error.to_string() };
    match options.engine {
        EngineChoice::KernelRing => {
            ring(Binding::Processors).map_err(|error| refused("kernel-ring", error))
        }
        EngineChoice::KernelRingThreads => {
            ring(Binding::Threads).map_err(|error| refused("kernel-ring-threads", error))
        }
        EngineChoice::Signals => Ok(CpuSource::inside(CpuEngine::Signals, rate_hz, None)),
        EngineChoice::SuspendWalk => Ok(CpuSource::inside(CpuEngine::SuspendWalk, rate_hz, None)),
        EngineChoice::Auto => {
            let error = match ring(Binding::Processors) {
                Ok(source) => return Ok(source),
                Err(error) => error.to_string(),
            };
            // Better than to suspend the process, as the agent would where signals cannot be used.
            if let Some(reason) = target.has_no_room_for_signals() {
                match CpuSource::light_kernel_ring(target.pid, rate_hz) {
                    Ok(source) => {
                        return Ok(source.because(&format!(
                            "{error}, and timer signals are unavailable: {reason}"
                        )));
                    }
                    Err(heavy) => {
                        return Ok(CpuSource::inside(CpuEngine::Signals, rate_hz, Some(heavy)));
                    }
                }
            }
            Ok(CpuSource::inside(CpuEngine::Signals, rate_hz, Some(error)))
        }
    }
}

/// What the tightest quota of CPU time of a process's control groups allows, in thousandths of a
/// processor.
fn quota(pid: u32) -> Option<u32> {
    let quotas = CpuGroup::of_process(pid).into_iter().filter_map(|group| group.quota());
    let least = quotas.map(|quota| quota.processors()).min_by(f64::total_cmp)?;
    Some((least * 1000.0) as u32)
}

/// The configuration for the agent of a process, or of those that a process starts.
pub(super) fn config(
    pid: u32,
    place: &Staging,
    options: &RecordOptions,
    cpu: CpuEngine,
    launched: bool,
) -> Result<SessionConfig, RecordError> {
    let mut token = [0; 16];
    for half in token.chunks_mut(8) {
        let bytes = random()
            .map_err(|source| RecordError::Io { what: "reading /dev/urandom".into(), source })?;
        half.copy_from_slice(&bytes.to_le_bytes());
    }
    Ok(SessionConfig {
        protocol: wire::PROTOCOL_VERSION,
        socket: place.socket_path().display().to_string(),
        token,
        profilers: options
            .profilers
            .iter()
            .map(|selection| ProfilerConfig {
                id: selection.spec.id.to_owned(),
                params: selection.params.clone(),
            })
            .collect(),
        cpu,
        rate_hz: cpu_rate(options).unwrap_or(options.rate_hz),
        max_frames: MAX_FRAMES,
        launched,
        sdk_tools: SdkTools::None,
        placeholder: false,
        stays: false,
        quota: quota(pid),
        free_memory: room::free_memory_of(pid),
    })
}

/// What it means that the facts of a process cannot be read: as a rule that it has ended. Of one
/// that is just ending some are gone before the system says that it is.
pub(super) fn no_viewer(pid: u32, source: io::Error) -> RecordError {
    if source.kind() == io::ErrorKind::NotFound
        || Errno::from_io_error(&source) == Some(Errno::SRCH)
    {
        return RecordError::Exited { pid };
    }
    RecordError::Io { what: format!("reading the facts of process {pid}"), source }
}

/// Compensates for a main profiler of ours that detaches from a process that keeps running: loads
/// an instance that does nothing as a notification-only profiler (see
/// [`SessionConfig::placeholder`]). All such instances of a process are in one library. Returns
/// false if there are too many to spend another profiler slot of the runtime on one, or if that
/// library is not found again.
pub(super) fn make_up(pid: u32, options: &RecordOptions) -> Result<bool, RecordError> {
    let process = diagnostics::find_pid(pid)?;
    if !matches!(process.runtime_major_minor(), Some((6.., _))) {
        return Ok(true);
    }
    let port = process.port()?;
    let config = SessionConfig {
        protocol: wire::PROTOCOL_VERSION,
        socket: String::new(),
        token: [0; 16],
        profilers: Vec::new(),
        cpu: CpuEngine::Off,
        rate_hz: 1,
        max_frames: 1,
        launched: false,
        sdk_tools: SdkTools::None,
        placeholder: true,
        stays: false,
        quota: None,
        free_memory: None,
    };
    let load = |library: &Path| {
        let library = library.display().to_string();
        match port.attach_profiler(
            wire::CLSID_NOTIFY_ONLY,
            &library,
            &config.to_bytes(),
            MAKE_UP_LIMIT,
        ) {
            Ok(()) => Ok(true),
            Err(error) => match error.hresult() {
                Some(HResult::PROFILER_CANCEL_ACTIVATION | HResult::PROFILER_ALREADY_ACTIVE) => {
                    Ok(false)
                }
                _ => Err(error),
            },
        }
    };
    let viewer = Target::new(pid)
        .and_then(|target| target.viewer())
        .map_err(|source| no_viewer(pid, source))?;
    let Some(known) = Loaded::of(pid).placeholder else {
        let place = Staging::make_named(&viewer, &options.agent, IDLE_NAME)?;
        return match load(&place.agent_path()) {
            // Somebody may have removed it before it was loaded.
            Err(error) if error.hresult() == Some(HResult::MODULE_NOT_FOUND) => {
                let place = Staging::make_named(&viewer, &options.agent, IDLE_NAME)?;
                Ok(load(&place.agent_path())?)
            }
            result => Ok(result?),
        };
    };
    // Its file is removed; a library that is loaded is found by its name all the same (dlopen(3) of
    // glibc).
    for name in viewer.names_of(&known) {
        match load(&name) {
            Err(error) if error.hresult() == Some(HResult::MODULE_NOT_FOUND) => {}
            result => return Ok(result?),
        }
    }
    // Another library would be left, and one more each time.
    Ok(false)
}

/// The sessions for all profilers that listen to events of a runtime of this major version, but for
/// `allocations`.
///
/// What is verbose of the runtime's main provider has one of its own: in one with events of
/// collections it would bring a stack walk for each 100 KB that are allocated.
fn event_pipes(options: &RecordOptions, major: u16, session: &str) -> Vec<EventPipeConfig> {
    let of = |verbose: bool| {
        let mut config = EventPipeConfig::new(Vec::new());
        for selection in
            options.profilers.iter().filter(|selection| selection.spec.id != ALLOCATIONS)
        {
            for source in selection.event_sources(major, session) {
                let is_verbose = source.level >= VERBOSE && source.provider == Provider::RUNTIME;
                if is_verbose == verbose {
                    config.stacks |= source.stacks;
                    add_source(&mut config.providers, source);
                }
            }
        }
        config
    };
    [of(false), of(true)].into_iter().filter(|config| !config.providers.is_empty()).collect()
}

fn add_source(providers: &mut Vec<Provider>, source: EventSource) {
    let EventSource { provider: name, keywords, level, arguments, .. } = source;
    match providers.iter_mut().find(|provider| provider.name == name) {
        Some(provider) => {
            provider.keywords |= keywords;
            provider.level = provider.level.max(level);
            provider.arguments = both_arguments(&provider.arguments, &arguments);
        }
        None => providers.push(Provider { name, keywords, level, arguments }),
    }
}

/// Whether some runtime would be asked for event sessions.
pub(super) fn wants_events(options: &RecordOptions) -> bool {
    let newest = u16::MAX;
    options.profilers.iter().any(|selection| selection.spec.id == ALLOCATIONS)
        || !event_pipes(options, newest, "").is_empty()
}

/// The sessions for `allocations`, which are apart: they come and go ([`AllocationEvents`]).
fn allocation_events(
    keeper: Keeper,
    selection: &Selection,
    port: Option<&Port>,
    pid: u32,
    major: u16,
) -> Result<AllocationEvents, RecordError> {
    let mut config = EventPipeConfig::new(Vec::new());
    for source in selection.event_sources(major, "") {
        config.stacks |= source.stacks;
        add_source(&mut config.providers, source);
    }
    let most = selection.param("samples").and_then(|most| most.parse().ok()).unwrap_or(u64::MAX);
    AllocationEvents::start(keeper, port, pid, config, most)
}

/// The arguments that two profilers give one provider. Where both give a number under one name
/// (seconds between values) it is the lesser.
fn both_arguments(first: &str, second: &str) -> String {
    let mut all: Vec<(&str, &str)> = Vec::new();
    let pairs = [first, second]
        .into_iter()
        .flat_map(|text| text.split(';'))
        .filter(|pair| !pair.is_empty());
    for (name, value) in pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))) {
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => {
                if let (Ok(one), Ok(other)) = (known.parse::<u64>(), value.parse::<u64>())
                    && other < one
                {
                    *known = value;
                }
            }
            None => all.push((name, value)),
        }
    }
    let all = all.into_iter().map(|(name, value)| {
        if value.is_empty() { name.to_owned() } else { format!("{name}={value}") }
    });
    all.collect::<Vec<_>>().join(";")
}

/// Refuses profilers that would endanger a process on this runtime. Returns the others, and a note
/// on each optional one that is left out.
pub(super) fn fit_to_runtime(
    options: &RecordOptions,
    pid: u32,
    runtime: (u16, u16),
) -> Result<(RecordOptions, Vec<String>), RecordError> {
    let (fit, too_old): (Vec<_>, Vec<_>) =
        options.profilers.iter().cloned().partition(|selection| runtime.0 >= selection.spec.since);
    if let Some(Selection { spec, .. }) = too_old.iter().find(|selection| !selection.optional) {
        let ProfilerSpec { id: profiler, since, too_old: why, .. } = spec;
        return Err(RecordError::RuntimeTooOld { profiler, pid, since: *since, why, runtime });
    }
    let note = |selection: &Selection| {
        let ProfilerSpec { id, since, .. } = selection.spec;
        format!("{id} was left out: it is not safe on runtimes older than .NET {since}")
    };
    let notes = too_old.iter().map(note).collect();
    Ok((RecordOptions { profilers: fit, ..options.clone() }, notes))
}

/// Refuses profilers that cannot be in one recording.
pub(super) fn check_together(options: &RecordOptions) -> Result<(), RecordError> {
    let runs = |id: &str| options.profilers.iter().any(|selection| selection.spec.id == id);
    if runs(profilers::trace::SPEC.id) && options.instrument.is_none() {
        return Err(RecordError::NoRules);
    }
    let survivors = profilers::survivors::SPEC.id;
    // Both would have the runtime report the same collections.
    let snapshots = [profilers::heap::SPEC.id, profilers::r#async::SPEC.id]
        .into_iter()
        .find(|snapshots| runs(snapshots));
    match snapshots.filter(|_| runs(survivors)) {
        Some(snapshots) => Err(RecordError::NotTogether(snapshots, survivors)),
        None => Ok(()),
    }
}

/// The number of heap snapshots after which a recording that is for them ends; `None` for one that
/// continues. The samples taken along with snapshots for `async` are of the time between them.
fn last_snapshot(options: &RecordOptions) -> Option<u32> {
    let snapshots = |id: &str| {
        options
            .profilers
            .iter()
            .find(|selection| selection.spec.id == id)?
            .param("snapshots")?
            .parse()
            .ok()
    };
    let only =
        |ids: &[&str]| options.profilers.iter().all(|selection| ids.contains(&selection.spec.id));
    if only(&["heap", "async"]) {
        return snapshots("heap").or_else(|| snapshots("async"));
    }
    let ends = options.duration.is_none() && only(&["async", "cpu", "wall"]);
    if ends { snapshots("async") } else { None }
}

/// The engine that a launch asks the agent for: the choice is made before there is a process.
/// Whether signals can be used there is for the agent to find out.
pub(super) fn engine_for_launch(options: &RecordOptions) -> Result<CpuEngine, RecordError> {
    let own = Target::new(std::process::id())
        .map_err(|source| RecordError::Io { what: "reading /proc/self/stat".into(), source })?;
    match (options.engine, cpu_rate(options)) {
        (EngineChoice::Auto, Some(rate_hz)) => {
            let ring = CpuSource::kernel_ring(own.pid, rate_hz, Binding::Processors);
            Ok(if ring.is_ok() { CpuEngine::KernelRing } else { CpuEngine::Signals })
        }
        _ => open_cpu(&own, options).map(|source| source.engine),
    }
}

/// Opens the engine that the agent of a launch was asked for: another one beside it would take each
/// sample twice. Where that is the kernel's ring and it cannot be opened for this process, the
/// agent is to sample by itself ([`wire::Control::SampleInside`]).
pub(super) fn open_chosen(
    target: &Target,
    options: &RecordOptions,
    asked: CpuEngine,
) -> Result<CpuSource, RecordError> {
    match (options.engine, asked, cpu_rate(options)) {
        (EngineChoice::Auto, CpuEngine::KernelRing | CpuEngine::Signals, Some(rate_hz)) => {
            let ring = CpuSource::kernel_ring(target.pid, rate_hz, Binding::Processors);
            Ok(match ring {
                Ok(ring) if asked == CpuEngine::KernelRing => ring,
                ring => CpuSource::inside(
                    CpuEngine::Signals,
                    rate_hz,
                    ring.err().map(|error| error.to_string()),
                ),
            })
        }
        _ => open_cpu(target, options),
    }
}

/// Both ends of the live view, where one was asked for.
pub(super) fn live_pair(options: &RecordOptions) -> (Option<LiveSink>, Option<LiveStream>) {
    options.live.then(|| live(LIVE_QUEUE)).unzip()
}

/// A session file that is removed again unless something was recorded into it. It is created first
/// of all, so that a path that cannot be written is reported before the target is touched.
#[derive(Debug)]
pub(super) struct OutputFile {
    path: PathBuf,
    file: Option<File>,
}

impl OutputFile {
    pub fn create(path: &Path) -> Result<Self, RecordError> {
        // The first says what is there instead; the second does not depend on what is exchanged
        // meanwhile.
        match session::check_file(path).and_then(|()| create_regular(path)) {
            Ok(file) => Ok(Self { path: path.to_owned(), file: Some(file) }),
            Err(source) => {
                Err(RecordError::Output { path: path.to_owned(), source: source.into() })
            }
        }
    }

    fn writer(mut self) -> Result<SessionWriter<BufWriter<File>>, RecordError> {
        let Some(file) = self.file.take() else { unreachable!("a file is taken once") };
        let path = std::mem::take(&mut self.path);
        SessionWriter::new(BufWriter::new(file), env!("CARGO_PKG_VERSION"))
            .map_err(|source| RecordError::Output { path, source })
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            // Nothing was recorded; a file that is gone already is as good.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Makes a file, or empties one that is there. Nothing but a regular file is opened: a FIFO without
/// a reader would hold us up, and one whose reader goes loses the session. A link is not followed,
/// since in a folder of another user it may lead to any file of ours; nor is one emptied that has
/// other names, as another user may have given it this one.
fn create_regular(path: &Path) -> io::Result<File> {
    let refused = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
    let flags =
        OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let named =
        match fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Ok(named) => named,
            Err(Errno::NOENT) => {
                return Ok(fs::open(
                    path,
                    flags | OFlags::CREATE | OFlags::EXCL,
                    Mode::from(0o666),
                )?
                .into());
            }
            Err(error) => return Err(error.into()),
        };
    let status = fs::fstat(&named)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile if status.st_nlink > 1 => {
            return Err(refused(
                "it has several names (hard links), and would be emptied under all of them",
            ));
        }
        FileType::RegularFile => {}
        FileType::Symlink => return Err(refused("it is a symbolic link, which is not followed")),
        FileType::Directory => return Err(io::ErrorKind::IsADirectory.into()),
        _ => {
            return Err(refused(
                "it is not a regular file, and a session is written into nothing else",
            ));
        }
    }
    // Through the descriptor, so that it is the file that was looked at.
    let path = format!("/proc/self/fd/{}", named.as_raw_fd());
    let flags =
        OFlags::WRONLY | OFlags::TRUNC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(fs::open(path, flags, Mode::empty())?.into())
}

/// How stacks of all threads are taken where they are walked under suspension.
pub(super) const BY_WALKING: &str = "suspend and walk, only threads that ran since the last tick";

/// How stacks of all threads are taken beside this source of CPU samples, as far as can be said
/// before.
fn stacks_by(cpu: &CpuSource) -> String {
    match cpu.reads_blocked() {
        true => {
            format!(
                "blocked threads: copies of their stacks; running threads: CPU samples ({})",
                cpu.description()
            )
        }
        false => BY_WALKING.to_owned(),
    }
}

/// An agent that said hello, and what is needed to record with it.
pub(super) struct Start {
    pub target: Target,
    pub link: AgentLink,
    pub cpu: CpuSource,
    pub entry: Entry,
    pub name: String,
    pub command_line: String,
    pub port: Option<Port>,
    /// The keeper for event sessions, where one was started ahead.
    pub keeper: Option<Keeper>,
    pub output: Option<OutputFile>,
    pub live: Option<LiveSink>,
    pub stop: StopHandle,
    pub rules: RuleHandle,
    pub progress: Arc<Mutex<Progress>>,
    /// Where the exit code of the process will stand, if it is the command that we launched.
    pub exit_code: Option<Arc<OnceLock<i32>>>,
    /// When the runtime was asked to load the agent; `None` where it did so as it started.
    pub requested: Option<u64>,
    /// Whether the agent was there before, and stays.
    pub stays: bool,
    /// Name of the agent's file.
    pub library: String,
}

impl Start {
    /// Opens the session file and the EventPipe session.
    pub fn recorder(mut self, options: &RecordOptions) -> Result<Recorder, RecordError> {
        let [major, minor, ..] = self.link.hello.runtime;
        let (options, notes) = fit_to_runtime(options, self.target.pid, (major, minor))?;
        let options = &options;
        let path = self.output.as_ref().map(|output| output.path.clone());
        let writer = self.output.take().map(OutputFile::writer).transpose()?;
        let out: Out = Tee(writer, self.live.take());
        let (events, allocations) = self.event_sessions(options)?;
        let info = self.info(options);
        let sources = Sources {
            target: self.target,
            link: self.link,
            cpu: self.cpu,
            engine: options.engine,
            events,
            allocations,
            info,
            path,
            out,
            duration: options.duration,
            last_snapshot: last_snapshot(options),
            rules: self.rules,
            dry: options.profilers.iter().any(|selection| {
                selection.spec.id == profilers::trace::SPEC.id
                    && selection.param("dry") == Some("yes")
            }),
            stop: self.stop,
            progress: self.progress,
            exit_code: self.exit_code,
            requested: self.requested,
            stays: self.stays,
            library: self.library,
        };
        let mut recorder = Recorder::new(sources, notes);
        // This comes before a launched process is resumed.
        recorder.instrument()?;
        Ok(recorder)
    }

    /// Starts the EventPipe sessions that profilers need.
    fn event_sessions(
        &mut self,
        options: &RecordOptions,
    ) -> Result<(Vec<Events>, Option<AllocationEvents>), RecordError> {
        let session = format!("clrscope-{}-{}", std::process::id(), now());
        let major = self.link.hello.runtime[0];
        let configs = event_pipes(options, major, &session);
        let allocates = options.profilers.iter().find(|selection| selection.spec.id == ALLOCATIONS);
        let mut events = Vec::new();
        if configs.is_empty() && allocates.is_none() {
            return Ok((events, None));
        }
        let keeper = self.keeper.take().map_or_else(Keeper::start, Ok)?;
        let runs = |id: &str| options.profilers.iter().any(|selection| selection.spec.id == id);
        for config in configs {
            let collectors = Collectors::new(runs, &session);
            events.push(match &self.port {
                Some(port) => Events::start(keeper.clone(), port, &config, collectors)?,
                None => Events::start_later(keeper.clone(), self.target.pid, config, collectors)?,
            });
        }
        let allocations = allocates
            .map(|selection| {
                allocation_events(keeper, selection, self.port.as_ref(), self.target.pid, major)
            })
            .transpose()?;
        Ok((events, allocations))
    }

    fn info(&mut self, options: &RecordOptions) -> SessionInfo {
        let [major, minor, build, _] = self.link.hello.runtime;
        SessionInfo {
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: self.target.pid,
            process_name: std::mem::take(&mut self.name),
            command_line: std::mem::take(&mut self.command_line),
            runtime: format!("{major}.{minor}.{build}"),
            platform: format!(
                "linux-{}",
                if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" }
            ),
            entry: self.entry,
            start_unix_ms: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |time| time.as_millis() as u64),
            start: now(),
            cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
            profilers: options
                .profilers
                .iter()
                .map(|selection| ProfilerRun {
                    id: selection.spec.id.to_owned(),
                    engine: self.engine(selection.spec.id),
                    rate_hz: match selection.spec.id {
                        "cpu" => Some(options.rate_hz),
                        _ => selection.param("rate").and_then(|rate| rate.parse().ok()),
                    },
                    params: selection.params.clone(),
                })
                .collect(),
        }
    }

    /// How a profiler gets what it shows.
    fn engine(&self, profiler: &str) -> String {
        let major = self.link.hello.runtime[0];
        let by_events = self.link.hello.event_mask.1 & COR_PRF_HIGH_MONITOR_EVENT_PIPE != 0;
        match profiler {
            "cpu" => self.cpu.description().to_owned(),
            "wall" => stacks_by(&self.cpu),
            "exceptions" if by_events => "runtime events, adaptive sampling".to_owned(),
            "exceptions" => "runtime callbacks, adaptive sampling".to_owned(),
            "threads" => {
                format!("{}; the kernel's own figures; EventPipe for starts", stacks_by(&self.cpu))
            }
            "threadpool" if major < EventPipeSpec::EVENT_COUNTERS.0 => {
                format!("{}; EventPipe", stacks_by(&self.cpu))
            }
            "threadpool" => format!("{}; EventPipe, EventCounters", stacks_by(&self.cpu)),
            "allocations" if major >= 10 => {
                "EventPipe, AllocationSampled: randomly sampled, unbiased".to_owned()
            }
            "allocations" => "EventPipe, GCAllocationTick: one for each 100 KB, biased".to_owned(),
            "exact-allocations" => "runtime callbacks, every object".to_owned(),
            "heap" => "forced collections, every surviving object".to_owned(),
            "async" => "forced collections, every surviving task and its state".to_owned(),
            "survivors" => "runtime callbacks of the program's own collections".to_owned(),
            "calls" => "enter and leave hooks, every call".to_owned(),
            "transitions" => "runtime callbacks, every call".to_owned(),
            "trace" => "rewritten methods, every call".to_owned(),
            _ => "EventPipe".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AgentFile;

    fn options(profilers: &str, duration: Option<u64>) -> RecordOptions {
        RecordOptions {
            profilers: Selection::parse_list(profilers).unwrap(),
            rate_hz: 100,
            engine: EngineChoice::Auto,
            duration: duration.map(Duration::from_secs),
            output: None,
            instrument: None,
            live: false,
            sdk_tools: false,
            agent: AgentFile::Embedded(&[]),
        }
    }

    #[test]
    fn a_profiler_that_is_too_new_is_refused_or_left_out() {
        let ids = |options: RecordOptions| -> Vec<&str> {
            options.profilers.iter().map(|selection| selection.spec.id).collect()
        };
        let (fit, notes) = fit_to_runtime(&options("cpu,counters", None), 1, (6, 0)).unwrap();
        assert_eq!((ids(fit), notes), (vec!["cpu", "counters"], Vec::<String>::new()));
        let refused = fit_to_runtime(&options("cpu,counters", None), 1, (5, 0)).unwrap_err();
        let expected = "the profiler counters needs .NET 6 or newer, and process 1 runs .NET 5.0: ";
        assert!(refused.to_string().starts_with(expected), "{refused}");
        let mut optional = options("cpu,counters", None);
        optional.profilers[1].optional = true;
        let (fit, notes) = fit_to_runtime(&optional, 1, (3, 1)).unwrap();
        let expected = "counters was left out: it is not safe on runtimes older than .NET 6";
        assert_eq!((ids(fit), notes), (vec!["cpu"], vec![expected.to_owned()]));
    }

    #[test]
    fn a_session_goes_into_a_regular_file_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        drop(create_regular(&path("new")).unwrap());
        std::fs::write(path("old"), "old").unwrap();
        drop(create_regular(&path("old")).unwrap());
        assert_eq!(std::fs::read(path("old")).unwrap(), b"");
        std::fs::write(path("victim"), "victim").unwrap();
        std::os::unix::fs::symlink(path("victim"), path("link")).unwrap();
        std::os::unix::fs::symlink(path("nowhere"), path("dangling")).unwrap();
        fs::mknodat(fs::CWD, path("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        for name in ["link", "dangling", "fifo", ".", "/dev/full", "none/x"] {
            let error = OutputFile::create(&path(name)).unwrap_err();
            assert_eq!(error.exit_code(), 6, "{name}: {error}");
        }
        assert_eq!(std::fs::read(path("victim")).unwrap(), b"victim");
        assert!(!path("nowhere").exists());
    }

    #[test]
    fn a_process_that_is_ending_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let target = Target::new(pid).unwrap();
        target.viewer().unwrap();
        child.kill().unwrap();
        // A zombie still has a status, and no root directory any more.
        while target.is_alive() {
            std::thread::yield_now();
        }
        let of_zombie = target.viewer().map_err(|source| no_viewer(pid, source).exit_code());
        child.wait().unwrap();
        let of_none = target.viewer().map_err(|source| no_viewer(pid, source).exit_code());
        assert_eq!((of_zombie.err(), of_none.err()), (Some(5), Some(5)));
        assert_eq!(no_viewer(pid, io::ErrorKind::PermissionDenied.into()).exit_code(), 6);
    }

    #[test]
    fn what_is_verbose_is_asked_for_apart() {
        let of = |profilers: &str, major| {
            let configs = event_pipes(&options(profilers, None), major, "s");
            let facts = |config: &EventPipeConfig| {
                let runtime =
                    config.providers.iter().find(|provider| provider.name == Provider::RUNTIME);
                runtime.map(|provider| (provider.keywords, provider.level, config.stacks))
            };
            configs.iter().map(facts).collect::<Vec<_>>()
        };
        assert_eq!(of("cpu,wall", 9), []);
        assert_eq!(of("gc,locks", 9), [Some((0x4001, 4, true))]);
        assert_eq!(of("gc,jit", 9), [Some((1, 4, true)), Some((0x30_0000_0010, 5, true))]);
        // It comes and goes.
        assert_eq!(of("gc,allocations", 9), [Some((1, 4, true))]);
        assert_eq!(of("allocations", 10), []);
        let wants = ["cpu,wall", "gc", "allocations", "exceptions"]
            .map(|list| wants_events(&options(list, None)));
        assert_eq!(wants, [false, true, true, false]);
    }

    #[test]
    fn the_cpu_engine_runs_for_those_that_show_running_threads() {
        let rate = |profilers: &str| cpu_rate(&options(profilers, None));
        assert_eq!(rate("gc,exceptions"), None);
        assert_eq!(rate("cpu,wall:rate=50"), Some(100));
        assert_eq!(
            (rate("wall"), rate("threads"), rate("threadpool:rate=100")),
            (Some(100), Some(100), Some(100))
        );
        let target = Target::new(std::process::id()).unwrap();
        let source = |engine, profilers: &str| {
            open_cpu(&target, &RecordOptions { engine, ..options(profilers, None) }).unwrap().engine
        };
        assert_eq!(source(EngineChoice::SuspendWalk, "cpu,wall"), CpuEngine::SuspendWalk);
        assert_eq!(source(EngineChoice::SuspendWalk, "wall"), CpuEngine::Off);
        assert_eq!(source(EngineChoice::Signals, "wall"), CpuEngine::Signals);
        assert_eq!(source(EngineChoice::Auto, "gc"), CpuEngine::Off);
    }

    #[test]
    fn a_recording_for_looks_ends_with_the_last_one() {
        for (profilers, duration, last) in [
            ("heap:snapshots=3", None, Some(3)),
            ("heap:snapshots=3,gc", None, None),
            ("async", None, Some(2)),
            ("async:snapshots=4,cpu,wall", None, Some(4)),
            ("async:snapshots=4,cpu,wall", Some(9), None),
            ("heap:snapshots=3,async:snapshots=5", None, Some(3)),
            ("cpu,wall", None, None),
        ] {
            assert_eq!(last_snapshot(&options(profilers, duration)), last, "{profilers}");
        }
    }

    #[test]
    fn arguments_of_one_provider_are_put_together() {
        assert_eq!(
            both_arguments("EventCounterIntervalSec=5", "EventCounterIntervalSec=1"),
            "EventCounterIntervalSec=1"
        );
        assert_eq!(
            both_arguments("EventCounterIntervalSec=1", "EventCounterIntervalSec=5"),
            "EventCounterIntervalSec=1"
        );
        assert_eq!(both_arguments("a=1;b=x", "c=2"), "a=1;b=x;c=2");
        assert_eq!(both_arguments("", "c=2"), "c=2");
    }
}
