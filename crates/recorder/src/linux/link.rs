//! The connection to the agent.

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
};
use std::{
    collections::VecDeque,
    io::{self, IoSliceMut, Read},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel},
    time::{Duration, Instant},
};
use wire::{
    Control, Hello, Record,
    frame::{self, DecodeError, FrameError},
};

/// How many frames may wait for the recorder; the agent's own bounded queue takes over behind that.
const QUEUE: usize = 256;

/// How long a write to the agent may block.
const WRITE_LIMIT: Duration = Duration::from_secs(2);

/// Identity of the other end, as the kernel tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// In our pid namespace.
    pub pid: u32,
    /// User.
    pub uid: u32,
}

/// What comes from the agent.
#[derive(Debug)]
pub(super) enum FromAgent {
    /// One frame, and the descriptors that came with it.
    Frame(Vec<Record>, Vec<OwnedFd>),
    /// The connection ended; nothing follows.
    Closed(FrameError),
}

/// A connected agent that has said hello.
#[derive(Debug)]
pub(super) struct AgentLink {
    stream: UnixStream,
    /// What it said first.
    pub hello: Hello,
    /// What came in one frame with the hello.
    first: Vec<Record>,
    first_descriptors: Vec<OwnedFd>,
    incoming: Receiver<FromAgent>,
    /// What [`Self::wait`] has met.
    next: Option<FromAgent>,
}

/// Waits until a connection comes in, or until the deadline.
pub(super) fn accept(
    listener: &UnixListener,
    deadline: Instant,
) -> io::Result<Option<(UnixStream, Peer)>> {
    listener.set_nonblocking(true)?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                let peer = rustix::net::sockopt::socket_peercred(&stream)?;
                let peer = Peer {
                    pid: peer.pid.as_raw_nonzero().get().unsigned_abs(),
                    uid: peer.uid.as_raw(),
                };
                return Ok(Some((stream, peer)));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                    return Ok(None);
                };
                wait_readable([listener.as_fd()], left)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits until one of these is readable; returns also when time is up or a signal came.
