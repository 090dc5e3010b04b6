use crate::error::Candidate;
use crate::platform::discovery;
use crate::{Error, Obstacle, Port};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// A .NET process, and whether we can attach to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DotnetProcess {
    /// Process id in our pid namespace.
    pub pid: u32,
    /// Process id in its own pid namespace: what the process calls itself.
    pub ns_pid: u32,
    /// Effective user, where the system has such numbers.
    pub uid: Option<u32>,
    /// Name of the user on this machine, where it has one.
    pub user: Option<String>,
    /// Short name for lists, and for [`find`]: the entry assembly, else the executable.
    pub name: String,
    /// Arguments, the program first; empty where we may not see them.
    pub args: Vec<String>,
    /// The executable, as the process sees it; `None` where we may not see it.
    pub executable: Option<PathBuf>,
    /// Name of the entry assembly, where the runtime or the arguments tell.
    pub entry_assembly: Option<String>,
    /// When the process started: milliseconds since 1970.
    pub started_unix_ms: Option<u64>,
    /// Version of the runtime, such as `9.0.5`, where the runtime or its path tells.
    pub runtime_version: Option<String>,
    /// Processor architecture as .NET names it, such as `x64`.
    pub arch: Option<String>,
    /// How the runtime came into the process; `None` where we could not look.
    pub hosting: Option<Hosting>,
    /// Whether it lives in another mount or pid namespace than we do: in a container, mostly.
    pub contained: bool,
    /// The directory for temporary files as the process sees it.
    pub temp_dir: PathBuf,
    /// The diagnostic socket or pipe as we see it.
    pub socket: Option<PathBuf>,
    /// Why nothing can attach; `None` when something can.
    pub obstacle: Option<Obstacle>,
}

/// How the runtime came into a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hosting {
    /// As a shared library: framework-dependent, or self-contained in many files.
    Library,
    /// Linked into the executable: a single-file application.
    SingleFile,
    /// Compiled ahead of time; there is no CoreCLR.
    NativeAot,
}

impl DotnetProcess {
    /// The arguments, joined by blanks.
    pub fn command_line(&self) -> String {
        self.args.join(" ")
    }

    /// The diagnostic port of the process, or [`Error::Unattachable`].
    pub fn port(&self) -> Result<Port, Error> {
        let unattachable =
            |obstacle| Error::Unattachable { pid: self.pid, name: self.name.clone(), obstacle };
        match (&self.obstacle, &self.socket) {
            (Some(obstacle), _) => Err(unattachable(obstacle.clone())),
            (None, Some(socket)) => {
                Ok(Port::new(socket, discovery::CHECKS_PEER.then_some(self.pid)))
            }
            (None, None) => {
                Err(unattachable(Obstacle::NoSocket { directory: self.temp_dir.clone() }))
            }
        }
    }

    /// The first two numbers of [`Self::runtime_version`].
    pub fn runtime_major_minor(&self) -> Option<(u32, u32)> {
        self.runtime_version.as_deref().and_then(major_minor)
    }

    /// Whether it has no port, and may have had no time to open one.
    fn is_starting(&self, now: SystemTime) -> bool {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let age = |started| now.saturating_sub(Duration::from_millis(started));
        self.socket.is_none()
            && matches!(
                self.obstacle,
                Some(Obstacle::NoSocket { .. } | Obstacle::SocketRemoved { .. })
            )
            && self.started_unix_ms.is_some_and(|started| age(started) < YOUNG)
    }

    fn candidate(&self) -> Candidate {
        let command_line =
            if self.args.is_empty() { self.name.clone() } else { self.command_line() };
        Candidate { pid: self.pid, command_line }
    }

    /// Whether the process is meant by this name: its short name, its executable or its assembly's
    /// file.
    fn is_named(&self, name: &str, same: impl Fn(&str, &str) -> bool) -> bool {
        let executable = self.executable.as_deref().and_then(|path| path.file_name()?.to_str());
        let stem = name.strip_suffix(".dll").unwrap_or(name);
        same(&self.name, stem)
            || executable.is_some_and(|executable| same(executable, name))
            || self.entry_assembly.as_deref().is_some_and(|assembly| same(assembly, stem))
    }
}

/// The oldest runtime that we support.
pub(crate) const FLOOR: (u32, u32) = (3, 1);

