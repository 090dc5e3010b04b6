use crate::not_regular;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A root directory: no path leads out of it.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
}

impl Root {
    /// Our own.
    ///
    /// # Errors
    /// Those of the system.
    pub fn own() -> io::Result<Self> {
        Self::at(Path::new("/"))
    }

    /// That of a process, which may be of another mount namespace or have changed its root.
    ///
    /// # Errors
    /// Those of the system: we may not look into the process, or it has ended.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        Self::at(Path::new(&format!("/proc/{pid}/root")))
    }

    /// Any directory. How it is reached is up to the caller: links on the way are followed.
    ///
    /// # Errors
    /// Those of the system.
    pub fn at(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { directory: open(directory, flags, Mode::empty())? })
    }

    /// A directory below, as a descriptor that only names it (`O_PATH`).
    ///
    /// # Errors
    /// Those of the system.
    pub fn directory(&self, path: &Path) -> io::Result<OwnedFd> {
        self.resolve(path, OFlags::DIRECTORY)
    }

    pub(crate) fn open_regular(&self, path: &Path) -> io::Result<File> {
        reopen(&self.named(path, FileType::RegularFile)?)
    }

    pub(crate) fn has_regular(&self, path: &Path) -> bool {
        self.named(path, FileType::RegularFile).is_ok()
    }

    /// A socket, as a descriptor that only names it: connecting to `/proc/self/fd/<n>` reaches that
    /// socket and no other.
    ///
    /// # Errors
    /// Those of the system; `InvalidInput` for anything but a socket.
    pub fn socket(&self, path: &Path) -> io::Result<OwnedFd> {
        self.named(path, FileType::Socket)
    }

    /// Names of the first `most` entries of a directory.
    ///
    /// # Errors
    /// Those of the system.
    pub fn entries(&self, path: &Path, most: usize) -> io::Result<Vec<OsString>> {
        let directory = self.directory(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listed = Dir::new(openat(&directory, ".", flags, Mode::empty())?)?;
        let names = listed
            .take(most)
            .map(|entry| Ok(OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned()));
        names.collect()
    }

    /// When a file was last written, whatever it is.
    ///
    /// # Errors
    /// Those of the system.
    pub fn modified(&self, path: &Path) -> io::Result<SystemTime> {
        let stat = fstat(self.resolve(path, OFlags::empty())?)?;
        let seconds = u64::try_from(stat.st_mtime).unwrap_or_default();
        Ok(UNIX_EPOCH
            + Duration::new(seconds, u32::try_from(stat.st_mtime_nsec).unwrap_or_default()))
    }

    /// Names a file without opening it: opening a FIFO or a device does something to it.
    fn named(&self, path: &Path, wanted: FileType) -> io::Result<OwnedFd> {
        of_kind(self.resolve(path, OFlags::empty())?, wanted)
    }

    /// Symbolic links are followed as the process itself would follow them. Links of `/proc`, which
    /// lead anywhere, are not.
    fn resolve(&self, path: &Path, more: OFlags) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | more;
        let ways = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        // The kernel gives up with EAGAIN where something is renamed meanwhile.
        for _ in 0..16 {
            match openat2(&self.directory, path, flags, Mode::empty(), ways) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                // Kernels before 5.6, and seccomp filters that do not know it.
                Err(Errno::NOSYS | Errno::PERM) => {
                    return by_steps(self.directory.as_fd(), path, flags);
                }
                other => return Ok(other?),
            }
        }
        Err(Errno::AGAIN.into())
    }
}

/// See [`crate::open_at`].
pub(crate) fn open_link(path: &Path) -> io::Result<File> {
    reopen(&of_kind(
        open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?,
        FileType::RegularFile,
    )?)
}

fn of_kind(found: OwnedFd, wanted: FileType) -> io::Result<OwnedFd> {
    match FileType::from_raw_mode(fstat(&found)?.st_mode) == wanted {
        true => Ok(found),
        false => Err(not_regular()),
    }
}

/// Opens a regular file through a descriptor that names it: it is that file, whatever lies at its
/// path by now.
fn reopen(found: &OwnedFd) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(open(path, flags, Mode::empty())?))
}

