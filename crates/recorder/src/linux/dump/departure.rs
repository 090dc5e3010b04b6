//! How the agent of a thread dump leaves.

use crate::linux::{
    link::{AgentLink, FromAgent},
    recorder::{BYE_LIMIT, INTERRUPTED_LIMIT, STAYS, UNLOADS},
    target::Target,
};
use std::time::{Duration, Instant};
use wire::{ByeReason, Control, Record};

/// How long one round waits.
const ROUND: Duration = Duration::from_millis(10);

/// An agent that has done what it was loaded for, and has to detach. One that is dropped instead
/// notices that, and detaches by itself.
#[derive(Debug)]
pub struct Departure {
    pub(super) link: AgentLink,
    pub(super) target: Target,
    /// Name of the agent's file.
    pub(super) library: String,
}

impl Departure {
    /// Has the agent detach, and waits until the runtime has unloaded it: some 300 ms. Says what a
    /// user should know, where that is not so.
    pub fn finish(mut self) -> Option<String> {
        let asked = Instant::now();
        // One that is gone shows up as such below.
        let _ = self.link.send(&Control::Stop);
        let mut bye = None;
        while asked.elapsed() < BYE_LIMIT {
            self.link.wait(ROUND);
            match self.link.try_next() {
                Some(FromAgent::Closed(_)) => return self.closed(bye),
                Some(FromAgent::Frame(records, _)) => {
                    bye = bye.or_else(|| records.iter().find_map(reason));
                }
                None => {}
            }
        }
        Some("the agent did not confirm that it has detached; it detaches by itself".to_owned())
    }

    fn closed(&self, bye: Option<ByeReason>) -> Option<String> {
        match bye {
            Some(ByeReason::Stopped) => {
                let left = self.target.wait_unloaded(&self.library, INTERRUPTED_LIMIT);
                left.is_none().then(|| UNLOADS.to_owned())
            }
            Some(ByeReason::Stays) => Some(STAYS.to_owned()),
            _ => None,
        }
    }
}

fn reason(record: &Record) -> Option<ByeReason> {
    match record {
        Record::Bye(bye) => Some(bye.reason),
        _ => None,
    }
}
