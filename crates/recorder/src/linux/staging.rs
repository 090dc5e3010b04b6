//! Where the agent and its socket lie while it is loaded: a folder that the target can see, that
//! only its user can enter, and that is gone again as soon as the agent has connected.
//!
//! The target's user owns the folder around it, and may exchange and link there what it likes at
//! any moment. So everything here is done with the rights of that user, and by descriptors that no
//! path leads out of the target's root.

#[cfg(test)]
mod attacks;

use super::identity::Identity;
use crate::{AgentFile, RecordError};
use rootfs::Root;
use rustix::{
    fd::OwnedFd,
    fs::{self, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, StatVfsMountFlags},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with},
};
use std::{
    fs::File,
    io::{self, Write},
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, net::UnixListener},
    },
    path::{Path, PathBuf},
};

/// What names of agents begin with.
pub(super) const AGENT_NAME: &str = "libclrscope-";

/// The same for those that are there only to be counted ([`wire::SessionConfig::placeholder`]).
pub(super) const IDLE_NAME: &str = "libclrscope-idle-";

/// Folders tried after the target's own `TMPDIR`.
const CANDIDATES: [&str; 3] = ["/tmp", "/dev/shm", "/var/tmp"];

/// Longest socket path that `sockaddr_un` holds on Linux, without the final zero (unix(7)).
const MAX_SOCKET_PATH: usize = 107;

/// Connections that may wait to be accepted.
pub(super) const BACKLOG: i32 = 128;

/// Entries of a folder for temporary files that are searched for leftovers.
const MOST_ENTRIES: usize = 20_000;

const PREFIX: &str = "clrscope-";
const SOCKET: &str = "agent.sock";

/// Who has to be able to use the folder.
#[derive(Debug)]
pub(super) struct Viewer {
    /// The root of the file system that it sees.
    pub root: Root,
    /// Its temporary folder, as it sees it.
    pub tmp: Option<PathBuf>,
    /// Its user and group.
    pub owner: Identity,
}

impl Viewer {
    /// Ourselves.
    ///
    /// # Errors
    /// Our root directory cannot be opened.
    pub fn own() -> io::Result<Self> {
        let tmp = std::env::var_os("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
        Ok(Self { root: Root::own()?, tmp, owner: Identity::own() })
    }

    /// Where a folder can be, the first choice first.
    fn candidates(&self) -> impl Iterator<Item = &Path> {
        self.tmp.iter().map(PathBuf::as_path).chain(CANDIDATES.iter().map(Path::new))
    }

    /// The names by which the process may have loaded a library of ours: the one in its memory map,
    /// and the one that was passed to it. They differ where the folder for temporary files is a
    /// link, or where the root of the process was changed.
    pub fn names_of(&self, mapped: &Path) -> Vec<PathBuf> {
        let mut names = vec![mapped.to_owned()];
        let folder = mapped.parent().and_then(Path::file_name);
        if let (Some(folder), Some(file)) = (folder, mapped.file_name()) {
            for candidate in self.candidates() {
                let name = candidate.join(folder).join(file);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }
}

/// A folder with the agent and its listening socket. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Staging {
    folder: Folder,
    agent: String,
    listener: UnixListener,
}

impl Staging {
    /// Makes the folder in the first candidate that works.
    pub fn make(viewer: &Viewer, agent: &AgentFile) -> Result<Self, RecordError> {
        Self::make_named(viewer, agent, AGENT_NAME)
    }

    /// The same with what the agent's name begins with.
    pub fn make_named(viewer: &Viewer, agent: &AgentFile, name: &str) -> Result<Self, RecordError> {
        let bytes = agent.read().map_err(|source| RecordError::AgentFile {
            path: match agent {
                AgentFile::Path(path) => path.as_ref().clone(),
                AgentFile::Embedded(_) => PathBuf::from("(embedded)"),
            },
            source,
        })?;
        let made = viewer.owner.run(|| Self::make_as_owner(viewer, &bytes, name));
        made.map_err(|source| RecordError::Identity { uid: viewer.owner.uid, source })?
    }

    fn make_as_owner(viewer: &Viewer, bytes: &[u8], name: &str) -> Result<Self, RecordError> {
        let mut tried: Vec<(PathBuf, String)> = Vec::new();
        for candidate in viewer.candidates() {
            if tried.iter().any(|(path, _)| path == candidate) {
                continue;
            }
            match Self::make_in(viewer, candidate, bytes, name) {
                Ok(place) => return Ok(place),
                Err(error) => tried.push((candidate.to_owned(), error.to_string())),
            }
        }
        let tried = tried
            .iter()
            .map(|(path, error)| format!("{}: {error}", path.display()))
            .collect::<Vec<_>>();
        Err(RecordError::NoPlace { tried: tried.join("; ") })
    }

    fn make_in(
        viewer: &Viewer,
        candidate: &Path,
        agent: &[u8],
        agent_name: &str,
    ) -> io::Result<Self> {
        // The folder for temporary files may well be a link (/tmp to /var/tmp): it is followed
        // within the target's root, and this user could follow it, too. From here on nothing is.
        let parent = viewer.root.directory(candidate)?;
        if fs::fstatvfs(&parent)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            return Err(io::Error::other("mounted noexec, so no library can be loaded from it"));
        }
        sweep(&parent, viewer.owner);
        // The name is fresh each time: a library that was ever loaded under a path may still be
        // mapped.
        let name = format!("{PREFIX}{}-{:08x}", std::process::id(), random()? as u32);
        let inside = candidate.join(&name);
        if inside.join(SOCKET).as_os_str().as_bytes().len() > MAX_SOCKET_PATH {
            return Err(io::Error::other(format!(
                "a socket path there is over {MAX_SOCKET_PATH} bytes"
            )));
        }
        step("make the folder");
        fs::mkdirat(&parent, &name, Mode::RWXU)?;
        step("open the folder");
        let folder = Folder::open(parent, name, inside, viewer.owner)?;
        let agent_name = format!("{agent_name}{:08x}.so", random()? as u32);
        step("write the library");
        let create =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&folder.directory, &agent_name, create, Mode::RUSR | Mode::XUSR)?;
        File::from(file).write_all(agent)?;
        step("bind the socket");
        let listener = folder.bind()?;
        step("done");
        Ok(Self { folder, agent: agent_name, listener })
    }

