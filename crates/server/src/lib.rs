//! clrscope over HTTP: processes, profilers, recordings and sessions, for pages and scripts.
//!
//! [`Server::bind`] takes the port, [`Server::run`] answers until a [`Stopper`] ends it. All
//! addresses are in `endpoints`, one file for each subject; `access` decides who may use them.
//! Everything that is said comes from the registry of profilers, from sessions and from documents:
//! nothing here knows a profiler.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod access;
mod answers;
mod endpoints;
mod explorations;
mod jobs;
mod kept;
mod net;
mod openapi;
mod paced;
mod pages;
mod problem;
mod recordings;
mod store;
mod strangers;
mod tls;
mod workspace;

pub use access::{Token, TokenError};
pub use answers::held;
pub use problem::Problem;
pub use recordings::{End, Entry, Plan, State as RecordingState, Work};
pub use store::{FolderError, Retention, SessionId, SessionProfiler, SessionRow, SessionTarget};
pub use tls::{Tls, TlsError};
pub use workspace::Workspace;

use access::{Hosts, Secrets};
use answers::Rooms;
use axum::Router;
use diagnose::LimitsOf;
use diagnostics::DotnetProcess;
use explorations::Explorations;
use heap::{Snapshot, growth::SnapshotSummary};
use jobs::Jobs;
use profile::Profile;
use recorder::{RecordError, Recording, Summary};
use report::SnapshotSection;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::sync::watch;

/// The OpenAPI document as a page for people, in Markdown: docs/api.md.
///
/// # Errors
/// What is missing for the page: an operation without an example.
pub fn api_page() -> Result<String, String> {
    let (_, document) = endpoints::router();
    let document = serde_json::from_str(&document).map_err(|error| error.to_string())?;
    openapi::page(&document)
}

/// What the program around the server does for it.
pub trait Program: Send + Sync + 'static {
    /// The agent to send into processes.
    fn agent(&self) -> recorder::AgentFile;

    /// What the heap snapshots of a session say, in lists of at most `rows` rows.
    fn snapshots(&self, session: &Path, profile: &Profile, rows: usize) -> Vec<SnapshotSection>;

    /// What the last heap snapshot of a session counts, if it has one.
    fn heap_summary(&self, session: &Path, profile: &Profile) -> Option<SnapshotSummary>;

    /// A heap snapshot of a session: its number from 1 on, or the last one.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    fn heap_snapshot(&self, session: &Path, number: Option<u32>) -> Result<Snapshot, String>;

    /// What all heap snapshots of a session count, in order; without those that have only roots.
    ///
    /// # Errors
    /// When the session cannot be read.
    fn heap_summaries(&self, session: &Path) -> Result<Vec<SnapshotSummary>, String>;

    /// Observes a process and says what is wrong with it: the summary of the recording, and a
    /// [`report::Checkup`] as JSON.
    ///
    /// # Errors
    /// Cause and next step.
    fn check_up(
        &self,
        plan: &CheckupPlan,
        control: &dyn Control,
    ) -> Result<(Summary, serde_json::Value), String>;
}

/// What a check-up is for.
#[derive(Clone, Debug)]
pub struct CheckupPlan {
    /// The process.
    pub process: DotnetProcess,
    /// For how long it is observed.
    pub duration: Duration,
    /// Whether heap snapshots are taken.
    pub heap: bool,
    /// Limits of findings.
    pub limits: LimitsOf,
    /// Where the recording goes.
    pub session: PathBuf,
}

/// Those who watch a check-up, and may end it.
pub trait Control {
    /// Something begins that is no recording.
    fn begins(&self, what: &str);

    /// Waits for the end of a recording of the check-up.
    ///
    /// # Errors
    /// Those of the recording.
    fn wait(&self, recording: Recording) -> Result<Summary, RecordError>;

    /// Whether an end was asked for.
    fn is_ending(&self) -> bool;
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen; port 0 for a free one.
    pub listen: SocketAddr,
    /// The token for scripts. Without it, only loopback addresses are listened at.
    pub token: Option<Token>,
    /// Names of this server beside `localhost` and addresses.
    pub hosts: Vec<String>,
    /// What connections are encrypted with; without it they are not.
    pub tls: Option<Tls>,
    /// Whether recordings may start programs.
    pub launch: bool,
    /// The folder of sessions.
    pub sessions: PathBuf,
    /// How many sessions are kept.
    pub retention: Retention,
    /// Bytes of a file that may be uploaded: [`MOST_UPLOAD`] where nothing else is wanted.
    pub most_upload: u64,
}

