//! Which EventPipe sessions a recording has.

use crate::{
    RecordOptions,
    linux::{
        events::Paced,
        sources::{Pace, has_own_sessions, pace_of},
    },
};
use diagnostics::{EventPipeConfig, Provider};
use profilers::{EventSource, Selection};

/// The level of an EventPipe provider that tells most.
const VERBOSE: u32 = 5;

/// The first major version of .NET of which a session may end in the middle of a recording.
const FIRST_THAT_MAY_PAUSE: u16 = 5;

/// The sessions for all profilers that listen to events of a runtime of this major version, but for
/// those that have sessions of their own.
///
/// What is verbose of the runtime's main provider has one of its own: in one with events of
/// collections it would bring a stack walk for each 100 KB that are allocated. So has what may come
/// too fast: see [`paced_events`].
pub(super) fn event_pipes(
    options: &RecordOptions,
    major: u16,
    session: &str,
) -> Vec<EventPipeConfig> {
    let of = |verbose: bool| {
        let mut config = EventPipeConfig::new(Vec::new());
        for selection in options.profilers.iter().filter(|selection| !is_apart(selection)) {
            for source in selection.event_sources(major, session) {
                let is_verbose = source.level >= VERBOSE && source.provider == Provider::RUNTIME;
                if is_verbose == verbose && pace(options, selection, &source, major).is_none() {
                    config.stacks |= source.stacks;
                    add_source(&mut config.providers, source);
                }
            }
        }
        config
    };
    [of(false), of(true)].into_iter().filter(|config| !config.providers.is_empty()).collect()
}

/// The sessions, one for each profiler, of what may come too fast. .NET Core 3.1 has none: there
/// the end of a session is not safe on a busy machine, so none ends before the recording does.
pub(super) fn paced_events(options: &RecordOptions, major: u16) -> Vec<(&'static str, Paced)> {
    let of_one = |selection: &Selection| {
        let mut config = EventPipeConfig::new(Vec::new());
        let mut found = None;
        for source in selection.event_sources(major, "") {
            if let Some(pace) = pace(options, selection, &source, major) {
                found = Some(pace);
                config.stacks |= source.stacks;
                add_source(&mut config.providers, source);
            }
        }
        found.map(|Pace { most, what }| (selection.spec.id, Paced { config, most, what }))
    };
    options.profilers.iter().filter_map(of_one).collect()
}

/// How many events of a source are too many. There is no limit where another profiler asks for the
/// same events: they come in any case.
fn pace(
    options: &RecordOptions,
    selection: &Selection,
    source: &EventSource,
    major: u16,
) -> Option<Pace> {
    let may_pause = major >= FIRST_THAT_MAY_PAUSE && source.provider == Provider::RUNTIME;
    let pace = pace_of(selection.spec.id).filter(|_| may_pause)?;
    let others = options.profilers.iter().filter(|other| other.spec.id != selection.spec.id);
    let mut sources = others.flat_map(|other| other.event_sources(major, ""));
    let comes_anyway = sources
        .any(|other| other.provider == source.provider && other.keywords & source.keywords != 0);
    (!comes_anyway).then_some(pace)
}

fn add_source(providers: &mut Vec<Provider>, source: EventSource) {
    let EventSource { provider: name, keywords, level, arguments, .. } = source;
    match providers.iter_mut().find(|provider| provider.name == name) {
        Some(provider) => {
            provider.keywords |= keywords;
            provider.level = provider.level.max(level);
            provider.arguments = both_arguments(&provider.arguments, &arguments);
        }
        None => providers.push(Provider { name, keywords, level, arguments }),
    }
}

/// Whether some runtime would be asked for event sessions.
pub(in crate::linux) fn wants_events(options: &RecordOptions) -> bool {
    let newest = u16::MAX;
    options.profilers.iter().any(is_apart)
        || !event_pipes(options, newest, "").is_empty()
        || !paced_events(options, newest).is_empty()
}

