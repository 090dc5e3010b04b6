//! The process that is recorded, as the recorder needs it.

use super::{identity::Identity, staging::Viewer};
use crate::RecordError;
use diagnostics::proc;
use rootfs::Root;
use rustix::io::Errno;
use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use wire::{BlockedCall, Standing};

/// Its number on all architectures that .NET runs on (signal(7)).
const SIGPROF: u32 = 27;

/// A process, by its id in our pid namespace.
#[derive(Debug)]
pub(super) struct Target {
    pub pid: u32,
    /// When the process started, in clock ticks since boot: tells a process from a later one of the
    /// same number.
    start_ticks: u64,
    /// Translates the agent's thread ids where its pid namespace is another one than ours.
    foreign_tids: Option<RefCell<ForeignTids>>,
}

impl Target {
    pub fn new(pid: u32) -> io::Result<Self> {
        let start_ticks = proc::stat(pid)?.start_ticks;
        let is_foreign = proc::ns_pid(pid).is_ok_and(|inner| inner != pid);
        Ok(Self { pid, start_ticks, foreign_tids: is_foreign.then(RefCell::default) })
    }

    /// Who has to see the agent's folder.
    ///
    /// # Errors
    /// When the facts of the process cannot be read: as a rule because it has ended.
    pub fn viewer(&self) -> Result<Viewer, RecordError> {
        self.read_viewer().map_err(|source| no_viewer(self.pid, source))
    }

