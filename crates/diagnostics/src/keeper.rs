//! A process of our own that ends EventPipe sessions in order when we die.
//!
//! A runtime whose event connection breaks ends the session at once, on the thread that writes the
//! events, while threads of the program may still be inside of it. .NET Core 3.1 then hangs for
//! good (`EventPipeBufferManager::SuspendWriteEvent` waits under a lock for a thread that waits for
//! the lock), and .NET 9.0.5 was seen to crash. After a `StopTracing` the runtime first takes the
//! events away from its threads and lets its writer thread come to an end, which takes the time in
//! which they leave. So no connection of ours may break, also where this process is killed.
//!
//! The keeper is this program once more, started before the first session. It sends the request
//! that begins a session, holds a duplicate of the connection, and knows the session's id: there is
//! no moment in which nobody does. It reads nothing while we read. When we are gone, drop a session
//! that has not ended, or read nothing although something is there, it reads what comes, throws it
//! away, sends `StopTracing`, and goes when all sessions have ended. The last is for a process that
//! was stopped (Ctrl-Z), or waits for a disk: a runtime that cannot write its events does not come
//! to its end (`EventPipe::Shutdown` waits for the thread that writes them, without a limit), and
//! an end of the session makes other threads wait meanwhile.
//!
//! Also a `StopTracing` can make .NET Core 3.1 hang: `SuspendWriteEvent` takes the lock of the
//! buffers twice, and the second time waits under it for every thread that is just writing an
//! event, while such a thread may wait for the same lock to get a new buffer. It has had the time
//! between for that, unless it got no processor. So the keeper puts the end off while the process
//! is [overloaded](crate::overload).

use crate::message::{Answer, Command as PortCommand, Fields, HEADER, MAX_MESSAGE, parse_answer};
use crate::platform::transport::Stream;
use crate::proc::{self, State};
use crate::{Error, Port, overload};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, sendmsg, socketpair,
};
use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The argument that makes a program a keeper.
const ARGUMENT: &str = "keep-event-sessions";

/// What `ps` shows. Nothing that is meant for clrscope (`pkill clrscope`) should match it.
const NAME: &str = "event-keeper";

/// How long the keeper may take to start.
const START_LIMIT: Duration = Duration::from_secs(5);

/// How long we wait at the end for a keeper that has nothing left to do.
const END_LIMIT: Duration = Duration::from_millis(200);

/// How long the runtime may take to answer the keeper's `StopTracing`; the session is read
/// meanwhile.
const STOP_LIMIT: Duration = Duration::from_secs(3600);

/// How long the keeper waits for the end of an overload, before it ends a session all the same.
const OVERLOAD_LIMIT: Duration = Duration::from_secs(600);

/// How long the keeper waits before it tries again to connect.
const RETRY: Duration = Duration::from_secs(1);

/// How often the keeper looks whether sessions are read.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// For how many looks in turn nothing is read of what is there until the keeper takes a session
/// over: where the other process is stopped, and where it runs.
const UNREAD_WHILE_STOPPED: u32 = 2;
const UNREAD: u32 = 20;

/// What tells the other side that the keeper has taken the session over.
const TAKEN: u8 = b't';

/// What tells the keeper that a session ended in order.
const STOPPED: u8 = b's';

/// Whether this program becomes a keeper when it is started as one.
static OFFERED: AtomicBool = AtomicBool::new(false);

/// Whether this process was started to keep event sessions: then it calls [`run`], and ends.
pub fn is_asked() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().is_some_and(|first| first == ARGUMENT) && arguments.next().is_none()
}

/// Says that this program calls [`run`] where [`is_asked`]. Without this, sessions are not kept.
pub fn offer() {
    OFFERED.store(true, Ordering::Release);
}

/// Opens EventPipe sessions that end in order whatever happens to this process, where the program
/// [offers](offer) it. Clones share one keeper.
#[derive(Clone, Debug)]
pub struct Keeper(pub(crate) Option<Arc<Shared>>);

