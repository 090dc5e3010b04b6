//! Finds .NET processes in `/proc`, also in other mount and pid namespaces.
//!
//! A runtime listens at `$TMPDIR/dotnet-diagnostic-<pid>-<start>-socket`, with its own environment,
//! its own root and its own pid namespace; `<start>` is field 22 of `/proc/<pid>/stat`. So the
//! directory is looked at through `/proc/<pid>/root`, and whoever listens at a socket is checked by
//! its credentials.

use super::executable::{self, Executable};
use super::proc::{self, Stat, Status};
use crate::process::{FLOOR, assembly_in_arguments, file_name, major_minor};
use crate::{DotnetProcess, Error, HResult, Hosting, Obstacle, Port};
use rootfs::Root;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Whether the system tells which process listens at a socket.
pub const CHECKS_PEER: bool = true;

/// Most entries of a folder for temporary files that are looked at.
const MAX_ENTRIES: usize = 100_000;

/// How often a folder is listed again while files come and go in it, and how old its last change
/// must be, so that one that comes later has another time.
const MOST_LISTINGS: u32 = 16;
const SETTLED: Duration = Duration::from_millis(50);

/// Runtimes that are asked at the same time.
const PROBES: usize = 16;

/// A file that may be a diagnostic socket.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Socket {
    name: OsString,
    /// Process id in the name.
    ns_pid: u32,
    /// Start time in the name.
    start_ticks: u64,
}

/// What is the same for many processes, so that it is looked up once.
struct Machine {
    own_uid: u32,
    own_mount_namespace: Option<PathBuf>,
    own_pid_namespace: Option<PathBuf>,
    boot_time: Option<u64>,
    users: HashMap<u32, String>,
    sockets: HashMap<Folder, Listing>,
    /// By device and inode.
    executables: HashMap<(u64, u64), Executable>,
}

/// A folder for temporary files: mount namespace, root and directory.
type Folder = (Option<PathBuf>, Option<PathBuf>, PathBuf);

/// What was in such a folder.
#[derive(Debug, Default)]
struct Listing {
    sockets: Vec<Socket>,
    /// When the folder had changed, if that was long enough before it was listed.
    changed: Option<SystemTime>,
    times: u32,
}

/// All .NET processes.
pub fn discover(timeout: Duration) -> Result<Vec<DotnetProcess>, Error> {
    let mut machine = Machine::new();
    let pids =
        proc::processes().map_err(|source| Error::Io { command: "reading /proc", source })?;
    let own = std::process::id();
    let found: Vec<Found> = pids
        .into_iter()
        .filter(|&pid| pid != own)
        .filter_map(|pid| match machine.look_surely(pid) {
            Ok(Inspection::Dotnet(found)) => Some(*found),
            // It has ended meanwhile, or is none of ours.
            Ok(Inspection::Other { .. } | Inspection::Over) | Err(_) => None,
        })
        .collect();
    let next = AtomicUsize::new(0);
    let processes = Mutex::new(Vec::with_capacity(found.len()));
    std::thread::scope(|scope| {
        for _ in 0..PROBES.min(found.len()) {
            scope.spawn(|| {
                while let Some(found) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let process = found.probe(timeout);
                    processes
                        .lock()
                        .unwrap_or_else(|poisoned| poisoned.into_inner())
                        .extend(process);
                }
            });
        }
    });
    let mut processes = processes.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    order::sort_by_key(&mut processes, |process| process.pid);
    Ok(processes)
}

/// One process.
pub fn inspect(pid: u32, timeout: Duration) -> Result<DotnetProcess, Error> {
    match Machine::new().look_surely(pid) {
        Ok(Inspection::Dotnet(found)) => found
            .probe(timeout)
            .ok_or_else(|| Error::NotDotnet { pid, name: found.process.name.clone() }),
        Ok(Inspection::Other { name, obstacle: None }) => Err(Error::NotDotnet { pid, name }),
        Ok(Inspection::Other { name, obstacle: Some(obstacle) }) => {
            Err(Error::Unattachable { pid, name, obstacle })
        }
        Ok(Inspection::Over) | Err(_) => Err(Error::NoSuchProcess { pid }),
    }
}

