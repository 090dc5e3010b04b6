//! From what was seen to a verdict: a death that also happens without clrscope is not its own.

use super::{DEAD, Verdict};
use crate::harm::state::{Growth, Leftover};
use std::time::Duration;

/// One half of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// With clrscope.
    With,
    /// Without, looked at for at least so long.
    Without(Duration),
}

/// What was seen in an attempt.
pub(super) struct Seen {
    pub(super) verdict: Verdict,
    /// What was left over, which is not in the verdict.
    pub(super) left: Vec<Leftover>,
    /// Without clrscope: by how much the target grew.
    pub(super) growth: Growth,
    /// From when the state before was known until there was no use in waiting any longer.
    pub(super) lasted: Duration,
}

/// The verdict on what failed, by what the target does without clrscope: that is not clrscope's,
/// the rest is. Of one that dies by itself all is. Gives also what was left over and is explained.
pub(super) fn weigh(
    reasons: Vec<String>,
    left: Vec<Leftover>,
    without: Seen,
) -> (Verdict, Vec<Leftover>) {
    let same = match &without.verdict {
        Verdict::Failed(same) => same.as_slice(),
        _ => &[],
    };
    let dies = same.iter().any(|reason| is_death(reason));
    // What is no matter of numbers is the same if it is there at all.
    let same_kind = |leftover: &Leftover| {
        !without.growth.contains_key(&leftover.what)
            && without.left.iter().any(|other| other.what == leftover.what)
    };
    let (explained, unexplained): (Vec<_>, Vec<_>) = left.into_iter().partition(|leftover| {
        dies || leftover.is_explained(&without.growth) || same_kind(leftover)
    });
    let ours = |reason: &String| !dies && !same.iter().any(|other| kind(other) == kind(reason));
    let mut rest: Vec<String> = reasons.into_iter().filter(ours).collect();
    rest.extend(unexplained.iter().map(Leftover::to_string));
    let verdict = if !rest.is_empty() {
        Verdict::Failed(rest)
    } else if same.is_empty() {
        let grown: Vec<_> = explained.iter().map(Leftover::to_string).collect();
        Verdict::Unfit(format!("without clrscope it grows as much: {}", grown.join("; ")))
    } else {
        Verdict::Unfit(format!("without clrscope: {}", same.join("; ")))
    };
    (verdict, explained)
}

/// Whether a failure says that the target did not come to its own end.
pub(super) fn is_death(reason: &str) -> bool {
    reason.starts_with(DEAD)
}

/// What a failure is about: its text up to where details begin.
fn kind(reason: &str) -> String {
    let end = reason.find(['{', '(', '[']).unwrap_or(reason.len());
    reason[..end].chars().filter(|c| !c.is_ascii_digit()).collect()
}
