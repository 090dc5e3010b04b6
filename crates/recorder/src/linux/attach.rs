use super::{
    clock::now,
    cpu::CpuSource,
    link::{self, AgentLink},
    reattach::{LEAVE_LIMIT, LoadTurn, Loaded, Resident, UNLOAD_LIMIT},
    recording::{Recording, Worker},
    room,
    staging::{Staging, Viewer},
    start::{self, OutputFile, Start},
    target::Target,
};
use crate::{Progress, RecordError, RecordOptions, RuleHandle, StopHandle, Summary};
use diagnostics::{DotnetProcess, HResult, Port, clsid_text};
use profilers::Selection;
use session::Entry;
use std::{
    path::Path,
    sync::{Arc, Mutex, atomic::AtomicU32},
    time::{Duration, Instant},
};
use wire::{ByeReason, CpuEngine, Record, ResidentState, SessionConfig, frame::FrameError};

/// How long the runtime may take to load the agent: a running background collection can hold it up.
const ATTACH_LIMIT: Duration = Duration::from_secs(10);

/// How long the agent may take from loaded to hello.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// How long to wait before a runtime is asked once more whose last agent is leaving.
const LEAVE_POLL: Duration = Duration::from_millis(20);

/// How many agents are loaded at most where each finds that the runtime does not call it, because
/// another main profiler has left before. Those that are not called stay, and make up for that.
const MOST_TRIES: usize = 3;

/// Attaches to a running process and starts to record.
///
/// Returns when the agent has said hello and the first samples can come. The agent's file and
/// socket are gone from the target's file system by then.
pub fn attach(process: &DotnetProcess, options: RecordOptions) -> Result<Recording, RecordError> {
    let ready = Ready::of(process, &options)?;
    let output = options.output.as_deref().map(OutputFile::create).transpose()?;
    let pid = process.pid;
    let Served { target, port, cpu, link, library, requested, stays } =
        ready.serve(process, &options)?;
    let (live_sink, live) = start::live_pair(&options);
    let (stop, rules) = (StopHandle::default(), RuleHandle::new(options.instrument.clone()));
    let progress = Arc::new(Mutex::new(Progress::default()));
    let started = Start {
        target,
        link,
        cpu,
        entry: if main_slot_is_taken(pid) { Entry::AttachedBeside } else { Entry::Attached },
        name: process.name.clone(),
        command_line: process.command_line(),
        port: Some(port),
        keeper: None,
        output,
        live: live_sink,
        stop: stop.clone(),
        rules: rules.clone(),
        progress: progress.clone(),
        exit_code: None,
        requested: Some(requested),
        stays,
        library,
    };
    let recorder = started.recorder(&options)?;
    let worker = Worker::start("clrscope-record", move || {
        let summary = recorder.run()?;
        Ok(Summary { sessions: vec![summary], exit_code: None, nested: Vec::new() })
    })?;
    Ok(Recording { stop, rules, progress, live, worker, command: Arc::new(AtomicU32::new(0)) })
}

/// An agent that serves, and what it took to get there.
pub(super) struct Served {
    pub target: Target,
    pub port: Port,
    pub cpu: CpuSource,
    pub link: AgentLink,
    /// Name of the agent's file.
    pub library: String,
    /// When it was asked for.
    pub requested: u64,
    /// Whether it was there before, and stays.
    pub stays: bool,
}

/// Gets an agent to serve in a process, without any output.
///
/// # Errors
/// As [`attach`].
pub(super) fn serve(
    process: &DotnetProcess,
    options: &RecordOptions,
) -> Result<Served, RecordError> {
    Ready::of(process, options)?.serve(process, options)
}

/// A process into which an agent may be loaded.
struct Ready {
    port: Port,
    target: Target,
    viewer: Viewer,
}

impl Ready {
    fn of(process: &DotnetProcess, options: &RecordOptions) -> Result<Self, RecordError> {
        check(process, options)?;
        let pid = process.pid;
        let port = process.port()?;
        let target = Target::new(pid).map_err(|_| RecordError::Exited { pid })?;
        let viewer = target.viewer()?;
        sweep(&viewer);
        room::check(pid)?;
        Ok(Self { port, target, viewer })
    }