/// The diagnostic port of a process that is known to be a .NET process and to have opened it, by
/// the one file whose name holds its id and its start time. Nothing is asked of the runtime and no
/// library is read, so this takes a fraction of the time of [`inspect`]. `None` where there is no
/// such file: [`inspect`] may still find the port.
pub fn named_port(pid: u32) -> Option<Port> {
    let (stat, status) = (proc::stat(pid).ok()?, proc::status(pid).ok()?);
    let temp_dir = temp_dir(pid, &proc::environ(pid).ok()?);
    let ns_pid = status.ns_pids.last().copied().unwrap_or(pid);
    let name = format!("dotnet-diagnostic-{ns_pid}-{}-socket", stat.start_ticks);
    Root::of_process(pid).ok()?.modified(&temp_dir.join(&name)).ok()?;
    // Whoever listens there is checked when it is connected to.
    Some(Port::new(&proc::root_path(pid, &temp_dir).join(name), Some(pid)))
}

/// The result of inspecting a process.
enum Inspection {
    /// A .NET process, not yet asked.
    Dotnet(Box<Found>),
    /// Not known to be a .NET process; with the reason where we could not look.
    Other { name: String, obstacle: Option<Obstacle> },
    /// It has ended.
    Over,
}

/// A .NET process and the sockets that may be its.
struct Found {
    process: DotnetProcess,
    sockets: Vec<PathBuf>,
}

impl Machine {
    fn new() -> Self {
        let own = std::process::id();
        Self {
            own_uid: rustix::process::geteuid().as_raw(),
            own_mount_namespace: proc::namespace(own, "mnt").ok(),
            own_pid_namespace: proc::namespace(own, "pid").ok(),
            boot_time: proc::boot_time().ok(),
            users: fs::read_to_string("/etc/passwd")
                .map(|text| parse_users(&text))
                .unwrap_or_default(),
            sockets: HashMap::new(),
            executables: HashMap::new(),
        }
    }

    /// As [`Self::look`]. One that exchanges its program at the moment may hide what it is, and has
    /// not ended.
    fn look_surely(&mut self, pid: u32) -> io::Result<Inspection> {
        match self.look(pid) {
            Err(_) if proc::is_alive(pid) => self.look(pid),
            other => other,
        }
    }

    /// Looks at a process without asking its runtime.
    fn look(&mut self, pid: u32) -> io::Result<Inspection> {
        let stat = proc::stat(pid)?;
        if stat.state.is_over() {
            return Ok(Inspection::Over);
        }
        let status = proc::status(pid)?;
        let args = proc::command_line(pid).unwrap_or_default();
        let environ = match proc::environ(pid) {
            Ok(environ) => environ,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(self.look_from_afar(pid, &stat, &status, args));
            }
            Err(error) => return Err(error),
        };
        let seen_executable = proc::executable(pid).ok();
        let temp_dir = temp_dir(pid, &environ);
        let mount_namespace = proc::namespace(pid, "mnt").ok();
        let root_path = fs::read_link(format!("/proc/{pid}/root")).ok();
        let root = Root::of_process(pid).ok();
        let ns_pid = status.ns_pids.last().copied().unwrap_or(pid);
        let folder: Folder = (mount_namespace, root_path, temp_dir);
        let sockets =
            self.possible_sockets(pid, (ns_pid, stat.start_ticks), &folder, root.as_ref());
        let (mount_namespace, root_path, temp_dir) = folder;

