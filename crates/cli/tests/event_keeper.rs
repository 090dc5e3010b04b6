//! The event keeper, with a test that acts as clrscope and as the runtime around it.
#![cfg(target_os = "linux")]
mod common;

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, sendmsg, socketpair, sockopt,
    },
    process::{Pid, Resource, Rlimit, prlimit},
};
use std::{
    fs::{self, File},
    io::{IoSlice, Read, Write},
    mem::MaybeUninit,
    net::Shutdown,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(30);

/// The session's id.
const ID: u64 = 77;

/// What asks for a session in the form of .NET 6, and what ends it.
const COLLECT: (u8, u8) = (2, 4);
const STOP: (u8, u8) = (2, 1);
const OK: (u8, u8) = (0xff, 0);

fn message((set, id): (u8, u8), payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + payload.len()).unwrap().to_le_bytes();
    [b"DOTNET_IPC_V1\0", &length[..], &[set, id, 0, 0], payload].concat()
}

fn answer() -> Vec<u8> {
    message(OK, &ID.to_le_bytes())
}

/// A keeper that this test has started, and a session that it keeps.
struct Kept {
    keeper: Child,
    control: Option<OwnedFd>,
    listener: UnixListener,
    /// The runtime's end of the session.
    runtime: UnixStream,
    /// Clrscope's end, and its channel to the keeper.
    connection: Option<UnixStream>,
    channel: Option<UnixStream>,
    _folder: TempDir,
}

impl Kept {
    fn begin() -> Self {
        Self::begin_with(Command::new(common::binary()).arg("keep-event-sessions"))
    }

