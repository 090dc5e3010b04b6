//! Fault injection, in a build for tests only (feature `fault-injection`): makes selected
//! allocations and system calls of this library fail.
//!
//! The functions of the C library that this library and the standard library in it call are defined
//! here again, hidden, so that they bind to this library alone. Everything else in the process
//! calls the real functions. A *site* is a function together with the return addresses within this
//! library that led to it.
//!
//! The file that the variable [`FILE`] names says what to do: `count`, or `site <n> <hash>…` to
//! make the first call of any of these sites fail with the n-th of the errors that fit, or `after
//! <n>` to make all allocations from the n-th on fail. When a session ends, and when the library is
//! unloaded, the calls that were made are written to the same path with `.out` appended.

pub mod report;

use std::arch::global_asm;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};

/// The variable that names the file.
pub const FILE: &CStr = c"CLRSCOPE_FAULT_FILE";

const SITES: usize = 16_384;
/// Sites that can be named at a time.
const MOST_WANTED: usize = 64;
/// Return addresses that tell sites apart.
const DEPTH: usize = 8;
/// Return addresses that tell calls apart, whoever their callers' callers are: four belong to this
/// module, then come the call and its caller.
const NEAR: usize = 6;
/// The library's code is shorter than this.
const TEXT: usize = 4 << 20;

const OFF: u32 = 0;
const COUNT: u32 = 1;
const SITE: u32 = 2;
const AFTER: u32 = 3;

static MODE: AtomicU32 = AtomicU32::new(OFF);
/// Sites of which one is to fail.
static WANTED: [AtomicU64; MOST_WANTED] = [const { AtomicU64::new(0) }; MOST_WANTED];
/// Which error, or the number of the first allocation that is to fail.
static NUMBER: AtomicU64 = AtomicU64::new(0);
/// The site that failed.
static FAILED_SITE: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicBool = AtomicBool::new(false);
static FAILED: AtomicU64 = AtomicU64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static HASHES: [AtomicU64; SITES] = [const { AtomicU64::new(0) }; SITES];
/// What tells the calls of these sites apart.
static NEAR_HASHES: [AtomicU64; SITES] = [const { AtomicU64::new(0) }; SITES];
static COUNTS: [AtomicU32; SITES] = [const { AtomicU32::new(0) }; SITES];
static FUNCTIONS: [AtomicU32; SITES] = [const { AtomicU32::new(0) }; SITES];
/// Sites that found no place.
static LOST: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    static __ehdr_start: u8;
    fn _Unwind_Backtrace(
        call: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

struct Walk {
    base: usize,
    hash: u64,
    /// The same of the first [`NEAR`] frames.
    near: u64,
    frames: usize,
}

extern "C" fn frame(context: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: the unwinder's own context, and the walk of `site`.
    let (ip, walk) = unsafe { (_Unwind_GetIP(context), &mut *walk.cast::<Walk>()) };
    let offset = ip.wrapping_sub(walk.base);
    if offset >= TEXT || walk.frames >= DEPTH {
        // Any number but 0 ends the walk: nothing outside of this library is unwound.
        return 5;
    }
    walk.hash = (walk.hash ^ offset as u64).wrapping_mul(0x0100_0000_01b3);
    walk.frames += 1;
    if walk.frames <= NEAR {
        walk.near = walk.hash;
    }
    0
}

#[inline(never)]
fn site(function: u32) -> (u64, u64) {
    let base = (&raw const __ehdr_start).addr();
    let hash = 0xcbf2_9ce4_8422_2325 ^ u64::from(function);
    let mut walk = Walk { base, hash, near: hash, frames: 0 };
    // SAFETY: the walk is a local.
    unsafe { _Unwind_Backtrace(frame, (&raw mut walk).cast()) };
    (walk.hash.max(1), walk.near)
}

fn record((hash, near): (u64, u64), function: u32) {
    let start = hash as usize % SITES;
    for index in (start..SITES).chain(0..start).take(64) {
        let (Some(place), Some(near_place), Some(count), Some(what)) =
            (HASHES.get(index), NEAR_HASHES.get(index), COUNTS.get(index), FUNCTIONS.get(index))
        else {
            return;
        };
        let there = place.compare_exchange(0, hash, SeqCst, SeqCst).unwrap_or_else(|there| there);
        if there == 0 || there == hash {
            what.store(function, Relaxed);
            near_place.store(near, Relaxed);
            count.fetch_add(1, Relaxed);
            return;
        }
    }
    LOST.fetch_add(1, Relaxed);
}

/// Whether this call is to fail, and with which error.
#[inline(never)]
fn fails(function: u32, errors: &[c_int]) -> Option<c_int> {
    if MODE.load(Relaxed) == OFF || DONE.load(Relaxed) {
        return None;
    }
    // Asked in one place only, whatever the mode: this place, too, is part of the way.
    let (hash, near) = site(function);
    match MODE.load(Relaxed) {
        COUNT => {
            record((hash, near), function);
            None
        }
        SITE if WANTED.iter().any(|wanted| wanted.load(Relaxed) == hash)
            && !DONE.swap(true, SeqCst) =>
        {
            FAILED.fetch_add(1, Relaxed);
            FAILED_SITE.store(hash, Relaxed);
            errors.get(NUMBER.load(Relaxed) as usize % errors.len()).copied()
        }
        _ => None,
    }
}

/// Whether an allocation is to fail.
pub fn allocation_fails() -> bool {
    match MODE.load(Relaxed) {
        OFF => false,
        AFTER => {
            let fails = ALLOCATIONS.fetch_add(1, Relaxed) >= NUMBER.load(Relaxed);
            FAILED.fetch_add(u64::from(fails), Relaxed);
            fails
        }
        _ => fails(0, &[libc::ENOMEM]).is_some(),
    }
}

/// How a function says that it failed.
#[derive(Clone, Copy)]
enum Failure {
    /// -1, and `errno`.
    Minus,
    /// Null, and `errno`.
    Null,
    /// The error itself.
    Code,
}

macro_rules! wrapped {
    ($($index:literal $name:ident $wrapper:ident $failure:ident [$($error:ident),+];)+) => {
        const NAMES: &[&str] = &["alloc", $(stringify!($name)),+];
        static REAL: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];

        fn resolve() {
            $(
                // SAFETY: the name is a C string.
                let real = unsafe { libc::dlsym(libc::RTLD_NEXT, concat!(stringify!($name), "\0").as_ptr().cast()) };
                if let Some(place) = REAL.get($index) {
                    place.store(real.addr(), SeqCst);
                }
            )+
        }

        $(
            global_asm!(
                concat!(".globl ", stringify!($name)),
                concat!(".hidden ", stringify!($name)),
                concat!(".type ", stringify!($name), ",@function"),
                concat!(stringify!($name), ": jmp {wrapper}"),
                wrapper = sym $wrapper,
            );

            extern "C" fn $wrapper(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize) -> usize {
                call($index, Failure::$failure, &[$(libc::$error),+], [a, b, c, d, e, f, g])
            }
        )+
    };
}

