//! Unix sockets, also behind `/proc/<pid>/root`.

use super::proc;
pub use crate::platform::unix::{Listener, Stream, connect_short};
use rootfs::Root;
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

/// Longest path that fits in `sockaddr_un`, without the final NUL.
const MAX_PATH: usize = 107;

/// Connects to the socket at `path`, however long that is. Below `/proc/<pid>/root` no link leads
/// out of that root.
pub fn connect(path: &Path, deadline: Instant) -> io::Result<Stream> {
    let stream = connect_unchecked(path, deadline)?;
    match peer(&stream) {
        Some(peer) if !may_listen(peer) => {
            let text = "whoever listens there is not the user of that process";
            Err(io::Error::new(io::ErrorKind::ConnectionRefused, text))
        }
        _ => Ok(stream),
    }
}

/// Whether a process would listen as this user: its own, or root, which it may have been before.
/// Ids of processes come again, and the socket of an earlier one may be in another user's hands.
fn may_listen(peer: Peer) -> bool {
    peer.pid == 0
        || peer.uid == 0
        || proc::status(peer.pid).is_ok_and(|status| status.uid == peer.uid)
}

/// The process and the path that it sees, of a path below `/proc/<pid>/root`.
fn below_root(path: &Path) -> Option<(u32, &Path)> {
    let mut parts = path.components();
    let is =
        |part: Option<Component<'_>>, name: &str| part.is_some_and(|part| part.as_os_str() == name);
    let in_proc = is(parts.next(), "/") && is(parts.next(), "proc");
    let pid = parts.next()?.as_os_str().to_str()?.parse().ok()?;
    (in_proc && is(parts.next(), "root")).then_some((pid, parts.as_path()))
}

fn connect_unchecked(path: &Path, deadline: Instant) -> io::Result<Stream> {
    if let Some((pid, seen)) = below_root(path) {
        let socket = Root::of_process(pid)?.socket(seen)?;
        return connect_short(
            Path::new(&format!("/proc/self/fd/{}", socket.as_raw_fd())),
            deadline,
        );
    }
    if path.as_os_str().as_bytes().len() <= MAX_PATH {
        return connect_short(path, deadline);
    }
    // A detour by a descriptor of the directory makes every path short.
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let directory = rustix::fs::open(
        directory,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
    connect_short(&short, deadline)
}

/// Who is at the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its id in our pid namespace; 0 where it is not visible there.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
}

/// Who is at the other side: the process that connected, or the one that listens. `None` where the
/// system does not tell.
pub fn peer(stream: &Stream) -> Option<Peer> {
    let credentials = sockopt::socket_peercred(stream.socket()).ok()?;
    let pid = u32::try_from(credentials.pid.as_raw_nonzero().get()).ok()?;
    Some(Peer { pid, uid: credentials.uid.as_raw() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    #[test]
    fn sockets_of_other_roots() {
        assert_eq!(below_root(Path::new("/proc/7/root/tmp/x")), Some((7, Path::new("tmp/x"))));
        for path in ["/proc/7/cwd/x", "/tmp/x", "/proc/self/root/x", "/", "/procs/7/root/x"] {
            assert_eq!(below_root(Path::new(path)), None, "{path}");
        }
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        symlink(folder.path().join("socket"), folder.path().join("link")).unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let root = proc::root_path(std::process::id(), folder.path());
        let soon = || Instant::now() + Duration::from_secs(2);
        assert!(connect(&root.join("socket"), soon()).is_ok());
        assert!(connect(&root.join("link"), soon()).is_ok());
        assert!(connect(&root.join("file"), soon()).is_err());
        drop(listener);
        assert_eq!(
            connect(&root.join("socket"), soon()).unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
    }

    #[test]
    fn another_user_is_not_talked_to() {
        let own = rustix::process::geteuid().as_raw();
        let pid = std::process::id();
        assert!(may_listen(Peer { pid, uid: own }) && may_listen(Peer { pid, uid: 0 }));
        assert!(!may_listen(Peer { pid, uid: own + 1 }));
        // One that has ended says nothing about who is behind its number.
        assert!(!may_listen(Peer { pid: u32::MAX, uid: own + 1 }));
        // A listener of this process whose user is another one: the thread that listens has it.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        std::fs::set_permissions(
            folder.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o777),
        )
        .unwrap();
        let _listener = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let uid = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
                UnixListener::bind(&path).unwrap()
            });
            other.join().unwrap()
        });
        let error = connect(&path, Instant::now() + Duration::from_secs(2)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{error}");
        assert!(error.to_string().contains("not the user"), "{error}");
    }
}
