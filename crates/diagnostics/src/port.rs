use crate::message::{Answer, Command, Fields, HEADER, MAX_MESSAGE, Payload, parse_answer};
use crate::platform::transport::{self, Stream};
use crate::reverse::Instance;
use crate::{Error, HResult};
use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The diagnostic port of one runtime.
///
/// Each command is a connection of its own, and each has a time-out for all of it: a peer that
/// sends nothing, garbage, or one byte at a time cannot hold a caller longer. All calls block.
#[derive(Clone)]
pub struct Port {
    source: Source,
    /// As each command has it, if nothing else was said.
    timeout: Option<Duration>,
}

/// Where connections come from.
#[derive(Clone)]
enum Source {
    /// The runtime listens.
    Listening {
        path: PathBuf,
        /// Who has to answer, where that can be checked.
        pid: Option<u32>,
    },
    /// The runtime connected to us.
    Reverse(Instance),
}

/// What a runtime says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Process id in the runtime's own pid namespace.
    pub pid: u64,
    /// Random number of this runtime instance, the same on each of its connections.
    pub cookie: [u8; 16],
    /// Command line, joined by blanks.
    pub command_line: String,
    /// Operating system, such as `Linux`.
    pub os: String,
    /// Processor architecture, such as `x64`.
    pub arch: String,
    /// Name of the managed entry assembly. Needs .NET 6; empty until managed code runs.
    pub entry_assembly: Option<String>,
    /// Version of the runtime as its product writes it, such as `9.0.5`. Needs .NET 6.
    pub runtime_version: Option<String>,
    /// Portable runtime identifier, such as `linux-x64`. Needs .NET 8.
    pub portable_rid: Option<String>,
}

/// What goes into a core dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpType {
    /// Stacks and what they need.
    Normal = 1,
    /// Also the managed heap.
    WithHeap = 2,
    /// Stacks without what is private.
    Triage = 3,
    /// All memory.
    Full = 4,
}

/// How a core dump is written. The default is quiet and writes the dump alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpFlags {
    /// Log on the target's standard output.
    pub logging: bool,
    /// Log more. Needs .NET 6.
    pub verbose: bool,
    /// Write a crash report in JSON beside the dump. Needs .NET 6.
    pub crash_report: bool,
}

/// Which files for native profilers the runtime writes to its temporary directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfMapType {
    /// Both of the below.
    All = 1,
    /// `jit-<pid>.dump`.
    JitDump = 2,
    /// `perf-<pid>.map`.
    PerfMap = 3,
}

impl Port {
    /// Time that a command may take when nothing else was said, but for one that starts an event
    /// session.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

    /// Time that starting an event session may take when nothing else was said. The runtime does it
    /// on a thread that each collection of garbage holds up: where it collects hundreds of times
    /// per second on many threads, that was seen to take 4 seconds.
    pub const SESSION_TIMEOUT: Duration = Duration::from_secs(20);

    /// Most bytes of client data that fit in an attach request with a library path of usual length.
    /// The protocol allows 64 KiB for the whole message.
    pub const MAX_CLIENT_DATA: usize = MAX_MESSAGE - HEADER - 4 - 16 - 4 - 2 * 4096 - 4;

    /// The port that listens at `path`; on Windows the name of the pipe. With `pid` each connection
    /// is checked: another process that answers there is [`Error::WrongPeer`].
    pub fn new(path: &Path, pid: Option<u32>) -> Self {
        Self { source: Source::Listening { path: path.to_owned(), pid }, timeout: None }
    }

    /// The port of a runtime that connected to us.
    pub(crate) fn reverse(instance: Instance) -> Self {
        Self { source: Source::Reverse(instance), timeout: None }
    }