        let maps = proc::maps(pid).unwrap_or_default();
        let library = maps
            .iter()
            .filter_map(|map| map.file())
            .find(|path| path.file_name().is_some_and(|name| name == "libcoreclr.so"));
        let executable = self.executable(pid);
        let hosting = if library.is_some() { Some(Hosting::Library) } else { executable.hosting };
        if hosting.is_none() && sockets.is_empty() {
            // Nothing is found of one that has just given up its memory.
            if !proc::is_alive(pid) {
                return Ok(Inspection::Over);
            }
            return Ok(Inspection::Other {
                name: short_name(&stat, &args, seen_executable.as_deref()),
                obstacle: None,
            });
        }
        let runtime_version =
            library.and_then(|seen| executable::runtime_version(seen, root.as_ref()));
        let contained = mount_namespace != self.own_mount_namespace
            || proc::namespace(pid, "pid").ok() != self.own_pid_namespace;
        let obstacle = obstacle(
            pid,
            &stat,
            &status,
            hosting,
            &environ,
            &sockets,
            runtime_version.as_deref(),
            &temp_dir,
            root_path.filter(|root| is_jail(root)),
        );
        Ok(Inspection::Dotnet(Box::new(Found {
            process: DotnetProcess {
                pid,
                ns_pid,
                uid: Some(status.uid),
                user: self.users.get(&status.uid).cloned(),
                name: short_name(&stat, &args, seen_executable.as_deref()),
                entry_assembly: assembly_in_arguments(&args),
                args,
                executable: seen_executable,
                started_unix_ms: self.started(&stat),
                runtime_version,
                arch: executable.arch.map(str::to_owned),
                hosting,
                contained,
                temp_dir,
                socket: None,
                obstacle,
            },
            sockets,
        })))
    }

    /// The sockets where a process may listen, by the folder of its temporary files, its root, and
    /// its id and start time as the names of its sockets have them.
    fn possible_sockets(
        &mut self,
        pid: u32,
        (ns_pid, start_ticks): (u32, u64),
        folder: &Folder,
        root: Option<&Root>,
    ) -> Vec<PathBuf> {
        let (mount_namespace, root_path, temp_dir) = folder;
        let in_own_namespace = *mount_namespace == self.own_mount_namespace;
        let directory = proc::root_path(pid, temp_dir);
        let listed = self.list(folder.clone(), root, (ns_pid, start_ticks));
        // The files were listed under some process's root that may be another one's, and that may
        // be gone.
        let modified = |socket: &Socket| root?.modified(&temp_dir.join(&socket.name)).ok();
        let own = sockets_of(listed, ns_pid, start_ticks, modified);
        let mut sockets: Vec<PathBuf> = own.map(|socket| directory.join(&socket.name)).collect();
        // One that has changed its root since still listens where it did before.
        if root_path.as_deref().is_some_and(is_jail) && in_own_namespace {
            let bound = bound_socket(pid, ns_pid).filter(|path| fs::symlink_metadata(path).is_ok());
            sockets.extend(bound);
        }
        sockets
    }

    /// The sockets in a folder. What was listed before holds if the socket of the process that is
    /// looked at is among it, or if nothing has come since: runtimes start while we look. What
    /// could not be listed says nothing, as that is of one process, which may just have ended.
    fn list(&mut self, folder: Folder, root: Option<&Root>, own: (u32, u64)) -> &[Socket] {
        let changed = root.and_then(|root| root.modified(&folder.2).ok());
        let known = self.sockets.get(&folder);
        let holds = known.is_some_and(|known| {
            let has_own =
                known.sockets.iter().any(|socket| (socket.ns_pid, socket.start_ticks) == own);
            has_own
                || known.changed.is_some() && known.changed == changed
                || known.times >= MOST_LISTINGS
        });
        let times = known.map_or(0, |known| known.times) + 1;
        let before = SystemTime::now();
        if !holds && let Some(Ok(sockets)) = root.map(|root| list_sockets(root, &folder.2)) {
            let is_settled = |changed: &SystemTime| {
                before.duration_since(*changed).is_ok_and(|passed| passed >= SETTLED)
            };
            let listing = Listing { sockets, changed: changed.filter(is_settled), times };
            return &self.sockets.entry(folder).insert_entry(listing).into_mut().sockets;
        }
        self.sockets.get(&folder).map_or(&[], |known| &known.sockets)
    }

    /// A process that we may not look into: what everybody may see of it.
    fn look_from_afar(
        &self,
        pid: u32,
        stat: &Stat,
        status: &Status,
        args: Vec<String>,
    ) -> Inspection {
        let name = short_name(stat, &args, None);
        let user = self.users.get(&status.uid).cloned();
        let obstacle = refused(self.own_uid, status.uid, user.as_deref());
        let ns_pid = status.ns_pids.last().copied().unwrap_or(pid);
        let temp_dir = PathBuf::from("/tmp");
        // A socket with its id and its start time can only be its own.
        let listed =
            Root::own().and_then(|root| list_sockets(&root, &temp_dir)).unwrap_or_default();
        let has_socket = listed
            .iter()
            .any(|socket| (socket.ns_pid, socket.start_ticks) == (ns_pid, stat.start_ticks));
        let hosted = args.first().is_some_and(|program| file_name(program) == "dotnet");
        if !has_socket && !hosted {
            return Inspection::Other { name, obstacle: Some(obstacle) };
        }
        Inspection::Dotnet(Box::new(Found {
            process: DotnetProcess {
                pid,
                ns_pid,
                uid: Some(status.uid),
                user,
                name,
                entry_assembly: assembly_in_arguments(&args),
                args,
                executable: None,
                started_unix_ms: self.started(stat),
                runtime_version: None,
                arch: None,
                hosting: None,
                contained: status.ns_pids.len() > 1,
                temp_dir,
                socket: None,
                obstacle: Some(obstacle),
            },
            sockets: Vec::new(),
        }))
    }

    fn started(&self, stat: &Stat) -> Option<u64> {
        let since_boot = stat.start_ticks.saturating_mul(1000) / proc::clock_ticks_per_second();
        Some(self.boot_time?.saturating_mul(1000).saturating_add(since_boot))
    }

    fn executable(&mut self, pid: u32) -> Executable {
        // The link works also when the file was deleted, or lies in another mount namespace.
        let path = PathBuf::from(format!("/proc/{pid}/exe"));
        let Ok(metadata) = fs::metadata(&path) else { return Executable::default() };
        let inspected = self
            .executables
            .entry((metadata.dev(), metadata.ino()))
            .or_insert_with(|| executable::inspect(&path));
        inspected.clone()
    }
}

