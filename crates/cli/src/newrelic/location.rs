//! Files as clrscope or another process sees them.

use rootfs::Root;
use std::{
    ffi::OsString,
    fs::File,
    io,
    path::{Path, PathBuf},
};

/// Where paths lead: a root directory, and the folder that relative paths count from.
#[derive(Debug)]
pub struct Location {
    root: Root,
    folder: PathBuf,
}

impl Location {
    /// Paths as clrscope sees them.
    ///
    /// # Errors
    /// Those of the system.
    pub fn own() -> io::Result<Self> {
        Ok(Self {
            root: Root::own()?,
            folder: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
        })
    }

    /// Paths in a root directory, where relative ones count from `folder`.
    #[cfg(target_os = "linux")]
    pub const fn new(root: Root, folder: PathBuf) -> Self {
        Self { root, folder }
    }

    /// A path that does not depend on the current folder.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        // Joining an absolute path gives that path.
        self.folder.join(path)
    }

    /// Opens a regular file of at most `most` bytes.
    ///
    /// # Errors
    /// Those of the system; anything but a regular file, or a larger one.
    pub fn open(&self, path: &Path, most: u64) -> io::Result<File> {
        self.root.open(&self.absolute(path), most)
    }

    /// Reads a regular file of at most `most` bytes.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        self.root.read(&self.absolute(path), most)
    }

    /// Whether there is a regular file. Nothing is opened.
    pub fn is_file(&self, path: &Path) -> bool {
        self.root.is_file(&self.absolute(path))
    }

    /// Names of at most `most` entries of a folder.
    ///
    /// # Errors
    /// Those of the system.
    pub fn entries(&self, path: &Path, most: usize) -> io::Result<Vec<OsString>> {
        let names = self.root.entries(&self.absolute(path), most)?;
        Ok(names.into_iter().filter(|name| name != "." && name != "..").collect())
    }
}
