//! The other side of the agent's socket, for tests on real runtimes.
#![allow(
    unsafe_code,
    reason = "descriptors come beside the bytes, which the standard library does not read"
)]
#![allow(dead_code, reason = "each test file uses a part of it")]

use diagnostics::Port;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use testkit::{Runtime, TargetProcess};
use wire::{
    Bye, Code, Control, CpuEngine, Hello, LogLevel, Method, ProfilerConfig, Record, SessionConfig,
    frame,
};

/// Longest wait for anything.
pub const LIMIT: Duration = Duration::from_secs(20);

/// The library that cargo built for this test: beside it, for `cargo test` does not copy it further
/// up.
pub fn library() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libclrscope_agent.so");
    assert!(library.exists(), "{} is missing: `cargo test -p agent` makes it", library.display());
    library
}

/// A session as a test wants it.
pub fn config(profilers: &[&str], cpu: CpuEngine) -> SessionConfig {
    let profilers = profilers.iter().map(|text| {
        let mut parts = text.split(':');
        let id = parts.next().unwrap().to_owned();
        let params = parts
            .map(|part| part.split_once('=').unwrap())
            .map(|(k, v)| (k.to_owned(), v.to_owned()));
        ProfilerConfig { id, params: params.collect() }
    });
    SessionConfig {
        protocol: wire::PROTOCOL_VERSION,
        socket: String::new(),
        token: *b"token of a test!",
        profilers: profilers.collect(),
        cpu,
        rate_hz: 100,
        max_frames: 256,
        launched: false,
        sdk_tools: wire::sdk::SdkTools::None,
        placeholder: false,
        stays: false,
        quota: None,
        free_memory: None,
    }
}

/// A place to be connected to.
pub struct Listener {
    directory: tempfile::TempDir,
    listener: UnixListener,
}

impl Listener {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("s")).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { directory, listener }
    }

    pub fn path(&self) -> String {
        self.directory.path().join("s").to_str().unwrap().to_owned()
    }

    /// The agent as it connects and says hello.
    pub fn accept(&self) -> Client {
        let deadline = Instant::now() + LIMIT;
        let stream = loop {
            match self.listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    assert!(Instant::now() < deadline, "no agent connected");
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut client = Client {
            stream,
            hello: None,
            records: Vec::new(),
            bye: None,
            descriptors: Vec::new(),
            pending: Vec::new(),
            seen: 0,
        };
        client.wait(|client| client.hello.is_some());
        client
    }
}

/// How clrscope attaches to a process.
pub fn clsid(pid: u32) -> [u8; 16] {
    let version = diagnostics::find_pid(pid).unwrap().runtime_major_minor();
    if version >= Some((6, 0)) { wire::CLSID_NOTIFY_ONLY } else { wire::CLSID_MAIN }
}

/// A connected agent, and all that it said.
pub struct Client {
    stream: UnixStream,
    pub hello: Option<Hello>,
    pub records: Vec<Record>,
    pub bye: Option<Bye>,
    pub descriptors: Vec<OwnedFd>,
    pending: Vec<u8>,
    seen: usize,
}

impl Client {
    /// Attaches to a process as clrscope does, and waits for the hello.
    pub fn attach(process: &TargetProcess, config: SessionConfig) -> Self {
        let clsid = clsid(process.pid());
        let client = Self::attach_as(process, config.clone(), clsid);
        // After a main profiler that has left, the first one is not called.
        let stays = client.bye.as_ref().is_some_and(|bye| bye.reason == wire::ByeReason::Stays);
        if stays { Self::attach_as(process, config, clsid) } else { client }
    }

    /// As [`Self::attach`], with a class id.
    pub fn attach_as(process: &TargetProcess, mut config: SessionConfig, clsid: [u8; 16]) -> Self {
        let listener = Listener::new();
        config.socket = listener.path();
        attach(process.pid(), &config, clsid).unwrap();
        listener.accept()
    }

    pub fn send(&mut self, control: &Control) {
        frame::write(&mut self.stream, control).unwrap();
    }

    /// Reads until something is so.
    #[track_caller]
    pub fn wait(&mut self, mut until: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !until(self) {
            assert!(
                Instant::now() < deadline,
                "waited in vain; the last records: {:?}",
                self.records.iter().rev().take(5)
            );
            if !self.read() {
                assert!(
                    until(self),
                    "the agent closed; the last records: {:?}",
                    self.records.iter().rev().take(5)
                );
                return;
            }
        }
    }

    /// Reads for a time.
    pub fn collect(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while let Some(left) =
            deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        {
            self.stream.set_read_timeout(Some(left)).unwrap();
            if !self.read() {
                break;
            }
        }
        self.stream.set_read_timeout(Some(LIMIT)).unwrap();
    }

