//! The door of an agent that the runtime of its process never lets go of: it takes the next session.

use super::target::Target;
use diagnostics::proc;
use rustix::{
    fd::{AsFd, OwnedFd},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use std::{
    fs::{File, read_link},
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};
use wire::DoorAnswer;

/// How long the agent may take to say that it takes the session.
const LIMIT: Duration = Duration::from_secs(3);

/// Hands a session to an idle agent; `None` if there is none that answers.
pub(super) fn knock(target: &Target, uid: u32, config: &[u8]) -> Option<DoorAnswer> {
    match hand_over(target, uid, config) {
        Ok(answer) if answer == DoorAnswer::Begins as u8 => Some(DoorAnswer::Begins),
        Ok(answer) if answer == DoorAnswer::Refused as u8 => Some(DoorAnswer::Refused),
        _ => None,
    }
}

fn hand_over(target: &Target, uid: u32, config: &[u8]) -> io::Result<u8> {
    let namespace = read_link(format!("/proc/{}/ns/pid", target.pid))?;
    let name = wire::door_name(&namespace.to_string_lossy(), proc::ns_pid(target.pid)?);
    let socket = socket_beside(target)?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    let mut stream = UnixStream::from(socket);
    // Whoever else has taken the name is told nothing.
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    if peer.pid.as_raw_nonzero().get().unsigned_abs() != target.pid || peer.uid.as_raw() != uid {
        return Ok(0);
    }
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    stream.write_all(&(config.len() as u32).to_le_bytes())?;
    stream.write_all(config)?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    Ok(answer[0])
}

/// A socket in the network namespace of the target: names that are in no file system are known only there (unix(7)).
fn socket_beside(target: &Target) -> io::Result<OwnedFd> {
    let socket = || Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?);
    let theirs = format!("/proc/{}/ns/net", target.pid);
    if read_link(&theirs)? == read_link("/proc/self/ns/net")? {
        return socket();
    }
    let namespace = File::open(theirs)?;
    // A socket stays where it was made. Only the thread that makes it goes there, and ends there.
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            socket()
        });
        there.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    })
}
