use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::error::Refusal;

/// Finds out why the system does not let us watch a process.
pub(super) fn explain(pid: u32) -> Refusal {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse().ok();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let own_user = rustix::process::geteuid().as_raw();
    let their_user = fs::metadata(format!("/proc/{pid}")).map(|metadata| metadata.uid());
    Refusal {
        paranoid: number("/proc/sys/kernel/perf_event_paranoid"),
        seccomp: field("Seccomp:").is_some_and(|mode| mode != "0"),
        other_user: own_user != 0 && their_user.is_ok_and(|user| user != own_user),
    }
}
