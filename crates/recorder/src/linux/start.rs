//! What attach and launch have in common: from an agent that said hello to a recorder that runs.

mod engine;
mod event_pipes;
mod output_file;
mod placeholder;

pub(super) use self::{
    engine::{engine_for_launch, open_chosen, open_cpu},
    event_pipes::wants_events,
    output_file::OutputFile,
    placeholder::make_up,
};

use self::{
    engine::cpu_rate,
    event_pipes::{event_pipes, own_events, paced_events},
};
use super::{
    clock::now,
    cpu::CpuSource,
    events::{EventSessions, Events, PacedEvents, SessionStart},
    link::AgentLink,
    output::Out,
    recorder::{Recorder, Sources},
    room,
    sources::{ReadSession, Readers, own_sessions},
    stages::BY_WALKING,
    staging::{Staging, random},
    target::Target,
};
use crate::{Progress, RecordError, RecordOptions, RuleHandle, StopHandle};
use diagnostics::{Keeper, Overload, Port, overload, processors::CpuGroup};
use profilers::{EngineFacts, PROFILERS, ProfilerSpec, Selection};
use session::{Entry, LiveSink, LiveStream, ProfilerRun, SessionInfo, Tee, live};
use std::{
    sync::{Arc, Mutex, OnceLock},
    time::{SystemTime, UNIX_EPOCH},
};
use wire::{CpuEngine, ProfilerConfig, SessionConfig, sdk::SdkTools};

/// Records that may wait for a live view.
const LIVE_QUEUE: usize = 16 << 10;

/// In the high word of the event mask (corprof.idl): events of the agent's own come to it. Only
/// exceptions do.
const COR_PRF_HIGH_MONITOR_EVENT_PIPE: u32 = 0x80;

/// Most frames of a stack that the agent walks.
const MAX_FRAMES: u32 = 512;

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

/// Whether some profiler listens to runtime events of .NET Core 3.1, which can hang when it ends an
/// event session while it is overloaded.
fn listens_on_3_1(profilers: &[Selection], major: u16) -> bool {
    major <= 3 && profilers.iter().any(|selection| listens(selection, major))
}

fn listens(selection: &Selection, major: u16) -> bool {
    !selection.event_sources(major, "").is_empty()
}

/// Refuses profilers that listen to runtime events of .NET Core 3.1, because of an overload. Leaves
/// optional ones out, and says so.
fn leave_out_events(
    options: &mut RecordOptions,
    overload: Overload,
) -> Result<Vec<String>, RecordError> {
    let (out, rest): (Vec<_>, Vec<_>) =
        options.profilers.iter().cloned().partition(|selection| listens(selection, 3));
    if out.iter().any(|selection| !selection.optional) {
        return Err(diagnostics::Error::Overloaded(overload).into());
    }
    options.profilers = rest;
    let note = |selection: &Selection| {
        format!(
            "{} was left out: {overload}, and the end of an event session could make .NET Core 3.1 \
             hang then",
            selection.spec.id
        )
    };
    Ok(out.iter().map(note).collect())
}

/// Refuses profilers that cannot be in one recording.
pub(super) fn check_together(options: &RecordOptions) -> Result<(), RecordError> {
    let specs = || options.profilers.iter().map(|selection| selection.spec);
    if let Some(spec) = specs().find(|spec| spec.needs_rules && options.instrument.is_none()) {
        return Err(RecordError::NoRules(spec.id));
    }
    let together = specs().find_map(|spec| {
        let excluded = spec.excludes.iter().find(|id| specs().any(|other| other.id == **id))?;
        Some(RecordError::NotTogether(excluded, spec.id))
    });
    together.map_or(Ok(()), Err)
}

/// The number of heap snapshots after which a recording that is for them ends; `None` for one that
/// continues.
fn last_snapshot(options: &RecordOptions) -> Option<u32> {
    let selection =
        |spec: &ProfilerSpec| options.profilers.iter().find(|given| given.spec.id == spec.id);
    let takes_snapshots = |spec: &ProfilerSpec| spec.heap_snapshots.is_some();
    let first = PROFILERS.iter().filter(|spec| takes_snapshots(spec)).find_map(|s| selection(s))?;
    let mut others =
        options.profilers.iter().map(|given| given.spec).filter(|spec| !takes_snapshots(spec));
    let along = first.spec.heap_snapshots.unwrap_or_default();
    let ends = others.clone().next().is_none()
        || options.duration.is_none() && others.all(|spec| along.contains(&spec.id));
    first.param("snapshots").filter(|_| ends)?.parse().ok()
}

