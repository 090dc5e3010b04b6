//! Parsers of `/proc`: what the kernel says of processes and threads.
//!
//! Source of all formats: proc(5). Ids are those of clrscope's own pid namespace unless a name says
//! otherwise. A process may end at any time, so every function can fail with
//! [`io::ErrorKind::NotFound`] or `ESRCH`; another user's process fails with
//! [`io::ErrorKind::PermissionDenied`].

use rustix::fs::{CWD, Mode, OFlags, RawDir, openat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What a task is doing, by the letter in `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// `R`: on a processor, or ready for one.
    Running,
    /// `S`: waits and can be woken by a signal.
    Sleeping,
    /// `D`: waits in the kernel, for a disk mostly.
    DiskSleep,
    /// `T`: stopped by a signal such as SIGSTOP.
    Stopped,
    /// `t`: stopped by a debugger.
    Traced,
    /// `Z`: ended, but not yet waited for.
    Zombie,
    /// `X`: gone.
    Dead,
    /// `I`: an idle kernel thread.
    Idle,
    /// Any other letter.
    Other(char),
}

impl State {
    fn from_letter(letter: u8) -> Self {
        match letter {
            b'R' => State::Running,
            b'S' => State::Sleeping,
            b'D' => State::DiskSleep,
            b'T' => State::Stopped,
            b't' => State::Traced,
            b'Z' => State::Zombie,
            b'X' | b'x' => State::Dead,
            b'I' => State::Idle,
            other => State::Other(char::from(other)),
        }
    }

    /// The letter.
    pub fn letter(self) -> char {
        match self {
            State::Running => 'R',
            State::Sleeping => 'S',
            State::DiskSleep => 'D',
            State::Stopped => 'T',
            State::Traced => 't',
            State::Zombie => 'Z',
            State::Dead => 'X',
            State::Idle => 'I',
            State::Other(letter) => letter,
        }
    }

    /// Whether the task does not run until somebody resumes it.
    pub fn is_stopped(self) -> bool {
        matches!(self, State::Stopped | State::Traced)
    }

    /// Whether the task has ended.
    pub fn is_over(self) -> bool {
        matches!(self, State::Zombie | State::Dead)
    }
}

/// Fields of `/proc/<pid>/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Id of the process or thread.
    pub id: u32,
    /// Name of the main thread, or of the thread; the kernel keeps 15 bytes.
    pub comm: String,
    /// What it is doing.
    pub state: State,
    /// The parent process.
    pub parent: u32,
    /// Whether it is on its way out.
    pub exiting: bool,
    /// CPU time in user mode, in clock ticks (see [`clock_ticks_per_second`]).
    pub user_ticks: u64,
    /// CPU time in the kernel, in clock ticks.
    pub system_ticks: u64,
    /// Threads of the process.
    pub threads: u32,
    /// When it started: clock ticks since the machine did.
    pub start_ticks: u64,
}

/// Fields of `/proc/<pid>/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Its ids in the nested pid namespaces, ours first, its own last.
    pub ns_pids: Vec<u32>,
    /// The process that debugs it; 0 for none.
    pub tracer: u32,
    /// Whether it was killed, and has not noticed yet.
    pub killed: bool,
    /// Whether a filter of system calls (seccomp) is in place.
    pub is_filtered: bool,
    /// Signals that it ignores or has handlers for: bit 0 is signal 1.
    pub handled: u64,
}

/// Of the flags in `/proc/<pid>/stat`: include/linux/sched.h.
const PF_EXITING: u32 = 0x4;

/// `SIGKILL` in a set of signals.
const KILL: u64 = 1 << 8;

/// One mapping of `/proc/<pid>/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// First address, and the first after it.
    pub range: Range<u64>,
    /// Whether it can be read.
    pub read: bool,
    /// Whether it can be written.
    pub write: bool,
    /// Whether its contents can run.
    pub execute: bool,
    /// Whether writes are seen by others who map the same.
    pub shared: bool,
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Device of the file: major and minor number.
    pub device: (u32, u32),
    /// The file's inode; 0 where there is no file.
    pub inode: u64,
    /// The file's path as the process sees it, or a mark such as `[stack]`.
    pub path: Option<PathBuf>,
    /// Whether the file was deleted, or replaced, since.
    pub deleted: bool,
}

