//! What the agent says that it holds in the target is what it holds.

mod client;

use client::{Client, config};
use std::time::Duration;
use testkit::{Sample, on_sample_runtimes_at_once};
use wire::{CpuEngine, HeldResource, Resource};

fn of(uses: &[HeldResource], resource: Resource) -> HeldResource {
    let unused = HeldResource { resource, held: 0, highest: 0, refused: 0 };
    uses.iter().copied().find(|used| used.resource == resource).unwrap_or(unused)
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[test]
fn everything_is_counted_bounded_and_returned() {
    on_sample_runtimes_at_once(|runtime| {
        if !runtime.is_supported() {
            return;
        }
        let mut process = Sample::named("burn").start(runtime, &["--seconds", "30"]);
        process.wait_for_ready();
        let before = descriptors(process.pid());
        let mut client =
            Client::attach(&process, config(&["cpu", "exceptions"], CpuEngine::Signals));
        client.collect(Duration::from_millis(500));
        // The ring's descriptor is here, too, as long as this process keeps it.
        let during = descriptors(process.pid());
        client.send(&wire::Control::Status);
        client.collect(Duration::from_millis(300));
        let status = client.records.iter().rev().find_map(|record| match record {
            wire::Record::Status(status) => Some(status.clone()),
            _ => None,
        });
        let uses = status.unwrap().resources;
        eprintln!("{runtime}: {uses:?}");
        let counted = of(&uses, Resource::Descriptors).held as usize;
        // The target itself may open and close a few.
        assert!(counted.abs_diff(during - before) <= 2, "{runtime}: {before} {during} {counted}");
        assert!(counted >= 3, "{runtime}: connection, event and ring");
        let threads = std::fs::read_dir(format!("/proc/{}/task", process.pid())).unwrap();
        let ours = threads.flatten().filter(|entry| {
            std::fs::read_to_string(entry.path().join("comm"))
                .unwrap_or_default()
                .starts_with("clrscope-")
        });
        assert_eq!(of(&uses, Resource::Threads).held, ours.count() as u64, "{runtime}");
        assert!(
            of(&uses, Resource::Timers).held >= 1 && of(&uses, Resource::SignalHandlers).held == 1
        );
        assert!(of(&uses, Resource::HeapBytes).held > 100_000, "{runtime}");
        let slot =
            if runtime.major() >= 6 { Resource::NotificationSlot } else { Resource::MainSlot };
        assert_eq!(of(&uses, slot).held, 1, "{runtime}");
        let bye = client.stop();
        for used in &bye.status.resources {
            let resource = used.resource;
            assert!(used.highest <= resource.budget() && used.refused == 0, "{runtime}: {used:?}");
            // Threads that run keep their alternate stacks until they end.
            if resource != Resource::AlternateStacks {
                assert!(matches!(used.left(), None | Some(0)), "{runtime}: {used:?}");
            }
        }
        assert_eq!(of(&bye.status.resources, Resource::Timers).held, 0, "{runtime}");
        assert_eq!(of(&bye.status.resources, Resource::Mappings).held, 0, "{runtime}");
    });
}
