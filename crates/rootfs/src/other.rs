use crate::not_regular;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A root directory. Only on Linux can that of another process differ from ours, and are paths kept
/// below it.
#[derive(Debug)]
pub struct Root {
    directory: PathBuf,
}

impl Root {
    /// Our own.
    ///
    /// # Errors
    /// None.
    pub fn own() -> io::Result<Self> {
        Self::at(Path::new("/"))
    }

    /// That of a process: the same as ours.
    ///
    /// # Errors
    /// None.
    pub fn of_process(_pid: u32) -> io::Result<Self> {
        Self::own()
    }

    /// Any directory.
    ///
    /// # Errors
    /// None.
    pub fn at(directory: &Path) -> io::Result<Self> {
        Ok(Self { directory: directory.to_owned() })
    }

    /// Names of the first `most` entries of a directory.
    ///
    /// # Errors
    /// Those of the system.
    pub fn entries(&self, path: &Path, most: usize) -> io::Result<Vec<OsString>> {
        fs::read_dir(self.below(path))?.take(most).map(|entry| Ok(entry?.file_name())).collect()
    }

    pub(crate) fn open_regular(&self, path: &Path) -> io::Result<File> {
        match self.has_regular(path) {
            true => File::open(self.below(path)),
            // The system says why, where there is nothing at all.
            false => {
                Err(fs::metadata(self.below(path)).map_or_else(|error| error, |_| not_regular()))
            }
        }
    }

    pub(crate) fn has_regular(&self, path: &Path) -> bool {
        self.below(path).is_file()
    }

    fn below(&self, path: &Path) -> PathBuf {
        match self.directory == Path::new("/") {
            true => path.to_owned(),
            false => self.directory.join(path.strip_prefix("/").unwrap_or(path)),
        }
    }
}