#[derive(Debug)]
pub(crate) struct Shared {
    /// The keeper ends with this, when its sessions have.
    control: Option<OwnedFd>,
    child: Child,
}

/// A session that the keeper knows. When this is dropped the keeper ends the session.
#[derive(Debug)]
pub(crate) struct Kept {
    channel: UnixStream,
}

impl Keeper {
    /// Starts the keeper.
    ///
    /// # Errors
    /// [`Error::Keeper`] when it cannot be started.
    pub fn start() -> Result<Self, Error> {
        if !OFFERED.load(Ordering::Acquire) {
            return Ok(Self(None));
        }
        Self::spawn()
            .map(|shared| Self(Some(Arc::new(shared))))
            .map_err(|source| Error::Keeper { source })
    }

    fn spawn() -> io::Result<Shared> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new("/proc/self/exe");
        // In a group of its own, so that Ctrl-C does not reach it.
        command.arg0(NAME).arg(ARGUMENT).process_group(0);
        // What it prints goes nowhere, also in a container without `/dev/null`.
        let (_, nowhere) = io::pipe()?;
        command.stdin(theirs).stdout(nowhere.try_clone()?).stderr(nowhere);
        let child = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("starting /proc/self/exe: {error}"))
        })?;
        let shared = Shared { control: Some(ours), child };
        // It says one byte when signals do not end it any more.
        let Some(control) = &shared.control else { return Err(io::ErrorKind::NotConnected.into()) };
        let mut ready =
            Stream::new(UnixStream::from(control.try_clone()?), Instant::now() + START_LIMIT);
        loop {
            match ready.read(&mut [0]) {
                Ok(1) => return Ok(shared),
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                // Ctrl-C, for one, which the program handles by itself.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Shared {
    /// Has the keeper send a request on a connection. What it answers comes from the stream.
    pub(crate) fn send(
        &self,
        connection: &Stream,
        path: &Path,
        pid: Option<u32>,
        request: &[u8],
    ) -> io::Result<UnixStream> {
        let control = self.control.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let (ours, theirs) = UnixStream::pair()?;
        let path = path.as_os_str().as_bytes();
        let length = u16::try_from(path.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let (pid, length) = (pid.unwrap_or(0).to_le_bytes(), length.to_le_bytes());
        let parts =
            [IoSlice::new(&pid), IoSlice::new(&length), IoSlice::new(path), IoSlice::new(request)];
        let descriptors = [connection.socket().as_fd(), theirs.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        rustix::io::retry_on_intr(|| {
            sendmsg(control, &parts, &mut ancillary, SendFlags::NOSIGNAL)
        })?;
        Ok(ours)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        drop(self.control.take());
        // One that has sessions to end outlives us.
        let until = Instant::now() + END_LIMIT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Kept {
    pub(crate) fn new(channel: UnixStream) -> Self {
        Self { channel }
    }

    /// Whether the keeper has taken the session over, because it was not read: what comes from now
    /// on is incomplete.
    pub(crate) fn is_taken(&self) -> bool {
        let mut byte = [0];
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        matches!(recv(&self.channel, &mut byte, flags), Ok((1, _))) && byte == [TAKEN]
    }

    /// Says that the runtime has ended the session.
    pub(crate) fn stopped(&self) {
        // A keeper that is gone needs no notification.
        let _ = (&self.channel).write_all(&[STOPPED]);
    }
}

/// Keeps sessions until the process that started this one is gone and all of them have ended.
///
/// Signals that would end the process are to be caught before.
pub fn run() {
    // A name is no more than a help.
    let _ = rustix::thread::set_name(c"event-keeper");
    // It outlives who started it, and should not keep a file system from being unmounted.
    let _ = std::env::set_current_dir("/");
    let stdin = io::stdin();
    let control = stdin.as_fd();
    if rustix::io::write(control, b"r").is_err() {
        return;
    }
    let mut sessions = Vec::new();
    while let Some(session) = receive(control) {
        sessions.retain(|session: &std::thread::JoinHandle<()>| !session.is_finished());
        // Without a thread both descriptors are closed before anything was sent, which is seen on
        // the other side.
        sessions.extend(std::thread::Builder::new().spawn(move || session.keep()).ok());
    }
    for session in sessions {
        let _ = session.join();
    }
}

/// The next session; `None` when there are no more.
fn receive(control: impl AsFd + Copy) -> Option<Session> {
    let mut bytes = vec![0; 6 + usize::from(u16::MAX) + MAX_MESSAGE];
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let received = rustix::io::retry_on_intr(|| {
            recvmsg(control, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })
        .ok()?;
        if received.bytes == 0 {
            return None;
        }
        let descriptors = ancillary.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        let session = Session::new(descriptors.collect(), bytes.get(..received.bytes)?);
        if session.is_some() {
            return session;
        }
    }
}

/// A session, as the keeper has it.
struct Session {
    connection: UnixStream,
    channel: UnixStream,
    /// A descriptor of the port's socket: it leads there also when the path does not any more.
    socket: Option<OwnedFd>,
    path: PathBuf,
    pid: Option<u32>,
    request: Vec<u8>,
}

impl Session {
    fn new(descriptors: Vec<OwnedFd>, bytes: &[u8]) -> Option<Self> {
        let [connection, channel] = <[OwnedFd; 2]>::try_from(descriptors).ok()?;
        let (pid, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (path, request) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        let path = PathBuf::from(OsStr::from_bytes(path));
        Some(Self {
            connection: connection.into(),
            channel: channel.into(),
            socket: rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok(),
            path,
            pid: Some(u32::from_le_bytes(*pid)).filter(|pid| *pid != 0),
            request: request.to_owned(),
        })
    }

    /// Waits as long as the session is read. Whether it ended in order then; otherwise the other
    /// process is gone, has dropped it, or does not read.
    fn is_ended_by_reader(&mut self) -> bool {
        let parent =
            rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
        let mut unread = Unread::default();
        loop {
            let mut polled = [PollFd::new(&self.channel, PollFlags::IN)];
            match poll(&mut polled, Some(&LOOK)) {
                Ok(0) => {}
                Ok(_) => return matches!(self.channel.read(&mut [0]), Ok(1)),
                Err(Errno::INTR) => continue,
                Err(_) => return false,
            }
            let waiting = rustix::io::ioctl_fionread(&self.connection).unwrap_or(0);
            let stopped =
                || parent.is_some_and(|pid| proc::state(pid).is_ok_and(State::is_stopped));
            if unread.look(waiting, stopped) {
                // Said before anything is read here: what the other side reads from now on does not
                // count.
                return self.channel.write_all(&[TAKEN]).is_err();
            }
        }
    }

    fn keep(mut self) {
        if self.connection.set_read_timeout(None).is_err()
            || self.connection.write_all(&self.request).is_err()
        {
            return;
        }
        let Ok(answer) = read_answer(&mut self.connection) else { return };
        // Nobody is there any more, perhaps; or the time is up, and the session begins all the
        // same.
        let told = self.channel.write_all(&answer.bytes).is_ok();
        let Some(id) = answer.session else { return };
        let stopped = told && self.is_ended_by_reader();
        // Nobody else reads from now on. Time-outs are of the socket, which both of us have.
        let _ = self.connection.set_read_timeout(None);
        if stopped || drain(&self.connection, RecvFlags::DONTWAIT) {
            drain(&self.connection, RecvFlags::empty());
            return;
        }
        let path = match &self.socket {
            Some(socket) => PathBuf::from(format!("/proc/self/fd/{}", socket.as_raw_fd())),
            None => self.path.clone(),
        };
        let port = Port::new(&path, self.pid);
        let ended = Arc::new(AtomicBool::new(false));
        let seen = ended.clone();
        // It ends with this process, at the latest.
        let old = collects_in_old_form(&self.request).then_some(self.pid).flatten();
        let stopping = std::thread::Builder::new().spawn(move || {
            if let Some(pid) = old {
                // It is over, or events without a reader have cost the process enough.
                let _ = overload::wait_until_over(pid, OVERLOAD_LIMIT);
            }
            while !seen.load(Ordering::Acquire)
                && matches!(port.stop_tracing(id, STOP_LIMIT), Err(Error::Connect { .. }))
            {
                std::thread::sleep(RETRY);
            }
        });
        drain(&self.connection, RecvFlags::empty());
        ended.store(true, Ordering::Release);
        drop(stopping);
    }
}

/// Whether a message asks for a session in a form that old runtimes know.
fn collects_in_old_form(message: &[u8]) -> bool {
    let old = [PortCommand::COLLECT_TRACING, PortCommand::COLLECT_TRACING_2];
    old.iter().any(|command| command.is_of(message))
}

/// How often in turn the same bytes were there, and were not read.
#[derive(Default)]
struct Unread {
    waiting: u64,
    looks: u32,
}

impl Unread {
    /// Counts that these bytes were there. Whether the session is to be taken over.
    /// A socket that is full stays so, and one that is read has another number each time, or 0.
    fn look(&mut self, waiting: u64, stopped: impl FnOnce() -> bool) -> bool {
        if waiting == 0 || waiting != std::mem::replace(&mut self.waiting, waiting) {
            self.looks = 0;
            return false;
        }
        self.looks += 1;
        self.looks >= UNREAD || self.looks >= UNREAD_WHILE_STOPPED && stopped()
    }
}

/// What a runtime answered, and the session's id if it began one.
struct WholeAnswer {
    bytes: Vec<u8>,
    session: Option<u64>,
}

fn read_answer(connection: &mut UnixStream) -> io::Result<WholeAnswer> {
    let mut bytes = vec![0; HEADER];
    connection.read_exact(&mut bytes)?;
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let header = bytes.first_chunk().ok_or(io::ErrorKind::InvalidData)?;
    let (ok, length) = match parse_answer(header).map_err(invalid)? {
        Answer::Ok(length) => (true, length),
        Answer::Error(length) => (false, length),
    };
    // At most 64 KiB: the length was a u16.
    bytes.resize(HEADER + length, 0);
    connection.read_exact(bytes.get_mut(HEADER..).unwrap_or_default())?;
    let session =
        bytes.get(HEADER..).filter(|_| ok).and_then(|payload| Fields::new(payload).u64().ok());
    Ok(WholeAnswer { bytes, session })
}

/// Reads and throws away. Whether the end came; otherwise there is nothing to read just now.
fn drain(connection: &UnixStream, flags: RecvFlags) -> bool {
    let mut buffer = vec![0; 256 << 10];
    loop {
        match recv(connection, buffer.as_mut_slice(), flags) {
            Ok((0, _)) => return true,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return error != Errno::AGAIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventPipeConfig, Provider};

    #[test]
    fn a_session_is_taken_over_when_it_is_not_read() {
        let mut unread = Unread::default();
        // Read all the time, or nothing comes.
        assert!((0..100).all(|look| !unread.look(look % 2 * 8, || true)));
        assert!((1..100).all(|look| !unread.look(look, || true)));
        let mut unread = Unread::default();
        let stopped: Vec<bool> = (0..4).map(|_| unread.look(9, || true)).collect();
        assert_eq!(stopped, [false, false, true, true]);
        let mut unread = Unread::default();
        let runs = (0..30).position(|_| unread.look(9, || false));
        assert_eq!(runs, Some(UNREAD as usize));
    }

    #[test]
    fn the_forms_of_old_runtimes_are_known() {
        let config = EventPipeConfig::new(vec![Provider::gc()]);
        for form in 1..=4 {
            let (command, payload) = config.command(form);
            let message = payload.message(command).unwrap();
            assert_eq!(collects_in_old_form(&message), form <= crate::eventpipe::OLD_FORM);
        }
        assert!(!collects_in_old_form(&[]));
    }
}
