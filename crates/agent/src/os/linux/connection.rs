//! The Unix socket to clrscope.

use super::clock;
use super::descriptors::Kept;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use wire::{Control, Nanos, frame};

/// Nanoseconds between two tries to get a turn at writing.
const TURN_PAUSE: Nanos = 100_000;

/// A connection to clrscope. Every wait has a limit.
#[derive(Debug)]
pub struct Connection {
    outgoing: Outgoing,
    incoming: Vec<u8>,
    /// Longest time that a frame may take to be written.
    write_limit: Nanos,
}

/// The writing end of a connection, for several threads.
#[derive(Clone, Debug)]
pub struct Outgoing {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    socket: Kept,
    /// Held while a frame is written.
    sent: Mutex<Sent>,
}

/// How far the last frame was sent.
#[derive(Debug, Default)]
enum Sent {
    /// To its end.
    #[default]
    Whole,
    /// But for these bytes: they come first in the next turn.
    Part(Vec<u8>),
    /// In part only, and nothing may follow.
    Broken,
}

/// The right to write a frame: nobody else writes meanwhile. All of it must be written by the
/// deadline.
#[derive(Debug)]
pub struct Turn<'a> {
    socket: &'a Kept,
    sent: MutexGuard<'a, Sent>,
    deadline: Nanos,
}

/// Why no connection was made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The path does not fit into a socket address.
    #[error("the socket path is longer than a socket address allows")]
    PathTooLong,
    /// The system refused.
    #[error("cannot connect: {0}")]
    Io(#[from] io::Error),
    /// Somebody else listens there.
    #[error("the socket belongs to user {0}, not to the user of this process or to root")]
    Foreign(u32),
}

/// What the other side sent, or that it is gone.
#[derive(Debug)]
pub enum Incoming {
    /// Messages, perhaps none.
    Messages(Vec<Control>),
    /// The connection is closed, or carries something that is not our protocol.
    Gone,
}

impl Connection {
    /// Connects to a listening socket, trying for `limit` nanoseconds while its backlog is full,
    /// and checks that its owner is the user of this process or root.
    pub fn open(path: &str, limit: u64) -> Result<Self, ConnectError> {
        // SAFETY: an all-zero address is a valid value of this C struct.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        // One byte stays zero: it ends the path.
        if path.len() >= address.sun_path.len() {
            return Err(ConnectError::PathTooLong);
        }
        for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
            *to = from as libc::c_char;
        }
        let flags = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: a plain system call.
        let socket = Kept::new(|| unsafe { libc::socket(libc::AF_UNIX, flags, 0) })?;
        let deadline = clock::monotonic().saturating_add(limit);
        loop {
            let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
            // SAFETY: the address is valid and its length is that of its type.
            let result =
                unsafe { libc::connect(socket.number()?, (&raw const address).cast(), length) };
            if result == 0 {
                break;
            }
            let error = io::Error::last_os_error();
            let again = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR));
            let now = clock::monotonic();
            if !again || now >= deadline {
                return Err(error.into());
            }
            clock::sleep_until(now + 5_000_000);
        }
        let outgoing = Outgoing { shared: Arc::new(Shared { socket, sent: Mutex::default() }) };
        let connection = Self { outgoing, incoming: Vec::new(), write_limit: 10_000_000_000 };
        connection.check_peer()?;
        Ok(connection)
    }

    /// The writing end.
    pub fn outgoing(&self) -> &Outgoing {
        &self.outgoing
    }

    /// The right to write a frame, within the limit for writing.
    pub fn turn(&self) -> io::Result<Turn<'_>> {
        self.outgoing.turn(self.write_limit)
    }

    /// Checks the peer: only our own user, or root, may learn what runs here.
    fn check_peer(&self) -> Result<(), ConnectError> {
        foreign_user(self.outgoing.shared.socket.borrow()?)?
            .map_or(Ok(()), |uid| Err(ConnectError::Foreign(uid)))
    }

    /// Sets how long a frame may take to be written.
    pub fn set_write_limit(&mut self, limit: Nanos) {
        self.write_limit = limit;
    }

    /// Waits for messages, `timeout` milliseconds at most, or until somebody wakes the waiter. What
    /// the program has closed is gone.
    pub fn receive(&mut self, timeout: i32, wake: &Wake) -> Incoming {
        let events = libc::POLLIN;
        let numbers =
            (self.outgoing.shared.socket.number(), wake.waits.number(), wake.wakes.number());
        let (Ok(socket), Ok(waker), Ok(_)) = numbers else { return Incoming::Gone };
        let mut polled = [
            libc::pollfd { fd: socket, events, revents: 0 },
            libc::pollfd { fd: waker, events, revents: 0 },
        ];
        // SAFETY: the array is valid for the length given.
        let ready =
            unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
        if ready < 0 {
            let gone = io::Error::last_os_error().raw_os_error() != Some(libc::EINTR);
            return if gone { Incoming::Gone } else { Incoming::Messages(Vec::new()) };
        }
        if polled.first().is_some_and(|socket| socket.revents == 0) {
            return Incoming::Messages(Vec::new());
        }
        let Ok(socket) = self.outgoing.shared.socket.number() else { return Incoming::Gone };
        let mut buffer = [0; 16 << 10];
        // SAFETY: the kernel writes at most `buffer.len()` bytes.
        let read = unsafe { libc::recv(socket, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        match read {
            0 => Incoming::Gone,
            1.. => {
                self.incoming.extend_from_slice(buffer.get(..read as usize).unwrap_or_default());
                self.take_messages().map_or(Incoming::Gone, Incoming::Messages)
            }
            _ => match io::Error::last_os_error().raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Incoming::Messages(Vec::new()),
                _ => Incoming::Gone,
            },
        }
    }

    /// All messages of the frames that have arrived whole; `None` for what is no frame of ours.
    fn take_messages(&mut self) -> Option<Vec<Control>> {
        let mut messages = Vec::new();
        let mut rest = self.incoming.as_slice();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > frame::MAX_FRAME {
                return None;
            }
            let Some((body, after)) = after.split_at_checked(length) else { break };
            messages.extend(frame::decode::<Control>(body).ok()?);
            rest = after;
        }
        let used = self.incoming.len() - rest.len();
        self.incoming.drain(..used);
        Some(messages)
    }
}

