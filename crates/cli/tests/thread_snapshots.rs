//! `clrscope record -p heap` on every runtime: heap snapshots from the target to the session
//! file.
#![cfg(unix)]
mod common;

use common::{Running, agent_is_mapped, clrscope, file, run, scratch};
use rustix::process::Signal;
use session::{EndReason, HeapEnd, SessionReader, SessionRecord};
use std::{collections::HashMap, fs::File, path::Path, time::Duration};
use testkit::{Runtime, Sample, TargetProcess, sample_runtimes};
use wire::heap::{HeapItem, decode};

const LIMIT: Duration = Duration::from_secs(120);

/// What a session has of one snapshot.
#[derive(Default)]
struct Snapshot {
    classes: HashMap<u64, String>,
    /// Objects and bytes by class.
    objects: HashMap<u64, (u64, u64)>,
    end: Option<HeapEnd>,
}

impl Snapshot {
    fn objects_of(&self, name: &str) -> (u64, u64) {
        let of = self
            .objects
            .iter()
            .filter(|(class, _)| self.classes.get(class).is_some_and(|known| known == name));
        of.fold((0, 0), |sum, (_, row)| (sum.0 + row.0, sum.1 + row.1))
    }

    fn all(&self) -> u64 {
        self.objects.values().map(|row| row.0).sum()
    }
}

/// The snapshots of a session, notes, and why it ended.
fn read(path: &Path) -> (Vec<Snapshot>, Vec<String>, Option<EndReason>) {
    let (mut snapshots, mut notes, mut end) = (Vec::new(), Vec::new(), None);
    for record in SessionReader::new(File::open(path).unwrap()).unwrap() {
        match record.unwrap() {
            SessionRecord::HeapBegin { snapshot, .. } => {
                assert_eq!(snapshot as usize, snapshots.len());
                snapshots.push(Snapshot::default());
            }
            SessionRecord::HeapChunk { bytes, .. } => {
                for item in decode(&bytes) {
                    if let HeapItem::Object { class, size, .. } = item.unwrap() {
                        let row = snapshots.last_mut().unwrap().objects.entry(class).or_default();
                        *row = (row.0 + 1, row.1 + size);
                    }
                }
            }
            SessionRecord::HeapClasses { classes, .. } => {
                snapshots
                    .last_mut()
                    .unwrap()
                    .classes
                    .extend(classes.into_iter().map(|(id, name, _)| (id, name)));
            }
            SessionRecord::HeapEnd(ended) => snapshots.last_mut().unwrap().end = Some(ended),
            SessionRecord::Note { message, .. } => notes.push(message),
            SessionRecord::End(ended) => end = Some(ended.reason),
            _ => {}
        }
    }
    (snapshots, notes, end)
}

fn heapster(runtime: Runtime, arguments: &[&str]) -> TargetProcess {
    let mut process = Sample::named("heapster").launch(runtime, arguments).private_tmp().start();
    process.wait_for_ready();
    process
}

fn record(pid: u32, output: &Path, profilers: &str) -> Running {
    let pid = pid.to_string();
    Running::start(clrscope(["record", &pid, "-o", output.to_str().unwrap(), "-p", profilers]))
}