wrapped! {
    1 accept4 wrap_accept4 Minus [EMFILE, ECONNABORTED, EINTR];
    2 bind wrap_bind Minus [EADDRINUSE, ENOMEM];
    3 connect wrap_connect Minus [ECONNREFUSED, EAGAIN, EINTR, EACCES];
    4 socket wrap_socket Minus [EMFILE, ENFILE, ENOMEM, EACCES];
    5 listen wrap_listen Minus [EADDRINUSE];
    6 eventfd wrap_eventfd Minus [EMFILE, ENOMEM];
    7 memfd_create wrap_memfd_create Minus [EMFILE, ENOMEM, ENOSYS];
    8 ftruncate64 wrap_ftruncate64 Minus [ENOSPC, EINTR];
    9 open64 wrap_open64 Minus [EMFILE, EACCES, EINTR, ENOENT];
    10 opendir wrap_opendir Null [EMFILE, ENOMEM, EACCES];
    11 read wrap_read Minus [EINTR, EIO, ESRCH];
    12 pread64 wrap_pread64 Minus [EINTR, ESRCH];
    13 write wrap_write Minus [EAGAIN, EINTR];
    14 recv wrap_recv Minus [ECONNRESET, EINTR, ENOMEM];
    15 send wrap_send Minus [EPIPE, EINTR, EAGAIN, ENOBUFS];
    16 sendmsg wrap_sendmsg Minus [EPIPE, EINTR, EAGAIN, ETOOMANYREFS];
    17 poll wrap_poll Minus [EINTR, ENOMEM];
    18 mmap wrap_mmap Minus [ENOMEM, EAGAIN];
    19 mmap64 wrap_mmap64 Minus [ENOMEM];
    20 mprotect wrap_mprotect Minus [ENOMEM];
    21 madvise wrap_madvise Minus [EINVAL, ENOMEM];
    22 fstat64 wrap_fstat64 Minus [EIO];
    23 statx wrap_statx Minus [ENOSYS, EIO];
    24 readlink wrap_readlink Minus [EACCES];
    25 getsockopt wrap_getsockopt Minus [ENOTCONN];
    26 setsockopt wrap_setsockopt Minus [ENOMEM];
    27 sigaltstack wrap_sigaltstack Minus [ENOMEM, EPERM];
    28 sigaction wrap_sigaction Minus [EINVAL];
    29 pthread_create wrap_pthread_create Code [EAGAIN, EPERM];
    30 pthread_getattr_np wrap_pthread_getattr_np Code [ENOMEM];
    31 process_vm_readv wrap_process_vm_readv Minus [EPERM, EFAULT, ENOSYS, ENOMEM];
    32 clock_nanosleep wrap_clock_nanosleep Code [EINTR];
    33 getrandom wrap_getrandom Minus [ENOSYS, EINTR];
    34 pthread_attr_init wrap_pthread_attr_init Code [ENOMEM];
    35 open wrap_open Minus [EMFILE, EACCES];
    36 clock_gettime wrap_clock_gettime Minus [EINVAL];
    37 getrlimit wrap_getrlimit Minus [EPERM];
    38 lseek64 wrap_lseek64 Minus [EINVAL];
    39 pread wrap_pread Minus [EINTR, EIO, ESRCH];
    40 pwrite wrap_pwrite Minus [EINTR, ENOSPC];
    41 writev wrap_writev Minus [EAGAIN, EINTR];
    42 fstat wrap_fstat Minus [EIO];
    43 stat64 wrap_stat64 Minus [EACCES, ENOENT];
    44 ftruncate wrap_ftruncate Minus [ENOSPC, EINTR];
    45 fallocate wrap_fallocate Minus [ENOSPC, EOPNOTSUPP, EINTR];
    46 fcntl wrap_fcntl Minus [EMFILE, EINVAL];
    47 flock wrap_flock Minus [EINTR, ENOLCK, EWOULDBLOCK];
    48 pipe2 wrap_pipe2 Minus [EMFILE, ENFILE];
    49 socketpair wrap_socketpair Minus [EMFILE, ENOMEM];
    50 mremap wrap_mremap Minus [ENOMEM];
    51 readdir64 wrap_readdir64 Null [EIO];
    52 realpath wrap_realpath Null [EACCES, ENOMEM];
    53 pthread_key_create wrap_pthread_key_create Code [EAGAIN, ENOMEM];
    54 pthread_setspecific wrap_pthread_setspecific Code [ENOMEM];
    55 nanosleep wrap_nanosleep Minus [EINTR];
}

