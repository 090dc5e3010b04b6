//! One file per profiler, and the registry of them.
//!
//! A profiler is one file of this crate with these things in it: `SPEC`, the constant from which
//! help, docs, the event mask and the providers come; `create`, which makes the part that runs
//! inside the target (a [`Collector`]), if there is one; and `TABLES`, the tables of its rows.
//!
//! Crates outside of the target have a file of the same name: `recorder` how events become rows
//! (`sources`), `profile` the analysis of the rows, `report` what is shown of it (`views`). The
//! name of the profiler behind `whole` in the list of `profilers!` below declares these too
//! ([`whole_profilers!`]), so it is all that is needed to add it everywhere. Older profilers, which
//! have no file in some of these crates, stand before it.
//!
//! Collectors hold no unsafe code and call no runtime interface: what they may ask stands in
//! [`ExceptionCx`] and [`WorkerCx`], which the agent implements.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod catalogue;
mod collector;
mod selection;
mod spec;
mod thread_map;

pub use catalogue::CATALOGUE;
pub use collector::*;
pub use selection::*;
pub use spec::*;
pub use thread_map::*;

use rows::{TableDef, TableId};
use wire::SessionConfig;

/// The tables of a profiler's rows. They are no part of the specification, because nothing in the
/// target needs their descriptions.
type Tables = &'static [fn(TableId) -> TableDef];

/// Declares the modules of all profilers, their registry, and [`whole_profilers!`]. `$dollar` is
/// the sign that a macro within a macro cannot write.
macro_rules! profilers {
    ($dollar:tt $($parts:ident),+ ; whole $($whole:ident),* $(,)?) => {
        profilers!(registry $($parts),+ $(, $whole)*);

        /// Calls a macro of the caller with the names of the profilers that have a file of their
        /// own in `recorder`, `profile` and `report`: `whole_profilers!(declare)` is
        /// `declare! { name, … }`.
        #[macro_export]
        macro_rules! whole_profilers {
            ($dollar then:ident) => { $dollar then! { $($whole),* } };
        }
    };
    (registry $($name:ident),+) => {
        $(pub mod $name;)+

        /// Every profiler there is, in the order of lists.
        pub const PROFILERS: &[&ProfilerSpec] = &[$(&$name::SPEC),+];

        /// The tables of all profilers, numbered in the order of lists.
        pub fn tables() -> Vec<TableDef> {
            let all: &[Tables] = &[$($name::TABLES),+];
            let number = |(number, table): (usize, &fn(TableId) -> TableDef)| {
                table(TableId(number as u32))
            };
            all.iter().copied().flatten().enumerate().map(number).collect()
        }

        /// The inside parts of the profilers that are on in a session.
        pub fn create(config: &SessionConfig) -> Vec<Box<dyn Collector>> {
            let mut collectors: Vec<Box<dyn Collector>> = Vec::new();
            $(
                if let Some(given) = config.profiler($name::SPEC.id) {
                    let settings = Settings { spec: &$name::SPEC, params: &given.params, session: config };
                    collectors.extend($name::create(&settings));
                }
            )+
            collectors
        }
    };
}

profilers!($
    cpu,
    wall,
    exceptions,
    gc,
    allocations,
    locks,
    counters,
    threads,
    threadpool,
    heap,
    survivors,
    calls,
    transitions,
    jit,
    loads,
    r#async,
    exact_allocations,
    trace;
    whole finalizers, dns
);

/// The profiler of this id.
pub fn by_id(id: &str) -> Option<&'static ProfilerSpec> {
    PROFILERS.iter().copied().find(|spec| spec.id == id)
}

/// The event mask that the profilers of a session need together: low and high half.
pub fn events_of(config: &SessionConfig) -> (u32, u32) {
    let on = PROFILERS.iter().filter(|spec| config.profiler(spec.id).is_some());
    on.fold((0, 0), |(low, high), spec| (low | spec.events.0, high | spec.events.1))
}

/// What a profiler gets when its part inside the target is made.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    spec: &'static ProfilerSpec,
    params: &'a [(String, String)],
    /// The session that it belongs to.
    pub session: &'a SessionConfig,
}

