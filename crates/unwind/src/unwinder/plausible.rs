//! Steps over frames without a rule, to what is plausible as a return address.

use super::outcome::Failure;
use super::{Left, Unwinder};
use crate::arch;
use crate::arch::LeafReturn;
use crate::context::Context;
use crate::modules::Region;
use crate::stack::StackBytes;
use wire::FrameTrust;

/// How many words of the stack a search for a return address looks at.
pub(super) const SCANNED_WORDS: usize = 512;

/// Entries of the cache of return addresses, a power of two.
pub(super) const RETURN_ADDRESSES: usize = 4096;

impl Unwinder {
    /// Leaves a frame for which there is no exact rule.
    pub(super) fn step_plausibly(
        &mut self,
        context: &mut Context,
        exact: bool,
        stack: &StackBytes<'_>,
    ) -> Left {
        let sp = context.sp();
        // A leaf that has not touched the stack, such as nearly all stubs.
        if exact {
            let leaf = match arch::LEAF_RETURN {
                LeafReturn::OnStack => {
                    stack.word(sp).ok().map(|address| (address, sp.saturating_add(8)))
                }
                LeafReturn::Register(register) => {
                    context.get(register).map(|address| (address, sp))
                }
            };
            if let Some((address, caller_sp)) = leaf
                && self.is_return_address(arch::plain_address(address))
            {
                context.set_sp(caller_sp);
                context.set_ip(arch::plain_address(address));
                context.forget_scratch();
                return Left::Caller(FrameTrust::Learned, false);
            }
        }
        let (return_at, caller_at) = arch::FRAME_RECORD;
        match context.fp() {
            // Where a thread starts, the frame pointer is 0 by convention (System V ABI, AMD64
            // supplement, 3.4.1).
            Some(0) if !exact => return Left::Root,
            Some(fp) if fp >= sp && fp.is_multiple_of(8) => {
                let saved = stack.word(fp);
                let address = fp
                    .checked_add(return_at)
                    .and_then(|at| stack.word(at).ok())
                    .map(arch::plain_address);
                if let (Ok(saved), Some(address), Some(caller_sp)) =
                    (saved, address, fp.checked_add(caller_at))
                    && self.is_return_address(address)
                {
                    context.set_sp(caller_sp);
                    context.set_ip(address);
                    context.set(arch::FP, Some(saved));
                    context.forget_scratch();
                    return Left::Caller(FrameTrust::Learned, false);
                }
            }
            None if context.is_partial() => {
                if let Some(left) = self.step_to_record(context, stack) {
                    return left;
                }
            }
            _ => {}
        }
        let found = stack
            .words(sp)
            .take(SCANNED_WORDS)
            .find(|&(_, word)| self.is_return_address(arch::plain_address(word)));
        match found {
            Some((at, address)) => {
                let caller_sp = at.saturating_add(8);
                // A frame pointer into what was skipped is not the caller's.
                if context.fp().is_some_and(|fp| fp < caller_sp && fp >= sp) {
                    context.set(arch::FP, None);
                }
                context.set_sp(caller_sp);
                context.set_ip(arch::plain_address(address));
                context.forget_scratch();
                Left::Caller(FrameTrust::Scan, false)
            }
            // All of the copy was searched: the caller is behind it, if anywhere.
            None if stack.end().saturating_sub(sp) < SCANNED_WORDS as u64 * 8 => Left::Truncated,
            None => Left::Failed(Failure::NoCallerFound),
        }
    }

    /// [`Self::is_return_address`] for native code, with a cache.
    pub(super) fn is_known_return_address(&mut self, address: u64) -> bool {
        self.forget_moved();
        let slot = (address ^ address >> 13) as usize & (RETURN_ADDRESSES - 1);
        if self.return_addresses.get(slot) == Some(&address) {
            return true;
        }
        // Signal handlers return to a place that nobody calls from.
        let is = self.is_return_address(address)
            || match self.modules.known(address.wrapping_sub(1)) {
                Region::Native(image, bias) => {
                    image.elf.is_signal_trampoline(address.wrapping_sub(1).wrapping_sub(bias))
                }
                Region::Managed | Region::None => false,
            };
        if let Some(known) = self.return_addresses.get_mut(slot).filter(|_| is) {
            *known = address;
        }
        is
    }

    /// Whether a native function begins at an address.
    pub(super) fn starts_function(&mut self, address: u64) -> bool {
        match self.modules.known(address) {
            Region::Native(image, bias) => image.elf.starts_function(address.wrapping_sub(bias)),
            Region::Managed | Region::None => false,
        }
    }

    /// Whether an address is one that a call in known code can return to.
    pub(super) fn is_return_address(&mut self, address: u64) -> bool {
        if let Some(known) = self.code.is_return_address(address) {
            return known;
        }
        match self.modules.known(address.wrapping_sub(1)) {
            Region::Native(image, bias) => {
                image.elf.is_return_address(address.wrapping_sub(bias)).unwrap_or(false)
            }
            Region::Managed | Region::None => false,
        }
    }
}
