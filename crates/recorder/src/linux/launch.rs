use super::{
    clock::now,
    cpu::CpuSource,
    link::{self, AgentLink, Peer},
    other_users::{self, OtherUser},
    reattach::LoadTurn,
    recording::{Recording, Worker},
    room,
    staging::{BACKLOG, Staging, Viewer},
    start::{self, OutputFile, Start},
    target::Target,
};
use crate::{
    LaunchCommand, Progress, RecordError, RecordOptions, RuleHandle, SessionSummary, StopHandle,
    Summary,
};
use diagnostics::{Keeper, Port, clsid_text, proc};
use rustix::process::{Pid, PidfdFlags, Resource, geteuid, getrlimit, pidfd_open, setrlimit};
use session::{Entry, LiveSink};
use std::{
    ffi::OsString,
    iter,
    os::{
        fd::AsFd,
        unix::{
            net::UnixStream,
            process::{CommandExt as _, ExitStatusExt},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};
use wire::{
    Bye, ByeReason, Control, CpuEngine, Hello, Record, SessionConfig,
    frame::FrameBuilder,
    sdk::{Role, SdkTools},
};

/// How long a connected agent may take to say hello. It holds its process back meanwhile, two
/// seconds at most.
const HELLO_LIMIT: Duration = Duration::from_secs(2);

/// How often the command and the socket are looked at in turn.
const ROUND: Duration = Duration::from_millis(20);

/// How often processes of other users are looked for while nothing has been recorded.
const SEARCH: Duration = Duration::from_millis(100);

/// The variables that make the runtime load the agent.
const MAIN_SLOT: [&str; 3] =
    ["CORECLR_ENABLE_PROFILING", "CORECLR_PROFILER", "CORECLR_PROFILER_PATH"];

/// Runs a command and records every .NET process that it becomes or starts, from the first
/// instruction.
///
/// Tools of the .NET SDK are left alone, but for MSBuild where the command is a build, unless
/// [`RecordOptions::sdk_tools`] asks for them.
pub fn launch(
    command: impl Into<LaunchCommand>,
    options: RecordOptions,
) -> Result<Recording, RecordError> {
    let command = command.into();
    let shown =
        command.words.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let no_root = |source| RecordError::Io { what: "opening the root directory".into(), source };
    let viewer = Viewer::own().map_err(no_root)?;
    start::check_together(&options)?;
    room::check_launch().inspect_err(|_| Staging::sweep(&viewer))?;
    let alone = options.profilers.iter().find(|selection| selection.spec.needs_main_slot());
    if let Some(selection) = alone.filter(|_| main_slot_is_taken()) {
        return Err(RecordError::NeedsMainSlot { profiler: selection.spec.id });
    }
    let files = getrlimit(Resource::Nofile);
    let (place, engine) = place_and_engine(&viewer, &options);
    let place = place?;
    // Only root's command can become another user whose processes we may record. Where the folder
    // cannot be opened to them, these are not recorded, which is said at the end.
    let admits_all = geteuid().is_root() && place.admit_all().unwrap_or(false);
    let first_output = options.output.as_deref().map(OutputFile::create).transpose()?;
    let engine = engine?;
    let wanted = tools_of(&command.words);
    let sdk_tools = if options.sdk_tools { SdkTools::All } else { wanted };
    let config = SessionConfig {
        sdk_tools,
        ..start::config(std::process::id(), &place, &options, engine, true)?
    };
    let cannot = |source| RecordError::Spawn { command: shown.clone(), source };
    let mut child = prepared(command).map_err(cannot)?;
    set_profiler(&mut child, &place, &config);
    tell_outer_launch();
    // Rings of samples take many, so trying one has raised the limit. It is inherited, and raised
    // again where it is needed.
    let _ = setrlimit(Resource::Nofile, files);
    let child = {
        // Our ends of its streams go with it.
        let mut prepared = child;
        prepared.spawn().map_err(cannot)?
    };

    let (stop, rules) = (StopHandle::default(), RuleHandle::new(options.instrument.clone()));
    let progress = Arc::new(Mutex::new(Progress {
        stage: "waiting for a .NET process".into(),
        ..Progress::default()
    }));
    let pid = Arc::new(AtomicU32::new(child.id()));
    let (live_sink, live) = start::live_pair(&options);
    let supervisor = Supervisor {
        place,
        admits_all,
        other_user: None,
        config,
        options,
        shown,
        child,
        command: pid.clone(),
        stop: stop.clone(),
        rules: rules.clone(),
        progress: progress.clone(),
        wanted,
        first_output,
        named: None,
        cpu: None,
        keeper: None,
        live: live_sink,
        running: Vec::new(),
        skipped: Vec::new(),
        nested: Vec::new(),
        failures: Vec::new(),
        exit_code: Arc::default(),
    };
    let worker = Worker::start("clrscope-launch", move || supervisor.run())?;
    Ok(Recording { stop, rules, progress, live, worker, command: pid })
}

/// The folder for the agent, and the engine that samples. Both are found side by side, since the
/// command does not run yet.
fn place_and_engine(
    viewer: &Viewer,
    options: &RecordOptions,
) -> (Result<Staging, RecordError>, Result<CpuEngine, RecordError>) {
    std::thread::scope(|scope| {
        let probe =
            std::thread::Builder::new().spawn_scoped(scope, || start::engine_for_launch(options));
        let place = Staging::make(viewer, &options.agent);
        let engine = match probe {
            Ok(probe) => probe.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // There is no room for one more thread.
            Err(_) => start::engine_for_launch(options),
        };
        (place, engine)
    })
}

/// Why .NET Core 3.1 does not load the agent beside an APM.
const OTHER_PROFILER: &str = "the environment names another profiler (CORECLR_PROFILER), and .NET \
    Core 3.1 loads only one: set CORECLR_ENABLE_PROFILING=0 for this run";

/// A command with its arguments, folder, environment and streams.
fn prepared(command: LaunchCommand) -> std::io::Result<Command> {
    let LaunchCommand { words, folder, environment, output } = command;
    let mut words = words.into_iter();
    let mut child = Command::new(words.next().unwrap_or_default());
    child.args(words).envs(environment);
    if let Some(folder) = folder {
        child.current_dir(folder);
    }
    if let Some(output) = output {
        child.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
    }
    Ok(child)
}

/// Whether the environment, which the child inherits, names another profiler (an APM). The agent of
/// a launch around this one is none: this one takes its place.
fn main_slot_is_taken() -> bool {
    let is_other =
        |profiler: OsString| !profiler.eq_ignore_ascii_case(clsid_text(wire::CLSID_MAIN));
    std::env::var_os(MAIN_SLOT[0]).is_some_and(|value| value == "1")
        && std::env::var_os(MAIN_SLOT[1]).is_some_and(is_other)
}

/// Tells the launch around this one, if there is one, that it will hear nothing of what this one
/// runs. Its socket answers nobody who does not know its token, and that stands in the environment.
fn tell_outer_launch() {
    let outer =
        std::env::var(wire::CONFIG_ENV).ok().and_then(|text| SessionConfig::from_hex(&text).ok());
    let Some(outer) = outer.filter(|outer| outer.launched) else { return };
    // It may have ended, and is nothing that this launch depends on.
    let Ok(mut stream) = UnixStream::connect(&outer.socket) else { return };
    let hello = Hello {
        protocol: wire::PROTOCOL_VERSION,
        token: outer.token,
        pid: std::process::id(),
        // Which says that it is no runtime that speaks.
        runtime: [0; 4],
        info_version: 0,
        notify_only: false,
        event_mask: (0, 0),
        entered: now(),
        command_line: Vec::new(),
    };
    let bye = Bye { reason: ByeReason::Skipped, status: wire::Status::default() };
    let mut frame = FrameBuilder::default();
    if frame.push(&Record::Hello(hello)).is_ok() && frame.push(&Record::Bye(bye)).is_ok() {
        let _ = stream.set_write_timeout(Some(ROUND));
        let _ = frame.write_to(&mut stream);
    }
}

/// Makes the runtime of the child load the agent. Where another profiler has the main slot,
/// it keeps it and the agent goes beside it, which .NET 6 and newer can.
fn set_profiler(child: &mut Command, place: &Staging, config: &SessionConfig) {
    let library = place.agent_path();
    if main_slot_is_taken() {
        // The semicolon at the end is needed: .NET 9 and 10 do not see the entry without it.
        let entry = format!("{}={};", library.display(), clsid_text(wire::CLSID_NOTIFY_ONLY));
        child
            .env("CORECLR_ENABLE_NOTIFICATION_PROFILERS", "1")
            .env("CORECLR_NOTIFICATION_PROFILERS", entry);
    } else {
        child
            .env(MAIN_SLOT[0], "1")
            .env(MAIN_SLOT[1], clsid_text(wire::CLSID_MAIN))
            .env(MAIN_SLOT[2], library);
        // The runtime prefers these where they are set.
        for name in ["CORECLR_PROFILER_PATH_64", "CORECLR_PROFILER_PATH_ARM64"] {
            child.env_remove(name);
        }
    }
    child.env(wire::CONFIG_ENV, config.to_hex());
}

/// Follows a command: takes in every agent that connects, until the command has ended and all
/// recordings too.
struct Supervisor {
    place: Staging,
    /// Whether processes of other users can reach the agent and connect.
    admits_all: bool,
    /// One that runs as another user, and has not connected.
    other_user: Option<OtherUser>,
    config: SessionConfig,
    options: RecordOptions,
    shown: String,
    child: Child,
    command: Arc<AtomicU32>,
    stop: StopHandle,
    rules: RuleHandle,
    progress: Arc<Mutex<Progress>>,
    /// What the command is for, which the named file is of.
    wanted: SdkTools,
    /// The named file, until there is a process for it.
    first_output: Option<OutputFile>,
    /// The process that has it.
    named: Option<u32>,
    /// The ring of samples of the command, until it is known whether it is of use.
    cpu: Option<CpuSource>,
    /// The keeper of the first process's event sessions.
    keeper: Option<Keeper>,
    live: Option<LiveSink>,
    running: Vec<JoinHandle<Result<SessionSummary, RecordError>>>,
    /// Tools of the SDK that were left alone, each kind once.
    skipped: Vec<&'static str>,
    /// Launches of clrscope within the command.
    nested: Vec<u32>,
    failures: Vec<RecordError>,
    exit_code: Arc<OnceLock<i32>>,
}

impl Supervisor {
    fn run(mut self) -> Result<Summary, RecordError> {
        // The ring of samples is opened and the keeper started while the runtime starts, so that
        // nothing waits for them. What fails here fails again where it can be reported. Both are
        // for the first process, as the command mostly becomes a .NET process itself.
        self.cpu = Target::new(self.child.id())
            .ok()
            .and_then(|target| start::open_chosen(&target, &self.options, self.config.cpu).ok())
            .filter(CpuSource::is_of_processors);
        self.keeper = if start::wants_events(&self.options) { Keeper::start().ok() } else { None };
        let status = self.wait();
        self.command.store(0, Ordering::Release);
        // No process wanted it.
        self.keeper = None;
        self.cpu = None;
        // Short-lived processes may have connected just before its end. No more than can wait:
        // strangers may connect for ever.
        (0..BACKLOG).take_while(|_| self.accept_one()).for_each(drop);
        let exit_code = exit_code(status?);
        let command = self.child.id();
        // Nobody else sets it.
        let _ = self.exit_code.set(exit_code);
        let mut sessions = Vec::new();
        for session in std::mem::take(&mut self.running) {
            match session.join() {
                Ok(Ok(summary)) => sessions.push(summary),
                Ok(Err(error)) => self.failures.push(error),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        self.name_file(&mut sessions, command);
        if !sessions.is_empty() || !self.nested.is_empty() {
            for failure in self.failures {
                if let Some(first) = sessions.first_mut() {
                    first.notes.push(failure.to_string());
                }
            }
            return Ok(Summary { sessions, exit_code: Some(exit_code), nested: self.nested });
        }
        let hint = self.why_nothing();
        Err(RecordError::NothingProfiled { command: self.shown, exit_code, hint })
    }

    /// Takes in agents until the command has ended.
    fn wait(&mut self) -> Result<ExitStatus, RecordError> {
        // Kernels before 5.3 have none.
        let end = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()).ok();
        let mut searched = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(source) => {
                    let what = format!("waiting for {}", self.shown);
                    return Err(RecordError::Io { what, source });
                }
            }
            let either =
                iter::once(self.place.listener().as_fd()).chain(end.as_ref().map(AsFd::as_fd));
            if let Err(source) = link::wait_readable(either, ROUND) {
                self.failures
                    .push(RecordError::Io { what: "waiting for the agent".into(), source });
            }
            self.accept_one();
            if self.running.is_empty() && self.other_user.is_none() && searched.elapsed() >= SEARCH
            {
                self.other_user = OtherUser::below(self.child.id(), geteuid().as_raw());
                searched = Instant::now();
            }
        }
    }

    /// Why nothing was recorded, as far as that is known.
    fn why_nothing(&mut self) -> String {
        match (self.failures.pop(), &self.other_user) {
            (Some(failure), _) => failure.to_string(),
            (None, Some(other)) if main_slot_is_taken() => {
                format!("{OTHER_PROFILER}. Besides, {}", other.hint(&self.place.agent_path()))
            }
            (None, Some(other)) => other.hint(&self.place.agent_path()),
            (None, None) if !self.skipped.is_empty() => {
                format!(
                    "only tools of the .NET SDK ran ({}); --children records them, too",
                    self.skipped.join(", ")
                )
            }
            (None, None) if main_slot_is_taken() => {
                format!(
                    "{OTHER_PROFILER}. If it is a newer runtime, are diagnostics enabled \
                    (DOTNET_EnableDiagnostics)?"
                )
            }
            (None, None) => {
                "is it a .NET program, and are diagnostics enabled (DOTNET_EnableDiagnostics)? \
                NativeAOT programs cannot load a profiler"
                    .to_owned()
            }
        }
    }

    /// Puts the session first that has the named file. Where the command ran nothing that the file
    /// is meant for, the command itself gets it, or else whatever was recorded first.
    fn name_file(&mut self, sessions: &mut [SessionSummary], command: u32) {
        let named = self
            .named
            .or_else(|| sessions.iter().map(|session| session.pid).find(|pid| *pid == command));
        let at = sessions.iter().position(|session| Some(session.pid) == named).unwrap_or_default();
        let Some(before) = sessions.get_mut(..=at) else { return };
        before.rotate_right(1);
        // It is empty, and goes.
        self.first_output = None;
        if let (Some(first), Some(path)) = (sessions.first_mut(), &self.options.output)
            && let Some(from) = first.path.as_deref().filter(|_| !path.exists())
        {
            match std::fs::rename(from, path) {
                Ok(()) => first.path = Some(path.clone()),
                Err(error) => first
                    .notes
                    .push(format!("the file could not be renamed to {}: {error}", path.display())),
            }
        }
    }

    /// Takes in the agent that has connected, if one has: whether somebody has connected.
    fn accept_one(&mut self) -> bool {
        match link::accept(self.place.listener(), Instant::now()) {
            Ok(Some((stream, peer))) if self.is_of_command(peer) => {
                if let Err(error) = self.connected(stream, peer) {
                    self.failures.push(error);
                }
                true
            }
            // A stranger.
            Ok(Some(_)) => true,
            Ok(None) => false,
            Err(source) => {
                self.failures
                    .push(RecordError::Io { what: "waiting for the agent".into(), source });
                false
            }
        }
    }

    /// Whether the other end may be an agent of this launch. Of another user only a process below
    /// the command with our token in its environment may connect: a stranger who connects and says
    /// nothing would hold up all others.
    fn is_of_command(&self, peer: Peer) -> bool {
        peer.uid == geteuid().as_raw()
            || self.admits_all && other_users::belongs(peer.pid, self.child.id(), &self.config)
    }

    /// Handles a process that has loaded the agent and waits until we resume it.
    fn connected(&mut self, stream: UnixStream, peer: Peer) -> Result<(), RecordError> {
        let pid = peer.pid;
        let Some(mut link) = self.admit(stream, pid)? else { return Ok(()) };
        let target = Target::new(pid).map_err(|_| RecordError::Exited { pid })?;
        let cpu = self.cpu_of(&target)?;
        if self.config.cpu == CpuEngine::KernelRing && cpu.engine == CpuEngine::Signals {
            link.send(&Control::SampleInside).map_err(|_| RecordError::Exited { pid })?;
        }
        let output = self.output_of(pid, Role::of(&link.hello.command_line))?;
        let command_line = link.hello.command_line.clone();
        let start = Start {
            // .NET Core 3.1 serves its port only once it has started, and it has not.
            port: (link.hello.runtime[0] >= 5).then(|| port_of(pid)).flatten(),
            keeper: self.keeper.take(),
            name: process_name(&command_line, pid),
            command_line: command_line.join(" "),
            entry: if link.hello.notify_only { Entry::LaunchedBeside } else { Entry::Launched },
            target,
            link,
            cpu,
            output,
            live: self.live.take(),
            stop: self.stop.clone(),
            rules: self.rules.clone(),
            progress: self.progress.clone(),
            exit_code: (pid == self.child.id()).then(|| self.exit_code.clone()),
            requested: None,
            stays: false,
            library: self.place.agent_name().to_owned(),
        };
        let stays = self.options.profilers.iter().any(|selection| selection.spec.is_irreversible());
        let leaves_main_slot = !start.link.hello.notify_only && !stays;
        let mut recorder = start.recorder(&self.options)?;
        recorder.go();
        if leaves_main_slot {
            // Before it leaves: a notification-only profiler that asks to be detached right
            // afterwards would end the process.
            let options = self.options.clone();
            recorder.before_detach(move || {
                // docs/safety.md says what happens where this fails; the recording is good all the
                // same.
                let _ =
                    LoadTurn::take(pid, "launch").and_then(|_turn| start::make_up(pid, &options));
            });
        }
        let session = std::thread::Builder::new()
            .name("clrscope-record".into())
            .spawn(move || recorder.run())
            .map_err(|source| RecordError::Io {
                what: "starting the recording thread".into(),
                source,
            })?;
        self.running.push(session);
        Ok(())
    }

    /// The link to the agent of a process, if that is to be recorded.
    fn admit(&mut self, stream: UnixStream, pid: u32) -> Result<Option<AgentLink>, RecordError> {
        let Ok(mut link) = AgentLink::new(stream, Instant::now() + HELLO_LIMIT) else {
            return if proc::stat(pid).is_ok() {
                let hint = "its first message was not understood".to_owned();
                Err(RecordError::NoHello { pid, limit: HELLO_LIMIT, hint })
            } else {
                Ok(None)
            };
        };
        if link.hello.protocol != wire::PROTOCOL_VERSION {
            return Err(RecordError::StaleAgent { pid, found: link.hello.protocol });
        }
        if link.hello.token != self.config.token {
            return Ok(None);
        }
        if link
            .first()
            .iter()
            .any(|record| matches!(record, Record::Bye(bye) if bye.reason == ByeReason::Skipped))
        {
            let role = Role::of(&link.hello.command_line);
            match link.hello.runtime == [0; 4] {
                true => self.nested.push(pid),
                false if self.skipped.contains(&role.word()) => {}
                false => self.skipped.push(role.word()),
            }
            return Ok(None);
        }
        // After stop() the command runs on unrecorded: a process that connects now is resumed and
        // left alone.
        if self.stop.is_stopped() {
            let _ = link.send(&Control::Go);
            let _ = link.send(&Control::Stop);
            return Ok(None);
        }
        // The command may have set limits of its own.
        if let Err(no_room) = room::check(pid) {
            let _ = link.send(&Control::Go);
            let _ = link.send(&Control::Stop);
            return Err(no_room);
        }
        Ok(Some(link))
    }

    /// The source of CPU samples of a process: the one that was opened ahead, if it is for that.
    fn cpu_of(&mut self, target: &Target) -> Result<CpuSource, RecordError> {
        match self.cpu.take().filter(|_| target.pid == self.child.id()) {
            Some(mut cpu) => {
                // What it has seen before was no .NET program yet.
                cpu.forget();
                Ok(cpu)
            }
            None => start::open_chosen(target, &self.options, self.config.cpu),
        }
    }

    /// The session file of a process.
    fn output_of(&mut self, pid: u32, role: Role) -> Result<Option<OutputFile>, RecordError> {
        let first = self.first_output.take_if(|_| self.wanted.is_main(role));
        if first.is_some() {
            self.named = Some(pid);
        }
        match (first, &self.options.output) {
            (Some(first), _) => Ok(Some(first)),
            (None, Some(path)) => OutputFile::create(&with_pid(path, pid)).map(Some),
            (None, None) => Ok(None),
        }
    }
}

/// The diagnostic port of a process that is still held back at its start; `None` if it has none.
fn port_of(pid: u32) -> Option<Port> {
    // The process is held: to find out all about it takes longer than everything else that it is
    // held for.
    diagnostics::named_port(pid).or_else(|| diagnostics::find_pid(pid).ok()?.port().ok())
}

/// What of the SDK a command is for.
fn tools_of(command: &[OsString]) -> SdkTools {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let separate =
        std::env::var("DOTNET_CLI_RUN_MSBUILD_OUTOFPROC").is_ok_and(|value| is_true(&value));
    SdkTools::of_command(&words, separate)
}

/// Whether the SDK takes the value of an environment variable for yes.
fn is_true(value: &str) -> bool {
    ["1", "true", "yes"].iter().any(|yes| value.eq_ignore_ascii_case(yes))
}

/// What `clrscope ps` would call it: the assembly that `dotnet` runs, else the program.
fn process_name(command_line: &[String], pid: u32) -> String {
    let stem =
        |path: &String| Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let assembly = command_line.iter().skip(1).find(|part| part.ends_with(".dll"));
    let host = command_line.first().and_then(stem);
    match (host, assembly) {
        (Some(host), Some(assembly)) if host == "dotnet" => stem(assembly).unwrap_or(host),
        (Some(host), _) => host,
        (None, _) => proc::comm(pid).unwrap_or_else(|_| pid.to_string()),
    }
}

/// `app.clrscope` becomes `app.1234.clrscope`.
fn with_pid(path: &Path, pid: u32) -> PathBuf {
    match path.extension() {
        Some(extension) => path.with_extension(format!("{pid}.{}", extension.to_string_lossy())),
        None => path.with_extension(pid.to_string()),
    }
}

/// The exit code as a shell would tell it.
fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_processes_get_files_of_their_own() {
        assert_eq!(with_pid(Path::new("/x/app.clrscope"), 7), Path::new("/x/app.7.clrscope"));
        assert_eq!(with_pid(Path::new("app"), 7), Path::new("app.7"));
    }

    #[test]
    fn names_are_those_of_the_assembly() {
        let line = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            process_name(&line(&["/usr/bin/dotnet", "exec", "/app/Shop.dll", "x"]), 1),
            "Shop"
        );
        assert_eq!(process_name(&line(&["/app/shop", "other.dll"]), 1), "shop");
    }
}
