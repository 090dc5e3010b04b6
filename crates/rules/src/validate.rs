//! What is wrong with rules, before they go anywhere.

use crate::methods::full_name;
use crate::{Action, MethodPattern, Rule, RuleSet};
use std::collections::HashSet;
use std::fmt;

/// Something that [`RuleSet::validate`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the rule; `None` if it concerns all of them.
    pub rule: Option<String>,
    /// What is wrong.
    pub problem: Problem,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The rules do something, but hardly what was meant.
    Warning,
    /// The rules must not be used.
    Error,
}

/// What can be wrong with rules. The text of each ends with what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is nothing to do.
    #[error("there is no rule; add one that says which methods to instrument")]
    NoRules,
    /// More than anybody writes.
    #[error(
        "there are more than {} rules, exclusions or redactions; use fewer with wider patterns",
        RuleSet::MAX_RULES
    )]
    TooMany,
    /// A name is missing or too long.
    #[error("a rule needs a name of 1 to {} bytes; give it one", Rule::MAX_NAME)]
    Name,
    /// Two rules have the same name.
    #[error("another rule has the same name; rename one of them")]
    NameTwice,
    /// Every method of the process would be instrumented.
    #[error(
        "it matches every method of every assembly; narrow it down, or write `everything = true` \
            if that is meant"
    )]
    Everything,
    /// No version is in the range.
    #[error("no version is from {min} on and before {max}; make the second one higher")]
    NoVersion {
        /// Lower bound.
        min: crate::Version,
        /// Upper bound, exclusive.
        max: crate::Version,
    },
    /// A number is outside of its range.
    #[error("`{option}` must be {expected}")]
    OutOfRange {
        /// Which, as rule files call it.
        option: &'static str,
        /// What it may be.
        expected: &'static str,
    },
    /// Arguments of no call.
    #[error(
        "the arguments of the slowest calls are requested, but `slowest` is 0; raise it or leave \
            out `arguments`"
    )]
    ArgumentsOfNone,
    /// Two rules say different things about the same methods.
    #[error(
        "rule `{other}` matches the same methods and does something else with them; remove one, or \
        make them differ"
    )]
    Conflict {
        /// The other one.
        other: String,
    },
    /// Two rules say the same.
    #[error("rule `{other}` says the same; remove one")]
    Duplicate {
        /// The other one.
        other: String,
    },
    /// An earlier rule takes everything first.
    #[error(
        "it is never reached: rule `{other}` comes first and matches all its methods; put this one \
         first or raise its `priority`"
    )]
    NeverReached {
        /// The earlier one.
        other: String,
    },
    /// An exclusion takes everything away.
    #[error(
        "it matches nothing: the exclusion `{exclusion}` excludes all its methods; remove one of \
            the two"
    )]
    AllExcluded {
        /// The exclusion.
        exclusion: String,
    },
    /// A pattern that no real name fits.
    #[error("`{pattern}` probably matches no {what}: {advice}")]
    Unlikely {
        /// The part of the pattern.
        pattern: String,
        /// What it is to fit.
        what: &'static str,
        /// What to write instead.
        advice: &'static str,
    },
}

impl Problem {
    /// How bad it is.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::Duplicate { .. }
            | Self::NeverReached { .. }
            | Self::AllExcluded { .. }
            | Self::Unlikely { .. } => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.problem.severity() {
            Severity::Warning => "warning: ",
            Severity::Error => "error: ",
        })?;
        if let Some(rule) = &self.rule {
            write!(f, "rule `{rule}`: ")?;
        }
        write!(f, "{}", self.problem)
    }
}

impl RuleSet {
    /// Checks all rules, alone and against each other. Rules with a finding that is an
    /// [`Severity::Error`] must not be used. Findings about patterns that overlap come from their
    /// texts alone: they are true, but not complete.
    #[must_use]
    pub fn validate(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut whole = |problem| findings.push(Finding { rule: None, problem });
        if self.rules().is_empty() {
            whole(Problem::NoRules);
        }
        let exclusions = self.rules().iter().map(|rule| rule.exclude.len()).sum::<usize>()
            + self.exclude().len();
        if [self.rules().len(), exclusions, self.redact().len()]
            .iter()
            .any(|count| *count > Self::MAX_RULES)
        {
            // The rest would take long.
            whole(Problem::TooMany);
            return findings;
        }
        for methods in self.exclude() {
            unlikely(methods, &mut whole);
        }
        let mut names: HashSet<&str> = HashSet::new();
        for (index, rule) in self.rules().iter().enumerate() {
            let mut tell =
                |problem| findings.push(Finding { rule: Some(rule.name.clone()), problem });
            if !names.insert(&rule.name) {
                tell(Problem::NameTwice);
            }
            alone(rule, &mut tell);
            if let Some(exclusion) =
                self.exclude().iter().chain(&rule.exclude).find(|one| one.covers(&rule.methods))
            {
                tell(Problem::AllExcluded { exclusion: exclusion.to_string() });
            }
            let earlier = self.rules().iter().take(index);
            if let Some(other) = earlier.into_iter().find(|earlier| earlier.covers(rule)) {
                let name = other.name.clone();
                let differ = (other.action, other.limits) != (rule.action, rule.limits);
                tell(match (rule.covers(other), differ) {
                    // With another priority it is said which of them is meant.
                    (true, true) if other.priority == rule.priority => {
                        Problem::Conflict { other: name }
                    }
                    (true, false) => Problem::Duplicate { other: name },
                    _ => Problem::NeverReached { other: name },
                });
            }
        }
        findings
    }
}

