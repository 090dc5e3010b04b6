//! Instrumented methods and their calls.
//!
//! Session files hold these records as they are, but for ids: the agent names methods, classes and
//! threads by numbers of its own (`u32`), a session by its definitions. So what these records hold
//! may change only together with the format of session files.

use serde::{Deserialize, Serialize};

use super::Nanos;

/// A new body for a method: one for each method that a rule matches, and one more for the state
/// machine of an asynchronous method. Only where IL was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewritten<Method = u32> {
    /// When it was made.
    pub time: Nanos,
    /// The method whose body it is.
    pub method: Method,
    /// Name of the rule.
    pub rule: String,
    /// As in [`Instrumented::slot`]: the number that the new body passes to probes.
    pub slot: u32,
    /// The original body and the new one, or why they are left out.
    pub bodies: Result<(Il, Il), String>,
}

impl Rewritten {
    /// The same with another id of the method.
    pub fn of<Method>(self, method: Method) -> Rewritten<Method> {
        let Self { time, rule, slot, bodies, .. } = self;
        Rewritten { time, method, rule, slot, bodies }
    }
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

/// The runtime has compiled a new body of a method, which it does when the method is called, and
/// perhaps again for a later tier. Only where IL was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recompiled<Method = u32> {
    /// When.
    pub time: Nanos,
    /// The method.
    pub method: Method,
    /// Why it could not be compiled.
    pub failed: Option<String>,
}

impl Recompiled {
    /// The same with another id of the method.
    pub fn of<Method>(self, method: Method) -> Recompiled<Method> {
        Recompiled { time: self.time, method, failed: self.failed }
    }
}

/// A method that matches a rule, and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instrumented<Method = u32> {
    /// The method.
    pub method: Method,
    /// Name of the rule.
    pub rule: String,
    /// What [`TracedMethod`] calls it; `None` if it has no number because it was refused.
    pub slot: Option<u32>,
    /// Its state.
    pub state: InstrumentState,
}

impl Instrumented {
    /// The same with another id of the method.
    pub fn of<Method>(self, method: Method) -> Instrumented<Method> {
        Instrumented { method, rule: self.rule, slot: self.slot, state: self.state }
    }
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

/// Calls of instrumented methods since the record before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traced {
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
pub struct SingleCall<Thread = u32> {
    /// As in [`Instrumented::slot`].
    pub slot: u32,
    /// The thread on which it ended; from the agent, its id of the operating system in the target's
    /// own pid namespace.
    pub thread: Thread,
    /// When it began.
    pub begun: Nanos,
    /// How long it took.
    pub taken: Nanos,
    /// Whether it ended by an exception.
    pub failed: bool,
    /// Whether it is the call of an asynchronous method, to the end of its task.
    pub asynchronous: bool,
}

impl SingleCall {
    /// The same with another id of the thread.
    pub fn on<Thread>(self, thread: Thread) -> SingleCall<Thread> {
        let Self { slot, begun, taken, failed, asynchronous, .. } = self;
        SingleCall { slot, thread, begun, taken, failed, asynchronous }
    }
}

/// The parameters of an instrumented method whose arguments are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters<Method = u32> {
    /// The method.
    pub method: Method,
    /// All of them, without `this`.
    pub parameters: Vec<Parameter>,
    /// Why no arguments of this method are recorded.
    pub refused: Option<String>,
}

impl Parameters {
    /// The same with another id of the method.
    pub fn of<Method>(self, method: Method) -> Parameters<Method> {
        Parameters { method, parameters: self.parameters, refused: self.refused }
    }
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
pub struct CallArguments<Thread = u32, Class = u32> {
    /// The call.
    pub call: SingleCall<Thread>,
    /// Arguments, each with the place of its parameter in [`Parameters::parameters`]. One that is
    /// missing has found no room.
    pub arguments: Vec<(u16, Argument<Class>)>,
}

/// An argument of a call, as it was when that began; of an object the class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Argument<Class = u32> {
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
        class: Option<Class>,
        /// How many elements it has, if it is an array.
        elements: Option<u32>,
    },
}

impl Argument {
    /// The same with another id of the class.
    pub fn of<Class>(self, class_of: impl FnOnce(u32) -> Class) -> Argument<Class> {
        match self {
            Argument::Number(number) => Argument::Number(number),
            Argument::Float(number) => Argument::Float(number),
            Argument::Text { text, length } => Argument::Text { text, length },
            Argument::Null => Argument::Null,
            Argument::Object { class, elements } => {
                Argument::Object { class: class.map(class_of), elements }
            }
        }
    }
}
