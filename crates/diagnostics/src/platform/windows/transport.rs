//! Named pipes.
//!
//! The standard library opens a pipe as a file, whose reads and writes have no time-out. So they
//! run on a thread of their own, and the caller waits for that thread only as long as allowed; the
//! thread ends with the pipe.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::time::{Duration, Instant};

/// The system's code for a pipe whose instances all serve somebody else (`ERROR_PIPE_BUSY`).
const PIPE_BUSY: i32 = 231;

/// Bytes of one read.
const CHUNK: usize = 64 << 10;

/// A connection to a runtime.
#[derive(Debug)]
pub struct Stream {
    limit: Limit,
    requests: Sender<Request>,
    replies: Receiver<io::Result<Vec<u8>>>,
    /// Bytes that were read, but not yet asked for.
    pending: Vec<u8>,
    /// Whether a read is under way whose reply nobody has waited for to the end.
    reading: bool,
}

#[derive(Debug)]
enum Request {
    Read,
    Write(Vec<u8>),
}

/// When reading or writing gives up.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Deadline(Instant),
    Idle(Duration),
}

impl Stream {
    fn start(mut pipe: File, deadline: Instant) -> io::Result<Self> {
        let (requests, todo) = channel::<Request>();
        // One reply waits at most, so a caller that does not read holds the runtime back.
        let (done, replies) = sync_channel(1);
        std::thread::Builder::new().name("diagnostic-pipe".into()).spawn(move || {
            for request in todo {
                let reply = match request {
                    Request::Read => {
                        let mut chunk = vec![0; CHUNK];
                        pipe.read(&mut chunk).map(|read| {
                            chunk.truncate(read);
                            chunk
                        })
                    }
                    Request::Write(bytes) => pipe.write_all(&bytes).map(|()| Vec::new()),
                };
                if done.send(reply).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self {
            limit: Limit::Deadline(deadline),
            requests,
            replies,
            pending: Vec::new(),
            reading: false,
        })
    }

    /// From now on each read and write may take this long.
    pub fn set_idle_limit(&mut self, limit: Duration) {
        self.limit = Limit::Idle(limit);
    }

    /// From now on all work together ends at `deadline`.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.limit = Limit::Deadline(deadline);
    }

    fn request(&self, request: Request) -> io::Result<()> {
        self.requests.send(request).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn reply(&self) -> io::Result<Vec<u8>> {
        let limit = match self.limit {
            Limit::Deadline(deadline) => deadline.saturating_duration_since(Instant::now()),
            Limit::Idle(limit) => limit,
        };
        match self.replies.recv_timeout(limit) {
            Ok(reply) => reply,
            Err(RecvTimeoutError::Timeout) => Err(io::ErrorKind::TimedOut.into()),
            Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.pending.is_empty() {
            if !self.reading {
                self.request(Request::Read)?;
                self.reading = true;
            }
            match self.reply() {
                Ok(chunk) => self.pending = chunk,
                // The read continues, and the next call waits for the same one.
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
                // The other side closed the pipe.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
                Err(error) => return Err(error),
            }
            self.reading = false;
        }
        let read = self.pending.as_slice().read(buffer)?;
        self.pending.drain(..read);
        Ok(read)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.request(Request::Write(bytes.to_owned()))?;
        self.reply().map(|_| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Connects to the pipe named `path`.
pub fn connect(path: &Path, deadline: Instant) -> io::Result<Stream> {
    loop {
        match OpenOptions::new().read(true).write(true).open(path) {
            Ok(pipe) => return Stream::start(pipe, deadline),
            Err(error) if error.raw_os_error() == Some(PIPE_BUSY) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Who is at the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its id.
    pub pid: u32,
}

/// The system tells only by a call that has no safe form. The name of a pipe belongs to one process
/// as long as that holds it.
pub fn peer(_: &Stream) -> Option<Peer> {
    None
}

/// A connection that a [`Listener`] would give, if there were one on this system.
#[derive(Debug)]
pub enum Incoming {}

/// A pipe that runtimes connect to.
#[derive(Debug)]
pub enum Listener {}

impl Listener {
    /// Pipes are made by a call that has no safe form, so there is none yet.
    pub fn bind(_: &Path) -> io::Result<Self> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "reverse diagnostic ports are not built for Windows yet",
        ))
    }

    /// Never called: there is no listener.
    pub fn accept(&self, _: Duration) -> io::Result<Option<Incoming>> {
        match *self {}
    }
}

impl Stream {
    /// Never called: there is no incoming connection.
    pub fn new(incoming: Incoming, _: Instant) -> Self {
        match incoming {}
    }
}
