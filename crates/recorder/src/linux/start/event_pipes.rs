//! Which EventPipe sessions a recording has.

use super::super::allocation_events::AllocationEvents;
use crate::{RecordError, RecordOptions};
use diagnostics::{EventPipeConfig, Keeper, Port, Provider};
use profilers::{EventSource, Selection};

/// The profiler that has EventPipe sessions of its own.
pub(super) const ALLOCATIONS: &str = profilers::allocations::SPEC.id;

/// The level of an EventPipe provider that tells most.
const VERBOSE: u32 = 5;

/// The sessions for all profilers that listen to events of a runtime of this major version, but for
/// `allocations`.
///
/// What is verbose of the runtime's main provider has one of its own: in one with events of
/// collections it would bring a stack walk for each 100 KB that are allocated.
pub(super) fn event_pipes(
    options: &RecordOptions,
    major: u16,
    session: &str,
) -> Vec<EventPipeConfig> {
    let of = |verbose: bool| {
        let mut config = EventPipeConfig::new(Vec::new());
        for selection in
            options.profilers.iter().filter(|selection| selection.spec.id != ALLOCATIONS)
        {
            for source in selection.event_sources(major, session) {
                let is_verbose = source.level >= VERBOSE && source.provider == Provider::RUNTIME;
                if is_verbose == verbose {
                    config.stacks |= source.stacks;
                    add_source(&mut config.providers, source);
                }
            }
        }
        config
    };
    [of(false), of(true)].into_iter().filter(|config| !config.providers.is_empty()).collect()
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
    options.profilers.iter().any(|selection| selection.spec.id == ALLOCATIONS)
        || !event_pipes(options, newest, "").is_empty()
}

/// The sessions for `allocations`, which are apart: they come and go ([`AllocationEvents`]).
pub(super) fn allocation_events(
    keeper: Keeper,
    selection: &Selection,
    port: Option<&Port>,
    pid: u32,
    major: u16,
) -> Result<AllocationEvents, RecordError> {
    let mut config = EventPipeConfig::new(Vec::new());
    for source in selection.event_sources(major, "") {
        config.stacks |= source.stacks;
        add_source(&mut config.providers, source);
    }
    let most = selection.param("samples").and_then(|most| most.parse().ok()).unwrap_or(u64::MAX);
    AllocationEvents::start(keeper, port, pid, config, most)
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
