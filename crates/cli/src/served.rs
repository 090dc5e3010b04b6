//! What commands do, for the server.

use crate::{
    agent::AgentArgs,
    commands::{heap, report},
    console,
    diagnosis::{self, Plan},
    recording::Attendant,
};
use ::heap::{Snapshot, growth::SnapshotSummary};
use ::report::SnapshotSection;
use profile::Profile;
use recorder::{AgentFile, RecordError, Recording, Summary};
use serde_json::Value;
use server::{CheckupPlan, Control, Program};
use std::{path::Path, time::Duration};

/// This program.
#[derive(Debug)]
pub struct Clrscope {
    /// The agent that it carries.
    pub agent: AgentArgs,
}

impl Program for Clrscope {
    fn agent(&self) -> AgentFile {
        self.agent.file()
    }

    fn snapshots(&self, session: &Path, profile: &Profile, rows: usize) -> Vec<SnapshotSection> {
        // What is wrong with them is in the sections as well.
        report::snapshots(session, profile, rows, &mut Vec::new())
    }

    fn heap_summary(&self, session: &Path, profile: &Profile) -> Option<SnapshotSummary> {
        heap::last_summary(session, profile)
    }

    fn heap_snapshot(&self, session: &Path, number: Option<u32>) -> Result<Snapshot, String> {
        heap::snapshot_of(session, number).map_err(|error| console::describe(&error))
    }

    fn heap_summaries(&self, session: &Path) -> Result<Vec<SnapshotSummary>, String> {
        heap::summaries(session).map_err(|error| console::describe(&error))
    }

    fn check_up(
        &self,
        plan: &CheckupPlan,
        control: &dyn Control,
    ) -> Result<(Summary, Value), String> {
        let observed = diagnosis::observe(
            &Plan {
                process: &plan.process,
                duration: plan.duration,
                also: &[],
                heap: plan.heap,
                session: &plan.session,
                agent: &self.agent,
            },
            &Watched(control),
        );
        let observed = observed.map_err(|error| console::describe(&error))?;
        let findings = observed.findings(&plan.limits);
        let checkup = serde_json::to_value(observed.checkup(&findings));
        Ok((observed.summary.clone(), checkup.map_err(|error| error.to_string())?))
    }
}

/// A check-up that clients of the server watch.
struct Watched<'a>(&'a dyn Control);

impl Attendant for Watched<'_> {
    fn begins(&self, what: &str) {
        self.0.begins(what);
    }

    fn wait(&self, recording: Recording, _: Option<Duration>) -> Result<Summary, RecordError> {
        self.0.wait(recording)
    }

    fn is_ending(&self) -> bool {
        self.0.is_ending()
    }
}