/// Whether the root directory of a process is another one than that of the system.
fn is_jail(root: &Path) -> bool {
    root != Path::new("/")
}

/// What stands in the way, as far as it can be seen without asking.
#[expect(
    clippy::too_many_arguments,
    reason = "one place that weighs everything known of a process"
)]
fn obstacle(
    pid: u32,
    stat: &Stat,
    status: &Status,
    hosting: Option<Hosting>,
    environ: &[(OsString, OsString)],
    sockets: &[PathBuf],
    runtime_version: Option<&str>,
    temp_dir: &Path,
    jail: Option<PathBuf>,
) -> Option<Obstacle> {
    if hosting == Some(Hosting::NativeAot) {
        return Some(Obstacle::NativeAot);
    }
    if let Some(version) = runtime_version
        && major_minor(version).is_some_and(|version| version < FLOOR)
    {
        return Some(Obstacle::TooOld { version: version.to_owned() });
    }
    if stat.state.is_stopped() {
        return Some(Obstacle::Stopped { tracer: (status.tracer != 0).then_some(status.tracer) });
    }
    if !sockets.is_empty() {
        return None;
    }
    if let Some(variable) = disabling_variable(environ) {
        return Some(Obstacle::Disabled { variable });
    }
    if let Some(path) = bound_socket(pid, status.ns_pids.last().copied().unwrap_or(pid)) {
        return Some(match jail {
            Some(root) => Obstacle::Chrooted { root, path },
            None => Obstacle::SocketRemoved { path },
        });
    }
    Some(Obstacle::NoSocket { directory: temp_dir.to_owned() })
}

/// The variable that switches the port off, where one does. Values are hexadecimal numbers.
fn disabling_variable(environ: &[(OsString, OsString)]) -> Option<String> {
    environ.iter().find_map(|(name, value)| {
        let (name, value) = (name.to_str()?, value.to_str()?);
        let setting = name.strip_prefix("DOTNET_").or_else(|| name.strip_prefix("COMPlus_"))?;
        let port = matches!(setting, "EnableDiagnostics" | "EnableDiagnostics_IPC");
        let off = u32::from_str_radix(value.trim().trim_start_matches("0x"), 16) == Ok(0);
        (port && off).then(|| format!("{name}={value}"))
    })
}