/// Bytes of a file that may be uploaded, by default.
pub const MOST_UPLOAD: u64 = 4 << 30;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Everybody in the network could try.
    #[error(
        "{0} can be reached from other machines, and there is no token: use --token-file FILE, or \
         listen at 127.0.0.1"
    )]
    NoToken(IpAddr),
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}; choose another address with --listen")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The folder of sessions cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The system refused something else.
    #[error("cannot serve: {0}")]
    Io(#[from] io::Error),
}

/// What all requests share. It is a [`Workspace`] as well, and who may use it.
pub(crate) struct State {
    pub work: Arc<Workspace>,
    pub hosts: Hosts,
    pub secrets: Secrets,
    /// Name of the cookie. Browsers do not tell the ports of a host apart, so it has the port.
    pub cookie: String,
    /// Whether connections are encrypted: the cookie is only sent over such.
    pub is_encrypted: bool,
    /// Whether recordings may start programs.
    pub launch: bool,
    /// Questions of viewers.
    pub explore: Jobs,
    /// Sessions that viewers look at.
    pub explorations: Explorations,
    /// Large answers that clients have not taken yet.
    pub rooms: Rooms,
    /// Files that are received.
    pub uploads: tokio::sync::Semaphore,
    /// Bytes of such a file.
    pub most_upload: u64,
    /// Clients that watch recordings.
    pub watchers: Arc<tokio::sync::Semaphore>,
    /// The OpenAPI document.
    pub openapi: String,
}

impl std::ops::Deref for State {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        &self.work
    }
}

pub(crate) type Shared = Arc<State>;

/// A server that has its port.
pub struct Server {
    listener: TcpListener,
    state: Shared,
    router: Router,
    tls: Option<Tls>,
    origin: String,
    url: String,
    stopped: watch::Receiver<bool>,
    stopper: Stopper,
}

/// Ends a server from another thread: its recordings end in order, and then it does.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// Asks it to end.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Takes the port and the folder.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn bind(config: Config, program: Arc<dyn Program>) -> Result<Self, ServeError> {
        Self::bind_with(config, program, |_| Router::new())
    }

    /// The same, with further addresses. Whoever may not use the server cannot reach them either.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn bind_with(
        config: Config,
        program: Arc<dyn Program>,
        more: impl FnOnce(&Arc<Workspace>) -> Router,
    ) -> Result<Self, ServeError> {
        let ip = config.listen.ip();
        if !ip.is_loopback() && config.token.is_none() {
            return Err(ServeError::NoToken(ip));
        }
        let work = Workspace::open(&config.sessions, config.retention, Arc::clone(&program))?;
        let listen = |source| ServeError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).map_err(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let secrets = Secrets::new(config.token);
        let once = secrets.once(false)?;
        let (router, openapi) = endpoints::router();
        let (is_encrypted, launch) = (config.tls.is_some(), config.launch);
        let origin = origin(address, is_encrypted, config.hosts.first());
        let more = more(&work);
        let state = Arc::new(State {
            work,
            hosts: Hosts::new(ip.is_loopback(), config.hosts),
            secrets,
            cookie: format!("clrscope-{}", address.port()),
            is_encrypted,
            launch,
            explore: Jobs::new(2),
            explorations: Explorations::default(),
            rooms: Rooms::default(),
            uploads: endpoints::uploads(),
            most_upload: config.most_upload,
            watchers: endpoints::watchers(),
            openapi,
        });
        let guard = axum::middleware::from_fn_with_state(Arc::clone(&state), access::guard);
        let router = router.with_state(Arc::clone(&state)).merge(more).layer(guard);
        let (stopper, stopped) = watch::channel(false);
        let tls = config.tls;
        let url = format!("{origin}/?token={once}");
        Ok(Self { listener, state, router, tls, origin, url, stopped, stopper: Stopper(stopper) })
    }

    /// The address for a browser, with a token that can be used once.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The same for a program that is given the address as an argument, where other users can read
    /// it: the token is only good for programs of the user of this process.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn url_for_own_user(&self) -> Result<String, ServeError> {
        Ok(format!("{}/?token={}", self.origin, self.state.secrets.once(true)?))
    }

    /// What ends the server.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Answers requests until it is stopped. Then it ends the recordings in order.
    ///
    /// # Errors
    /// When the system refuses threads or the like.
    pub fn run(self) -> Result<(), ServeError> {
        Ok(net::run(self.listener, self.router, self.state, self.tls, self.stopped)?)
    }
}

/// What addresses of this server begin with. A certificate is mostly of a name.
fn origin(address: SocketAddr, is_encrypted: bool, name: Option<&String>) -> String {
    match (is_encrypted, name) {
        (false, _) => format!("http://{}", reachable(address)),
        (true, None) => format!("https://{}", reachable(address)),
        (true, Some(name)) => format!("https://{name}:{}", address.port()),
    }
}

/// An address as this machine can reach it.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
