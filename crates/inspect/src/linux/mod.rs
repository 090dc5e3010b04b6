//! Looking at a process through `/proc/<pid>/mem`.

mod contract;
mod debug_info;
mod image;
mod jitted;
mod layout;
mod memory;
mod methods;
mod native_format;
mod outside;
mod ready_to_run;
mod tasks;
mod types;

pub use methods::search_methods;
pub use outside::OutsideCode;

use crate::{Error, Lock, LockKind, ManagedThread, Owner, Snapshot, Wait};
use diagnostics::proc;
use image::Image;
use layout::{Layout, SyncBlock, WaitList, sync_block};
use memory::{Memory, is_pointer, u32_in, u64_in};
use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};
use tasks::Task;
use types::TypeNames;
use unwind::{LiveProcess, Mapping, Target};

/// How long a snapshot may take in all, without the wait between its halves.
const LIMIT: Duration = Duration::from_secs(2);

/// How often a list that changes under our hands is read again.
const TRIES: u32 = 5;

/// How much of a `Thread` is searched for its list of waits, and how much of its thread statics. On
/// .NET Core 3.1 the list is at 1208, on .NET 10 at 152.
const NATIVE_REGION: usize = 0x600;
const MANAGED_REGION: usize = 0x200;

/// Entries of the table of sync blocks that are looked at for waiters that were not found
/// otherwise.
const MOST_ENTRIES: u32 = 20_000;
/// And how many entries without a sync block may stand between two with one.
const LONGEST_GAP: u32 = 2_000;

/// Longest `Thread.Name` that is shown.
const LONGEST_NAME: u32 = 200;

/// Takes a snapshot of the threads and locks of a process: reads them twice, `apart` from each
/// other.
///
/// The process is not stopped. Waits are those that both readings saw; a thread is
/// [`asleep`](ManagedThread::asleep) if the kernel did not run it from before the first to after
/// the second. What a sleeping thread waits for does not change, so a cycle of sleeping threads is
/// a fact and no coincidence of two times.
///
/// # Errors
/// When the process is gone or none of .NET, may not be read, or has a runtime whose structures are
/// not known.
pub fn look(pid: u32, apart: Duration) -> Result<Snapshot, Error> {
    let gone = |_| Error::Exited { pid };
    let mappings = LiveProcess::new(pid).mappings().map_err(|source| access(pid, source))?;
    let memory = Memory::open(pid).map_err(|source| access(pid, source))?;
    let image = Image::find(pid, &mappings).map_err(|error| still_there(pid, error))?;
    let mut before = tasks::read(pid).map_err(gone)?;
    let layout = Layout::find(&memory, &image, &before).map_err(|error| still_there(pid, error))?;
    let reader = Reader { pid, memory: &memory, layout: &layout, mappings: &mappings };
    let read = |tasks: &HashMap<u32, Task>| {
        let mut best: Option<Snapshot> = None;
        for _ in 0..TRIES {
            let look = reader
                .look(tasks, Instant::now() + LIMIT)
                .map_err(|error| still_there(pid, error))?;
            let complete = look.waiters_not_found == 0;
            if best.as_ref().is_none_or(|best| look.waiters_not_found < best.waiters_not_found) {
                best = Some(look);
            }
            // A thread says for a moment that it waits before it says for what.
            if complete {
                break;
            }
        }
        Ok(best.unwrap_or_default())
    };
    let mut first = read(&before)?;
    for _ in 0..TRIES {
        std::thread::sleep(apart);
        let between = tasks::read(pid).map_err(gone)?;
        let second = read(&between)?;
        let after = tasks::read(pid).map_err(gone)?;
        let asleep = |tid: u32| tasks::rested(before.get(&tid), after.get(&tid));
        if contradict(&first, &second, asleep) {
            (before, first) = (between, second);
            continue;
        }
        for thread in &mut first.threads {
            thread.asleep = asleep(thread.os_tid);
        }
        keep_common(&mut first, &second);
        return if is_alive(pid) { Ok(first) } else { Err(Error::Exited { pid }) };
    }
    Err(Error::Unknown {
        what: "objects that are locked on are moved faster than they can be read".into(),
    })
}

/// Whether two readings differ in what a sleeping thread waits for. As that does not change, the
/// garbage collector then moved an object, or was just moving it in one of them.
fn contradict(first: &Snapshot, second: &Snapshot, asleep: impl Fn(u32) -> bool) -> bool {
    let objects = |snapshot: &Snapshot| -> HashMap<u32, u64> {
        let object = |wait: &Wait| {
            Some((snapshot.threads.get(wait.thread)?.os_tid, snapshot.locks.get(wait.lock)?.object))
        };
        snapshot.waits.iter().filter_map(object).collect()
    };
    let (before, after) = (objects(first), objects(second));
    before.keys().chain(after.keys()).any(|tid| before.get(tid) != after.get(tid) && asleep(*tid))
}

