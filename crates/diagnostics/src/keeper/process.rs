//! The process of the keeper: see [`keeper`](super).

use super::{DONE, FAILED, OVER, TAKEN, lock};
use crate::Overload;
use crate::message::{Answer, Command, Fields, HEADER, MAX_MESSAGE, parse_answer, stop_tracing};
use crate::overload::Observer;
use crate::platform::transport::{Stream, connect_short, peer};
use crate::proc::{self, State};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recv, recvmsg};
use std::collections::TryReserveError;
use std::ffi::OsStr;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// What the keeper reads at a time: no less than the largest answer.
const BUFFER: usize = 256 << 10;

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
    // Whoever wants a session learns from the end of this process that there is no room for it.
    let Ok(mut bytes) = zeros(6 + usize::from(u16::MAX) + MAX_MESSAGE) else { return };
    if rustix::io::write(control, b"r").is_err() {
        return;
    }
    let mut sessions = Vec::new();
    while let Some(session) = receive(control, &mut bytes) {
        sessions.retain(|session: &std::thread::JoinHandle<()>| !session.is_finished());
        // Without memory or a thread both descriptors are closed before anything was sent, which is
        // seen on the other side.
        if sessions.try_reserve(1).is_err() {
            continue;
        }
        sessions.extend(std::thread::Builder::new().spawn(move || session.keep()).ok());
    }
    for session in sessions {
        let _ = session.join();
    }
}

fn zeros(length: usize) -> Result<Vec<u8>, TryReserveError> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length)?;
    bytes.resize(length, 0);
    Ok(bytes)
}

/// The next session; `None` when there are no more.
fn receive(control: impl AsFd + Copy, bytes: &mut [u8]) -> Option<Session> {
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(bytes)];
        let received = rustix::io::retry_on_intr(|| {
            recvmsg(control, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })
        .ok()?;
        if received.bytes == 0 {
            return None;
        }
        let mut descriptors = ancillary
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten();
        let descriptors = (descriptors.next(), descriptors.next());
        let session = Session::new(descriptors, bytes.get(..received.bytes)?);
        if session.is_some() {
            return session;
        }
    }
}

/// A session that the keeper is to begin.
struct Session {
    connection: UnixStream,
    channel: UnixStream,
    /// A descriptor of the port's socket: it leads there also when the path does not any more.
    socket: OwnedFd,
    pid: Option<u32>,
    request: Vec<u8>,
}

impl Session {
    fn new(descriptors: (Option<OwnedFd>, Option<OwnedFd>), bytes: &[u8]) -> Option<Self> {
        let (connection, channel) = (descriptors.0?, descriptors.1?);
        let (pid, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (path, request) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        let path = Path::new(OsStr::from_bytes(path));
        let mut copy = Vec::new();
        copy.try_reserve_exact(request.len()).ok()?;
        copy.extend_from_slice(request);
        Some(Self {
            connection: connection.into(),
            channel: channel.into(),
            socket: rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?,
            pid: Some(u32::from_le_bytes(*pid)).filter(|pid| *pid != 0),
            request: copy,
        })
    }

    /// Begins the session and keeps it. Where what that takes is missing, both descriptors are
    /// closed before anything was sent, which is seen on the other side.
    fn keep(self) {
        let Some((mut keeping, request)) = Keeping::prepare(self) else { return };
        if (&keeping.connection).write_all(&request).is_err() {
            return;
        }
        let Ok(answer) = keeping.read_answer() else { return };
        let bytes = keeping.buffer.get(..answer.length).unwrap_or_default();
        // The other process may be gone; or the time is up, and the session begins all the
        // same.
        let told = (&*keeping.channel).write_all(bytes).is_ok();
        if let Some(id) = answer.session {
            keeping.keep(id, told);
        }
    }
}

/// A session that runs, with all that is needed to end it.
struct Keeping {
    connection: UnixStream,
    channel: Arc<UnixStream>,
    /// The process that we keep the session for.
    parent: Option<u32>,
    buffer: Vec<u8>,
    end: Arc<End>,
}

impl Keeping {
    /// With the request to send.
    fn prepare(session: Session) -> Option<(Self, Vec<u8>)> {
        let Session { connection, channel, socket, pid, request } = session;
        let buffer = zeros(BUFFER).ok()?;
        let observer = match collects_in_old_form(&request).then_some(pid).flatten() {
            Some(pid) => Some(Observer::new(pid).ok()?),
            None => None,
        };
        let (channel, end) = (Arc::new(channel), Arc::<End>::default());
        let stopping = Stopping {
            path: PathBuf::from(format!("/proc/self/fd/{}", socket.as_raw_fd())),
            _socket: socket,
            pid,
            channel: channel.clone(),
            observer,
            end: end.clone(),
        };
        // It ends with this process, at the latest.
        std::thread::Builder::new().spawn(move || stopping.run()).ok()?;
        // Its start also takes memory.
        end.wait_while(Order::Start);
        let parent =
            rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
        Some((Self { connection, channel, parent, buffer, end }, request))
    }

