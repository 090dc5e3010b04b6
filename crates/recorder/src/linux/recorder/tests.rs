//! A recording whose agent is this test.

use super::*;
use session::Tee;
use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
};
use wire::{Hello, LogLevel, Record, frame};

/// An agent that sends new records all the time, for at most `limit`. They take longer to read
/// than to send.
fn talkative(mut stream: UnixStream, limit: Duration) {
    let hello = Hello {
        protocol: wire::PROTOCOL_VERSION,
        token: [0; 16],
        pid: std::process::id(),
        runtime: [9, 0, 0, 5],
        info_version: 15,
        notify_only: true,
        event_mask: (0, 0),
        entered: 0,
        command_line: Vec::new(),
    };
    frame::write(&mut stream, &Record::Hello(hello)).unwrap();
    // Whatever is sent to it ends it.
    let mut told = stream.try_clone().unwrap();
    std::thread::spawn(move || {
        let _ = told.read(&mut [0]);
        let _ = told.shutdown(std::net::Shutdown::Both);
    });
    let until = Instant::now() + limit;
    let mut number = 0u64;
    while Instant::now() < until {
        let mut bytes = Vec::new();
        for _ in 0..100 {
            let message = format!("{number:0200}");
            frame::write(&mut bytes, &Record::Log { level: LogLevel::Warning, message }).unwrap();
            number += 1;
        }
        if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

#[test]
fn a_recording_ends_in_time_though_more_is_said_than_can_be_taken() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let agent = std::thread::spawn(move || talkative(theirs, Duration::from_secs(30)));
    let link = AgentLink::new(ours, Instant::now() + Duration::from_secs(5)).unwrap();
    let info = SessionInfo {
        tool_version: String::new(),
        pid: std::process::id(),
        process_name: String::new(),
        command_line: String::new(),
        runtime: String::new(),
        platform: String::new(),
        entry: session::Entry::Attached,
        start_unix_ms: 0,
        start: now(),
        cpus: 1,
        profilers: Vec::new(),
    };
    let recorder = Recorder::new(
        Sources {
            target: Target::new(std::process::id()).unwrap(),
            link,
            cpu: CpuSource::off(),
            engine: EngineChoice::Auto,
            events: Vec::new(),
            info,
            path: None,
            out: Tee(None, None),
            duration: Some(Duration::from_millis(500)),
            last_snapshot: None,
            rules: RuleHandle::new(None),
            dry: false,
            stop: StopHandle::default(),
            progress: Arc::default(),
            exit_code: None,
            requested: None,
            stays: false,
            library: String::new(),
        },
        Vec::new(),
    );
    let began = Instant::now();
    recorder.run().unwrap();
    let taken = began.elapsed();
    assert!(taken < Duration::from_secs(10), "{taken:?}");
    agent.join().unwrap();
}