impl Map {
    /// The file's path, where the mapping is of a file.
    pub fn file(&self) -> Option<&Path> {
        self.path.as_deref().filter(|path| self.inode != 0 && path.is_absolute())
    }
}

fn invalid(what: &str, bytes: &[u8]) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{what} is not understood: `{}`", bytes.escape_ascii()),
    )
}

fn parse<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

fn parse_hex(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// Parses the contents of `/proc/<pid>/stat`.
pub fn parse_stat(bytes: &[u8]) -> io::Result<Stat> {
    // The name stands in parentheses and may itself have parentheses, blanks and line feeds: the
    // last one counts.
    let parsed = (|| {
        let open = bytes.iter().position(|&byte| byte == b'(')?;
        let close = bytes.iter().rposition(|&byte| byte == b')')?;
        let fields: Vec<&[u8]> =
            bytes.get(close.checked_add(2)?..)?.split(|byte| byte.is_ascii_whitespace()).collect();
        // Field 3 of proc(5), the state, is the first here.
        let field = |number: usize| fields.get(number.checked_sub(3)?).copied();
        Some(Stat {
            id: parse(bytes.get(..open)?)?,
            comm: String::from_utf8_lossy(bytes.get(open.checked_add(1)?..close)?).into_owned(),
            state: State::from_letter(*field(3)?.first()?),
            parent: parse(field(4)?)?,
            exiting: parse::<u32>(field(9)?)? & PF_EXITING != 0,
            user_ticks: parse(field(14)?)?,
            system_ticks: parse(field(15)?)?,
            threads: parse(field(20)?)?,
            start_ticks: parse(field(22)?)?,
        })
    })();
    parsed.ok_or_else(|| invalid("stat", bytes))
}

/// Parses the contents of `/proc/<pid>/status`.
pub fn parse_status(bytes: &[u8]) -> Status {
    let mut status = Status::default();
    for line in bytes.split(|&byte| byte == b'\n') {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let (key, values) = line.split_at(colon);
        let set = || values.get(1..).map(<[u8]>::trim_ascii).and_then(parse_hex);
        let mut numbers = values
            .split(|byte| byte.is_ascii_whitespace() || *byte == b':')
            .filter_map(parse::<u32>);
        match key {
            // Real, effective, saved, file system.
            b"Uid" => status.uid = numbers.nth(1).unwrap_or_default(),
            b"Gid" => status.gid = numbers.nth(1).unwrap_or_default(),
            b"NSpid" => status.ns_pids = numbers.collect(),
            b"SigPnd" | b"ShdPnd" => status.killed |= set().is_some_and(|set| set & KILL != 0),
            b"SigIgn" | b"SigCgt" => status.handled |= set().unwrap_or_default(),
            b"Seccomp" => status.is_filtered = numbers.next().is_some_and(|mode| mode != 0),
            b"TracerPid" => status.tracer = numbers.next().unwrap_or_default(),
            _ => {}
        }
    }
    status
}

/// Parses the contents of `/proc/<pid>/maps`; lines that are not understood are left out.
pub fn parse_maps(bytes: &[u8]) -> Vec<Map> {
    bytes.split(|&byte| byte == b'\n').filter_map(parse_map).collect()
}

fn parse_map(line: &[u8]) -> Option<Map> {
    // start-end perms offset major:minor inode <blanks> path
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let addresses = fields.next()?;
    let dash = addresses.iter().position(|&byte| byte == b'-')?;
    let permissions = fields.next()?;
    let &[read, write, execute, shared] = permissions else { return None };
    let offset = parse_hex(fields.next()?)?;
    let device = fields.next()?;
    let colon = device.iter().position(|&byte| byte == b':')?;
    let inode = parse(fields.next()?)?;
    let path = fields.next().unwrap_or_default().trim_ascii_start();
    let (path, deleted) = match path.strip_suffix(b" (deleted)") {
        Some(path) => (path, true),
        None => (path, false),
    };
    Some(Map {
        range: parse_hex(addresses.get(..dash)?)?
            ..parse_hex(addresses.get(dash.checked_add(1)?..)?)?,
        read: read == b'r',
        write: write == b'w',
        execute: execute == b'x',
        shared: shared == b's',
        offset,
        device: (
            u32::try_from(parse_hex(device.get(..colon)?)?).ok()?,
            u32::try_from(parse_hex(device.get(colon.checked_add(1)?..)?)?).ok()?,
        ),
        inode,
        path: (!path.is_empty()).then(|| PathBuf::from(OsString::from_vec(unescape(path)))),
        deleted,
    })
}

/// Undoes the kernel's octal escapes: it writes a line feed in a path as `\012`.
fn unescape(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        let escape = after.get(..3).filter(|_| byte == b'\\').and_then(|digits| {
            let value = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()?;
            u8::try_from(value).ok()
        });
        match escape {
            Some(value) => {
                plain.push(value);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                plain.push(byte);
                rest = after;
            }
        }
    }
    plain
}

