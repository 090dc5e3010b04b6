//! Why a method keeps its body.

use super::MetadataError;
use crate::log::Level;
use crate::signature_text::TextError;

/// Why a method is not instrumented. It always keeps its original body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The outermost type around the method has sequential layout.
    #[error("Skipping sequential layout method")]
    SequentialLayout,
    /// A property, event, operator or static constructor.
    #[error("Skipping SpecialName method")]
    SpecialName,
    /// Code outside of the runtime.
    #[error("Skipping a method that calls unmanaged code or is called by it")]
    Unmanaged,
    /// The body cannot be read, or does not end in its last `ret`.
    #[error("Skipping invalid method")]
    InvalidMethod,
    /// Sections behind the code that are no table of exception clauses, or several of them.
    #[error("Extra sections other than one table of exception clauses are not supported.")]
    UnsupportedSection,
    /// The method returns a reference.
    #[error("By ref tokenization not supported.")]
    ByRefReturn,
    /// A type for which there is no token, such as a pointer.
    #[error("A type of the signature has no token.")]
    UnsupportedType,
    /// The signature cannot be read.
    #[error("The signature cannot be read.")]
    Signature,
    /// A type of the signature has no name.
    #[error("The signature has no text: {0}")]
    Text(#[from] TextError),
    /// The locals cannot be read, or there are too many.
    #[error("The signature of the local variables cannot be extended.")]
    Locals,
    /// The module refers to no library that has the basic types.
    #[error("The module refers to neither mscorlib, netstandard nor System.Runtime.")]
    NoCoreReference,
    /// Something that injected code needs is missing from the core library.
    #[error("The core library has no {name}.")]
    MissingMember {
        /// Its name.
        name: String,
    },
    /// The metadata could not be extended.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// Implemented by the runtime as an asynchronous method, which the managed agent cannot trace.
    #[error("Skipping a runtime-async method: the managed agent is older than 10.55")]
    RuntimeAsync,
    /// Such a method whose result cannot be determined from its return type.
    #[error("Skipping runtime-async method with an unrecognized return type")]
    RuntimeAsyncReturn,
    /// A helper longer than its header can say.
    #[error("A helper method has {size} bytes of code; at most 63 fit.")]
    HelperTooLong {
        /// Bytes of code.
        size: usize,
    },
    /// Code could not be written: a fault of this crate.
    #[error("The new body could not be written.")]
    Malformed,
}

impl Refusal {
    /// The level to log it with.
    #[must_use]
    pub const fn level(&self) -> Level {
        match self {
            Self::InvalidMethod => Level::Info,
            Self::RuntimeAsync | Self::RuntimeAsyncReturn => Level::Warn,
            _ => Level::Error,
        }
    }
}
