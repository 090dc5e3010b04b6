//! Where the runtime keeps what.

use super::{
    contract::Contract,
    image::Image,
    memory::{Memory, is_pointer},
    tasks::Task,
};
use crate::Error;
use std::collections::{HashMap, HashSet};

/// More managed threads than this are none.
const MOST_THREADS: u32 = 50_000;

/// Entries of the table of globals for debuggers that are looked at; .NET 8 has 140.
const GLOBALS: u64 = 256;

/// Places of structures, and offsets in them.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// The pointer to the table of sync blocks. `None` where it was not found, because nothing is
    /// in it.
    pub sync_table: Option<u64>,
    /// The pointer to the list of threads.
    pub thread_store: u64,
    /// Offset of the first link in the list of threads.
    pub first_link: u64,
    /// Offset of the number of threads.
    pub thread_count: u64,
    /// Offsets in a thread.
    pub thread: ThreadOffsets,
    /// Where the monitors' fields are.
    pub monitor: MonitorOffsets,
    /// Where a thread says what it waits for.
    pub waits: WaitList,
    /// How a type leads to its name.
    pub types: TypeOffsets,
}

/// Offsets in the runtime's `Thread`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadOffsets {
    pub link: u64,
    pub os_id: u64,
    pub managed_id: u64,
    /// Of the handle to the managed `Thread` object.
    pub object: u64,
    /// Of `_name` in that object.
    pub name: u64,
    /// Of `_managedThreadId` in that object.
    pub object_id: u64,
}

/// Offsets in `AwareLock`, with which a sync block begins (`syncblk.h`). The state is at 0 in all
/// versions, the owner's `Thread*` at 8 up to .NET 9.
#[derive(Clone, Copy, Debug)]
pub(super) struct MonitorOffsets {
    /// Of the index in the table, by which a sync block knows its entry.
    pub index: u64,
    /// Of the owner's thread id of the operating system, where it is kept.
    pub owner_os_id: Option<u64>,
}

/// Where a thread says what it waits for: a list that begins in one of these structures, at an
/// offset that no contract tells. It is found by what the list must look like; `usual` is where it
/// was seen.
#[derive(Clone, Copy, Debug)]
pub(super) enum WaitList {
    /// In `Thread`: `ThreadDebugBlockingInfo` (up to .NET 8).
    Native { usual: u64 },
    /// In the structure of thread statics that `Thread` points to at this offset:
    /// `ThreadBlockingInfo` (.NET 9 and newer).
    Managed { locals: u64, usual: u64 },
}

/// How a `MethodTable` leads to its name.
#[derive(Clone, Copy, Debug)]
pub(super) enum TypeOffsets {
    /// 24 bits of token; the module knows where its image is.
    Image { flags: u64, module: u64, base: u64 },
    /// 16 bits of token; the module has only its simple name, at this offset.
    Name { simple_name: u64 },
}

/// What is known of runtimes without a contract, by measurement on 3.1.23 and 8.0.30. Whether it
/// holds is checked in each process.
struct Known {
    first_link: u64,
    thread: ThreadOffsets,
    monitor: MonitorOffsets,
    usual_waits: u64,
    simple_name: u64,
}

const CORE_3_1: Known = Known {
    first_link: 168,
    thread: ThreadOffsets {
        link: 256,
        os_id: 456,
        managed_id: 36,
        object: 464,
        name: 24,
        object_id: 60,
    },
    monitor: MonitorOffsets { index: 20, owner_os_id: None },
    usual_waits: 1208,
    simple_name: 8,
};

const NET_8: Known = Known {
    first_link: 160,
    thread: ThreadOffsets {
        link: 232,
        os_id: 424,
        managed_id: 32,
        object: 432,
        name: 24,
        object_id: 52,
    },
    monitor: NEWER_MONITOR,
    usual_waits: 1192,
    simple_name: 264,
};

/// From .NET 8 on.
const NEWER_MONITOR: MonitorOffsets = MonitorOffsets { index: 28, owner_os_id: Some(16) };

impl Layout {
    /// Finds everything, and checks that it is what it should be.
    pub fn find(memory: &Memory, image: &Image, tasks: &HashMap<u32, Task>) -> Result<Self, Error> {
        let alive: HashSet<u32> = tasks.values().map(|task| task.inner_tid).collect();
        if let Some(address) = image.exported("DotNetRuntimeContractDescriptor") {
            let contract = Contract::read(memory, address).ok_or_else(|| {
                unknown("the description that the runtime exports cannot be read")
            })?;
            let layout = Self::of_contract(&contract).ok_or_else(|| {
                unknown("the description that the runtime exports lacks threads or sync blocks")
            })?;
            return match layout.fits(memory, &alive) {
                true => Ok(layout),
                false => Err(unknown(
                    "its list of threads is not where the description that it exports says",
                )),
            };
        }
        if let Some(table) = image.exported("g_dacTable") {
            return NET_8
                .in_globals(memory, table, &alive)
                .ok_or_else(|| unknown("its list of threads is not like that of .NET 8"));
        }
        let names = ["g_pSyncTable", "_ZN11ThreadStore14s_pThreadStoreE"];
        if let [Some(sync_table), Some(thread_store)] = image.internal(names) {
            let layout = CORE_3_1.layout(Some(sync_table), thread_store);
            return match layout.fits(memory, &alive) {
                true => Ok(layout),
                false => Err(unknown("its list of threads is not like that of .NET Core 3.1")),
            };
        }
        Err(unknown(
            "it exports neither a description nor a table of its globals, and has no symbols",
        ))
    }

