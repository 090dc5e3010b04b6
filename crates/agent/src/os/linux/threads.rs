//! The agent's own threads.
//!
//! They are made with `pthread_create`, never with `std::thread`: spawning from a thread of the
//! runtime would register a thread-local destructor there, and glibc keeps a library mapped for as
//! long as a thread lives that has one. On our own threads the standard library may be used freely:
//! they end before the runtime unloads the library.

use crate::ledger::{self, Held};
use std::ffi::{CString, c_void};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use wire::{Resource, THREAD_STACK};

/// Signals of faults of the thread itself.
const FAULTS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];
/// What the names of all own threads begin with.
pub const OWN_NAMES: &str = "clrscope-";

/// Ids of the agent's own threads. Not a thread-local: the C library allocates those on first use,
/// and ends the process where there is no memory.
static OWN: [AtomicU32; Resource::Threads.budget() as usize] =
    [const { AtomicU32::new(0) }; Resource::Threads.budget() as usize];

/// Whether the caller is one of the agent's own threads.
pub fn is_own() -> bool {
    let tid = current_tid();
    OWN.iter().any(|own| own.load(SeqCst) == tid)
}

/// Whether a thread of this process has ended.
pub fn is_gone(tid: u32) -> bool {
    // SAFETY: signal 0 is none: it is only asked whether it could be sent. `ESRCH` is the one
    // answer of a thread that is not.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid as libc::pid_t, 0) };
    sent != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// An own thread that was started. It must be joined before the library may go.
#[derive(Debug)]
pub struct OwnThread {
    handle: libc::pthread_t,
    _held: [Held; 2],
}

// SAFETY: a thread's handle may be joined and compared from any thread (POSIX); only its type, a
// pointer on musl, keeps the compiler from knowing.
unsafe impl Send for OwnThread {}

struct Start {
    name: CString,
    body: Box<dyn FnOnce() + Send>,
}

extern "C" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` made this pointer from a box and gave it to this thread only.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    // SAFETY: the name is a C string that lives until after the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, start.name.as_ptr(), 0, 0, 0) };
    let tid = current_tid();
    // There are as many places as there may be threads.
    let place = OWN.iter().find(|own| own.compare_exchange(0, tid, SeqCst, SeqCst).is_ok());
    let body = start.body;
    // A panic must not leave through `pthread_create`'s frame. What panicked has said so in the
    // log.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    if let Some(place) = place {
        place.store(0, SeqCst);
    }
    std::ptr::null_mut()
}

impl OwnThread {
    /// Starts a thread with all signals blocked, so that no handler of the application ever runs on
    /// it, but for [`FAULTS`]. The name is cut at 15 bytes by the kernel; it begins with
    /// [`OWN_NAMES`].
    pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let take = |resource, amount| {
            ledger::take(resource, amount).ok_or_else(|| io::Error::from_raw_os_error(libc::EAGAIN))
        };
        let held = [take(Resource::Threads, 1)?, take(Resource::ThreadStacks, THREAD_STACK)?];
        let name = CString::new(name).unwrap_or_default();
        let start = Box::into_raw(Box::new(Start { name, body: Box::new(body) }));
        let result = create(start.cast());
        if result.is_err() {
            // SAFETY: no thread was made, so the box is still ours alone.
            drop(unsafe { Box::from_raw(start) });
        }
        result.map(|handle| Self { handle, _held: held })
    }

    /// Waits until the thread has ended.
    pub fn join(self) {
        // SAFETY: the handle came from `pthread_create`, is not detached, and is joined once as
        // `self` is gone.
        unsafe { libc::pthread_join(self.handle, std::ptr::null_mut()) };
    }

    /// Whether the caller is this thread, which then must not join itself.
    pub fn is_current(&self) -> bool {
        // SAFETY: both handles are valid.
        unsafe { libc::pthread_equal(self.handle, libc::pthread_self()) != 0 }
    }
}

fn create(start: *mut c_void) -> io::Result<libc::pthread_t> {
    let check =
        |code: i32| if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) };
    // On arm64 glibc's attributes are larger than musl's declaration of them; the array has room
    // for either.
    let mut attributes = [std::mem::MaybeUninit::<libc::pthread_attr_t>::zeroed(); 2];
    let attributes = attributes.as_mut_ptr().cast::<libc::pthread_attr_t>();
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    let mut handle = std::mem::MaybeUninit::<libc::pthread_t>::zeroed();
    // SAFETY: all pointers are to locals that live through the calls; `start` is handed to the new
    // thread, which frees it; the signal mask of the calling thread is restored on every way out.
    unsafe {
        check(libc::pthread_attr_init(attributes))?;
        libc::pthread_attr_setstacksize(attributes, THREAD_STACK as usize);
        libc::sigfillset(all.as_mut_ptr());
        // A fault of ours shall reach the runtime's handler, which says what happened and writes a
        // dump: while it is blocked the kernel ends the process without a word.
        for fault in FAULTS {
            libc::sigdelset(all.as_mut_ptr(), fault);
        }
        // A new thread inherits the mask: blocking here leaves no moment in which a signal could
        // hit it.
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let created = check(libc::pthread_create(handle.as_mut_ptr(), attributes, run, start));
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        libc::pthread_attr_destroy(attributes);
        created.map(|()| handle.assume_init())
    }
}

/// Thread id of the caller, as the operating system numbers it in the process's own pid namespace.
pub fn current_tid() -> u32 {
    // SAFETY: a system call without arguments.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_thread_has_its_name_and_no_signals() {
        let (send, receive) = mpsc::channel();
        let thread = OwnThread::spawn("clrscope-test", move || {
            let status =
                std::fs::read_to_string(format!("/proc/self/task/{}/status", current_tid()))
                    .unwrap();
            send.send(status).unwrap();
        })
        .unwrap();
        thread.join();
        let status = receive.recv().unwrap();
        assert!(status.starts_with("Name:\tclrscope-test\n"), "{status}");
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
        let blocked = u64::from_str_radix(blocked, 16).unwrap();
        // SIGPROF among them; SIGKILL and SIGSTOP cannot be blocked.
        assert_ne!(blocked & (1 << (libc::SIGPROF - 1)), 0, "{blocked:x}");
        assert_ne!(blocked & (1 << (libc::SIGTERM - 1)), 0, "{blocked:x}");
        assert!(FAULTS.iter().all(|fault| blocked & (1 << (fault - 1)) == 0), "{blocked:x}");
    }

    #[test]
    fn a_panic_ends_only_the_thread() {
        OwnThread::spawn("clrscope-test", || panic!("on purpose")).unwrap().join();
    }
}
