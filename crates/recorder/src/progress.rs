use rules::RuleSet;
use session::{EndReason, ObserverStatus, ResourceUse, SamplingRate};
use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Ends a recording from another thread or a signal handler's loop; the session is still written.
#[derive(Clone, Debug, Default)]
pub struct StopHandle(Arc<AtomicBool>);

impl StopHandle {
    /// Asks the recording to end.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether somebody asked.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The rules for what a recording with the profiler `trace` instruments. They may be replaced while
/// it runs.
#[derive(Clone, Debug, Default)]
pub struct RuleHandle(Arc<Mutex<(u64, RuleSet)>>);

impl RuleHandle {
    /// For these rules at first.
    pub fn new(rules: Option<RuleSet>) -> Self {
        Self(Arc::new(Mutex::new(rules.map_or_else(Default::default, |rules| (1, rules)))))
    }

    /// Replaces the rules: all instrumented methods are reverted to their original bodies, and then
    /// those that match the new rules are instrumented. That is done when
    /// [`Progress::rules_applied`] has grown.
    pub fn replace(&self, rules: RuleSet) {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *current = (current.0 + 1, rules);
    }

    /// Rules that came after those of this number, and their number.
    pub fn newer_than(&self, number: u64) -> Option<(u64, RuleSet)> {
        let current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (current.0 > number).then(|| current.clone())
    }
}

/// How far a recording is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// What happens now, in a few words.
    pub stage: String,
    /// Since the first sample could be taken.
    pub elapsed: Duration,
    /// Samples or events kept so far, by profiler id.
    pub samples: Vec<(&'static str, u64)>,
    /// How often rules have been applied to all that was loaded.
    pub rules_applied: u64,
    /// What was dropped so far, of all kinds.
    pub dropped: u64,
    /// Bytes of session written so far.
    pub bytes: u64,
    /// CPU time that the recording took in the process so far, as measured about once a second.
    pub target_cpu: Duration,
    /// For how long the runtime was suspended for it so far.
    pub target_stopped: Duration,
}

/// What a recording left behind.
#[derive(Clone, Debug)]
pub struct Summary {
    /// One for each process: the target, or every .NET process of a launched command, first the one
    /// that the command is for.
    pub sessions: Vec<SessionSummary>,
    /// Exit code of a launched command, 128 + n where signal n ended it.
    pub exit_code: Option<i32>,
    /// Process ids of the launches of clrscope within a launched command. What they run is in their
    /// files.
    pub nested: Vec<u32>,
}

/// What the recording of one process left behind.
#[derive(Clone, Debug)]
pub struct SessionSummary {
    /// The process, in clrscope's pid namespace.
    pub pid: u32,
    /// Its name.
    pub process_name: String,
    /// Its command line.
    pub command_line: String,
    /// The session file, where one was asked for.
    pub path: Option<PathBuf>,
    /// Duration.
    pub duration: Duration,
    /// The CPU engine used, in words; empty without the `cpu` profiler.
    pub engine: String,
    /// How often threads were sampled, measured; `None` without the `cpu` profiler.
    pub rate: Option<SamplingRate>,
    /// Samples or events kept, by profiler id.
    pub samples: Vec<(&'static str, u64)>,
    /// Costs and drops.
    pub observer: ObserverStatus,
    /// What the agent held in the process, and what it left behind.
    pub resources: Vec<ResourceUse>,
    /// Things a user should know.
    pub notes: Vec<String>,
    /// Why it ended.
    pub end: EndReason,
    /// How long coming and going took.
    pub timings: Timings,
}

/// How long coming and going took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// From the attach request to the agent's first instruction in the target
    /// (`InitializeForAttach`). `None` for a launched process.
    pub attach_to_initialize: Option<Duration>,
    /// From the attach request until the first CPU sample was kept, its stack unwound and named.
    /// `None` for a launched process, and where there was no sample.
    pub attach_to_first_sample: Option<Duration>,
    /// From the message that asks the agent to stop until it had left the process. `None` where it
    /// did not confirm, or left by itself.
    pub detach: Option<Duration>,
}
