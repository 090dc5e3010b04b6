//! What was recorded, where and how, and what that cost.

use std::collections::BTreeMap;

use profile::{Profile, session};
use schemars::JsonSchema;
use serde::Serialize;

use super::values::since;
use crate::format;

/// What was recorded, where and how.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Recording")]
pub(super) struct RecordingJson<'a> {
    /// Version of clrscope that recorded.
    tool_version: &'a str,
    process: ProcessJson<'a>,
    /// Version of the runtime, such as `9.0.5`.
    runtime: &'a str,
    /// Operating system and processor architecture, such as `linux-x64`.
    platform: &'a str,
    /// Number of processors of the machine.
    processors: u32,
    /// How the recording came into the process; `beside` another profiler. `imported` is the file
    /// of another tool: numbers and texts of the process that it does not have are 0 and empty.
    #[schemars(extend("enum" = [
        "attached", "attached-beside", "launched", "launched-beside", "imported"
    ]))]
    entry: &'static str,
    /// The start on the wall clock, milliseconds since 1970, UTC.
    start_unix_ms: u64,
    /// The start on the recording's own clock, nanoseconds.
    clock_start_ns: u64,
    /// From when on the profile covers the recording, nanoseconds since its start.
    from_ns: u64,
    /// The time that the profile covers, nanoseconds.
    duration_ns: u64,
    profilers: Vec<ProfilerJson<'a>>,
    /// How the recording ended; null where that was not recorded.
    end: Option<EndJson>,
    /// Whether the session was cut short.
    cut_short: bool,
    /// Where and how the session is damaged, or null.
    damage: Option<&'a str>,
    /// What was filtered out, in words, or null.
    filtered: Option<&'a str>,
    /// Number of dropped samples.
    dropped: u64,
    /// How the recording ended, in words.
    summary: String,
}

/// The process that was recorded.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Process")]
struct ProcessJson<'a> {
    /// Process id, in clrscope's pid namespace.
    pid: u32,
    /// Name, as `clrscope ps` shows it.
    name: &'a str,
    command_line: &'a str,
}

/// A profiler of the recording.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Profiler")]
struct ProfilerJson<'a> {
    /// Id, as `clrscope profilers` shows it.
    id: &'a str,
    /// How it took its samples: the name of the engine.
    engine: &'a str,
    /// Requested samples per second and thread, where it samples.
    rate_hz: Option<u32>,
    /// How often it sampled a thread, where that was measured.
    sampling: Option<SamplingJson<'a>>,
    /// Parameters that differ from the defaults, by name.
    parameters: BTreeMap<&'a str, &'a str>,
}

/// How often threads were sampled, measured.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Sampling")]
struct SamplingJson<'a> {
    /// Samples per second of a thread's CPU time; null where too little was measured.
    achieved_hz: Option<f64>,
    /// Whether that differs from `rate_hz` by more than 5 %, and more than chance explains.
    differs: bool,
    /// What limits the rate, in words, or null.
    limit: Option<&'a str>,
    /// Ticks of the kernel per second, where timers depend on them.
    kernel_tick_hz: Option<u32>,
    /// Samples of the threads that were measured.
    samples: u64,
    /// CPU time of these threads, nanoseconds.
    cpu_ns: u64,
    /// Threads that have no timer, and so no samples.
    threads_without_timer: u64,
}

/// How the recording ended.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "End")]
struct EndJson {
    /// Nanoseconds since the start of the recording.
    time_ns: u64,
    #[schemars(extend("enum" = ["stopped", "process-exited", "agent-lost"]))]
    reason: &'static str,
    /// Exit code of the process, where it exited and that is known.
    exit_code: Option<i32>,
}

pub(super) fn recording(profile: &Profile) -> RecordingJson<'_> {
    let info = &profile.info;
    RecordingJson {
        tool_version: &info.tool_version,
        process: ProcessJson {
            pid: info.pid,
            name: &info.process_name,
            command_line: &info.command_line,
        },
        runtime: &info.runtime,
        platform: &info.platform,
        processors: info.cpus,
        entry: match info.entry {
            session::Entry::Attached => "attached",
            session::Entry::AttachedBeside => "attached-beside",
            session::Entry::Launched => "launched",
            session::Entry::LaunchedBeside => "launched-beside",
            session::Entry::Imported => "imported",
        },
        start_unix_ms: info.start_unix_ms,
        clock_start_ns: info.start,
        from_ns: since(profile, profile.start),
        duration_ns: profile.duration(),
        profilers: info.profilers.iter().map(|run| profiler(profile, run)).collect(),
        end: profile.end.as_ref().map(|end| EndJson {
            time_ns: since(profile, end.time),
            reason: match end.reason {
                session::EndReason::Stopped => "stopped",
                session::EndReason::ProcessExited => "process-exited",
                session::EndReason::AgentLost => "agent-lost",
            },
            exit_code: end.exit_code,
        }),
        cut_short: profile.cut_short,
        damage: profile.damage.as_deref(),
        filtered: profile.filtered.as_deref(),
        dropped: profile.dropped(),
        summary: format::ending(profile),
    }
}

