//! Recordings that run, and the latest that have ended.

mod launched;

pub(crate) use launched::{LaunchPlan, Launched, Program};

use crate::{
    CheckupPlan, Control, Workspace,
    problem::Problem,
    store::{SessionId, Writing},
};
use api::{SummaryJson, live::View};
use axum::http::StatusCode;
use diagnose::LimitsOf;
use diagnostics::DotnetProcess;
use profile::Feed;
use profilers::Selection;
use recorder::{Progress, RecordError, RecordOptions, Recording, StopHandle, Summary};
use serde_json::Value;
use std::{
    collections::VecDeque,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::sync::{oneshot, watch};

/// Recordings at the same time.
const MOST: usize = 16;

/// Recordings that are remembered after their end.
const MOST_ENDED: usize = 50;

/// How often a recording is looked after.
const POLL: Duration = Duration::from_millis(100);

/// What a recording is for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The process.
    pub process: DotnetProcess,
    /// The name of its session; made of the process and the time if there is none.
    pub name: Option<SessionId>,
    /// What is done with the process.
    pub work: Work,
    /// What is doubtful about it.
    pub warnings: Vec<String>,
}

/// A recording that is asked for.
#[derive(Debug)]
pub(crate) enum Job {
    /// Of a process that runs.
    Process(Box<Plan>),
    /// Of a program that is started.
    Launch(Box<LaunchPlan>),
}

impl Job {
    /// The process, where there is one already.
    fn pid(&self) -> Option<u32> {
        match self {
            Self::Process(plan) => Some(plan.process.pid),
            Self::Launch(_) => None,
        }
    }
}

/// What is done with a process.
#[derive(Clone, Debug)]
pub enum Work {
    /// It is recorded.
    Record(RecordOptions),
    /// It is observed, and then judged.
    CheckUp {
        /// For how long.
        duration: Duration,
        /// Whether heap snapshots are taken, each of which pauses the process.
        heap: bool,
        /// Limits of findings.
        limits: LimitsOf,
    },
}

impl Work {
    /// The profilers that run, and for how long.
    fn outline(&self) -> Result<(Vec<&'static str>, Option<Duration>), Problem> {
        let ids = |all: &[Selection]| all.iter().map(|selection| selection.spec.id).collect();
        match self {
            Self::Record(options) => Ok((ids(&options.profilers), options.duration)),
            Self::CheckUp { duration, .. } => {
                let all = Selection::of_checkup();
                let all = all.map_err(|error| Problem::internal(error.to_string()))?;
                Ok((ids(&all), Some(*duration)))
            }
        }
    }
}

/// A recording.
#[derive(Debug)]
pub struct Entry {
    /// That of its session.
    pub id: SessionId,
    /// Process id.
    pub pid: u32,
    /// Name of the process.
    pub process: String,
    /// Ids of the profilers that run.
    pub profilers: Vec<&'static str>,
    /// When it began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// When it ends by itself.
    pub duration: Option<Duration>,
    /// Whether it is a check-up.
    pub is_checkup: bool,
    /// The program that it has started, if its process did not run before.
    pub(crate) launched: Option<Launched>,
    /// What is doubtful about it.
    pub warnings: Vec<String>,
    ender: Ender,
    state: watch::Receiver<State>,
}

/// Ends a recording, or all recordings of a check-up one after the other.
#[derive(Debug, Default)]
struct Ender(Mutex<(bool, Option<StopHandle>)>);

impl Ender {
    fn lock(&self) -> MutexGuard<'_, (bool, Option<StopHandle>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        let mut state = self.lock();
        state.0 = true;
        state.1.iter().for_each(StopHandle::stop);
    }

    fn is_ending(&self) -> bool {
        self.lock().0
    }

    /// What to stop from now on; at once, if an end was asked for before.
    fn set(&self, stop: StopHandle) {
        let mut state = self.lock();
        if state.0 {
            stop.stop();
        }
        state.1 = Some(stop);
    }
}

/// How far a recording is.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// As the recorder says it.
    pub progress: Progress,
    /// The latest figures, and how many there were.
    pub figures: Option<(u64, Arc<Value>)>,
    /// What became of it, when it has ended: why it failed, if it did.
    pub end: Option<Arc<Result<End, String>>>,
}