    fn read_viewer(&self) -> io::Result<Viewer> {
        let status = proc::status(self.pid)?;
        let tmp = proc::environ(self.pid).ok().and_then(|variables| {
            variables
                .into_iter()
                .find(|(name, _)| name == "TMPDIR")
                .map(|(_, value)| PathBuf::from(value))
        });
        let root = Root::of_process(self.pid)?;
        // All of this is of one process, and not in part of a later one of the same number.
        if !self.is_alive() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Viewer {
            root,
            tmp: tmp.filter(|path| path.is_absolute()),
            owner: Identity { uid: status.uid, gid: status.gid },
        })
    }

    /// A thread id of the target's pid namespace in ours. A thread that ended meanwhile keeps its
    /// own number.
    pub fn host_tid(&self, inner: u32) -> u32 {
        let Some(known) = &self.foreign_tids else { return inner };
        let threads = || proc::threads(self.pid).unwrap_or_default();
        known.borrow_mut().translate(inner, threads, |tid| proc::ns_tid(self.pid, tid).ok())
    }

    /// Its threads, with the names that the system has for them.
    pub fn threads(&self) -> Vec<(u32, Option<String>)> {
        let threads = proc::threads(self.pid).unwrap_or_default();
        threads.into_iter().map(|tid| (tid, self.thread_name(tid))).collect()
    }

    /// The name that the system has for a thread.
    pub fn thread_name(&self, tid: u32) -> Option<String> {
        proc::thread_comm(self.pid, tid).ok().filter(|name| !name.is_empty())
    }

    /// Why the agent would not sample this process by signals, as far as that can be seen from
    /// outside.
    pub fn has_no_room_for_signals(&self) -> Option<&'static str> {
        let status = proc::status(self.pid).ok()?;
        if status.is_filtered {
            return Some(
                "a seccomp filter is in place, which may end the process for making a timer",
            );
        }
        (status.handled >> (SIGPROF - 1) & 1 != 0).then_some("SIGPROF has a handler already")
    }

    /// The system call in which a thread waits. `None` where it runs, or where we may not see it
    /// (`/proc/<pid>/task/<tid>/syscall` needs the rights of a debugger).
    pub fn system_call(&self, tid: u32) -> Option<BlockedCall> {
        match self.activity(tid) {
            Activity::Call(call) => Some(call),
            Activity::Running | Activity::Unknown => None,
        }
    }

    /// What a thread does in the kernel just now.
    pub fn activity(&self, tid: u32) -> Activity {
        std::fs::read_to_string(format!("/proc/{}/task/{tid}/syscall", self.pid))
            .map_or(Activity::Unknown, |line| Activity::parse(&line))
    }

    /// Number, state letter, time on a processor and time of birth of each thread, by ascending
    /// number. Times of birth are nanoseconds since the machine started, exact to a tick of the
    /// kernel's (10 ms).
    pub fn thread_times(&self) -> Vec<(u32, u8, u64, i64)> {
        let tick =
            1_000_000_000 / i64::try_from(proc::clock_ticks_per_second()).unwrap_or(100).max(1);
        let times = proc::threads(self.pid).unwrap_or_default().into_iter().filter_map(|tid| {
            let stat = proc::thread_stat(self.pid, tid).ok()?;
            // Kernels without scheduler statistics have ticks only.
            let ticks = || (stat.user_ticks + stat.system_ticks).saturating_mul(tick as u64);
            let run = proc::thread_run(self.pid, tid).unwrap_or_else(|_| ticks());
            let born = i64::try_from(stat.start_ticks).unwrap_or(i64::MAX).saturating_mul(tick);
            let state = u8::try_from(stat.state.letter()).unwrap_or(b'?');
            (!stat.state.is_over()).then_some((tid, state, run, born))
        });
        times.collect()
    }

    /// Whether it is stopped by a signal or a debugger, until somebody resumes it.
    pub fn is_stopped(&self) -> bool {
        proc::stat(self.pid).is_ok_and(|stat| stat.state.is_stopped())
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        proc::stat(self.pid)
            .is_ok_and(|stat| stat.start_ticks == self.start_ticks && !stat.state.is_over())
    }

    /// Waits until no library of this file name is loaded any more, or until the process has ended.
    /// `None` when time is up, or when we may not see what is loaded.
    pub fn wait_unloaded(&self, library: &str, limit: Duration) -> Option<()> {
        const FIRST: Duration = Duration::from_millis(260);
        const SELDOM: Duration = Duration::from_millis(65);
        const OFTEN: Duration = Duration::from_millis(5);
        let began = Instant::now();
        let deadline = began + limit;
        while self.is_alive() {
            let maps = proc::maps(self.pid).ok()?;
            let is_it = |path: &Path| path.to_string_lossy().contains(library);
            // A process on its way out has no maps at all.
            if !maps.is_empty() && !maps.iter().any(|map| map.file().is_some_and(is_it)) {
                break;
            }
            if Instant::now() >= deadline {
                return None;
            }
            // Reading the map stops the process for a moment, and the runtime takes about 300 ms in
            // any case.
            std::thread::sleep(if began.elapsed() < FIRST { SELDOM } else { OFTEN }.min(limit));
        }
        Some(())
    }

    /// Waits until it has ended, within a limit.
    pub fn wait_exit(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while self.is_alive() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Thread ids of another pid namespace in ours.
///
/// For a thread of our namespace, the kernel reports which number it has in the other one, not the
/// other way round. So an unknown number means to list all threads, and to ask about those that are
/// new. Where threads come and go faster than that, it would take all of our time; then some keep
/// the number that they have there.
#[derive(Debug)]
struct ForeignTids {
    /// Our number of each number there; of threads that have ended, too, because samples of them
    /// come late.
    ours: HashMap<u32, u32>,
    /// The threads of ours that were asked about and were there at the last list.
    asked: HashSet<u32>,
    began: Instant,
    spent: Duration,
}

impl Default for ForeignTids {
    fn default() -> Self {
        Self {
            ours: HashMap::new(),
            asked: HashSet::new(),
            began: Instant::now(),
            spent: Duration::ZERO,
        }
    }
}

impl ForeignTids {
    /// What may be spent at once.
    const ADVANCE: Duration = Duration::from_millis(500);
    /// In the long run, at most 1/`SHARE` of the time may be spent.
    const SHARE: u32 = 10;
    /// How many are remembered. Some 40 bytes each.
    const MOST: usize = 1 << 18;

    fn translate(
        &mut self,
        inner: u32,
        threads: impl FnOnce() -> Vec<u32>,
        number_there: impl Fn(u32) -> Option<u32>,
    ) -> u32 {
        if let Some(tid) = self.ours.get(&inner) {
            return *tid;
        }
        if self.spent > Self::ADVANCE + self.began.elapsed() / Self::SHARE {
            return inner;
        }
        let start = Instant::now();
        if self.ours.len() > Self::MOST {
            self.ours.clear();
            self.asked.clear();
        }
        let mut alive = HashSet::new();
        for tid in threads() {
            alive.insert(tid);
            if !self.asked.contains(&tid)
                && let Some(there) = number_there(tid)
            {
                self.ours.insert(there, tid);
            }
        }
        // One that is gone may come again as another thread.
        self.asked = alive;
        self.spent += start.elapsed();
        *self.ours.entry(inner).or_insert(inner)
    }
}

/// What the kernel says that a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// It waits in this system call.
    Call(BlockedCall),
    /// It runs, or is ready to.
    Running,
    /// It waits in something that is no system call, has ended, or we may not see it.
    Unknown,
}

