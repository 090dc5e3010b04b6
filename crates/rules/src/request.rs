//! What somebody asks to be instrumented: patterns with one set of options, and a file of rules.

use crate::{
    Action, FileError, Finding, Limits, MethodPattern, Pattern, PatternError, Problem, Rule,
    RuleSet, Severity,
};

/// Letters of a pattern that name its rule.
const NAME: usize = 60;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Methods to instrument, each as a [`MethodPattern`] is written.
    pub patterns: Vec<String>,
    /// Methods not to instrument, whatever else matches them.
    pub exclude: Vec<String>,
    /// Rules beside the patterns: the text of a rule file.
    pub file: Option<String>,
    /// Whether calls are only counted.
    pub count: bool,
    /// Whether the arguments of the slowest calls are recorded.
    pub arguments: bool,
    /// Names of parameters whose arguments are never read, each as a [`Pattern`] is written.
    pub redact: Vec<String>,
    /// Calls after which the methods of a pattern are reverted.
    pub calls: Option<u64>,
    /// Which of the calls are timed: 1 in N, at least 1.
    pub one_in: u32,
    /// Whether a pattern may match every method of every assembly.
    pub everything: bool,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            patterns: Vec::new(),
            exclude: Vec::new(),
            file: None,
            count: false,
            arguments: false,
            redact: Vec::new(),
            calls: None,
            one_in: 1,
            everything: false,
        }
    }
}

/// Why no rules can be made of a request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// A pattern for methods is none.
    #[error("{text}: {source}")]
    Pattern {
        /// The pattern.
        text: String,
        /// What is wrong with it.
        source: PatternError,
    },
    /// A name of parameters is none.
    #[error("name of a parameter {text}: {source}")]
    Redact {
        /// The name.
        text: String,
        /// What is wrong with it.
        source: PatternError,
    },
    /// The rule file is none.
    #[error(transparent)]
    File(#[from] FileError),
    /// The rules must not be used.
    #[error("{}{problem}", rule.as_ref().map_or_else(String::new, |rule| format!("rule `{rule}`: ")))]
    Rule {
        /// Which rule; `None` if it concerns all of them.
        rule: Option<String>,
        /// What is wrong with it.
        problem: Problem,
    },
}

impl Request {
    /// The rules, checked, and what is doubtful about them.
    ///
    /// # Errors
    /// [`RequestError`], for the first thing that is wrong.
    pub fn rules(&self) -> Result<(RuleSet, Vec<Finding>), RequestError> {
        let pattern = |text: &String| {
            let parsed = MethodPattern::parse(text);
            parsed.map_err(|source| RequestError::Pattern { text: text.clone(), source })
        };
        let name = |text: &String| {
            let parsed = Pattern::parse(text);
            parsed.map_err(|source| RequestError::Redact { text: text.clone(), source })
        };
        let action = match self.count {
            true => Action::Count,
            false => Action::Trace { slowest: Action::USUAL_SLOWEST, arguments: self.arguments },
        };
        let mut rules = Vec::new();
        for text in &self.patterns {
            let mut rule =
                Rule::new(text.chars().take(NAME).collect::<String>(), pattern(text)?, action);
            rule.limits = Limits { one_in: self.one_in, calls: self.calls, seconds: None };
            rule.everything = self.everything;
            rules.push(rule);
        }
        let mut exclude = self.exclude.iter().map(pattern).collect::<Result<Vec<_>, _>>()?;
        let mut redact = self.redact.iter().map(name).collect::<Result<Vec<_>, _>>()?;
        if let Some(text) = &self.file {
            let more = RuleSet::from_toml(text)?;
            rules.extend(more.rules().iter().cloned());
            exclude.extend(more.exclude().iter().cloned());
            redact.extend(more.redact().iter().cloned());
        }
        let rules = RuleSet::new(rules, exclude).redacting(redact);
        let (wrong, doubtful): (Vec<_>, Vec<_>) = rules
            .validate()
            .into_iter()
            .partition(|finding| finding.problem.severity() == Severity::Error);
        match wrong.into_iter().next() {
            Some(Finding { rule, problem }) => Err(RequestError::Rule { rule, problem }),
            None => Ok((rules, doubtful)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(patterns: &[&str]) -> Request {
        let patterns = patterns.iter().map(|text| (*text).to_owned()).collect();
        Request { patterns, ..Request::default() }
    }

    #[test]
    fn patterns_and_files_become_rules() {
        let file =
            Some("[[rule]]\nname = \"more\"\nmatch = \"Shop.Cart.*\"\ndo = \"count\"\n".to_owned());
        let calls = Some(5);
        let asked = Request { file, calls, one_in: 3, ..request(&["Shop.Orders.*"]) };
        let (rules, doubtful) = asked.rules().unwrap();
        let names: Vec<_> = rules.rules().iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!((names, doubtful), (vec!["Shop.Orders.*", "more"], vec![]));
        let limits = &rules.rules()[0].limits;
        assert_eq!((limits.calls, limits.one_in), (Some(5), 3));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |request: Request| request.rules().unwrap_err().to_string();
        assert!(wrong(request(&[])).contains("there is no rule"));
        assert!(wrong(request(&["a.{b"])).starts_with("a.{b: character"));
        assert!(wrong(request(&["**"])).starts_with("rule `**`: "));
        assert!(Request { everything: true, ..request(&["**"]) }.rules().is_ok());
        let redact = vec!["{".to_owned()];
        assert!(
            wrong(Request { redact, ..request(&["a.b"]) }).starts_with("name of a parameter {")
        );
        let file = Some("[[rules]]".to_owned());
        assert!(matches!(
            Request { file, ..request(&["a.b"]) }.rules(),
            Err(RequestError::File(_))
        ));
    }
}