    /// The same port with another time-out for each command.
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { source: self.source.clone(), timeout: Some(timeout) }
    }

    fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(Self::DEFAULT_TIMEOUT)
    }

    /// Where the runtime listens, and the process that is expected there, if one is. `None` for one
    /// that connected to us.
    #[cfg(target_os = "linux")]
    pub(crate) fn listening(&self) -> Option<(&Path, Option<u32>)> {
        match &self.source {
            Source::Listening { path, pid } => Some((path, *pid)),
            Source::Reverse(_) => None,
        }
    }

    /// The time limit of an event session's commands.
    pub(crate) fn session_timeout(&self) -> Duration {
        self.timeout.unwrap_or(Self::SESSION_TIMEOUT)
    }

    /// Where the port is, for messages.
    pub fn address(&self) -> String {
        match &self.source {
            Source::Listening { path, .. } => path.display().to_string(),
            Source::Reverse(instance) => instance.address(),
        }
    }

    pub(crate) fn connect(&self, deadline: Instant) -> Result<Stream, Error> {
        let failed = |source| Error::Connect { address: self.address(), source };
        match &self.source {
            Source::Listening { path, pid } => {
                let stream = transport::connect(path, deadline).map_err(failed)?;
                if let (Some(expected), Some(peer)) = (*pid, transport::peer(&stream))
                    && peer.pid != expected
                {
                    return Err(Error::WrongPeer {
                        address: self.address(),
                        expected,
                        found: peer.pid,
                    });
                }
                Ok(stream)
            }
            Source::Reverse(instance) => instance.connect(deadline).map_err(failed),
        }
    }

    /// Sends one command and reads the whole answer. The connection comes back for streams that
    /// follow.
    pub(crate) fn exchange(
        &self,
        command: Command,
        payload: Payload,
        timeout: Duration,
    ) -> Result<(Stream, Vec<u8>), Error> {
        let message = message(command, payload)?;
        // Far enough away to be no limit, near enough to be no overflow.
        let deadline = Instant::now() + timeout.min(Duration::from_secs(1 << 20));
        let failed = |source| Error::from_io(command.name, timeout, source);
        let mut stream = self.connect(deadline)?;
        stream.write_all(&message).map_err(failed)?;
        let payload = read_answer(&mut stream, command, timeout)?;
        Ok((stream, payload))
    }

    /// A command whose answer is nothing but an error code, or nothing at all.
    fn order(&self, command: Command, payload: Payload, timeout: Duration) -> Result<(), Error> {
        let (_, payload) = self.exchange(command, payload, timeout)?;
        let hresult = match Fields::new(&payload).u32() {
            Ok(code) => HResult(code),
            // Some runtimes answer some commands with an empty payload.
            Err(_) => HResult(0),
        };
        if hresult.is_success() {
            Ok(())
        } else {
            Err(Error::Refused { command: command.name, hresult, message: None })
        }
    }

    /// Asks with the newest form of the command that the runtime knows.
    ///
    /// .NET Core 3.1 and older know none and give [`HResult::UNKNOWN_COMMAND`]; .NET 5 has the
    /// first form only.
    pub fn process_info(&self) -> Result<ProcessInfo, Error> {
        let deadline = Instant::now() + self.timeout();
        let mut last = None;
        for (command, form) in
            [(Command::PROCESS_INFO_3, 3), (Command::PROCESS_INFO_2, 2), (Command::PROCESS_INFO, 1)]
        {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.exchange(command, Payload::new(), left) {
                Ok((_, payload)) => {
                    return parse_process_info(&payload, form)
                        .map_err(|what| Error::Garbage { command: command.name, what });
                }
                Err(error) if error.is_unknown_command() => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        // Nothing but a refusal of the last form gets here.
        Err(last.unwrap_or(Error::Closed { command: Command::PROCESS_INFO.name }))
    }

    /// The environment as the runtime has it now. Needs .NET 5.
    pub fn environment(&self) -> Result<Vec<(String, String)>, Error> {
        /// Far more than an operating system allows.
        const MAX_ENVIRONMENT: usize = 32 << 20;
        let command = Command::PROCESS_ENVIRONMENT;
        let garbage = |what: String| Error::Garbage { command: command.name, what };
        let (stream, payload) = self.exchange(command, Payload::new(), self.timeout())?;
        let size = Fields::new(&payload).u32().map_err(garbage)? as usize;
        if size > MAX_ENVIRONMENT {
            return Err(garbage(format!("it announces an environment of {size} bytes")));
        }
        // Grows with what really comes.
        let mut bytes = Vec::new();
        let failed = |source| Error::from_io(command.name, self.timeout(), source);
        stream.take(size as u64).read_to_end(&mut bytes).map_err(failed)?;
        let mut fields = Fields::new(&bytes);
        let count = fields.u32().map_err(garbage)?;
        let mut variables = Vec::new();
        for _ in 0..count {
            let entry = fields.string().map_err(garbage)?;
            let (name, value) = entry.split_once('=').unwrap_or((&entry, ""));
            variables.push((name.to_owned(), value.to_owned()));
        }
        Ok(variables)
    }

    /// Loads a profiler library into the running process.
    ///
    /// `clsid` is the class id as it lies in memory (see [`clsid_text`]), `library` the path as the
    /// target sees it, `client_data` what the profiler gets in `InitializeForAttach`. The runtime
    /// answers after that call returned. With a `timeout` shorter than that the attach may still
    /// happen later.
    ///
    /// Fails with [`Error::Refused`]; the codes to expect are [`HResult::PROFILER_ALREADY_ACTIVE`],
    /// [`HResult::MODULE_NOT_FOUND`], [`HResult::NOT_SUPPORTED`] and whatever the profiler itself
    /// returned.
    pub fn attach_profiler(
        &self,
        clsid: [u8; 16],
        library: &str,
        client_data: &[u8],
        timeout: Duration,
    ) -> Result<(), Error> {
        let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        let payload =
            Payload::new().u32(milliseconds).raw(&clsid).string(library).bytes(client_data);
        self.order(Command::ATTACH_PROFILER, payload, timeout)
    }

    /// Sets the profiler that a runtime which is suspended at its start will begin with. Needs
    /// .NET 6.
    pub fn set_startup_profiler(&self, clsid: [u8; 16], library: &str) -> Result<(), Error> {
        self.order(
            Command::STARTUP_PROFILER,
            Payload::new().raw(&clsid).string(library),
            self.timeout(),
        )
    }

    /// Resumes a runtime that is suspended at its start. Does nothing to one that is not. Needs
    /// .NET 5.
    pub fn resume_runtime(&self) -> Result<(), Error> {
        self.order(Command::RESUME_RUNTIME, Payload::new(), self.timeout())
    }

    /// Sets an environment variable of the process; an empty value removes it. Needs .NET 6.
    pub fn set_environment_variable(&self, name: &str, value: &str) -> Result<(), Error> {
        let payload = Payload::new().string(name).string(value);
        self.order(Command::SET_ENVIRONMENT_VARIABLE, payload, self.timeout())
    }

    /// Makes the runtime write a core dump to `path`, as the target sees it. The newest form that
    /// the runtime knows is used; runtimes before .NET 6 know only [`DumpFlags::logging`]. A big
    /// process may need minutes.
    pub fn create_core_dump(
        &self,
        path: &str,
        kind: DumpType,
        flags: DumpFlags,
        timeout: Duration,
    ) -> Result<(), Error> {
        let bits = u32::from(flags.logging)
            | u32::from(flags.verbose) << 1
            | u32::from(flags.crash_report) << 2;
        let payload = |flags: u32| Payload::new().string(path).u32(kind as u32).u32(flags);
        for command in [Command::CREATE_CORE_DUMP_3, Command::CREATE_CORE_DUMP_2] {
            match self.order(command, payload(bits), timeout) {
                Err(error) if error.is_unknown_command() => {}
                done => return done,
            }
        }
        self.order(Command::CREATE_CORE_DUMP, payload(bits & 1), timeout)
    }

    /// Starts writing maps of JIT'd code for native profilers. Needs .NET 8.
    pub fn enable_perf_map(&self, kind: PerfMapType) -> Result<(), Error> {
        self.order(Command::ENABLE_PERF_MAP, Payload::new().u32(kind as u32), self.timeout())
    }

    /// Ends what [`Self::enable_perf_map`] started. Needs .NET 8.
    pub fn disable_perf_map(&self) -> Result<(), Error> {
        self.order(Command::DISABLE_PERF_MAP, Payload::new(), self.timeout())
    }

    /// Ends an EventPipe session. The runtime first writes what it has buffered, so somebody has to
    /// continue to read the session meanwhile.
    pub(crate) fn stop_tracing(&self, session: u64, timeout: Duration) -> Result<(), Error> {
        // The answer repeats the session's id, which is no error code.
        self.exchange(Command::STOP_TRACING, Payload::new().u64(session), timeout).map(drop)
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("address", &self.address())
            .field("timeout", &self.timeout())
            .finish()
    }
}

/// The bytes of a command.
pub(crate) fn message(command: Command, payload: Payload) -> Result<Vec<u8>, Error> {
    payload.message(command).map_err(|size| Error::TooLarge {
        command: command.name,
        size,
        max: MAX_MESSAGE,
    })
}

/// The payload of the answer to a command that succeeded.
pub(crate) fn read_answer(
    stream: &mut impl Read,
    command: Command,
    timeout: Duration,
) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::from_io(command.name, timeout, source);
    let garbage = |what: String| Error::Garbage { command: command.name, what };
    let mut header = [0; HEADER];
    match read_up_to(stream, &mut header).map_err(failed)? {
        HEADER => {}
        0 => return Err(Error::Closed { command: command.name }),
        read => return Err(garbage(format!("it ends after {read} bytes"))),
    }
    let (ok, length) = match parse_answer(&header).map_err(garbage)? {
        Answer::Ok(length) => (true, length),
        Answer::Error(length) => (false, length),
    };
    // At most 64 KiB: the length was a u16.
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).map_err(failed)?;
    if ok {
        return Ok(payload);
    }
    let mut fields = Fields::new(&payload);
    let hresult = HResult(fields.u32().map_err(garbage)?);
    let message = fields.string().ok().filter(|text| !text.is_empty());
    Err(Error::Refused { command: command.name, hresult, message })
}