    fn of_contract(contract: &Contract) -> Option<Self> {
        let of = |ty, field| contract.offset(ty, field);
        Some(Self {
            sync_table: Some(contract.global("SyncTableEntries")?),
            thread_store: contract.global("ThreadStore")?,
            first_link: of("ThreadStore", "FirstThreadLink")?,
            thread_count: of("ThreadStore", "ThreadCount")?,
            thread: ThreadOffsets {
                link: of("Thread", "LinkNext")?,
                os_id: of("Thread", "OSId")?,
                managed_id: of("Thread", "Id")?,
                object: of("Thread", "GCHandle")?,
                // Fields of a managed object, which no contract tells: as in .NET 8.
                name: NET_8.thread.name,
                object_id: NET_8.thread.object_id,
            },
            monitor: NEWER_MONITOR,
            // 144 on 9.0.5, 152 on 10.
            waits: WaitList::Managed { locals: of("Thread", "RuntimeThreadLocals")?, usual: 152 },
            types: TypeOffsets::Image {
                flags: of("MethodTable", "MTFlags2")?,
                module: of("MethodTable", "Module")?,
                base: of("Module", "Base")?,
            },
        })
    }

    /// Whether the list of threads looks like one of this process.
    pub fn fits(&self, memory: &Memory, alive: &HashSet<u32>) -> bool {
        // It may change while it is read.
        (0..3).any(|_| {
            let Some(threads) = self.threads(memory) else { return false };
            threads
                .iter()
                .any(|&thread| self.os_id(memory, thread).is_some_and(|id| alive.contains(&id)))
        })
    }

    /// Addresses of all threads. `None` when the list is none, or changes while it is read.
    pub fn threads(&self, memory: &Memory) -> Option<Vec<u64>> {
        let store = memory.pointer(self.thread_store)?;
        let count = memory
            .u32(store + self.thread_count)
            .filter(|count| (1..=MOST_THREADS).contains(count))?;
        let mut threads = Vec::new();
        let mut link = memory.u64(store + self.first_link)?;
        while link != 0 {
            if !is_pointer(link) || threads.len() >= count as usize {
                return None;
            }
            threads.push(link.checked_sub(self.thread.link)?);
            link = memory.u64(link)?;
        }
        (threads.len() == count as usize).then_some(threads)
    }

    /// Thread id of the operating system in the process's own pid namespace; 0 or nonsense for a
    /// thread that does not run.
    pub fn os_id(&self, memory: &Memory, thread: u64) -> Option<u32> {
        memory.u64(thread + self.thread.os_id).and_then(|id| u32::try_from(id).ok())
    }
}

impl Known {
    fn layout(&self, sync_table: Option<u64>, thread_store: u64) -> Layout {
        Layout {
            sync_table,
            thread_store,
            first_link: self.first_link,
            thread_count: self.first_link + 24,
            thread: self.thread,
            monitor: self.monitor,
            waits: WaitList::Native { usual: self.usual_waits },
            types: TypeOffsets::Name { simple_name: self.simple_name },
        }
    }

    /// Looks through the runtime's table of globals for those two that we need, and tells them by
    /// what is behind them: the order of the table is another one in each version.
    fn in_globals(&self, memory: &Memory, table: u64, alive: &HashSet<u32>) -> Option<Layout> {
        let globals: Vec<u64> =
            (0..GLOBALS).filter_map(|index| memory.pointer(table + 8 * index)).collect();
        let mut layout = globals
            .iter()
            .map(|&global| self.layout(None, global))
            .find(|layout| layout.fits(memory, alive))?;
        layout.sync_table = globals.iter().copied().find(|&global| {
            memory.pointer(global).is_some_and(|entries| {
                (1..64).any(|index| sync_block(memory, entries, index, self.monitor).is_some())
            })
        });
        Some(layout)
    }
}

/// The sync block in an entry of the table, if it knows its entry, and the object of the entry
/// knows it too.
pub(super) fn sync_block(
    memory: &Memory,
    table: u64,
    index: u32,
    monitor: MonitorOffsets,
) -> Option<SyncBlock> {
    /// `SyncBlock::m_Monitor.m_dwSyncIndex` has one bit beside the index, object headers have six.
    const INDEX: u32 = 0x03ff_ffff;
    /// Bits of an object header: it holds an index or a hash code, and no hash code.
    const KIND: u32 = 0x0c00_0000;
    const IS_INDEX: u32 = 0x0800_0000;
    let entry = table + 16 * u64::from(index);
    let (address, object) = (memory.pointer(entry)?, memory.pointer(entry + 8)?);
    let header = memory.u32(object.checked_sub(4)?)?;
    let sound = object % 8 == 0
        && header & KIND == IS_INDEX
        && header & INDEX == index
        && memory.u32(address + monitor.index)? & 0x7fff_ffff == index;
    sound.then_some(SyncBlock { address, object })
}

/// A sync block and the object that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SyncBlock {
    pub address: u64,
    pub object: u64,
}

fn unknown(what: &str) -> Error {
    Error::Unknown { what: what.to_owned() }
}
