use crate::{RULES, Rule};
use std::collections::HashMap;

/// Something that a rule compares with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Name in `--limit rule:name=value`.
    pub name: &'static str,
    /// What it is, with its unit.
    pub help: &'static str,
    /// What it is unless told otherwise.
    pub default: f64,
}

/// Why a text sets no limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Not of the form.
    #[error("\"{0}\" is not of the form finding:name=value")]
    Form(String),
    /// No such rule.
    #[error("there is no finding \"{0}\"")]
    Rule(String),
    /// No such threshold.
    #[error("the finding {rule} has no limit \"{name}\"; it has {known}")]
    Name {
        /// The rule.
        rule: &'static str,
        /// Name given.
        name: String,
        /// Names that it has.
        known: String,
    },
    /// Not a number above zero.
    #[error("{rule}:{name} takes a number above 0, not \"{value}\"")]
    Value {
        /// The rule.
        rule: &'static str,
        /// The limit.
        name: &'static str,
        /// Value given.
        value: String,
    },
}

/// Limits that differ from the defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitsOf(HashMap<(&'static str, &'static str), f64>);

impl LimitsOf {
    /// Reads one: `rule:name=value`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn set(&mut self, text: &str) -> Result<(), LimitError> {
        let form = || LimitError::Form(text.to_owned());
        let (path, value) = text.split_once('=').ok_or_else(form)?;
        let (id, name) = path.split_once(':').ok_or_else(form)?;
        let rule = RULES
            .iter()
            .find(|rule| rule.id == id)
            .ok_or_else(|| LimitError::Rule(id.to_owned()))?;
        let threshold =
            rule.thresholds.iter().find(|threshold| threshold.name == name).ok_or_else(|| {
                let known: Vec<&str> =
                    rule.thresholds.iter().map(|threshold| threshold.name).collect();
                LimitError::Name { rule: rule.id, name: name.to_owned(), known: known.join(", ") }
            })?;
        let number = value.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        let number = number.ok_or_else(|| LimitError::Value {
            rule: rule.id,
            name: threshold.name,
            value: value.to_owned(),
        })?;
        self.0.insert((rule.id, threshold.name), number);
        Ok(())
    }

    /// Those of a rule.
    pub fn of(&self, rule: &Rule) -> Limits {
        let value = |threshold: &Threshold| {
            self.0.get(&(rule.id, threshold.name)).copied().unwrap_or(threshold.default)
        };
        Limits(rule.thresholds.iter().map(|threshold| (threshold.name, value(threshold))).collect())
    }
}

/// The limits of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits(Vec<(&'static str, f64)>);

impl Limits {
    /// The limit of this name; infinite if there is none, so that nothing is found.
    pub fn get(&self, name: &str) -> f64 {
        self.0.iter().find(|(known, _)| *known == name).map_or(f64::INFINITY, |(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_set_and_wrong_ones_named() {
        let mut limits = LimitsOf::default();
        limits.set("gc-pressure:paused=0.5").unwrap();
        let rule = RULES.iter().find(|rule| rule.id == "gc-pressure").unwrap();
        assert_eq!(limits.of(rule).get("paused"), 0.5);
        assert_eq!(LimitsOf::default().of(rule).get("no such limit"), f64::INFINITY);
        for text in [
            "gc-pressure",
            "gc-pressure:paused",
            "nothing:x=1",
            "gc-pressure:x=1",
            "gc-pressure:paused=-1",
            "gc-pressure:paused=NaN",
        ] {
            assert!(limits.set(text).is_err(), "{text}");
        }
    }
}
