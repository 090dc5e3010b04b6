//! A real deadlock on .NET 10, where no sample runs: an application that is given another entry
//! point.
#![cfg(target_os = "linux")]

use inspect::{Findings, LockKind, Outcome, Owner};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};
use testkit::{Runtime, TargetProcess};

const APART: Duration = Duration::from_millis(40);

/// An example's library; `cargo test` builds the examples beside the tests.
fn library(example: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let library = profile.join("examples").join(format!("lib{example}.so"));
    assert!(
        library.is_file(),
        "{} is missing: build it with `cargo build -p inspect --examples`",
        library.display()
    );
    library
}

#[test]
fn a_deadlock_of_each_kind_of_lock() {
    for (kind, word) in [(LockKind::Monitor, "monitor"), (LockKind::Lock, "lock")] {
        let process = TargetProcess::azmcp_launch(Runtime::V10)
            .env("CORECLR_ENABLE_PROFILING", "1")
            .env("CORECLR_PROFILER", "{2F6A4C1E-5B6D-4C63-8A0E-5D7C9B1E3F0D}")
            .env("CORECLR_PROFILER_PATH", library("deadlocker"))
            .env("DEADLOCKER", word)
            .start();
        let until = Instant::now() + Duration::from_secs(60);
        let (look, found) = loop {
            assert!(Instant::now() < until, "{word}: no cycle\n{}", process.transcript());
            if let Ok(look) = inspect::look(process.pid(), APART) {
                let found = Findings::of(&look, None);
                if found.outcome == Outcome::Deadlock {
                    break (look, found);
                }
            }
            // It starts, and other threads wait for a lock for a moment.
            std::thread::sleep(Duration::from_millis(50));
        };
        assert_eq!(
            (found.outcome, found.verdict.as_str()),
            (Outcome::Deadlock, "deadlock: 2 threads"),
            "{found:#?}"
        );
        assert_eq!(found.cycles.len(), 1, "{word}: {found:#?}");
        let threads = &found.cycles[0].threads;
        let main = threads.iter().position(|thread| thread.os_tid == process.pid()).unwrap();
        let (main, second) = (&threads[main], &threads[1 - main]);
        assert_eq!(
            (main.managed_id, second.name.as_deref()),
            (1, Some("second")),
            "{word}: {found:#?}"
        );
        assert_eq!(main.waits_for.as_ref(), second.holds.first(), "{word}: {found:#?}");
        assert_eq!(second.waits_for.as_ref(), main.holds.first(), "{word}: {found:#?}");
        for lock in &look.locks {
            let type_name =
                if kind == LockKind::Monitor { "System.Object" } else { "System.Threading.Lock" };
            assert_eq!((lock.kind, lock.type_name.as_deref()), (kind, Some(type_name)), "{word}");
            assert!(matches!(lock.owner, Owner::Thread(_)), "{word}: {lock:?}");
        }
    }
}

#[test]
fn an_application_at_work_has_none() {
    let mut process = TargetProcess::azmcp(Runtime::V10);
    process.feed(1).unwrap();
    for round in 0..20 {
        let look = inspect::look(process.pid(), APART).unwrap();
        assert!(look.threads.len() > 5, "{look:#?}");
        assert!(
            look.threads
                .iter()
                .any(|thread| thread.managed_id == 1 && thread.os_tid == process.pid()),
            "{look:#?}"
        );
        let found = Findings::of(&look, None);
        assert!(
            matches!(found.outcome, Outcome::Clear | Outcome::Waiting),
            "look {round}: {found:#?}"
        );
        process.feed(1).unwrap();
    }
}