/// Both ends of the live view, where one was asked for.
pub(super) fn live_pair(options: &RecordOptions) -> (Option<LiveSink>, Option<LiveStream>) {
    options.live.then(|| live(LIVE_QUEUE)).unzip()
}

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
        let (mut options, mut notes) = fit_to_runtime(options, self.target.pid, (major, minor))?;
        if listens_on_3_1(&options.profilers, major)
            && let Some(overload) = self.overload()
        {
            notes.extend(leave_out_events(&mut options, overload)?);
        }
        let options = &options;
        let path = self.output.as_ref().map(|output| output.path().to_owned());
        let writer = self.output.take().map(OutputFile::writer).transpose()?;
        let out: Out = Tee(writer, self.live.take());
        let events = self.event_sessions(options)?;
        let info = self.info(options);
        let sources = Sources {
            target: self.target,
            link: self.link,
            cpu: self.cpu,
            engine: options.engine,
            events,
            info,
            path,
            out,
            duration: options.duration,
            last_snapshot: last_snapshot(options),
            rules: self.rules,
            dry: options.profilers.iter().any(Selection::is_dry),
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

    /// Whether threads of the process wait long for a processor. One that is starting, and has no
    /// port yet, does not have the threads that will: there, the machine decides.
    fn overload(&self) -> Option<Overload> {
        match &self.port {
            Some(_) => overload::of_process(self.target.pid),
            None => overload::of_machine(),
        }
    }

    /// Starts the EventPipe sessions that profilers need: those that they share, then their own.
    fn event_sessions(
        &mut self,
        options: &RecordOptions,
    ) -> Result<Vec<Box<dyn EventSessions>>, RecordError> {
        let session = format!("clrscope-{}-{}", std::process::id(), now());
        let (pid, major) = (self.target.pid, self.link.hello.runtime[0]);
        let configs = event_pipes(options, major, &session);
        let apart: Vec<_> = options
            .profilers
            .iter()
            .filter_map(|selection| Some((own_sessions(selection.spec.id)?, selection)))
            .collect();
        let mut events: Vec<Box<dyn EventSessions>> = Vec::new();
        let paced = paced_events(options, major);
        if configs.is_empty() && apart.is_empty() && paced.is_empty() {
            return Ok(events);
        }
        let keeper = self.keeper.take().map_or_else(Keeper::start, Ok)?;
        let runs = |id: &str| options.profilers.iter().any(|selection| selection.spec.id == id);
        for config in configs {
            let readers = Readers::of(&ReadSession { id: &session, runs: &runs });
            events.push(Box::new(match &self.port {
                Some(port) => Events::start(keeper.clone(), port, &config, readers)?,
                None => Events::start_later(keeper.clone(), pid, config, readers)?,
            }));
        }
        for (profiler, paced) in paced {
            let session = session.clone();
            // Events of others come in the sessions that they share.
            let readers =
                move || Readers::of(&ReadSession { id: &session, runs: &|id| id == profiler });
            let (keeper, port) = (keeper.clone(), self.port.as_ref());
            let readers = Box::new(readers);
            events.push(Box::new(PacedEvents::start(keeper, port, pid, paced, readers)?));
        }
        for (start, selection) in apart {
            let (keeper, port) = (keeper.clone(), self.port.as_ref());
            let config = own_events(selection, major);
            events.push(start(SessionStart { keeper, port, pid, config, selection })?);
        }
        Ok(events)
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
                    engine: self.engine(selection.spec),
                    rate_hz: match selection.spec.samples_cpu {
                        true => Some(options.rate_hz),
                        false => selection.param("rate").and_then(|rate| rate.parse().ok()),
                    },
                    params: selection.params.clone(),
                })
                .collect(),
        }
    }

    /// How a profiler gets what it shows.
    fn engine(&self, spec: &ProfilerSpec) -> String {
        let hello = &self.link.hello;
        (spec.engine)(&EngineFacts {
            major: hello.runtime[0],
            events_inside: hello.event_mask.1 & COR_PRF_HIGH_MONITOR_EVENT_PIPE != 0,
            cpu: self.cpu.description(),
            stacks: &stacks_by(&self.cpu),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AgentFile, EngineChoice};
    use std::time::Duration;

    pub(super) fn options(profilers: &str, duration: Option<u64>) -> RecordOptions {
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
    fn runtime_events_of_an_overloaded_process_on_3_1_are_refused_or_left_out() {
        assert!(listens_on_3_1(&options("cpu,gc", None).profilers, 3));
        assert!(!listens_on_3_1(&options("cpu,wall,exceptions", None).profilers, 3));
        assert!(!listens_on_3_1(&options("cpu,gc", None).profilers, 8));
        let overload = Overload::Thread { pid: 1, wait: Duration::from_millis(31) };
        let refused = leave_out_events(&mut options("cpu,gc", None), overload).unwrap_err();
        assert_eq!(refused.exit_code(), 4);
        let expected = "a thread of process 1 waits 31 ms for a processor when it is ready, and";
        assert!(refused.to_string().contains(expected), "{refused}");
        let mut optional = options("cpu,gc,locks", None);
        optional.profilers.iter_mut().for_each(|selection| selection.optional = true);
        let machine = Overload::Machine { ready: 40, processors: 2 };
        let notes = leave_out_events(&mut optional, machine).unwrap();
        assert_eq!(notes.len(), 2);
        let expected = "gc was left out: 40 threads are ready to run on 2 processors, and";
        assert!(notes[0].starts_with(expected), "{notes:?}");
        let left: Vec<_> = optional.profilers.iter().map(|left| left.spec.id).collect();
        assert_eq!(left, ["cpu"]);
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
}
