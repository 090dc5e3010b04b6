//! What each thread of a snapshot waits for and holds.

use crate::{Lock, LockKind, LockShown, Owner, Snapshot, ThreadShown, snapshot::ManagedThread};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

/// The locks of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadLocks {
    /// `Thread.ManagedThreadId`.
    pub managed_id: u32,
    /// `Thread.Name`, else the system's name of the thread.
    pub name: Option<String>,
    /// What it waits for; `None` also where it ran during the snapshot, so that this is not
    /// certain.
    pub waits_for: Option<LockWait>,
    /// Locks that it holds and that others wait for.
    pub holds: Vec<LockShown>,
}

/// A wait for a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LockWait {
    /// The lock.
    pub lock: LockShown,
    /// Whether it waits for a pulse of the monitor (`Monitor.Wait`), not to own it.
    pub for_pulse: bool,
    /// The holder; `None` where no thread has it, or its owner has ended.
    pub held_by: Option<ThreadShown>,
    /// Whether the owner has ended: the lock is never released.
    pub owner_has_ended: bool,
    /// Milliseconds after which it gives up; `None` for never.
    pub timeout_ms: Option<u64>,
}

impl LockShown {
    pub(crate) fn of(lock: &Lock) -> Self {
        Self {
            kind: match lock.kind {
                LockKind::Monitor => "monitor",
                LockKind::Lock => "lock",
            },
            type_name: lock.type_name.clone(),
            object: format!("{:#x}", lock.object),
        }
    }
}

impl Snapshot {
    /// The locks of each managed thread, by thread id of the operating system.
    pub fn by_thread(&self) -> HashMap<u32, ThreadLocks> {
        let mut all: Vec<(u32, ThreadLocks)> =
            self.threads.iter().map(Self::without_locks).collect();
        for wait in &self.waits {
            let (Some(thread), Some(lock)) =
                (self.threads.get(wait.thread), self.locks.get(wait.lock))
            else {
                continue;
            };
            if !thread.asleep {
                continue;
            }
            let owner = match lock.owner {
                // Its own: it has it by now.
                Owner::Thread(owner) if owner != wait.thread => self.threads.get(owner),
                _ => None,
            };
            let shown = LockWait {
                lock: LockShown::of(lock),
                for_pulse: wait.for_pulse,
                held_by: owner.map(|owner| ThreadShown {
                    os_tid: owner.os_tid,
                    managed_id: Some(owner.managed_id),
                    name: owner.name.clone(),
                }),
                owner_has_ended: matches!(lock.owner, Owner::Gone { .. }),
                timeout_ms: wait.timeout.map(|timeout| timeout.as_millis() as u64),
            };
            if let Some((_, locks)) = all.get_mut(wait.thread) {
                locks.waits_for = Some(shown);
            }
        }
        for lock in &self.locks {
            if let Owner::Thread(owner) = lock.owner
                && let Some((_, locks)) = all.get_mut(owner)
            {
                locks.holds.push(LockShown::of(lock));
            }
        }
        all.into_iter().collect()
    }

    fn without_locks(thread: &ManagedThread) -> (u32, ThreadLocks) {
        let locks = ThreadLocks {
            managed_id: thread.managed_id,
            name: thread.name.clone(),
            ..ThreadLocks::default()
        };
        (thread.os_tid, locks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wait;
    use std::time::Duration;

    #[test]
    fn each_thread_has_its_wait_and_what_it_holds() {
        let thread = |os_tid, asleep| ManagedThread {
            os_tid,
            managed_id: os_tid - 100,
            name: Some(format!("t{os_tid}")),
            asleep,
        };
        let lock = |object, owner| Lock {
            kind: LockKind::Monitor,
            object,
            type_name: Some("Shop.Account".into()),
            owner,
        };
        let wait = |thread, lock, for_pulse| Wait {
            thread,
            lock,
            for_pulse,
            timeout: Some(Duration::from_secs(2)),
        };
        let gone = Owner::Gone { id: 7, name: None };
        let snapshot = Snapshot {
            threads: vec![
                thread(101, true),
                thread(102, true),
                thread(103, false),
                thread(104, true),
            ],
            locks: vec![lock(0x10, Owner::Thread(0)), lock(0x20, gone), lock(0x30, Owner::None)],
            waits: vec![wait(1, 0, false), wait(0, 1, false), wait(2, 0, false), wait(3, 2, true)],
            waiters_not_found: 0,
        };
        let by_thread = snapshot.by_thread();
        let of = |tid| &by_thread[&tid];
        let waits = of(102).waits_for.as_ref().unwrap();
        assert_eq!((waits.lock.object.as_str(), waits.timeout_ms), ("0x10", Some(2000)));
        assert_eq!(waits.held_by.as_ref().map(|owner| owner.os_tid), Some(101));
        assert_eq!(of(101).holds, [LockShown::of(&snapshot.locks[0])]);
        let waits = of(101).waits_for.as_ref().unwrap();
        assert_eq!((waits.owner_has_ended, &waits.held_by), (true, &None));
        // It ran meanwhile: it may have been here and there.
        assert_eq!(of(103).waits_for, None);
        let waits = of(104).waits_for.as_ref().unwrap();
        assert_eq!((waits.for_pulse, waits.owner_has_ended, &waits.held_by), (true, false, &None));
    }
}