/// Splits bytes at NULs; a final NUL ends the last piece rather than starting another.
fn nul_separated(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    bytes.split(|&byte| byte == 0).filter(move |_| !bytes.is_empty())
}

fn path(pid: u32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{file}"))
}

/// All processes that are visible, in ascending order.
pub fn processes() -> io::Result<Vec<u32>> {
    numbers(Path::new("/proc"))
}

/// The threads of a process, in ascending order.
pub fn threads(pid: u32) -> io::Result<Vec<u32>> {
    numbers(&path(pid, "task"))
}

fn numbers(directory: &Path) -> io::Result<Vec<u32>> {
    let names = fs::read_dir(directory)?.filter_map(Result::ok);
    let mut numbers: Vec<u32> =
        names.filter_map(|entry| parse(entry.file_name().as_bytes())).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// State, name, times and parent of a process.
pub fn stat(pid: u32) -> io::Result<Stat> {
    parse_stat(&fs::read(path(pid, "stat"))?)
}

/// State, name and times of one thread; `parent` is the parent of the process.
pub fn thread_stat(pid: u32, tid: u32) -> io::Result<Stat> {
    parse_stat(&fs::read(path(pid, &format!("task/{tid}/stat")))?)
}

/// Time that a thread has been on a processor since it began, nanoseconds.
pub fn thread_run(pid: u32, tid: u32) -> io::Result<u64> {
    Ok(schedstat(pid, tid)?[0])
}

/// For how long a thread has been on a processor, and for how long it was ready and waited for one,
/// since it began, nanoseconds. A wait that has not ended is not in it. Kernels without
/// `CONFIG_SCHED_INFO` have no such file, or zeros.
pub fn thread_schedule(pid: u32, tid: u32) -> io::Result<(u64, u64)> {
    let [run, waited, _] = schedstat(pid, tid)?;
    Ok((run, waited))
}

/// What a thread does, and for how long it has run and waited since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Id of the thread.
    pub tid: u32,
    /// What it does.
    pub state: State,
    /// Time on a processor, nanoseconds. The kernel updates it several times per 100 ms.
    pub ran: u64,
    /// Time ready without a processor, nanoseconds: of the waits that have ended.
    pub waited: u64,
    /// How often it got a processor.
    pub turns: u64,
}

/// Replaces `found` by the threads of a process, in ascending order, as far as they fit: this
/// allocates nothing. Threads that end meanwhile are left out.
pub fn thread_times(pid: u32, found: &mut Vec<ThreadTimes>) -> io::Result<()> {
    found.clear();
    let folder = open_small(CWD, format_args!("/proc/{pid}/task"), OFlags::DIRECTORY)?;
    let mut space = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(&folder, &mut space);
    while let Some(entry) = entries.next()
        && found.len() < found.capacity()
    {
        let Some(tid) = parse(entry?.file_name().to_bytes()) else { continue };
        match times_of(&folder, tid) {
            Ok(times) => found.push(times),
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    found.sort_unstable_by_key(|times| times.tid);
    Ok(())
}

fn times_of(folder: impl AsFd + Copy, tid: u32) -> io::Result<ThreadTimes> {
    let invalid = io::ErrorKind::InvalidData;
    let state = state_of(folder, format_args!("{tid}/stat"))?;
    let mut buffer = [0; 96];
    let bytes = read_small(folder, format_args!("{tid}/schedstat"), &mut buffer)?;
    let [ran, waited, turns] = parse_schedstat(bytes).ok_or(invalid)?;
    Ok(ThreadTimes { tid, state, ran, waited, turns })
}

/// Whether an error says that there is no such process or thread (any more).
pub fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::SRCH].map(|errno| Some(errno.raw_os_error()));
    gone.contains(&error.raw_os_error())
}

