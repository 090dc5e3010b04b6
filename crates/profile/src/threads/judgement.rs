//! What a thread waits for by its stack, and whether it makes progress.

use session::{FunctionId, StackId, ThreadState};

use super::{Confidence, Standing, ThreadRole};
use crate::{Tables, call_sites::MOST_FRAMES};

/// What a stack says about a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// For work out of this.
    Work(&'static str),
    /// A thread of .NET that keeps something going.
    Housekeeping,
    /// For a connection.
    Connection,
    /// For input of the console.
    Console,
    /// For a task.
    Task,
    /// For time.
    Sleep,
    /// For the end of another thread.
    Join,
    /// For a lock.
    Lock,
    /// For a signal of this kind.
    Signal(&'static str),
    /// For input or output.
    Io,
    /// Not known.
    Other,
}

/// Beginnings of names of types and of methods, and what a frame of such means. The first that
/// holds for any frame above the program's own wins: a `SemaphoreSlim` in a `BlockingCollection` is
/// a wait for work.
const MEANINGS: &[(&str, &str, Meaning)] = &[
    ("System.Collections.Concurrent.BlockingCollection", "", Meaning::Work("a BlockingCollection")),
    ("System.Threading.Channels.", "", Meaning::Work("a channel")),
    ("System.Threading.PortableThreadPool", "", Meaning::Work("the thread pool")),
    ("System.Threading.LowLevelLifoSemaphore", "", Meaning::Work("the thread pool")),
    ("System.Threading.TimerQueue", "", Meaning::Housekeeping),
    ("System.Net.Sockets.SocketAsyncEngine", "", Meaning::Housekeeping),
    ("System.Net.Sockets.Socket", "Accept", Meaning::Connection),
    ("System.Net.Sockets.TcpListener", "Accept", Meaning::Connection),
    ("System.Net.HttpListener", "GetContext", Meaning::Connection),
    ("System.IO.Pipes.NamedPipeServerStream", "WaitForConnection", Meaning::Connection),
    ("System.Console", "", Meaning::Console),
    ("System.IO.StdInReader", "", Meaning::Console),
    ("System.Threading.Tasks.Task", "Wait", Meaning::Task),
    ("System.Threading.Tasks.Task", "InternalWait", Meaning::Task),
    ("System.Threading.Tasks.Task", "SpinThenBlockingWait", Meaning::Task),
    ("System.Threading.Tasks.Task", "GetResultCore", Meaning::Task),
    ("System.Runtime.CompilerServices.TaskAwaiter", "", Meaning::Task),
    ("System.Threading.Thread", "Sleep", Meaning::Sleep),
    ("System.Threading.Thread", "UninterruptibleSleep", Meaning::Sleep),
    ("System.Threading.Thread", "Join", Meaning::Join),
    ("System.Threading.ReaderWriterLock", "", Meaning::Lock),
    ("System.Threading.ManualResetEventSlim", "", Meaning::Signal("an event")),
    ("System.Threading.SemaphoreSlim", "", Meaning::Signal("a semaphore")),
    ("System.Threading.CountdownEvent", "", Meaning::Signal("a countdown")),
    ("System.Threading.Barrier", "", Meaning::Signal("a barrier")),
    ("System.Threading.Monitor", "Wait", Meaning::Signal("a pulse of a monitor")),
    ("System.Threading.Monitor", "ObjWait", Meaning::Signal("a pulse of a monitor")),
    ("System.Threading.Condition", "", Meaning::Signal("a pulse of a monitor")),
    ("System.Threading.Monitor", "", Meaning::Lock),
    ("System.Threading.Lock", "", Meaning::Lock),
    ("System.Threading.WaitHandle", "", Meaning::Signal("an event, semaphore or mutex")),
    ("System.Net.", "", Meaning::Io),
    ("System.IO.", "", Meaning::Io),
    ("System.Diagnostics.Process", "", Meaning::Io),
    ("Interop", "", Meaning::Io),
];

/// Types that are on the stacks of workers of the thread pool only.
pub(super) const POOL_TYPES: [&str; 3] = [
    "System.Threading.ThreadPoolWorkQueue",
    "System.Threading.PortableThreadPool+WorkerThread",
    "System.Threading._ThreadPoolWaitCallback",
];

/// Names of workers of the thread pool, from .NET 5 on; cut at 15 bytes where they come from the
/// kernel.
pub(super) const POOL_NAMES: [&str; 2] = [".NET TP Worker", ".NET ThreadPool"];

/// A thread that has used no more than this in its life has hardly worked.
const HARDLY_RAN: u64 = 20_000_000;

/// Fewest snapshots from which a thread is judged.
const FEWEST_LOOKS: u32 = 3;

impl Tables {
    /// Whether a stack has a method of the program on it.
    pub(crate) fn has_program(&self, stack: StackId) -> bool {
        self.functions_of(stack)
            .any(|function| self.is_managed(function) && !self.is_of_net(function))
    }

    pub(super) fn functions_of(&self, stack: StackId) -> impl Iterator<Item = FunctionId> {
        self.walk(stack).take(MOST_FRAMES).map(|frame| self.frame(frame).function)
    }

    /// Whether a method comes with .NET, by its module or, in a program of one file, by its type.
    pub(super) fn is_of_net(&self, function: FunctionId) -> bool {
        let ty = &self.function(function).type_name;
        self.is_framework(function) || ty.starts_with("System.") || ty.starts_with("Interop")
    }

    pub(super) fn meaning(&self, stack: StackId, state: ThreadState) -> Meaning {
        let managed = self.functions_of(stack).filter(|function| self.is_managed(*function));
        let above: Vec<FunctionId> =
            managed.take_while(|function| self.is_of_net(*function)).collect();
        let found = MEANINGS.iter().find(|(ty, method, _)| {
            above.iter().map(|function| self.function(*function)).any(|function| {
                function.type_name.starts_with(ty) && function.name.starts_with(method)
            })
        });
        match (found, state) {
            (Some((_, _, meaning)), _) => *meaning,
            // Up to .NET 9 the slow path of `lock` is native code that shows no frame.
            (None, ThreadState::Lock) => Meaning::Lock,
            (None, ThreadState::Io) => Meaning::Io,
            (None, ThreadState::Sleep) => Meaning::Sleep,
            (None, _) => Meaning::Other,
        }
    }
}

/// What a judgement rests on.
pub(super) struct Evidence {
    pub(super) role: ThreadRole,
    pub(super) meaning: Meaning,
    pub(super) state: ThreadState,
    /// Whether a method of the program is on its stack.
    pub(super) program: bool,
    pub(super) limited: Option<bool>,
    pub(super) snapshots: u32,
    pub(super) changes: u32,
    pub(super) cpu: u64,
    pub(super) cpu_of_life: u64,
}

pub(super) type Judgement = (Standing, Option<Confidence>, String);

/// Why a thread that makes no progress is idle, whatever it waits for.
pub(super) fn idle_by_role(role: ThreadRole, program: bool) -> Option<&'static str> {
    match role {
        ThreadRole::Native => Some("runs no managed code"),
        ThreadRole::Runtime => Some("a thread of the runtime without work"),
        ThreadRole::Pool if !program => Some("a worker of the thread pool without work"),
        _ if !program => Some("a thread of a library: no method of the program is on its stack"),
        _ => None,
    }
}

