use rootfs::Root;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::Target;
use crate::Mapping;

/// Largest file that is read for unwinding or symbols, bytes.
const MAX_FILE: u64 = 2 << 30;

/// A running process, read through `/proc`.
#[derive(Clone, Copy, Debug)]
pub struct LiveProcess {
    pid: u32,
}

impl LiveProcess {
    /// The process with this id in our own pid namespace.
    pub fn new(pid: u32) -> Self {
        Self { pid }
    }
}

impl Target for LiveProcess {
    fn mappings(&self) -> io::Result<Vec<Mapping>> {
        let maps = fs::read(format!("/proc/{}/maps", self.pid))?;
        Ok(Mapping::parse_all(&String::from_utf8_lossy(&maps)))
    }

    /// Opens the file through the root directory of the process, so that containers work. Where
    /// another file has taken its place, such as after an upgrade, the mapped one can still be had
    /// through `/proc/<pid>/map_files`, if we have the rights (`CAP_SYS_ADMIN` or
    /// `CAP_CHECKPOINT_RESTORE`).
    fn open(&self, mapping: &Mapping) -> io::Result<File> {
        let path = mapping.path.strip_suffix(" (deleted)").unwrap_or(&mapping.path);
        let by_path =
            Root::of_process(self.pid).and_then(|root| root.open(Path::new(path), MAX_FILE));
        if let Ok(file) = &by_path
            && file.metadata().is_ok_and(|metadata| metadata.ino() == mapping.inode)
        {
            return by_path;
        }
        let mapped = format!("/proc/{}/map_files/{:x}-{:x}", self.pid, mapping.start, mapping.end);
        match rootfs::open_at(Path::new(&mapped), MAX_FILE) {
            Ok(file) => Ok(file),
            // On some overlay file systems the inode in `maps` is not the one that `stat` tells, so
            // a file that was not deleted counts as the right one.
            Err(_) if path == mapping.path => by_path,
            Err(error) => Err(error),
        }
    }

    /// The kernel maps the same image into every 64-bit process, so our own one serves.
    fn vdso(&self) -> Option<Vec<u8>> {
        let own = fs::read_to_string("/proc/self/maps").ok()?;
        let mapping =
            own.lines().filter_map(Mapping::parse).find(|mapping| mapping.path == "[vdso]")?;
        let mut image = vec![0; usize::try_from(mapping.end - mapping.start).ok()?];
        File::open("/proc/self/mem").ok()?.read_exact_at(&mut image, mapping.start).ok()?;
        Some(image)
    }
}