    fn keep(&mut self, id: u64, told: bool) {
        let asked = told && self.watch(id);
        // From now on, only this process reads.
        if !asked && !self.has_ended() {
            self.end.order(Order::StopWhenCalm(id));
        }
        self.drain();
        // The other process may be gone.
        let _ = (&*self.channel).write_all(&[OVER]);
    }

    /// Waits as long as the session is read. Whether the other process has asked for its end before
    /// it was gone, dropped the session, or did not read.
    fn watch(&self, id: u64) -> bool {
        let (mut unread, mut asked) = (Unread::default(), false);
        loop {
            let mut polled = [PollFd::new(&self.channel, PollFlags::IN)];
            match poll(&mut polled, Some(&LOOK)) {
                Ok(0) => {}
                Ok(_) => match (&*self.channel).read(&mut [0]) {
                    Ok(1) if !asked => {
                        asked = true;
                        self.end.order(Order::Stop(id));
                        continue;
                    }
                    Ok(1) => continue,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Ok(_) | Err(_) => return asked,
                },
                Err(Errno::INTR) => continue,
                Err(_) => return asked,
            }
            let waiting = rustix::io::ioctl_fionread(&self.connection).unwrap_or(0);
            let stopped =
                || self.parent.is_some_and(|pid| proc::state(pid).is_ok_and(State::is_stopped));
            if unread.look(waiting, stopped) {
                // Said before anything is read here: what the other side reads from now on does not
                // count. It may be gone.
                let _ = (&*self.channel).write_all(&[TAKEN]);
                return asked;
            }
        }
    }

    /// What the runtime answers to the request, at the beginning of the buffer.
    fn read_answer(&mut self) -> io::Result<WholeAnswer> {
        let invalid = io::ErrorKind::InvalidData;
        let header = self.buffer.first_chunk_mut::<HEADER>().ok_or(invalid)?;
        Patient(&self.connection).read_exact(header)?;
        let (ok, length) = match parse_answer(header).map_err(|_| invalid)? {
            Answer::Ok(length) => (true, length),
            Answer::Error(length) => (false, length),
        };
        let length = HEADER + length;
        // At most 64 KiB: the length was a u16.
        let payload = self.buffer.get_mut(HEADER..length).ok_or(invalid)?;
        Patient(&self.connection).read_exact(payload)?;
        let session = Fields::new(payload).u64().ok().filter(|_| ok);
        Ok(WholeAnswer { length, session })
    }

    /// Reads and throws away what is there. Whether the end came.
    fn has_ended(&mut self) -> bool {
        loop {
            match recv(&self.connection, self.buffer.as_mut_slice(), RecvFlags::DONTWAIT) {
                Ok((0, _)) => return true,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return error != Errno::AGAIN,
            }
        }
    }

