//! Recordings and sessions of one user, for whoever asks about them: the server, and what stands
//! beside it.

use crate::{
    Program,
    jobs::Jobs,
    problem::Problem,
    recordings::{self, Entry, Plan, Recordings},
    store::{FolderError, Retention, SessionId, SessionRow, Store},
};
use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The folder of sessions, and the recordings that add to it.
pub struct Workspace {
    pub(crate) program: Arc<dyn Program>,
    pub(crate) store: Store,
    pub(crate) recordings: Recordings,
    /// Work that reads whole sessions.
    pub(crate) heavy: Jobs,
    /// Work that takes a moment.
    pub(crate) light: Jobs,
}

impl Workspace {
    /// Opens the folder, and makes it if there is none.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn open(
        sessions: &Path,
        retention: Retention,
        program: Arc<dyn Program>,
    ) -> Result<Arc<Self>, FolderError> {
        let store = Store::open(sessions, retention)?;
        let recordings = Recordings::default();
        Ok(Arc::new(Self { program, store, recordings, heavy: Jobs::new(2), light: Jobs::new(4) }))
    }

    /// The agent to send into processes.
    pub fn agent(&self) -> recorder::AgentFile {
        self.program.agent()
    }

    /// Begins a recording. Returns when it has begun; it then runs on a thread of its own, also if
    /// this future is dropped.
    ///
    /// # Errors
    /// When it does not begin.
    pub async fn start(self: &Arc<Self>, plan: Plan) -> Result<Arc<Entry>, Problem> {
        recordings::start(self, recordings::Job::Process(Box::new(plan))).await
    }

    /// The recordings that run, and the latest that have ended, latest first.
    pub fn recordings(&self) -> Vec<Arc<Entry>> {
        self.recordings.list()
    }

    /// The sessions, newest first. Reads the beginning of each.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn sessions(&self) -> Result<Vec<SessionRow>, Problem> {
        self.store.list()
    }

    /// Opens a session to read it.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be opened.
    pub fn read(&self, id: &SessionId) -> Result<File, Problem> {
        self.store.read(id)
    }

    /// Where a session is, whether there is one or not.
    pub fn path(&self, id: &SessionId) -> PathBuf {
        self.store.path(id)
    }

    /// Does something that blocks and reads whole sessions. Only two of these run at the same time;
    /// others wait for their turn.
    ///
    /// # Errors
    /// Those of the work, and that too many wait.
    pub async fn heavy<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let own = Arc::clone(self);
        self.heavy.run(move || work(&own)).await
    }

    /// Does something that blocks for a moment.
    ///
    /// # Errors
    /// Those of the work, and that too many wait.
    pub async fn light<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let own = Arc::clone(self);
        self.light.run(move || work(&own)).await
    }

    /// Asks all recordings to end. None begins from now on.
    pub fn stop_all(&self) {
        self.recordings.stop_all();
    }

    /// Waits until no recording runs any more.
    pub async fn ended(&self) {
        self.recordings.ended().await;
    }
}