/// Opens a file whose path is short, and allocates nothing.
fn open_small(folder: impl AsFd, path: fmt::Arguments<'_>, flags: OFlags) -> io::Result<OwnedFd> {
    let mut text = io::Cursor::new([0; 48]);
    text.write_fmt(path)?;
    let length = usize::try_from(text.position()).unwrap_or_default();
    let path = text.get_ref().get(..length).unwrap_or_default();
    Ok(openat(folder, path, flags | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// The beginning of a file; allocates nothing.
pub(super) fn read_small<'a>(
    folder: impl AsFd,
    path: fmt::Arguments<'_>,
    buffer: &'a mut [u8],
) -> io::Result<&'a [u8]> {
    let file = open_small(folder, path, OFlags::empty())?;
    let read = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut *buffer))?;
    Ok(buffer.get(..read).unwrap_or_default())
}

/// The state in a `stat` file: what follows the name, which is short.
fn state_of(folder: impl AsFd, path: fmt::Arguments<'_>) -> io::Result<State> {
    let mut buffer = [0; 256];
    let bytes = read_small(folder, path, &mut buffer)?;
    let close = bytes.iter().rposition(|&byte| byte == b')');
    let letter = close.and_then(|close| bytes.get(close.checked_add(2)?));
    letter.copied().map(State::from_letter).ok_or(io::ErrorKind::InvalidData.into())
}

/// How many threads of the machine are ready to run, or running; allocates nothing. Quotas and
/// masks of processors do not count.
pub fn ready_threads() -> io::Result<usize> {
    let mut buffer = [0; 128];
    let bytes = read_small(CWD, format_args!("/proc/loadavg"), &mut buffer)?;
    parse_ready(bytes).ok_or(io::ErrorKind::InvalidData.into())
}

/// The fourth field of `/proc/loadavg`, up to its slash.
fn parse_ready(loadavg: &[u8]) -> Option<usize> {
    let field = loadavg.split(u8::is_ascii_whitespace).nth(3)?;
    parse(field.split(|&byte| byte == b'/').next()?)
}

/// How often a thread was put on a processor since it began.
pub fn thread_switches(pid: u32, tid: u32) -> io::Result<u64> {
    Ok(schedstat(pid, tid)?[2])
}

/// The numbers of `/proc/<pid>/task/<tid>/schedstat`: time on a processor, time ready without one,
/// times on one.
fn schedstat(pid: u32, tid: u32) -> io::Result<[u64; 3]> {
    let bytes = fs::read(path(pid, &format!("task/{tid}/schedstat")))?;
    parse_schedstat(&bytes).ok_or_else(|| invalid("schedstat", &bytes))
}

fn parse_schedstat(bytes: &[u8]) -> Option<[u64; 3]> {
    let mut numbers = bytes.split(u8::is_ascii_whitespace).map(parse);
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// What a process is doing, as far as its main thread tells; allocates nothing.
pub fn state(pid: u32) -> io::Result<State> {
    state_of(CWD, format_args!("/proc/{pid}/stat"))
}

/// Whether a process is there, and not on its way out: one that was killed loses its threads first,
/// then its memory, and is still listed for a while.
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_ok_and(|stat| !stat.state.is_over() && !stat.exiting)
        && status(pid).is_ok_and(|status| !status.killed)
}

/// Users and namespaces of a process.
pub fn status(pid: u32) -> io::Result<Status> {
    Ok(parse_status(&fs::read(path(pid, "status"))?))
}

/// The id of a process in its own pid namespace.
pub fn ns_pid(pid: u32) -> io::Result<u32> {
    Ok(status(pid)?.ns_pids.last().copied().unwrap_or(pid))
}

/// The id of a thread in its own pid namespace: what the runtime in the process calls it.
pub fn ns_tid(pid: u32, tid: u32) -> io::Result<u32> {
    let status = parse_status(&fs::read(path(pid, &format!("task/{tid}/status")))?);
    Ok(status.ns_pids.last().copied().unwrap_or(tid))
}

/// The name of a process's main thread; the kernel keeps 15 bytes.
pub fn comm(pid: u32) -> io::Result<String> {
    read_name(&path(pid, "comm"))
}

/// The name of a thread; the kernel keeps 15 bytes.
pub fn thread_comm(pid: u32, tid: u32) -> io::Result<String> {
    read_name(&path(pid, &format!("task/{tid}/comm")))
}