    /// Lets processes of all users load the library and connect; no other user may list, change or
    /// add anything. Who connects has to be checked. Done only where no other user could have
    /// exchanged the folder: whether it is.
    ///
    /// # Errors
    /// The modes cannot be changed.
    pub fn admit_all(&self) -> io::Result<bool> {
        let folder = &self.folder;
        let admitted = folder.owner.run(|| -> io::Result<bool> {
            let parent = fs::fstat(&folder.parent)?;
            let mode = Mode::from_raw_mode(parent.st_mode);
            let shared = mode.intersects(Mode::WGRP | Mode::WOTH) && !mode.contains(Mode::SVTX);
            if shared || ![0, folder.owner.uid].contains(&parent.st_uid) {
                return Ok(false);
            }
            // No other user can enter it yet, so these names lead to what was made.
            folder.set_mode(&self.agent, 0o555)?;
            folder.set_mode(SOCKET, 0o666)?;
            fs::fchmod(&folder.directory, Mode::from(0o711))?;
            Ok(true)
        });
        admitted?
    }

    /// Removes what recorders that were killed have left, where nothing new is made. What cannot be
    /// reached stays.
    pub fn sweep(viewer: &Viewer) {
        let _ = viewer.owner.run(|| {
            for candidate in viewer.candidates() {
                if let Ok(parent) = viewer.root.directory(candidate) {
                    sweep(&parent, viewer.owner);
                }
            }
        });
    }

    /// Removes the folder, the library and the socket. An agent that has connected needs none of
    /// them any more.
    pub fn unlink(&mut self) {
        self.folder.remove();
    }

    /// Path of the agent, as the target sees it.
    pub fn agent_path(&self) -> PathBuf {
        self.folder.inside.join(&self.agent)
    }

    /// Name of the agent's file: no other recording has the same.
    pub fn agent_name(&self) -> &str {
        &self.agent
    }

    /// Path of the socket, as the target sees it.
    pub fn socket_path(&self) -> PathBuf {
        self.folder.inside.join(SOCKET)
    }

