//! Filters of system calls (seccomp).

use crate::ledger;

/// Whether a filter of system calls is in place. What it does with a call is not known before the
/// call is made, and it may be to end the process: so calls that no runtime makes by itself are
/// left out then, and where it cannot be found out (no descriptor is left, no `/proc`).
pub fn is_filtered() -> bool {
    // Seccomp in proc_pid_status(5): 0 is none, 1 strict, 2 a filter.
    filtered_in("/proc/self/status")
}

/// The same of the thread that asks: a program may set a filter for all its threads later.
pub fn is_thread_filtered() -> bool {
    filtered_in("/proc/thread-self/status")
}

fn filtered_in(status: &str) -> bool {
    ledger::read(status).map_or(true, |status| is_filtered_by(&String::from_utf8_lossy(&status)))
}

fn is_filtered_by(status: &str) -> bool {
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() != "0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_tells() {
        assert!(is_filtered_by("Name:\tx\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(!is_filtered_by("Seccomp:\t0\nSeccomp_filters:\t0\n"));
        // A kernel without it.
        assert!(!is_filtered_by("Name:\tSeccomp:\n"));
    }

    #[test]
    fn what_cannot_be_found_out_is_taken_for_a_filter() {
        let free = wire::Resource::Descriptors.budget() - ledger::held(wire::Resource::Descriptors);
        let all = ledger::take(wire::Resource::Descriptors, free).unwrap();
        assert!(is_filtered() && is_thread_filtered());
        drop(all);
    }
}
