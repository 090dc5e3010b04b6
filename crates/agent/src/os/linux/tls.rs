//! Thread-local storage of this library without the loader's help (x86-64).
//!
//! A library with thread-local storage (a `PT_TLS` segment) changes the process's list of such
//! libraries when it is loaded and again when it is unloaded. After either, each thread brings its
//! own table up to date at its next access to the storage of any library. A signal handler that
//! interrupts this within some ten instructions, and uses such storage itself, makes glibc lose the
//! thread's block: `__tls_get_addr_slow` looks at the generation twice, and does not look for the
//! block the second time. The runtime's own signal for suspending threads is such a handler, and a
//! .NET thread that loses its block ends the process.
//!
//! So what this library stores for a thread stands in a block that a `pthread` key finds. Compiled
//! code asks `__tls_get_addr` for its storage; here that function is the library's own one and
//! knows nothing but these blocks. clrscope hides the segment from the loader when it puts the
//! library into place (`recorder::AgentFile`); where it is not hidden, the loader's own block is
//! not used.
//!
//! The key has no destructor: a thread may end while the library is being unloaded. Blocks of
//! threads that are gone are found by their thread ids and used again.

use super::threads::{current_tid, is_gone};
use crate::{engines::hooks::Tree, ledger};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::arch::{asm, global_asm};
use std::cell::{Cell, UnsafeCell};
use std::ptr::{copy_nonoverlapping, from_ref, null, null_mut, write_bytes};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
};
use wire::Resource;

/// Bytes of thread-local storage that a thread has room for.
const DATA: usize = 448;
/// Blocks in the library's zeroed data. They use memory as they are used.
const STATIC: usize = 1024;
/// Blocks that are used before threads are asked whether they are gone, at first. Doubled where
/// most are not.
const FIRST: usize = 64;
/// There is no key.
const NO_KEY: u32 = u32::MAX;
/// Pause before it is tried again where there is no memory for another block, nanoseconds.
const PAUSE: libc::c_long = 10_000_000;
/// Type of a segment with thread-local storage (`elf.h`), and what clrscope makes of it.
const PT_TLS: u32 = 7;
const PT_HIDDEN_TLS: u32 = 0x6c63_7273;
const PT_LOAD: u32 = 1;
/// How far the thread control block is searched for the place of a key's value. `struct pthread` of
/// glibc on x86-64 has 2,304 bytes.
#[cfg(target_env = "gnu")]
const CONTROL_BLOCK: usize = 2048;

/// What this library stores for one thread.
#[repr(C, align(64))]
pub struct Block {
    data: UnsafeCell<[u8; DATA]>,
    /// The thread's call tree, for the hooks: they find it without a call.
    pub tree: Cell<*const Tree>,
    /// The next block of those that were allocated.
    next: AtomicPtr<Block>,
    /// The thread that it belongs to; 0 if it is free.
    owner: AtomicU32,
    /// Whether the C library could not remember it for its owner.
    forgotten: AtomicBool,
}

// SAFETY: data and tree belong to the thread that owns the block; all else is atomic.
unsafe impl Sync for Block {}

static BLOCKS: [Block; STATIC] = [const {
    Block {
        data: UnsafeCell::new([0; DATA]),
        tree: Cell::new(null()),
        next: AtomicPtr::new(null_mut()),
        owner: AtomicU32::new(0),
        forgotten: AtomicBool::new(false),
    }
}; STATIC];
/// Blocks that were allocated because the others were taken.
static MORE: AtomicPtr<Block> = AtomicPtr::new(null_mut());
/// How many of [`BLOCKS`] are used before threads are asked whether they are gone.
static LIMIT: AtomicUsize = AtomicUsize::new(FIRST);
/// How many blocks were allocated, and how many there must be before threads are asked again
/// whether they are gone.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static NEXT_SEARCH: AtomicUsize = AtomicUsize::new(0);

/// Where a thread's block is found.
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);
/// Whether there is a key, and blocks are large enough.
static READY: AtomicBool = AtomicBool::new(false);
/// Whether the C library has failed to remember a block.
static ANY_FORGOTTEN: AtomicBool = AtomicBool::new(false);
/// Instances that the runtime has of us, see [`Used`].
static USED: AtomicUsize = AtomicUsize::new(0);
/// What new blocks begin with, and how many bytes of it.
static TEMPLATE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static TEMPLATE_SIZE: AtomicUsize = AtomicUsize::new(0);