/// What is wrong with a rule whatever the others say.
fn alone(rule: &Rule, tell: &mut impl FnMut(Problem)) {
    if rule.name.is_empty() || rule.name.len() > Rule::MAX_NAME {
        tell(Problem::Name);
    }
    if rule.is_everything() && !rule.everything {
        tell(Problem::Everything);
    }
    if let (Some(min), Some(max)) = (rule.versions.min, rule.versions.max)
        && min >= max
    {
        tell(Problem::NoVersion { min, max });
    }
    // Rule files have whole numbers with a sign.
    let fits = |calls: u64| calls > 0 && i64::try_from(calls).is_ok();
    for (option, expected, fits) in [
        ("one-in", "at least 1", rule.limits.one_in > 0),
        (
            "expires-after-calls",
            "from 1 to 9223372036854775807",
            rule.limits.calls.is_none_or(fits),
        ),
        ("expires-after-seconds", "at least 1", rule.limits.seconds != Some(0)),
    ] {
        if !fits {
            tell(Problem::OutOfRange { option, expected });
        }
    }
    match rule.action {
        Action::Trace { slowest, .. } if slowest > Action::MAX_SLOWEST => {
            tell(Problem::OutOfRange { option: "slowest", expected: "from 0 to 16" });
        }
        Action::Trace { slowest: 0, arguments: true } => tell(Problem::ArgumentsOfNone),
        Action::Trace { .. } | Action::Count => {}
    }
    for methods in rule.exclude.iter().chain([&rule.methods]) {
        unlikely(methods, tell);
    }
}

