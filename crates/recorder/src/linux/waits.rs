//! What a waiting thread waits for, told from the managed frames at its leaf.

use super::target::Activity;
use session::ThreadState;
use symbols::LeafWaits;
use wire::BlockedCall;

/// How many frames from the leaf are looked at: waits of the base library are less deep than that.
const DEPTH: usize = 24;

/// One rule: a type (an exact name, or a prefix that ends in `*`), a method (likewise), and what it
/// means.
struct Rule(&'static str, &'static str, ThreadState);

/// From the most to the least telling. The first rule that holds for any of the frames above user
/// code wins, so that `Task.Wait`, which blocks on a monitor, is a wait for a task and not for a
/// signal.
const RULES: &[Rule] = &[
    // Idle and housekeeping threads of the runtime and its libraries.
    Rule("System.Threading.PortableThreadPool+WorkerThread", "WaitForRequest", ThreadState::Idle),
    Rule("System.Threading.LowLevelLifoSemaphore", "*", ThreadState::Idle),
    Rule("System.Threading.PortableThreadPool+GateThread", "*", ThreadState::Idle),
    Rule("System.Threading.PortableThreadPool+WaitThread", "*", ThreadState::Idle),
    Rule("System.Threading.TimerQueue", "TimerThread", ThreadState::Idle),
    // Locks: whatever wants to be done once the lock is held.
    Rule("System.Threading.Monitor", "Enter*", ThreadState::Lock),
    Rule("System.Threading.Monitor", "TryEnter*", ThreadState::Lock),
    Rule("System.Threading.Monitor", "ReliableEnter*", ThreadState::Lock),
    Rule("System.Threading.Lock", "*", ThreadState::Lock),
    Rule("System.Threading.ReaderWriterLock*", "*", ThreadState::Lock),
    Rule("System.Threading.SpinLock", "*", ThreadState::Lock),
    Rule("System.Threading.LowLevelLock", "*", ThreadState::Lock),
    Rule("System.Net.Sockets.SocketAsyncEngine*", "*", ThreadState::Io),
    Rule("System.Threading.Tasks.Task*", "Wait*", ThreadState::Task),
    Rule("System.Threading.Tasks.Task*", "InternalWait*", ThreadState::Task),
    Rule("System.Threading.Tasks.Task*", "SpinThenBlockingWait", ThreadState::Task),
    Rule("System.Threading.Tasks.Task*", "GetResultCore", ThreadState::Task),
    Rule("System.Runtime.CompilerServices.TaskAwaiter*", "*", ThreadState::Task),
    // Sleep.
    Rule("System.Threading.Thread", "Sleep*", ThreadState::Sleep),
    Rule("System.Threading.Thread", "UninterruptibleSleep*", ThreadState::Sleep),
    Rule("System.Threading.Thread", "Join*", ThreadState::Event),
    // Input and output.
    Rule("System.Net.*", "*", ThreadState::Io),
    Rule("System.IO.*", "*", ThreadState::Io),
    Rule("System.Console*", "*", ThreadState::Io),
    Rule("System.ConsolePal*", "*", ThreadState::Io),
    Rule("System.Diagnostics.Process*", "*", ThreadState::Io),
    Rule("Microsoft.Win32.SafeHandles.Safe*", "*", ThreadState::Io),
    Rule("Interop+Sys", "*", ThreadState::Io),
    Rule("Interop+*Ssl*", "*", ThreadState::Io),
    Rule("Interop+Crypto", "*", ThreadState::Io),
    // Signals.
    Rule("System.Threading.Monitor", "*", ThreadState::Event),
    Rule("System.Threading.WaitHandle", "*", ThreadState::Event),
    Rule("System.Threading.ManualResetEventSlim", "*", ThreadState::Event),
    Rule("System.Threading.SemaphoreSlim", "*", ThreadState::Event),
    Rule("System.Threading.CountdownEvent", "*", ThreadState::Event),
    Rule("System.Threading.Barrier", "*", ThreadState::Event),
    Rule("System.Threading.SpinWait", "*", ThreadState::Event),
    Rule("System.Threading.LowLevel*", "*", ThreadState::Event),
    Rule("System.Threading.WaitSubsystem*", "*", ThreadState::Event),
    Rule("System.GC", "*", ThreadState::Gc),
];

