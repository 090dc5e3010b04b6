//! Control groups with limits, as containers have them.

use crate::Launch;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// A control group of one controller; it is removed when this is dropped, after the processes in it
/// have ended.
#[derive(Debug)]
pub struct ControlGroup {
    folder: PathBuf,
    is_v1: bool,
}

impl ControlGroup {
    /// Makes a group with a name that nobody else uses; `None` where this machine has no such
    /// controller that we may use.
    pub fn new(controller: &str, name: &str) -> Option<Self> {
        let (root, is_v1) = hierarchy(controller)?;
        let folder = root.join(format!("clrscope-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).ok()?;
        Some(Self { folder, is_v1 })
    }

    /// Whether this machine has this controller.
    pub fn has(controller: &str) -> bool {
        hierarchy(controller).is_some()
    }

    /// Whether it is of version 1, where files and units have other names.
    pub fn is_v1(&self) -> bool {
        self.is_v1
    }

    /// The command that runs another within the group: it precedes that one.
    pub fn entrance(&self) -> [String; 4] {
        let procs = self.folder.join("cgroup.procs").display().to_string();
        ["sh".into(), "-c".into(), "echo $$ > \"$0\" && exec \"$@\"".into(), procs]
    }

    /// A launch within the group.
    pub fn enter(&self, launch: Launch) -> Launch {
        launch.under(self.entrance())
    }

    /// Writes a limit.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn set(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.folder.join(file), value)
    }

    /// Writes a limit, given as the name of its file and the value: in version 1, and in version 2.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn limit(&self, v1: (&str, &str), v2: (&str, &str)) -> io::Result<()> {
        let (file, value) = if self.is_v1 { v1 } else { v2 };
        self.set(file, value)
            .map_err(|error| io::Error::new(error.kind(), format!("{file}: {error}")))
    }

    /// What the kernel says in a file of the group.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn get(&self, file: &str) -> io::Result<String> {
        fs::read_to_string(self.folder.join(file))
    }

    /// A number; `None` where the kernel has no such file, or no limit.
    pub fn number(&self, file: &str) -> Option<u64> {
        self.get(file).ok()?.trim().parse().ok()
    }

    /// A number, by the names of its file in version 1 and in version 2.
    pub fn number_of(&self, v1: &str, v2: &str) -> Option<u64> {
        self.number(if self.is_v1 { v1 } else { v2 })
    }

    /// How a memory group fared, in words: where it is full the kernel ends a process of it.
    pub fn fared(&self) -> String {
        let file = if self.is_v1 { "memory.oom_control" } else { "memory.events" };
        let text = self.get(file).unwrap_or_default();
        let ended = text
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "))
            .unwrap_or("an unknown number of");
        let number = |v1, v2| {
            self.number_of(v1, v2).map_or_else(|| "?".to_owned(), |bytes| (bytes >> 20).to_string())
        };
        let most = number("memory.max_usage_in_bytes", "memory.peak");
        let limit = number("memory.limit_in_bytes", "memory.max");
        format!(
            "its memory group has used {most} of {limit} MB at most, and the kernel has ended \
             {ended} processes of it"
        )
    }
}

/// Where groups of a controller can be made, and whether that is version 1.
fn hierarchy(controller: &str) -> Option<(PathBuf, bool)> {
    let root = Path::new("/sys/fs/cgroup");
    let v1 = root.join(controller);
    if v1.join("cgroup.procs").is_file() {
        return Some((v1, true));
    }
    let enabled = fs::read_to_string(root.join("cgroup.subtree_control")).ok()?;
    enabled.split_whitespace().any(|name| name == controller).then(|| (root.to_owned(), false))
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // The kernel lets the last process of it go a moment later.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
    }
}