    /// Reads and throws away until the end comes.
    fn drain(&mut self) {
        while matches!(Patient(&self.connection).read(&mut self.buffer), Ok(1..)) {}
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        // The other thread has the channel, too, whose end is seen on the other side.
        self.end.order(Order::Ended);
    }
}

/// Reads without a limit of time, whatever limits the socket has: they are also those of the other
/// process, which may set them at any time.
struct Patient<'a>(&'a UnixStream);

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match poll(&mut [PollFd::new(self.0, PollFlags::IN)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                // The kernel lacks memory for a moment.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
            match recv(self.0, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((_, read)) => return Ok(read),
                // Somebody else has read it.
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// What the thread that stops a session is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    #[default]
    Start,
    /// It has started.
    Wait,
    /// Stop this session.
    Stop(u64),
    /// Stop this session as soon as the process is not overloaded, and has address space.
    StopWhenCalm(u64),
    /// Nothing more: the session is over.
    Ended,
}

/// The order, and what wakes the thread.
#[derive(Default)]
struct End {
    order: Mutex<Order>,
    changed: Condvar,
}

impl End {
    fn order(&self, order: Order) {
        *lock(&self.order) = order;
        self.changed.notify_all();
    }

    fn has_come(&self) -> bool {
        *lock(&self.order) == Order::Ended
    }

    /// The next order.
    fn wait_while(&self, current: Order) -> Order {
        let mut order = lock(&self.order);
        while *order == current {
            order = self.changed.wait(order).unwrap_or_else(PoisonError::into_inner);
        }
        *order
    }
}

/// Stops one session, when it gets the order. Allocates nothing.
struct Stopping {
    /// Of the socket.
    path: PathBuf,
    _socket: OwnedFd,
    pid: Option<u32>,
    channel: Arc<UnixStream>,
    observer: Option<Observer>,
    end: Arc<End>,
}

impl Stopping {
    fn run(mut self) {
        self.end.order(Order::Wait);
        let id = match self.end.wait_while(Order::Wait) {
            Order::Start | Order::Wait | Order::Ended => return,
            Order::Stop(id) => id,
            Order::StopWhenCalm(id) => {
                if let Some(observer) = &mut self.observer {
                    // It is over then, or events without a reader have cost the process enough.
                    // Without address space the end would end the process, too.
                    while matches!(
                        observer.wait_until_over(OVERLOAD_LIMIT),
                        Some(Overload::AddressSpace { .. })
                    ) && !self.end.has_come()
                    {}
                }
                id
            }
        };
        let mut told = false;
        while !self.end.has_come() {
            let sent = self.connect().map(|connection| send_stop(connection, id));
            if !told {
                let answer = if sent == Some(true) { DONE } else { FAILED };
                let _ = (&*self.channel).write_all(&[answer]);
                told = true;
            }
            // Once it was sent, it is not sent again.
            if sent.is_some() {
                return;
            }
            std::thread::sleep(RETRY);
        }
    }

    fn connect(&self) -> Option<Stream> {
        let connection = connect_short(&self.path, Instant::now() + STOP_LIMIT).ok()?;
        let listens = peer(&connection).map(|peer| peer.pid);
        (self.pid.is_none() || listens.is_none() || listens == self.pid).then_some(connection)
    }
}

/// Whether the runtime answered that it has stopped the session.
fn send_stop(mut connection: Stream, id: u64) -> bool {
    let mut header = [0; HEADER];
    connection.write_all(&stop_tracing(id)).is_ok()
        && connection.read_exact(&mut header).is_ok()
        && matches!(parse_answer(&header), Ok(Answer::Ok(_)))
}

/// Whether a message asks for a session in a form that old runtimes know.
fn collects_in_old_form(message: &[u8]) -> bool {
    let old = [Command::COLLECT_TRACING, Command::COLLECT_TRACING_2];
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

/// How long the runtime's answer is, and the session's id if it began one.
struct WholeAnswer {
    length: usize,
    session: Option<u64>,
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