    /// Loads an agent, or hands the session to one that is there.
    fn serve(
        self,
        process: &DotnetProcess,
        options: &RecordOptions,
    ) -> Result<Served, RecordError> {
        let Self { port, target, viewer } = self;
        let pid = process.pid;
        let slot = Slot::of(process, options);
        // A resident agent has the main profiler slot. It is waited for where no other can do
        // it, and that may take long.
        if let (true, Some(resident)) = (slot.is_main(), Resident::find(&target, viewer.owner)?) {
            resident.wait_until_ready(&target)?;
        }
        // Until the agent has answered: from then on others see that it is there.
        let turn = slot.needs_main.map(|profiler| LoadTurn::take(pid, profiler)).transpose()?;
        let resident = match Resident::find(&target, viewer.owner)? {
            Some(resident) if slot.is_main() => {
                resident.wait_until_ready(&target)?.then_some(resident)
            }
            found => found.filter(|resident| resident.is_ready_soon(&target)),
        };
        // The ring is opened before the agent is loaded, so that no time is lost between the two,
        // but after all that may be long waited for: one that is bound to threads costs something
        // meanwhile.
        let cpu = start::open_cpu(&target, options)?;
        let stays = resident.is_none() && slot.make_room(pid, options)?;
        let loading = Loading {
            port: &port,
            target: &target,
            viewer: &viewer,
            options,
            slot: &slot,
            resident: resident.as_ref(),
            engine: cpu.engine,
            stays,
        };
        let Agent { link, library, requested } = loading.agent()?;
        drop(turn);
        let stays = resident.is_some();
        Ok(Served { target, port, cpu, link, library, requested, stays })
    }
}

/// Refuses what cannot be recorded of a process that runs.
fn check(process: &DotnetProcess, options: &RecordOptions) -> Result<(), RecordError> {
    if let Some(selection) = options.profilers.iter().find(|selection| !selection.spec.attach) {
        return Err(RecordError::NeedsLaunch { profiler: selection.spec.id });
    }
    start::check_together(options)?;
    if let Some((major, minor)) = process.runtime_major_minor() {
        let number = |part: u32| u16::try_from(part).unwrap_or(u16::MAX);
        start::fit_to_runtime(options, process.pid, (number(major), number(minor)))?;
    }
    Ok(())
}

/// Removes what a killed clrscope has left. First of all, so that it is done whatever is refused.
fn sweep(viewer: &Viewer) {
    // What it has asked the runtime for may still be loaded: not without its file, and what is
    // loaded is seen.
    Staging::sweep(viewer);
    // What it has left of a launch is where we make our own temporary files, and belongs to us.
    if let Ok(own) = Viewer::own() {
        Staging::sweep(&own);
    }
}

/// Which slot of the runtime the agent is loaded into.
///
/// The main slot is left to others wherever the runtime can do with less (.NET 6): not only is it
/// the only one, but a main profiler that leaves makes the runtime forget a notification-only one.
struct Slot {
    /// A profiler that works in the main slot only.
    needs_main: Option<&'static str>,
    /// Whether the runtime has other slots.
    knows_others: bool,
}

impl Slot {
    fn of(process: &DotnetProcess, options: &RecordOptions) -> Self {
        let needs_main = options
            .profilers
            .iter()
            .find(|selection| selection.spec.needs_main_slot())
            .map(|selection| selection.spec.id);
        Self { needs_main, knows_others: matches!(process.runtime_major_minor(), Some((6.., _))) }
    }

    fn is_main(&self) -> bool {
        self.needs_main.is_some() || !self.knows_others
    }

    /// Whether it may be occupied by an agent of ours that is about to leave it. Where there are
    /// several slots, those that need the main one do not leave.
    fn frees_itself(&self) -> bool {
        self.needs_main.is_none() || !self.knows_others
    }