/// Where the key's value stands, in bytes from the thread pointer; 0 if that is not known. In front
/// of it is the sequence number of the key that it was set for (`struct pthread_key_data`,
/// nptl/descr.h): numbers of keys are used again.
pub static PLACE: AtomicUsize = AtomicUsize::new(0);
/// The sequence number of our key.
pub static SEQUENCE: AtomicUsize = AtomicUsize::new(0);

// Calls of the compiler for thread-local storage come here, and not to the loader: a hidden symbol
// takes precedence. The argument is where the linker and the loader have put the number of the
// module, which does not matter, and the offset.
global_asm!(
    ".pushsection .text.__tls_get_addr,\"ax\",@progbits",
    ".globl __tls_get_addr",
    ".hidden __tls_get_addr",
    ".type __tls_get_addr,@function",
    "__tls_get_addr:",
    ".cfi_startproc",
    "mov rax, qword ptr [rip + {place}]",
    "test rax, rax",
    "jz 2f",
    "mov rcx, qword ptr fs:[rax - 8]",
    "cmp rcx, qword ptr [rip + {sequence}]",
    "jne 2f",
    "mov rax, qword ptr fs:[rax]",
    "test rax, rax",
    "jz 2f",
    "add rax, qword ptr [rdi + 8]",
    "ret",
    "2: jmp {find}",
    ".cfi_endproc",
    ".size __tls_get_addr, . - __tls_get_addr",
    ".hidden __ehdr_start",
    ".popsection",
    place = sym PLACE,
    sequence = sym SEQUENCE,
    find = sym find,
);

/// What `__tls_get_addr` is given (`tls_index`, sysdeps/x86_64/dl-tls.h).
#[repr(C)]
struct Index {
    module: usize,
    offset: usize,
}

extern "C" fn find(index: &Index) -> *mut u8 {
    block().data.get().cast::<u8>().wrapping_add(index.offset)
}

/// This thread's block.
pub fn block() -> &'static Block {
    let key = KEY.load(Relaxed);
    let known = if key == NO_KEY {
        None
    } else {
        // SAFETY: it is our key; what was set is a block, and blocks are given back only with the
        // library.
        unsafe { libc::pthread_getspecific(key).cast::<Block>().as_ref() }
    };
    match known {
        Some(block) => block,
        None => first_block(key),
    }
}

/// Gives this thread a block. The number of the last error is the program's, and stays what it is.
#[cold]
fn first_block(key: libc::pthread_key_t) -> &'static Block {
    // SAFETY: the place is this thread's own.
    let (place, error) = unsafe { (libc::__errno_location(), *libc::__errno_location()) };
    let tid = current_tid();
    let block = forgotten(tid).unwrap_or_else(|| claim(tid));
    // It may have to allocate, for keys above 31. Without memory the block is found by its owner.
    // SAFETY: the block lives as long as the library.
    let is_set =
        key != NO_KEY && unsafe { libc::pthread_setspecific(key, from_ref(block).cast()) } == 0;
    if !is_set {
        block.forgotten.store(true, Relaxed);
        ANY_FORGOTTEN.store(true, Relaxed);
    }
    // SAFETY: as above.
    unsafe { *place = error };
    block
}

fn blocks() -> impl Iterator<Item = &'static Block> {
    // SAFETY: what stands there lives as long as the library.
    let at = |place: &AtomicPtr<Block>| unsafe { place.load(Acquire).as_ref() };
    BLOCKS.iter().chain(std::iter::successors(at(&MORE), move |block| at(&block.next)))
}

/// The block of a thread for which the C library could not remember it.
fn forgotten(tid: u32) -> Option<&'static Block> {
    let is_its = |block: &&Block| block.forgotten.load(Relaxed) && block.owner.load(Relaxed) == tid;
    if ANY_FORGOTTEN.load(Relaxed) { blocks().find(is_its) } else { None }
}

/// A free block, as it is at first.
fn claim(tid: u32) -> &'static Block {
    loop {
        let limit = LIMIT.load(Relaxed);
        let found = free_one(limit, tid)
            .or_else(|| take_back_all(limit).then(|| free_one(LIMIT.load(Relaxed), tid)).flatten());
        // Blocks of the library that are not used yet come first.
        if found.is_none() && LIMIT.load(Relaxed) > limit {
            continue;
        }
        if let Some(block) = found.or_else(|| another(tid)) {
            block.begin();
            return block;
        }
        NEXT_SEARCH.store(0, Relaxed);
        let pause = libc::timespec { tv_sec: 0, tv_nsec: PAUSE };
        // SAFETY: the pause is a local.
        unsafe { libc::nanosleep(&pause, null_mut()) };
    }
}

