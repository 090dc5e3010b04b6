//! What a process holds: descriptors, timers, mappings, threads.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

/// What may be held as the library goes: threads that still run keep their alternate stacks.
pub(super) const MAY_STAY: &[&str] = &["alternate stacks"];

/// What is in a process.
pub(super) struct Held {
    descriptors: usize,
    libraries: usize,
}

impl Held {
    pub(super) fn of(pid: u32) -> Self {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let libraries: BTreeSet<&str> = maps
            .lines()
            .filter(|line| line.contains("libclrscope-"))
            .filter_map(|line| line.splitn(6, ' ').nth(5))
            .collect();
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        Self { descriptors, libraries: libraries.len() }
    }

    /// What has come since, after some seconds in which it may go.
    pub(super) fn left(&self, pid: u32, stays: bool) -> Option<String> {
        let deadline = Instant::now() + Duration::from_secs(6);
        loop {
            let now = Self::of(pid);
            let threads = own_threads(pid);
            let allowed = usize::from(stays);
            let mut left = Vec::new();
            if threads.len() > allowed {
                left.push(format!("threads {threads:?}"));
            }
            if now.libraries > self.libraries.max(2) {
                left.push(format!("{} libraries", now.libraries));
            }
            // The program itself opens some now and then; a resident agent may hold eight.
            if now.descriptors > self.descriptors + if stays { 8 } else { 4 } {
                left.push(format!("{} descriptors, {} before", now.descriptors, self.descriptors));
            }
            if left.is_empty() {
                return None;
            }
            if Instant::now() > deadline {
                return Some(format!("left behind: {}", left.join(", ")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn own_threads(pid: u32) -> Vec<String> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let names =
        tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).filter(|name| name.starts_with("clrscope-")).collect()
}
