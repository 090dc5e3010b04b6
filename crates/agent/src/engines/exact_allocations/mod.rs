//! Every allocated object, counted by class.
//!
//! The runtime reports each object on the thread that allocates it. Each thread counts in its own
//! [`table`], which is created at the thread's first object and given back when the thread is gone.
//! The agent's main thread reads all tables ([`Reader`]) and resolves names ([`types`]). The
//! callback takes no lock, never waits, and allocates nothing but the table, once in each thread.
//!
//! Once enabled, these reports can never be disabled. So the state is in statics, as it is for
//! calls.

mod reader;
mod table;
mod types;

pub use reader::Reader;

use crate::os::clock;
use crate::os::map::Zeroed;
use crate::os::threads::current_tid;
use corprof::ids::{ClassId, ModuleId, ObjectId};
use corprof::info::ProfilerInfo;
use std::cell::Cell;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use table::{Measured, Row, Table};
use types::Types;
use wire::Nanos;

/// Most tables at a time.
const MOST_TABLES: usize = 4096;
/// Pause before the next attempt to allocate a table, after one has failed.
const ASK_AGAIN: Nanos = 100_000_000;

/// Whether objects are counted.
static ON: AtomicBool = AtomicBool::new(false);
/// What classes are called.
static TYPES: OnceLock<Types> = OnceLock::new();
/// Time before which no further table is allocated.
static FULL_UNTIL: AtomicU64 = AtomicU64::new(0);
/// The tables that there are, each until its thread is gone and it was read.
static TABLES: [AtomicPtr<Table>; MOST_TABLES] =
    [const { AtomicPtr::new(null_mut()) }; MOST_TABLES];
/// Number of the last table.
static LAST_TABLE: AtomicU32 = AtomicU32::new(0);
/// Objects of threads that have no table, because there are too many or there is no memory.
static WITHOUT_TABLE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // Without a destructor: it would keep the library mapped after a detach.
    static TABLE: Cell<*const Table> = const { Cell::new(null()) };
}

/// Objects are counted from now on.
pub fn start(info: &ProfilerInfo) {
    TYPES.get_or_init(|| Types::new(info));
    ON.store(true, Release);
}

/// Nothing is counted any more, for ever.
pub fn stop() {
    ON.store(false, Release);
}

/// An object is being allocated on this thread.
#[inline]
pub fn count(info: &ProfilerInfo, object: ObjectId<'_>, class: ClassId) {
    if !ON.load(Relaxed) {
        return;
    }
    let mut table = TABLE.try_with(Cell::get).unwrap_or(null());
    if table.is_null() {
        table = new_table();
        let _ = TABLE.try_with(|place| place.set(table));
    }
    // SAFETY: tables are given back only when their threads are gone, and this one is the running
    // thread's.
    match unsafe { table.as_ref() } {
        Some(table) => table.count(class.0 as u64, &Live { info, object }),
        None => {
            WITHOUT_TABLE.fetch_add(1, Relaxed);
        }
    }
}

/// A module goes, and with it the meaning of its classes' ids. No object of them is left, nor can
/// one be allocated.
///
/// Also when nothing is counted any more: what was counted until then is named afterwards, when the
/// tables are read for the last time, and naming a class whose module is gone ends the process.
pub fn module_unloading(module: ModuleId) {
    let Some(types) = TYPES.get() else { return };
    // Held for some microseconds, by who names a class and waits for nobody. Names that were asked
    // for later would be of what is gone.
    let mut known = types.lock();
    types.module_unloading(&mut known, module, |see: &mut dyn FnMut(&'static Row)| {
        let mut place = 0;
        while let Some((at, _, table)) = next_table(place) {
            table.rows().iter().for_each(&mut *see);
            place = at + 1;
        }
    });
}

/// An object that is just being allocated.
struct Live<'a, 'cx> {
    info: &'a ProfilerInfo,
    object: ObjectId<'cx>,
}

