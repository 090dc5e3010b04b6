//! One turn at a time for all agents in a process: several recordings may be under way, each with a library of its
//! own, which share no memory.
//!
//! A turn is a bound abstract socket (unix(7)): the kernel gives a name once, and takes it back from whoever closes it
//! or is unloaded.

use std::io;
use std::mem::{offset_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Gives out turns.
#[derive(Clone, Copy)]
pub struct Turns {
    address: libc::sockaddr_un,
    length: libc::socklen_t,
}

/// A turn, until it is dropped. Empty where the system has no such sockets: then there is no order.
#[derive(Debug)]
pub struct Turn {
    _socket: Option<OwnedFd>,
}

impl Turns {
    /// Turns at something in this process.
    pub fn of_process(what: &str) -> Self {
        // A network namespace may hold processes of several pid namespaces: the start tells equal numbers apart.
        let name = format!("clrscope-{what}-{}-{}", std::process::id(), start_ticks().unwrap_or_default());
        Self::named(name.as_bytes())
    }

    fn named(name: &[u8]) -> Self {
        // SAFETY: all-zero is a valid value of this C struct.
        let mut address: libc::sockaddr_un = unsafe { zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        // The first byte stays zero: the name is not one of a file.
        let places = address.sun_path.iter_mut().skip(1);
        let written = places.zip(name).map(|(place, byte)| *place = *byte as libc::c_char).count();
        let length = offset_of!(libc::sockaddr_un, sun_path) + 1 + written;
        Self { address, length: length as libc::socklen_t }
    }

    /// A turn, if nobody else has it.
    pub fn take(&self) -> Option<Turn> {
        // SAFETY: no pointers.
        let socket = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Some(Turn { _socket: None });
        }
        // SAFETY: a descriptor that was just made, and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        // SAFETY: the address is initialized up to the length given.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const self.address).cast(), self.length) };
        if bound == 0 {
            return Some(Turn { _socket: Some(socket) });
        }
        let taken = io::Error::last_os_error().raw_os_error() == Some(libc::EADDRINUSE);
        (!taken).then_some(Turn { _socket: None })
    }
}

impl std::fmt::Debug for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turns").finish_non_exhaustive()
    }
}

/// When this process was started, in ticks since the system was: field 22 of proc_pid_stat(5).
fn start_ticks() -> Option<u64> {
    let stat = std::fs::read("/proc/self/stat").ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name of the program may hold anything but is closed by the last bracket.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_turn_at_a_time() {
        let (ours, theirs) = (Turns::of_process("test"), Turns::of_process("test"));
        let turn = ours.take().unwrap();
        assert!(turn._socket.is_some() && theirs.take().is_none() && ours.take().is_none());
        assert!(Turns::of_process("other").take().is_some());
        drop(turn);
        assert!(theirs.take().is_some());
        assert!(start_ticks().unwrap() > 0);
    }
}