/// Where the process listens, also when the file was deleted: the kernel remembers the name.
fn bound_socket(pid: u32, ns_pid: u32) -> Option<PathBuf> {
    let sockets = fs::read_to_string(format!("/proc/{pid}/net/unix")).ok()?;
    let prefix = format!("dotnet-diagnostic-{ns_pid}-");
    let inodes = open_sockets(pid);
    sockets.lines().find_map(|line| {
        // Num RefCount Protocol Flags Type St Inode Path
        let mut fields = line.split_whitespace().skip(6);
        let inode: u64 = fields.next()?.parse().ok()?;
        let path = Path::new(fields.next()?);
        let ours = path.file_name()?.to_str()?.starts_with(&prefix) && inodes.contains(&inode);
        ours.then(|| path.to_owned())
    })
}

/// Inodes of the sockets that a process has open.
fn open_sockets(pid: u32) -> Vec<u64> {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let links = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links
        .filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}

/// Where the process keeps temporary files. Relative paths count from its working directory.
fn temp_dir(pid: u32, environ: &[(OsString, OsString)]) -> PathBuf {
    let value = environ.iter().find(|(name, value)| name == "TMPDIR" && !value.is_empty());
    let directory = value.map_or_else(|| PathBuf::from("/tmp"), |(_, value)| PathBuf::from(value));
    if directory.is_absolute() {
        return directory;
    }
    fs::read_link(format!("/proc/{pid}/cwd")).map(|cwd| cwd.join(&directory)).unwrap_or(directory)
}

/// All files in a directory whose name is that of a diagnostic socket.
fn list_sockets(root: &Root, directory: &Path) -> io::Result<Vec<Socket>> {
    let sockets = root.entries(directory, MAX_ENTRIES)?.into_iter().filter_map(|name| {
        let (ns_pid, start_ticks) = parse_socket_name(name.to_str()?)?;
        Some(Socket { name, ns_pid, start_ticks })
    });
    Ok(sockets.collect())
}

/// Process id and start time in a socket's name.
fn parse_socket_name(name: &str) -> Option<(u32, u64)> {
    let (pid, start) =
        name.strip_prefix("dotnet-diagnostic-")?.strip_suffix("-socket")?.split_once('-')?;
    Some((pid.parse().ok()?, start.parse().ok()?))
}

/// The sockets that may be a process's: the one with its start time first, then the newest. A
/// process in a time namespace names its start differently than we see it.
fn sockets_of(
    sockets: &[Socket],
    ns_pid: u32,
    start_ticks: u64,
    modified: impl Fn(&Socket) -> Option<SystemTime>,
) -> impl Iterator<Item = &Socket> {
    let mut candidates: Vec<&Socket> =
        sockets.iter().filter(|socket| socket.ns_pid == ns_pid).collect();
    // Asked for these alone: processes that were killed may have left thousands.
    order::sort_by_cached_key(&mut candidates, |socket| {
        (socket.start_ticks != start_ticks, std::cmp::Reverse(modified(socket)))
    });
    // More than a few are leftovers.
    candidates.into_iter().take(4)
}

/// The name for lists: the entry assembly, else the executable, else what the kernel has.
fn short_name(stat: &Stat, args: &[String], executable: Option<&Path>) -> String {
    let executable =
        || executable.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let program = || {
        args.first().map(|program| file_name(program).to_owned()).filter(|name| !name.is_empty())
    };
    assembly_in_arguments(args)
        .or_else(executable)
        .or_else(program)
        .unwrap_or_else(|| stat.comm.clone())
}

/// User names by number, from the text of `/etc/passwd`.
fn parse_users(text: &str) -> HashMap<u32, String> {
    let users = text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        Some((fields.nth(1)?.parse().ok()?, name.to_owned()))
    });
    users.collect()
}

