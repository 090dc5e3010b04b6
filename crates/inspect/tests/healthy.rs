//! Threads that fight for locks without ever being stuck, looked at as quickly as can be.
#![cfg(target_os = "linux")]

use inspect::Findings;
use std::time::Duration;
use testkit::{Sample, sample_runtimes};

#[test]
fn contention_is_seen_and_is_no_deadlock() {
    for runtime in sample_runtimes() {
        let mut process = Sample::named("deadlock").start(runtime, &["--healthy", "4"]);
        process.wait_for_ready();
        let (mut waits, mut owned) = (0, 0);
        for _ in 0..200 {
            let look = inspect::look(process.pid(), Duration::ZERO).unwrap();
            let found = Findings::of(&look, None);
            assert!(found.cycles.is_empty() && found.orphans.is_empty(), "{runtime}: {found:#?}");
            waits += look.waits.len();
            owned += found.chains.iter().map(|chain| chain.threads.len()).sum::<usize>();
            for wait in &look.waits {
                let (thread, lock) = (&look.threads[wait.thread], &look.locks[wait.lock]);
                assert!(
                    thread.name.as_deref().unwrap().starts_with("healthy-"),
                    "{runtime}: {thread:?}"
                );
                assert_eq!(
                    lock.type_name.as_deref(),
                    Some("Clrscope.Samples.Account"),
                    "{runtime}"
                );
            }
        }
        // Each of them holds a lock for two milliseconds that another one wants.
        assert!(
            waits > 50 && owned > 10,
            "{runtime}: {waits} waits, {owned} of them with an owner"
        );
    }
}
