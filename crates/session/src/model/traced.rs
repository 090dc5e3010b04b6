//! Instrumented methods and their calls: the records of the agent, with ids of the session.

use serde::{Deserialize, Serialize};

use super::Nanos;
use rows::{FunctionId, ThreadId, TypeId};

pub use wire::{Il, InstrumentState, Instrumented, Parameter, ParameterShown, TracedMethod};

/// A method that matches a rule, and its state. A later record replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstrumentedMethod {
    /// When it was reported.
    pub time: Nanos,
    /// The method and its state.
    pub of: Instrumented<FunctionId>,
}

/// A new body for a method.
pub type RewrittenMethod = wire::Rewritten<FunctionId>;

/// A new body of a method was compiled.
pub type RecompiledMethod = wire::Recompiled<FunctionId>;

/// Calls of instrumented methods since the record before.
pub type TracedCalls = wire::Traced;

/// A call of an instrumented method that has ended.
pub type SingleCall = wire::SingleCall<ThreadId>;

/// The parameters of an instrumented method whose arguments are asked for.
pub type MethodParameters = wire::Parameters<FunctionId>;

/// A call of an instrumented method that has ended, with its arguments.
pub type CallArguments = wire::CallArguments<ThreadId, TypeId>;

/// An argument of a call.
pub type Argument = wire::Argument<TypeId>;
