//! What rewritten code calls.

use cil::{NewInstruction, Opcode, Operand, Token};

/// Declares the functions: their types, their addresses and their names.
macro_rules! probes {
    ($($(#[doc = $doc:literal])+ $name:ident: $function:ty,)+) => {
        /// The functions whose addresses are [`Probes`].
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs, reason = "those of `Probes`")]
        pub struct ProbeFunctions {
            $(pub $name: $function,)+
        }

        /// Addresses of functions that rewritten code calls by `calli`, with the calling convention
        /// of managed code, which for numbers is that of C on every 64-bit platform.
        ///
        /// The runtime does not know that it leaves managed code: the thread counts as running such
        /// for as long as the function takes. So each must return soon, wait for nobody, and
        /// neither call managed code nor raise an exception. They must stay where they are for as
        /// long as the process lives. Nor can a collection run meanwhile: objects that they get
        /// stay where they are.
        ///
        /// The `slot` that most of them begin with is the method's [slot](crate::Method::slot).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Probes {
            $($(#[doc = $doc])+ pub $name: usize,)+
        }

        impl From<ProbeFunctions> for Probes {
            fn from(functions: ProbeFunctions) -> Self {
                Self { $($name: functions.$name as usize,)+ }
            }
        }

        impl Probes {
            /// The name of the function that stands at an address.
            pub(crate) fn name_of(&self, address: usize) -> Option<&'static str> {
                let all = [$((self.$name, stringify!($name))),+];
                all.into_iter().find(|(known, _)| *known == address).map(|(_, name)| name)
            }
        }
    };
}

probes! {
    /// `fn(slot: u32)`: a method that is only counted is called.
    count: extern "C" fn(u32),
    /// `fn(slot: u32)`: a method is called. The same thread calls `leave`, `fail` or one of those
    /// that tell when the call ends, and calls that begin later on that thread end before.
    enter: extern "C" fn(u32),
    /// `fn(slot: u32)`: the call ends.
    leave: extern "C" fn(u32),
    /// `fn(slot: u32)`: it ends by an exception.
    fail: extern "C" fn(u32),
    /// `fn(slot: u32)`: as `enter`, of a method that does not call `fail`: the method that catches
    /// an exception reports that it left this one.
    enter_unguarded: extern "C" fn(u32),
    /// `fn() -> i32`: how many calls the thread is in.
    depth: extern "C" fn() -> i32,
    /// `fn(depth: i32)`: an exception was caught in the innermost of this many calls, and has left
    /// those within it.
    unwound: extern "C" fn(i32),
    /// `fn(slot: u32)`: an asynchronous method is called; the first run of its state machine
    /// follows on this thread.
    begin_async: extern "C" fn(u32),
    /// `fn(slot: u32) -> i64`: a state machine runs. The answer is 0 unless this is the first run
    /// of a call, which has no task yet; it is negative if that call is left out.
    resume_async: extern "C" fn(u32) -> i64,
    /// `fn(slot: u32, begun: i64, failed: i32)`: the first run ends the task. `begun` is what
    /// `resume_async` has answered.
    end_async: extern "C" fn(u32, i64, i32),
    /// `fn(slot: u32, begun: i64, task: i32)`: the first run of a call that is not left out ends,
    /// and its task does not. It may have ended in the meantime.
    pending: extern "C" fn(u32, i64, u32),
    /// `fn(slot: u32, task: i32, failed: i32)`: a later run is about to end its task.
    completed: extern "C" fn(u32, u32, i32),
    /// `fn(slot: u32) -> i32`: as `leave`. The answer, not 0, asks for the arguments: by calls of
    /// the following functions, each with the index of the parameter, and at last of `shown`.
    leave_telling: extern "C" fn(u32) -> i32,
    /// `fn(slot: u32) -> i32`: as `fail`, with the answer of `leave_telling`.
    fail_telling: extern "C" fn(u32) -> i32,
    /// `fn(slot: u32, begun: i64, failed: i32) -> i32`: as `end_async`, with the answer of
    /// `leave_telling`.
    end_async_telling: extern "C" fn(u32, i64, i32) -> i32,
    /// `fn(slot: u32, begun: i64, task: i32) -> i32`: as `pending`, likewise.
    pending_telling: extern "C" fn(u32, i64, u32) -> i32,
    /// `fn(slot: u32, task: i32, failed: i32) -> i32`: as `completed`, likewise.
    completed_telling: extern "C" fn(u32, u32, i32) -> i32,
    /// `fn(index: u32, value: i64)`: an argument that is a number, or stands for one.
    show_number: extern "C" fn(u32, i64),
    /// `fn(index: u32, value: f64)`: one with a fraction.
    show_float: extern "C" fn(u32, f64),
    /// `fn(index: u32, text: reference)`: a string, or null.
    show_text: unsafe extern "C" fn(u32, *const u8),
    /// `fn(index: u32, object: reference)`: another object, or null.
    show_object: unsafe extern "C" fn(u32, *const u8),
    /// `fn()`: those were all.
    shown: extern "C" fn(),
}

impl Probes {
    /// Signatures of the functions, as blobs of stand-alone signatures: (int32) → void, (int32) →
    /// int32, (int32) → int64, (int32, int64, int32) → void, (int32, int32, int32) → void, the last
    /// two → int32, (int32, int64) → void, (int32, float64) → void, (int32, object) → void, () →
    /// void, () → int32. Source: ECMA-335 II.23.2.3.
    pub(crate) const CALL: &[u8] = &[0x00, 1, 0x01, 0x08];
    pub(crate) const CALL_TELLING: &[u8] = &[0x00, 1, 0x08, 0x08];
    pub(crate) const RESUME: &[u8] = &[0x00, 1, 0x0a, 0x08];
    pub(crate) const END: &[u8] = &[0x00, 3, 0x01, 0x08, 0x0a, 0x08];
    pub(crate) const COMPLETED: &[u8] = &[0x00, 3, 0x01, 0x08, 0x08, 0x08];
    pub(crate) const END_TELLING: &[u8] = &[0x00, 3, 0x08, 0x08, 0x0a, 0x08];
    pub(crate) const COMPLETED_TELLING: &[u8] = &[0x00, 3, 0x08, 0x08, 0x08, 0x08];
    pub(crate) const SHOW_NUMBER: &[u8] = &[0x00, 2, 0x01, 0x08, 0x0a];
    pub(crate) const SHOW_FLOAT: &[u8] = &[0x00, 2, 0x01, 0x08, 0x0d];
    pub(crate) const SHOW_OBJECT: &[u8] = &[0x00, 2, 0x01, 0x08, 0x1c];
    pub(crate) const SHOWN: &[u8] = &[0x00, 0, 0x01];
    pub(crate) const DEPTH: &[u8] = &[0x00, 0, 0x08];
}

/// Calls the function at an address; the arguments are on the stack.
pub(crate) fn call(address: usize, signature: Token) -> [NewInstruction; 3] {
    [
        NewInstruction::plain(Opcode::LdcI8, Operand::Int64(address as i64)),
        Opcode::ConvI.into(),
        NewInstruction::token(Opcode::Calli, signature),
    ]
}