/// Patterns that come from a misunderstanding of what names look like.
fn unlikely(methods: &MethodPattern, tell: &mut impl FnMut(Problem)) {
    let mut doubt = |pattern: &str, what, advice| {
        tell(Problem::Unlikely { pattern: pattern.into(), what, advice })
    };
    let assembly = methods.assembly().as_str();
    if [".dll", ".exe"].iter().any(|end| assembly.ends_with(end)) {
        doubt(assembly, "assembly", "leave out the extension of the file");
    }
    let type_name = methods.type_name().as_str();
    if type_name.contains('/') {
        doubt(type_name, "type", "write `+` in front of a nested type");
    }
    let method = methods.method().as_str();
    if ["ctor", "cctor"].contains(&method) {
        doubt(
            method,
            "method",
            "constructors are called `.ctor` and `.cctor`: write two dots, as in `Type..ctor`",
        );
    }
    for parameter in methods.parameters().unwrap_or_default() {
        let Some(name) = parameter.as_literal() else { continue };
        let name =
            name.trim_start_matches("ref ").trim_start_matches("out ").trim_start_matches("in ");
        let word = name.split(['[', '<', '*', '?', '&']).next().unwrap_or(name);
        // Type parameters have no namespace, and begin with T or have one letter.
        if !word.contains('.')
            && !word.starts_with('T')
            && word.chars().count() > 1
            && full_name(word).is_none()
        {
            let advice =
                "types that are not keywords of C# need their namespace: write it or `*.` in front";
            doubt(parameter.as_str(), "parameter", advice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Pattern, Version};
    use std::time::{Duration, Instant};

    fn methods(text: &str) -> MethodPattern {
        MethodPattern::parse(text).unwrap()
    }

    fn rule(name: &str, text: &str) -> Rule {
        Rule::new(name, methods(text), Action::TRACE)
    }

    fn problems(rules: Vec<Rule>, exclude: &[&str]) -> Vec<Problem> {
        let set = RuleSet::new(rules, exclude.iter().map(|text| methods(text)).collect());
        set.validate().into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn good_rules_have_no_findings() {
        let rules = vec![
            rule("a", "A!A.*.{Load,Save}*"),
            rule("b", "A.List<*>.Add(T, A.B, ref int, System.X[])"),
        ];
        assert_eq!(problems(rules, &["A.Secret.**"]), []);
        let with_arguments =
            Rule { action: Action::Trace { slowest: 1, arguments: true }, ..rule("a", "A.B") };
        assert_eq!(problems(vec![with_arguments], &[]), []);
    }

    #[test]
    fn sets_are_checked_as_a_whole() {
        assert_eq!(problems(vec![], &[]), [Problem::NoRules]);
        let many = (0..=RuleSet::MAX_RULES).map(|index| rule(&index.to_string(), "A.B")).collect();
        assert_eq!(problems(many, &[]), [Problem::TooMany]);
        let many = vec![Pattern::parse("a").unwrap(); RuleSet::MAX_RULES + 1];
        let set = RuleSet::new(vec![rule("a", "A.B")], vec![]).redacting(many);
        assert!(set.validate().iter().any(|finding| finding.problem == Problem::TooMany));
        assert_eq!(problems(vec![rule("a", "A.B"), rule("a", "A.C")], &[]), [Problem::NameTwice]);
    }

    #[test]
    fn everything_must_be_meant() {
        assert_eq!(problems(vec![rule("a", "*")], &[]), [Problem::Everything]);
        assert_eq!(problems(vec![rule("a", "{*,A}!**.**")], &[]), [Problem::Everything]);
        assert_eq!(problems(vec![Rule { everything: true, ..rule("a", "*") }], &[]), []);
        let marked = Rule { attributes: vec![Pattern::parse("Trace").unwrap()], ..rule("a", "*") };
        assert_eq!(problems(vec![marked], &[]), []);
    }

    #[test]
    fn numbers_have_ranges() {
        let mut one = rule("a", "A.B");
        one.limits = Limits { one_in: 0, calls: Some(0), seconds: Some(0) };
        one.action = Action::Trace { slowest: 17, arguments: true };
        let found = problems(vec![one.clone()], &[]);
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|problem| matches!(problem, Problem::OutOfRange { .. })));
        one = Rule { action: Action::Trace { slowest: 0, arguments: true }, ..rule("", "A.B") };
        assert_eq!(problems(vec![one.clone()], &[]), [Problem::Name, Problem::ArgumentsOfNone]);
        let version = Version([1, 0, 0, 0]);
        one = rule("a", "A.B");
        one.versions = crate::VersionRange { min: Some(version), max: Some(version) };
        assert_eq!(problems(vec![one], &[]), [Problem::NoVersion { min: version, max: version }]);
    }

    #[test]
    fn rules_are_held_against_each_other() {
        let other = "a".to_owned();
        let same = || vec![rule("a", "A.B"), rule("b", "A.B")];
        assert_eq!(problems(same(), &[]), [Problem::Duplicate { other: other.clone() }]);
        let mut rules = same();
        rules[1].limits.one_in = 2;
        assert_eq!(problems(rules.clone(), &[]), [Problem::Conflict { other: other.clone() }]);
        rules[0].priority = 1;
        assert_eq!(problems(rules, &[]), [Problem::NeverReached { other: other.clone() }]);
        let covered = || vec![rule("a", "A.*.*"), rule("b", "A.B.Load(int)")];
        assert_eq!(problems(covered(), &[]), [Problem::NeverReached { other }]);
        let mut rules = covered();
        rules[1].priority = 1;
        assert_eq!(problems(rules, &[]), []);
    }

    #[test]
    fn rules_that_take_nothing_are_told() {
        let exclusion = "A.**".to_owned();
        assert_eq!(
            problems(vec![rule("a", "A.B.Load")], &["A.**"]),
            [Problem::AllExcluded { exclusion }]
        );
        for text in ["A.dll!A.B", "A/B.C", "A.ctor", "A.B(Order)", "A.B(ref Order[])"] {
            let found = problems(vec![rule("a", text)], &[]);
            assert!(matches!(found[..], [Problem::Unlikely { .. }]), "{text} {found:?}");
        }
    }

    #[test]
    fn many_rules_with_many_names_are_checked_in_time() {
        let start = Instant::now();
        // Nothing covers anything, and each comparison goes through all names of a pattern.
        let text = |index| format!("{{,a}}{{,a}}{{,a}}{{,a}}{{,a}}{{,a}}{index}");
        let rules = (0..RuleSet::MAX_RULES / 2)
            .map(|index| rule(&index.to_string(), &text(index)))
            .collect();
        assert_eq!(problems(rules, &[]), []);
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    }

    #[test]
    fn findings_say_what_to_do() {
        let set = RuleSet::new(vec![rule("a", "*"), rule("b", "A.B")], vec![]);
        let texts: Vec<String> = set.validate().iter().map(Finding::to_string).collect();
        assert_eq!(
            texts,
            [
                "error: rule `a`: it matches every method of every assembly; narrow it down, or \
                    write `everything = true` if that is meant",
                "warning: rule `b`: it is never reached: rule `a` comes first and matches all its \
                    methods; put this one first or raise its `priority`"
            ]
        );
    }
}