fn access(pid: u32, source: std::io::Error) -> Error {
    match source.kind() {
        std::io::ErrorKind::PermissionDenied => Error::Memory { pid, source },
        _ => Error::Exited { pid },
    }
}

/// Whether a process still has its memory: one that ends gives it up a while before the kernel says
/// that it is over, and nothing is found in it then.
fn is_alive(pid: u32) -> bool {
    proc::is_alive(pid) && proc::maps(pid).is_ok_and(|maps| !maps.is_empty())
}

/// What is wrong, unless it is that the process has ended.
fn still_there(pid: u32, error: Error) -> Error {
    if is_alive(pid) { error } else { Error::Exited { pid } }
}

/// Keeps of the first reading only what the second one saw as well.
fn keep_common(first: &mut Snapshot, second: &Snapshot) {
    let said = |snapshot: &Snapshot, wait: &Wait| {
        let lock = snapshot.locks.get(wait.lock)?;
        let owner = match &lock.owner {
            Owner::Thread(index) => Some((true, u64::from(snapshot.threads.get(*index)?.os_tid))),
            // One that started after its task would have been seen is not there in the first
            // reading, but in the second.
            Owner::Gone { id, .. } => Some((false, *id)),
            Owner::None => None,
        };
        Some((snapshot.threads.get(wait.thread)?.os_tid, lock.object, wait.for_pulse, owner))
    };
    let seen: Vec<_> = second.waits.iter().filter_map(|wait| said(second, wait)).collect();
    let waits = std::mem::take(&mut first.waits);
    first.waits = waits
        .into_iter()
        .filter(|wait| said(first, wait).is_some_and(|said| seen.contains(&said)))
        .collect();
    first.waiters_not_found = first.waiters_not_found.min(second.waiters_not_found);
}

struct Reader<'a> {
    pid: u32,
    memory: &'a Memory,
    layout: &'a Layout,
    mappings: &'a [Mapping],
}

/// An item of a thread's list of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    on: On,
    for_pulse: bool,
    timeout: Option<Duration>,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Monitor(SyncBlock),
    /// A `System.Threading.Lock`, by its address.
    Lock(u64),
}