/// What `openat2` does, without following any link.
fn by_steps(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let step = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut at = openat(root, ".", step | OFlags::DIRECTORY, Mode::empty())?;
    let mut components = path.components().peekable();
    while let Some(component) = components.next() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => {
                let flags = if components.peek().is_some() {
                    step | OFlags::DIRECTORY
                } else {
                    step | flags
                };
                at = openat(&at, name, flags, Mode::empty())?;
                if FileType::from_raw_mode(fstat(&at)?.st_mode) == FileType::Symlink {
                    return Err(Errno::LOOP.into());
                }
            }
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::XDEV.into()),
        }
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, mknodat};
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Instant;

    fn scene() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("root");
        fs::create_dir_all(inside.join("srv/app")).unwrap();
        fs::write(folder.path().join("outside"), "outside").unwrap();
        fs::write(inside.join("srv/app/file"), "inside").unwrap();
        let root = Root::at(&inside).unwrap();
        (folder, root)
    }

    #[test]
    fn links_are_resolved_in_the_root() {
        let (folder, root) = scene();
        let inside = folder.path().join("root");
        let outside = folder.path().join("outside");
        symlink("/srv/app/file", inside.join("absolute")).unwrap();
        symlink("../../../../srv/app/file", inside.join("up")).unwrap();
        symlink(&outside, inside.join("out")).unwrap();
        symlink("../outside", inside.join("out-by-steps")).unwrap();
        symlink("/proc/self/fd/0", inside.join("magic")).unwrap();
        symlink("loop", inside.join("loop")).unwrap();
        for path in ["/srv/app/file", "srv/app/file", "/absolute", "/up", "/../srv/../srv/app/file"]
        {
            assert_eq!(root.read(Path::new(path), 100).unwrap(), b"inside", "{path}");
            assert!(root.is_file(Path::new(path)), "{path}");
        }
        for path in ["/out", "/out-by-steps", "/../outside", "/magic", "/loop", "/nothing", "/srv"]
        {
            assert!(root.open(Path::new(path), 100).is_err(), "{path}");
            assert!(!root.is_file(Path::new(path)), "{path}");
        }
        assert!(root.directory(Path::new("/srv/app")).is_ok());
        let entries = |most| root.entries(Path::new("/srv/app"), most).unwrap();
        assert!(entries(10).iter().any(|name| name == "file"));
        assert!(root.modified(Path::new("/srv/app/file")).unwrap() > UNIX_EPOCH);
        assert_eq!(entries(1).len(), 1);
        assert!(root.directory(Path::new("/absolute")).is_err());
        let own = Root::of_process(std::process::id()).unwrap();
        assert!(own.open(Path::new("/proc/self/exe"), u64::MAX).is_err(), "a link of /proc");
        assert_eq!(own.read(&outside, 100).unwrap(), b"outside");
    }

    #[test]
    fn what_is_no_regular_file_is_not_opened() {
        let (folder, root) = scene();
        let inside = folder.path().join("root");
        mknodat(CWD, inside.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        symlink("/fifo", inside.join("to-fifo")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(inside.join("socket")).unwrap();
        let began = Instant::now();
        for path in ["/fifo", "/to-fifo", "/socket", "/srv"] {
            let error = root.open(Path::new(path), 100).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path}: {error}");
        }
        let own = Root::own().unwrap();
        for device in ["/dev/zero", "/dev/null", "/dev/tty"] {
            assert_eq!(
                own.open(Path::new(device), 100).unwrap_err().kind(),
                io::ErrorKind::InvalidInput,
                "{device}"
            );
        }
        assert!(
            crate::open_at(&inside.join("to-fifo"), 100).is_err()
                && crate::open_at(Path::new("/dev/zero"), 100).is_err()
        );
        assert!(crate::open_at(Path::new("/proc/self/exe"), u64::MAX).is_ok());
        assert!(
            root.socket(Path::new("/socket")).is_ok() && root.socket(Path::new("/fifo")).is_err()
        );
        assert!(began.elapsed() < Duration::from_secs(1));
    }

    #[test]
    fn files_without_end_are_refused() {
        let (folder, root) = scene();
        let file = File::create(folder.path().join("root/huge")).unwrap();
        file.set_len(1 << 40).unwrap();
        let error = root.read(Path::new("/huge"), 1 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("1099511627776"), "{error}");
    }

    #[test]
    fn old_kernels_follow_no_link() {
        let (folder, root) = scene();
        let inside = folder.path().join("root");
        symlink("/srv", inside.join("link")).unwrap();
        symlink("/srv/app/file", inside.join("file")).unwrap();
        let find = |path: &str| by_steps(root.directory.as_fd(), Path::new(path), OFlags::empty());
        assert!(find("/srv/app/file").is_ok());
        for path in ["/link/app/file", "/file", "/../outside", "/srv/../srv/app"] {
            assert!(find(path).is_err(), "{path}");
        }
    }
}
