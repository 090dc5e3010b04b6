//! What becomes of methods, as the manager reports it.

use crate::arguments::Arguments;
use crate::{Refusal, Template};
use corprof::ids::ModuleId;
use corprof::metadata::token::MethodDef;
use std::sync::Arc;

/// How far a method is.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It could be instrumented; only asked for by a [dry run](super::VerifyPolicy::Dry).
    Possible,
    /// The runtime was asked to use the new body, and does from the next call on.
    Requested,
    /// The original body is back, or was never replaced.
    Original,
    /// It is left alone.
    Refused(Refusal),
}

/// A method that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Method {
    /// Its module.
    pub module: ModuleId,
    /// Its token.
    pub method: MethodDef,
    /// Place of the rule in the set.
    pub rule: usize,
    /// Name of the rule.
    pub rule_name: Arc<str>,
    /// The number that probes receive: from 0, and the same for a method in all its life; `None` if
    /// it has none because it was refused.
    pub slot: Option<u32>,
    /// What the new body does.
    pub template: Template,
    /// What is reported about the arguments of individual calls.
    pub arguments: Arguments,
}

/// What has become of a method.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which.
    pub method: Method,
    /// What.
    pub state: State,
}
