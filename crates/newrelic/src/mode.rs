//! How far this profiler may differ from the agent's own.

use corprof::EventMask;
use newrelic_compat::Runtime;
use newrelic_compat::environment::{Environment, MODE_VARIABLE};
use std::fmt;

/// How far this profiler may differ from the agent's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The same events, method bodies and helpers, byte by byte. Methods that the runtime inlines
    /// before they are seen are lost, as they are there.
    Strict,
    /// The same events; methods come to the agent by a delegate of their own module, and none is
    /// lost.
    #[default]
    Default,
    /// As the default, and the program keeps its precompiled code and tiered compilation.
    Fast,
}

impl Mode {
    /// The mode that a text names, in any case.
    pub fn named(text: &str) -> Option<Self> {
        [Self::Strict, Self::Default, Self::Fast]
            .into_iter()
            .find(|mode| mode.name().eq_ignore_ascii_case(text))
    }

    /// The mode that the environment asks for, and the text of the variable if that names none.
    pub fn of(environment: &Environment) -> (Self, Option<String>) {
        match environment.get(MODE_VARIABLE) {
            None => (Self::default(), None),
            Some(text) => {
                Self::named(&text).map_or((Self::default(), Some(text)), |mode| (mode, None))
            }
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Default => "default",
            Self::Fast => "fast",
        }
    }

    /// The events that the runtime is asked for.
    pub const fn events(self, runtime: Runtime) -> EventMask {
        let always = EventMask::MODULE_LOADS
            .union(EventMask::THREADS)
            .union(EventMask::ENABLE_REJIT)
            .union(EventMask::ENABLE_STACK_SNAPSHOT);
        if matches!(self, Self::Fast) && matches!(runtime, Runtime::Core) {
            return always;
        }
        // Either of the two flags about images has the runtime throw precompiled code away.
        let own = always
            .union(EventMask::JIT_COMPILATION)
            .union(EventMask::USE_PROFILE_IMAGES)
            .union(EventMask::DISABLE_ALL_NGEN_IMAGES);
        match runtime {
            Runtime::Core => own.union(EventMask::DISABLE_TIERED_COMPILATION),
            Runtime::Framework => own,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use newrelic_compat::environment::Platform;

    #[test]
    fn names() {
        let of = |text: &str| Mode::of(&Environment::new(Platform::Unix, [(MODE_VARIABLE, text)]));
        assert_eq!(of("strict"), (Mode::Strict, None));
        assert_eq!(of("Fast"), (Mode::Fast, None));
        assert_eq!(of("default"), (Mode::Default, None));
        assert_eq!(of("quick"), (Mode::Default, Some("quick".to_owned())));
        assert_eq!(
            Mode::of(&Environment::new(Platform::Unix, [("", ""); 0])),
            (Mode::Default, None)
        );
    }

    #[test]
    fn events() {
        let words = |mode: Mode, runtime| (mode.events(runtime).low(), mode.events(runtime).high());
        for mode in [Mode::Strict, Mode::Default] {
            assert_eq!(words(mode, Runtime::Core), (0xB004_0224, 8));
            assert_eq!(words(mode, Runtime::Framework), (0xB004_0224, 0));
        }
        assert_eq!(words(Mode::Fast, Runtime::Core), (0x1004_0204, 0));
        assert_eq!(words(Mode::Fast, Runtime::Framework), (0xB004_0224, 0));
    }
}
