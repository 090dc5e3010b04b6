//! Instrumented methods and their calls.

use serde::{Deserialize, Serialize};

use super::Nanos;
use rows::{FunctionId, ThreadId, TypeId};

/// A method that matches a rule, and its state. A later record replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstrumentedMethod {
    /// When it was reported.
    pub time: Nanos,
    /// The method.
    pub function: FunctionId,
    /// Name of the rule.
    pub rule: String,
    /// What [`TracedMethod`] calls it; `None` if it has no number because it was refused.
    pub slot: Option<u32>,
    /// Its state.
    pub state: InstrumentState,
}

/// State of a method that matches a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstrumentState {
    /// It could be instrumented: a dry run.
    Possible,
    /// It is instrumented from its next call on.
    Requested,
    /// It has its original body again.
    Original,
    /// It is left alone, and why.
    Refused(String),
}

/// A new body for a method: one for each method that matches a rule, and one more for the state
/// machine of an asynchronous one. Only where IL was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewrittenMethod {
    /// When it was made.
    pub time: Nanos,
    /// The method whose body it is.
    pub function: FunctionId,
    /// Name of the rule.
    pub rule: String,
    /// As in [`InstrumentedMethod::slot`]: the number that the new body passes to probes.
    pub slot: u32,
    /// The original body and the new one, or why they are left out.
    pub bodies: Result<(IlBody, IlBody), String>,
}

/// The body of a method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IlBody {
    /// Header, code and clauses, as the runtime takes them.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
    /// The same in the syntax of ILAsm, with names in place of tokens and of the addresses of
    /// probes.
    pub text: String,
}

/// The runtime has compiled a new body of a method, which it does when the method is called, and
/// perhaps again for a later tier. Only where IL was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecompiledMethod {
    /// When.
    pub time: Nanos,
    /// The method.
    pub function: FunctionId,
    /// Why it could not be compiled.
    pub failed: Option<String>,
}

/// Calls of instrumented methods since the record before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedCalls {
    /// When they were read.
    pub time: Nanos,
    /// How many ticks are a second.
    pub ticks_per_second: u64,
    /// Those that were called.
    pub methods: Vec<TracedMethod>,
}

/// Calls of one method, of all threads together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedMethod {
    /// As in [`InstrumentedMethod::slot`].
    pub slot: u32,
    /// Calls that have begun.
    pub calls: u64,
    /// Timed calls that have ended.
    pub timed: u64,
    /// Those of them that ended by an exception.
    pub failed: u64,
    /// Ticks that they took together.
    pub ticks: u64,
    /// Ticks that the longest took.
    pub longest: u64,
    /// How many of them fell into which bucket of ticks: one each below 16, then 16 for each
    /// doubling.
    pub buckets: Vec<(u16, u64)>,
}

/// A call of an instrumented method that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SingleCall {
    /// As in [`InstrumentedMethod::slot`].
    pub slot: u32,
    /// The thread on which it ended.
    pub thread: ThreadId,
    /// When it began.
    pub begun: Nanos,
    /// How long it took.
    pub taken: Nanos,
    /// Whether it ended by an exception.
    pub failed: bool,
    /// Whether it is the call of an asynchronous method, to the end of its task.
    pub asynchronous: bool,
}

/// The parameters of an instrumented method whose arguments are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodParameters {
    /// The method.
    pub function: FunctionId,
    /// All of them, without `this`.
    pub parameters: Vec<Parameter>,
    /// Why no arguments of this method are recorded.
    pub refused: Option<String>,
}

/// A parameter of an instrumented method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name; `arg1` and so on where it has none.
    pub name: String,
    /// Its type as C# writes it.
    pub type_name: String,
    /// What is recorded of its arguments.
    pub shown: ParameterShown,
}

/// What is recorded of the arguments of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParameterShown {
    /// Their values.
    ByValue,
    /// Nothing: they were never read, because of the name of the parameter.
    Redacted,
    /// Nothing but the type of the parameter.
    ByType,
}

/// A call of an instrumented method that has ended, with its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallArguments {
    /// The call.
    pub call: SingleCall,
    /// Arguments, each with the place of its parameter in [`MethodParameters::parameters`]. One
    /// that is missing has found no room.
    pub arguments: Vec<(u16, Argument)>,
}

/// An argument of a call, as it was when that began; of an object the class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Argument {
    /// A number, a character, a truth value, or one of an enumeration; a number of 64 bits without
    /// a sign as the same bits.
    Number(i64),
    /// A number with a fraction.
    Float(f64),
    /// A string.
    Text {
        /// Its beginning.
        text: String,
        /// How many UTF-16 units the whole string has.
        length: u32,
    },
    /// No object.
    Null,
    /// Another object.
    Object {
        /// Its class, if that is known.
        ty: Option<TypeId>,
        /// How many elements it has, if it is an array.
        elements: Option<u32>,
    },
}