    fn clsid(&self) -> [u8; 16] {
        if self.is_main() { wire::CLSID_MAIN } else { wire::CLSID_NOTIFY_ONLY }
    }

    /// Waits until there is room for another agent. Returns whether that one has to stay.
    fn make_room(&self, pid: u32, options: &RecordOptions) -> Result<bool, RecordError> {
        let needs_main = self.needs_main.filter(|_| is_another_named(pid));
        let taken = |profiler| RecordError::MainSlotTaken { ours: false, pid, profiler };
        if let Some(profiler) = needs_main.filter(|_| is_another_mapped(pid)) {
            return Err(taken(profiler));
        }
        Loaded::wait_for_room(pid, self.needs_main)?;
        // Its library has another name there; what is left of ours was refused.
        if let Some(profiler) = needs_main.filter(|_| Loaded::of(pid).is_any()) {
            return Err(taken(profiler));
        }
        // Before anything can go wrong: what leaves the main slot is made up for already, however
        // it comes to leave.
        Ok(self.knows_others
            && self.needs_main.is_some()
            && !rewrites(options)
            && !start::make_up(pid, options)?)
    }
}

/// An agent that serves.
struct Agent {
    link: AgentLink,
    /// Name of its file.
    library: String,
    /// When it was asked for.
    requested: u64,
}

/// What an agent is loaded with.
struct Loading<'a> {
    port: &'a Port,
    target: &'a Target,
    viewer: &'a Viewer,
    options: &'a RecordOptions,
    slot: &'a Slot,
    /// The agent that is there already.
    resident: Option<&'a Resident>,
    engine: CpuEngine,
    stays: bool,
}

impl Loading<'_> {
    /// Loads agents until one serves.
    fn agent(&self) -> Result<Agent, RecordError> {
        let pid = self.target.pid;
        let (mut tries, mut was_missing) = (1, false);
        loop {
            let mut place = Staging::make(self.viewer, &self.options.agent)?;
            let config = SessionConfig {
                stays: self.stays,
                ..start::config(pid, &place, self.options, self.engine, false)?
            };
            let requested = now();
            let library = place.agent_path().display().to_string();
            match self.resident {
                Some(resident) => {
                    resident.knock(&config.to_bytes()).map_err(|source| RecordError::Io {
                        what: format!("handing the session to the resident agent in process {pid}"),
                        source,
                    })?
                }
                None => match self.load(&library, &config) {
                    Ok(()) => {}
                    Err(_) if !self.target.is_alive() => return Err(RecordError::Exited { pid }),
                    // Somebody, such as a cleaner of temporary files, may have removed it before it
                    // was loaded.
                    Err(error)
                        if error.hresult() == Some(HResult::MODULE_NOT_FOUND) && !was_missing =>
                    {
                        was_missing = true;
                        continue;
                    }
                    Err(error) => return Err(self.refusal(error)),
                },
            }
            match self.answer(&mut place, &config)? {
                Answer::Serves(link) => {
                    return Ok(Agent { link, library: place.agent_name().to_owned(), requested });
                }
                Answer::Refused => {
                    return Err(RecordError::TracedBefore {
                        pid,
                        profiler: self.slot.needs_main.unwrap_or("recording"),
                    });
                }
                Answer::Stays if tries < MOST_TRIES => {
                    tries += 1;
                    Loaded::wait_for_room(pid, self.slot.needs_main)?;
                }
                Answer::Stays => return Err(RecordError::TooManyAgents { pid, count: tries }),
            }
        }
    }

    fn load(&self, library: &str, config: &SessionConfig) -> Result<(), diagnostics::Error> {
        load(self.port, self.slot, library, config, self.target)
    }

    /// Why the runtime does not load the agent.
    fn refusal(&self, error: diagnostics::Error) -> RecordError {
        let pid = self.target.pid;
        match self.slot.needs_main {
            _ if is_of_other_version(&error) => RecordError::OtherVersion { pid },
            _ if self.slot.frees_itself() && is_leaving(&error, pid) => RecordError::Leaves { pid },
            Some(profiler) if error.hresult() == Some(HResult::PROFILER_ALREADY_ACTIVE) => {
                RecordError::MainSlotTaken { ours: Loaded::of(pid).main, pid, profiler }
            }
            _ => error.into(),
        }
    }

    /// What the agent says at first.
    fn answer(&self, place: &mut Staging, config: &SessionConfig) -> Result<Answer, RecordError> {
        let answer = hello(place, self.target, self.viewer.owner.uid, &config.token);
        if matches!(answer, Err(RecordError::NoHello { .. }))
            && self.resident.is_some_and(|resident| resident.state() != Some(ResidentState::Waits))
        {
            // Somebody else was faster.
            let pid = self.target.pid;
            return Err(RecordError::ResidentBusy { pid, reverts: false, waited: HELLO_LIMIT });
        }
        answer
    }
}