/// System calls in which threads wait for files and sockets, by their x86-64 and arm64 numbers
/// (`unistd_64.h`).
#[cfg(target_arch = "x86_64")]
const IO_CALLS: &[u32] = &[
    0, 1, 7, 17, 18, 19, 20, 23, 42, 43, 44, 45, 46, 47, 61, 72, 74, 75, 232, 247, 270, 271, 281,
    288,
];
#[cfg(not(target_arch = "x86_64"))]
const IO_CALLS: &[u32] =
    &[22, 63, 64, 65, 66, 67, 68, 72, 73, 82, 83, 95, 202, 203, 206, 207, 211, 212, 242, 260];

/// System calls in which threads sleep.
#[cfg(target_arch = "x86_64")]
const SLEEP_CALLS: &[u32] = &[35, 230];
#[cfg(not(target_arch = "x86_64"))]
const SLEEP_CALLS: &[u32] = &[101, 115];

/// System calls that may wait, and where their time limit stands: in which argument, and what it is
/// there.
#[cfg(target_arch = "x86_64")]
const LIMITS: &[(u32, Limit)] = &[
    (202, Limit::Pointer(3)), // futex
    (449, Limit::Pointer(3)), // futex_waitv
    (7, Limit::Number(2)),    // poll
    (271, Limit::Pointer(2)), // ppoll
    (23, Limit::Pointer(4)),  // select
    (270, Limit::Pointer(4)), // pselect6
    (232, Limit::Number(3)),  // epoll_wait
    (281, Limit::Number(3)),  // epoll_pwait
    (441, Limit::Pointer(3)), // epoll_pwait2
    (35, Limit::Always),      // nanosleep
    (230, Limit::Always),     // clock_nanosleep
    (0, Limit::Never),        // read
    (34, Limit::Never),       // pause
    (43, Limit::Never),       // accept
    (288, Limit::Never),      // accept4
    (61, Limit::Never),       // wait4
    (247, Limit::Never),      // waitid
];
#[cfg(not(target_arch = "x86_64"))]
const LIMITS: &[(u32, Limit)] = &[
    (98, Limit::Pointer(3)),  // futex
    (449, Limit::Pointer(3)), // futex_waitv
    (73, Limit::Pointer(2)),  // ppoll
    (72, Limit::Pointer(4)),  // pselect6
    (22, Limit::Number(3)),   // epoll_pwait
    (441, Limit::Pointer(3)), // epoll_pwait2
    (101, Limit::Always),     // nanosleep
    (115, Limit::Always),     // clock_nanosleep
    (63, Limit::Never),       // read
    (202, Limit::Never),      // accept
    (242, Limit::Never),      // accept4
    (260, Limit::Never),      // wait4
    (95, Limit::Never),       // waitid
];

/// What a time limit is.
#[derive(Clone, Copy)]
enum Limit {
    /// A pointer in this argument; null for none.
    Pointer(usize),
    /// Milliseconds in this argument; below zero for none.
    Number(usize),
    Always,
    /// None, as long as the file has none of its own.
    Never,
}

/// Whether the system call in which a thread waits has a time limit; `None` where that is not known
/// of the call.
///
/// The runtime's waits without a limit are such to the kernel too: `WaitOne()` is a `futex` without
/// one.
pub(super) fn time_limit(call: &BlockedCall) -> Option<bool> {
    let (_, limit) = LIMITS.iter().find(|(number, _)| *number == call.number)?;
    Some(match *limit {
        Limit::Pointer(index) => *call.arguments.get(index)? != 0,
        // The kernel reads the lower half.
        Limit::Number(index) => *call.arguments.get(index)? as i32 >= 0,
        Limit::Always => true,
        Limit::Never => false,
    })
}

/// Classifies the wait of a thread that runs no managed code by its system call.
pub(super) fn classify_unmanaged(system_call: Option<u32>) -> ThreadState {
    match system_call {
        Some(call) if IO_CALLS.contains(&call) => ThreadState::Io,
        Some(call) if SLEEP_CALLS.contains(&call) => ThreadState::Sleep,
        // Threads of the runtime and of libraries wait for work.
        _ => ThreadState::Idle,
    }
}

