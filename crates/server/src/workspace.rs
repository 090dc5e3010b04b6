//! Recordings and sessions of one user, for whoever asks about them: the server, and what stands
//! beside it.

use crate::{
    Program,
    jobs::Jobs,
    problem::Problem,
    recordings::{self, Entry, Plan, Recordings},
    store::{FolderError, Retention, SessionId, SessionRow, Store},
};
use axum::http::StatusCode;
use compare::Recording;
use profile::Filter;
use report::ReportError;
use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Functions of a session. Each takes some kilobytes while two sessions are compared.
const MOST_FUNCTIONS: usize = 300_000;

/// The folder of sessions, and the recordings that add to it.
pub struct Workspace {
    pub(crate) program: Arc<dyn Program>,
    pub(crate) store: Store,
    pub(crate) recordings: Recordings,
    /// Work that reads whole sessions.
    pub(crate) heavy: Jobs,
    /// Work that takes a moment.
    pub(crate) light: Jobs,
    /// Thread dumps: one of a process that does not respond takes many seconds.
    pub(crate) dumps: Jobs,
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
        let (heavy, light, dumps) = (Jobs::new(2), Jobs::new(4), Jobs::new(2));
        Ok(Arc::new(Self { program, store, recordings, heavy, light, dumps }))
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

    /// How many sessions there are, and the newest of them, at most `rows`. Reads the beginning of
    /// each.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn sessions(&self, rows: usize) -> Result<(usize, Vec<SessionRow>), Problem> {
        self.store.list(0, rows)
    }

    /// Opens a session to read it.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be opened.
    pub fn read(&self, id: &SessionId) -> Result<File, Problem> {
        self.store.read(id)
    }

    /// Reads a session, or a part of it, to compare it with another one.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be read.
    pub fn recording(&self, id: &SessionId, filter: &Filter) -> Result<Recording, Problem> {
        let session = BufReader::new(self.read(id)?);
        let read = Recording::read(id.to_string(), session, filter);
        let mut recording = read.map_err(ReportError::from)?;
        let functions = recording.profile.tables.functions.len();
        if functions > MOST_FUNCTIONS {
            return Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                format!("the session {id} has {functions} functions, more than are compared here"),
                "use `clrscope compare` on the files",
            ));
        }
        // A heap snapshot belongs to no thread and no time, so a part has none.
        if *filter == Filter::default() {
            recording.heap = self.program.heap_summary(&self.path(id), &recording.profile);
        }
        Ok(recording)
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

    /// Takes a thread dump. Only two of these are taken at the same time.
    ///
    /// # Errors
    /// Those of the work, and that too many wait.
    pub async fn dump<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.dumps.run(work).await
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
