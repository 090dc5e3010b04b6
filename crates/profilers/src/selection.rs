use crate::{EventSource, PROFILERS, ParamKind, ProfilerSpec, by_id};

/// A profiler chosen by the user, with its parameters, as in `wall:rate=50`.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Which.
    pub spec: &'static ProfilerSpec,
    /// Parameters given, each valid for the spec.
    pub params: Vec<(String, String)>,
    /// Whether it is left out where the runtime is too old for it, rather than refused.
    pub optional: bool,
}

/// The profilers of a recording when none is named.
pub const DEFAULT: &str = "cpu,wall,exceptions,gc";

/// Why a text selects no profiler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// No such id.
    #[error("there is no profiler \"{0}\"; `clrscope profilers` lists them")]
    UnknownProfiler(String),
    /// No such parameter.
    #[error(
        "the profiler {profiler} has no parameter \"{name}\"; `clrscope profilers {profiler}` \
            lists them"
    )]
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
    /// Reads one selection: `id`, or `id:name=value[:name=value…]`. A profiler that is a variant of
    /// another can be written behind that one's name: `allocations:exact` is `exact-allocations`.
    pub fn parse(text: &str) -> Result<Self, SelectionError> {
        let mut parts = text.split(':').map(str::trim).peekable();
        let id = parts.next().unwrap_or_default();
        let variant = parts.peek().and_then(|variant| by_id(&format!("{variant}-{id}")));
        if variant.is_some() {
            parts.next();
        }
        let spec = variant
            .or_else(|| by_id(id))
            .ok_or_else(|| SelectionError::UnknownProfiler(id.to_owned()))?;
        let mut params = Vec::new();
        for part in parts {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| SelectionError::NoValue { text: part.to_owned() })?;
            let param = spec.params.iter().find(|param| param.name == name).ok_or_else(|| {
                SelectionError::UnknownParam { profiler: spec.id, name: name.to_owned() }
            })?;
            if !param.kind.accepts(value) {
                let expected = param.kind.to_string();
                let value = value.to_owned();
                return Err(SelectionError::BadValue {
                    profiler: spec.id,
                    name: param.name,
                    expected,
                    value,
                });
            }
            params.push((name.to_owned(), value.to_owned()));
        }
        Ok(Self { spec, params, optional: false })
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

    /// What a check-up records: all that its findings need, as far as the runtime allows it, at
    /// low rates.
    ///
    /// # Errors
    /// When the registry says something that is no selection.
    pub fn of_checkup() -> Result<Vec<Self>, SelectionError> {
        let chosen = PROFILERS.iter().filter_map(|spec| spec.checkup).map(Self::parse);
        chosen.map(|selection| Ok(Self { optional: true, ..selection? })).collect()
    }

    /// The value of a parameter: the one given, else the default.
    pub fn param(&self, name: &str) -> Option<&str> {
        let given = self
            .params
            .iter()
            .rev()
            .find(|(given, _)| given == name)
            .map(|(_, value)| value.as_str());
        given.or_else(|| {
            self.spec.params.iter().find(|param| param.name == name).map(|param| param.default)
        })
    }

    /// Whether it changes methods of the program.
    pub fn instruments(&self) -> bool {
        self.spec.needs_rules && !self.is_dry()
    }

    /// Whether it would change methods of the program, and only says which.
    pub fn is_dry(&self) -> bool {
        self.spec.needs_rules && self.param("dry") == Some("yes")
    }

    /// The providers that clrscope listens to for it in a runtime of this major version.
    ///
    /// `session` is an id of the recording that no other has.
    pub fn event_sources(&self, major: u16, session: &str) -> Vec<EventSource> {
        let specs = self.spec.event_pipe.iter();
        let specs = specs.filter(|spec| (spec.runtimes.0..=spec.runtimes.1).contains(&major));
        specs
            .flat_map(|spec| {
                let arguments =
                    self.filled_in(spec.arguments).map(|text| text.replace("{session}", session));
                let name = spec.provider.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
                let providers: Vec<&str> = match name {
                    Some(name) => names(self.param(name).unwrap_or_default()).collect(),
                    None => vec![spec.provider],
                };
                providers.into_iter().filter_map(move |provider| {
                    let (keywords, level, stacks) = (spec.keywords, spec.level, spec.stacks);
                    Some(EventSource {
                        provider: provider.to_owned(),
                        keywords,
                        level,
                        arguments: arguments.clone()?,
                        stacks,
                    })
                })
            })
            .collect()
    }

    /// A text with the values of parameters in place of their names; `None` if one of them is
    /// empty. Several names come with commas between them, as providers want it.
    fn filled_in(&self, text: &str) -> Option<String> {
        let mut filled = text.to_owned();
        for param in self.spec.params {
            let place = format!("{{{}}}", param.name);
            if filled.contains(&place) {
                let value = names(self.param(param.name)?).collect::<Vec<_>>().join(",");
                if value.is_empty() {
                    return None;
                }
                filled = filled.replace(&place, &value);
            }
        }
        Some(filled)
    }
}

