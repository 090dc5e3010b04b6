//! What kind of wait a thread is in, by the name that a programmer has for it, derived from its
//! managed frames.

use session::ThreadState;

/// How many frames from the leaf are looked at: waits of the base library are less deep than that.
const DEPTH: usize = 24;

/// Beginning of a type's name, beginning of a method's name, and the kind that both together mean.
struct Rule(&'static str, &'static str, &'static str);

/// From the most to the least telling: `Task.Wait` blocks on a `ManualResetEventSlim`, and that on
/// a `Monitor`.
const RULES: &[Rule] = &[
    Rule("System.Threading.Thread", "Join", "Thread.Join"),
    Rule("System.Collections.Concurrent.BlockingCollection", "", "BlockingCollection"),
    Rule("System.Threading.Tasks.Task", "Wait", "Task.Wait"),
    Rule("System.Threading.Tasks.Task", "InternalWait", "Task.Wait"),
    Rule("System.Threading.Tasks.Task", "SpinThenBlockingWait", "Task.Wait"),
    Rule("System.Threading.Tasks.Task", "GetResultCore", "Task.Wait"),
    Rule("System.Runtime.CompilerServices.TaskAwaiter", "", "Task.Wait"),
    Rule("System.Threading.SemaphoreSlim", "", "SemaphoreSlim"),
    Rule("System.Threading.CountdownEvent", "", "CountdownEvent"),
    Rule("System.Threading.Barrier", "", "Barrier"),
    Rule("System.Threading.ReaderWriterLockSlim", "", "ReaderWriterLockSlim"),
    Rule("System.Threading.ReaderWriterLock", "", "ReaderWriterLock"),
    Rule("System.Threading.ManualResetEventSlim", "", "ManualResetEventSlim"),
    Rule("System.Threading.Lock", "", "System.Threading.Lock"),
    Rule("System.Threading.WaitHandle", "", "WaitHandle"),
    Rule("System.Threading.Thread", "Sleep", "Thread.Sleep"),
    Rule("System.Threading.Monitor", "Wait", "Monitor.Wait"),
    Rule("System.Threading.Monitor", "ObjWait", "Monitor.Wait"),
    Rule("System.Threading.Monitor", "", "Monitor"),
];

/// The kind of wait, from the frames `(type, method)` from the leaf on. `None` when no rule knows
/// it.
///
/// Frames behind the first one that is not of the base library say who waits, not for what, and are
/// not looked at.
fn wait_kind<'a>(frames: impl Iterator<Item = (&'a str, &'a str)>) -> Option<&'static str> {
    let library = |ty: &str| {
        ty.starts_with("System.") || ty.starts_with("Interop") || ty.starts_with("Microsoft.Win32.")
    };
    let frames: Vec<_> = frames.take(DEPTH).take_while(|(ty, _)| library(ty)).collect();
    let found = RULES.iter().find(|rule| {
        frames.iter().any(|(ty, method)| is(rule.0, ty) && method.starts_with(rule.1))
    });
    found.map(|rule| rule.2)
}

/// Whether a type is the one of a rule, whatever its generic arguments and the types nested in it.
fn is(rule: &str, ty: &str) -> bool {
    ty.strip_prefix(rule).is_some_and(|rest| rest.is_empty() || rest.starts_with(['<', '`', '+']))
}

/// What a thread does: the wait that it is in as a programmer calls it (`SemaphoreSlim`,
/// `Task.Wait`), by its frames `(type, method)` from the leaf on; else words for its state.
pub fn doing<'a>(
    state: ThreadState,
    frames: impl Iterator<Item = (&'a str, &'a str)>,
) -> &'static str {
    match state {
        // The stack of a thread that runs says nothing about waiting.
        ThreadState::Running | ThreadState::Io | ThreadState::Idle => words(state),
        _ => wait_kind(frames).unwrap_or_else(|| words(state)),
    }
}

/// Words for what a thread does that is in no such wait.
fn words(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Running => "running",
        ThreadState::Lock => "waiting",
        ThreadState::Sleep => "Thread.Sleep",
        ThreadState::Io => "input or output",
        ThreadState::Idle => "idle",
        ThreadState::Gc => "garbage collection",
        ThreadState::Task => "Task.Wait",
        ThreadState::Other | ThreadState::Event => "waiting",
        ThreadState::Runtime => "waiting in the runtime",
        ThreadState::NoProcessor | ThreadState::Throttled => "ready to run",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outer_meaning_counts() {
        let kind = |frames: &[(&'static str, &'static str)]| wait_kind(frames.iter().copied());
        let monitor = ("System.Threading.Monitor", "ObjWait");
        let slim = ("System.Threading.ManualResetEventSlim", "Wait");
        let user = ("App.Program", "Run");
        assert_eq!(kind(&[monitor, user]), Some("Monitor.Wait"));
        assert_eq!(kind(&[monitor, slim, user]), Some("ManualResetEventSlim"));
        let task = ("System.Threading.Tasks.Task<int>", "GetResultCore");
        assert_eq!(kind(&[monitor, slim, task, user]), Some("Task.Wait"));
        assert_eq!(
            kind(&[("System.Threading.Lock", "TryEnterSlow"), user]),
            Some("System.Threading.Lock")
        );
        assert_eq!(
            kind(&[("System.Threading.WaitHandle", "WaitOne"), user, task]),
            Some("WaitHandle")
        );
        assert_eq!(
            kind(&[("System.Threading.ReaderWriterLockSlim", "WaitOnEvent"), user]),
            Some("ReaderWriterLockSlim")
        );
        assert_eq!((kind(&[user, monitor]), kind(&[])), (None, None));
        assert_eq!(kind(&[("System.Threading.LockFreeThing", "X")]), None);
    }
}
