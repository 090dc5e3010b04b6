//! What was read from a file of another tool and is none of our own samples.

/// What an imported weight counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImportedUnit {
    /// Samples, or things that the file does not name.
    Samples,
    /// Nanoseconds; the file does not say of which time.
    Nanoseconds,
    /// Bytes.
    Bytes,
}

impl rows::Words for ImportedUnit {
    const WORDS: &'static [(Self, &'static str)] = &[
        (ImportedUnit::Samples, "samples"),
        (ImportedUnit::Nanoseconds, "nanoseconds"),
        (ImportedUnit::Bytes, "bytes"),
    ];
}

rows::rows! {
    /// Values of stacks from a file of another tool, that are neither CPU nor wall time.
    #[derive(Copy, Eq)]
    pub struct ImportedValue in "imported", "values" {
        /// When; the start of the recording where the file does not say.
        time: rows::Time,
        /// Thread; one for all where the file does not say.
        thread: rows::Thread,
        /// Where.
        stack: rows::Stack,
        /// What the weight counts.
        unit: rows::Word<ImportedUnit>,
        /// Number of samples.
        samples: rows::Count,
        /// What they stand for together.
        weight: rows::Count,
        /// Whether outer frames of the stack are missing.
        truncated: rows::Flag,
    }
}