    /// The listening socket.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

/// A folder that goes with this value.
#[derive(Debug)]
struct Folder {
    parent: OwnedFd,
    name: String,
    /// Locked for as long as this value lives: a folder whose lock is free is a leftover.
    directory: OwnedFd,
    inside: PathBuf,
    owner: Identity,
    removed: bool,
}

impl Folder {
    /// Opens the folder that was just made, and makes sure that it is that one.
    fn open(parent: OwnedFd, name: String, inside: PathBuf, owner: Identity) -> io::Result<Self> {
        let directory = open_folder(&parent, name.as_ref())?;
        let stat = fs::fstat(&directory)?;
        if stat.st_uid != owner.uid
            || Mode::from_raw_mode(stat.st_mode) & Mode::from(0o777) != Mode::RWXU
        {
            return Err(io::Error::other("somebody has exchanged the folder that was made there"));
        }
        step("lock the folder");
        fs::flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { parent, name, directory, inside, owner, removed: false })
    }

    /// Binds the socket in the folder that is open, whatever its path is by now.
    fn bind(&self) -> io::Result<UnixListener> {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // The file of a socket gets the mode of the socket, so nothing has to be changed at a path
        // afterwards.
        fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        let path = format!("/proc/self/fd/{}/{SOCKET}", self.directory.as_raw_fd());
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        step("listen");
        listen(&socket, BACKLOG)?;
        Ok(UnixListener::from(socket))
    }

    /// Sets the mode of what has this name in the folder, of itself and of nothing that it links
    /// to.
    fn set_mode(&self, name: &str, mode: u32) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&self.directory, name, flags, Mode::empty())?;
        // A socket cannot be opened, and what is opened as a place only has no mode of its own to
        // be set.
        Ok(fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), Mode::from(mode))?)
    }

    fn remove(&mut self) {
        if self.removed {
            return;
        }
        // What cannot be removed now (the file system is read-only just now) is tried again at the
        // end.
        let removed = self.owner.run(|| {
            step("remove");
            remove(&self.parent, self.name.as_ref(), &self.directory)
        });
        self.removed = removed.is_ok_and(|removed| removed.is_ok());
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Opens a folder of ours, itself and no link in its place.
fn open_folder(parent: &OwnedFd, name: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(fs::openat(parent, name, flags, Mode::empty())?)
}

/// Removes a folder with what we put into one. With anything else in it, it stays.
fn remove(parent: &OwnedFd, name: &Path, directory: &OwnedFd) -> io::Result<()> {
    for entry in Dir::read_from(directory)?.take(16) {
        let entry = entry?;
        let file = entry.file_name();
        if file.to_bytes() == SOCKET.as_bytes()
            || file.to_bytes().starts_with(AGENT_NAME.as_bytes())
        {
            fs::unlinkat(directory, file, AtFlags::empty())?;
        }
    }
    step("remove the folder");
    Ok(fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

/// Removes folders left behind by recorders that were killed. Called with the rights of their
/// owner.
fn sweep(parent: &OwnedFd, owner: Identity) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(listed) = fs::openat(parent, ".", flags, Mode::empty()) else { return };
    let Ok(entries) = Dir::read_from(&listed) else { return };
    for entry in entries.take(MOST_ENTRIES).flatten() {
        let name = Path::new(std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()));
        if !name.to_str().is_some_and(is_ours) {
            continue;
        }
        step("sweep");
        let Ok(directory) = open_folder(parent, name) else { continue };
        let is_theirs = fs::fstat(&directory).is_ok_and(|stat| {
            stat.st_uid == owner.uid && FileType::from_raw_mode(stat.st_mode) == FileType::Directory
        });
        // Whoever made it holds the lock while it lives, in whichever pid namespace.
        if is_theirs && fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = remove(parent, name, &directory);
        }
    }
}

