//! The messages of the diagnostic port: a 20-byte header and a payload, all little-endian.
//!
//! Source: `documentation/design-docs/ipc-protocol.md` of dotnet/diagnostics.

/// First 14 bytes of every message.
pub const MAGIC: &[u8; 14] = b"DOTNET_IPC_V1\0";

/// Bytes of a header.
pub const HEADER: usize = 20;

/// Largest message: its size is a `u16`.
pub const MAX_MESSAGE: usize = u16::MAX as usize;

/// Command set of answers.
const SERVER: u8 = 0xff;

/// A command that can be sent: set and id, and the name for error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Command set.
    pub set: u8,
    /// Id within the set.
    pub id: u8,
    /// Name, as the protocol's documentation has it.
    pub name: &'static str,
}

macro_rules! commands {
    ($($name:ident = $set:literal $id:literal $text:literal;)*) => {
        impl Command {
            $(#[doc = concat!("`", $text, "`")]
            pub const $name: Self = Self { set: $set, id: $id, name: $text };)*
        }
    };
}

commands! {
    CREATE_CORE_DUMP = 0x01 0x01 "CreateCoreDump";
    CREATE_CORE_DUMP_2 = 0x01 0x02 "CreateCoreDump2";
    CREATE_CORE_DUMP_3 = 0x01 0x03 "CreateCoreDump3";
    STOP_TRACING = 0x02 0x01 "StopTracing";
    COLLECT_TRACING = 0x02 0x02 "CollectTracing";
    COLLECT_TRACING_2 = 0x02 0x03 "CollectTracing2";
    COLLECT_TRACING_3 = 0x02 0x04 "CollectTracing3";
    COLLECT_TRACING_4 = 0x02 0x05 "CollectTracing4";
    ATTACH_PROFILER = 0x03 0x01 "AttachProfiler";
    STARTUP_PROFILER = 0x03 0x02 "StartupProfiler";
    PROCESS_INFO = 0x04 0x00 "ProcessInfo";
    RESUME_RUNTIME = 0x04 0x01 "ResumeRuntime";
    PROCESS_ENVIRONMENT = 0x04 0x02 "ProcessEnvironment";
    SET_ENVIRONMENT_VARIABLE = 0x04 0x03 "SetEnvironmentVariable";
    PROCESS_INFO_2 = 0x04 0x04 "ProcessInfo2";
    ENABLE_PERF_MAP = 0x04 0x05 "EnablePerfMap";
    DISABLE_PERF_MAP = 0x04 0x06 "DisablePerfMap";
    PROCESS_INFO_3 = 0x04 0x08 "ProcessInfo3";
}

#[cfg(target_os = "linux")]
impl Command {
    /// Whether this is the command of a message.
    pub fn is_of(self, message: &[u8]) -> bool {
        message.get(MAGIC.len() + 2..).is_some_and(|rest| rest.starts_with(&[self.set, self.id]))
    }
}

/// The message that ends a session, without an allocation.
#[cfg(target_os = "linux")]
pub fn stop_tracing(session: u64) -> [u8; HEADER + size_of::<u64>()] {
    let Command { set, id, .. } = Command::STOP_TRACING;
    let mut message = [0; HEADER + size_of::<u64>()];
    let ([low, high], rest) = ((message.len() as u16).to_le_bytes(), session.to_le_bytes());
    let bytes = MAGIC.iter().copied().chain([low, high, set, id, 0, 0]).chain(rest);
    message.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    message
}

/// Builds a command's payload.
#[derive(Debug, Default)]
pub struct Payload(Vec<u8>);

impl Payload {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A `u32` count and that many bytes.
    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX)).raw(bytes)
    }

    /// A `u32` count of UTF-16 units with the final NUL, then the units; no text at all is a count
    /// of 0.
    pub fn string(self, text: &str) -> Self {
        if text.is_empty() {
            return self.u32(0);
        }
        let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
        let mut payload = self.u32(u32::try_from(units.len()).unwrap_or(u32::MAX));
        payload.0.extend(units.into_iter().flat_map(u16::to_le_bytes));
        payload
    }

    /// The whole message, or its size where that is more than the protocol allows.
    pub fn message(self, command: Command) -> Result<Vec<u8>, usize> {
        let size = HEADER.saturating_add(self.0.len());
        let short = u16::try_from(size).map_err(|_| size)?;
        let mut message = Vec::with_capacity(size);
        message.extend_from_slice(MAGIC);
        message.extend_from_slice(&short.to_le_bytes());
        message.extend_from_slice(&[command.set, command.id, 0, 0]);
        message.extend_from_slice(&self.0);
        Ok(message)
    }
}