fn real(index: usize) -> usize {
    REAL.get(index).map_or(0, |real| real.load(Relaxed))
}

#[inline(always)]
fn call(
    index: usize,
    failure: Failure,
    errors: &[c_int],
    [a, b, c, d, e, f, g]: [usize; 7],
) -> usize {
    // Every thread's clock may be asked; that of the machine never fails.
    let fails = if NAMES.get(index) == Some(&"clock_gettime") && (a as c_int) >= 0 {
        None
    } else {
        fails(index as u32, errors)
    };
    if let Some(error) = fails {
        return match failure {
            Failure::Code => error as usize,
            Failure::Minus | Failure::Null => {
                // SAFETY: the calling thread's errno.
                unsafe { *libc::__errno_location() = error };
                if matches!(failure, Failure::Null) { 0 } else { usize::MAX }
            }
        };
    }
    let mut function = real(index);
    if function == 0 {
        resolve();
        function = real(index);
    }
    // SAFETY: the C library's own function, which takes no more arguments, all of them whole
    // numbers or pointers.
    unsafe {
        let function: extern "C" fn(usize, usize, usize, usize, usize, usize, usize) -> usize =
            std::mem::transmute(function);
        function(a, b, c, d, e, f, g)
    }
}

global_asm!(
    ".globl syscall",
    ".hidden syscall",
    ".type syscall,@function",
    "syscall: jmp {wrapper}",
    wrapper = sym wrap_syscall,
);

/// Numbers of system calls that are made by number, and what they fail with. Functions follow those
/// of [`NAMES`].
const BY_NUMBER: &[(libc::c_long, &str, c_int)] = &[
    (libc::SYS_timer_create, "timer_create", libc::EAGAIN),
    (libc::SYS_timer_settime, "timer_settime", libc::EINVAL),
    (libc::SYS_rt_tgsigqueueinfo, "rt_tgsigqueueinfo", libc::EAGAIN),
    (libc::SYS_tgkill, "tgkill", libc::EPERM),
    (libc::SYS_openat2, "openat2", libc::EMFILE),
];

