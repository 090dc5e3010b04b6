//! Instrumented methods and their calls.

use serde::{Deserialize, Serialize};

use super::Nanos;

/// A new body for a method: one for each method that a rule matches, and one more for the state
/// machine of an asynchronous method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewritten {
    /// When it was made.
    pub time: Nanos,
    /// The method whose body it is.
    pub method: u32,
    /// Name of the rule.
    pub rule: String,
    /// As in [`Instrumented::slot`].
    pub slot: u32,
    /// The original body and the new one, or why they are left out.
    pub bodies: Result<(Il, Il), String>,
}

/// The body of a method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Il {
    /// Header, code and clauses, as the runtime takes them.
    #[serde(with = "crate::bytes")]
    pub bytes: Vec<u8>,
    /// The same in the syntax of ILAsm, with names in place of tokens and of the addresses of
    /// probes.
    pub text: String,
}

impl Il {
    /// Most bytes of a body that is reported.
    pub const MOST_BYTES: usize = 64 << 10;
    /// Most bytes of its text. Two bodies fit into a frame.
    pub const MOST_TEXT: usize = 256 << 10;
}

/// What has become of a method that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instrumented {
    /// The method.
    pub method: u32,
    /// Name of the rule.
    pub rule: String,
    /// What [`TracedMethod`] calls it; `None` if it has no number because it was refused.
    pub slot: Option<u32>,
    /// How far it is.
    pub state: InstrumentState,
}

/// How far a method is.
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

/// Calls of instrumented methods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traced {
    /// When they were read.
    pub time: Nanos,
    /// How many ticks are a second.
    pub ticks_per_second: u64,
    /// Those that were called.
    pub methods: Vec<TracedMethod>,
}

/// Calls of one method, of all threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedMethod {
    /// As in [`Instrumented::slot`].
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
    /// As in [`Instrumented::slot`].
    pub slot: u32,
    /// The thread on which it ended, by its number in the target's own namespace.
    pub os_tid: u32,
    /// When it began.
    pub begun: Nanos,
    /// How long it took.
    pub taken: Nanos,
    /// Whether it ended by an exception.
    pub failed: bool,
    /// Whether it is the call of an asynchronous method, to the end of its task.
    pub asynchronous: bool,
}

/// The parameters of an instrumented method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// The method.
    pub method: u32,
    /// All of them, without `this`.
    pub parameters: Vec<Parameter>,
    /// Why no arguments of this method are reported.
    pub refused: Option<String>,
}

/// A parameter of an instrumented method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type as C# writes it.
    pub type_name: String,
    /// What is reported about its arguments.
    pub shown: ParameterShown,
}

/// What is reported about the arguments of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParameterShown {
    /// What they are.
    ByValue,
    /// Nothing: they are never read, because of the name of the parameter.
    Redacted,
    /// Nothing but the type of the parameter.
    ByType,
}

/// A call of an instrumented method, with its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallArguments {
    /// The call.
    pub call: SingleCall,
    /// Arguments, each with the place of its parameter in [`Parameters::parameters`]. One that is
    /// missing has found no room.
    pub arguments: Vec<(u16, Argument)>,
}

/// An argument of a call, as it was when that began; of an object as it was when that ended.
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
        class: Option<u32>,
        /// How many elements it has, if it is an array.
        elements: Option<u32>,
    },
}
