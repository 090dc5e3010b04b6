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
        let root = Path::new("/sys/fs/cgroup");
        let v1 = root.join(controller);
        let is_v1 = v1.join("cgroup.procs").is_file();
        let enabled = fs::read_to_string(root.join("cgroup.subtree_control")).unwrap_or_default();
        if !is_v1 && !enabled.split_whitespace().any(|name| name == controller) {
            return None;
        }
        let folder = if is_v1 { v1 } else { root.to_owned() }
            .join(format!("clrscope-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).ok()?;
        Some(Self { folder, is_v1 })
    }

    /// Whether it is of version 1, where files and units have other names.
    pub fn is_v1(&self) -> bool {
        self.is_v1
    }

    /// A launch within the group.
    pub fn enter(&self, launch: Launch) -> Launch {
        let procs = self.folder.join("cgroup.procs").display().to_string();
        launch.under(["sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", &procs])
    }

    /// Writes a limit.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn set(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.folder.join(file), value)
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
