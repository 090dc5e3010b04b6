//! What the names of types say of objects: boxes of state machines, tasks, and what links them.

use super::Cause;

/// What the name of every box has in it, before the type of the state machine: those of tasks, the
/// same in programs that look for forgotten tasks, and those of pooled `ValueTask`s.
const BOXES: [&str; 3] =
    ["+AsyncStateMachineBox<", "+DebugFinalizableAsyncStateMachineBox<", "+StateMachineBox<"];

/// The type of the state machine, from the name of the type of a box; `None` for other types.
pub fn machine_of(name: &str) -> Option<&str> {
    let (_, after) = BOXES.iter().find_map(|part| name.split_once(part))?;
    after.strip_suffix('>')
}

/// Whether objects of a type are tasks, but no methods.
pub(super) fn is_task(name: &str) -> bool {
    let Some(kind) = name.strip_prefix("System.Threading.Tasks.Task") else {
        return name == "System.Threading.SemaphoreSlim+TaskNode" || is_link(name);
    };
    kind.is_empty()
        || kind.starts_with('<')
        || (kind.starts_with('+') && kind.contains("Promise"))
        || is_link(name)
}

/// Whether objects of a type wait for tasks without being methods: other tasks (`WhenAll`,
/// `ContinueWith`), or what a thread blocks on that waits for a task.
pub fn is_link(name: &str) -> bool {
    let Some(kind) = name.strip_prefix("System.Threading.Tasks.") else { return false };
    let of = |part: &str| kind.contains(part);
    (of("WhenA") && of("Promise"))
        || of("CompleteOnInvokePromise")
        || kind.starts_with("UnwrapPromise")
        || of("+CancellationPromise")
        || (kind.starts_with("Continuation") && of("TaskFrom"))
        || blocks_a_thread(name)
}

/// Whether a thread blocks on objects of a type until a task has completed: `Task.Wait`,
/// `Task.Result`.
pub fn blocks_a_thread(name: &str) -> bool {
    name == "System.Threading.Tasks.Task+SetOnInvokeMres"
}

/// What objects of a type are for who awaits whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A method.
    Method,
    /// Waits for tasks, and is no method.
    Link,
    /// Any other task.
    Task,
    /// Stands between a task and who awaits it.
    Way,
    /// The mark of tasks that have completed.
    Mark,
    /// A `TaskCompletionSource`.
    Source,
    /// Something of the framework's that may be waited for.
    Waitable,
    Other,
}

impl Kind {
    pub(super) fn of(name: &str) -> Self {
        let tasks = |name: &str| name.strip_prefix("System.Threading.Tasks.").map(str::to_owned);
        match name {
            "object" | "System.Object" => Self::Mark,
            "System.Action"
            | "object[]"
            | "System.Object[]"
            | "System.Collections.Generic.List<object>"
            | "System.Collections.Generic.List<System.Object>"
            | "System.Runtime.CompilerServices.AsyncMethodBuilderCore+ContinuationWrapper" => {
                Self::Way
            }
            _ if machine_of(name).is_some() => Self::Method,
            _ if is_link(name) => Self::Link,
            _ if is_task(name) => Self::Task,
            _ => match tasks(name) {
                Some(kind) if kind.starts_with("TaskCompletionSource") => Self::Source,
                Some(kind) if kind.contains("TaskContinuation") => Self::Way,
                _ if is_waitable(name) => Self::Waitable,
                _ => Self::Other,
            },
        }
    }
}

/// Whether a type may be one that a `ValueTask` stands for. Who refers to such an object is
/// referred to by it; so is who has its own task in a field, which is why not any type will do.
fn is_waitable(name: &str) -> bool {
    let framework = name.starts_with("System.") || name.starts_with("Microsoft.");
    let collection = name.starts_with("System.Collections.") || name.ends_with(']');
    let named = ["ValueTaskSource", "Awaiter", "Awaitable"].iter().any(|part| name.contains(part));
    named || (framework && !collection)
}

/// What kind of thing a type is to be waited for.
pub(super) fn cause_of(name: &str) -> Cause {
    let of = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    match name {
        _ if of(&["DelayPromise", "Timer"]) => Cause::Delay,
        _ if of(&["Semaphore"]) => Cause::Semaphore,
        _ if is_link(name) => Cause::Tasks,
        _ if name.starts_with("System.Threading.Channels.") => Cause::Channel,
        _ if of(&["System.IO.Pipelines."]) => Cause::Pipe,
        _ if of(&["Socket", "System.Net.", "Kestrel", "Http"]) => Cause::Network,
        _ if of(&["System.IO.", "FileHandle", "RandomAccess"]) => Cause::Stream,
        _ if is_task(name) => Cause::Promise,
        _ => Cause::Other,
    }
}