impl Found {
    /// Asks the runtime, at each socket that may be its own; `None` if it is no .NET process.
    fn probe(&self, timeout: Duration) -> Option<DotnetProcess> {
        let mut process = self.process.clone();
        if process.obstacle.is_some() {
            // The socket of a stopped process is where it will answer again.
            return Some(process);
        }
        let deadline = Instant::now() + timeout;
        let mut obstacle = None;
        for socket in &self.sockets {
            let left = deadline.saturating_duration_since(Instant::now());
            let port = Port::new(socket, Some(process.pid)).with_timeout(left);
            match port.process_info() {
                Ok(info) => {
                    process.arch = Some(info.arch);
                    process.runtime_version = info.runtime_version.or(process.runtime_version);
                    if let Some(assembly) = info.entry_assembly {
                        // A program that `dotnet` runs is better known by its assembly; an
                        // executable by itself.
                        if process.entry_assembly.is_none() && process.name == "dotnet" {
                            process.name.clone_from(&assembly);
                        }
                        process.entry_assembly = Some(assembly);
                    }
                }
                // .NET Core 3.1 does not know the command, but answers.
                Err(error) if error.hresult() == Some(HResult::UNKNOWN_COMMAND) => {}
                Err(error) => {
                    obstacle.get_or_insert(self.failed(error));
                    continue;
                }
            }
            process.socket = Some(socket.clone());
            if let Some(version) = &process.runtime_version
                && process.runtime_major_minor().is_some_and(|version| version < FLOOR)
            {
                process.obstacle = Some(Obstacle::TooOld { version: version.clone() });
            }
            return Some(process);
        }
        let obstacle =
            obstacle.unwrap_or_else(|| Obstacle::NoSocket { directory: process.temp_dir.clone() });
        // Process ids come again, and killed runtimes leave their sockets.
        if process.hosting.is_none() && matches!(obstacle, Obstacle::NoSocket { .. }) {
            return None;
        }
        process.obstacle = Some(obstacle);
        Some(process)
    }

    /// What a failure to ask means.
    fn failed(&self, error: Error) -> Obstacle {
        match &error {
            Error::Connect { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                let process = &self.process;
                let user = process.user.clone().or_else(|| process.uid.map(|uid| uid.to_string()));
                Obstacle::OtherUser { user: user.unwrap_or_default() }
            }
            // Whoever made it is gone, and the process has none that works.
            Error::WrongPeer { .. } => {
                Obstacle::NoSocket { directory: self.process.temp_dir.clone() }
            }
            Error::Connect { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused => {
                Obstacle::NoSocket { directory: self.process.temp_dir.clone() }
            }
            _ => Obstacle::NotAnswering { reason: error.to_string() },
        }
    }
}

/// Why a process cannot be looked into, by our user and by its own.
fn refused(own_uid: u32, uid: u32, user: Option<&str>) -> Obstacle {
    match own_uid {
        0 => Obstacle::Confined,
        _ if uid == own_uid => Obstacle::Protected,
        _ => Obstacle::OtherUser { user: user.map_or_else(|| uid.to_string(), ToOwned::to_owned) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_names() {
        assert_eq!(parse_socket_name("dotnet-diagnostic-12-345-socket"), Some((12, 345)));
        assert_eq!(parse_socket_name("dotnet-diagnostic-12-socket"), None);
        assert_eq!(parse_socket_name("dotnet-diagnostic-dsrouter-12-345-socket"), None);
        assert_eq!(parse_socket_name("clr-debug-pipe-12-345-in"), None);
    }

    #[test]
    fn the_start_time_comes_first_then_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let socket = |ns_pid, start_ticks, age| {
            let path =
                folder.path().join(format!("dotnet-diagnostic-{ns_pid}-{start_ticks}-socket"));
            let file = fs::File::create(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(age)).unwrap();
        };
        for (ns_pid, start_ticks, age) in [(1, 5, 1), (1, 7, 3), (1, 6, 2), (2, 5, 9)] {
            socket(ns_pid, start_ticks, age);
        }
        let root = Root::own().unwrap();
        let all = list_sockets(&root, folder.path()).unwrap();
        let modified = |socket: &Socket| root.modified(&folder.path().join(&socket.name)).ok();
        let order = |start| {
            sockets_of(&all, 1, start, modified)
                .map(|socket| socket.start_ticks)
                .collect::<Vec<_>>()
        };
        assert_eq!(order(5), [5, 7, 6]);
        assert_eq!(order(1), [7, 6, 5]);
    }

    #[test]
    fn a_folder_that_one_process_could_not_show_is_listed_for_the_next() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("dotnet-diagnostic-1-2-socket"), "").unwrap();
        let mut machine = Machine::new();
        let folder = || (None, None, directory.path().to_owned());
        // Its root cannot be opened: it has just ended.
        assert_eq!(machine.list(folder(), None, (1, 2)), []);
        assert_eq!(machine.list(folder(), Some(&Root::own().unwrap()), (1, 2)).len(), 1);
        // What is known stays so.
        assert_eq!(machine.list(folder(), None, (1, 2)).len(), 1);
    }

