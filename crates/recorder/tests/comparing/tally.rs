//! How comparisons ended, counted.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};
use unwind::Failure;

/// How a comparison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The same methods at the same addresses.
    Equal,
    /// The same methods, and the same return addresses but for the leaf's: the thread was in native
    /// code, where the runtime tells the return address of the call that led there as it was noted
    /// at its beginning.
    EqualButPlaceInLeaf,
    /// As one of the above but for methods that the runtime leaves out of its own walks: dynamic
    /// ones, stubs that it generated, and the part of its exception handling that is written in C#.
    EqualButLeftOut,
    /// As one of the above but for exception handling. A filter, handler or finally block runs as a
    /// function of its own on top of the frames that the exception went through, and all of them
    /// are on the stack until it ends. The runtime shows the method that the block belongs to, and
    /// nothing of what lies between.
    EqualButHandler,
    /// The same methods, but not the same return addresses.
    OtherPlaces,
    /// A frame of the runtime's is missing.
    Missing,
    /// There is a frame more than the runtime's.
    More,
    /// Neither list is part of the other.
    Different,
    /// The unwinder lost its way; what it had was right or not.
    Broken(Failure),
    /// The stack was deeper than what was copied, and equal as far as it goes.
    Truncated,
    /// The stack was deeper than what was copied, and not equal as far as it goes.
    TruncatedDifferent,
}

impl Verdict {
    /// Whether the methods are the same.
    pub fn is_equal(self) -> bool {
        matches!(
            self,
            Self::Equal | Self::EqualButPlaceInLeaf | Self::EqualButLeftOut | Self::EqualButHandler
        )
    }

    /// Whether it counts neither for nor against: deeper than the limit.
    pub fn is_apart(self) -> bool {
        self == Self::Truncated
    }
}

/// All comparisons of a run.
#[derive(Debug, Default)]
pub struct Tally {
    /// How many of each.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// Distinct stacks of the runtime's among them.
    pub distinct: HashSet<Vec<u64>>,
    /// One or more of each that is not equal, in words.
    pub examples: BTreeMap<Verdict, Vec<String>>,
    /// Threads without managed frames, to the runtime and to the unwinder: not counted above.
    pub without: u64,
    /// Comparisons whose sample never came, or whose code never became known.
    pub lost: u64,
}

impl Tally {
    /// Comparisons that count.
    pub fn counted(&self) -> u64 {
        self.verdicts
            .iter()
            .filter(|(verdict, _)| !verdict.is_apart())
            .map(|(_, count)| count)
            .sum()
    }

    /// The share of them that is equal, 0 to 1.
    pub fn share(&self) -> f64 {
        let equal: u64 = self
            .verdicts
            .iter()
            .filter(|(verdict, _)| verdict.is_equal())
            .map(|(_, count)| count)
            .sum();
        equal as f64 / self.counted().max(1) as f64
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} comparisons, {:.2} % equal, {} distinct stacks; {} without managed frames, {} \
                lost;",
            self.counted(),
            self.share() * 100.0,
            self.distinct.len(),
            self.without,
            self.lost
        )?;
        self.verdicts.iter().try_for_each(|(verdict, count)| write!(out, " {verdict:?} {count}"))
    }
}