fn read_name(path: &Path) -> io::Result<String> {
    let bytes = fs::read(path)?;
    Ok(String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes)).into_owned())
}

/// The memory of a process.
pub fn maps(pid: u32) -> io::Result<Vec<Map>> {
    Ok(parse_maps(&fs::read(path(pid, "maps"))?))
}

/// Bytes of a process that are in memory (resident set).
pub fn resident(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm"))?;
    // The second field of proc(5), in pages.
    let pages = text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(pages.saturating_mul(rustix::param::page_size() as u64))
}

/// The arguments that a process was started with; empty for kernel threads.
pub fn command_line(pid: u32) -> io::Result<Vec<String>> {
    let bytes = fs::read(path(pid, "cmdline"))?;
    Ok(nul_separated(&bytes)
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect())
}

/// The environment that a process was started with; what it changed since is not seen.
pub fn environ(pid: u32) -> io::Result<Vec<(OsString, OsString)>> {
    let bytes = fs::read(path(pid, "environ"))?;
    let pairs = nul_separated(&bytes).filter_map(|entry| {
        let equals = entry.iter().position(|&byte| byte == b'=')?;
        let value = entry.get(equals.checked_add(1)?..)?;
        Some((
            OsString::from_vec(entry.get(..equals)?.to_vec()),
            OsString::from_vec(value.to_vec()),
        ))
    });
    Ok(pairs.collect())
}

/// The executable, as the process sees it.
pub fn executable(pid: u32) -> io::Result<PathBuf> {
    let path = fs::read_link(path(pid, "exe"))?.into_os_string().into_vec();
    let path = path.strip_suffix(b" (deleted)").unwrap_or(&path);
    Ok(PathBuf::from(OsString::from_vec(path.to_vec())))
}

/// Where we find a file that the process sees at an absolute path: also in another mount namespace,
/// or behind a changed root.
pub fn root_path(pid: u32, seen: &Path) -> PathBuf {
    // Joining an absolute path would replace the whole.
    path(pid, "root").join(seen.strip_prefix("/").unwrap_or(seen))
}

/// The identity of a namespace of a process; `kind` is a file of `/proc/<pid>/ns`, such as `mnt` or
/// `pid`.
pub fn namespace(pid: u32, kind: &str) -> io::Result<PathBuf> {
    fs::read_link(path(pid, &format!("ns/{kind}")))
}

/// Clock ticks in a second: the unit of the times in [`Stat`].
pub fn clock_ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second().max(1)
}

