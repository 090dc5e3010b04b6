//! Why a method is left as it is.

use com::HResult;

/// Why a method is not instrumented.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Abstract, external, or made by the runtime: there is no IL.
    #[error("it has no IL")]
    NoBody,
    /// Its module was made at run time by Reflection.Emit, and may still grow.
    #[error("its module was made at run time")]
    DynamicModule,
    /// Its assembly may be unloaded at any time.
    #[error("its assembly may be unloaded")]
    CollectibleModule,
    /// Part of how the runtime casts, marshals or dispatches exceptions, which probes could break.
    #[error("the runtime relies on how it is compiled")]
    RuntimeInternal,
    /// Native code calls it directly.
    #[error("native code calls it directly")]
    CalledByNativeCode,
    /// It ends by calls that take its place, or by `jmp`: timing it would let the stack grow where
    /// it did not.
    #[error("it ends by a tail call")]
    TailCall,
    /// It takes a variable number of arguments.
    #[error("it takes a variable number of arguments")]
    VariableArguments,
    /// It returns a reference to a typed value, which no local variable can hold.
    #[error("it returns what no local variable can hold")]
    Returns,
    /// It is asynchronous, and is not made of the builders of `Task` and `ValueTask` in the way
    /// that compilers write.
    #[error(
        "it is asynchronous, and its end cannot be observed: only methods that return Task or \
         ValueTask can be timed (counting works)"
    )]
    NotATask,
    /// It is an `async void` method: there is no task that ends.
    #[error("it is asynchronous and returns no task whose end could be observed (counting works)")]
    AsyncVoid,
    /// Its `ValueTask` stands for an object that is used again and again, and of which only one may
    /// ask, once.
    #[error("it returns a pooled ValueTask, which only its awaiter may consume (counting works)")]
    PooledTask,
    /// It is an asynchronous iterator: to call it only makes the sequence, which runs when somebody
    /// goes through it.
    #[error(
        "it is an asynchronous iterator, which runs in MoveNext of its state machine: that can be \
            timed (counting works)"
    )]
    AsyncIterator,
    /// It is asynchronous, and its runtime was trimmed: there is no way to tell one task from
    /// another.
    #[error("it is asynchronous, and what identifies tasks was trimmed away (counting works)")]
    TrimmedTask,
    /// The runtime suspends and resumes it by itself.
    #[error("the runtime makes it asynchronous by itself")]
    RuntimeAsync,
    /// Its body or a signature cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// The new body could not be made, or is not well formed.
    #[error("it cannot be rewritten: {0}")]
    Rewrite(#[from] cil::EditError),
    /// The module's metadata can be extended only while no thread reads them, and there was no such
    /// moment.
    #[error(
        "there was no moment in which no thread may read its module: threads of the program wait \
         for a processor; try again when the machine is less busy"
    )]
    NeverStill,
    /// The metadata takes no additions.
    #[error("its metadata cannot be extended: {0}")]
    Metadata(String),
    /// The runtime refuses.
    #[error("the runtime refuses: {0}")]
    Runtime(HResult),
    /// The runtime could not compile the new body, which was reverted.
    #[error("the runtime could not compile the new body, which was reverted: {0}")]
    Compile(HResult),
    /// There are as many instrumented methods as there may be.
    #[error("too many methods are instrumented: at most {0}")]
    TooMany(u32),
    /// Another rule has it instrumented already.
    #[error("another rule already instruments it")]
    Taken,
}

impl From<corprof::Error> for Refusal {
    fn from(error: corprof::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<cil::SignatureError> for Refusal {
    fn from(error: cil::SignatureError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<cil::BodyError> for Refusal {
    fn from(error: cil::BodyError) -> Self {
        Self::Unreadable(error.to_string())
    }
}