extern "C" fn wrap_syscall(
    n: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> usize {
    let known = BY_NUMBER.iter().position(|(number, ..)| *number == n as libc::c_long);
    if let Some((at, (_, _, error))) = known.and_then(|at| Some((at, BY_NUMBER.get(at)?)))
        && let Some(error) = fails((NAMES.len() + at) as u32, &[*error])
    {
        // SAFETY: the calling thread's errno.
        unsafe { *libc::__errno_location() = error };
        return usize::MAX;
    }
    static SYSCALL: AtomicUsize = AtomicUsize::new(0);
    let mut function = SYSCALL.load(Relaxed);
    if function == 0 {
        // SAFETY: the name is a C string.
        function = unsafe { libc::dlsym(libc::RTLD_NEXT, c"syscall".as_ptr()) }.addr();
        SYSCALL.store(function, Relaxed);
    }
    // SAFETY: the C library's own function.
    unsafe {
        let function: extern "C" fn(usize, usize, usize, usize, usize, usize, usize) -> usize =
            std::mem::transmute(function);
        function(n, a, b, c, d, e, f)
    }
}

fn name(function: u32) -> &'static str {
    let by_name = NAMES.get(function as usize).copied();
    by_name.unwrap_or_else(|| {
        BY_NUMBER.get(function as usize - NAMES.len()).map_or("?", |(_, name, _)| name)
    })
}

/// Something that needs no memory to be written to.
struct Text {
    bytes: [u8; 4096],
    used: usize,
    file: c_int,
}

impl Text {
    fn empty(&mut self) {
        // SAFETY: as many bytes as there are; straight from the C library.
        unsafe {
            let write: extern "C" fn(c_int, *const u8, usize) -> isize =
                std::mem::transmute(real(13));
            write(self.file, self.bytes.as_ptr(), self.used);
        }
        self.used = 0;
    }
}

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.used + bytes.len() > self.bytes.len() {
            self.empty();
        }
        for (to, from) in self.bytes.iter_mut().skip(self.used).zip(bytes) {
            *to = *from;
        }
        self.used += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The path of the file, with something behind it.
fn path(behind: &CStr) -> Option<[c_char; 512]> {
    // SAFETY: the name is a C string; what is there stays there in the processes that are tested.
    let path = unsafe { libc::getenv(FILE.as_ptr()) };
    if path.is_null() {
        return None;
    }
    let mut both = [0 as c_char; 512];
    // SAFETY: it is a C string.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes().iter().chain(behind.to_bytes());
    both.iter_mut().take(511).zip(bytes).for_each(|(to, from)| *to = *from as c_char);
    Some(both)
}

fn open_file(path: &[c_char; 512], flags: c_int) -> c_int {
    // SAFETY: a C string; straight from the C library.
    unsafe {
        let open: extern "C" fn(*const c_char, c_int, c_int) -> c_int =
            std::mem::transmute(real(9));
        open(path.as_ptr(), flags | libc::O_CLOEXEC, 0o600)
    }
}

/// A session begins: what is to be done is read anew.
pub fn begin() {
    resolve();
    MODE.store(OFF, SeqCst);
    DONE.store(false, SeqCst);
    for atomic in WANTED.iter().chain([&FAILED, &FAILED_SITE, &ALLOCATIONS, &LOST]) {
        atomic.store(0, SeqCst);
    }
    let Some(path) = path(c"") else { return };
    let file = open_file(&path, libc::O_RDONLY);
    if file < 0 {
        return;
    }
    let mut text = [0_u8; 2048];
    // SAFETY: the kernel writes at most `text.len()` bytes; the descriptor is closed once.
    let read = unsafe {
        let read: extern "C" fn(c_int, *mut u8, usize) -> isize = std::mem::transmute(real(11));
        let read = read(file, text.as_mut_ptr(), text.len());
        libc::close(file);
        read
    };
    let text = text
        .get(..usize::try_from(read).unwrap_or_default())
        .and_then(|text| std::str::from_utf8(text).ok());
    let mut words = text.unwrap_or_default().split_whitespace();
    let mode = match words.next() {
        Some("count") => COUNT,
        Some("site") => SITE,
        Some("after") => AFTER,
        _ => OFF,
    };
    NUMBER.store(words.next().and_then(|word| word.parse().ok()).unwrap_or_default(), SeqCst);
    for (wanted, word) in WANTED.iter().zip(words) {
        wanted.store(u64::from_str_radix(word, 16).unwrap_or_default(), SeqCst);
    }
    MODE.store(mode, SeqCst);
}
