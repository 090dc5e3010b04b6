//! How injected code finds the managed agent.

use crate::Runtime;
use crate::shape::AgentShape;
use std::fmt;

/// How injected code finds the method of the managed agent that it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallingStrategy {
    /// Through helper methods in the core library, which keep what they found: the default.
    Cache,
    /// By reflection at each call. Nothing is added to the core library.
    Reflection,
}

impl CallingStrategy {
    /// The strategy that the environment asks for: `disabled` is the value of
    /// `NEW_RELIC_DISABLE_APPDOMAIN_CACHING`.
    ///
    /// Agents of shape 10.53 have no cache on .NET Core.
    #[must_use]
    pub const fn configured(shape: AgentShape, runtime: Runtime, disabled: bool) -> Self {
        match (shape, runtime) {
            _ if disabled => Self::Reflection,
            (AgentShape::V10_53, Runtime::Core) => Self::Reflection,
            _ => Self::Cache,
        }
    }

    /// The strategy that is used after the core library was loaded. Without usable helpers it is
    /// reflection; it never becomes the cache again.
    #[must_use]
    pub const fn resolved(self, helpers_usable: bool) -> Self {
        if helpers_usable { self } else { Self::Reflection }
    }
}

impl fmt::Display for CallingStrategy {
    /// The name in log lines, which tests of the agent expect.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cache => "AppDomain Fallback Cache",
            Self::Reflection => "Reflection",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::CallingStrategy::{Cache, Reflection};
    use super::*;

    #[test]
    fn the_cache_is_the_default_and_can_be_disabled() {
        let configured =
            |shape, runtime, disabled| CallingStrategy::configured(shape, runtime, disabled);
        for shape in [AgentShape::V10_54, AgentShape::V10_55] {
            assert_eq!(configured(shape, Runtime::Core, false), Cache);
            assert_eq!(configured(shape, Runtime::Core, true), Reflection);
        }
        assert_eq!(configured(AgentShape::V10_53, Runtime::Core, false), Reflection);
        assert_eq!(configured(AgentShape::V10_53, Runtime::Framework, false), Cache);
        assert_eq!(configured(AgentShape::V10_53, Runtime::Framework, true), Reflection);
    }

    #[test]
    fn it_is_only_ever_lowered() {
        assert_eq!(Cache.resolved(false), Reflection);
        assert_eq!(Cache.resolved(true), Cache);
        assert_eq!(
            [Reflection.resolved(true), Reflection.resolved(false)],
            [Reflection, Reflection]
        );
    }

    #[test]
    fn names() {
        assert_eq!(
            [Cache.to_string(), Reflection.to_string()],
            ["AppDomain Fallback Cache", "Reflection"]
        );
    }
}