fn profiler<'a>(profile: &'a Profile, run: &'a session::ProfilerRun) -> ProfilerJson<'a> {
    ProfilerJson {
        id: &run.id,
        engine: &run.engine,
        rate_hz: run.rate_hz,
        sampling: profile.sampling_rate(&run.id).map(|rate| SamplingJson {
            achieved_hz: rate.achieved_hz(),
            differs: rate.differs(),
            limit: rate.limit.as_deref().filter(|_| rate.differs()),
            kernel_tick_hz: rate.tick_hz,
            samples: rate.samples,
            cpu_ns: rate.cpu,
            threads_without_timer: rate.threads_without_timer,
        }),
        parameters: run.params.iter().map(|(name, value)| (&**name, &**value)).collect(),
    }
}

/// What the recording cost and lost. All numbers count from the start, so the last entry covers
/// the whole recording.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Observer")]
pub(super) struct ObserverJson<'a> {
    /// When, on the recording's own clock, nanoseconds.
    time: u64,
    /// Memory of the agent in the process, bytes.
    target_memory: u64,
    /// CPU time that the recording cost in the process, nanoseconds.
    target_cpu: u64,
    /// How long the runtime was suspended for the recording, nanoseconds.
    target_stopped: u64,
    /// CPU time of clrscope itself, nanoseconds.
    own_cpu: u64,
    /// What was dropped: pairs of reason and number.
    dropped: &'a [(String, u64)],
    /// What was counted: pairs of name and number.
    counters: &'a [(String, u64)],
}

pub(super) fn observer(profile: &Profile) -> Vec<ObserverJson<'_>> {
    let statuses = profile.observer.iter();
    statuses
        .map(|status| ObserverJson {
            time: status.time,
            target_memory: status.target_memory,
            target_cpu: status.target_cpu,
            target_stopped: status.target_stopped,
            own_cpu: status.own_cpu,
            dropped: &status.dropped,
            counters: &status.counters,
        })
        .collect()
}

/// How much processor time the process had and lacked.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProcessorUse")]
pub(super) struct ProcessorUseJson {
    /// The time that this covers, nanoseconds.
    elapsed_ns: u64,
    /// Processors that the process may use.
    processors: u32,
    /// Time of its threads on a processor, nanoseconds.
    ran_ns: u64,
    /// Time in which its threads were ready to run and had no processor, nanoseconds.
    waited_ns: u64,
    /// Time in which these processors were busy with whatever ran, nanoseconds.
    busy_ns: u64,
    /// The smallest CPU quota of its control groups, or null.
    quota: Option<QuotaJson>,
    /// Periods of the quota.
    periods: u64,
    /// Periods in which the process was throttled.
    throttled_periods: u64,
    /// How long it was throttled, nanoseconds.
    throttled_ns: u64,
}

/// A CPU quota: so much CPU time in each period.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Quota")]
struct QuotaJson {
    /// CPU time, nanoseconds.
    time_ns: u64,
    /// Length of a period, nanoseconds.
    period_ns: u64,
}

pub(super) fn processor_use(profile: &Profile) -> Option<ProcessorUseJson> {
    profile.processor_summary().map(|of| ProcessorUseJson {
        elapsed_ns: of.elapsed,
        processors: of.processors,
        ran_ns: of.ran,
        waited_ns: of.waited,
        busy_ns: of.busy,
        quota: of.quota.map(|(time_ns, period_ns)| QuotaJson { time_ns, period_ns }),
        periods: of.periods,
        throttled_periods: of.throttled_periods,
        throttled_ns: of.throttled,
    })
}

/// How much of a resource the agent held in the process.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ResourceUse")]
pub struct ResourceJson<'a> {
    /// Name in the plural, such as `file descriptors`.
    name: &'a str,
    /// `bytes`, or empty for what is counted.
    unit: &'a str,
    /// The most that was held at a time.
    highest: u64,
    /// The most that the agent allows itself.
    budget: u64,
    /// How often more was refused.
    refused: u64,
    /// What is left after the recording; null where that is not known.
    left: Option<u64>,
}

impl<'a> From<&'a session::ResourceUse> for ResourceJson<'a> {
    fn from(used: &'a session::ResourceUse) -> Self {
        let session::ResourceUse { name, unit, highest, budget, refused, left } = used;
        let (highest, budget, refused, left) = (*highest, *budget, *refused, *left);
        Self { name, unit, highest, budget, refused, left }
    }
}

/// Something that clrscope noticed during the recording.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Note")]
pub(super) struct NoteJson<'a> {
    /// Nanoseconds since the start of the recording.
    time_ns: u64,
    message: &'a str,
}

pub(super) fn notes(profile: &Profile) -> Vec<NoteJson<'_>> {
    let notes = profile.notes.iter();
    notes.map(|(time, message)| NoteJson { time_ns: since(profile, *time), message }).collect()
}
