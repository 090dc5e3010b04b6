#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]
#![forbid(unsafe_code)]
//! Opens files of another process without leaving its root directory.
//!
//! Whoever owns a process decides what lies at the paths that it names: symbolic links that lead
//! elsewhere (an absolute one below `/proc/<pid>/root` leads into *our* root), FIFOs that nobody
//! ever writes to, devices that act when they are opened, files without end. [`Root`] resolves each
//! path as the process does, and opens regular files of a bounded size only.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
pub use linux::Root;
#[cfg(not(target_os = "linux"))]
pub use other::Root;

impl Root {
    /// Opens a regular file of at most `most` bytes for reading. A path that is relative counts
    /// from the root.
    ///
    /// # Errors
    /// Those of the system; `InvalidInput` for anything but a regular file (nothing is opened
    /// then); `FileTooLarge`.
    pub fn open(&self, path: &Path, most: u64) -> io::Result<File> {
        bounded(self.open_regular(path)?, most)
    }

    /// Reads a regular file of at most `most` bytes.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // It may grow meanwhile.
        self.open(path, most)?.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Whether there is a regular file. Nothing is opened.
    pub fn is_file(&self, path: &Path) -> bool {
        self.has_regular(path)
    }
}

/// Opens a regular file of at most `most` bytes at a path that is ours to choose, such as
/// `/proc/<pid>/exe`: links are followed wherever they lead, and what is no regular file is not
/// opened.
///
/// # Errors
/// As of [`Root::open`].
pub fn open_at(path: &Path, most: u64) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    let file = linux::open_link(path)?;
    #[cfg(not(target_os = "linux"))]
    let file = Root::own()?.open_regular(path)?;
    bounded(file, most)
}

/// A path that the system tells about a process, as the process sees it: one that has changed its
/// root directory to `root` sees the rest of it.
#[must_use]
pub fn inside(root: &Path, path: &Path) -> PathBuf {
    match path.strip_prefix(root) {
        Ok(rest) => Path::new("/").join(rest),
        Err(_) => path.to_owned(),
    }
}

fn bounded(file: File, most: u64) -> io::Result<File> {
    let length = file.metadata()?.len();
    if length > most {
        let text = format!("it has {length} bytes, more than the {most} that are read");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(file)
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_another_root() {
        let of = |root: &str, path: &str| inside(Path::new(root), Path::new(path));
        assert_eq!(of("/", "/usr/bin/dotnet"), Path::new("/usr/bin/dotnet"));
        assert_eq!(of("/srv/jail", "/srv/jail/app/x.dll"), Path::new("/app/x.dll"));
        assert_eq!(of("/srv/jail", "/usr/bin/dotnet"), Path::new("/usr/bin/dotnet"));
    }
}