/// When the machine started: seconds since 1970.
pub fn boot_time() -> io::Result<u64> {
    let bytes = fs::read("/proc/stat")?;
    let line = bytes.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"btime "));
    line.and_then(parse).ok_or_else(|| invalid("btime", b""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_process_that_is_on_its_way_out_is_told() {
        let stat =
            |flags: u32| format!("7 (sleep) S 1 7 7 0 -1 {flags} 0 0 0 0 1 2 0 0 20 0 3 0 99 0");
        let exiting = |flags| parse_stat(stat(flags).as_bytes()).unwrap().exiting;
        assert_eq!([exiting(0x40_4000), exiting(0x40_4004)], [false, true]);
        let killed = |own: &str, shared: &str| {
            parse_status(format!("SigPnd:\t{own}\nShdPnd:\t{shared}\n").as_bytes()).killed
        };
        let (none, kill, terminate) = ("0000000000000000", "0000000000000100", "0000000000004000");
        assert_eq!(
            [killed(none, none), killed(none, terminate), killed(kill, none), killed(none, kill)],
            [false, false, true, true]
        );
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(is_alive(child.id()));
        child.kill().unwrap();
        while is_alive(child.id()) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!is_alive(child.id()));
    }

    #[test]
    fn our_own_process_is_described() {
        let pid = std::process::id();
        let stat = stat(pid).unwrap();
        assert_eq!(stat.id, pid);
        assert!(stat.threads >= 1);
        assert_eq!(status(pid).unwrap().uid, rustix::process::geteuid().as_raw());
        assert!(processes().unwrap().contains(&pid));
        assert!(threads(pid).unwrap().contains(&pid));
        assert_eq!(executable(pid).unwrap(), std::env::current_exe().unwrap());
        assert_eq!(command_line(pid).unwrap(), std::env::args().collect::<Vec<_>>());
        assert!(environ(pid).unwrap().iter().any(|(name, _)| name == "PATH"));
        let age = boot_time().unwrap() + stat.start_ticks / clock_ticks_per_second();
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        assert!(age <= now + 2 && age + 86_400 > now, "{age} {now}");
    }

    #[test]
    fn our_own_code_is_mapped() {
        let here = our_own_code_is_mapped as *const () as u64;
        let maps = maps(std::process::id()).unwrap();
        let map = maps.iter().find(|map| map.range.contains(&here)).unwrap();
        assert!(map.execute && map.read && !map.write && !map.shared && !map.deleted);
        assert_eq!(map.file(), Some(std::env::current_exe().unwrap().as_path()));
        assert!(
            maps.iter().any(
                |map| map.path.as_deref() == Some(Path::new("[stack]")) && map.file().is_none()
            )
        );
    }

    #[test]
    fn thread_names() {
        let (send, receive) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("odd) name".into())
            .spawn(move || {
                send.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
                let _ = ended.recv();
            })
            .unwrap();
        let (pid, tid) = (std::process::id(), receive.recv().unwrap());
        assert_eq!(thread_comm(pid, tid).unwrap(), "odd) name");
        assert_eq!(thread_stat(pid, tid).unwrap().comm, "odd) name");
        assert_eq!(ns_tid(pid, tid).unwrap(), tid);
        drop(end);
        thread.join().unwrap();
    }

    #[test]
    fn a_name_may_hold_anything() {
        let line = b"7 (a) R (b\n) t 1 7 7 0 -1 4194560 1 0 0 0 11 12 0 0 20 0 3 0 4711 1 1 1";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.comm.as_str(), stat.state, stat.parent), ("a) R (b\n", State::Traced, 1));
        assert_eq!(
            (stat.user_ticks, stat.system_ticks, stat.threads, stat.start_ticks),
            (11, 12, 3, 4711)
        );
        assert!(parse_stat(b"7 (cut) S 1").is_err());
    }

    #[test]
    fn time_on_and_without_a_processor() {
        assert_eq!(parse_schedstat(b"115075 3649426 2\n"), Some([115_075, 3_649_426, 2]));
        assert_eq!((parse_schedstat(b"115075\n"), parse_schedstat(b"")), (None, None));
        let pid = std::process::id();
        let (run, _) = thread_schedule(pid, pid).unwrap();
        assert!(run <= thread_run(pid, pid).unwrap());
    }

    #[test]
    fn the_last_namespace_counts() {
        let status = parse_status(
            b"Name:\tx: y\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nNSpid:\t4242\t17\t1\nTracerPid:\t9\n\
              SigIgn:\t0000000000001000\nSigCgt:\t0000000004000000\nSeccomp:\t2\n\
              Seccomp_filters:\t1\n",
        );
        let expected = Status {
            uid: 2,
            gid: 6,
            ns_pids: vec![4242, 17, 1],
            tracer: 9,
            is_filtered: true,
            handled: 0x400_1000,
            killed: false,
        };
        assert_eq!(status, expected);
    }

    #[test]
    fn odd_mappings() {
        let maps = parse_maps(
            b"7f00-8000 r-xs 00001000 fd:1a 77                         /a b/c\\012d (deleted)\n\
              ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n\
              garbage\n9000-a000 rw-p 00000000 00:00 0 \n",
        );
        assert_eq!(maps.len(), 3);
        assert_eq!(maps[0].path.as_deref(), Some(Path::new("/a b/c\nd")));
        assert!(maps[0].deleted && maps[0].shared && maps[0].execute);
        assert_eq!(
            (maps[0].range.clone(), maps[0].offset, maps[0].device),
            (0x7f00..0x8000, 0x1000, (0xfd, 0x1a))
        );
        assert_eq!((maps[1].file(), maps[2].path.as_ref()), (None, None));
    }

    #[test]
    fn roots_are_joined() {
        assert_eq!(root_path(7, Path::new("/tmp/x")), Path::new("/proc/7/root/tmp/x"));
        assert_eq!(root_path(7, Path::new("tmp")), Path::new("/proc/7/root/tmp"));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_stat(&bytes);
            let _ = parse_status(&bytes);
            let _ = parse_maps(&bytes);
            let _ = unescape(&bytes);
            let _ = nul_separated(&bytes).count();
        }
    }
}
