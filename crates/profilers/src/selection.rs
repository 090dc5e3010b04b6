use crate::{ParamKind, ProfilerSpec, by_id};

/// A profiler chosen by the user, with its parameters, as in `wall:rate=50`.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Which.
    pub spec: &'static ProfilerSpec,
    /// Parameters given, each valid for the spec.
    pub params: Vec<(String, String)>,
}

/// Why a text selects no profiler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// No such id.
    #[error("there is no profiler \"{0}\"; `clrscope profilers` lists them")]
    UnknownProfiler(String),
    /// No such parameter.
    #[error("the profiler {profiler} has no parameter \"{name}\"; `clrscope profilers {profiler}` lists them")]
    UnknownParam {
        /// Profiler.
        profiler: &'static str,
        /// Name given.
        name: String,
    },
    /// A parameter without `=`.
    #[error("\"{text}\" is not of the form name=value")]
    NoValue {
        /// Text given.
        text: String,
    },
    /// A value out of range.
    #[error("{profiler}:{name} takes {expected}, not \"{value}\"")]
    BadValue {
        /// Profiler.
        profiler: &'static str,
        /// Parameter.
        name: &'static str,
        /// What it takes.
        expected: String,
        /// Value given.
        value: String,
    },
    /// The same profiler twice.
    #[error("the profiler {0} is given twice")]
    Twice(&'static str),
}

impl Selection {
    /// Reads one selection: `id`, or `id:name=value[:name=value…]`.
    pub fn parse(text: &str) -> Result<Self, SelectionError> {
        let mut parts = text.split(':').map(str::trim);
        let id = parts.next().unwrap_or_default();
        let spec = by_id(id).ok_or_else(|| SelectionError::UnknownProfiler(id.to_owned()))?;
        let mut params = Vec::new();
        for part in parts {
            let (name, value) =
                part.split_once('=').ok_or_else(|| SelectionError::NoValue { text: part.to_owned() })?;
            let param = spec
                .params
                .iter()
                .find(|param| param.name == name)
                .ok_or_else(|| SelectionError::UnknownParam { profiler: spec.id, name: name.to_owned() })?;
            if !param.kind.accepts(value) {
                let expected = param.kind.to_string();
                let value = value.to_owned();
                return Err(SelectionError::BadValue { profiler: spec.id, name: param.name, expected, value });
            }
            params.push((name.to_owned(), value.to_owned()));
        }
        Ok(Self { spec, params })
    }

    /// Reads selections separated by commas.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, SelectionError> {
        let mut selections: Vec<Self> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let selection = Self::parse(part)?;
            if selections.iter().any(|earlier| earlier.spec.id == selection.spec.id) {
                return Err(SelectionError::Twice(selection.spec.id));
            }
            selections.push(selection);
        }
        Ok(selections)
    }

    /// The value of a parameter: the one given, else the default.
    pub fn param(&self, name: &str) -> Option<&str> {
        let given = self.params.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str());
        given.or_else(|| self.spec.params.iter().find(|param| param.name == name).map(|param| param.default))
    }
}

impl ParamKind {
    /// Whether a text is a right value.
    pub fn accepts(&self, value: &str) -> bool {
        match self {
            Self::Number(from, to) => value.parse::<u64>().is_ok_and(|number| (*from..=*to).contains(&number)),
            Self::Choice(words) => words.contains(&value),
        }
    }
}

impl std::fmt::Display for ParamKind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(from, to) => write!(out, "a whole number from {from} to {to}"),
            Self::Choice(words) => write!(out, "one of {}", words.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read() {
        let list = Selection::parse_list("cpu, wall:rate=50").unwrap();
        assert_eq!(list.iter().map(|selection| selection.spec.id).collect::<Vec<_>>(), ["cpu", "wall"]);
        assert_eq!(list[1].param("rate"), Some("50"));
        assert_eq!(Selection::parse("wall").unwrap().param("rate"), Some("20"));
    }

    #[test]
    fn wrong_texts_name_the_fault() {
        assert_eq!(Selection::parse("cup").unwrap_err(), SelectionError::UnknownProfiler("cup".into()));
        assert!(matches!(Selection::parse("wall:speed=1"), Err(SelectionError::UnknownParam { .. })));
        assert!(matches!(Selection::parse("wall:rate"), Err(SelectionError::NoValue { .. })));
        assert!(matches!(Selection::parse("wall:rate=0"), Err(SelectionError::BadValue { .. })));
        assert_eq!(Selection::parse_list("cpu,cpu").unwrap_err(), SelectionError::Twice("cpu"));
    }
}