/// Whether a profiler has sessions of its own.
fn is_apart(selection: &Selection) -> bool {
    has_own_sessions(selection.spec.id)
}

/// What a profiler that has sessions of its own asks a runtime of this major version for.
pub(super) fn own_events(selection: &Selection, major: u16) -> EventPipeConfig {
    let mut config = EventPipeConfig::new(Vec::new());
    for source in selection.event_sources(major, "") {
        config.stacks |= source.stacks;
        add_source(&mut config.providers, source);
    }
    config
}

/// The arguments that two profilers give one provider. Where both give a number under one name
/// (seconds between values) it is the lesser.
fn both_arguments(first: &str, second: &str) -> String {
    let mut all: Vec<(&str, &str)> = Vec::new();
    let pairs = [first, second]
        .into_iter()
        .flat_map(|text| text.split(';'))
        .filter(|pair| !pair.is_empty());
    for (name, value) in pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))) {
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => {
                if let (Ok(one), Ok(other)) = (known.parse::<u64>(), value.parse::<u64>())
                    && other < one
                {
                    *known = value;
                }
            }
            None => all.push((name, value)),
        }
    }
    let all = all.into_iter().map(|(name, value)| {
        if value.is_empty() { name.to_owned() } else { format!("{name}={value}") }
    });
    all.collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::{super::tests::options, *};

    #[test]
    fn what_is_verbose_is_asked_for_apart() {
        let of = |profilers: &str, major| {
            let configs = event_pipes(&options(profilers, None), major, "s");
            let facts = |config: &EventPipeConfig| {
                let runtime =
                    config.providers.iter().find(|provider| provider.name == Provider::RUNTIME);
                runtime.map(|provider| (provider.keywords, provider.level, config.stacks))
            };
            configs.iter().map(facts).collect::<Vec<_>>()
        };
        assert_eq!(of("cpu,wall", 9), []);
        assert_eq!(of("gc,locks", 9), [Some((0x4001, 4, true))]);
        assert_eq!(of("gc,jit", 9), [Some((1, 4, true)), Some((0x30_0000_0010, 5, true))]);
        // It comes and goes.
        assert_eq!(of("gc,allocations", 9), [Some((1, 4, true))]);
        assert_eq!(of("allocations", 10), []);
        assert_eq!(of("gc,threadpool", 3), [Some((0x1_0001, 4, true))]);
        assert_eq!(of("gc,threadpool", 9), [Some((1, 4, true))]);
        let paced = paced_events(&options("gc,threadpool", None), 9);
        let [("threadpool", Paced { config, .. })] = paced.as_slice() else { panic!("{paced:?}") };
        assert_eq!(config.providers.len(), 1, "without the counters: {config:?}");
        assert_eq!((config.providers[0].keywords, config.stacks), (0x1_0000, false));
        assert_eq!(of("threads,threadpool", 9), [Some((0x1_0800, 4, true))]);
        let paced = paced_events(&options("threads,threadpool", None), 9);
        assert!(paced.is_empty(), "they come for `threads`: {paced:?}");
        let wants = ["cpu,wall", "gc", "allocations", "exceptions"]
            .map(|list| wants_events(&options(list, None)));
        assert_eq!(wants, [false, true, true, false]);
    }

    #[test]
    fn arguments_of_one_provider_are_put_together() {
        assert_eq!(
            both_arguments("EventCounterIntervalSec=5", "EventCounterIntervalSec=1"),
            "EventCounterIntervalSec=1"
        );
        assert_eq!(
            both_arguments("EventCounterIntervalSec=1", "EventCounterIntervalSec=5"),
            "EventCounterIntervalSec=1"
        );
        assert_eq!(both_arguments("a=1;b=x", "c=2"), "a=1;b=x;c=2");
        assert_eq!(both_arguments("", "c=2"), "c=2");
    }
}
