use wire::{Nanos, Record};

/// An object of the target, valid during one callback only: the collector may move it afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object(pub usize);

/// A class, by a number of the agent's that never stands for another one. The runtime's own
/// (`ClassID`) may: it is the address of a structure that is freed when its module is unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class(pub usize);

/// A function as the runtime numbers it (`FunctionID`), during one callback only; in what is handed
/// to the writer, a number of the agent's, 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Function(pub usize);

/// The part of a profiler that runs inside the target.
///
/// Callbacks come on threads of the target, from many at once; ticks and flushes come on threads of
/// the agent. A collector that panics is switched off and reported; the target continues.
pub trait Collector: Send + Sync {
    /// Id of its profiler.
    fn id(&self) -> &'static str;

    /// Nanoseconds between two calls of [`Self::tick`]; `None` for never.
    fn interval(&self) -> Option<Nanos> {
        None
    }

    /// Largest share of the time for which the runtime may be suspended for ticks of this
    /// collector, in thousandths. Ticks that would make it more are left out.
    fn most_stopped(&self) -> u64 {
        10
    }

    /// CPU time that ticks of this collector may use, in thousandths of one processor. Ticks that
    /// would make it more are left out.
    fn most_cpu(&self) -> u64 {
        25
    }

    /// A point in time of the tick's raster was reached.
    fn tick(&self, _cx: &mut dyn WorkerCx) {}

    /// An exception was thrown on this thread.
    fn exception_thrown(&self, _cx: &dyn ExceptionCx, _object: Object) {}

    /// A catch block was entered on this thread. The context may not know the class of what it
    /// caught.
    fn exception_caught(&self, _cx: &dyn ExceptionCx, _function: Function, _object: Object) {}

    /// About every second, and last of all after the last callback: hand out what was summed up.
    fn flush(&self, _cx: &mut dyn FlushCx) {}
}

/// What a collector may do in a callback, on a thread of the target: nothing here blocks or waits.
pub trait ExceptionCx {
    /// Now.
    fn now(&self) -> Nanos;
    /// Whole seconds since the session began, late by up to a few milliseconds; costs one load.
    fn second(&self) -> u32;
    /// Id of this thread, as the operating system numbers it.
    fn os_tid(&self) -> u32;
    /// Class of an object.
    fn class_of(&self, object: Object) -> Option<Class>;
    /// Message of an exception, cut at 4096 UTF-16 units.
    fn message_of(&self, object: Object) -> Option<String>;
    /// Number of the current period in which catches are reported, constant or counting up; `None`
    /// while they are not reported. Only a throw and a catch of the same number belong together.
    fn catches(&self) -> Option<u32> {
        Some(0)
    }
    /// This thread's managed stack, leaf first, up to the limit of the session; and whether it was
    /// cut.
    fn own_stack(&self) -> (Vec<u64>, bool);
    /// Hands a sample to the writer. If its queue is full the sample is dropped and counted.
    fn send(&self, sample: CallbackSample);
}

/// What callbacks hand to the writer; it gives the ids.
#[derive(Debug)]
pub enum CallbackSample {
    /// See [`wire::Exception`].
    Exception {
        /// Number of this sample.
        sequence: u64,
        /// When.
        time: Nanos,
        /// Thread.
        os_tid: u32,
        /// Class.
        class: Class,
        /// Message.
        message: Option<String>,
        /// Stack, leaf first.
        ips: Vec<u64>,
        /// Whether it was cut.
        truncated: bool,
        /// How many this sample stands for.
        weight: u64,
    },
    /// See [`wire::ExceptionCaught`].
    ExceptionCaught {
        /// The sample.
        sequence: u64,
        /// When.
        time: Nanos,
        /// Who caught it.
        function: Function,
    },
}

/// A managed thread at a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Id, as the operating system numbers it.
    pub os_tid: u32,
    /// Time on a CPU since it began.
    pub run: Nanos,
    /// State letter of `/proc/<pid>/task/<tid>/stat`.
    pub state: u8,
}

/// What a collector may do in a tick, on the agent's sampling thread.
pub trait WorkerCx {
    /// Now.
    fn now(&self) -> Nanos;
    /// Every managed thread that lives.
    fn tasks(&mut self) -> Vec<Task>;
    /// What each of these threads does and its stack, in their order. Blocked threads are read
    /// without stopping anything, where that is possible; else the threads are walked. A thread
    /// that has not run since its last stack was taken has the same one still.
    fn stacks(&mut self, tasks: &[Task]) -> Stacks;
    /// The stack of each of these threads in their order: the runtime is suspended and walks those
    /// that ran since their last walk. If there are none, it is not suspended.
    fn walk(&mut self, tasks: &[Task]) -> Stacks;
    /// Hands a record to the writer. If its queue is full the record is dropped and counted.
    fn send(&mut self, record: Record);
}

/// Result of [`WorkerCx::stacks`] and [`WorkerCx::walk`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// In the order of the tasks; `None` for a thread for which there was no time or memory left.
    pub threads: Vec<Option<Stacked>>,
    /// For how long the runtime was suspended, nanoseconds.
    pub stopped: Nanos,
    /// Whether the runtime refused to be suspended, so that the stacks of threads that ran are
    /// missing.
    pub refused: bool,
}

/// A thread whose stack was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stacked {
    /// Its stack; `None` if it has no managed frames, or runs and was not walked.
    pub stack: Option<u32>,
    /// Its state letter, as of when the stack was taken.
    pub state: u8,
}

/// What a collector may do in a flush, on the agent's writing thread.
pub trait FlushCx {
    /// Now.
    fn now(&self) -> Nanos;
    /// Id of a class on the wire; defines it first if need be.
    fn class(&mut self, class: Class) -> u32;
    /// Writes a record.
    fn write(&mut self, record: Record);
    /// Reports something that was lost.
    fn dropped(&mut self, reason: &'static str, total: u64);
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A worker's surroundings that play what a test says: each thread's stack id is its thread id.
    #[derive(Default)]
    pub(crate) struct Script {
        pub(crate) tasks: Vec<(u32, Nanos)>,
        pub(crate) asked: Vec<Vec<u32>>,
        pub(crate) sent: Vec<Record>,
        pub(crate) refused: bool,
        pub(crate) left_out: Vec<u32>,
    }

    impl WorkerCx for Script {
        fn now(&self) -> Nanos {
            0
        }
        fn tasks(&mut self) -> Vec<Task> {
            self.tasks.iter().map(|&(os_tid, run)| Task { os_tid, run, state: b'S' }).collect()
        }
        fn stacks(&mut self, tasks: &[Task]) -> Stacks {
            self.walk(tasks)
        }
        fn walk(&mut self, tasks: &[Task]) -> Stacks {
            self.asked.push(tasks.iter().map(|task| task.os_tid).collect());
            let stacked = |task: &Task| {
                let is_walked = !self.refused && !self.left_out.contains(&task.os_tid);
                is_walked.then_some(Stacked { stack: Some(task.os_tid), state: task.state })
            };
            let threads = tasks.iter().map(stacked).collect();
            Stacks { threads, stopped: 7, refused: self.refused }
        }
        fn send(&mut self, record: Record) {
            self.sent.push(record);
        }
    }
}
