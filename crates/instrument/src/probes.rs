//! What rewritten code calls.

use cil::{NewInstruction, Opcode, Operand, Token};

/// Addresses of functions that rewritten code calls by `calli`, with the calling convention of
/// managed code, which for numbers is that of C on every 64-bit platform.
///
/// The runtime does not know that it leaves managed code: the thread counts as running such for as
/// long as the function takes. So each must return soon, wait for nobody, and neither call managed
/// code nor raise an exception. They must stay where they are for as long as the process lives. Nor
/// can a collection run meanwhile: objects that they get stay where they are.
///
/// The `slot` that most of them begin with is the method's [slot](crate::Method::slot).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes {
    /// `fn(slot: u32)`: a method that is only counted is called.
    pub count: usize,
    /// `fn(slot: u32)`: a method is called. The same thread calls `leave`, `fail` or one of those
    /// that tell when the call ends, and calls that begin later on that thread end before.
    pub enter: usize,
    /// `fn(slot: u32)`: the call ends.
    pub leave: usize,
    /// `fn(slot: u32)`: it ends by an exception.
    pub fail: usize,
    /// `fn(slot: u32)`: as `enter`, of a method that does not call `fail`: the method that catches
    /// an exception reports that it left this one.
    pub enter_unguarded: usize,
    /// `fn() -> i32`: how many calls the thread is in.
    pub depth: usize,
    /// `fn(depth: i32)`: an exception was caught in the innermost of this many calls, and has left
    /// those within it.
    pub unwound: usize,
    /// `fn(slot: u32)`: an asynchronous method is called; the first run of its state machine
    /// follows on this thread.
    pub begin_async: usize,
    /// `fn(slot: u32) -> i64`: a state machine runs. The answer is 0 unless this is the first run
    /// of a call, which has no task yet; it is negative if that call is left out.
    pub resume_async: usize,
    /// `fn(slot: u32, begun: i64, failed: i32)`: the first run ends the task. `begun` is what
    /// `resume_async` has answered.
    pub end_async: usize,
    /// `fn(slot: u32, begun: i64, task: i32)`: the first run of a call that is not left out ends,
    /// and its task does not. It may have ended in the meantime.
    pub pending: usize,
    /// `fn(slot: u32, task: i32, failed: i32)`: a later run is about to end its task.
    pub completed: usize,
    /// `fn(slot: u32) -> i32`: as `leave`. The answer, not 0, asks for the arguments: by calls of
    /// the following functions, each with the index of the parameter, and at last of `shown`.
    pub leave_telling: usize,
    /// `fn(slot: u32) -> i32`: as `fail`, with the answer of `leave_telling`.
    pub fail_telling: usize,
    /// `fn(slot: u32, begun: i64, failed: i32) -> i32`: as `end_async`, with the answer of
    /// `leave_telling`.
    pub end_async_telling: usize,
    /// `fn(slot: u32, begun: i64, task: i32) -> i32`: as `pending`, likewise.
    pub pending_telling: usize,
    /// `fn(slot: u32, task: i32, failed: i32) -> i32`: as `completed`, likewise.
    pub completed_telling: usize,
    /// `fn(index: u32, value: i64)`: an argument that is a number, or stands for one.
    pub show_number: usize,
    /// `fn(index: u32, value: f64)`: one with a fraction.
    pub show_float: usize,
    /// `fn(index: u32, text: reference)`: a string, or null.
    pub show_text: usize,
    /// `fn(index: u32, object: reference)`: another object, or null.
    pub show_object: usize,
    /// `fn()`: those were all.
    pub shown: usize,
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

    /// The name of the function that stands at an address.
    pub(crate) fn name_of(&self, address: usize) -> Option<&'static str> {
        let all = [
            (self.count, "count"),
            (self.enter, "enter"),
            (self.leave, "leave"),
            (self.fail, "fail"),
            (self.enter_unguarded, "enter_unguarded"),
            (self.depth, "depth"),
            (self.unwound, "unwound"),
            (self.begin_async, "begin_async"),
            (self.resume_async, "resume_async"),
            (self.end_async, "end_async"),
            (self.pending, "pending"),
            (self.completed, "completed"),
            (self.leave_telling, "leave_telling"),
            (self.fail_telling, "fail_telling"),
            (self.end_async_telling, "end_async_telling"),
            (self.pending_telling, "pending_telling"),
            (self.completed_telling, "completed_telling"),
            (self.show_number, "show_number"),
            (self.show_float, "show_float"),
            (self.show_text, "show_text"),
            (self.show_object, "show_object"),
            (self.shown, "shown"),
        ];
        all.into_iter().find(|(known, _)| *known == address).map(|(_, name)| name)
    }
}

/// Calls the function at an address; the arguments are on the stack.
pub(crate) fn call(address: usize, signature: Token) -> [NewInstruction; 3] {
    [
        NewInstruction::plain(Opcode::LdcI8, Operand::Int64(address as i64)),
        Opcode::ConvI.into(),
        NewInstruction::token(Opcode::Calli, signature),
    ]
}