    #[test]
    fn a_socket_that_comes_after_the_first_look_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let start = || {
            let child = std::process::Command::new("sleep")
                .arg("60")
                .env("TMPDIR", directory.path())
                .spawn()
                .unwrap();
            // Until it is that program, it has our environment, or none.
            let has_environment = |pid| {
                proc::environ(pid)
                    .is_ok_and(|variables| variables.iter().any(|(name, _)| name == "TMPDIR"))
                    && proc::comm(pid).is_ok_and(|name| name == "sleep")
            };
            while !has_environment(child.id()) {
                std::thread::sleep(Duration::from_millis(1));
            }
            child
        };
        let mut machine = Machine::new();
        let (mut first, mut second) = (start(), start());
        let mut look = |pid| match machine.look(pid).unwrap() {
            Inspection::Dotnet(found) => found.sockets.len(),
            Inspection::Other { .. } | Inspection::Over => 0,
        };
        let before = look(first.id());
        let ticks = proc::stat(second.id()).unwrap().start_ticks;
        let name = format!("dotnet-diagnostic-{}-{ticks}-socket", second.id());
        let _listener =
            std::os::unix::net::UnixListener::bind(directory.path().join(name)).unwrap();
        let after = look(second.id());
        for child in [&mut first, &mut second] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!((before, after), (0, 1));
    }

    #[test]
    fn variables_that_switch_off() {
        let off = |name: &str, value: &str| disabling_variable(&[(name.into(), value.into())]);
        assert_eq!(
            off("DOTNET_EnableDiagnostics", "0").as_deref(),
            Some("DOTNET_EnableDiagnostics=0")
        );
        assert_eq!(
            off("COMPlus_EnableDiagnostics", "0x00").as_deref(),
            Some("COMPlus_EnableDiagnostics=0x00")
        );
        assert!(off("DOTNET_EnableDiagnostics_IPC", "0").is_some());
        assert!(off("DOTNET_EnableDiagnostics", "1").is_none());
        assert!(off("DOTNET_EnableDiagnostics_Debugger", "0").is_none());
    }

    #[test]
    fn root_is_not_told_to_run_as_root() {
        assert_eq!(refused(1000, 1000, Some("web")), Obstacle::Protected);
        assert_eq!(refused(1000, 33, Some("web")), Obstacle::OtherUser { user: "web".into() });
        assert_eq!(refused(1000, 33, None), Obstacle::OtherUser { user: "33".into() });
        for uid in [0, 33] {
            let text = refused(0, uid, Some("web")).to_string();
            assert!(text.contains("CAP_SYS_PTRACE") && !text.contains("run as"), "{text}");
        }
    }

    #[test]
    fn users() {
        let users =
            parse_users("root:x:0:0:root:/root:/bin/sh\nbroken\nweb:x:33:33::/:/bin/false\n");
        assert_eq!(users, HashMap::from([(0, "root".into()), (33, "web".into())]));
    }
}