    fn begin_with(command: &mut Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("port");
        let listener = UnixListener::bind(&path).unwrap();
        let (control, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        let keeper = command.stdin(Stdio::from(theirs)).spawn().unwrap();
        assert_eq!(rustix::io::read(&control, &mut [0]).unwrap(), 1);
        let connection = UnixStream::connect(&path).unwrap();
        let (mut runtime, _) = listener.accept().unwrap();
        let (mut channel, theirs) = UnixStream::pair().unwrap();
        let request = message(COLLECT, &[0; 16]);
        let bytes = path.as_os_str().as_bytes();
        let length = u16::try_from(bytes.len()).unwrap().to_le_bytes();
        let parts = [&[0; 4], &length[..], bytes, &request].concat();
        let descriptors = [connection.as_fd(), theirs.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(&control, &[IoSlice::new(&parts)], &mut ancillary, SendFlags::NOSIGNAL).unwrap();
        drop(theirs);
        for socket in [&runtime, &channel] {
            socket.set_read_timeout(Some(LIMIT)).unwrap();
        }
        let mut got = vec![0; request.len()];
        runtime.read_exact(&mut got).unwrap();
        assert_eq!(got, request);
        runtime.write_all(&answer()).unwrap();
        let mut got = vec![0; answer().len()];
        channel.read_exact(&mut got).unwrap();
        assert_eq!(got, answer());
        let (connection, channel) = (Some(connection), Some(channel));
        let control = Some(control);
        Self { keeper, control, listener, runtime, connection, channel, _folder: folder }
    }

    fn channel(&mut self) -> &mut UnixStream {
        self.channel.as_mut().unwrap()
    }

    /// What the keeper says next.
    fn says(&mut self) -> u8 {
        let mut byte = [0];
        self.channel().read_exact(&mut byte).unwrap();
        byte[0]
    }

    /// The connection with which the keeper ends the session, if it does so in this time.
    fn stop_within(&self, limit: Duration) -> Option<UnixStream> {
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: 0 };
        let mut polled = [PollFd::new(&self.listener, PollFlags::IN)];
        if poll(&mut polled, Some(&limit)).unwrap() == 0 {
            return None;
        }
        let (mut stop, _) = self.listener.accept().unwrap();
        stop.set_read_timeout(Some(LIMIT)).unwrap();
        let expected = message(STOP, &ID.to_le_bytes());
        let mut got = vec![0; expected.len()];
        stop.read_exact(&mut got).unwrap();
        assert_eq!(got, expected);
        Some(stop)
    }

    /// Clrscope is gone.
    fn leave(&mut self) {
        self.connection = None;
        self.channel = None;
    }

    /// The runtime writes more than fits into the connection, and ends the session.
    fn end(mut self, mut stop: UnixStream) {
        self.runtime.set_write_timeout(Some(LIMIT)).unwrap();
        for _ in 0..8 {
            self.runtime.write_all(&[b'R'; 100_000]).unwrap();
        }
        // It may have been answered before.
        let _ = stop.write_all(&answer());
        self.runtime.shutdown(Shutdown::Both).unwrap();
        self.control = None;
        let until = Instant::now() + LIMIT;
        while self.keeper.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "the keeper is left");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(self.keeper.wait().unwrap().success());
        assert!(self.stop_within(Duration::ZERO).is_none(), "it was ended twice");
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// A limit of time on a socket is one of all that have a duplicate.
#[test]
fn a_session_that_was_taken_over_is_read_whatever_limit_the_socket_has() {
    let mut kept = Kept::begin();
    kept.runtime.write_all(&[b'E'; 1000]).unwrap();
    assert_eq!(kept.says(), b't');
    let stop = kept.stop_within(LIMIT).unwrap();
    let limit = Some(Duration::from_millis(50));
    let connection = kept.connection.take().unwrap();
    sockopt::set_socket_timeout(&connection, sockopt::Timeout::Recv, limit).unwrap();
    // The next wait has it.
    kept.runtime.write_all(&[b'E'; 1000]).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    drop(connection);
    kept.leave();
    kept.runtime.write_all(&[b'E'; 1000]).expect("the connection broke");
    kept.end(stop);
}

#[test]
fn a_session_is_ended_although_clrscope_dies_when_it_is_taken_over() {
    let mut kept = Kept::begin();
    // The keeper cannot say that it takes the session over, and sees no end of the channel.
    kept.channel().shutdown(Shutdown::Read).unwrap();
    kept.runtime.write_all(&[b'E'; 1000]).unwrap();
    let stop = kept.stop_within(Duration::from_secs(15)).expect("it was not ended");
    kept.leave();
    kept.end(stop);
}

/// Whoever has died, one process alone knows whether the session was ended.
#[test]
fn a_session_is_ended_once_when_clrscope_asks_for_it_and_dies() {
    let mut kept = Kept::begin();
    kept.channel().write_all(b"s").unwrap();
    let stop = kept.stop_within(LIMIT).expect("it was not ended");
    kept.leave();
    assert!(kept.stop_within(Duration::from_secs(1)).is_none(), "it was ended twice");
    kept.end(stop);
}

#[test]
fn a_session_is_ended_once_when_clrscope_asks_for_it_and_does_not_read() {
    let mut kept = Kept::begin();
    kept.channel().write_all(b"s").unwrap();
    let stop = kept.stop_within(LIMIT).expect("it was not ended");
    kept.runtime.write_all(&[b'E'; 1000]).unwrap();
    assert_eq!(kept.says(), b't');
    kept.channel().write_all(b"s").unwrap();
    assert!(kept.stop_within(Duration::from_secs(1)).is_none(), "it was ended twice");
    kept.leave();
    kept.end(stop);
}

#[test]
fn a_session_that_was_taken_over_is_not_ended_again_when_clrscope_asks_for_it() {
    let mut kept = Kept::begin();
    kept.runtime.write_all(&[b'E'; 1000]).unwrap();
    assert_eq!(kept.says(), b't');
    let _ = kept.channel().write_all(b"s");
    let stop = kept.stop_within(LIMIT).expect("it was not ended");
    assert!(kept.stop_within(Duration::from_secs(1)).is_none(), "it was ended twice");
    kept.end(stop);
}

#[test]
fn the_keeper_says_that_it_has_ended_a_session() {
    let mut kept = Kept::begin();
    kept.channel().write_all(b"s").unwrap();
    let mut stop = kept.stop_within(LIMIT).expect("it was not ended");
    stop.write_all(&answer()).unwrap();
    assert_eq!(kept.says(), b'd');
    kept.end(stop);
}

/// What the keeper needs, it has before the session begins.
#[test]
fn a_session_is_ended_although_the_keeper_gets_no_more_memory() {
    // Too little for the stack of one more thread.
    for more in [0, 1 << 20] {
        let mut kept = Kept::begin();
        let pid = kept.keeper.id();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
        let size: u64 = size.trim().strip_suffix(" kB").unwrap().parse().unwrap();
        let limit = Some((size << 10) + more);
        let limit = Rlimit { current: limit, maximum: limit };
        prlimit(Pid::from_raw(pid as i32), Resource::As, limit).unwrap();
        kept.leave();
        let stop = kept.stop_within(Duration::from_secs(5)).expect("it was not ended");
        kept.end(stop);
    }
}

#[test]
fn the_keeper_holds_nothing_of_whoever_started_it() {
    let folder = tempfile::tempdir().unwrap();
    let locked = folder.path().join("locked");
    File::create(&locked).unwrap();
    let script = r#"exec 9>"$0"; exec "$1" keep-event-sessions"#;
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(&locked).arg(common::binary());
    let kept = Kept::begin_with(&mut command);
    let held = fs::read_dir(format!("/proc/{}/fd", kept.keeper.id()))
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter(|link| *link == locked)
        .count();
    assert_eq!(held, 0);
}