    /// Reads some records; false at the end, or at the time limit.
    fn read(&mut self) -> bool {
        let mut bytes = vec![0u8; 1 << 16];
        let mut control = [0u64; 8];
        let mut data = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: an all-zero header is valid, the buffers are locals with the lengths given, and a
        // received descriptor is nobody else's.
        let read = unsafe {
            let mut header: libc::msghdr = std::mem::zeroed();
            header.msg_iov = &mut data;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&control) as _;
            let read = libc::recvmsg(self.stream.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC);
            let first = if read > 0 { libc::CMSG_FIRSTHDR(&header) } else { std::ptr::null_mut() };
            if !first.is_null() && (*first).cmsg_type == libc::SCM_RIGHTS {
                let fd = libc::CMSG_DATA(first).cast::<i32>().read_unaligned();
                self.descriptors.push(OwnedFd::from_raw_fd(fd));
            }
            read
        };
        if read <= 0 {
            return false;
        }
        self.pending.extend_from_slice(&bytes[..read as usize]);
        let mut at = 0;
        while let Some((length, rest)) = self.pending[at..].split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            assert!(length <= frame::MAX_FRAME);
            let Some(body) = rest.get(..length) else { break };
            for record in frame::decode::<Record>(body).unwrap() {
                match record {
                    Record::Hello(hello) => self.hello = Some(hello),
                    Record::Bye(bye) => self.bye = Some(bye),
                    other => self.records.push(other),
                }
            }
            at += 4 + length;
        }
        self.pending.drain(..at);
        true
    }

    /// Asks what stands at addresses, and waits until each is answered.
    #[track_caller]
    pub fn resolve(&mut self, ips: &[u64]) {
        for part in ips.chunks(Control::MAX_RESOLVE) {
            self.send(&Control::Resolve { executed: part.to_vec(), guessed: vec![] });
        }
        self.wait(|client| {
            let codes: BTreeMap<u64, u64> = client
                .codes()
                .flat_map(|code| {
                    code.ranges.iter().map(|&(start, length)| (start, start + u64::from(length)))
                })
                .collect();
            let not_code: std::collections::HashSet<u64> = client
                .records
                .iter()
                .filter_map(
                    |record| if let Record::NotCode(ip) = record { Some(*ip) } else { None },
                )
                .collect();
            ips.iter().all(|ip| {
                not_code.contains(ip)
                    || codes.range(..=ip).next_back().is_some_and(|(_, end)| ip < end)
            })
        });
    }

    pub fn codes(&self) -> impl Iterator<Item = &Code> {
        self.records
            .iter()
            .filter_map(|record| if let Record::Code(code) = record { Some(code) } else { None })
    }

    pub fn methods(&self) -> BTreeMap<u32, &Method> {
        let methods = self.records.iter();
        methods
            .filter_map(|r| {
                if let Record::Method(method) = r { Some((method.id, method)) } else { None }
            })
            .collect()
    }

    /// Full name of each method.
    pub fn names(&self) -> BTreeMap<u32, String> {
        let full =
            |method: &Method| format!("{}.{}{}", method.type_name, method.name, method.parameters);
        self.methods().into_iter().map(|(id, method)| (id, full(method))).collect()
    }

    /// Stops the session, and waits for the last words.
    #[track_caller]
    pub fn stop(&mut self) -> Bye {
        self.send(&Control::Stop);
        self.wait(|client| client.bye.is_some());
        assert_eq!(self.complaints(), Vec::<&str>::new());
        self.bye.clone().unwrap()
    }

    /// Warnings and errors that the agent told, but for the note on storms of exceptions, and that
    /// one thread keeps its alternate stack: one that handles null references all the time may do
    /// so at the end.
    pub fn complaints(&self) -> Vec<&str> {
        let complaints = self.records.iter().filter_map(|record| match record {
            Record::Log { level: LogLevel::Warning | LogLevel::Error, message } => {
                Some(message.as_str())
            }
            _ => None,
        });
        let by_design = |message: &str| {
            message.contains("exceptions per second")
                || message.starts_with("1 threads keep the alternate stacks")
        };
        let complaints = complaints.filter(|message| !by_design(message));
        complaints.collect()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.stream.flush();
    }
}

/// Asks the runtime of a process to load the agent.
pub fn attach(pid: u32, config: &SessionConfig, clsid: [u8; 16]) -> Result<(), diagnostics::Error> {
    let port: Port = diagnostics::find_pid(pid)?.port()?;
    port.attach_profiler(clsid, library().to_str().unwrap(), &config.to_bytes(), LIMIT)
}

/// Whether the library is mapped in a process.
pub fn is_mapped(pid: u32, library: &Path) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| line.contains(library.to_str().unwrap()))
}

/// Waits until nothing of the agent is in a process any more.
#[track_caller]
pub fn wait_gone(pid: u32) -> Duration {
    let begun = Instant::now();
    let library = library();
    while is_mapped(pid, &library) {
        assert!(
            begun.elapsed() < LIMIT,
            "the library stays mapped; threads: {:?}",
            agent_threads(pid)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    // The kernel tells that a thread has ended a moment before it takes it from its list.
    wait_threads_gone(pid);
    begun.elapsed()
}

/// Waits until no thread of the agent is in a process any more.
#[track_caller]
pub fn wait_threads_gone(pid: u32) {
    let begun = Instant::now();
    while !agent_threads(pid).is_empty() {
        assert!(begun.elapsed() < LIMIT, "threads stay: {:?}", agent_threads(pid));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Names of the agent's threads in a process.
pub fn agent_threads(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).filter(|name| name.starts_with("clrscope-")).collect()
}

/// Resident memory of a process, bytes.
pub fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// A program of each runtime that runs for a while: `burn`, and azmcp where no program of ours
/// runs.
pub fn running(runtime: Runtime) -> TargetProcess {
    if runtime.runs_samples() {
        let mut process = testkit::Sample::named("burn").start(runtime, &["--seconds", "300"]);
        process.wait_for_ready();
        process
    } else {
        let mut process = TargetProcess::azmcp(runtime);
        process.feed(1).unwrap();
        process
    }
}