/// Asks the runtime to load the agent. One that has room for a single profiler (.NET Core 3.1)
/// refuses until the last agent of ours has left: that is waited for.
fn load(
    port: &Port,
    slot: &Slot,
    library: &str,
    config: &SessionConfig,
    target: &Target,
) -> Result<(), diagnostics::Error> {
    let began = Instant::now();
    // One that is at work may be about to stop.
    let is_late = |loaded: &Loaded| {
        began.elapsed() >= if loaded.left > 0 { UNLOAD_LIMIT } else { LEAVE_LIMIT }
    };
    let mut leaves = false;
    loop {
        let asked = port.attach_profiler(slot.clsid(), library, &config.to_bytes(), ATTACH_LIMIT);
        let refused = asked.as_ref().is_err_and(|error| error.is_profiler_already_active());
        let loaded = Loaded::of(target.pid);
        leaves = leaves || slot.frees_itself() && refused && loaded.is_any();
        if !refused || !leaves || is_late(&loaded) {
            return asked;
        }
        // The slot is free a moment after the library is gone.
        std::thread::sleep(LEAVE_POLL);
        while let loaded = Loaded::of(target.pid)
            && loaded.is_any()
            && !is_late(&loaded)
        {
            std::thread::sleep(LEAVE_POLL);
        }
    }
}

/// Whether there is no room for an agent because the last one has stopped, but is not unloaded yet.
fn is_leaving(error: &diagnostics::Error, pid: u32) -> bool {
    let loaded = Loaded::of(pid);
    error.is_profiler_already_active() && loaded.left > 0 && !loaded.main
}

/// Whether the agent that was called does not know what it was given. Only the agent says this, of
/// a session that it cannot read.
fn is_of_other_version(error: &diagnostics::Error) -> bool {
    error.hresult() == Some(HResult::INVALID_ARGUMENT)
}

/// Whether methods will be rewritten: such an agent stays in any case.
fn rewrites(options: &RecordOptions) -> bool {
    options.profilers.iter().any(Selection::instruments)
}

/// Whether the process was started with a profiler, which then holds the main slot. One that was
/// attached is not seen.
fn main_slot_is_taken(pid: u32) -> bool {
    let Ok(environ) = diagnostics::proc::environ(pid) else { return false };
    let value =
        |name: &str| environ.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    value("CORECLR_ENABLE_PROFILING").is_some_and(|value| value == "1")
        && value("CORECLR_PROFILER").is_some()
}

/// Where the runtime looks for the path of the profiler that it is to load, the first one first.
const PROFILER_PATHS: [&str; 2] = [
    if cfg!(target_arch = "aarch64") {
        "CORECLR_PROFILER_PATH_ARM64"
    } else {
        "CORECLR_PROFILER_PATH_64"
    },
    "CORECLR_PROFILER_PATH",
];

/// Whether that profiler is not ours.
fn is_another_named(pid: u32) -> bool {
    let ours = clsid_text(wire::CLSID_MAIN);
    let environ = diagnostics::proc::environ(pid).unwrap_or_default();
    let is_ours = environ.iter().any(|(name, value)| name == "CORECLR_PROFILER" && *value == *ours);
    main_slot_is_taken(pid) && !is_ours
}

