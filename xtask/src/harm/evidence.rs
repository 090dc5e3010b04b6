//! Where something hangs, and where something died.

use crate::tool;
use anyhow::Result;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How many core files are kept at most: each has the size of a process.
const CORES: usize = 6;

/// What reading a core file may take.
const CORE_LIMIT: Duration = Duration::from_secs(60);

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

/// Lets what is started from now on leave a core file when a signal ends it, as far as whoever
/// started this program allows.
///
/// # Errors
/// When the limit cannot be changed.
pub fn allow_cores() -> Result<()> {
    let maximum = getrlimit(Resource::Core).maximum;
    Ok(setrlimit(Resource::Core, Rlimit { current: maximum, maximum })?)
}

/// Where a process died that left a core file in `folder`: the stacks of its threads, where there
/// is a debugger. The file itself is moved to `kept`, unless there are enough of them already.
pub fn of_core(folder: &Path, executable: &Path, kept: &Path) -> Option<String> {
    let core = find_core(folder)?;
    let mut text = format!("== core file of a process that ran in {}\n", folder.display());
    if tool::find("gdb").is_some() {
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-batch", "-iex", "set debuginfod enabled off"]);
        gdb.args(["-ex", "info registers", "-ex", "x/6i $pc", "-ex", "bt 40"]);
        gdb.args(["-ex", "info sharedlibrary", "-ex", "thread apply all bt 16"]);
        let shown = tool::output(gdb.arg(executable).arg(&core), CORE_LIMIT);
        let _ = writeln!(text, "{}", shown.unwrap_or_else(|error| format!("{error:#}")));
    }
    let enough = tool::files(kept.parent()?, "core").is_ok_and(|cores| cores.len() >= CORES);
    // The cell's folder may lie on another file system, and goes with the cell.
    if !enough && fs::copy(&core, kept).is_ok() {
        let _ = writeln!(text, "kept as {}", kept.display());
    }
    let _ = fs::remove_file(core);
    Some(text)
}

/// `core` or `core.123`, as the kernel writes it by default.
fn find_core(folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.flatten();
    files.map(|file| file.path()).find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name == "core" || name.strip_prefix("core.").is_some_and(|id| id.parse::<u32>().is_ok())
    })
}