/// The names in the value of a parameter.
fn names(value: &str) -> impl Iterator<Item = &str> {
    value.split('+').map(str::trim).filter(|name| !name.is_empty())
}

impl ParamKind {
    /// Whether a text is a right value.
    pub fn accepts(&self, value: &str) -> bool {
        match self {
            Self::Number(from, to) => {
                value.parse::<u64>().is_ok_and(|number| (*from..=*to).contains(&number))
            }
            Self::Choice(words) => words.contains(&value),
            // What separates arguments of providers is in no name.
            Self::Names => !value.contains([';', '"', '=', '\0']),
        }
    }
}

impl std::fmt::Display for ParamKind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(from, to) => write!(out, "a whole number from {from} to {to}"),
            Self::Choice(words) => write!(out, "one of {}", words.join(", ")),
            Self::Names => write!(out, "names with + between them"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read() {
        let list = Selection::parse_list("cpu, wall:rate=50").unwrap();
        assert_eq!(
            list.iter().map(|selection| selection.spec.id).collect::<Vec<_>>(),
            ["cpu", "wall"]
        );
        assert_eq!(list[1].param("rate"), Some("50"));
        assert_eq!(Selection::parse("wall").unwrap().param("rate"), Some("20"));
        let list = Selection::parse_list("allocations, allocations:exact").unwrap();
        assert_eq!(
            list.iter().map(|one| one.spec.id).collect::<Vec<_>>(),
            ["allocations", "exact-allocations"]
        );
        assert_eq!(
            Selection::parse_list("allocations:exact,exact-allocations").unwrap_err(),
            SelectionError::Twice("exact-allocations")
        );
    }

    #[test]
    fn a_checkup_records_what_the_registry_says() {
        let chosen = Selection::of_checkup().unwrap();
        let ids: Vec<_> = chosen.iter().map(|selection| selection.spec.id).collect();
        assert_eq!(ids[..5], ["cpu", "wall", "exceptions", "gc", "locks"]);
        assert_eq!(chosen[1].param("rate"), Some("10"));
        let own = PROFILERS.iter().filter_map(|spec| Some((spec.id, spec.checkup?)));
        own.for_each(|(id, text)| assert_eq!(Selection::parse(text).unwrap().spec.id, id));
        assert!(chosen.iter().all(|selection| selection.optional));
    }

    #[test]
    fn names_become_providers_and_arguments() {
        let sources = |text: &str| Selection::parse(text).unwrap().event_sources(9, "s1");
        let plain = sources("counters");
        assert_eq!(plain.len(), 1);
        assert_eq!(
            (plain[0].provider.as_str(), plain[0].arguments.as_str()),
            ("System.Runtime", "EventCounterIntervalSec=1")
        );
        let all =
            sources("counters:interval=5:providers=System.Runtime+My.App:meters=Shop+Shop.Cart");
        let names: Vec<_> = all.iter().map(|source| source.provider.as_str()).collect();
        assert_eq!(names, ["System.Runtime", "My.App", "System.Diagnostics.Metrics"]);
        assert!(
            all[2].arguments.starts_with("SessionId=s1;Metrics=Shop,Shop.Cart;"),
            "{}",
            all[2].arguments
        );
        assert_eq!(sources("counters:meters=+"), sources("counters"));
        assert_eq!(sources("counters:providers="), []);
        assert!(Selection::parse("counters:providers=a;b").is_err());
        assert_eq!(Selection::parse("allocations").unwrap().event_sources(9, "").len(), 1);
        assert_eq!(
            Selection::parse("allocations").unwrap().event_sources(10, "")[0].keywords,
            0x800_0000_0000
        );
    }

    #[test]
    fn wrong_texts_name_the_fault() {
        assert_eq!(
            Selection::parse("cup").unwrap_err(),
            SelectionError::UnknownProfiler("cup".into())
        );
        assert!(matches!(
            Selection::parse("wall:speed=1"),
            Err(SelectionError::UnknownParam { .. })
        ));
        assert!(matches!(Selection::parse("wall:rate"), Err(SelectionError::NoValue { .. })));
        assert!(matches!(Selection::parse("wall:rate=0"), Err(SelectionError::BadValue { .. })));
        assert_eq!(Selection::parse_list("cpu,cpu").unwrap_err(), SelectionError::Twice("cpu"));
    }
}