/// Whether the library of the profiler that the process was started with is there. The runtime
/// would load ours as well, refuse it, and leave it behind.
fn is_another_mapped(pid: u32) -> bool {
    let environ = diagnostics::proc::environ(pid).unwrap_or_default();
    let of = |name: &str| environ.iter().find(|(known, _)| known == name).map(|(_, path)| path);
    let named = PROFILER_PATHS.iter().find_map(|name| of(name));
    let file = named.and_then(|path| Path::new(path).file_name());
    let maps = diagnostics::proc::maps(pid).unwrap_or_default();
    file.is_some() && maps.iter().any(|map| map.file().and_then(Path::file_name) == file)
}

/// What an agent says at first.
enum Answer {
    /// It records.
    Serves(AgentLink),
    /// It cannot record, nor leave; but the next one can.
    Stays,
    /// The runtime does not allow it what the session needs.
    Refused,
}

/// Waits for the right agent to connect.
fn hello(
    place: &mut Staging,
    target: &Target,
    uid: u32,
    token: &[u8; 16],
) -> Result<Answer, RecordError> {
    let pid = target.pid;
    let deadline = Instant::now() + HELLO_LIMIT;
    let no_hello =
        |hint: &str| RecordError::NoHello { pid, limit: HELLO_LIMIT, hint: hint.to_owned() };
    loop {
        let accepted = link::accept(place.listener(), deadline)
            .map_err(|source| RecordError::Io { what: "waiting for the agent".into(), source })?;
        let Some((stream, peer)) = accepted else {
            return Err(match target.is_alive() {
                true => no_hello(
                    "it may not be allowed to connect (a security profile?); its standard error \
                        may say more",
                ),
                false => RecordError::Exited { pid },
            });
        };
        // Whoever else finds the socket is not answered.
        if peer.uid != uid || peer.pid != pid {
            continue;
        }
        // It is loaded and has connected: a recorder that is killed from now on leaves nothing
        // behind.
        place.unlink();
        match AgentLink::new(stream, deadline) {
            Ok(link) if link.hello.protocol != wire::PROTOCOL_VERSION => {
                return Err(RecordError::StaleAgent { pid, found: link.hello.protocol });
            }
            Ok(link) if link.hello.token == *token => return failed_at_once(link, pid),
            Ok(_) => return Err(no_hello("an agent of another recording answered; try again")),
            Err(FrameError::Closed | FrameError::Io(_)) if !target.is_alive() => {
                return Err(RecordError::Exited { pid });
            }
            Err(error) => return Err(no_hello(&error.to_string())),
        }
    }
}

/// An agent that says goodbye in its first breath could not start; its log says why.
fn failed_at_once(link: AgentLink, pid: u32) -> Result<Answer, RecordError> {
    let first = link.first();
    let says = |reason: ByeReason| {
        first.iter().any(|record| matches!(record, Record::Bye(bye) if bye.reason == reason))
    };
    if says(ByeReason::Stays) {
        return Ok(Answer::Stays);
    }
    if says(ByeReason::Refused) {
        return Ok(Answer::Refused);
    }
    if !says(ByeReason::Failed) {
        return Ok(Answer::Serves(link));
    }
    let reason = first.iter().rev().find_map(|record| match record {
        Record::Log { message, .. } => Some(message.clone()),
        _ => None,
    });
    Err(RecordError::AgentFailed {
        pid,
        reason: reason.unwrap_or_else(|| "it gave no reason".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_of_another_version_is_named() {
        let refused = |hresult| diagnostics::Error::Refused {
            command: "AttachProfiler",
            hresult,
            message: None,
        };
        assert!(is_of_other_version(&refused(HResult::INVALID_ARGUMENT)));
        assert!(!is_of_other_version(&refused(HResult::FAIL)));
        let error = RecordError::OtherVersion { pid: 7 };
        assert_eq!(error.exit_code(), 4);
        let text = error.to_string();
        assert!(text.contains("another version") && text.contains("restart the process"), "{text}");
    }
}