/// What kind of answer a header announces, and how many bytes follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It worked; a payload of this many bytes follows.
    Ok(usize),
    /// It did not; a payload of this many bytes follows.
    Error(usize),
}

/// Reads the header of an answer.
pub fn parse_answer(header: &[u8; HEADER]) -> Result<Answer, String> {
    let (magic, rest) = header.split_at(MAGIC.len());
    let &[size_low, size_high, set, id, _, _] = rest else {
        return Err("the header is cut short".into());
    };
    if magic != MAGIC {
        return Err(format!("it begins with `{}`", magic.escape_ascii()));
    }
    let size = usize::from(u16::from_le_bytes([size_low, size_high]));
    let payload = size.checked_sub(HEADER).ok_or_else(|| format!("its size is {size} bytes"))?;
    match (set, id) {
        (SERVER, 0x00) => Ok(Answer::Ok(payload)),
        (SERVER, 0xff) => Ok(Answer::Error(payload)),
        _ => Err(format!("its kind is {set:#04x} {id:#04x}")),
    }
}

/// Reads the fields of an answer's payload.
#[derive(Debug)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or("the payload is cut short")?;
        self.0 = rest;
        Ok(*head)
    }

    pub fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn guid(&mut self) -> Result<[u8; 16], String> {
        self.array()
    }

    pub fn string(&mut self) -> Result<String, String> {
        let units = self.u32()? as usize;
        // The count is checked against what is there before anything is allocated.
        let bytes = units.checked_mul(2).and_then(|bytes| self.0.split_at_checked(bytes));
        let (text, rest) =
            bytes.ok_or_else(|| format!("a text of {units} units is longer than the payload"))?;
        self.0 = rest;
        let units = text
            .chunks_exact(2)
            .filter_map(|pair| pair.first_chunk().copied().map(u16::from_le_bytes));
        let text: String = char::decode_utf16(units)
            .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
        Ok(text.trim_end_matches('\0').to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(magic: &[u8; 14], size: u16, set: u8, id: u8) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..14].copy_from_slice(magic);
        header[14..16].copy_from_slice(&size.to_le_bytes());
        header[16] = set;
        header[17] = id;
        header
    }

    #[test]
    fn a_command_has_the_documented_bytes() {
        let message =
            Payload::new().u32(5000).string("ab").message(Command::ATTACH_PROFILER).unwrap();
        let expected = b"DOTNET_IPC_V1\0\x22\0\x03\x01\0\0\x88\x13\0\0\x03\0\0\0a\0b\0\0\0";
        assert_eq!(message, expected);
        assert_eq!(
            Payload::new().string("").message(Command::PROCESS_INFO).unwrap()[HEADER..],
            [0; 4]
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_end_of_a_session_has_the_same_bytes_without_an_allocation() {
        let session = 0x7f12_3456_789a_bcde;
        let message = Payload::new().u64(session).message(Command::STOP_TRACING).unwrap();
        assert_eq!(stop_tracing(session)[..], message);
    }

    #[test]
    fn a_message_over_the_limit_is_refused() {
        assert_eq!(Payload::new().raw(&[0; 70_000]).message(Command::PROCESS_INFO), Err(70_020));
        assert!(
            Payload::new().raw(&[0; MAX_MESSAGE - HEADER]).message(Command::PROCESS_INFO).is_ok()
        );
    }

    #[test]
    fn answers() {
        assert_eq!(parse_answer(&header(MAGIC, 28, 0xff, 0)), Ok(Answer::Ok(8)));
        assert_eq!(parse_answer(&header(MAGIC, 24, 0xff, 0xff)), Ok(Answer::Error(4)));
        assert!(parse_answer(&header(MAGIC, 19, 0xff, 0)).is_err());
        assert!(parse_answer(&header(MAGIC, 24, 4, 0)).is_err());
        assert_eq!(
            parse_answer(&header(b"HTTP/1.1 400 B", 24, 0xff, 0)),
            Err("it begins with `HTTP/1.1 400 B`".into())
        );
    }

    #[test]
    fn texts_come_back() {
        let message = Payload::new().string("Grüße 🦀").message(Command::PROCESS_INFO).unwrap();
        assert_eq!(Fields::new(&message[HEADER..]).string().unwrap(), "Grüße 🦀");
        assert!(Fields::new(&[0xff, 0xff, 0xff, 0xff, 1, 2]).string().is_err());
        assert!(Fields::new(&[1]).u32().is_err());
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut fields = Fields::new(&bytes);
            while fields.string().is_ok() && fields.u32().is_ok() {}
            if let Some(header) = bytes.first_chunk::<HEADER>() {
                let _ = parse_answer(header);
            }
        }
    }
}
