//! Whose turn it is to suspend the runtime.
//!
//! Two who suspend it at the same moment stop the process for ever (see
//! [`corprof::ProfilerInfo::suspend_runtime`]). In this library a lock keeps them apart; from a
//! recording of clrscope's in the same process, which has another library, a lock (flock(2)) on the
//! memory map of the process in `/proc`, which only those can open who may debug the process.

use std::fs::{File, TryLockError};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError as Busy};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What is locked.
const LOCKED: &str = "/proc/self/maps";
/// How long a turn is waited for: far longer than anybody needs it.
const LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(1);

static TURN: Mutex<()> = Mutex::new(());

/// A turn, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    file: Option<File>,
    _own: MutexGuard<'static, ()>,
}

/// Waits for a turn; `None` if it does not come. Without one the runtime must not be suspended.
pub fn take() -> Option<Turn> {
    within(LIMIT)
}

fn within(limit: Duration) -> Option<Turn> {
    let until = Instant::now() + limit;
    loop {
        let own = match TURN.try_lock() {
            Ok(own) => Some(own),
            Err(Busy::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
            Err(Busy::WouldBlock) => None,
        };
        if let Some(own) = own
            && let Ok(file) = locked()
        {
            return Some(Turn { file, _own: own });
        }
        if Instant::now() >= until {
            return None;
        }
        sleep(PAUSE);
    }
}

/// Somebody else has the turn, or there is no descriptor left to ask.
struct Taken;

/// The locked file; `None` where there is none, and so no order.
fn locked() -> Result<Option<File>, Taken> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    let file = match File::open(LOCKED) {
        Ok(file) => file,
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(None);
        }
        Err(_) => return Err(Taken),
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(Taken),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // A child that was forked meanwhile has a copy of the descriptor, with which the lock
            // would stay. Closing the file is what is left if this fails.
            let _ = file.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    #[cfg(target_os = "linux")]
    fn one_at_a_time_in_the_process() {
        let turn = take().unwrap();
        let other = File::open(LOCKED).unwrap();
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        let waiter = thread::spawn(|| take().is_some());
        sleep(Duration::from_millis(50));
        assert!(!waiter.is_finished());
        drop(turn);
        assert!(waiter.join().unwrap());
        other.lock().unwrap();
        assert!(within(Duration::from_millis(20)).is_none());
    }
}
