//! The file of a session, from its creation to the first record.

use crate::RecordError;
use rustix::{
    fs::{self, FileType, Mode, OFlags},
    io::Errno,
};
use session::SessionWriter;
use std::{
    fs::File,
    io::{self, BufWriter},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

/// A session file that is removed again unless something was recorded into it. It is created first
/// of all, so that a path that cannot be written is reported before the target is touched.
#[derive(Debug)]
pub(in crate::linux) struct OutputFile {
    path: PathBuf,
    file: Option<File>,
}

impl OutputFile {
    pub fn create(path: &Path) -> Result<Self, RecordError> {
        // The first says what is there instead; the second does not depend on what is exchanged
        // meanwhile.
        match session::check_file(path).and_then(|()| create_regular(path)) {
            Ok(file) => Ok(Self { path: path.to_owned(), file: Some(file) }),
            Err(source) => {
                Err(RecordError::Output { path: path.to_owned(), source: source.into() })
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The writer of the session, which keeps the file.
    pub fn writer(mut self) -> Result<SessionWriter<BufWriter<File>>, RecordError> {
        let Some(file) = self.file.take() else { unreachable!("a file is taken once") };
        let path = std::mem::take(&mut self.path);
        SessionWriter::new(BufWriter::new(file), env!("CARGO_PKG_VERSION"))
            .map_err(|source| RecordError::Output { path, source })
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            // Nothing was recorded; a file that is gone already is as good.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Makes a file, or empties one that is there. Nothing but a regular file is opened: a FIFO without
/// a reader would hold us up, and one whose reader goes loses the session. A link is not followed,
/// since in a folder of another user it may lead to any file of ours; nor is one emptied that has
/// other names, as another user may have given it this one.
fn create_regular(path: &Path) -> io::Result<File> {
    let refused = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
    let flags =
        OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let named =
        match fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Ok(named) => named,
            Err(Errno::NOENT) => {
                return Ok(fs::open(
                    path,
                    flags | OFlags::CREATE | OFlags::EXCL,
                    Mode::from(0o666),
                )?
                .into());
            }
            Err(error) => return Err(error.into()),
        };
    let status = fs::fstat(&named)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile if status.st_nlink > 1 => {
            return Err(refused(
                "it has several names (hard links), and would be emptied under all of them",
            ));
        }
        FileType::RegularFile => {}
        FileType::Symlink => return Err(refused("it is a symbolic link, which is not followed")),
        FileType::Directory => return Err(io::ErrorKind::IsADirectory.into()),
        _ => {
            return Err(refused(
                "it is not a regular file, and a session is written into nothing else",
            ));
        }
    }
    // Through the descriptor, so that it is the file that was looked at.
    let path = format!("/proc/self/fd/{}", named.as_raw_fd());
    let flags =
        OFlags::WRONLY | OFlags::TRUNC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(fs::open(path, flags, Mode::empty())?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_goes_into_a_regular_file_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        drop(create_regular(&path("new")).unwrap());
        std::fs::write(path("old"), "old").unwrap();
        drop(create_regular(&path("old")).unwrap());
        assert_eq!(std::fs::read(path("old")).unwrap(), b"");
        std::fs::write(path("victim"), "victim").unwrap();
        std::os::unix::fs::symlink(path("victim"), path("link")).unwrap();
        std::os::unix::fs::symlink(path("nowhere"), path("dangling")).unwrap();
        fs::mknodat(fs::CWD, path("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        for name in ["link", "dangling", "fifo", ".", "/dev/full", "none/x"] {
            let error = OutputFile::create(&path(name)).unwrap_err();
            assert_eq!(error.exit_code(), 6, "{name}: {error}");
        }
        assert_eq!(std::fs::read(path("victim")).unwrap(), b"victim");
        assert!(!path("nowhere").exists());
    }
}
