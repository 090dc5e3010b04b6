//! Runtimes that connect to us: `DOTNET_DiagnosticPorts`.
//!
//! A runtime that is configured with a port of ours connects to it and says who it is in 34 bytes.
//! Each such connection serves one command; when it is used, the runtime connects again.

use crate::platform::transport::{Listener, Stream};
use crate::{Error, Port};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// First bytes of what a runtime says when it connects.
const MAGIC: &[u8; 8] = b"ADVR_V1\0";

/// How long a connection may take to say who it is.
const ADVERTISE_TIMEOUT: Duration = Duration::from_secs(1);

/// How often the listening thread looks whether it is to end.
const TICK: Duration = Duration::from_millis(50);

/// Most runtimes at one port: far more than a process tree starts.
const MAX_INSTANCES: usize = 4096;

/// Connections kept of one runtime. It opens the next only when the last was used.
const MAX_CONNECTIONS: usize = 4;

/// A port that runtimes connect to, for launching: a runtime can be made to wait at its start until
/// it is resumed. Needs .NET 5.
///
/// The socket file is removed when this is dropped.
pub struct ReversePort {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A runtime that connected.
#[derive(Clone, Debug)]
pub struct ConnectedRuntime {
    /// Process id in the runtime's own pid namespace.
    pub pid: u64,
    /// Random number of this runtime instance.
    pub cookie: [u8; 16],
    /// Where to send commands. If the runtime waits at its start, it continues after
    /// [`Port::resume_runtime`].
    pub port: Port,
}

struct Shared {
    path: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
    closing: AtomicBool,
}

#[derive(Default)]
struct State {
    connections: HashMap<[u8; 16], VecDeque<Stream>>,
    fresh: VecDeque<Advertise>,
    /// Why the listening thread ended.
    failure: Option<io::ErrorKind>,
}

/// What a runtime says when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Advertise {
    cookie: [u8; 16],
    pid: u64,
}

/// One runtime at a port: the source of its connections.
#[derive(Clone)]
pub(crate) struct Instance {
    shared: Arc<Shared>,
    cookie: [u8; 16],
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits until `take` finds something, the port fails, or the deadline is over.
    fn wait<T>(
        &self,
        deadline: Instant,
        mut take: impl FnMut(&mut State) -> Option<T>,
    ) -> io::Result<T> {
        let mut state = self.lock();
        loop {
            if let Some(found) = take(&mut state) {
                return Ok(found);
            }
            if let Some(kind) = state.failure {
                return Err(kind.into());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .0;
        }
    }

    /// Takes in connections until the port is dropped.
    fn listen(&self, listener: &Listener) {
        while !self.closing.load(Ordering::Relaxed) {
            match listener.accept(TICK) {
                Ok(None) => {}
                Ok(Some(socket)) => {
                    let mut stream = Stream::new(socket, Instant::now() + ADVERTISE_TIMEOUT);
                    // Whoever does not say who it is within the time is no runtime.
                    if let Ok(advertise) = read_advertise(&mut stream) {
                        self.add(advertise, stream);
                    }
                }
                Err(error) => {
                    self.lock().failure = Some(error.kind());
                    self.changed.notify_all();
                    return;
                }
            }
        }
    }

    fn add(&self, advertise: Advertise, stream: Stream) {
        let mut state = self.lock();
        let known = state.connections.len();
        let is_new = !state.connections.contains_key(&advertise.cookie);
        if is_new && known >= MAX_INSTANCES {
            return;
        }
        let connections = state.connections.entry(advertise.cookie).or_default();
        if connections.len() >= MAX_CONNECTIONS {
            connections.pop_front();
        }
        connections.push_back(stream);
        if is_new {
            state.fresh.push_back(advertise);
        }
        self.changed.notify_all();
    }
}

impl ReversePort {
    /// Listens at `path`, where nothing may be yet; for runtimes of our own user, or root's.
    pub fn bind(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Connect { address: path.display().to_string(), source };
        let listener = Listener::bind(path).map_err(failed)?;
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            state: Mutex::default(),
            changed: Condvar::new(),
            closing: AtomicBool::new(false),
        });
        let listening = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("diagnostic-port".into())
            .spawn(move || listening.listen(&listener))
            .map_err(failed)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The value of `DOTNET_DiagnosticPorts` that makes a runtime connect here. With `suspend` the
    /// runtime waits at its start until it is resumed, for ever if nobody does. Children inherit
    /// the variable.
    pub fn environment_value(&self, suspend: bool) -> String {
        format!("{},{}", self.shared.path.display(), if suspend { "suspend" } else { "nosuspend" })
    }

    /// The next runtime that connects for the first time.
    pub fn accept(&self, timeout: Duration) -> Result<ConnectedRuntime, Error> {
        let advertise =
            self.shared.wait(Instant::now() + timeout, |state| state.fresh.pop_front()).map_err(
                |source| Error::from_io("waiting for a runtime to connect", timeout, source),
            )?;
        let instance = Instance { shared: Arc::clone(&self.shared), cookie: advertise.cookie };
        Ok(ConnectedRuntime {
            pid: advertise.pid,
            cookie: advertise.cookie,
            port: Port::reverse(instance),
        })
    }
}

impl Drop for ReversePort {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It ends within a tick, or within the time for one advertisement.
            let _ = thread.join();
        }
        let mut state = self.shared.lock();
        state.connections.clear();
        state.failure = Some(io::ErrorKind::NotConnected);
        self.shared.changed.notify_all();
    }
}

impl fmt::Debug for ReversePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReversePort").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

impl Instance {
    pub(crate) fn address(&self) -> String {
        format!("{} (reverse)", self.shared.path.display())
    }

    /// The runtime's next connection.
    pub(crate) fn connect(&self, deadline: Instant) -> io::Result<Stream> {
        let mut stream = self
            .shared
            .wait(deadline, |state| state.connections.get_mut(&self.cookie)?.pop_front())?;
        stream.set_deadline(deadline);
        Ok(stream)
    }
}

/// Magic, cookie, process id, and two bytes that are reserved.
fn read_advertise(stream: &mut impl Read) -> io::Result<Advertise> {
    let (mut magic, mut cookie, mut pid, mut reserved) = ([0; 8], [0; 16], [0; 8], [0; 2]);
    stream.read_exact(&mut magic)?;
    if &magic != MAGIC {
        return Err(io::ErrorKind::InvalidData.into());
    }
    stream.read_exact(&mut cookie)?;
    stream.read_exact(&mut pid)?;
    stream.read_exact(&mut reserved)?;
    Ok(Advertise { cookie, pid: u64::from_le_bytes(pid) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advertisements() {
        let bytes = [&MAGIC[..], &[5; 16], &77u64.to_le_bytes(), &[0; 2]].concat();
        assert_eq!(bytes.len(), 34);
        assert_eq!(
            read_advertise(&mut bytes.as_slice()).unwrap(),
            Advertise { cookie: [5; 16], pid: 77 }
        );
        assert!(read_advertise(&mut &bytes[..33]).is_err());
        assert!(read_advertise(&mut &b"GET / HTTP/1.1\r\n\r\n"[..]).is_err());
    }
}
