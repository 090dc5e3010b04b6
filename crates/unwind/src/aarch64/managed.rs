use wire::UnwindEntry;

use super::{FP, RETURN_ADDRESS, plain_address};
use crate::StackBytes;
use crate::context::{Context, StepError};

/// How the frames of one managed function or funclet are left: by the frame record.
#[derive(Clone, Debug)]
pub(crate) struct ManagedRule {
    /// First address.
    pub(crate) begin: u64,
    /// First address behind.
    pub(crate) end: u64,
    /// Whether this is the runtime's own information: never, here.
    pub(crate) exact: bool,
}

impl ManagedRule {
    /// For a function of the runtime's table, of which only the range is used.
    pub(crate) fn from_table(entry: &UnwindEntry) -> Option<Self> {
        (entry.begin < entry.end).then_some(Self {
            begin: entry.begin,
            end: entry.end,
            exact: false,
        })
    }

    /// For a method without a table.
    pub(crate) fn learn(begin: u64, end: u64, _code: &[u8]) -> Option<Self> {
        (begin < end).then_some(Self { begin, end, exact: false })
    }

    /// As [`Self::step`] without the frame pointer: not possible on this architecture.
    pub(crate) fn step_by_size(
        &self,
        _context: &mut Context,
        _stack: &StackBytes<'_>,
    ) -> Result<(), StepError> {
        Err(StepError::UnknownRegister)
    }

    /// Goes to the caller. At the very first instruction no frame record is made yet, and the link
    /// register holds the return address.
    pub(crate) fn step(
        &self,
        context: &mut Context,
        exact: bool,
        _code: &[u8],
        _inside: impl Fn(u64) -> bool,
        stack: &StackBytes<'_>,
    ) -> Result<(), StepError> {
        if exact && context.ip() == self.begin {
            let link = context.get(RETURN_ADDRESS.0).ok_or(StepError::UnknownRegister)?;
            context.set_ip(plain_address(link));
        } else {
            let frame = context.fp().ok_or(StepError::UnknownRegister)?;
            let (caller, link) =
                (stack.word(frame)?, stack.word(frame.checked_add(8).ok_or(StepError::Overflow)?)?);
            context.set(FP, Some(caller));
            context.set_sp(frame.checked_add(16).ok_or(StepError::Overflow)?);
            context.set_ip(plain_address(link));
        }
        context.forget_scratch();
        Ok(())
    }
}
