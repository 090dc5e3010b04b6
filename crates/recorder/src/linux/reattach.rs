//! The resident agent of a process: it is found below `/proc/<pid>/fd`, and takes the next session.

use super::{
    identity::Identity,
    staging::{AGENT_NAME, IDLE_NAME},
    target::Target,
};
use crate::{RecordError, notice};
use diagnostics::proc;
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{
        AtFlags, FlockOperation, MemfdFlags, Mode, OFlags, StatxFlags, flock, memfd_create, open,
        statx,
    },
    io::Errno,
    pipe::PipeFlags,
};
use std::{
    fs::{File, read_dir, read_link},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use wire::ResidentState;

/// How long the agent may take to read a session's configuration.
const LIMIT: Duration = Duration::from_secs(3);
/// How long an agent that leaves may take, with the time until it notices that its clrscope is
/// gone.
pub(super) const LEAVE_LIMIT: Duration = Duration::from_secs(2);
/// How long the runtime may take to unload an agent that has stopped: on a busy machine it looks
/// after five seconds.
pub(super) const UNLOAD_LIMIT: Duration = Duration::from_secs(7);
/// How long a resident agent may take to revert what a session has changed: there may be tens of
/// thousands of methods.
const REVERT_LIMIT: Duration = Duration::from_secs(60);
/// How long another clrscope may take to load a main profiler.
const LOAD_LIMIT: Duration = Duration::from_secs(20);
/// How long agents that leave may take where there is no room for another one: on a busy machine
/// the runtime unloads them late.
const ROOM_LIMIT: Duration = Duration::from_secs(6);
/// Libraries of ours in a process, unless several commands record at the same time. No other is
/// loaded where as many are left, and will not leave.
const MOST_MAPPED: usize = 2;
/// The agent's thread where it is the main profiler, and where it is beside one.
const MAIN_THREAD: &str = "clrscope-main";
const BESIDE_THREAD: &str = "clrscope-agent";

/// A resident agent.
#[derive(Debug)]
pub(super) struct Resident {
    state: File,
    /// Where the target has it.
    place: PathBuf,
    pipe: PathBuf,
    owner: Identity,
}

impl Resident {
    /// The one of a process, if it has one.
    ///
    /// # Errors
    /// [`RecordError::StaleAgent`] for one of another protocol.
    pub fn find(target: &Target, owner: Identity) -> Result<Option<Self>, RecordError> {
        let folder = PathBuf::from(format!("/proc/{}/fd", target.pid));
        // Who may not see it could not attach either.
        let Ok(entries) = read_dir(&folder) else { return Ok(None) };
        for entry in entries.flatten() {
            let Ok(link) = read_link(entry.path()) else { continue };
            let Some((protocol, pipe)) = link.to_str().and_then(wire::resident_of) else {
                continue;
            };
            if protocol != wire::PROTOCOL_VERSION {
                return Err(RecordError::StaleAgent { pid: target.pid, found: protocol });
            }
            let Ok(state) = reopen(owner, &entry.path(), Nameless::MemoryFile, OFlags::RDONLY)
            else {
                continue;
            };
            let (place, pipe) = (entry.path(), folder.join(pipe.to_string()));
            return Ok(Some(Self { state: state.into(), place, pipe, owner }));
        }
        Ok(None)
    }

    /// What it does.
    pub fn state(&self) -> Option<ResidentState> {
        let mut byte = [0];
        std::os::unix::fs::FileExt::read_exact_at(&self.state, &mut byte, 0).ok()?;
        ResidentState::of(byte[0])
    }

    /// Whether the target has closed it: the agent serves nobody any more.
    fn is_gone(&self) -> bool {
        let link = read_link(&self.place).ok();
        link.as_deref().and_then(Path::to_str).and_then(wire::resident_of).is_none()
    }

    /// Waits until it can take a session: false if it comes to be gone instead.
    ///
    /// # Errors
    /// [`RecordError::ResidentBusy`]: it records for somebody else, or does not become ready within
    /// the limit.
    pub fn wait_until_ready(&self, target: &Target) -> Result<bool, RecordError> {
        let began = Instant::now();
        let mut told = false;
        loop {
            let state = self.state();
            let limit = match state {
                Some(ResidentState::Waits) => return Ok(true),
                _ if self.is_gone() && target.is_alive() => return Ok(false),
                Some(ResidentState::Reverts) => REVERT_LIMIT,
                Some(ResidentState::Records) | None => LEAVE_LIMIT,
            };
            let pid = target.pid;
            if !target.is_alive() {
                return Err(RecordError::Exited { pid });
            }
            if began.elapsed() > limit || target.is_stopped() {
                return Err(RecordError::ResidentBusy {
                    pid,
                    reverts: limit == REVERT_LIMIT,
                    waited: began.elapsed(),
                });
            }
            if !told
                && state == Some(ResidentState::Reverts)
                && began.elapsed() > Duration::from_millis(500)
            {
                told = true;
                notice::tell(
                    "waiting for the agent in the process, which still reverts what the last \
                        recording changed",
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether it can take a session, now or in a moment: it is waited for where another agent
    /// would be a third library, for as long as it may take to notice that its clrscope is gone.
    pub fn is_ready_soon(&self, target: &Target) -> bool {
        let began = Instant::now();
        loop {
            if self.state() == Some(ResidentState::Waits) {
                return true;
            }
            if began.elapsed() > LEAVE_LIMIT
                || self.is_gone()
                || Loaded::of(target.pid).libraries < MOST_MAPPED
            {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Hands it a session. It answers at the socket that the configuration names.
    pub fn knock(&self, config: &[u8]) -> io::Result<()> {
        let mut message = (config.len() as u32).to_le_bytes().to_vec();
        message.extend_from_slice(config);
        let deadline = Instant::now() + LIMIT;
        let pipe = reopen(self.owner, &self.pipe, Nameless::Pipe, OFlags::WRONLY)?;
        wait(deadline, || match flock(&pipe, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(())),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        })?;
        let (mut pipe, mut rest) = (File::from(pipe), message.as_slice());
        wait(deadline, || match pipe.write(rest) {
            Ok(written) => {
                rest = &rest[written..];
                Ok(rest.is_empty().then_some(()))
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        })
    }
}

fn wait(deadline: Instant, mut try_it: impl FnMut() -> io::Result<Option<()>>) -> io::Result<()> {
    while try_it()?.is_none() {
        if Instant::now() > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Opens what a descriptor of the target stands for, if it is a pipe or a memory file, which have
/// no name. The target may put anything in its place at any time: so what was checked is opened,
/// and not the name again. It is opened with the rights of the target's user, because a descriptor
/// that was made with `O_PATH` may stand for a file that this user may not open. A file that
/// another program serves (FUSE) is not asked about itself: that may take for ever.
fn reopen(owner: Identity, path: &Path, expected: Nameless, access: OFlags) -> io::Result<OwnedFd> {
    let found = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    if device(found.as_fd())? != expected.device()? {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let number = std::os::fd::AsRawFd::as_raw_fd(&found.as_fd());
    let access = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(owner.run(|| open(format!("/proc/self/fd/{number}"), access, Mode::empty()))??)
}

/// Files without a name. All pipes are on one device of the kernel's, and all memory files on
/// another.
#[derive(Clone, Copy, Debug)]
enum Nameless {
    Pipe,
    MemoryFile,
}

impl Nameless {
    fn device(self) -> io::Result<(u32, u32)> {
        match self {
            Self::Pipe => device(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?.0.as_fd()),
            Self::MemoryFile => {
                device(memfd_create("clrscope-device", MemfdFlags::CLOEXEC)?.as_fd())
            }
        }
    }
}

/// The device of a file, as far as it is known without asking who serves it.
fn device(file: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = statx(file, "", flags, StatxFlags::TYPE)?;
    Ok((stat.stx_dev_major, stat.stx_dev_minor))
}

/// The right to load a main profiler into a process: one clrscope at a time has it. Two that both
/// find the slot free would both load one, and the runtime leaves the library of the one that it
/// refuses in the process.
///
/// It is a lock (flock(2)) on a file of the process in `/proc` that only its user and root can
/// open. It goes with clrscope, however that ends.
#[derive(Debug)]
pub(super) struct LoadTurn {
    _lock: Option<OwnedFd>,
}

impl LoadTurn {
    /// Waits for the turn. Where the file cannot be opened there is no order.
    ///
    /// # Errors
    /// [`RecordError::MainSlotTaken`]: another clrscope has been loading one for all that time.
    pub fn take(pid: u32, profiler: &'static str) -> Result<Self, RecordError> {
        let path = format!("/proc/{pid}/environ");
        let Ok(file) = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
            return Ok(Self { _lock: None });
        };
        let deadline = Instant::now() + LOAD_LIMIT;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _lock: Some(file) }),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(Errno::WOULDBLOCK) => {
                    return Err(RecordError::MainSlotTaken { ours: true, pid, profiler });
                }
                Err(_) => return Ok(Self { _lock: None }),
            }
        }
    }
}

/// What of ours is loaded in a process.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// The library whose instances do nothing but make up for main profilers that have left, as the
    /// process saw its file.
    pub placeholder: Option<PathBuf>,
    /// How many other libraries there are in which no session runs: their agents are leaving, or
    /// could not.
    pub left: usize,
    /// Whether a main profiler of ours is at work.
    pub main: bool,
    /// How many libraries there are in all.
    libraries: usize,
}

impl Loaded {
    /// Looks into a process.
    pub fn of(pid: u32) -> Self {
        let maps = proc::maps(pid).unwrap_or_default();
        let named = |path: &&Path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(AGENT_NAME))
        };
        let mut paths: Vec<&Path> =
            maps.iter().filter_map(|map| map.file()).filter(named).collect();
        order::sort_by(&mut paths, Ord::cmp);
        paths.dedup();
        let is_idle = |path: &&Path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(IDLE_NAME))
        };
        let libraries = paths.len();
        let (idle, others): (Vec<&Path>, Vec<&Path>) = paths.into_iter().partition(is_idle);
        let threads = proc::threads(pid).unwrap_or_default();
        let names: Vec<String> =
            threads.into_iter().filter_map(|tid| proc::thread_comm(pid, tid).ok()).collect();
        let count = |name: &str| names.iter().filter(|known| *known == name).count();
        let (mains, beside) = (count(MAIN_THREAD), count(BESIDE_THREAD));
        Self {
            left: others.len().saturating_sub(mains + beside) + idle.len().saturating_sub(1),
            placeholder: idle.first().map(|path| path.to_path_buf()),
            main: mains > 0,
            libraries,
        }
    }

    /// Whether there is anything.
    pub fn is_any(&self) -> bool {
        self.main || self.left > 0 || self.placeholder.is_some()
    }

    /// Whether it is worth waiting on, after so long, because fewer than [`MOST_MAPPED`] libraries
    /// may be mapped soon. An agent whose clrscope was killed looks for a moment as if it was at
    /// work.
    fn may_get_fewer(&self, waited: Duration) -> bool {
        self.libraries >= MOST_MAPPED && waited < LEAVE_LIMIT
    }

    /// Waits until there is room for one more agent, as the main profiler or beside it: those that
    /// are leaving take about a third of a second. Until they have left, no more than
    /// [`MOST_MAPPED`] libraries are mapped.
    ///
    /// # Errors
    /// [`RecordError::MainSlotTaken`] and [`RecordError::TooManyAgents`]. Nothing is loaded then:
    /// each attempt that a runtime refuses leaves a library behind.
    pub fn wait_for_room(pid: u32, main: Option<&'static str>) -> Result<(), RecordError> {
        let began = Instant::now();
        loop {
            let loaded = Self::of(pid);
            let (is_late, is_too_late) =
                (began.elapsed() > LEAVE_LIMIT, began.elapsed() > ROOM_LIMIT);
            let is_full = loaded.left + usize::from(loaded.placeholder.is_some()) >= MOST_MAPPED;
            match main {
                Some(profiler) if loaded.main && is_late => {
                    return Err(RecordError::MainSlotTaken { ours: true, pid, profiler });
                }
                _ if is_full && is_too_late => {
                    return Err(RecordError::TooManyAgents { pid, count: loaded.left + 1 });
                }
                _ if is_full => {}
                Some(_) if (loaded.main || loaded.left > 0) && !is_late => {}
                None if loaded.may_get_fewer(began.elapsed()) => {}
                _ => return Ok(()),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::FileType;
    use std::{
        io::pipe,
        os::fd::{AsRawFd, RawFd},
    };

    fn announced(name: String, state: u8) -> File {
        let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC).unwrap());
        file.write_all(&[state]).unwrap();
        file
    }

    fn target() -> Target {
        Target::new(std::process::id()).unwrap()
    }

    fn number(of: &impl AsRawFd) -> RawFd {
        of.as_raw_fd()
    }

    #[test]
    fn a_session_is_handed_over_through_the_pipe() {
        let (mut reader, _writer) = pipe().unwrap();
        let name = wire::resident_name(number(&reader) as u32);
        let _state = announced(name, ResidentState::Waits as u8);
        let resident = Resident::find(&target(), Identity::own()).unwrap().unwrap();
        assert!(resident.wait_until_ready(&target()).unwrap());
        resident.knock(b"config").unwrap();
        let mut bytes = [0; 10];
        io::Read::read_exact(&mut reader, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\x06\0\0\0config");
    }

    #[test]
    fn one_that_records_is_waited_for_and_then_named() {
        let (reader, _writer) = pipe().unwrap();
        let _state =
            announced(wire::resident_name(number(&reader) as u32), ResidentState::Records as u8);
        let resident = Resident::find(&target(), Identity::own()).unwrap().unwrap();
        let error = resident.wait_until_ready(&target()).unwrap_err();
        assert!(matches!(error, RecordError::ResidentBusy { reverts: false, .. }), "{error}");
        assert!(
            error.to_string().contains("records for another command (waited 2 s): try again"),
            "{error}"
        );
    }

    #[test]
    fn one_that_leaves_is_not_waited_for() {
        let (reader, _writer) = pipe().unwrap();
        let state =
            announced(wire::resident_name(number(&reader) as u32), ResidentState::Reverts as u8);
        let resident = Resident::find(&target(), Identity::own()).unwrap().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| resident.wait_until_ready(&target()).unwrap());
            std::thread::sleep(Duration::from_millis(50));
            drop(state);
            assert!(!waiting.join().unwrap());
        });
    }

    #[test]
    fn a_third_library_waits_for_those_that_may_leave() {
        let loaded = |libraries, left| Loaded { libraries, left, ..Loaded::default() };
        let waits = |loaded: Loaded, milliseconds| {
            loaded.may_get_fewer(Duration::from_millis(milliseconds))
        };
        assert!(!waits(loaded(0, 0), 0) && !waits(loaded(1, 1), 0));
        // Two commands that record at the same time.
        assert!(waits(loaded(2, 0), 1_900) && !waits(loaded(2, 0), 2_100));
        assert!(waits(loaded(2, 1), 1_900) && !waits(loaded(2, 1), 2_100));
    }

    #[test]
    fn one_at_a_time_may_load_a_main_profiler() {
        let pid = std::process::id();
        let first = LoadTurn::take(pid, "heap").unwrap();
        assert!(first._lock.is_some());
        std::thread::scope(|scope| {
            let began = Instant::now();
            let second = scope.spawn(move || LoadTurn::take(pid, "heap").map(|_| began.elapsed()));
            std::thread::sleep(Duration::from_millis(300));
            drop(first);
            assert!(second.join().unwrap().unwrap() >= Duration::from_millis(300));
        });
        // Where a process has no such file, nobody waits.
        assert!(LoadTurn::take(u32::MAX, "heap").unwrap()._lock.is_none());
    }

    #[test]
    fn an_agent_of_another_protocol_is_named() {
        let _state = announced("clrscope-resident-999-5".to_owned(), 1);
        let error = Resident::find(&target(), Identity::own()).unwrap_err();
        assert!(matches!(error, RecordError::StaleAgent { found: 999, .. }), "{error}");
    }

    /// A FIFO that has a name is somebody else's: a descriptor that stands for its path needs no
    /// right to it.
    #[test]
    fn a_pipe_with_a_name_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("private");
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        let mut reader =
            File::from(open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap());
        let named = open(&path, OFlags::PATH, Mode::empty()).unwrap();
        let _state =
            announced(wire::resident_name(number(&named) as u32), ResidentState::Waits as u8);
        let resident = Resident::find(&target(), Identity::own()).unwrap().unwrap();
        assert_eq!(resident.knock(b"config").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(io::Read::read(&mut reader, &mut [0; 16]).unwrap_or(0), 0);
    }

    /// Pipes belong to the user who made them, and so do their descriptors.
    #[test]
    fn a_pipe_of_another_user_is_not_written_to() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (mut reader, _writer) = pipe().unwrap();
        let _state =
            announced(wire::resident_name(number(&reader) as u32), ResidentState::Waits as u8);
        // Memory files may be opened by all.
        let resident =
            Resident::find(&target(), Identity { uid: 65534, gid: 65534 }).unwrap().unwrap();
        assert_eq!(resident.knock(b"config").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        drop(_writer);
        assert_eq!(io::Read::read(&mut reader, &mut [0; 16]).unwrap(), 0);
    }

    #[test]
    fn what_is_no_pipe_is_not_written_to() {
        let file = tempfile::tempfile().unwrap();
        let _state =
            announced(wire::resident_name(number(&file) as u32), ResidentState::Waits as u8);
        let resident = Resident::find(&target(), Identity::own()).unwrap().unwrap();
        resident.knock(b"config").unwrap_err();
        assert_eq!(file.metadata().unwrap().len(), 0);
    }
}