impl Activity {
    /// From a line of `/proc/<pid>/task/<tid>/syscall`.
    fn parse(line: &str) -> Self {
        match Standing::parse(line.as_bytes()) {
            Some(Standing::Blocked { call: Some(call), .. }) => Self::Call(call),
            Some(Standing::Running) => Self::Running,
            Some(Standing::Blocked { call: None, .. }) | None => Self::Unknown,
        }
    }
}

/// What it means that the facts of a process cannot be read: as a rule that it has ended. Of one
/// that is just ending some are gone before the system says that it is.
pub(super) fn no_viewer(pid: u32, source: io::Error) -> RecordError {
    if source.kind() == io::ErrorKind::NotFound
        || Errno::from_io_error(&source) == Some(Errno::SRCH)
    {
        return RecordError::Exited { pid };
    }
    RecordError::Io { what: format!("reading the facts of process {pid}"), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_ending_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let target = Target::new(pid).unwrap();
        target.viewer().unwrap();
        child.kill().unwrap();
        // A zombie still has a status, and no root directory any more.
        while target.is_alive() {
            std::thread::yield_now();
        }
        let of_zombie = target.viewer().map_err(|error| error.exit_code());
        child.wait().unwrap();
        let of_none = target.viewer().map_err(|error| error.exit_code());
        assert_eq!((of_zombie.err(), of_none.err()), (Some(5), Some(5)));
        assert_eq!(no_viewer(pid, io::ErrorKind::PermissionDenied.into()).exit_code(), 6);
    }

    #[test]
    fn what_threads_do_is_read() {
        let line = "202 0x7f6810 0x189 0x0 0x0 0x0 0xffffffff 0x7f26e2d4c0d0 0x7f6811ca3f16\n";
        let call = BlockedCall { number: 202, arguments: [0x7f_6810, 0x189, 0, 0, 0, 0xffff_ffff] };
        assert_eq!(Activity::parse(line), Activity::Call(call));
        assert_eq!(Activity::parse("running\n"), Activity::Running);
        for unknown in ["-1 0x7f26e2d4c0d0 0x7f6811ca3f16\n", "", "202 0x1", "x"] {
            assert_eq!(Activity::parse(unknown), Activity::Unknown, "{unknown}");
        }
    }

    #[test]
    fn threads_of_another_namespace_are_asked_about_once() {
        let mut tids = ForeignTids::default();
        let asked = RefCell::new(Vec::new());
        let number_there = |tid| {
            asked.borrow_mut().push(tid);
            Some(tid - 1000)
        };
        assert_eq!(tids.translate(2, || vec![1001, 1002], number_there), 1002);
        assert_eq!(tids.translate(1, || unreachable!(), number_there), 1001);
        assert_eq!(tids.translate(3, || vec![1001, 1003], number_there), 1003);
        assert_eq!(*asked.borrow(), [1001, 1002, 1003]);
        // One that has ended before anybody looked keeps its number, without another list.
        assert_eq!(tids.translate(4, || vec![1001, 1003], number_there), 4);
        assert_eq!(tids.translate(4, || unreachable!(), number_there), 4);
        // A number of ours that is used again is asked about again.
        let later = |tid| Some(tid - 995);
        assert_eq!(tids.translate(7, || vec![1001, 1002], later), 1002);
        // No more than its share of the time.
        tids.spent = Duration::from_secs(3600);
        assert_eq!(tids.translate(9, || unreachable!(), later), 9);
    }

    #[test]
    fn a_library_is_waited_for_until_it_is_gone() {
        let own = Target::new(std::process::id()).unwrap();
        assert_eq!(own.wait_unloaded("libclrscope-0badcafe.so", Duration::ZERO), Some(()));
        let began = Instant::now();
        assert_eq!(own.wait_unloaded("libc.so", Duration::from_millis(30)), None);
        assert!(began.elapsed() >= Duration::from_millis(30));
    }
}