/// What stands at the start of each method table (`MethodTable`, src/coreclr/vm/methodtable.h; the
/// same since .NET Core 2): flags, then the size of an object without elements. The lower half of
/// the flags is the size of an element where the highest bit says that there are any. It is
/// believed only where the runtime says the same of an object, see [`table`].
#[derive(Clone, Copy)]
struct Shape {
    flags: u32,
    base: u32,
}

impl Live<'_, '_> {
    #[inline]
    fn shape(&self) -> Shape {
        let object = self.object.address() as *const usize;
        // SAFETY: the object is alive while the callback runs; it begins with the address of its
        // method table. No collection runs meanwhile, so there are no marks in the lower bits.
        let table = unsafe { object.read() } as *const u32;
        // SAFETY: method tables of objects that are alive are there, and larger than this.
        let flags = unsafe { table.read() };
        // SAFETY: as above.
        let base = unsafe { table.add(1).read() };
        Shape { flags, base }
    }

    /// The word behind the method table: of arrays and strings their length, of others their first
    /// field or padding.
    #[inline]
    fn length(&self) -> u32 {
        // SAFETY: every object has room for two words behind its address.
        unsafe { (self.object.address() as *const u32).add(2).read() }
    }
}

impl Shape {
    #[inline]
    fn element(self) -> Option<u64> {
        (self.flags >> 31 == 1).then_some(u64::from(self.flags & 0xffff))
    }
}

impl Measured for Live<'_, '_> {
    #[inline]
    fn elements(&self) -> Option<u32> {
        self.shape().element().map(|_| self.length())
    }

    #[inline]
    fn size_by_table(&self) -> u64 {
        let shape = self.shape();
        let elements = shape.element().map_or(0, |element| element * u64::from(self.length()));
        u64::from(shape.base) + elements
    }

    fn size_asked(&self) -> u64 {
        // It is an object, so the runtime knows.
        self.info.object_size(self.object).unwrap_or(0) as u64
    }
}

#[cold]
#[inline(never)]
fn new_table() -> *const Table {
    // Each object of a thread without a table comes here.
    if clock::monotonic() < FULL_UNTIL.load(Relaxed) {
        return null();
    }
    let free = |slot: &&AtomicPtr<Table>| slot.load(Relaxed).is_null();
    // There are more slots than threads of most programs: no use in making one that has no place.
    let Some(table) = TABLES.iter().any(|slot| free(&slot)).then(Table::reserve).flatten() else {
        FULL_UNTIL.store(clock::monotonic() + ASK_AGAIN, Relaxed);
        return null();
    };
    table.init(current_tid(), LAST_TABLE.fetch_add(1, Relaxed).wrapping_add(1));
    let raw = table.into_raw();
    for slot in TABLES.iter().filter(free) {
        if slot.compare_exchange(null_mut(), raw, AcqRel, Relaxed).is_ok() {
            return raw;
        }
    }
    // SAFETY: it came from `into_raw`, and nobody else has seen it.
    drop(unsafe { Zeroed::from_raw(raw) });
    null()
}

/// The first table at a place or behind it, with its place. For the one thread that gives them
/// back, and for those that hold the lock of the types.
fn next_table(place: usize) -> Option<(usize, &'static AtomicPtr<Table>, &'static Table)> {
    TABLES.iter().enumerate().skip(place).find_map(|(place, slot)| {
        // SAFETY: a table stays until `give_back`, which is called by the same thread or under the
        // same lock.
        let table = unsafe { slot.load(Acquire).as_ref()? };
        Some((place, slot, table))
    })
}

/// Gives the memory of a table back.
///
/// # Safety
/// Its thread is gone, the caller is the only reader and does not use it any more, and it holds the
/// lock of the types.
unsafe fn give_back(slot: &AtomicPtr<Table>) {
    // SAFETY: what stands in a slot came from `into_raw`, and is used by nobody.
    drop(unsafe { Zeroed::from_raw(slot.swap(null_mut(), AcqRel)) });
}
