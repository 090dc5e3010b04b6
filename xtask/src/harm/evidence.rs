//! Where something hangs.

use crate::tool;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// What the kernel knows of each thread of a process and, where there is a debugger, their stacks.
pub fn of(pid: u32) -> String {
    let mut text = format!("== process {pid}\n");
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let read = |name: &str| {
            fs::read_to_string(task.path().join(name)).unwrap_or_default().trim().to_owned()
        };
        let _ = writeln!(
            text,
            "{} {} | {} | {}",
            read("comm"),
            read("stat"),
            read("wchan"),
            read("syscall")
        );
    }
    if tool::find("gdb").is_some() {
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-batch", "-iex", "set debuginfod enabled off", "-p", &pid.to_string()]);
        let shown =
            tool::output(gdb.args(["-ex", "thread apply all bt 12"]), Duration::from_secs(40));
        let _ = writeln!(text, "{}", shown.unwrap_or_else(|error| format!("{error:#}")));
    }
    text
}