/// Waits until a session has begun to hold a snapshot.
#[track_caller]
fn wait_for_chunk(output: &Path, recorder: &mut Running) {
    loop {
        let has = |reader: SessionReader<File>| {
            reader.flatten().any(|record| matches!(record, SessionRecord::HeapChunk { .. }))
        };
        if File::open(output).ok().and_then(|file| SessionReader::new(file).ok()).is_some_and(has) {
            return;
        }
        assert!(!recorder.has_ended(), "the recording ended before the snapshot began");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the runtime has unloaded the agent.
#[track_caller]
fn wait_unmapped(pid: u32) {
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while agent_is_mapped(pid) {
        assert!(std::time::Instant::now() < until, "the agent stays");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
fn answers(process: &mut TargetProcess) {
    process.send_line("grow 1").unwrap();
    process.wait_for_line(LIMIT, |line| line == "grown").unwrap();
}

#[test]
fn a_recording_for_a_look_ends_with_it_and_leaves_room_for_others() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let mut process = heapster(runtime, &["--chain", "50000"]);
        let pid = process.pid();
        let mut snapshots = Vec::new();
        // The second snapshot finds the process as the first one found it, with another recording
        // between.
        for round in 0..2 {
            let output = file(&folder, &format!("{round}.clrscope"));
            record(pid, &output, "heap").wait().expect(0);
            let (mut found, notes, end) = read(&output);
            assert_eq!((found.len(), end), (1, Some(EndReason::Stopped)), "{runtime}: {notes:?}");
            assert_eq!(notes, Vec::<String>::new(), "{runtime}");
            snapshots.append(&mut found);

            let output = file(&folder, &format!("{round}-cpu.clrscope"));
            let pid = pid.to_string();
            let arguments = [
                "record",
                &pid,
                "-o",
                output.to_str().unwrap(),
                "-p",
                "cpu,exceptions",
                "--duration",
                "1s",
            ];
            run(arguments).expect(0);
            let (_, notes, _) = read(&output);
            assert_eq!(
                notes,
                Vec::<String>::new(),
                "{runtime}: a recording after a snapshot is like any other"
            );
            answers(&mut process);
        }
        process.close_stdin();
        let truth = process.truth(LIMIT);
        for snapshot in &snapshots {
            let end = snapshot.end.as_ref().unwrap();
            assert!(end.complete && end.reason.is_none() && end.paused > 0, "{runtime}: {end:?}");
            assert_eq!(end.objects, snapshot.all(), "{runtime}");
            for (name, known) in truth["types"].as_object().unwrap() {
                if name != "Clrscope.Samples.Leaked" {
                    let known = |field: &str| known[field].as_u64().unwrap();
                    assert_eq!(
                        snapshot.objects_of(name),
                        (known("objects"), known("bytes")),
                        "{runtime}: {name}"
                    );
                }
            }
        }
    }
}

#[test]
fn snapshots_go_with_a_recording() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "both.clrscope");
        let mut process = heapster(runtime, &["--count", "10000"]);
        let profilers = "heap:snapshots=2:every=1,exceptions,gc";
        let pid = process.pid().to_string();
        let arguments =
            ["record", &pid, "-o", output.to_str().unwrap(), "-p", profilers, "--duration", "4s"];
        run(arguments).expect(0);
        let (snapshots, notes, end) = read(&output);
        assert_eq!((snapshots.len(), end), (2, Some(EndReason::Stopped)), "{runtime}: {notes:?}");
        assert!(
            snapshots
                .iter()
                .all(|snapshot| snapshot.objects_of("Clrscope.Samples.Held").0 == 10_000),
            "{runtime}"
        );
        answers(&mut process);
    }
}

#[test]
fn who_finds_the_main_slot_taken_is_told_so() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let (first, second) = (file(&folder, "first.clrscope"), file(&folder, "second.clrscope"));
        let mut process = heapster(runtime, &["--count", "1000"]);
        let mut recorder = record(process.pid(), &first, "heap:snapshots=100:every=3600");
        wait_for_chunk_end(&first, &mut recorder);
        let ended = record(process.pid(), &second, "heap").wait();
        ended.expect_error(
            4,
            &[
                "the profiler heap needs",
                "main profiler slot",
                "another profiler holds it",
                "command of clrscope",
            ],
        );
        assert!(!second.exists(), "{runtime}: there is no session of nothing");
        recorder.signal(Signal::INT);
        recorder.wait().expect(0);
        answers(&mut process);
    }
}

/// Waits until a session holds a whole snapshot.
#[track_caller]
fn wait_for_chunk_end(output: &Path, recorder: &mut Running) {
    wait_for_chunk(output, recorder);
    while read(output).0.first().is_none_or(|snapshot| snapshot.end.is_none()) {
        assert!(!recorder.has_ended());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_was_seen_of_a_process_that_dies_can_be_read() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "dies.clrscope");
        let mut process = heapster(runtime, &["--count", "5000000"]);
        let mut recorder = record(process.pid(), &output, "heap");
        wait_for_chunk(&output, &mut recorder);
        process.kill();
        recorder.wait().expect(0);
        let (snapshots, notes, end) = read(&output);
        assert_eq!(
            (snapshots.len(), end),
            (1, Some(EndReason::ProcessExited)),
            "{runtime}: {notes:?}"
        );
        let end = snapshots[0].end.as_ref().unwrap();
        assert!(
            !end.complete && end.reason.as_deref() == Some("the process ended"),
            "{runtime}: {end:?}"
        );
        assert!(snapshots[0].all() > 1000, "{runtime}");
    }
}

#[test]
fn the_process_outlives_a_clrscope_that_is_killed_in_a_snapshot() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "killed.clrscope");
        let mut process = heapster(runtime, &["--count", "5000000"]);
        let mut recorder = record(process.pid(), &output, "heap");
        wait_for_chunk(&output, &mut recorder);
        recorder.signal(Signal::KILL);
        recorder.wait();
        answers(&mut process);
        // What came is a session that was cut short.
        let seen = SessionReader::new(File::open(&output).unwrap()).unwrap().flatten();
        assert!(
            seen.filter(|record| matches!(record, SessionRecord::HeapChunk { .. })).count() > 0,
            "{runtime}"
        );
        // And the process can be looked at again, once the agent has left.
        wait_unmapped(process.pid());
        let again = file(&folder, "again.clrscope");
        record(process.pid(), &again, "heap").wait().expect(0);
        assert!(read(&again).0[0].end.as_ref().unwrap().complete, "{runtime}");
        answers(&mut process);
    }
}
