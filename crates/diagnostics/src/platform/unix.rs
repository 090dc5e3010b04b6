//! Blocking Unix sockets on which every operation has an end.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketType, sockopt};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// A connection to, or from, a runtime.
#[derive(Debug)]
pub struct Stream {
    socket: UnixStream,
    limit: Limit,
}

/// When reading or writing gives up.
#[derive(Clone, Copy, Debug)]
enum Limit {
    /// At this time, however much was transferred.
    Deadline(Instant),
    /// When nothing at all was transferred for this long.
    Idle(Duration),
}

impl Stream {
    /// Around a connected socket; all further work on it ends at `deadline`.
    pub fn new(socket: UnixStream, deadline: Instant) -> Self {
        Self { socket, limit: Limit::Deadline(deadline) }
    }

    /// From now on all work together ends at `deadline`.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.limit = Limit::Deadline(deadline);
    }

    /// From now on each read and write may take this long.
    pub fn set_idle_limit(&mut self, limit: Duration) {
        self.limit = Limit::Idle(limit);
    }

    /// The socket, for asking who is at its other side.
    #[cfg(target_os = "linux")]
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    fn allowance(&self) -> io::Result<Duration> {
        match self.limit {
            Limit::Deadline(deadline) => remaining(deadline),
            // A time-out of zero would mean none.
            Limit::Idle(limit) => Ok(limit.max(Duration::from_millis(1))),
        }
    }
}

/// Time left until `deadline`; an error when there is none.
fn remaining(deadline: Instant) -> io::Result<Duration> {
    match deadline.checked_duration_since(Instant::now()) {
        Some(left) if left >= Duration::from_micros(1) => Ok(left),
        _ => Err(io::ErrorKind::TimedOut.into()),
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// The system reports a socket's time-out as `WouldBlock`.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A time-out of the socket would also be one of whoever has a duplicate of it, which may be
        // another process.
        let allowance = timespec(self.allowance()?);
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&allowance))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            // Another process may have read what was there.
            _ => match net::recv(&self.socket, buffer, net::RecvFlags::DONTWAIT) {
                Ok((_, read)) => Ok(read),
                Err(error) => Err(timed_out(error.into())),
            },
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.allowance()?))?;
        self.socket.write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Connects to the socket at `path` until `deadline`. A connection blocks while the queue of the
/// other side is full, which a stopped process makes it.
pub fn connect_short(path: &Path, deadline: Instant) -> io::Result<Stream> {
    let address = SocketAddrUnix::new(path)?;
    #[cfg(target_os = "linux")]
    let socket =
        net::socket_with(AddressFamily::UNIX, SocketType::STREAM, net::SocketFlags::CLOEXEC, None)?;
    #[cfg(not(target_os = "linux"))]
    let socket = {
        let socket = net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        socket
    };
    loop {
        sockopt::set_socket_timeout(
            socket.as_fd(),
            sockopt::Timeout::Send,
            Some(remaining(deadline)?),
        )?;
        match net::connect(&socket, &address) {
            Ok(()) => return Ok(Stream::new(UnixStream::from(socket), deadline)),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A socket that runtimes connect to.
#[derive(Debug)]
pub struct Listener {
    listener: std::os::unix::net::UnixListener,
    path: std::path::PathBuf,
}

impl Listener {
    /// Listens at `path`, where nothing may be yet, for connections of our own user only.
    pub fn bind(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::PermissionsExt;
        let listener = std::os::unix::net::UnixListener::bind(path)?;
        let listener = Self { listener, path: path.to_owned() };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        listener.listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// The next connection, or `None` when there was none for `wait`.
    pub fn accept(&self, wait: Duration) -> io::Result<Option<UnixStream>> {
        let timeout = timespec(wait);
        match poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        match self.listener.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(false)?;
                Ok(Some(socket))
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        let _ = std::fs::remove_file(&self.path);
    }
}
