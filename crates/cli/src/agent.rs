//! The agent library that this program carries.

use recorder::AgentFile;
use std::{path::PathBuf, sync::Arc};

/// Made by `build.rs`: compressed.
const EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent.lz4"));

/// Where the agent comes from; for those who work on it.
#[derive(clap::Args, Clone, Debug)]
pub struct AgentArgs {
    /// Use this agent library instead of the one that clrscope carries
    #[arg(long, env = "CLRSCOPE_AGENT", value_name = "FILE", hide = true)]
    agent: Option<PathBuf>,
}

impl AgentArgs {
    /// The agent to send in.
    pub fn file(&self) -> AgentFile {
        match &self.agent {
            Some(path) => AgentFile::Path(Arc::new(path.clone())),
            None => AgentFile::Embedded(EMBEDDED),
        }
    }
}