/// What became of a recording.
#[derive(Debug)]
pub struct End {
    /// What was recorded: an [`api::SummaryJson`].
    pub summary: Value,
    /// What was found by a check-up: a [`report::Checkup`].
    pub checkup: Option<Value>,
}

impl Entry {
    /// Asks it to end. It does no harm to ask again.
    pub fn stop(&self) {
        self.ender.end();
    }

    /// How far it is.
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Reports each change of how far it is.
    pub fn watch(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    fn has_ended(&self) -> bool {
        self.state.borrow().end.is_some()
    }
}

/// All recordings.
#[derive(Debug)]
pub(crate) struct Recordings {
    all: Mutex<All>,
    /// How many are beginning or running.
    running: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct All {
    entries: VecDeque<Arc<Entry>>,
    /// Processes to which a recording is being attached, and nothing for each program that is being
    /// started.
    beginning: Vec<Option<u32>>,
    /// Whether the server ends: no recording begins any more.
    stopping: bool,
}

impl Default for Recordings {
    fn default() -> Self {
        Self { all: Mutex::default(), running: watch::channel(0).0 }
    }
}

impl Recordings {
    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, latest first.
    pub fn list(&self) -> Vec<Arc<Entry>> {
        self.all().entries.iter().rev().cloned().collect()
    }

    /// The latest of this name: one may have ended, and its session been renamed or deleted.
    pub fn find(&self, id: &SessionId) -> Result<Arc<Entry>, Problem> {
        let found = self.all().entries.iter().rev().find(|entry| entry.id == *id).cloned();
        found.ok_or_else(|| {
            Problem::new(
                StatusCode::NOT_FOUND,
                format!("there is no recording {id}"),
                "GET /api/v1/recordings lists the recordings",
            )
        })
    }

    /// Asks all to end. None begins from now on.
    pub fn stop_all(&self) {
        let mut all = self.all();
        all.stopping = true;
        all.entries.iter().for_each(|entry| entry.stop());
    }

