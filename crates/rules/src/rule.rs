//! One rule: which methods, and what to do with their calls.

use crate::MethodPattern;
use crate::Pattern;
use std::fmt;
use std::str::FromStr;

/// The version of an assembly: four numbers from 0 to 65535.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Version(pub [u16; 4]);

/// A text is no version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a version: write one to four numbers from 0 to 65535 with dots between them, like 2.1 or \
        2.1.0.5"
)]
pub struct VersionError;

impl FromStr for Version {
    type Err = VersionError;

    /// Reads one to four numbers with dots between them. Those that are missing are 0.
    fn from_str(text: &str) -> Result<Self, VersionError> {
        let mut numbers = [0; 4];
        let mut slots = numbers.iter_mut();
        for part in text.split('.') {
            // The standard library would take a sign as well.
            let digits = part.bytes().all(|byte| byte.is_ascii_digit());
            *slots.next().ok_or(VersionError)? =
                part.parse().ok().filter(|_| digits).ok_or(VersionError)?;
        }
        Ok(Self(numbers))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([major, minor, build, revision]) = self;
        write!(f, "{major}.{minor}.{build}.{revision}")
    }
}

/// Versions of an assembly. The default is all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct VersionRange {
    /// The first; `None` for no bound.
    pub min: Option<Version>,
    /// The first that is too new; `None` for no bound.
    pub max: Option<Version>,
}

impl VersionRange {
    /// Whether a version is in it.
    #[must_use]
    pub fn contains(&self, version: Version) -> bool {
        self.min.is_none_or(|min| min <= version) && self.max.is_none_or(|max| version < max)
    }

    /// Whether all of another is in it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.min.is_none_or(|min| other.min.is_some_and(|other| min <= other))
            && self.max.is_none_or(|max| other.max.is_some_and(|other| other <= max))
    }
}

/// What is done with the calls of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Action {
    /// They are counted.
    Count,
    /// They are counted and timed.
    Trace {
        /// How many of the slowest are kept one by one, 0 to [`MAX_SLOWEST`](Self::MAX_SLOWEST).
        slowest: u16,
        /// Whether the arguments of those are kept, too.
        arguments: bool,
    },
}

impl Action {
    /// Most calls that are kept one by one.
    pub const MAX_SLOWEST: u16 = 16;
    /// How many are kept if nobody says.
    pub const USUAL_SLOWEST: u16 = 10;
    /// Calls are timed, and the [usual number](Self::USUAL_SLOWEST) of the slowest is kept without
    /// arguments.
    pub const TRACE: Self = Self::Trace { slowest: Self::USUAL_SLOWEST, arguments: false };
}

/// Bounds for what a rule may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Limits {
    /// 1 in this number of calls is taken, from 1, which takes all.
    pub one_in: u32,
    /// The rule ends after this number of calls of all its methods together, from 1 to `i64::MAX`;
    /// `None` if their number does not end it.
    pub calls: Option<u64>,
    /// The rule ends after this number of seconds, from 1; `None` if time does not end it.
    pub seconds: Option<u32>,
}

impl Default for Limits {
    /// All calls, without end.
    fn default() -> Self {
        Self { one_in: 1, calls: None, seconds: None }
    }
}

/// What to instrument, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rule {
    /// What reports and messages call it; unlike that of any other rule, 1 to
    /// [`MAX_NAME`](Self::MAX_NAME) bytes.
    pub name: String,
    /// Its methods.
    pub methods: MethodPattern,
    /// Versions of their assembly.
    pub versions: VersionRange,
    /// If there are any, the method or its type must have an attribute that one of them takes; see
    /// [`takes_attribute`](Self::takes_attribute).
    pub attributes: Vec<Pattern>,
    /// Methods that it does not take. Other rules may.
    pub exclude: Vec<MethodPattern>,
    /// Whether it is allowed to take every method of every assembly.
    pub everything: bool,
    /// Of several rules that take a method, the one with the highest number counts, and of these
    /// the first.
    pub priority: i32,
    /// What is done.
    pub action: Action,
    /// How much of it.
    pub limits: Limits,
}

impl Rule {
    /// Longest name, in bytes.
    pub const MAX_NAME: usize = 200;

