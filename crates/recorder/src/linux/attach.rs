use super::{
    Recording, Worker, door,
    link::{self, AgentLink},
    place::{AGENT_NAME, Place},
    pump::now,
    start::{self, OutputFile, Start},
    target::Target,
};
use crate::{Progress, RecordError, RecordOptions, RuleHandle, StopHandle, Summary};
use diagnostics::{DotnetProcess, HResult};
use session::Entry;
use std::{
    sync::{Arc, Mutex, atomic::AtomicU32},
    time::{Duration, Instant},
};
use wire::{ByeReason, DoorAnswer, Record, frame::FrameError};

/// How long the runtime may take to load the agent: a running background collection can hold it up.
const ATTACH_LIMIT: Duration = Duration::from_secs(10);

/// How long the agent may take from loaded to hello.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// How long an agent that stays may take from the end of a recording to the next.
const IDLE_LIMIT: Duration = Duration::from_secs(2);

/// How many agents may be left behind, each by one other profiler that has left before.
const MOST_TRIES: u32 = 8;

/// Attaches to a running process and starts to record.
///
/// Returns when the agent has said hello and the first samples can come. The agent's file and socket are gone
/// from the target's file system by then.
pub fn attach(process: &DotnetProcess, options: RecordOptions) -> Result<Recording, RecordError> {
    if let Some(selection) = options.profilers.iter().find(|selection| !selection.spec.attach) {
        return Err(RecordError::NeedsLaunch { profiler: selection.spec.id });
    }
    start::check_together(&options)?;
    let pid = process.pid;
    let port = process.port()?;
    let target = Target::new(pid).map_err(|_| RecordError::Exited { pid })?;
    let viewer = target
        .viewer()
        .map_err(|source| RecordError::Io { what: format!("reading the facts of process {pid}"), source })?;
    let output = options.output.as_deref().map(OutputFile::create).transpose()?;
    // The ring is opened before the agent is loaded, so that no time is lost between the two.
    let cpu = start::open_cpu(&target, &options)?;
    // The main slot is left to others wherever the runtime can do with less (.NET 6): not only is it the only one, but
    // a main profiler that leaves makes the runtime forget a notification-only one.
    let needs_main =
        options.profilers.iter().find(|selection| selection.spec.needs_main_slot()).map(|selection| selection.spec.id);
    let knows_others = matches!(process.runtime_major_minor(), Some((6.., _)));
    let clsid = if knows_others && needs_main.is_none() { wire::CLSID_NOTIFY_ONLY } else { wire::CLSID_MAIN };
    let makes_up = knows_others && needs_main.is_some();
    let (mut tries, mut by_door);
    tries = 1;
    let (link, library, requested) = loop {
        let place = Place::make(&viewer, &options.agent)?;
        let config = start::config(&place, &options, cpu.engine, false)?;
        let requested = now();
        let library = place.agent_path().display().to_string();
        // An agent of ours that could not leave has the main slot.
        let knock = || door::knock(&target, viewer.owner.0, &config.to_bytes());
        let mut answer = knock();
        if answer.is_none() {
            match port.attach_profiler(clsid, &library, &config.to_bytes(), ATTACH_LIMIT) {
                Ok(()) => {}
                Err(_) if !target.is_alive() => return Err(RecordError::Exited { pid }),
                Err(error) => {
                    let taken = error.hresult() == Some(HResult::PROFILER_ALREADY_ACTIVE);
                    // It may be about to open its door, after a recording that has just ended.
                    answer = if taken { opens(knock) } else { None };
                    match needs_main {
                        _ if answer.is_some() => {}
                        Some(profiler) if taken => {
                            return Err(RecordError::MainSlotTaken { ours: has_agent(pid), pid, profiler });
                        }
                        _ => return Err(error.into()),
                    }
                }
            }
        }
        if answer == Some(DoorAnswer::Refused) {
            return Err(RecordError::TracedBefore { pid, profiler: needs_main.unwrap_or("recording") });
        }
        by_door = answer.is_some();
        match hello(&place, &target, viewer.owner.0, &config.token)? {
            Answer::Serves(link) => break (link, place.agent_name().to_owned(), requested),
            Answer::Stays if tries < MOST_TRIES => tries += 1,
            Answer::Stays => {
                let reason = "other profilers have left this process in a way after which it calls no \
                    notification-only one; restart it"
                    .to_owned();
                return Err(RecordError::AgentFailed { pid, reason });
            }
        }
    };
    let entry = if main_slot_is_taken(pid) { Entry::AttachedBeside } else { Entry::Attached };

    let (live_sink, live) = start::live_pair(&options);
    let (stop, rules) = (StopHandle::default(), RuleHandle::new(options.instrument.clone()));
    let progress = Arc::new(Mutex::new(Progress::default()));
    let started = Start {
        target,
        link,
        cpu,
        entry,
        name: process.name.clone(),
        command_line: process.command_line(),
        port: Some(port),
        output,
        live: live_sink,
        stop: stop.clone(),
        rules: rules.clone(),
        progress: progress.clone(),
        exit_code: None,
        requested: Some(requested),
        stays: by_door,
        library,
    };
    let pump = started.pump(&options)?;
    let worker = Worker::start("clrscope-record", move || {
        let summary = pump.run()?;
        if makes_up && summary.timings.detach.is_some() {
            // What cannot be done here is told in docs/safety.md; the recording is good all the same.
            let _ = start::make_up(pid, &options);
        }
        Ok(Summary { sessions: vec![summary], exit_code: None })
    })?;
    Ok(Recording { stop, rules, progress, live, worker, command: Arc::new(AtomicU32::new(0)) })
}

