use std::{io::Read, ops::Range};

use heap::growth::SnapshotSummary;
use profile::{
    BuildOptions, Filter, Profile, ProfileError,
    session::{EndReason, Entry, Nanos},
};
use schemars::JsonSchema;
use serde::Serialize;

/// A recording that was read for a comparison.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Where it is from: a path or a name.
    pub name: String,
    /// What was recorded, with slices ([`BuildOptions::slices`]).
    pub profile: Profile,
    /// Its last heap snapshot, if it has one.
    pub heap: Option<SnapshotSummary>,
}

impl Recording {
    /// Reads a session.
    ///
    /// # Errors
    /// When the session cannot be opened or holds not even its first record.
    pub fn read(
        name: impl Into<String>,
        session: impl Read,
        filter: &Filter,
    ) -> Result<Self, ProfileError> {
        let time: Option<Range<Nanos>> = filter.time.clone();
        let options = BuildOptions { slices: true, time, ..BuildOptions::default() };
        let profile = Profile::read(session, options)?;
        // Its time was picked while it was read.
        let rest = Filter { time: None, ..filter.clone() };
        let profile = match rest == Filter::default() {
            true => profile,
            // Only a time that is picked afterwards would need single samples.
            false => profile.filtered(&rest).unwrap_or(profile),
        };
        Ok(Self { name: name.into(), profile, heap: None })
    }

    /// Whether it is of a whole run of a program that succeeded.
    pub fn is_whole_run(&self) -> bool {
        let launched = matches!(self.profile.info.entry, Entry::Launched | Entry::LaunchedBeside);
        let ended = self.profile.end.as_ref().is_some_and(|end| {
            end.reason == EndReason::ProcessExited && end.exit_code.is_none_or(|code| code == 0)
        });
        let whole = !self.profile.cut_short && self.profile.damage.is_none();
        let from_start = self.profile.start == self.profile.info.start;
        let to_end = self.profile.end.as_ref().is_some_and(|end| self.profile.stop >= end.time);
        launched && ended && whole && from_start && to_end
    }

    /// What is said of it.
    pub(crate) fn described(&self) -> Recorded {
        let Profile { info, .. } = &self.profile;
        Recorded {
            name: self.name.clone(),
            process: info.process_name.clone(),
            pid: info.pid,
            command_line: info.command_line.clone(),
            runtime: info.runtime.clone(),
            platform: info.platform.clone(),
            cpus: info.cpus,
            tool_version: info.tool_version.clone(),
            start_unix_ms: info.start_unix_ms,
            duration_seconds: self.profile.duration() as f64 / 1e9,
            profilers: info
                .profilers
                .iter()
                .map(|run| ProfilerUsed {
                    id: run.id.clone(),
                    engine: run.engine.clone(),
                    rate_hz: self.profile.rate_hz(&run.id),
                })
                .collect(),
            complete: !self.profile.cut_short && self.profile.damage.is_none(),
        }
    }
}

/// A recording, in short.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Recorded {
    /// Where it is from: a path, or the name of a session.
    pub name: String,
    /// Name of the process.
    pub process: String,
    /// Process id.
    pub pid: u32,
    /// Command line of the process.
    pub command_line: String,
    /// Version of the runtime.
    pub runtime: String,
    /// Operating system and processor, such as `linux-x64`.
    pub platform: String,
    /// Processors of the machine.
    pub cpus: u32,
    /// Version of clrscope that recorded it.
    pub tool_version: String,
    /// When it was recorded, milliseconds since 1970.
    pub start_unix_ms: u64,
    /// For how long, in seconds: the part of it that is compared.
    pub duration_seconds: f64,
    /// What was recorded.
    pub profilers: Vec<ProfilerUsed>,
    /// Whether the recording ended in order and all of the file could be read.
    pub complete: bool,
}

/// A profiler of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProfilerUsed {
    /// Its id.
    pub id: String,
    /// How it took its samples.
    pub engine: String,
    /// Samples per second and thread, where it samples.
    pub rate_hz: Option<f64>,
}