/// Reads until the buffer is full or the other side closes; says how many bytes came.
fn read_up_to(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A peer that closes with our bytes unread resets the connection.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn parse_process_info(payload: &[u8], form: u32) -> Result<ProcessInfo, String> {
    let mut fields = Fields::new(payload);
    if form >= 3 {
        let version = fields.u32()?;
        if version != 1 {
            return Err(format!("its version is {version}"));
        }
    }
    let some = |text: String| (!text.is_empty()).then_some(text);
    Ok(ProcessInfo {
        pid: fields.u64()?,
        cookie: fields.guid()?,
        command_line: fields.string()?,
        os: fields.string()?,
        arch: fields.string()?,
        entry_assembly: if form >= 2 { some(fields.string()?) } else { None },
        // The product version carries the commit behind a plus sign.
        runtime_version: if form >= 2 {
            fields.string()?.split('+').next().map(str::to_owned).and_then(some)
        } else {
            None
        },
        portable_rid: if form >= 3 { some(fields.string()?) } else { None },
    })
}

/// A class id in the form that `CORECLR_PROFILER` takes: `{01234567-89AB-CDEF-0123-456789ABCDEF}`.
///
/// The first three parts of a GUID are little-endian numbers in memory.
pub fn clsid_text(clsid: [u8; 16]) -> String {
    let [a0, a1, a2, a3, b0, b1, c0, c1, d0, d1, e0, e1, e2, e3, e4, e5] = clsid;
    format!(
        "{{{:08X}-{:04X}-{:04X}-{d0:02X}{d1:02X}-{e0:02X}{e1:02X}{e2:02X}{e3:02X}{e4:02X}{e5:02X}}}",
        u32::from_le_bytes([a0, a1, a2, a3]),
        u16::from_le_bytes([b0, b1]),
        u16::from_le_bytes([c0, c1]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_ids_are_written_as_the_runtime_reads_them() {
        let bytes = [
            0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd,
            0xee, 0xff,
        ];
        assert_eq!(clsid_text(bytes), "{00112233-4455-6677-8899-AABBCCDDEEFF}");
    }

    #[test]
    fn all_forms_of_process_info() {
        let old = Payload::new()
            .u64(7)
            .raw(&[9; 16])
            .string("dotnet a.dll")
            .string("Linux")
            .string("x64");
        let old = old.message(Command::PROCESS_INFO).unwrap()[HEADER..].to_vec();
        let info = parse_process_info(&old, 1).unwrap();
        assert_eq!((info.pid, info.arch.as_str(), info.runtime_version), (7, "x64", None));
        assert!(parse_process_info(&old, 2).is_err());
        let rest = Payload::new().string("a").string("8.0.30+abc").string("linux-x64");
        let rest = rest.message(Command::PROCESS_INFO).unwrap()[HEADER..].to_vec();
        let new = [&1u32.to_le_bytes()[..], &old, &rest].concat();
        let info = parse_process_info(&new, 3).unwrap();
        assert_eq!(info.entry_assembly.as_deref(), Some("a"));
        assert_eq!(info.runtime_version.as_deref(), Some("8.0.30"));
        assert_eq!(info.portable_rid.as_deref(), Some("linux-x64"));
        assert!(parse_process_info(&[&2u32.to_le_bytes()[..], &old, &rest].concat(), 3).is_err());
    }
}