pub(super) fn judge(evidence: &Evidence) -> Judgement {
    let Evidence { role, meaning, state, program, limited, snapshots, changes, cpu, cpu_of_life } =
        *evidence;
    let plain = |standing: Standing, text: &str| (standing, None, text.to_owned());
    if cpu > 0 || changes > 0 || state == ThreadState::Running {
        return plain(
            Standing::Progress,
            if changes > 0 { "was at different places" } else { "used a processor" },
        );
    }
    if snapshots < FEWEST_LOOKS {
        return plain(Standing::Unjudged, "is in fewer than three snapshots");
    }
    if let Some(text) = idle_by_role(role, program) {
        return plain(Standing::Idle, text);
    }
    let no_limit = match limited {
        Some(true) => {
            return plain(Standing::Idle, "waits with a time limit that has not passed yet");
        }
        Some(false) => "without a time limit",
        None => "perhaps without a time limit (the system call may not be seen)",
    };
    match meaning {
        Meaning::Work(of) => {
            (Standing::Idle, None, format!("waits for work out of {of}; none came"))
        }
        Meaning::Housekeeping => plain(Standing::Idle, "keeps a part of .NET running"),
        Meaning::Connection => plain(Standing::Idle, "waits for a connection"),
        Meaning::Console => plain(Standing::Idle, "waits for input of the console"),
        Meaning::Lock => {
            plain(Standing::Blocked, "waits for a lock that another thread has held all the time")
        }
        _ if role == ThreadRole::Main => {
            plain(Standing::Idle, "the main thread waits for the end of the program")
        }
        Meaning::Task => plain(Standing::Blocked, "blocks on a task that has not completed"),
        Meaning::Join => plain(Standing::Blocked, "waits for the end of another thread"),
        Meaning::Io => {
            plain(Standing::Blocked, "waits for input or output, which the other side has to bring")
        }
        Meaning::Other => plain(
            Standing::Blocked,
            "waits in the program's own or native code for something not known",
        ),
        Meaning::Sleep => {
            let (confidence, text) = match limited {
                Some(_) => {
                    (Confidence::High, "sleeps for ever: only Thread.Interrupt could wake it")
                }
                None => {
                    (Confidence::Low, "sleeps, perhaps for ever (the system call may not be seen)")
                }
            };
            (Standing::ZombieSuspect, Some(confidence), text.to_owned())
        }
        Meaning::Signal(signal) => {
            let hardly = cpu_of_life < HARDLY_RAN;
            let confidence =
                if limited == Some(false) && hardly { Confidence::Medium } else { Confidence::Low };
            let life = match hardly {
                true => "it has hardly run in its life",
                false => "it has worked before, so what it waits for may come again",
            };
            (
                Standing::ZombieSuspect,
                Some(confidence),
                format!("waits for {signal} {no_limit}, and none came; {life}"),
            )
        }
    }
}
