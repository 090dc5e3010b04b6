//! Where the agent and its socket lie while it is loaded: a folder that the target can see, that only its user
//! can enter, and that is gone again as soon as the agent has connected.

use crate::{AgentFile, RecordError};
use rustix::fs::{self, Mode, StatVfsMountFlags};
use std::{
    fs::Permissions,
    io::{self, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{OpenOptionsExt, PermissionsExt},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// What names of agents begin with.
pub(super) const AGENT_NAME: &str = "libclrscope-";

/// Folders tried after the target's own `TMPDIR`.
const CANDIDATES: [&str; 3] = ["/tmp", "/dev/shm", "/var/tmp"];

/// Longest socket path that `sockaddr_un` holds on Linux, without the final zero (unix(7)).
const MAX_SOCKET_PATH: usize = 107;

const PREFIX: &str = "clrscope-";
const SOCKET: &str = "agent.sock";

/// Who has to be able to use the folder.
#[derive(Clone, Debug)]
pub(super) struct Viewer {
    /// The root of the file system that it sees, as we see it: `/proc/<pid>/root`, or `/`.
    pub root: PathBuf,
    /// Its temporary folder, as it sees it.
    pub tmp: Option<PathBuf>,
    /// Its user and group.
    pub owner: (u32, u32),
}

/// A folder with the agent and its listening socket. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Place {
    folder: Folder,
    agent: String,
    listener: UnixListener,
}

impl Place {
    /// Makes the folder in the first candidate that works.
    pub fn make(viewer: &Viewer, agent: &AgentFile) -> Result<Self, RecordError> {
        let bytes = agent.read().map_err(|source| RecordError::AgentFile {
            path: match agent {
                AgentFile::Path(path) => path.as_ref().clone(),
                AgentFile::Embedded(_) => PathBuf::from("(embedded)"),
            },
            source,
        })?;
        let candidates = viewer.tmp.iter().map(PathBuf::as_path).chain(CANDIDATES.iter().map(Path::new));
        let mut tried: Vec<(PathBuf, String)> = Vec::new();
        for candidate in candidates {
            if tried.iter().any(|(path, _)| path == candidate) {
                continue;
            }
            match Self::make_in(viewer, candidate, &bytes) {
                Ok(place) => return Ok(place),
                Err(error) => tried.push((candidate.to_owned(), error.to_string())),
            }
        }
        let tried = tried.iter().map(|(path, error)| format!("{}: {error}", path.display())).collect::<Vec<_>>();
        Err(RecordError::NoPlace { tried: tried.join("; ") })
    }

    fn make_in(viewer: &Viewer, candidate: &Path, agent: &[u8]) -> io::Result<Self> {
        let inner = candidate.strip_prefix("/").unwrap_or(candidate);
        let parent = viewer.root.join(inner);
        if fs::statvfs(&parent)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            return Err(io::Error::other("mounted noexec, so no library can be loaded from it"));
        }
        sweep(&parent);
        // The name is fresh each time: a library that was ever loaded under a path may still be mapped.
        let name = format!("{PREFIX}{}-{:08x}", std::process::id(), random()? as u32);
        let outside = parent.join(&name);
        fs::mkdir(&outside, Mode::RWXU)?;
        let place = Folder { outside, inside: candidate.join(&name) };
        let socket = place.inside.join(SOCKET);
        if socket.as_os_str().as_bytes().len() > MAX_SOCKET_PATH {
            return Err(io::Error::other(format!("a socket path there is over {MAX_SOCKET_PATH} bytes")));
        }
        let agent_name = format!("{AGENT_NAME}{:08x}.so", random()? as u32);
        let agent_path = place.outside.join(&agent_name);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o500).open(&agent_path)?;
        file.write_all(agent)?;
        drop(file);
        // Bound through the folder's descriptor: our own view of the path may be too long for a socket address.
        let directory = std::fs::File::open(&place.outside)?;
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&directory);
        let listener = UnixListener::bind(format!("/proc/self/fd/{descriptor}/{SOCKET}"))?;
        let socket_path = place.outside.join(SOCKET);
        std::fs::set_permissions(&socket_path, Permissions::from_mode(0o600))?;
        let (uid, gid) = viewer.owner;
        if uid != rustix::process::geteuid().as_raw() {
            for path in [&agent_path, &socket_path, &place.outside] {
                std::os::unix::fs::chown(path, Some(uid), Some(gid))?;
            }
        }
        Ok(Self { folder: place, agent: agent_name, listener })
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
    outside: PathBuf,
    inside: PathBuf,
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If it cannot be removed now (the target's file system is gone), there is nothing left to clean.
        let _ = std::fs::remove_dir_all(&self.outside);
    }
}