/// The first two numbers of a version.
pub(crate) fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// How long [`discover`] waits for one runtime.
const DISCOVERY_TIMEOUT: Duration = Duration::from_millis(700);

/// How long [`find`] waits for the runtime.
const FIND_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a process is young: it may not have opened its port yet.
const YOUNG: Duration = Duration::from_secs(10);

/// How long [`find_pid`] waits for a young process to open its port.
const START_LIMIT: Duration = Duration::from_secs(3);

/// How often it looks.
const START_POLL: Duration = Duration::from_millis(50);
/// How long [`locate`] waits for the runtime.
const LOCATE_TIMEOUT: Duration = Duration::from_millis(300);

/// All .NET processes that we can see, also those that nothing can attach to, in ascending order of
/// ids.
///
/// Every runtime is asked for its facts, several at a time and each with a short time-out.
pub fn discover() -> Result<Vec<DotnetProcess>, Error> {
    discovery::discover(DISCOVERY_TIMEOUT)
}

/// The one process that a user means by an id or a name, ready for attaching, or exactly why there
/// is none.
///
/// A name is the short name, the file name of the executable, or the entry assembly, with or
/// without `.dll`; upper and lower case count only where both exist.
pub fn find(target: &str) -> Result<DotnetProcess, Error> {
    match target.parse() {
        Ok(pid) => find_pid(pid),
        Err(_) => find_name(target),
    }
}

/// The process with this id, ready for attaching, or exactly why not.
///
/// A process that has just started gets a moment to open its port.
pub fn find_pid(pid: u32) -> Result<DotnetProcess, Error> {
    let begun = Instant::now();
    loop {
        let process = discovery::inspect(pid, FIND_TIMEOUT)?;
        if !process.is_starting(SystemTime::now()) || begun.elapsed() > START_LIMIT {
            return process.port().map(|_| process);
        }
        std::thread::sleep(START_POLL);
    }
}

/// The one process with this name, ready for attaching, or exactly why there is none; see [`find`].
pub fn find_name(name: &str) -> Result<DotnetProcess, Error> {
    match choose(discover()?, name) {
        Err(Error::Unattachable {
            pid,
            obstacle: Obstacle::NoSocket { .. } | Obstacle::SocketRemoved { .. },
            ..
        }) => find_pid(pid),
        chosen => chosen,
    }
}

/// The one process that a user means by an id or a name, as [`find`], but also where nothing can
/// attach to it. A runtime that does not answer holds this up for less than a second.
pub fn locate(target: &str) -> Result<DotnetProcess, Error> {
    match target.parse() {
        Ok(pid) => discovery::inspect(pid, LOCATE_TIMEOUT),
        Err(_) => named(discover()?, target),
    }
}

fn choose(processes: Vec<DotnetProcess>, name: &str) -> Result<DotnetProcess, Error> {
    let process = named(processes, name)?;
    process.port().map(|_| process)
}

/// The one process with a name, whether or not something can attach to it.
fn named(processes: Vec<DotnetProcess>, name: &str) -> Result<DotnetProcess, Error> {
    let named = |same: fn(&str, &str) -> bool| -> Vec<&DotnetProcess> {
        processes.iter().filter(|process| process.is_named(name, same)).collect()
    };
    let mut candidates = named(|a, b| a == b);
    if candidates.is_empty() {
        candidates = named(|a, b| a.eq_ignore_ascii_case(b));
    }
    // One that nothing can attach to does not make a name ambiguous.
    if candidates.iter().any(|process| process.obstacle.is_none()) {
        candidates.retain(|process| process.obstacle.is_none());
    }
    match candidates.as_slice() {
        [] => Err(Error::NoProcessNamed { name: name.to_owned() }),
        [process] => Ok((*process).clone()),
        many => Err(Error::Ambiguous {
            name: name.to_owned(),
            candidates: many.iter().map(|process| process.candidate()).collect(),
        }),
    }
}

/// The entry assembly's name, from the arguments of the `dotnet` host: `dotnet [exec] [options]
/// App.dll …`.
pub(crate) fn assembly_in_arguments(args: &[String]) -> Option<String> {
    let (program, rest) = args.split_first()?;
    let program = file_name(program);
    if program != "dotnet" && !program.eq_ignore_ascii_case("dotnet.exe") {
        return None;
    }
    let dll = rest.iter().map(|argument| file_name(argument)).find(|name| {
        name.get(name.len().saturating_sub(4)..).is_some_and(|end| end.eq_ignore_ascii_case(".dll"))
    })?;
    dll.get(..dll.len().saturating_sub(4)).map(str::to_owned)
}