impl Outgoing {
    /// The right to write a frame. To wait for it and to write take `limit` at most, together.
    ///
    /// # Errors
    /// `TimedOut` if others write for too long, or what is left of the last frame is not read,
    /// `BrokenPipe` if a frame was written in part only.
    pub fn turn(&self, limit: Nanos) -> io::Result<Turn<'_>> {
        let deadline = clock::monotonic().saturating_add(limit);
        let (sent, left) = self.lock(deadline)?;
        let mut turn = Turn { socket: &self.shared.socket, sent, deadline };
        if turn.write_or_keep(left, 0)? { Ok(turn) } else { Err(io::ErrorKind::TimedOut.into()) }
    }

    /// Waits until nobody else writes, and takes what is left to be sent.
    fn lock(&self, deadline: Nanos) -> io::Result<(MutexGuard<'_, Sent>, Vec<u8>)> {
        let mut sent = loop {
            match self.shared.sent.try_lock() {
                Ok(sent) => break sent,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if clock::monotonic() < deadline => {
                    clock::sleep_until(clock::monotonic() + TURN_PAUSE);
                }
                Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::TimedOut.into()),
            }
        };
        match std::mem::take(&mut *sent) {
            Sent::Whole => Ok((sent, Vec::new())),
            Sent::Part(left) => Ok((sent, left)),
            Sent::Broken => {
                *sent = Sent::Broken;
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
    }
}

impl Outgoing {
    /// Sends a frame while the runtime is suspended. What the other side does not take at once is
    /// kept, and sent first in the next turn: up to `most` bytes without waiting, and what is more
    /// within `limit`. False if the other side does not take it in this time.
    ///
    /// # Errors
    /// The other side is gone.
    pub fn send_later(&self, parts: [&[u8]; 2], most: usize, limit: Nanos) -> io::Result<bool> {
        let deadline = clock::monotonic().saturating_add(limit);
        let (mut sent, mut left) = match self.lock(deadline) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(false),
            locked => locked?,
        };
        if left.try_reserve(parts.iter().map(|part| part.len()).sum()).is_err() {
            *sent = Sent::Part(left);
            return Ok(false);
        }
        parts.iter().for_each(|part| left.extend_from_slice(part));
        Turn { socket: &self.shared.socket, sent, deadline }.write_or_keep(left, most)
    }

    /// Bytes that wait for the other side.
    pub fn waiting(&self) -> usize {
        match self.shared.sent.try_lock().as_deref() {
            Ok(Sent::Part(left)) => left.capacity(),
            _ => 0,
        }
    }
}

