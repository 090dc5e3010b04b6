//! The threads of a process as the kernel knows them.

use diagnostics::proc;
use std::{collections::HashMap, fs, io};

/// More threads than this are not looked at.
const MOST: usize = 50_000;

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// Its id in the process's own pid namespace: what the runtime knows.
    pub inner_tid: u32,
    /// Whether it stands in a system call or is stopped: it does nothing as long as it is not
    /// switched in.
    pub rests: bool,
    /// How often it was switched out, of itself or not.
    pub switches: u64,
}

/// All threads of a process, by their ids in our pid namespace.
pub(super) fn read(pid: u32) -> io::Result<HashMap<u32, Task>> {
    let mut tasks = HashMap::new();
    for tid in proc::threads(pid)?.into_iter().take(MOST) {
        // One that has ended meanwhile.
        let Ok(text) = fs::read(format!("/proc/{pid}/task/{tid}/status")) else { continue };
        tasks.insert(tid, parse(tid, &String::from_utf8_lossy(&text)));
    }
    match tasks.is_empty() {
        true => Err(io::ErrorKind::NotFound.into()),
        false => Ok(tasks),
    }
}

/// Parses `/proc/<pid>/task/<tid>/status` (proc(5)).
fn parse(tid: u32, status: &str) -> Task {
    let mut task = Task { inner_tid: tid, rests: false, switches: 0 };
    for line in status.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let last = || value.split_whitespace().next_back();
        match key {
            "State" => {
                task.rests =
                    matches!(value.trim_start().chars().next(), Some('S' | 'D' | 'T' | 't'))
            }
            "NSpid" => task.inner_tid = last().and_then(|id| id.parse().ok()).unwrap_or(tid),
            "voluntary_ctxt_switches" | "nonvoluntary_ctxt_switches" => {
                task.switches += last().and_then(|count| count.parse().ok()).unwrap_or(0);
            }
            _ => {}
        }
    }
    task
}

/// Whether a thread rested all the time between two readings: then what was read of it between them
/// is of one moment.
pub(super) fn rested(before: Option<&Task>, after: Option<&Task>) -> bool {
    matches!((before, after), (Some(before), Some(after)) if before.rests && before == after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_a_thread() {
        let text = "Name:\tState: R\nState:\tS (sleeping)\nNSpid:\t4711\t17\n\
            voluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2\n";
        let task = parse(4711, text);
        assert_eq!(task, Task { inner_tid: 17, rests: true, switches: 42 });
        assert!(rested(Some(&task), Some(&task.clone())));
        assert!(!rested(Some(&task), Some(&Task { switches: 43, ..task.clone() })));
        assert!(!rested(Some(&task), None));
        let running = parse(1, "State:\tR (running)\n");
        assert!(!rested(Some(&running), Some(&running)));
    }

    #[test]
    fn we_run_while_we_look() {
        let tasks = read(std::process::id()).unwrap();
        assert!(tasks.values().any(|task| !task.rests));
    }
}