/// Frees the blocks of threads that are gone, unless that was done not long ago. Whether it was
/// done now.
fn take_back_all(limit: usize) -> bool {
    let allocated = ALLOCATED.load(Relaxed);
    if limit == STATIC && allocated < NEXT_SEARCH.load(Relaxed) {
        return false;
    }
    let taken_back = BLOCKS
        .iter()
        .take(limit)
        .chain(blocks().skip(STATIC))
        .filter(|block| take_back(block))
        .count();
    let all = limit + allocated;
    if taken_back <= all / 4 {
        LIMIT.fetch_max(STATIC.min(limit.saturating_mul(2)), Relaxed);
        NEXT_SEARCH.store(allocated + all / 4, Relaxed);
    }
    true
}

fn free_one(limit: usize, tid: u32) -> Option<&'static Block> {
    let mut within = BLOCKS.iter().take(limit).chain(blocks().skip(STATIC));
    within.find(|block| {
        block.owner.load(Relaxed) == 0
            && block.owner.compare_exchange(0, tid, AcqRel, Relaxed).is_ok()
    })
}

/// Frees a block whose thread is gone.
fn take_back(block: &Block) -> bool {
    let owner = block.owner.load(Relaxed);
    owner != 0 && is_gone(owner) && block.owner.compare_exchange(owner, 0, AcqRel, Relaxed).is_ok()
}

/// Allocates a block.
fn another(tid: u32) -> Option<&'static Block> {
    // SAFETY: the layout has a size.
    let new = unsafe { alloc_zeroed(Layout::new::<Block>()).cast::<Block>() };
    // SAFETY: all of it is valid when it is zero.
    let block = unsafe { new.as_ref()? };
    block.owner.store(tid, Relaxed);
    let mut first = MORE.load(Relaxed);
    loop {
        block.next.store(first, Relaxed);
        match MORE.compare_exchange_weak(first, new, Release, Relaxed) {
            Ok(_) => {
                ALLOCATED.fetch_add(1, Relaxed);
                return Some(block);
            }
            Err(now) => first = now,
        }
    }
}

impl Block {
    /// Makes it what a new thread finds. The caller owns it.
    fn begin(&self) {
        let (template, size) = (TEMPLATE.load(Relaxed), TEMPLATE_SIZE.load(Relaxed).min(DATA));
        let data = self.data.get().cast::<u8>();
        // SAFETY: only the owner uses the data, which is `DATA` bytes long; the template has at
        // least `size` bytes and is never written.
        unsafe {
            write_bytes(data, 0, DATA);
            copy_nonoverlapping(template.cast_const(), data, size);
        }
        self.tree.set(null());
        self.forgotten.store(false, Relaxed);
    }
}

/// Whether threads can have storage. If not, nothing else of the library may be used: there is no
/// key left in the process, or it has another C library.
pub fn is_ready() -> bool {
    READY.load(Relaxed)
}

/// An instance that the runtime has of us. While there is one, threads may come here, also at the
/// end of the process.
#[derive(Debug)]
pub struct Used(());

impl Used {
    /// Counts an instance.
    pub fn count() -> Self {
        USED.fetch_add(1, SeqCst);
        Self(())
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        USED.fetch_sub(1, SeqCst);
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = loaded;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = unloaded;

/// The library was loaded: called before anything else in it.
extern "C" fn loaded() {
    if !is_right_c_library() {
        return;
    }
    let mut key = 0;
    // SAFETY: the key is a local.
    if unsafe { libc::pthread_key_create(&mut key, None) } != 0 {
        return;
    }
    KEY.store(key, Relaxed);
    ledger::set(Resource::ThreadKeys, 1);
    if let Some((template, size, memory, align)) = template() {
        TEMPLATE.store(template, Relaxed);
        TEMPLATE_SIZE.store(size, Relaxed);
        if memory > DATA || align > align_of::<Block>() || template.addr() % align.max(1) != 0 {
            return;
        }
    }
    #[cfg(target_env = "gnu")]
    if let Some((place, sequence)) = measure(key) {
        SEQUENCE.store(sequence, Relaxed);
        PLACE.store(place, Relaxed);
    }
    READY.store(true, SeqCst);
}

/// Whether the process has the C library that this one is built for: musl loads libraries that were
/// built for glibc, and never unloads any.
fn is_right_c_library() -> bool {
    // SAFETY: the name is a C string.
    let is_gnu =
        !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"gnu_get_libc_version".as_ptr()) }.is_null();
    is_gnu == cfg!(target_env = "gnu")
}