impl Reader<'_> {
    fn look(&self, tasks: &HashMap<u32, Task>, until: Instant) -> Result<Snapshot, Error> {
        let addresses =
            (0..TRIES).find_map(|_| self.layout.threads(self.memory)).ok_or_else(|| {
                Error::Unknown {
                    what: "the list of threads changes faster than it can be read".into(),
                }
            })?;
        let types = TypeNames::new(self.memory, self.layout.types, self.mappings);
        let by_inner: HashMap<u32, u32> =
            tasks.iter().map(|(&tid, task)| (task.inner_tid, tid)).collect();
        let mut threads = Vec::new();
        let mut index_of: HashMap<u64, usize> = HashMap::new();
        for &address in &addresses {
            let inner = self.layout.os_id(self.memory, address).unwrap_or(0);
            let Some(&os_tid) = by_inner.get(&inner) else { continue };
            let managed_id = self.memory.u32(address + self.layout.thread.managed_id).unwrap_or(0);
            let system = || self.system_name(os_tid);
            index_of.insert(address, threads.len());
            threads.push(ManagedThread {
                os_tid,
                managed_id,
                name: self.name(address).or_else(system),
                asleep: false,
            });
        }
        let index_of_tid: HashMap<u32, usize> =
            threads.iter().enumerate().map(|(index, thread)| (thread.os_tid, index)).collect();

        let mut snapshot = Snapshot::default();
        let mut known: HashMap<u64, usize> = HashMap::new();
        let mut found: HashMap<u64, u32> = HashMap::new();
        for (address, item) in self.waits(&addresses, &types, until)? {
            let Some(&thread) = index_of.get(&address) else { continue };
            let (object, kind) = match item.on {
                On::Monitor(block) => (block.object, LockKind::Monitor),
                On::Lock(object) => (object, LockKind::Lock),
            };
            let owner_tid =
                |inner: u32| by_inner.get(&inner).and_then(|tid| index_of_tid.get(tid)).copied();
            let lock = match known.get(&object) {
                Some(&lock) => lock,
                None => {
                    let owner = match item.on {
                        On::Monitor(block) => {
                            self.monitor_owner(block, &index_of, &threads, owner_tid)
                        }
                        On::Lock(object) => self.lock_owner(object, owner_tid),
                    };
                    known.insert(object, snapshot.locks.len());
                    snapshot.locks.push(Lock {
                        kind,
                        object,
                        type_name: types.of_object(object),
                        owner,
                    });
                    snapshot.locks.len() - 1
                }
            };
            if let (On::Monitor(block), false) = (item.on, item.for_pulse) {
                *found.entry(block.address).or_default() += 1;
            }
            snapshot.waits.push(Wait {
                thread,
                lock,
                for_pulse: item.for_pulse,
                timeout: item.timeout,
            });
        }
        snapshot.threads = threads;
        snapshot.waiters_not_found = self.others(&found, until);
        Ok(snapshot)
    }

    /// `Thread.Name`.
    fn name(&self, thread: u64) -> Option<String> {
        let offsets = &self.layout.thread;
        let object = self.memory.pointer(self.memory.pointer(thread + offsets.object)?)?;
        // That it is the right object shows in that it has the right number.
        let id = self.memory.u32(thread + offsets.managed_id)?;
        if self.memory.u32(object + offsets.object_id)? != id {
            return None;
        }
        let name = self.memory.pointer(object + offsets.name)?;
        let length =
            self.memory.u32(name + 8).filter(|length| (1..=LONGEST_NAME).contains(length))?;
        let bytes = self.memory.bytes(name + 12, 2 * length as usize)?;
        let units = bytes
            .chunks_exact(2)
            .filter_map(|pair| pair.first_chunk().copied().map(u16::from_le_bytes));
        char::decode_utf16(units).collect::<Result<String, _>>().ok()
    }

    /// The system's name of a thread, where that is not the one that a thread has when nobody named
    /// it.
    fn system_name(&self, tid: u32) -> Option<String> {
        let name = proc::comm(tid).ok()?;
        (!name.is_empty() && proc::comm(self.pid).is_ok_and(|process| process != name))
            .then_some(name)
    }

    /// What each thread waits for, the innermost wait.
    ///
    /// The list begins at an offset that no contract tells, so every word of the structure is tried
    /// for whether it points to an item of such a list. The true offset is the one with the most
    /// threads; what fits elsewhere is left alone.
    fn waits(
        &self,
        threads: &[u64],
        types: &TypeNames,
        until: Instant,
    ) -> Result<Vec<(u64, Item)>, Error> {
        let (size, usual) = match self.layout.waits {
            WaitList::Native { usual } => (NATIVE_REGION, usual),
            WaitList::Managed { usual, .. } => (MANAGED_REGION, usual),
        };
        let mut by_offset: BTreeMap<u64, Vec<(u64, Item)>> = BTreeMap::new();
        for &thread in threads {
            if Instant::now() > until {
                return Err(Error::Unknown {
                    what: "the process is too large to be read in time".into(),
                });
            }
            let region = match self.layout.waits {
                WaitList::Native { .. } => Some(thread),
                WaitList::Managed { locals, .. } => self.memory.pointer(thread + locals),
            };
            let Some(bytes) = region.and_then(|region| self.memory.bytes(region, size)) else {
                continue;
            };
            for offset in (0..size).step_by(8) {
                let Some(address) =
                    u64_in(&bytes, offset).filter(|&word| is_pointer(word) && word % 8 == 0)
                else {
                    continue;
                };
                if let Some(item) = self.item(address, types) {
                    by_offset.entry(offset as u64).or_default().push((thread, item));
                }
            }
        }
        let best =
            by_offset.into_iter().max_by_key(|(offset, items)| (items.len(), *offset == usual));
        Ok(best.map(|(_, items)| items).unwrap_or_default())
    }

    /// Reads an item of a list of waits; `None` if there is none at this address.
    fn item(&self, address: u64, types: &TypeNames) -> Option<Item> {
        const FOREVER: u32 = u32::MAX;
        /// How far apart two items on one stack can be.
        const STACK: u64 = 64 << 20;
        let bytes: [u8; 32] = self.memory.array(address)?;
        // `DebugBlockingItem`: monitor, application domain, kind, time-out, next.
        // `ThreadBlockingInfo`: object, kind, time-out, next.
        let (object, kind, timeout, next) = match self.layout.waits {
            WaitList::Native { .. } => {
                (u64_in(&bytes, 0)?, u32_in(&bytes, 16)?, u32_in(&bytes, 20)?, u64_in(&bytes, 24)?)
            }
            WaitList::Managed { .. } => {
                (u64_in(&bytes, 0)?, u32_in(&bytes, 8)?, u32_in(&bytes, 12)?, u64_in(&bytes, 16)?)
            }
        };
        // The next one is further up the same stack.
        if !(next == 0 || (address < next && next - address < STACK)) {
            return None;
        }
        if timeout != FOREVER && timeout > i32::MAX as u32 {
            return None;
        }
        let timeout = (timeout != FOREVER).then(|| Duration::from_millis(u64::from(timeout)));
        let on = match (kind, self.layout.waits) {
            (0 | 1, _) => On::Monitor(self.sync_block_at(object)?),
            // A variable in front of the item holds the object.
            (2, WaitList::Managed { .. })
                if (address.checked_sub(64)?..address).contains(&object) =>
            {
                let lock = self.memory.pointer(object)?;
                (types.of_object(lock)? == "System.Threading.Lock").then_some(On::Lock(lock))?
            }
            _ => return None,
        };
        Some(Item { on, for_pulse: kind == 1, timeout })
    }

    /// The sync block at an address, if there is one: its entry in the table says so.
    fn sync_block_at(&self, address: u64) -> Option<SyncBlock> {
        if !is_pointer(address) {
            return None;
        }
        let table = self.memory.pointer(self.layout.sync_table?)?;
        let index = self.memory.u32(address + self.layout.monitor.index)? & 0x7fff_ffff;
        sync_block(self.memory, table, index, self.layout.monitor)
            .filter(|block| block.address == address)
    }

    fn monitor_owner(
        &self,
        block: SyncBlock,
        index_of: &HashMap<u64, usize>,
        threads: &[ManagedThread],
        owner_tid: impl Fn(u32) -> Option<usize>,
    ) -> Owner {
        let Some(true) = self.memory.u32(block.address).map(|state| state & 1 == 1) else {
            return Owner::None;
        };
        // The owner's `Thread*`, up to .NET 9; on .NET 10 its managed id, with four bytes of
        // nothing behind.
        let holder = self.memory.u64(block.address + 8).unwrap_or(0);
        let os_id = self
            .layout
            .monitor
            .owner_os_id
            .and_then(|offset| self.memory.u64(block.address + offset));
        let os_id = os_id.and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
        let by_id = || match os_id {
            // It is being taken just now: the id of the system is written last.
            0 if self.layout.monitor.owner_os_id.is_some() => threads
                .iter()
                .position(|thread| thread.managed_id != 0 && thread.managed_id == holder as u32),
            0 => None,
            id => owner_tid(id),
        };
        let alive = index_of.get(&holder).copied().or_else(by_id);
        match alive {
            Some(owner) => Owner::Thread(owner),
            // It is being taken, and its owner not written yet.
            None if holder as u32 == 0 && os_id == 0 => Owner::None,
            // The runtime keeps a thread that has ended until its object is collected.
            None => Owner::Gone {
                id: if os_id == 0 { holder } else { u64::from(os_id) },
                name: self.name(holder),
            },
        }
    }

    /// `Lock._owningThreadId` and `Lock._state` (`Lock.cs`): the id is that of the operating
    /// system.
    fn lock_owner(&self, lock: u64, owner_tid: impl Fn(u32) -> Option<usize>) -> Owner {
        const OWNER: u64 = 16;
        const STATE: u64 = 20;
        let Some(true) = self.memory.u32(lock + STATE).map(|state| state & 1 == 1) else {
            return Owner::None;
        };
        match self.memory.u32(lock + OWNER).unwrap_or(0) {
            0 => Owner::None,
            id => match owner_tid(id) {
                Some(owner) => Owner::Thread(owner),
                None => Owner::Gone { id: u64::from(id), name: None },
            },
        }
    }

    /// Goes through the table of sync blocks and counts waiters that `found` does not have.
    fn others(&self, found: &HashMap<u64, u32>, until: Instant) -> u32 {
        /// Above the other bits of `AwareLock::LockState` stands the number of waiters.
        const WAITERS: u32 = 6;
        let Some(table) = self.layout.sync_table.and_then(|table| self.memory.pointer(table))
        else {
            return 0;
        };
        let (mut missing, mut gap) = (0u32, 0);
        for index in 1..MOST_ENTRIES {
            if gap > LONGEST_GAP || Instant::now() > until {
                break;
            }
            match sync_block(self.memory, table, index, self.layout.monitor) {
                Some(block) => {
                    gap = 0;
                    let counted = self.memory.u32(block.address).unwrap_or(0) >> WAITERS;
                    let known = found.get(&block.address).copied().unwrap_or(0);
                    missing = missing.saturating_add(counted.saturating_sub(known));
                }
                None => gap += 1,
            }
        }
        missing
    }
}
