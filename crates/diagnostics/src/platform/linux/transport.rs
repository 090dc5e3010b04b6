//! Unix sockets, also behind `/proc/<pid>/root`.

use crate::platform::unix::connect_short;
pub use crate::platform::unix::{Listener, Stream};
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Longest path that fits in `sockaddr_un`, without the final NUL.
const MAX_PATH: usize = 107;

/// Connects to the socket at `path`, however long that is.
pub fn connect(path: &Path, deadline: Instant) -> io::Result<Stream> {
    if path.as_os_str().as_bytes().len() <= MAX_PATH {
        return connect_short(path, deadline);
    }
    // A detour by a descriptor of the directory makes every path short.
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let directory = rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
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

/// Who is at the other side: the process that connected, or the one that listens. `None` where the system does
/// not tell.
pub fn peer(stream: &Stream) -> Option<Peer> {
    let credentials = sockopt::socket_peercred(stream.socket()).ok()?;
    let pid = u32::try_from(credentials.pid.as_raw_nonzero().get()).ok()?;
    Some(Peer { pid, uid: credentials.uid.as_raw() })
}
