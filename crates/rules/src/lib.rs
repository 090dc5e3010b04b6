//! What to instrument: rules that say which methods of a .NET process, and what to do with their
//! calls.
//!
//! A [`Pattern`] is a name with wildcards, a [`MethodPattern`] the form that is typed for methods
//! (`MyApp!MyApp.Orders.*.{Load,Save}*`). A [`Rule`] adds conditions, an [`Action`] and [`Limits`].
//! A [`RuleSet`] holds all of them: [`RuleSet::validate`] says what is wrong with it, and
//! [`RuleSet::for_assembly`] is the first of three questions that narrow down to the rule for a
//! method. Nothing here loads or changes code: names come in, rules go out.
//!
//! Matching is made for the inside of somebody else's process: it does not panic, takes memory only
//! for short lists of the rules that are left and for types of parameters, and its time is bounded
//! by [limits](Pattern::MAX_EXPANDED) that every pattern keeps.
//!
//! Features, both on by default: `toml` reads and writes rule files, outside only; `serde` lets
//! rules travel.
//!
//! A rule file, which docs/instrumentation.md explains:
//! ```toml
#![doc = include_str!("../example.toml")]
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod error;
#[cfg(feature = "toml")]
mod file;
mod methods;
mod pattern;
mod redact;
#[cfg(feature = "toml")]
mod request;
mod rule;
mod set;
mod validate;

pub use error::{PatternError, PatternProblem};
#[cfg(feature = "toml")]
pub use file::{FileError, FileProblem, MAX_FILE};
pub use methods::{MethodFacts, MethodPattern, Signature};
pub use pattern::Pattern;
pub use redact::SECRETS;
#[cfg(feature = "toml")]
pub use request::{Request, RequestError};
pub use rule::{Action, Limits, Rule, Version, VersionError, VersionRange};
pub use set::{AssemblyRules, Match, RuleSet, TypeRules};
pub use validate::{Finding, Problem, Severity};
