//! Texts of lines that users and tests of the agent look for.

use super::{Level, Message};
use crate::shape::AgentShape;
use crate::strategy::CallingStrategy;

/// The first line.
pub const LOGGER_INITIALIZED: &str = "Logger initialized.";
/// The log goes to standard output.
pub const CONSOLE_ENABLED: &str = "Console logging enabled";
/// The process is instrumented from now on.
pub const PROFILER_INITIALIZED: &str = "Profiler initialized";
/// The process is not instrumented, because of a fault.
pub const INITIALIZATION_FAILED: &str =
    "An exception was thrown while initializing the profiler. The profiler will be detached now.";
/// The runtime is older than 3.1.
pub const CORE_TOO_OLD: &str = ".NET Core 3.1 or greater required";

/// A function that the managed agent calls has begun.
#[must_use]
pub fn enter(function: &str) -> Message {
    Message::new(Level::Trace, format!("Enter: {function}"))
}

/// A function that the managed agent calls has ended. Tests wait for that of
/// `InstrumentationRefresh`.
#[must_use]
pub fn leave(function: &str) -> Message {
    Message::new(Level::Trace, format!("Leave: {function}"))
}

/// How the managed agent will be found, just before [`PROFILER_INITIALIZED`].
///
/// From 10.54 on the strategy is always logged, as it was configured. Before, only that the cache
/// is disabled; `variable` is the value of `NEW_RELIC_DISABLE_APPDOMAIN_CACHING` where that is set.
#[must_use]
pub fn strategy(
    shape: AgentShape,
    strategy: CallingStrategy,
    variable: Option<&str>,
) -> Option<Message> {
    let text = match (shape, variable) {
        (AgentShape::V10_54 | AgentShape::V10_55, _) => {
            format!("Calls to the managed agent will use the calling strategy - {strategy}")
        }
        (AgentShape::V10_53, Some(value)) if strategy == CallingStrategy::Reflection => format!(
            "The use of AppDomain for method information caching is disabled via the environment \
             variable NEW_RELIC_DISABLE_APPDOMAIN_CACHING={value}"
        ),
        (AgentShape::V10_53, _) => return None,
    };
    Some(Message::new(Level::Info, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tests_of_the_agent_match() {
        let text = |shape, of, variable| strategy(shape, of, variable).map(|message| message.text);
        let cache =
            "Calls to the managed agent will use the calling strategy - AppDomain Fallback Cache";
        let reflection = "Calls to the managed agent will use the calling strategy - Reflection";
        for shape in [AgentShape::V10_54, AgentShape::V10_55] {
            assert_eq!(text(shape, CallingStrategy::Cache, None).as_deref(), Some(cache));
            assert_eq!(
                text(shape, CallingStrategy::Reflection, Some("1")).as_deref(),
                Some(reflection)
            );
        }
        let disabled = text(AgentShape::V10_53, CallingStrategy::Reflection, Some("true")).unwrap();
        assert!(
            disabled.starts_with("The use of AppDomain for method information caching is disabled")
        );
        assert_eq!(text(AgentShape::V10_53, CallingStrategy::Reflection, None), None);
        assert_eq!(text(AgentShape::V10_53, CallingStrategy::Cache, None), None);
        assert_eq!(leave("InstrumentationRefresh").text, "Leave: InstrumentationRefresh");
        assert_eq!(enter("InstrumentationRefresh").level, Level::Trace);
    }
}
