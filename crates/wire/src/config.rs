use crate::sdk::SdkTools;
use serde::{Deserialize, Serialize};

/// All choices of one recording, made outside and sent in once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionConfig {
    /// [`crate::PROTOCOL_VERSION`] of the sender.
    pub protocol: u16,
    /// Path of the Unix socket to connect to, as the target sees the file system.
    pub socket: String,
    /// Random bytes that the agent echoes in its [`crate::Hello`], so that only the right agent is
    /// served.
    pub token: [u8; 16],
    /// The profilers to run, by id.
    pub profilers: Vec<ProfilerConfig>,
    /// How CPU samples are taken, where the `cpu` profiler is on, or another one needs the stacks
    /// of running threads.
    pub cpu: CpuEngine,
    /// CPU samples per second and thread, 1 to 1000.
    pub rate_hz: u32,
    /// Most frames kept of a stack that is walked inside the target.
    pub max_frames: u32,
    /// Whether the agent was launched with the process. Then it holds the process back at its first
    /// instruction until [`crate::Control::Go`], for two seconds at most.
    pub launched: bool,
    /// Which tools of the .NET SDK a launch records; the agent cancels its activation in all
    /// others.
    pub sdk_tools: SdkTools,
    /// Whether there is no session at all: the agent does nothing, and never detaches. .NET 6 and
    /// newer count a main profiler that detaches as a notification-only one; a notification-only
    /// profiler that stays makes this count right again.
    pub placeholder: bool,
    /// Whether the agent stays in the process when the session ends, and serves the next ones.
    pub stays: bool,
    /// CPU time that the quota of the process's control groups allows, in thousandths of a
    /// processor; `None` without one.
    pub quota: Option<u32>,
    /// Bytes that are free in the process's memory cgroup as the recording begins; `None` where
    /// nothing limits it.
    pub free_memory: Option<u64>,
}

/// One profiler and its parameters as `key = value` texts that its spec validated outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfilerConfig {
    /// Id as in `clrscope profilers`.
    pub id: String,
    /// Parameters that differ from the defaults.
    pub params: Vec<(String, String)>,
}

/// Who takes CPU samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CpuEngine {
    /// Nobody: the `cpu` profiler is off.
    Off,
    /// The kernel, into a ring that clrscope reads from outside; the agent only resolves addresses.
    KernelRing,
    /// Timer signals: the agent copies registers and stack into a shared ring (see
    /// [`crate::ring`]).
    Signals,
    /// The agent suspends the runtime and walks the stacks of the threads that ran since the last
    /// tick.
    SuspendWalk,
    /// No profiler, but a check of ours: under suspension each thread copies its registers and
    /// stack into the shared ring and is walked by the runtime too, so that both stacks can be
    /// compared outside ([`crate::Record::Comparison`]).
    Compare,
    /// The same check for stacks of blocked threads: each is read as `wall` does, and walked by the
    /// runtime while it is suspended. Those that did not run in between are compared.
    CompareBlocked,
}

/// Why bytes are no [`SessionConfig`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// The text of the environment variable is not hexadecimal.
    #[error("the session configuration is not hexadecimal")]
    NotHex,
    /// The bytes do not decode.
    #[error("the session configuration does not decode: {0}")]
    Decode(postcard::Error),
    /// Another version of clrscope wrote it.
    #[error("the session configuration has protocol version {found}, this agent speaks {expected}", expected = crate::PROTOCOL_VERSION)]
    Version {
        /// The version found.
        found: u16,
    },
}

impl SessionConfig {
    /// As many thousandths of a processor (`share`) where the process may use a whole one, else as
    /// large a part of what it may use, and at least one thousandth.
    #[must_use]
    pub fn share_of_processor(&self, share: u64) -> u64 {
        let part = u64::from(self.quota.unwrap_or(1000).min(1000));
        (share * part / 1000).max(1)
    }

    /// As bytes, for the client data of an attach request.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Encoding into a growing vector fails only for types whose length is unknown, and there
        // are none here.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// As text, for [`crate::CONFIG_ENV`].
    pub fn to_hex(&self) -> String {
        self.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// From the client data of an attach request.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ConfigError> {
        let (protocol, _) = postcard::take_from_bytes::<u16>(bytes).map_err(ConfigError::Decode)?;
        if protocol != crate::PROTOCOL_VERSION {
            return Err(ConfigError::Version { found: protocol });
        }
        postcard::from_bytes(bytes).map_err(ConfigError::Decode)
    }

    /// From the text of [`crate::CONFIG_ENV`].
    pub fn from_hex(text: &str) -> Result<Self, ConfigError> {
        let digits = text.as_bytes().chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
            u8::from_str_radix(pair, 16).ok()
        });
        Self::from_bytes(&digits.collect::<Option<Vec<u8>>>().ok_or(ConfigError::NotHex)?)
    }

    /// The configuration of one profiler, where it is on.
    pub fn profiler(&self, id: &str) -> Option<&ProfilerConfig> {
        self.profilers.iter().find(|profiler| profiler.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> SessionConfig {
        SessionConfig {
            protocol: crate::PROTOCOL_VERSION,
            socket: "/tmp/x/agent.sock".into(),
            token: [7; 16],
            profilers: vec![ProfilerConfig {
                id: "cpu".into(),
                params: vec![("a".into(), "b".into())],
            }],
            cpu: CpuEngine::KernelRing,
            rate_hz: 100,
            max_frames: 512,
            launched: false,
            sdk_tools: SdkTools::Build,
            placeholder: false,
            stays: false,
            quota: None,
            free_memory: None,
        }
    }

    #[test]
    fn survives_both_ways_in() {
        let config = config();
        assert_eq!(SessionConfig::from_bytes(&config.to_bytes()), Ok(config.clone()));
        assert_eq!(SessionConfig::from_hex(&config.to_hex()), Ok(config));
    }

    #[test]
    fn another_version_is_named() {
        let mut config = config();
        config.protocol = 99;
        assert_eq!(
            SessionConfig::from_bytes(&config.to_bytes()),
            Err(ConfigError::Version { found: 99 })
        );
    }

    #[test]
    fn broken_text_is_refused() {
        assert_eq!(SessionConfig::from_hex("0g"), Err(ConfigError::NotHex));
        assert_eq!(SessionConfig::from_hex("é"), Err(ConfigError::NotHex));
        let only_version = format!("{:02x}", crate::PROTOCOL_VERSION);
        assert!(matches!(SessionConfig::from_hex(&only_version), Err(ConfigError::Decode(_))));
        assert!(matches!(SessionConfig::from_bytes(&[]), Err(ConfigError::Decode(_))));
    }
}
