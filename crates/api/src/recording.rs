use recorder::{SessionSummary, Summary};
use report::ResourceJson;
use schemars::JsonSchema;
use serde::Serialize;
use session::{EndReason, SamplingRate};

/// What was recorded, in one file for each process.
#[derive(Serialize, JsonSchema)]
pub struct SummaryJson<'a> {
    /// Exit code of a launched command.
    pub exit_code: Option<i32>,
    /// One for each process, first the one that was named.
    pub sessions: Vec<SessionJson<'a>>,
}

/// What was recorded of one process.
#[derive(Serialize, JsonSchema)]
pub struct SessionJson<'a> {
    /// Process id.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Its command line.
    pub command: String,
    /// The session file.
    pub file: Option<String>,
    /// For how long it was recorded.
    pub duration_seconds: f64,
    /// How CPU samples were taken.
    pub engine: Option<String>,
    /// CPU samples per second and thread that were requested.
    pub rate_hz: Option<u32>,
    /// CPU samples per second and thread that were taken.
    pub achieved_hz: Option<f64>,
    /// Only where the rate that was achieved differs noticeably.
    pub rate_limit: Option<String>,
    /// Ticks of the kernel per second.
    pub kernel_tick_hz: Option<u32>,
    /// Threads that could not be sampled.
    pub threads_without_timer: Option<u64>,
    /// Samples and events by profiler.
    pub samples: std::collections::BTreeMap<&'static str, u64>,
    /// What was dropped, by reason.
    pub dropped: std::collections::BTreeMap<String, u64>,
    /// CPU time that the recording took in the process.
    pub target_cpu_seconds: f64,
    /// For how long the process was suspended.
    pub target_stopped_seconds: f64,
    /// Memory of the agent in the process.
    pub target_memory_bytes: u64,
    /// What the agent held in the process, and what it left behind.
    pub resources: Vec<ResourceJson<'a>>,
    /// CPU time that the recording took outside of the process.
    pub own_cpu_seconds: f64,
    /// What a user should know.
    pub notes: Vec<String>,
    /// Why it ended: `stopped`, `process-exited` or `agent-lost`.
    pub end: &'static str,
    /// From the attach request until the agent ran.
    pub attach_to_initialize_seconds: Option<f64>,
    /// From the attach request until the first CPU sample.
    pub attach_to_first_sample_seconds: Option<f64>,
    /// How long the agent took to detach.
    pub detach_seconds: Option<f64>,
}

impl<'a> SessionJson<'a> {
    /// Of the summary of the recorder.
    pub fn of(session: &'a SessionSummary) -> Self {
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        Self {
            pid: session.pid,
            process: session.process_name.clone(),
            command: session.command_line.clone(),
            file: session.path.as_ref().map(|path| path.display().to_string()),
            duration_seconds: session.duration.as_secs_f64(),
            engine: Some(session.engine.clone()).filter(|engine| !engine.is_empty()),
            rate_hz: session.rate.as_ref().map(|rate| rate.asked_hz),
            achieved_hz: session.rate.as_ref().and_then(SamplingRate::achieved_hz),
            rate_limit: session
                .rate
                .as_ref()
                .filter(|rate| rate.differs())
                .and_then(|rate| rate.limit.clone()),
            kernel_tick_hz: session.rate.as_ref().and_then(|rate| rate.tick_hz),
            threads_without_timer: session.rate.as_ref().map(|rate| rate.threads_without_timer),
            samples: session.samples.iter().copied().collect(),
            dropped: session.observer.dropped.iter().cloned().collect(),
            target_cpu_seconds: seconds(session.observer.target_cpu),
            target_stopped_seconds: seconds(session.observer.target_stopped),
            target_memory_bytes: session.observer.target_memory,
            resources: session.resources.iter().map(Into::into).collect(),
            own_cpu_seconds: seconds(session.observer.own_cpu),
            notes: session.notes.clone(),
            end: match session.end {
                EndReason::Stopped => "stopped",
                EndReason::ProcessExited => "process-exited",
                EndReason::AgentLost => "agent-lost",
            },
            attach_to_initialize_seconds: session
                .timings
                .attach_to_initialize
                .map(|time| time.as_secs_f64()),
            attach_to_first_sample_seconds: session
                .timings
                .attach_to_first_sample
                .map(|time| time.as_secs_f64()),
            detach_seconds: session.timings.detach.map(|time| time.as_secs_f64()),
        }
    }
}

impl<'a> SummaryJson<'a> {
    /// Of the summary of the recorder.
    pub fn of(summary: &'a Summary) -> Self {
        Self {
            exit_code: summary.exit_code,
            sessions: summary.sessions.iter().map(SessionJson::of).collect(),
        }
    }
}
