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
//! A runtime gives the id of a session that has ended to a later one, which may be another tool's.
//! So no session may be ended twice, and of two processes that may die or be stopped at any moment,
//! only one can know whether it was. That is the keeper: also when a session ends as usual, we ask
//! it to send `StopTracing`. We send it only if the keeper is gone.
//!
//! Also a `StopTracing` can make .NET Core 3.1 hang: `SuspendWriteEvent` takes the lock of the
//! buffers twice, and the second time waits under it for every thread that is just writing an
//! event, while such a thread may wait for the same lock to get a new buffer. It has had the time
//! between for that, unless it got no processor. So the keeper puts the end off while the process
//! is [overloaded](crate::overload), except where we have waited for that before we asked. The same
//! goes for a process without address space, which a `StopTracing` would end with SIGSEGV.
//!
//! What the keeper needs, it has before it requests a session: a failed allocation would end it,
//! and all of its connections would break.

mod process;

pub use process::run;

use crate::Error;
use crate::eventpipe::Known;
use crate::platform::transport::Stream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, recv, sendmsg, socketpair,
};
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The argument that makes a program a keeper.
const ARGUMENT: &str = "keep-event-sessions";

/// What `ps` shows. Nothing that is meant for clrscope (`pkill clrscope`) should match it.
const NAME: &str = "event-keeper";

/// How long the keeper may take to start.
const START_LIMIT: Duration = Duration::from_secs(5);

/// How long we wait at the end for a keeper that has nothing left to do.
const END_LIMIT: Duration = Duration::from_millis(200);

/// How often we look whether the keeper has answered, where another thread of ours may have read
/// it.
const ANSWER: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// What asks the keeper to end the session.
const STOP: u8 = b's';

/// What the keeper says: that it has taken the session over,
const TAKEN: u8 = b't';
/// that the runtime has answered its `StopTracing`,
const DONE: u8 = b'd';
/// that this was not possible,
const FAILED: u8 = b'f';
/// and that it has read the session to its end.
const OVER: u8 = b'e';

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
    child: Option<Child>,
}

/// A session that the keeper knows. When this is dropped the keeper ends the session.
#[derive(Debug)]
pub(crate) struct Kept {
    channel: UnixStream,
    known: Mutex<Known>,
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
        let shared = Shared { control: Some(ours), child: Some(child) };
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
        let Some(mut child) = self.child.take() else { return };
        // One that has sessions to end outlives us.
        let until = Instant::now() + END_LIMIT;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                // This process may live on (`serve`), and would keep what is left of the keeper.
                // Without a thread, that is so.
                let _ = std::thread::Builder::new().spawn(move || child.wait());
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Kept {
    pub(crate) fn new(channel: UnixStream) -> Self {
        Self { channel, known: Mutex::default() }
    }

    /// What the keeper has said.
    pub(crate) fn known(&self) -> Known {
        self.read(&mut lock(&self.known))
    }

    fn read(&self, known: &mut Known) -> Known {
        loop {
            let mut bytes = [0; 8];
            match recv(&self.channel, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((read @ 1.., _)) => {
                    for byte in bytes.iter().take(read) {
                        match *byte {
                            TAKEN => known.taken = true,
                            DONE => known.answer = Some(true),
                            FAILED => known.answer = Some(false),
                            OVER => known.over = true,
                            _ => {}
                        }
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return *known,
                // It was killed, or has nothing left to do with this session.
                Ok(_) | Err(_) => {
                    known.gone = true;
                    return *known;
                }
            }
        }
    }

    /// Asks the keeper to end the session. The first time only: it would not do so twice.
    pub(crate) fn ask(&self) {
        let mut known = lock(&self.known);
        if !self.read(&mut known).gone && !known.asked {
            known.asked = true;
            // One that is gone is noticed when it does not answer.
            let _ = (&self.channel).write_all(&[STOP]);
        }
    }

    /// Waits until the keeper has answered, or does not have to or cannot, until `deadline` at
    /// most.
    pub(crate) fn answer(&self, deadline: Instant) -> Known {
        loop {
            let known = self.known();
            if known.gone || known.taken || known.over || known.answer.is_some() {
                return known;
            }
            if Instant::now() >= deadline {
                return known;
            }
            let _ = poll(&mut [PollFd::new(&self.channel, PollFlags::IN)], Some(&ANSWER));
        }
    }

    /// Leaves the session to the keeper, which reads it to its end, and ends it if it was not asked
    /// to do so. What it says can still be read.
    pub(crate) fn leave(&self) {
        let _ = self.channel.shutdown(Shutdown::Write);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc;

    #[test]
    fn a_keeper_that_outlives_its_recording_is_reaped() {
        let (ours, _theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        let child = Command::new("sleep").arg("0.5").spawn().unwrap();
        let pid = child.id();
        drop(Shared { control: Some(ours), child: Some(child) });
        assert!(!proc::state(pid).unwrap().is_over(), "it was waited for");
        let until = Instant::now() + START_LIMIT;
        while proc::state(pid).is_ok() {
            assert!(Instant::now() < until, "it is left: {:?}", proc::state(pid));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
