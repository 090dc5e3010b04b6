//! Who handles the signal: ours is set where nobody's is, and taken away where it is still there.

use super::handler::handler;
use super::{IGNORED_BEFORE, RESTORED, STAYS, SignalError};
use std::ptr::{self};
use std::sync::atomic::Ordering;

pub(super) fn empty_action() -> libc::sigaction {
    // SAFETY: all-zero is a valid value of this C struct: default action, empty mask.
    unsafe { std::mem::zeroed() }
}

/// Sets the action of the signal, and gives the one before.
pub(super) fn exchange_action(new: &libc::sigaction) -> libc::sigaction {
    let mut was = empty_action();
    // SAFETY: both actions are valid, and what the new one names stays for as long as it is set.
    unsafe { libc::sigaction(libc::SIGPROF, new, &mut was) };
    was
}

pub(super) fn current_action() -> libc::sigaction {
    let mut now = empty_action();
    // SAFETY: asks only.
    unsafe { libc::sigaction(libc::SIGPROF, ptr::null(), &mut now) };
    now
}

pub(super) fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == handler as *const () as usize
}

/// Whether no tool has a handler for the signal.
pub(super) fn is_free(action: &libc::sigaction) -> bool {
    matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
}

/// What makes the kernel call our handler: not on the alternate stack, as it runs on the stack that
/// it copies, and interrupted system calls are restarted.
pub(super) fn own_action() -> libc::sigaction {
    let mut ours = empty_action();
    ours.sa_sigaction = handler as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    ours
}

/// Installs our handler, and gives the action before it. Once it was installed, another tool may
/// have found it there, and may call it later: then the library stays.
pub(super) fn install() -> Result<libc::sigaction, SignalError> {
    let now = current_action();
    if is_ours(&now) {
        // It was left there, or another tool has put it back, which had found it here.
        let is_ignored = IGNORED_BEFORE.load(Ordering::SeqCst);
        return Ok(libc::sigaction {
            sa_sigaction: if is_ignored { libc::SIG_IGN } else { libc::SIG_DFL },
            ..empty_action()
        });
    }
    if !is_free(&now) {
        return Err(SignalError::HandlerTaken);
    }
    RESTORED.store(false, Ordering::SeqCst);
    let before = exchange_action(&own_action());
    if !is_free(&before) {
        // Set just now. Should a third one have come in between, its handler is the newest.
        let newest = exchange_action(&before);
        if !is_ours(&newest) {
            exchange_action(&newest);
        }
        STAYS.store(true, Ordering::SeqCst);
        return Err(SignalError::Overtaken);
    }
    if !is_ours(&current_action()) {
        STAYS.store(true, Ordering::SeqCst);
        return Err(SignalError::Overtaken);
    }
    IGNORED_BEFORE.store(before.sa_sigaction == libc::SIG_IGN, Ordering::SeqCst);
    Ok(before)
}