    /// A rule for these methods that has no other condition and takes all calls.
    #[must_use]
    pub fn new(name: impl Into<String>, methods: MethodPattern, action: Action) -> Self {
        Self {
            name: name.into(),
            methods,
            versions: VersionRange::default(),
            attributes: Vec::new(),
            exclude: Vec::new(),
            everything: false,
            priority: 0,
            action,
            limits: Limits::default(),
        }
    }

    /// Whether an attribute with this full name is one that the rule asks for. `Obsolete`,
    /// `ObsoleteAttribute`, `System.Obsolete` and `System.ObsoleteAttribute` all take
    /// `System.ObsoleteAttribute`.
    #[must_use]
    pub fn takes_attribute(&self, full_name: &str) -> bool {
        let short = full_name.rsplit(['.', '+']).next().unwrap_or(full_name);
        let names = [full_name, short];
        let names =
            names.iter().flat_map(|name| [Some(*name), name.strip_suffix("Attribute")]).flatten();
        names
            .into_iter()
            .any(|name| self.attributes.iter().any(|attribute| attribute.matches(name)))
    }

    /// Whether it takes all methods of all assemblies, but for exclusions.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.methods.is_everything()
            && self.versions == VersionRange::default()
            && self.attributes.is_empty()
    }

    /// Whether it takes everything that `other` takes, as far as their texts show it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.methods.covers(&other.methods)
            && self.versions.covers(&other.versions)
            && (self.attributes.is_empty()
                || !other.attributes.is_empty()
                    && other
                        .attributes
                        .iter()
                        .all(|theirs| self.attributes.iter().any(|ours| ours.covers(theirs))))
            && self
                .exclude
                .iter()
                .all(|ours| other.exclude.iter().any(|theirs| theirs.covers(ours)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let version = |text: &str| text.parse::<Version>();
        assert_eq!(version("2.1"), Ok(Version([2, 1, 0, 0])));
        assert_eq!(version("1.2.3.65535").unwrap().to_string(), "1.2.3.65535");
        for text in ["", "1.", "1.2.3.4.5", "+1", "65536", "v1", "1 "] {
            assert_eq!(version(text), Err(VersionError), "{text}");
        }
        let range = VersionRange { min: version("1.2").ok(), max: version("2").ok() };
        assert!(range.contains(Version([1, 2, 0, 0])) && range.contains(Version([1, 65535, 0, 0])));
        assert!(!range.contains(Version([1, 1, 9, 9])) && !range.contains(Version([2, 0, 0, 0])));
        assert!(VersionRange::default().covers(&range) && !range.covers(&VersionRange::default()));
        assert!(range.covers(&range) && VersionRange { max: None, ..range }.covers(&range));
    }

    #[test]
    fn attributes_are_known_by_all_their_names() {
        let mut rule = Rule::new("r", MethodPattern::parse("*").unwrap(), Action::Count);
        for (text, yes) in [
            ("Obsolete", true),
            ("ObsoleteAttribute", true),
            ("System.Obsolete", true),
            ("System.ObsoleteAttribute", true),
            ("System.*", true),
            ("My.Obsolete", false),
            ("obsolete", false),
        ] {
            rule.attributes = vec![Pattern::parse(text).unwrap()];
            assert_eq!(rule.takes_attribute("System.ObsoleteAttribute"), yes, "{text}");
        }
    }

    #[test]
    fn a_rule_covers_by_all_its_conditions() {
        let wide = Rule::new("wide", MethodPattern::parse("A.*").unwrap(), Action::Count);
        let narrow = Rule::new("narrow", MethodPattern::parse("A.B").unwrap(), Action::Count);
        assert!(wide.covers(&narrow) && !narrow.covers(&wide));
        let with = |change: fn(&mut Rule)| {
            let mut rule = wide.clone();
            change(&mut rule);
            rule
        };
        assert!(!with(|rule| rule.versions.max = Some(Version([1, 0, 0, 0]))).covers(&narrow));
        assert!(!with(|rule| rule.attributes = vec![Pattern::parse("X").unwrap()]).covers(&narrow));
        assert!(
            !with(|rule| rule.exclude = vec![MethodPattern::parse("B").unwrap()]).covers(&narrow)
        );
    }
}
