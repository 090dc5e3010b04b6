use wire::UnwindEntry;

use super::unwind_info::Program;
use super::{epilog, prolog};
use crate::StackBytes;
use crate::context::{Context, StepError};

/// How the frames of one managed function or funclet are left.
#[derive(Clone, Debug)]
pub(crate) struct ManagedRule {
    /// First address.
    pub(crate) begin: u64,
    /// First address behind.
    pub(crate) end: u64,
    /// Whether this is the runtime's own information, not learned from the code.
    pub(crate) exact: bool,
    program: Program,
}

impl ManagedRule {
    /// From the runtime's own unwind information. `None` if that is malformed.
    pub(crate) fn from_table(entry: &UnwindEntry) -> Option<Self> {
        // An UNWIND_INFO without codes is a function without a frame.
        let no_frame = [&[1u8, 0, 0, 0][..]];
        let program = if entry.info.is_empty() {
            Program::parse(no_frame)?
        } else {
            Program::parse(entry.info.iter().map(Vec::as_slice))?
        };
        (entry.begin < entry.end).then_some(Self {
            begin: entry.begin,
            end: entry.end,
            exact: true,
            program,
        })
    }

    /// From the code of a method, which begins at `begin`. `None` if it does not begin like one.
    pub(crate) fn learn(begin: u64, end: u64, code: &[u8]) -> Option<Self> {
        (begin < end && !code.is_empty()).then_some(())?;
        Some(Self { begin, end, exact: false, program: prolog::learn(code)? })
    }

    /// Goes to the caller of a frame whose frame pointer is unknown, as if it had all of its size
    /// at once: that is right unless the method has made its frame larger while it ran
    /// (`stackalloc`).
    pub(crate) fn step_by_size(
        &self,
        context: &mut Context,
        stack: &StackBytes<'_>,
    ) -> Result<(), StepError> {
        let mut caller = *context;
        self.program.undo_by_size(context.ip().saturating_sub(self.begin), &mut caller, stack)?;
        caller.forget_scratch();
        *context = caller;
        Ok(())
    }

    /// Goes to the caller. `code` are the bytes from the instruction pointer on, where they are
    /// known; `exact` tells that the instruction pointer is no return address, so that it may stand
    /// in a prolog or epilog.
    pub(crate) fn step(
        &self,
        context: &mut Context,
        exact: bool,
        code: &[u8],
        inside: impl Fn(u64) -> bool,
        stack: &StackBytes<'_>,
    ) -> Result<(), StepError> {
        let mut caller = *context;
        match exact.then(|| epilog::run(context, code, inside, stack)).flatten() {
            Some(returned) => caller = returned,
            None => {
                self.program.undo(context.ip().saturating_sub(self.begin), &mut caller, stack)?
            }
        }
        caller.forget_scratch();
        *context = caller;
        Ok(())
    }
}
