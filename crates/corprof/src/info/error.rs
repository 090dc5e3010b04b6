//! What can go wrong when the runtime is asked for something.

use com::HResult;

use crate::signature::SignatureError;

/// Result of a call to the runtime.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Why a question to the runtime has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The runtime refused.
    #[error("{call}: {hresult}")]
    Hr {
        /// Name of the method, as in the runtime's headers.
        call: &'static str,
        /// What it answered.
        hresult: HResult,
    },
    /// The method belongs to an interface that this runtime does not have.
    #[error("this runtime has no {interface}; it requires {since} or newer")]
    NeedsRuntime {
        /// The interface.
        interface: &'static str,
        /// The first runtime that has it.
        since: &'static str,
    },
    /// The runtime reported that the call succeeded, but returned no object (null).
    #[error("{call}: the runtime returned no object (null)")]
    Nothing {
        /// Name of the method, as in the runtime's headers.
        call: &'static str,
    },
    /// A signature in the metadata cannot be decoded.
    #[error(transparent)]
    Signature(#[from] SignatureError),
}

impl Error {
    /// The code that the runtime answered, where there was one.
    #[must_use]
    pub const fn hresult(&self) -> Option<HResult> {
        match self {
            Self::Hr { hresult, .. } => Some(*hresult),
            _ => None,
        }
    }
}