    /// Waits until none is running.
    pub async fn ended(&self) {
        // The sender lives as long as this.
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// Notes that a recording of a process, or of a program that is started, is about to begin.
    fn begin(&self, pid: Option<u32>) -> Result<(), Problem> {
        let mut all = self.all();
        if all.stopping {
            return Err(Problem::busy("the server is ending"));
        }
        let running = |entry: &&Arc<Entry>| !entry.has_ended();
        let same = all.entries.iter().filter(running).find(|entry| Some(entry.pid) == pid);
        if let (Some(same), Some(pid)) = (same, pid) {
            return Err(Problem::new(
                StatusCode::CONFLICT,
                format!("process {pid} is being recorded by the recording {}", same.id),
                "wait for its end, or stop it: DELETE /api/v1/recordings/{id}",
            ));
        }
        if let Some(pid) = pid.filter(|_| all.beginning.contains(&pid)) {
            return Err(Problem::busy(format!("another recording of process {pid} is beginning")));
        }
        if all.entries.iter().filter(running).count() + all.beginning.len() >= MOST {
            return Err(Problem::busy(format!("there are {MOST} recordings already")));
        }
        all.beginning.push(pid);
        self.running.send_modify(|running| *running += 1);
        Ok(())
    }

    /// Adds a recording that has begun.
    fn add(&self, entry: Arc<Entry>) {
        let mut all = self.all();
        if all.stopping {
            entry.stop();
        }
        all.entries.push_back(entry);
        while all.entries.iter().filter(|entry| entry.has_ended()).count() > MOST_ENDED {
            if let Some(oldest) = all.entries.iter().position(|entry| entry.has_ended()) {
                all.entries.remove(oldest);
            }
        }
    }

    /// Notes that a recording has begun, or did not.
    fn begun(&self, pid: Option<u32>) {
        let beginning = &mut self.all().beginning;
        if let Some(at) = beginning.iter().position(|other| *other == pid) {
            beginning.remove(at);
        }
    }

    /// Notes that a recording is over.
    fn over(&self) {
        self.running.send_modify(|running| *running -= 1);
    }
}

/// Begins a recording, on a thread of its own. Returns when the agent is in the process.
///
/// # Errors
/// When it does not begin.
pub(crate) async fn start(state: &Arc<Workspace>, job: Job) -> Result<Arc<Entry>, Problem> {
    let pid = job.pid();
    state.recordings.begin(pid)?;
    let (begins, begun) = oneshot::channel();
    let shared = Arc::clone(state);
    let thread = std::thread::Builder::new().name("recording".to_owned());
    let thread = thread.spawn(move || {
        let record = AssertUnwindSafe(|| record(&shared, job, begins));
        // The hook has said what happened; who waits sees that the sender is gone.
        if std::panic::catch_unwind(record).is_err() {
            shared.recordings.begun(pid);
        }
        shared.recordings.over();
    });
    if let Err(error) = thread {
        state.recordings.begun(pid);
        state.recordings.over();
        return Err(Problem::busy(format!("no thread for the recording: {error}")));
    }
    let lost = || Problem::internal("the recording failed: a bug in clrscope");
    begun.await.unwrap_or_else(|_| Err(lost()))
}

fn record(state: &Workspace, job: Job, begins: oneshot::Sender<Result<Arc<Entry>, Problem>>) {
    let pid = job.pid();
    let (sender, receiver) = watch::channel(State::default());
    let begun = match &job {
        Job::Process(plan) => begin(state, plan, receiver),
        Job::Launch(plan) => launch(state, plan, receiver),
    };
    let (begun, writing) = match begun {
        Ok(begun) => begun,
        Err(problem) => {
            state.recordings.begun(pid);
            return drop(begins.send(Err(problem)));
        }
    };
    let (entry, recording) = begun;
    let entry = Arc::new(entry);
    if let Some(recording) = &recording {
        entry.ender.set(recording.stop_handle());
    }
    state.recordings.add(Arc::clone(&entry));
    state.recordings.begun(pid);
    // A client that does not wait any more has a recording all the same: it is in the list.
    let _ = begins.send(Ok(Arc::clone(&entry)));
    let session = state.store.path(&writing.id);
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| match (job, recording) {
        (Job::Process(plan), None) => match *plan {
            Plan { process, work: Work::CheckUp { duration, heap, limits }, .. } => {
                let plan = CheckupPlan { process, duration, heap, limits, session };
                check_up(state, &plan, &entry, &sender)
            }
            _ => Err("it did not begin".to_owned()),
        },
        (_, Some(recording)) => {
            let summary = follow(recording, &entry, &sender).map_err(|error| error.to_string())?;
            Ok(End { summary: summary_of(&summary), checkup: None })
        }
        (_, None) => Err("it did not begin".to_owned()),
    }));
    let end = ended.unwrap_or_else(|_| Err("the recording failed: a bug in clrscope".to_owned()));
    // Its session can be read and deleted before its end is reported.
    drop(writing);
    sender.send_modify(|state| state.end = Some(Arc::new(end)));
    if let Err(problem) = state.store.tidy() {
        eprintln!("clrscope: old sessions were not deleted: {}", problem.cause);
    }
}

type Begun = (Entry, Option<Recording>);

/// Attaches, where there is one recording; a check-up does that by itself.
fn begin<'a>(
    state: &'a Workspace,
    plan: &Plan,
    receiver: watch::Receiver<State>,
) -> Result<(Begun, Writing<'a>), Problem> {
    let process = &plan.process;
    let name = match &plan.name {
        Some(name) => name.to_string(),
        None => api::session_name(&process.name, Some(process.pid)),
    };
    let (profilers, duration) = plan.work.outline()?;
    let writing = state.store.create(&name)?;
    let recording = match &plan.work {
        Work::CheckUp { .. } => None,
        Work::Record(options) => {
            let output = Some(state.store.path(&writing.id));
            Some(recorder::attach(process, RecordOptions { output, ..options.clone() })?)
        }
    };
    let entry = Entry {
        id: writing.id.clone(),
        pid: process.pid,
        process: process.name.clone(),
        profilers,
        started_unix_ms: now_unix_ms(),
        duration,
        is_checkup: recording.is_none(),
        launched: None,
        warnings: plan.warnings.clone(),
        ender: Ender::default(),
        state: receiver,
    };
    Ok(((entry, recording), writing))
}