/// Classifies a wait in which the innermost managed frame is no method that waits, by what that
/// method calls and by what the kernel says of the thread.
///
/// Up to .NET 9 the slow path of `lock` is native code of the runtime that shows no frame. So are
/// all waits of the runtime for itself (memory, compilation, a suspension), and both are a `futex`
/// to the kernel: only a method that takes a lock can wait for one.
pub(super) fn classify_leaf(activity: Activity, calls: Option<LeafWaits>) -> ThreadState {
    let call = match activity {
        Activity::Call(call) => Some(call),
        Activity::Running | Activity::Unknown => None,
    };
    let is_in = |calls: &[u32]| call.is_some_and(|call| calls.contains(&call.number));
    let native = calls.is_none_or(|calls| calls.native);
    // The kernel is asked a moment after the tick, so that the thread may wait for something else
    // by then. What its method cannot wait for, it did not wait for.
    if native && is_in(IO_CALLS) {
        return ThreadState::Io;
    }
    if native && is_in(SLEEP_CALLS) {
        return ThreadState::Sleep;
    }
    if let Some(LeafWaits { lock, signal, sleep, .. }) = calls {
        // Where the code leaves several, the time limit decides: `lock` has none, and a sleep
        // always has one. Between a condition and the lock that guards it, the condition is waited
        // for longer.
        let lock = (lock, ThreadState::Lock);
        let (signal, sleep) = ((signal, ThreadState::Event), (sleep, ThreadState::Sleep));
        let limited = call.as_ref().and_then(time_limit) == Some(true);
        let order = if limited { [sleep, signal, lock] } else { [signal, lock, sleep] };
        if let Some((_, state)) = order.into_iter().find(|(can, _)| *can) {
            return state;
        }
    }
    match (activity, calls) {
        // Its wait was over before its stack was taken: the stack is that of code that runs.
        (Activity::Running, _) => ThreadState::Running,
        (_, Some(calls)) if !calls.native => ThreadState::Runtime,
        _ => ThreadState::Other,
    }
}

/// Whether a type is on the stacks of workers of the thread pool, and of no other thread.
pub(super) fn is_of_pool(ty: &str) -> bool {
    const TYPES: [&str; 3] = [
        "System.Threading.ThreadPoolWorkQueue",
        "System.Threading.PortableThreadPool+WorkerThread",
        "System.Threading._ThreadPoolWaitCallback",
    ];
    TYPES.contains(&ty)
}

/// Classifies a wait by the frames `(type, method)` from the leaf on. Frames behind the first one
/// that is not of the base library are not looked at: they say who waits, not for what.
/// [`ThreadState::Other`] where no rule holds.
pub(super) fn classify<'a>(frames: impl Iterator<Item = (&'a str, &'a str)>) -> ThreadState {
    let mut best: Option<usize> = None;
    let mut any = false;
    for (ty, method) in frames.take(DEPTH) {
        any = true;
        if !(ty.starts_with("System.")
            || ty.starts_with("Interop")
            || ty.starts_with("Microsoft.Win32."))
        {
            break;
        }
        let before = best.unwrap_or(RULES.len());
        let found = RULES
            .iter()
            .take(before)
            .position(|rule| matches(rule.0, ty) && matches(rule.1, method));
        best = found.or(best);
    }
    match best.and_then(|index| RULES.get(index)) {
        Some(rule) => rule.2,
        // No managed frame at all: a pool worker without work, the finalizer thread.
        None if !any => ThreadState::Idle,
        None => ThreadState::Other,
    }
}