/// The library is unloaded, or the process ends. Then threads may still come here, and all stays.
extern "C" fn unloaded() {
    if USED.load(SeqCst) != 0 || !READY.load(SeqCst) {
        return;
    }
    PLACE.store(0, SeqCst);
    // SAFETY: it is our key, and no code of ours that asks for it runs any more.
    unsafe { libc::pthread_key_delete(KEY.swap(NO_KEY, SeqCst)) };
    ledger::set(Resource::ThreadKeys, 0);
    let mut next = MORE.swap(null_mut(), AcqRel);
    // SAFETY: what stands in the list was allocated with this layout, and nobody uses it any more.
    while let Some(block) = unsafe { next.as_ref() } {
        let this = next;
        next = block.next.load(Relaxed);
        // SAFETY: as above.
        unsafe { dealloc(this.cast(), Layout::new::<Block>()) };
    }
}

/// Header of an ELF file (`Elf64_Ehdr`), and of a segment (`Elf64_Phdr`).
#[repr(C)]
struct FileHeader {
    before: [u8; 32],
    program_headers: u64,
    between: [u8; 14],
    header_size: u16,
    headers: u16,
}

#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical_address: u64,
    file_size: u64,
    memory_size: u64,
    align: u64,
}

/// The library's segment of thread-local storage: where what it begins with is loaded, how many
/// bytes that has, how many the storage has, and its alignment.
fn template() -> Option<(*mut u8, usize, usize, usize)> {
    let header: *const FileHeader;
    // SAFETY: the linker defines the symbol; its address is asked for, nothing else.
    unsafe {
        asm!("lea {}, [rip + __ehdr_start]", out(reg) header, options(nomem, nostack, preserves_flags))
    };
    // SAFETY: the first segment of a shared library begins with its header, which stays loaded, and
    // so do the program headers.
    let headers = unsafe {
        let first =
            header.cast::<u8>().add((*header).program_headers as usize).cast::<ProgramHeader>();
        std::slice::from_raw_parts(first, usize::from((*header).headers))
    };
    let start = headers.iter().find(|header| header.kind == PT_LOAD && header.offset == 0)?.address;
    let storage = headers.iter().find(|header| [PT_TLS, PT_HIDDEN_TLS].contains(&header.kind))?;
    let template =
        header.cast::<u8>().wrapping_add(storage.address.wrapping_sub(start) as usize).cast_mut();
    Some((
        template,
        storage.file_size as usize,
        storage.memory_size as usize,
        storage.align as usize,
    ))
}

/// Where in the thread control block the value of a key stands, and the sequence number in front of
/// it: found by setting it.
#[cfg(target_env = "gnu")]
fn measure(key: libc::pthread_key_t) -> Option<(usize, usize)> {
    let control_block: *const usize;
    // SAFETY: the first word of the thread control block is its own address (x86-64 psABI, variant
    // II).
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) control_block, options(nostack, preserves_flags, readonly))
    };
    // SAFETY: the control block is that large in all versions of glibc.
    let word = |index: usize| unsafe { control_block.add(index).read_volatile() };
    let (one, other) = (from_ref(&KEY).cast(), from_ref(&PLACE).cast());
    // SAFETY: it is our key.
    let set = |value: *const libc::c_void| unsafe { libc::pthread_setspecific(key, value) == 0 };
    let words = CONTROL_BLOCK / size_of::<usize>();
    let stands = |index: &usize| {
        set(one)
            && word(*index) == one.addr()
            && set(other)
            && word(*index) == other.addr()
            && set(null())
            && word(*index) == 0
    };
    let index = (2..words).find(stands);
    // Set by `set(other)` at the last candidate at the latest.
    if !set(null()) {
        return None;
    }
    let index = index?;
    set(one);
    let sequence = word(index - 1);
    set(null());
    // Keys in use have odd numbers (`KEY_UNUSED`, nptl/pthreadP.h).
    (sequence % 2 == 1).then_some((index * size_of::<usize>(), sequence))
}