/// Starts a program. Its further processes have sessions beside that of the first.
fn launch<'a>(
    state: &'a Workspace,
    plan: &LaunchPlan,
    receiver: watch::Receiver<State>,
) -> Result<(Begun, Writing<'a>), Problem> {
    let process = plan.program.name();
    let name = match &plan.name {
        Some(name) => name.to_string(),
        None => api::session_name(&process, None),
    };
    let writing = state.store.create(&name)?;
    let output = Some(state.store.path(&writing.id));
    let options = RecordOptions { output, ..plan.options.clone() };
    let (recording, launched) = plan.program.start(options)?;
    let entry = Entry {
        id: writing.id.clone(),
        pid: recording.command_pid().unwrap_or(0),
        process,
        profilers: plan.options.profilers.iter().map(|selection| selection.spec.id).collect(),
        started_unix_ms: now_unix_ms(),
        duration: plan.options.duration,
        is_checkup: false,
        launched: Some(launched),
        warnings: Vec::new(),
        ender: Ender::default(),
        state: receiver,
    };
    Ok(((entry, Some(recording)), writing))
}

fn now_unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Observes a process and judges it.
fn check_up(
    state: &Workspace,
    plan: &CheckupPlan,
    entry: &Entry,
    sender: &watch::Sender<State>,
) -> Result<End, String> {
    let attended = Attended { entry, sender };
    let (summary, checkup) = state.program.check_up(plan, &attended)?;
    Ok(End { summary: summary_of(&summary), checkup: Some(checkup) })
}

/// A check-up that clients watch.
struct Attended<'a> {
    entry: &'a Entry,
    sender: &'a watch::Sender<State>,
}

impl Control for Attended<'_> {
    fn begins(&self, what: &str) {
        self.sender.send_modify(|state| state.progress.stage = what.to_owned());
    }

    fn wait(&self, recording: Recording) -> Result<Summary, RecordError> {
        self.entry.ender.set(recording.stop_handle());
        follow(recording, self.entry, self.sender)
    }

    fn is_ending(&self) -> bool {
        self.entry.ender.is_ending()
    }
}

/// Reports how far a recording is until it has ended.
fn follow(
    mut recording: Recording,
    entry: &Entry,
    sender: &watch::Sender<State>,
) -> Result<Summary, RecordError> {
    let figures = recording.subscribe().map(Feed::new);
    let (end, ended) = mpsc::channel::<()>();
    let view = figures.map(|figures| {
        let sender = sender.clone();
        std::thread::Builder::new()
            .name("figures".to_owned())
            .spawn(move || show(figures, &sender, &ended))
    });
    let mut ending = entry.launched.as_ref().map(Launched::ending);
    while !recording.finishes_within(POLL) {
        let progress = recording.progress();
        if let Some(ending) = &mut ending {
            let is_over = ending.is_over(&progress, entry.duration) || entry.ender.is_ending();
            ending.tend(&recording, is_over);
        }
        sender.send_modify(|state| state.progress = progress);
    }
    let progress = recording.progress();
    sender.send_modify(|state| state.progress = progress);
    drop(end);
    // The hook has said what happened if it panicked: figures are missing then, and no more.
    if let Some(Ok(view)) = view {
        drop(view.join());
    }
    recording.wait()
}

/// Reports the figures of a recording until it has ended.
fn show(mut figures: Feed, sender: &watch::Sender<State>, ended: &mpsc::Receiver<()>) {
    let mut number = 0;
    while ended.recv_timeout(POLL) == Err(mpsc::RecvTimeoutError::Timeout) {
        if let Some(latest) = View::next(&mut figures) {
            number += 1;
            // Our own types always serialize.
            let latest = Arc::new(serde_json::to_value(latest).unwrap_or_default());
            sender.send_modify(|state| state.figures = Some((number, latest)));
        }
    }
}

/// The summary as it is sent. The folder of sessions is left out.
fn summary_of(summary: &Summary) -> Value {
    let mut json = SummaryJson::of(summary);
    json.sessions.iter_mut().for_each(|session| session.file = None);
    // Our own types always serialize.
    serde_json::to_value(&json).unwrap_or_default()
}