/// Whether a folder of ours has such a name: a process id and a random number.
fn is_ours(name: &str) -> bool {
    let parts = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(pid, random)| {
        pid.parse::<u32>().is_ok()
            && random.len() == 8
            && random.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// A random number from the kernel.
pub(super) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Says what is done next, to tests that come between.
#[cfg(not(test))]
fn step(_: &'static str) {}
#[cfg(test)]
use attacks::step;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    fn viewer(tmp: &Path) -> Viewer {
        Viewer { root: Root::own().unwrap(), tmp: Some(tmp.to_owned()), owner: Identity::own() }
    }

    fn agent() -> AgentFile {
        let packed = lz4_flex::block::compress_prepend_size(b"not really a library");
        AgentFile::Embedded(packed.leak())
    }

    #[test]
    fn the_folder_is_private_and_goes_with_its_owner() {
        let _alone = attacks::alone();
        let tmp = tempfile::tempdir().unwrap();
        let mut place = Staging::make(&viewer(tmp.path()), &agent()).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(place.agent_path().parent().unwrap()), 0o700);
        assert_eq!(mode(&place.agent_path()), 0o500);
        assert_eq!(mode(&place.socket_path()), 0o600);
        assert_eq!(std::fs::read(place.agent_path()).unwrap(), b"not really a library");
        std::os::unix::net::UnixStream::connect(place.socket_path()).unwrap();
        place.unlink();
        assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
        drop(Staging::make(&viewer(tmp.path()), &agent()).unwrap());
        assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
    }

    #[test]
    fn others_are_admitted_and_can_change_nothing() {
        let _alone = attacks::alone();
        let tmp = tempfile::tempdir().unwrap();
        let open =
            |mode| std::fs::set_permissions(tmp.path(), Permissions::from_mode(mode)).unwrap();
        open(0o1777);
        let place = Staging::make(&viewer(tmp.path()), &agent()).unwrap();
        let other = Identity { uid: 65534, gid: 65533 };
        let library = place.agent_path();
        let folder = library.parent().unwrap();
        let can_read = || other.run(|| std::fs::read(&library).is_ok()).unwrap();
        let can_connect = || {
            other
                .run(|| std::os::unix::net::UnixStream::connect(place.socket_path()).is_ok())
                .unwrap()
        };
        assert!(!can_read() && !can_connect());
        assert!(place.admit_all().unwrap());
        assert!(can_read() && can_connect());
        let changes = other.run(|| {
            [
                std::fs::read_dir(folder).is_ok(),
                std::fs::write(&library, "x").is_ok(),
                std::fs::write(folder.join("new"), "x").is_ok(),
                std::fs::remove_file(&library).is_ok(),
                std::fs::remove_file(place.socket_path()).is_ok(),
                std::fs::rename(folder, tmp.path().join("x")).is_ok(),
                File::open(folder).is_ok(),
            ]
        });
        assert_eq!(changes.unwrap(), [false; 7]);
        drop(place);
        assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
        // Whoever may exchange the folder could have it opened in place of another one.
        open(0o777);
        let place = Staging::make(&viewer(tmp.path()), &agent()).unwrap();
        assert!(!place.admit_all().unwrap());
        assert_eq!(
            std::fs::metadata(place.agent_path().parent().unwrap()).unwrap().permissions().mode()
                & 0o777,
            0o700
        );
    }

    #[test]
    fn everything_belongs_to_the_user_of_the_target() {
        let _alone = attacks::alone();
        use std::os::unix::fs::MetadataExt;
        let tmp = tempfile::tempdir().unwrap();
        std::fs::set_permissions(tmp.path(), Permissions::from_mode(0o1777)).unwrap();
        let owner = Identity { uid: 65534, gid: 65533 };
        let place = Staging::make(&Viewer { owner, ..viewer(tmp.path()) }, &agent()).unwrap();
        let folder = place.agent_path().parent().unwrap().to_owned();
        for path in [folder, place.agent_path(), place.socket_path()] {
            let meta = std::fs::metadata(&path).unwrap();
            assert_eq!((meta.uid(), meta.gid()), (65534, 65533), "{}", path.display());
        }
        drop(place);
        assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
        // It cannot write there, and so neither do we.
        std::fs::set_permissions(tmp.path(), Permissions::from_mode(0o755)).unwrap();
        let place = Staging::make(&Viewer { owner, ..viewer(tmp.path()) }, &agent()).unwrap();
        assert!(!place.agent_path().starts_with(tmp.path()), "{}", place.agent_path().display());
        let nobody_knows = Identity { uid: u32::MAX, gid: 0 };
        let error = Staging::make(&Viewer { owner: nobody_knows, ..viewer(tmp.path()) }, &agent())
            .unwrap_err();
        assert_eq!(error.exit_code(), 4, "{error}");
        assert!(error.to_string().contains("CAP_SETUID"), "{error}");
    }

    #[test]
    fn a_linked_folder_for_temporary_files_is_followed_within_the_root() {
        let _alone = attacks::alone();
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("var/tmp")).unwrap();
        std::os::unix::fs::symlink("/var/tmp", root.path().join("tmp")).unwrap();
        let viewer = Viewer { root: Root::at(root.path()).unwrap(), ..viewer(Path::new("/tmp")) };
        let place = Staging::make(&viewer, &agent()).unwrap();
        assert!(place.agent_path().starts_with("/tmp"));
        assert_eq!(std::fs::read_dir(root.path().join("var/tmp")).unwrap().count(), 1);
    }

    #[test]
    fn a_library_that_is_mapped_is_known_by_the_names_that_were_told() {
        let names = viewer(Path::new("/link"))
            .names_of(Path::new("/real/clrscope-1-0/libclrscope-idle-0.so"));
        let name =
            |folder: &str| PathBuf::from(format!("{folder}/clrscope-1-0/libclrscope-idle-0.so"));
        assert_eq!(names, ["/real", "/link", "/tmp", "/dev/shm", "/var/tmp"].map(name));
        let names = viewer(Path::new("/tmp")).names_of(&name("/tmp"));
        assert_eq!(names, ["/tmp", "/dev/shm", "/var/tmp"].map(name));
    }

    #[test]
    fn another_folder_is_taken_where_the_first_does_not_work() {
        let _alone = attacks::alone();
        let place = Staging::make(&viewer(Path::new("/nonexistent/tmp")), &agent()).unwrap();
        assert!(place.agent_path().starts_with("/tmp"), "{}", place.agent_path().display());
    }

    #[test]
    fn every_folder_that_failed_is_named() {
        let _alone = attacks::alone();
        let empty = tempfile::tempdir().unwrap();
        let viewer = Viewer { root: Root::at(empty.path()).unwrap(), ..viewer(Path::new("/here")) };
        let error = Staging::make(&viewer, &agent()).unwrap_err().to_string();
        for folder in ["/here", "/tmp", "/dev/shm", "/var/tmp"] {
            assert!(error.contains(folder), "{error}");
        }
    }

    #[test]
    fn leftovers_of_dead_recorders_are_swept() {
        let _alone = attacks::alone();
        let tmp = tempfile::tempdir().unwrap();
        let folder = |name: &str, files: &[&str]| {
            let folder = tmp.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            files.iter().for_each(|file| std::fs::write(folder.join(file), "").unwrap());
            folder
        };
        let dead = folder("clrscope-4194305-0123abcd", &[SOCKET, "libclrscope-0.so"]);
        // Of a process that lives, but is none of ours: process ids come again.
        let reused = folder("clrscope-1-0123abcd", &["libclrscope-0.so"]);
        let notes = folder("clrscope-notes", &[]);
        let filled = folder("clrscope-4194305-0123abce", &["precious"]);
        let foreign = folder("clrscope-4194305-0123abcf", &[SOCKET]);
        std::os::unix::fs::chown(&foreign, Some(65534), None).unwrap();
        std::os::unix::fs::symlink(&notes, tmp.path().join("clrscope-4194305-01230000")).unwrap();
        let first = Staging::make(&viewer(tmp.path()), &agent()).unwrap();
        assert!(!dead.exists() && !reused.exists());
        assert!(
            notes.exists() && foreign.join(SOCKET).exists() && filled.join("precious").exists()
        );
        // One that is in use stays.
        let second = Staging::make(&viewer(tmp.path()), &agent()).unwrap();
        assert!(first.agent_path().exists() && second.agent_path().exists());
        // Where nothing is made because the target has no room, they go all the same.
        let dead = folder("clrscope-4194305-0123abcd", &[SOCKET]);
        Staging::sweep(&viewer(tmp.path()));
        assert!(!dead.exists() && first.agent_path().exists() && foreign.exists());
    }
}
