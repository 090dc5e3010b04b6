use std::{io, path::PathBuf, sync::Arc};

/// The agent library, to be placed where the target can load it.
#[derive(Clone, Debug)]
pub enum AgentFile {
    /// Carried by this program.
    Embedded(&'static [u8]),
    /// A file.
    Path(Arc<PathBuf>),
}

impl AgentFile {
    /// Its bytes.
    pub fn read(&self) -> io::Result<std::borrow::Cow<'static, [u8]>> {
        match self {
            Self::Embedded(bytes) => Ok((*bytes).into()),
            Self::Path(path) => std::fs::read(path.as_ref()).map(Into::into),
        }
    }
}