impl Turn<'_> {
    /// Writes bytes until at most `most` are left, by the deadline; these are kept for the next
    /// turn. False if more are.
    fn write_or_keep(&mut self, mut bytes: Vec<u8>, most: usize) -> io::Result<bool> {
        let (mut written, deadline) = (0, self.deadline);
        let enough = loop {
            let rest = bytes.get(written..).unwrap_or_default();
            // What may wait is written as far as that goes at once.
            self.deadline = if rest.len() <= most { 0 } else { deadline };
            if rest.is_empty() {
                break true;
            }
            match self.write(rest) {
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => break rest.len() <= most,
                Err(error) => return Err(error),
            }
        };
        self.deadline = deadline;
        bytes.drain(..written);
        *self.sent = if bytes.is_empty() { Sent::Whole } else { Sent::Part(bytes) };
        Ok(enough)
    }

    /// Writes one message as a frame of its own, with a file descriptor beside it.
    pub fn write_with_descriptor(
        &mut self,
        message: &wire::Record,
        descriptor: BorrowedFd,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame::write(&mut bytes, message).map_err(io::Error::other)?;
        let mut data = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // Room for one header and one descriptor, aligned as the header must be.
        let mut control = [0u64; 4];
        // SAFETY: an all-zero header is a valid value of this C struct.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &mut data;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        let sent = loop {
            let socket = self.number()?;
            // SAFETY: `control` is large enough for one descriptor, and `header` points to locals
            // that outlive the call.
            let sent = unsafe {
                header.msg_controllen = libc::CMSG_SPACE(size_of::<i32>() as u32) as _;
                let first = libc::CMSG_FIRSTHDR(&header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as _;
                libc::CMSG_DATA(first).cast::<i32>().write_unaligned(descriptor.as_raw_fd());
                libc::sendmsg(socket, &header, libc::MSG_NOSIGNAL)
            };
            if sent >= 0 {
                break sent as usize;
            }
            self.after_failed_write()?;
        };
        self.write_all(bytes.get(sent..).unwrap_or_default())
    }

    /// The socket's number. If the program has closed it nothing more can follow.
    fn number(&mut self) -> io::Result<i32> {
        self.socket.number().inspect_err(|_| *self.sent = Sent::Broken)
    }

    /// Waits for room if that is what was missing; else the error.
    fn after_failed_write(&mut self) -> io::Result<()> {
        let error = io::Error::last_os_error();
        let result = match error.raw_os_error() {
            Some(libc::EINTR) => Ok(()),
            Some(libc::EAGAIN) => self.wait_for_room(),
            _ => Err(error),
        };
        // The other side may have the beginning of a frame.
        if result.is_err() {
            *self.sent = Sent::Broken;
        }
        result
    }

    fn wait_for_room(&self) -> io::Result<()> {
        let left = self.deadline.saturating_sub(clock::monotonic());
        if left == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut polled =
            libc::pollfd { fd: self.socket.number()?, events: libc::POLLOUT, revents: 0 };
        // SAFETY: one valid entry.
        unsafe {
            libc::poll(&mut polled, 1, i32::try_from(left.div_ceil(1_000_000)).unwrap_or(i32::MAX))
        };
        Ok(())
    }
}

impl Write for Turn<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let socket = self.number()?;
            // SAFETY: the kernel reads at most `bytes.len()` bytes. No SIGPIPE: the target may not
            // handle it.
            let sent = unsafe {
                libc::send(socket, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL)
            };
            if sent >= 0 {
                return Ok(sent as usize);
            }
            self.after_failed_write()?;
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Wakes the thread that waits in [`Connection::receive`]. Two sockets, because all eventfds have
/// the same inode, so that nobody could tell ours from one of the program's, and because writing
/// into a pipe whose other end the program has closed raises a signal.
#[derive(Debug)]
pub struct Wake {
    waits: Kept,
    wakes: Kept,
}