pub(super) fn wait_readable<'fd>(
    of: impl IntoIterator<Item = BorrowedFd<'fd>>,
    limit: Duration,
) -> io::Result<()> {
    let limit =
        Timespec { tv_sec: limit.as_secs().min(3600) as i64, tv_nsec: limit.subsec_nanos().into() };
    let mut of: Vec<_> = of
        .into_iter()
        .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
        .collect();
    match poll(&mut of, Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl AgentLink {
    /// Reads the hello and starts the reading thread.
    pub fn new(stream: UnixStream, deadline: Instant) -> Result<Self, FrameError> {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        stream.set_write_timeout(Some(WRITE_LIMIT))?;
        let mut reader = FrameReader::new(stream.try_clone()?);
        let (mut records, first_descriptors) = reader.read()?;
        let first = records.split_off(records.len().min(1));
        let Some(Record::Hello(hello)) = records.pop() else {
            let source = DecodeError::DeserializeBadEncoding;
            return Err(FrameError::Decode { length: 0, index: 0, source });
        };
        stream.set_read_timeout(None)?;
        let (sender, incoming) = sync_channel(QUEUE);
        std::thread::Builder::new().name("clrscope-agent".into()).spawn(move || {
            read_all(&mut reader, &sender);
        })?;
        Ok(Self { stream, hello, first, first_descriptors, incoming, next: None })
    }

    /// The next thing that came, without waiting.
    pub fn try_next(&mut self) -> Option<FromAgent> {
        if !self.first.is_empty() {
            let descriptors = std::mem::take(&mut self.first_descriptors);
            return Some(FromAgent::Frame(std::mem::take(&mut self.first), descriptors));
        }
        if let Some(event) = self.next.take() {
            return Some(event);
        }
        match self.incoming.try_recv() {
            Ok(event) => Some(event),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(FromAgent::Closed(FrameError::Closed)),
        }
    }

    /// Waits until something has come, up to a limit.
    pub fn wait(&mut self, limit: Duration) {
        if self.first.is_empty() && self.next.is_none() {
            self.next = match self.incoming.recv_timeout(limit) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(FromAgent::Closed(FrameError::Closed)),
            };
        }
    }

    /// What the agent said together with its hello: a goodbye, if it leaves at once.
    pub fn first(&self) -> &[Record] {
        &self.first
    }

    /// Sends a message. Fails when the agent is gone.
    pub fn send(&mut self, message: &Control) -> Result<(), FrameError> {
        frame::write(&mut self.stream, message)
    }
}

impl Drop for AgentLink {
    fn drop(&mut self) {
        // Wakes the reading thread; an agent that is still there sees the end, stops and detaches.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

fn read_all(reader: &mut FrameReader, sender: &SyncSender<FromAgent>) {
    loop {
        let (event, last) = match reader.read() {
            Ok((records, descriptors)) => (FromAgent::Frame(records, descriptors), false),
            Err(error) => (FromAgent::Closed(error), true),
        };
        if sender.send(event).is_err() || last {
            return;
        }
    }
}

/// Reads frames and collects the descriptors that come along.
#[derive(Debug)]
struct FrameReader {
    stream: UnixStream,
    buffer: VecDeque<u8>,
    descriptors: Vec<OwnedFd>,
}

impl FrameReader {
    fn new(stream: UnixStream) -> Self {
        Self { stream, buffer: VecDeque::new(), descriptors: Vec::new() }
    }

    fn read(&mut self) -> Result<(Vec<Record>, Vec<OwnedFd>), FrameError> {
        let records: Vec<Record> = frame::read(self)?;
        // One read may bring the end of one frame and the next frame with a descriptor: it is for
        // the record that announces one.
        let announced = records.iter().any(|record| matches!(record, Record::SampleRing(_)));
        let descriptors =
            if announced { std::mem::take(&mut self.descriptors) } else { Vec::new() };
        Ok((records, descriptors))
    }
}

impl Read for FrameReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.buffer.is_empty() {
            let mut bytes = vec![0; 64 << 10];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let received = loop {
                let mut slices = [IoSliceMut::new(&mut bytes)];
                match recvmsg(&self.stream, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                    Err(rustix::io::Errno::INTR) => {}
                    other => break other?,
                }
            };
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    // A hostile peer cannot pile up descriptors: the frame that they come with ends
                    // the list.
                    self.descriptors
                        .extend(descriptors.take(4usize.saturating_sub(self.descriptors.len())));
                }
            }
            self.buffer.extend(bytes.get(..received.bytes).unwrap_or_default());
        }
        self.buffer.read(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use std::io::Write;

    fn hello() -> Record {
        Record::Hello(Hello {
            protocol: wire::PROTOCOL_VERSION,
            token: [1; 16],
            pid: 1,
            runtime: [9, 0, 0, 5],
            info_version: 15,
            notify_only: false,
            event_mask: (0, 0),
            entered: 0,
            command_line: Vec::new(),
        })
    }

    fn next(link: &mut AgentLink) -> FromAgent {
        loop {
            if let Some(event) = link.try_next() {
                return event;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(200)
    }

    #[test]
    fn hello_then_records_then_the_end() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        frame::write(&mut theirs, &hello()).unwrap();
        frame::write(&mut theirs, &Record::NotCode(7)).unwrap();
        drop(theirs);
        let mut link = AgentLink::new(ours, soon()).unwrap();
        assert_eq!(link.hello.runtime, [9, 0, 0, 5]);
        assert!(
            matches!(next(&mut link), FromAgent::Frame(records, _) if records == [Record::NotCode(7)])
        );
        assert!(matches!(next(&mut link), FromAgent::Closed(FrameError::Closed)));
    }

    #[test]
    fn a_peer_without_hello_is_refused() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        frame::write(&mut theirs, &Record::NotCode(7)).unwrap();
        assert!(AgentLink::new(ours, soon()).is_err());
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&[0xff; 64]).unwrap();
        assert!(matches!(AgentLink::new(ours, soon()), Err(FrameError::TooLarge(_))));
        let (ours, theirs) = UnixStream::pair().unwrap();
        assert!(
            matches!(AgentLink::new(ours, soon()), Err(FrameError::Io(_))),
            "a silent peer must time out"
        );
        drop(theirs);
    }

    #[test]
    fn a_descriptor_comes_with_its_frame() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        // The frame before comes in the same read.
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &hello()).unwrap();
        frame::write(&mut bytes, &Record::SampleRing(wire::ring::Layout::new(4, 4096))).unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let descriptors = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(&theirs, &[io::IoSlice::new(&bytes)], &mut ancillary, SendFlags::empty()).unwrap();
        let mut link = AgentLink::new(ours, soon()).unwrap();
        match next(&mut link) {
            FromAgent::Frame(records, descriptors) => {
                assert!(matches!(records[..], [Record::SampleRing(_)]));
                assert_eq!(descriptors.len(), 1);
            }
            other => panic!("{other:?}"),
        }
    }
}