/// Matches a pattern with at most two `*`: at its end, and before a middle part.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut rest = rest;
    let mut open = false;
    for part in parts {
        open = part.is_empty();
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    open || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(frames: &[(&'static str, &'static str)]) -> ThreadState {
        classify(frames.iter().copied())
    }

    #[test]
    fn patterns() {
        assert!(
            matches("a*", "abc") && matches("a*", "a") && matches("*", "") && matches("a", "a")
        );
        assert!(!matches("a", "ab") && !matches("b*", "ab"));
        assert!(
            matches("Interop+*Ssl*", "Interop+OpenSsl") && !matches("Interop+*Ssl*", "Interop+Sys")
        );
    }

    #[test]
    fn waits_are_told_by_their_outer_meaning() {
        let monitor = ("System.Threading.Monitor", "ObjWait");
        let slim = ("System.Threading.ManualResetEventSlim", "Wait");
        assert_eq!(class(&[monitor, ("App.Program", "Run")]), ThreadState::Event);
        assert_eq!(class(&[monitor, slim, ("App.Program", "Run")]), ThreadState::Event);
        let enter = ("System.Threading.Monitor", "Enter_Slowpath");
        assert_eq!(
            class(&[enter, ("System.IO.TextWriter+SyncTextWriter", "WriteLine")]),
            ThreadState::Lock
        );
        let handle = ("System.Threading.WaitHandle", "WaitOneNoCheck");
        assert_eq!(class(&[handle, ("App.Program", "Run")]), ThreadState::Event);
        let rw_lock = ("System.Threading.ReaderWriterLockSlim", "WaitOnEvent");
        assert_eq!(class(&[handle, rw_lock, ("App.Program", "Run")]), ThreadState::Lock);
        assert_eq!(class(&[("System.Threading.Thread", "JoinInternal")]), ThreadState::Event);
        let spin = ("System.Threading.SpinLock", "ContinueTryEnter");
        assert_eq!(class(&[("System.Threading.Thread", "SleepInternal"), spin]), ThreadState::Lock);
        let task = ("System.Threading.Tasks.Task", "SpinThenBlockingWait");
        assert_eq!(class(&[monitor, slim, task, ("App.Program", "Run")]), ThreadState::Task);
        assert_eq!(
            class(&[("System.Threading.Thread", "SleepInternal"), ("App.Program", "Run")]),
            ThreadState::Sleep
        );
        assert_eq!(
            class(&[
                ("Interop+Sys", "Receive"),
                ("System.Net.Sockets.SocketPal", "SysReceive"),
                ("App.X", "Y")
            ]),
            ThreadState::Io
        );
        assert_eq!(
            class(&[
                ("System.Threading.LowLevelLifoSemaphore", "WaitForSignal"),
                ("System.Threading.PortableThreadPool+WorkerThread", "WorkerThreadStart"),
                ("System.Threading.Thread", "StartCallback")
            ]),
            ThreadState::Idle
        );
    }

    #[test]
    fn a_method_that_takes_no_lock_waits_for_none() {
        let call = |number| Activity::Call(BlockedCall { number, arguments: [0; 6] });
        let number = if cfg!(target_arch = "x86_64") { 202 } else { 98 };
        let futex = call(number);
        let limited = Activity::Call(BlockedCall { number, arguments: [1; 6] });
        let (io, sleep) = (call(IO_CALLS[0]), call(SLEEP_CALLS[0]));
        let nothing = LeafWaits::default();
        let (lock, native) =
            (LeafWaits { lock: true, ..nothing }, LeafWaits { native: true, ..nothing });
        let signal = LeafWaits { lock: true, signal: true, ..nothing };
        for (activity, calls, expected) in [
            (futex, Some(nothing), ThreadState::Runtime),
            (futex, Some(lock), ThreadState::Lock),
            (futex, Some(signal), ThreadState::Event),
            (futex, Some(native), ThreadState::Other),
            // By now it waits for something else.
            (limited, Some(lock), ThreadState::Lock),
            (io, Some(lock), ThreadState::Lock),
            (sleep, Some(lock), ThreadState::Lock),
            (io, None, ThreadState::Io),
            (futex, Some(LeafWaits { sleep: true, ..lock }), ThreadState::Lock),
            (limited, Some(LeafWaits { sleep: true, ..lock }), ThreadState::Sleep),
            (limited, Some(signal), ThreadState::Event),
            (futex, None, ThreadState::Other),
            (Activity::Running, Some(nothing), ThreadState::Running),
            (Activity::Running, Some(lock), ThreadState::Lock),
            (Activity::Running, None, ThreadState::Running),
            (Activity::Unknown, Some(lock), ThreadState::Lock),
            (Activity::Unknown, Some(nothing), ThreadState::Runtime),
            (Activity::Unknown, None, ThreadState::Other),
            (io, Some(native), ThreadState::Io),
            (sleep, Some(native), ThreadState::Sleep),
            (sleep, None, ThreadState::Sleep),
            // The allocator of the runtime sleeps for a moment where another thread allocates.
            (sleep, Some(nothing), ThreadState::Runtime),
        ] {
            assert_eq!(classify_leaf(activity, calls), expected, "{activity:?} {calls:?}");
        }
    }

    #[test]
    fn time_limits_are_told_by_the_arguments() {
        let limit = |number, index: usize, value: u64| {
            let mut arguments = [7; 6];
            arguments[index] = value;
            time_limit(&BlockedCall { number, arguments })
        };
        let futex = if cfg!(target_arch = "x86_64") { 202 } else { 98 };
        assert_eq!((limit(futex, 3, 0), limit(futex, 3, 0x7ffe)), (Some(false), Some(true)));
        let epoll_pwait = if cfg!(target_arch = "x86_64") { 281 } else { 22 };
        assert_eq!(
            (limit(epoll_pwait, 3, 0xffff_ffff), limit(epoll_pwait, 3, 20)),
            (Some(false), Some(true))
        );
        assert_eq!(limit(SLEEP_CALLS[0], 0, 0), Some(true));
        assert_eq!(limit(9999, 0, 0), None);
    }

    #[test]
    fn user_frames_do_not_count() {
        assert_eq!(
            class(&[("App.Monitor", "Enter"), ("System.Threading.Monitor", "Enter")]),
            ThreadState::Other
        );
        assert_eq!(class(&[]), ThreadState::Idle);
    }
}