impl Wake {
    /// Makes one.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let (waits, wakes) = Kept::sockets()?;
        Ok(Self { waits, wakes })
    }

    /// Wakes the waiter, now or when it waits next.
    pub fn wake(&self) {
        if let Ok(number) = self.wakes.number() {
            // Where there is no room for another message, enough of them wake.
            // SAFETY: one byte is read from a valid place.
            unsafe {
                libc::send(
                    number,
                    [1_u8].as_ptr().cast(),
                    1,
                    libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
                )
            };
        }
    }

    /// Forgets wakes of the past.
    pub fn clear(&self) {
        let mut byte = 0_u8;
        while let Ok(number) = self.waits.number() {
            // SAFETY: one byte is written to a valid place.
            if unsafe { libc::recv(number, (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT) } <= 0 {
                return;
            }
        }
    }
}

/// The user at the other end of a socket, if it is neither our own nor root.
///
/// # Errors
/// The kernel does not tell.
pub fn foreign_user(socket: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` has room for `length` bytes.
    let result = unsafe {
        let value = (&raw mut peer).cast();
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            value,
            &mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a system call without arguments.
    let own = unsafe { libc::geteuid() };
    // Root of another user namespace is shown as the overflow user, and foreign as all others.
    Ok((peer.uid != own && peer.uid != 0).then_some(peer.uid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};
    use std::os::unix::net::UnixListener;

    fn pair() -> (Connection, std::os::unix::net::UnixStream, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let connection = Connection::open(path.to_str().unwrap(), 0).unwrap();
        (connection, listener.accept().unwrap().0, directory)
    }

    fn receive(connection: &mut Connection) -> Option<Vec<Control>> {
        let wake = Wake::new().unwrap();
        match connection.receive(1000, &wake) {
            Incoming::Messages(messages) => Some(messages),
            Incoming::Gone => None,
        }
    }

    #[test]
    fn messages_arrive_however_they_are_cut() {
        let (mut connection, mut other, _directory) = pair();
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &Control::Status).unwrap();
        frame::write(&mut bytes, &Control::Resolve { executed: vec![1], guessed: vec![2] })
            .unwrap();
        other.write_all(&bytes[..7]).unwrap();
        assert_eq!(receive(&mut connection), Some(vec![Control::Status]));
        other.write_all(&bytes[7..]).unwrap();
        assert_eq!(
            receive(&mut connection),
            Some(vec![Control::Resolve { executed: vec![1], guessed: vec![2] }])
        );
    }

    #[test]
    fn what_is_not_taken_is_kept_and_comes_before_the_next() {
        let (connection, mut other, _directory) = pair();
        let outgoing = connection.outgoing();
        let chunk = vec![7; 1 << 20];
        let begun = clock::monotonic();
        assert!(
            outgoing.send_later([b"head", &chunk], 4 << 20, 50_000_000).unwrap(),
            "it may wait"
        );
        assert!(clock::monotonic() - begun < 40_000_000, "nobody waits for that");
        let mut sent = 1;
        while outgoing.send_later([b"head", &chunk], 4 << 20, 50_000_000).unwrap() {
            sent += 1;
        }
        assert!((4..=6).contains(&sent), "{sent}");
        assert!(outgoing.waiting() >= 4 << 20);
        assert_eq!(outgoing.turn(1_000_000).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let all = (sent + 1) * (chunk.len() + 4) + 4;
        let reader = std::thread::spawn(move || {
            let mut bytes = vec![0; all];
            other.read_exact(&mut bytes).unwrap();
            bytes
        });
        outgoing.turn(5_000_000_000).unwrap().write_all(b"last").unwrap();
        let bytes = reader.join().unwrap();
        assert!(bytes.ends_with(b"last") && outgoing.waiting() == 0);
        let frames = bytes[..all - 4].chunks(chunk.len() + 4);
        assert!(frames.into_iter().all(|frame| frame.starts_with(b"head") && frame[4..] == chunk));
    }

    #[test]
    fn a_closed_or_foreign_stream_is_gone() {
        let (mut connection, mut other, _directory) = pair();
        other.write_all(&[0xff; 8]).unwrap();
        assert_eq!(receive(&mut connection), None);
        let (mut connection, other, _directory) = pair();
        drop(other);
        assert_eq!(receive(&mut connection), None);
        assert!(connection.turn().unwrap().write_all(b"nobody listens").is_err());
        // Nothing may follow what was cut.
        assert_eq!(connection.turn().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn nobody_there_is_an_error_at_once() {
        assert!(matches!(
            Connection::open("/nonexistent/socket", u64::MAX),
            Err(ConnectError::Io(_))
        ));
        assert!(matches!(Connection::open(&"x".repeat(200), 0), Err(ConnectError::PathTooLong)));
    }

    #[test]
    fn a_reader_that_does_not_read_does_not_hold_us() {
        let (mut connection, _other, _directory) = pair();
        connection.set_write_limit(20_000_000);
        let begun = clock::monotonic();
        let error = connection.turn().unwrap().write_all(&vec![0; 16 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(clock::monotonic() - begun < 5_000_000_000);
    }

    #[test]
    fn a_reader_that_reads_little_does_not_hold_us_either() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let (mut connection, mut other, _directory) = pair();
        connection.set_write_limit(200_000_000);
        let over = Arc::new(AtomicBool::new(false));
        let drip = {
            let over = over.clone();
            std::thread::spawn(move || {
                let mut few = [0; 4096];
                while !over.load(Ordering::Acquire)
                    && other.read(&mut few).is_ok_and(|read| read > 0)
                {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            })
        };
        let begun = clock::monotonic();
        let error = connection.turn().unwrap().write_all(&vec![0; 64 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(clock::monotonic() - begun < 5_000_000_000);
        over.store(true, Ordering::Release);
        drop(connection);
        drip.join().unwrap();
    }

    #[test]
    fn frames_of_several_threads_stay_whole() {
        let (connection, mut other, _directory) = pair();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let outgoing = connection.outgoing().clone();
                std::thread::spawn(move || {
                    for length in 0..200 {
                        let record = wire::Record::Log {
                            level: wire::LogLevel::Debug,
                            message: "x".repeat(length * 97),
                        };
                        let mut bytes = Vec::new();
                        frame::write(&mut bytes, &record).unwrap();
                        let mut turn = outgoing.turn(10_000_000_000).unwrap();
                        // In two pieces, as frames are.
                        turn.write_all(&bytes[..4]).unwrap();
                        turn.write_all(&bytes[4..]).unwrap();
                    }
                })
            })
            .collect();
        for _ in 0..800 {
            let records = frame::read::<wire::Record>(&mut other).unwrap();
            assert!(matches!(&records[..], [wire::Record::Log { .. }]));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn who_waits_for_a_turn_waits_no_longer_than_allowed() {
        let (connection, _other, _directory) = pair();
        let turn = connection.turn().unwrap();
        let error = connection.outgoing().turn(5_000_000).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(turn);
        connection.outgoing().turn(0).unwrap();
    }

    #[test]
    fn a_wake_ends_the_wait() {
        let (mut connection, _other, _directory) = pair();
        let wake = Wake::new().unwrap();
        wake.wake();
        let before = clock::monotonic();
        assert!(matches!(connection.receive(10_000, &wake), Incoming::Messages(m) if m.is_empty()));
        assert!(clock::monotonic() - before < 5_000_000_000);
        wake.clear();
        connection.receive(0, &wake);
    }

    #[test]
    fn a_descriptor_travels_with_its_frame() {
        let (connection, mut other, _directory) = pair();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"shared").unwrap();
        connection
            .turn()
            .unwrap()
            .write_with_descriptor(&wire::Record::NotCode(0), file.as_fd())
            .unwrap();
        let mut bytes = [0; 64];
        let mut control = [0u64; 8];
        let mut data = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: the buffers are locals with the lengths given; the received descriptor is ours.
        let mut received = unsafe {
            let mut header: libc::msghdr = std::mem::zeroed();
            header.msg_iov = &mut data;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&control) as _;
            let read = libc::recvmsg(other.as_raw_fd(), &mut header, 0);
            assert!(read > 4);
            let first = libc::CMSG_FIRSTHDR(&header);
            assert!(!first.is_null());
            std::fs::File::from(OwnedFd::from_raw_fd(
                libc::CMSG_DATA(first).cast::<i32>().read_unaligned(),
            ))
        };
        use std::io::Seek;
        received.rewind().unwrap();
        let mut text = String::new();
        received.read_to_string(&mut text).unwrap();
        assert_eq!(text, "shared");
        connection.turn().unwrap().write_all(b"x").unwrap();
        let mut one = [0];
        other.read_exact(&mut one).unwrap();
        assert_eq!(&one, b"x");
    }
}