impl Settings<'_> {
    /// The value of a parameter: the one given, else the default.
    pub fn text(&self, name: &str) -> &str {
        let given = self
            .params
            .iter()
            .rev()
            .find(|(given, _)| given == name)
            .map(|(_, value)| value.as_str());
        let default =
            || self.spec.params.iter().find(|param| param.name == name).map(|param| param.default);
        given.or_else(default).unwrap_or_default()
    }

    /// The value of a number parameter, forced into its range: what was given has been checked
    /// outside, but nothing that came over a border is believed.
    pub fn number(&self, name: &str) -> u64 {
        let param = self.spec.params.iter().find(|param| param.name == name);
        let Some(ParamSpec { kind: ParamKind::Number(from, to), default, .. }) = param else {
            return 0;
        };
        let value = self.text(name).parse().or_else(|_| default.parse()).unwrap_or(*from);
        value.clamp(*from, *to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// `COR_PRF_ALLOWABLE_AFTER_ATTACH` and its high half, corprof.idl.
    const ATTACH_LEGAL: (u32, u32) = (0x1005_02fe, 0xf6);
    /// ENABLE_REJIT forbids ever to detach.
    const NEVER: u32 = 0x4_0000;
    /// MONITOR_GC turns concurrent collection off.
    const MONITOR_GC: u32 = 0x80;

    #[test]
    fn ids_are_unique_and_plain() {
        let ids: HashSet<_> = PROFILERS.iter().map(|spec| spec.id).collect();
        assert_eq!(ids.len(), PROFILERS.len());
        for id in ids {
            assert!(
                !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
                "{id}"
            );
            assert_eq!(by_id(id).map(|spec| spec.id), Some(id));
        }
        assert!(by_id("no-such").is_none());
    }

    #[test]
    fn masks_are_legal_where_the_spec_says_attach() {
        for spec in PROFILERS {
            if spec.attach {
                assert_eq!(spec.events.0 & !ATTACH_LEGAL.0, 0, "{}", spec.id);
                assert_eq!(spec.events.1 & !ATTACH_LEGAL.1, 0, "{}", spec.id);
            }
            let looks = ["heap", "survivors", "async"].contains(&spec.id);
            assert!(looks || spec.events.0 & MONITOR_GC == 0, "{}", spec.id);
            assert_eq!(spec.events.0 & NEVER != 0, spec.id == "trace", "{}", spec.id);
        }
    }

    #[test]
    fn looks_at_the_heap_and_hooks_need_the_main_slot() {
        let alone: Vec<_> =
            PROFILERS.iter().filter(|spec| spec.needs_main_slot()).map(|spec| spec.id).collect();
        assert_eq!(alone, ["heap", "survivors", "calls", "async", "trace"]);
    }

    #[test]
    fn everything_is_documented_and_every_default_is_right() {
        for spec in PROFILERS {
            assert!(!spec.summary.is_empty() && !spec.summary.ends_with('.'), "{}", spec.id);
            assert!(spec.description.ends_with('.'), "{}", spec.id);
            assert!(!spec.values.is_empty(), "{}", spec.id);
            let names: HashSet<_> = spec.params.iter().map(|param| param.name).collect();
            assert_eq!(names.len(), spec.params.len(), "{}", spec.id);
            for param in spec.params {
                assert!(!param.help.is_empty(), "{}:{}", spec.id, param.name);
                assert!(param.kind.accepts(param.default), "{}:{}", spec.id, param.name);
            }
        }
    }

    #[test]
    fn a_session_creates_what_is_on() {
        let mut config = SessionConfig {
            protocol: wire::PROTOCOL_VERSION,
            socket: String::new(),
            token: [0; 16],
            profilers: vec![],
            cpu: wire::CpuEngine::Off,
            rate_hz: 100,
            max_frames: 64,
            launched: false,
            sdk_tools: wire::sdk::SdkTools::None,
            placeholder: false,
            stays: false,
            quota: None,
            free_memory: None,
        };
        assert_eq!(create(&config).len(), 0);
        assert_eq!(events_of(&config), (0, 0));
        let on = |id: &str| wire::ProfilerConfig {
            id: id.into(),
            params: vec![("rate".into(), "1000000".into())],
        };
        config.profilers = vec![on("wall"), on("exceptions"), on("gc"), on("cpu")];
        // The gc profiler is all outside, and so is cpu unless it suspends and walks.
        assert_eq!(
            create(&config).iter().map(|collector| collector.id()).collect::<Vec<_>>(),
            ["wall", "exceptions"]
        );
        config.cpu = wire::CpuEngine::SuspendWalk;
        assert_eq!(create(&config).len(), 3);
        assert_eq!(events_of(&config).0 & 0x40, 0x40);
        let settings =
            Settings { spec: &wall::SPEC, params: &config.profilers[0].params, session: &config };
        assert_eq!(settings.number("rate"), 100);
        assert_eq!(settings.number("no-such"), 0);
    }
}
