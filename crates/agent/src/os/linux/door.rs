//! The socket by which an idle agent is reached.
//!
//! Its name is not in the file system, so nothing is left of it however the process ends; it is known in the network
//! namespace of the process. Only the same user, and root, are let in.

use crate::os::clock;
use crate::os::connection::foreign_user;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// Most bytes of a session's configuration: as much as an attach request can bring.
const MOST: usize = 64 << 10;
/// How long a caller may take for anything.
const LIMIT: Duration = Duration::from_secs(2);

/// The open door.
#[derive(Debug)]
pub struct Door {
    listener: UnixListener,
}

/// Somebody at the door.
#[derive(Debug)]
pub struct Caller {
    stream: UnixStream,
}

impl Door {
    /// Opens it.
    ///
    /// # Errors
    /// Somebody else uses the name, or there is none.
    pub fn open() -> io::Result<Self> {
        let namespace = std::fs::read_link("/proc/self/ns/pid")?;
        let name = wire::door_name(&namespace.to_string_lossy(), std::process::id());
        Ok(Self { listener: UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)? })
    }

    /// Waits until somebody comes who may; `None` if that cannot be.
    pub fn wait(&self) -> Option<Caller> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let limits = stream.set_read_timeout(Some(LIMIT)).and(stream.set_write_timeout(Some(LIMIT)));
                    if limits.is_ok() && matches!(foreign_user(stream.as_fd()), Ok(None)) {
                        return Some(Caller { stream });
                    }
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    // Out of descriptors: it may get better.
                    _ if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) => {
                        clock::sleep_until(clock::monotonic() + 1_000_000_000);
                    }
                    _ => return None,
                },
            }
        }
    }
}

impl Caller {
    /// What it brings: a length in four bytes, and as many bytes.
    ///
    /// # Errors
    /// It brings too much, or nothing in time.
    pub fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MOST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Tells it what becomes of its session.
    ///
    /// # Errors
    /// It is gone.
    pub fn answer(&mut self, answer: wire::DoorAnswer) -> io::Result<()> {
        self.stream.write_all(&[answer as u8])
    }
}
