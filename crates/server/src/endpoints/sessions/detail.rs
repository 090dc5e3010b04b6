use crate::store::SessionRow;
use profile::{Profile, SeriesKind};
use schemars::JsonSchema;
use serde::Serialize;
use session::EndReason;

/// A session, from its beginning to its end.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionDetail {
    #[serde(flatten)]
    session: SessionRow,
    /// For how long was recorded.
    duration_seconds: f64,
    /// Whether the recording ended in order and all of the file can be read.
    complete: bool,
    /// What is wrong with the file; what came before that place is shown.
    damage: Option<String>,
    /// Why the recording ended: `stopped`, `process-exited` or `agent-lost`; null if it did not end
    /// in order.
    end: Option<&'static str>,
    /// Threads that were seen.
    threads: usize,
    /// Profilers that have samples with stacks, for the parameter `profiler` of reports.
    series: Vec<&'static str>,
    /// Heap snapshots that it has.
    heap_snapshots: u32,
    /// Samples and events that were dropped.
    dropped: u64,
    /// What clrscope noticed during the recording.
    notes: Vec<String>,
}

impl SessionDetail {
    pub fn of(session: SessionRow, profile: &Profile, heap_snapshots: u32) -> Self {
        let series = SeriesKind::ALL.into_iter().filter(|kind| !profile.series(*kind).is_empty());
        Self {
            session,
            duration_seconds: profile.duration() as f64 / 1e9,
            complete: !profile.cut_short && profile.damage.is_none(),
            damage: profile.damage.clone(),
            end: profile.end.as_ref().map(|end| match end.reason {
                EndReason::Stopped => "stopped",
                EndReason::ProcessExited => "process-exited",
                EndReason::AgentLost => "agent-lost",
            }),
            threads: profile.tables.threads.len(),
            series: series.map(SeriesKind::id).collect(),
            heap_snapshots,
            dropped: profile.dropped(),
            notes: profile.notes.iter().map(|(_, note)| note.clone()).collect(),
        }
    }
}