/// Removes folders left behind by recorders that were killed in the short time between making the folder and
/// the agent's hello.
fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(owner_pid) else { continue };
        let alive = Path::new("/proc").join(pid.to_string()).exists();
        let ours = fs::stat(entry.path()).is_ok_and(|stat| {
            let me = rustix::process::geteuid();
            me.is_root() || stat.st_uid == me.as_raw()
        });
        // The age guards recorders of another pid namespace that share the folder.
        let old = entry
            .metadata()
            .and_then(|meta| meta.modified())
            .is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|age| age > Duration::from_secs(60)));
        if !alive && ours && old {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn owner_pid(name: &str) -> Option<u32> {
    let (pid, random) = name.strip_prefix(PREFIX)?.split_once('-')?;
    (random.len() == 8 && random.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(())?;
    pid.parse().ok()
}

/// A random number from the kernel.
pub(super) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewer(tmp: &Path) -> Viewer {
        let me = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Viewer { root: "/".into(), tmp: Some(tmp.to_owned()), owner: me }
    }

    fn agent() -> AgentFile {
        AgentFile::Embedded(b"not really a library")
    }

    #[test]
    fn the_folder_is_private_and_goes_with_its_owner() {
        let tmp = tempfile::tempdir().unwrap();
        let place = Place::make(&viewer(tmp.path()), &agent()).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(place.agent_path().parent().unwrap()), 0o700);
        assert_eq!(mode(&place.agent_path()), 0o500);
        assert_eq!(mode(&place.socket_path()), 0o600);
        assert_eq!(std::fs::read(place.agent_path()).unwrap(), b"not really a library");
        std::os::unix::net::UnixStream::connect(place.socket_path()).unwrap();
        drop(place);
        assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
    }

    #[test]
    fn another_folder_is_taken_where_the_first_does_not_work() {
        let place = Place::make(&viewer(Path::new("/nonexistent/tmp")), &agent()).unwrap();
        assert!(place.agent_path().starts_with("/tmp"), "{}", place.agent_path().display());
    }

    #[test]
    fn every_folder_that_failed_is_named() {
        let empty = tempfile::tempdir().unwrap();
        let viewer = Viewer { root: empty.path().to_owned(), ..viewer(Path::new("/here")) };
        let error = Place::make(&viewer, &agent()).unwrap_err().to_string();
        for folder in ["/here", "/tmp", "/dev/shm", "/var/tmp"] {
            assert!(error.contains(folder), "{error}");
        }
    }

    #[test]
    fn left_overs_of_dead_recorders_are_swept() {
        let tmp = tempfile::tempdir().unwrap();
        let dead = tmp.path().join(format!("{PREFIX}{}-0123abcd", u32::MAX));
        std::fs::create_dir(&dead).unwrap();
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        std::fs::File::open(&dead).unwrap().set_modified(hour_ago).unwrap();
        let foreign = tmp.path().join("clrscope-notes");
        std::fs::create_dir(&foreign).unwrap();
        sweep(tmp.path());
        assert!(!dead.exists());
        assert!(foreign.exists());
    }
}