/// The last part of a path of either kind of system.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, name: &str, executable: &str) -> DotnetProcess {
        DotnetProcess {
            pid,
            ns_pid: pid,
            uid: Some(1000),
            user: None,
            name: name.into(),
            args: vec![executable.into(), format!("{name}.dll")],
            executable: Some(executable.into()),
            entry_assembly: Some(name.into()),
            started_unix_ms: None,
            runtime_version: Some("9.0.5".into()),
            arch: None,
            hosting: Some(Hosting::Library),
            contained: false,
            temp_dir: "/tmp".into(),
            socket: Some("/tmp/s".into()),
            obstacle: None,
        }
    }

    #[test]
    fn names() {
        let all = vec![
            process(1, "Shop", "/usr/bin/dotnet"),
            process(2, "shop", "/srv/shop"),
            process(3, "Web", "/usr/bin/dotnet"),
            DotnetProcess { obstacle: Some(Obstacle::NativeAot), ..process(4, "Web", "/srv/Web") },
        ];
        let pid = |name| choose(all.clone(), name).map(|process| process.pid);
        assert_eq!(pid("Shop").unwrap(), 1);
        assert_eq!(pid("shop").unwrap(), 2);
        assert_eq!(pid("Shop.dll").unwrap(), 1);
        assert_eq!(pid("WEB").unwrap(), 3);
        assert!(
            matches!(pid("SHOP"), Err(Error::Ambiguous { candidates, .. }) if candidates.len() == 2)
        );
        assert!(matches!(pid("none"), Err(Error::NoProcessNamed { .. })));
        assert_eq!(named(vec![all[3].clone()], "web").map(|process| process.pid).unwrap(), 4);
        let text = pid("dotnet").unwrap_err().to_string();
        assert_eq!(
            text,
            "`dotnet` names 2 .NET processes: use the id of one of them\n        1  /usr/bin/dotnet Shop.dll\n        3  /usr/bin/dotnet Web.dll"
        );
    }

    #[test]
    fn the_only_one_with_the_name_says_why_not() {
        let all = vec![DotnetProcess {
            obstacle: Some(Obstacle::NativeAot),
            ..process(4, "Web", "/srv/Web")
        }];
        assert!(matches!(
            choose(all, "web"),
            Err(Error::Unattachable { pid: 4, obstacle: Obstacle::NativeAot, .. })
        ));
    }

    #[test]
    fn only_a_young_process_may_still_open_its_port() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let of = |started, obstacle| DotnetProcess {
            started_unix_ms: Some(started),
            socket: None,
            obstacle: Some(obstacle),
            ..process(1, "Shop", "/srv/Shop")
        };
        let none = || Obstacle::NoSocket { directory: "/tmp".into() };
        assert!(of(99_000, none()).is_starting(now));
        assert!(of(99_000, Obstacle::SocketRemoved { path: "/tmp/s".into() }).is_starting(now));
        assert!(!of(80_000, none()).is_starting(now));
        assert!(!of(99_000, Obstacle::NativeAot).is_starting(now));
        assert!(!process(1, "Shop", "/srv/Shop").is_starting(now));
    }

    #[test]
    fn assemblies_in_arguments() {
        let assembly = |line: &str| {
            assembly_in_arguments(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(
            assembly("dotnet exec --runtimeconfig a.json /x/My.App.dll b.dll").as_deref(),
            Some("My.App")
        );
        assert_eq!(assembly("/opt/dotnet/dotnet App.DLL").as_deref(), Some("App"));
        assert_eq!(assembly("/srv/app App.dll"), None);
        assert_eq!(assembly("dotnet --info"), None);
        assert_eq!(assembly("dotnet é"), None);
    }

    #[test]
    fn versions() {
        assert_eq!(major_minor("9.0.5"), Some((9, 0)));
        assert_eq!(major_minor("10.0-preview"), Some((10, 0)));
        assert_eq!(major_minor("x"), None);
    }
}
