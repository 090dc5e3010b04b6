use diagnostics::MemorySplit;
use profile::Profile;

/// All that rules look at.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The recording.
    pub profile: &'a Profile,
    /// Memory of the process as the system sees it, with the seconds since the first look, by time. Empty where nobody looked.
    pub memory: &'a [(f64, MemorySplit)],
}

impl<'a> From<&'a Profile> for Evidence<'a> {
    fn from(profile: &'a Profile) -> Self {
        Self { profile, memory: &[] }
    }
}