/// Whether a door is opened in the time that an agent takes to become idle.
fn opens(knock: impl Fn() -> Option<DoorAnswer>) -> Option<DoorAnswer> {
    let deadline = Instant::now() + IDLE_LIMIT;
    loop {
        let answer = knock();
        if answer.is_some() || Instant::now() > deadline {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the process was started with a profiler, which then holds the main slot. One that was attached is not seen.
fn main_slot_is_taken(pid: u32) -> bool {
    let Ok(environ) = diagnostics::proc::environ(pid) else { return false };
    let value = |name: &str| environ.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    value("CORECLR_ENABLE_PROFILING").is_some_and(|value| value == "1") && value("CORECLR_PROFILER").is_some()
}

/// Whether an agent of ours is loaded. Its file is gone, and its name stays.
fn has_agent(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains(AGENT_NAME))
}

/// What an agent says at first.
enum Answer {
    /// It records.
    Serves(AgentLink),
    /// It cannot record, nor leave; but the next one can.
    Stays,
}

/// Waits for the right agent to connect.
fn hello(place: &Place, target: &Target, uid: u32, token: &[u8; 16]) -> Result<Answer, RecordError> {
    let pid = target.pid;
    let deadline = Instant::now() + HELLO_LIMIT;
    let no_hello = |hint: &str| RecordError::NoHello { pid, limit: HELLO_LIMIT, hint: hint.to_owned() };
    loop {
        let accepted = link::accept(place.listener(), deadline)
            .map_err(|source| RecordError::Io { what: "waiting for the agent".into(), source })?;
        let Some((stream, peer)) = accepted else {
            return Err(match target.is_alive() {
                true => {
                    no_hello("it may not be allowed to connect (a security profile?); its standard error may say more")
                }
                false => RecordError::Exited { pid },
            });
        };
        // Whoever else finds the socket is not answered.
        if peer.uid != uid || peer.pid != pid {
            continue;
        }
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
    let says =
        |reason: ByeReason| first.iter().any(|record| matches!(record, Record::Bye(bye) if bye.reason == reason));
    if says(ByeReason::Stays) {
        return Ok(Answer::Stays);
    }
    if !says(ByeReason::Failed) {
        return Ok(Answer::Serves(link));
    }
    let reason = first.iter().rev().find_map(|record| match record {
        Record::Log { message, .. } => Some(message.clone()),
        _ => None,
    });
    Err(RecordError::AgentFailed { pid, reason: reason.unwrap_or_else(|| "it gave no reason".into()) })
}
