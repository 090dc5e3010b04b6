use super::{
    Recording,
    link::{self, AgentLink},
    place::Place,
    pump::now,
    start::{self, OutputFile, Start},
    target::Target,
};
use crate::{Progress, RecordError, RecordOptions, StopHandle, Summary};
use diagnostics::DotnetProcess;
use session::Entry;
use std::{
    sync::{Arc, Mutex, atomic::AtomicU32},
    time::{Duration, Instant},
};
use wire::{Record, frame::FrameError};

/// How long the runtime may take to load the agent: a running background collection can hold it up.
const ATTACH_LIMIT: Duration = Duration::from_secs(10);

/// How long the agent may take from loaded to hello.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// Attaches to a running process and starts to record.
///
/// Returns when the agent has said hello and the first samples can come. The agent's file and socket are gone
/// from the target's file system by then.
pub fn attach(process: &DotnetProcess, options: RecordOptions) -> Result<Recording, RecordError> {
    let pid = process.pid;
    let port = process.port()?;
    let target = Target::new(pid).map_err(|_| RecordError::Exited { pid })?;
    let viewer = target
        .viewer()
        .map_err(|source| RecordError::Io { what: format!("reading the facts of process {pid}"), source })?;
    let output = options.output.as_deref().map(OutputFile::create).transpose()?;
    let place = Place::make(&viewer, &options.agent)?;
    // The ring is opened before the agent is loaded, so that no time is lost between the two.
    let cpu = start::open_cpu(&target, &options)?;
    let config = start::config(&place, &options, cpu.engine, false)?;

    let library = place.agent_path().display().to_string();
    let data = config.to_bytes();
    let mut requested = now();
    let entry = match port.attach_profiler(wire::CLSID_MAIN, &library, &data, ATTACH_LIMIT) {
        Ok(()) => Entry::Attached,
        // Another profiler holds the one main slot: go beside it, where the runtime knows how to (.NET 6).
        Err(error) if error.is_profiler_already_active() => {
            let can = process.runtime_major_minor().is_some_and(|(major, _)| major >= 6);
            requested = now();
            match can.then(|| port.attach_profiler(wire::CLSID_NOTIFY_ONLY, &library, &data, ATTACH_LIMIT)) {
                Some(Ok(())) => Entry::AttachedBeside,
                Some(Err(error)) => return Err(error.into()),
                None => return Err(error.into()),
            }
        }
        Err(_) if !target.is_alive() => return Err(RecordError::Exited { pid }),
        Err(error) => return Err(error.into()),
    };

    let link = hello(&place, &target, viewer.owner.0, &config.token)?;
    let library = place.agent_name().to_owned();
    drop(place);

    let (live_sink, live) = start::live_pair(&options);
    let stop = StopHandle::default();
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
        progress: progress.clone(),
        exit_code: None,
        requested: Some(requested),
        library,
    };
    let pump = started.pump(&options)?;
    let worker = std::thread::Builder::new()
        .name("clrscope-record".into())
        .spawn(move || Ok(Summary { sessions: vec![pump.run()?], exit_code: None }))
        .map_err(|source| RecordError::Io { what: "starting the recording thread".into(), source })?;
    Ok(Recording { stop, progress, live, worker, command: Arc::new(AtomicU32::new(0)) })
}

/// Waits for the right agent to connect.
fn hello(place: &Place, target: &Target, uid: u32, token: &[u8; 16]) -> Result<AgentLink, RecordError> {
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
fn failed_at_once(link: AgentLink, pid: u32) -> Result<AgentLink, RecordError> {
    let first = link.first();
    let failed = |record: &Record| matches!(record, Record::Bye(bye) if bye.reason == wire::ByeReason::Failed);
    if !first.iter().any(failed) {
        return Ok(link);
    }
    let reason = first.iter().rev().find_map(|record| match record {
        Record::Log { message, .. } => Some(message.clone()),
        _ => None,
    });
    Err(RecordError::AgentFailed { pid, reason: reason.unwrap_or_else(|| "it gave no reason".into()) })
}
