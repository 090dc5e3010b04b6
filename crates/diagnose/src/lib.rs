//! What is wrong with a process, out of a recording of it.
//!
//! A rule is one file of this crate with two things in it: `RULE`, the constant from which help,
//! documentation and thresholds come, and the function that looks at the [`Evidence`]. Its name in
//! the list of `rules!` below is all that is needed to add it everywhere. A rule says nothing about
//! what was not recorded: it looks only where the profilers ran that it names.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod evidence;
mod figures;
mod finding;
mod thresholds;
mod words;

pub use evidence::*;
pub use finding::*;
pub use thresholds::*;

/// One kind of finding and how it is detected.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Id, as in JSON and in the name of its page: `docs/findings/<id>.md`.
    pub id: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// Profilers that it needs, all of them; `heap` and `deadlocks` are snapshots beside the
    /// recording. `a or b` stands for either of two.
    pub needs: &'static [&'static str],
    /// What it compares with.
    pub thresholds: &'static [Threshold],
    /// The function that checks the evidence.
    pub look: fn(&Evidence<'_>, &Limits) -> Vec<Finding>,
}

macro_rules! rules {
    ($($name:ident),+ $(,)?) => {
        $(mod $name;)+

        /// Every rule there is, in the order of lists.
        pub const RULES: &[&Rule] = &[$(&$name::RULE),+];
    };
}

rules!(
    cpu_hot_spot,
    cpu_starved,
    gc_pressure,
    induced_gc,
    exception_storm,
    hot_lock,
    sync_over_async,
    pool_starvation,
    jit_storm,
    native_memory,
    zombie_thread,
    thread_leak,
    deadlock,
    leak,
    duplicate_strings,
    timer_leak,
    finalizer_backlog,
    stuck_task,
);

/// All that is found in a recording, worst first.
pub fn diagnose(evidence: &Evidence<'_>, limits: &LimitsOf) -> Vec<Finding> {
    let rules = RULES.iter().filter(|rule| rule.needs.iter().all(|what| evidence.has(what)));
    let mut found: Vec<Finding> =
        rules.flat_map(|rule| (rule.look)(evidence, &limits.of(rule))).collect();
    order::sort_by(&mut found, |a, b| {
        b.rank()
            .total_cmp(&a.rank())
            .then_with(|| a.id.cmp(b.id))
            .then_with(|| a.title.cmp(&b.title))
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn rules_are_told_apart_and_explained() {
        let mut ids: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
        ids.sort_unstable();
        let all = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), all);
        let list = include_str!("../../../docs/checkup.md");
        for rule in RULES {
            assert!(
                !rule.needs.is_empty() && !rule.summary.is_empty() && !rule.thresholds.is_empty(),
                "{}",
                rule.id
            );
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join(format!("../../docs/findings/{}.md", rule.id));
            let page = std::fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(page.starts_with(&format!("# `{}`: ", rule.id)), "{}", path.display());
            assert!(
                list.contains(&format!("| [`{0}`](findings/{0}.md) |", rule.id)),
                "docs/checkup.md lacks {}",
                rule.id
            );
            for threshold in rule.thresholds {
                let row = format!("| `{}` | {} |", threshold.name, threshold.default);
                assert!(page.contains(&row), "{} lacks {row}", path.display());
            }
            for one in rule.needs.iter().flat_map(|needs| needs.split(" or ")) {
                let is_known =
                    ["deadlocks"].contains(&one) || profile::profilers::by_id(one).is_some();
                assert!(is_known, "{} needs {one}", rule.id);
            }
            assert!(rule.id.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", rule.id);
        }
    }
}
