//! A managed agent that was whole when the program started, and cannot be loaded or run when the
//! first tracer is to be started: the program must not pay for it with each call.

use crate::support::{Home, agent, compile, run};
use newrelic_compat::shape::AgentShape;
use std::fs;
use testkit::{Extras, Runtime};

/// Calls of the traced method in a round of `Broken.cs`.
const CALLS: usize = 1000;
/// Exceptions in a round in which the agent is looked for: each attempt throws a few, some of them
/// once more while they pass native code.
const FEW: usize = 12;

const POINTS: &str = "<extension><instrumentation><tracerFactory><match assemblyName='Broken' \
                      className='Broken'><exactMethodMatcher \
                      methodName='Traced'/></match></tracerFactory></instrumentation></extension>";

/// What is wrong with the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Its file is gone, and back before the last round.
    Missing,
    /// Its file is something else.
    NoAssembly,
    /// The type that starts tracers cannot be initialized.
    Type,
    /// The method that starts tracers needs a library that is not there.
    Library,
    /// The method that starts tracers throws.
    Throws,
}

/// Exceptions in each round, and how often the agent was asked for a tracer.
fn rounds(fault: Fault, runtime: Runtime, mode: &str) -> (Vec<usize>, usize) {
    let case = format!("{fault:?}, {runtime}, {mode}");
    let shape = AgentShape::V10_54;
    let home = Home::new(shape, Some(POINTS));
    let file = home.path().join("NewRelic.Agent.Core.dll");
    if fault == Fault::Library {
        let library = compile("NewRelic.Api.Agent", "Api.cs", true, Extras::default());
        let extras = Extras { libraries: &[&library], symbols: &["SHAPE_10_54", "LIBRARY"] };
        let whole = fs::read(agent(shape)).unwrap();
        fs::copy(compile("NewRelic.Agent.Core", "Agent.cs", true, extras), &file).unwrap();
        assert_ne!(fs::read(&file).unwrap(), whole);
    }
    let program = compile("Broken", "Broken.cs", false, Extras::default());
    let argument = match fault {
        Fault::Missing => "missing",
        Fault::NoAssembly => "no-assembly",
        Fault::Type | Fault::Library | Fault::Throws => "as-it-is",
    };
    let launch = home.launch(&program, runtime, &[file.as_os_str(), argument.as_ref()]);
    let launch = launch.env("NEW_RELIC_CLRSCOPE_MODE", mode).env("AGENT_COUNT", "true");
    let launch = match fault {
        Fault::Type => launch.env("AGENT_FAILS", "type"),
        Fault::Throws => launch.env("AGENT_FAILS", "call"),
        _ => launch,
    };
    let lines = run(launch).well(&case);
    let sum = format!("sum {} exceptions ", CALLS * (CALLS + 1) / 2);
    let exceptions = |line: &String| line.strip_prefix(&sum)?.parse().ok();
    let started = |line: &String| {
        let (started, _) = line.strip_prefix("TRACERS started=")?.split_once(' ')?;
        started.parse().ok()
    };
    let rounds: Vec<usize> = lines.iter().filter_map(exceptions).collect();
    let started: Vec<usize> = lines.iter().filter_map(started).collect();
    assert_eq!((rounds.len(), rounds.len() + started.len()), (3, lines.len()), "{case}: {lines:?}");
    (rounds, started.first().copied().unwrap_or_default())
}

#[test]
fn an_agent_that_cannot_be_loaded_or_run_is_not_tried_at_each_call() {
    for runtime in [Runtime::V3_1, Runtime::V9] {
        for mode in ["default", "fast"] {
            for fault in [Fault::Missing, Fault::NoAssembly, Fault::Type, Fault::Library] {
                let case = format!("{fault:?}, {runtime}, {mode}");
                let (rounds, started) = rounds(fault, runtime, mode);
                assert!(matches!(rounds[0], 1..=FEW), "{case}: {rounds:?}");
                assert_eq!(rounds[1], 0, "{case}: {rounds:?}");
                // The agent is looked for once more, and traces if it can be loaded now.
                if fault == Fault::Missing {
                    assert_eq!((rounds[2], started), (0, CALLS), "{case}: {rounds:?}");
                } else {
                    assert!(matches!(rounds[2], 1..=FEW), "{case}: {rounds:?}");
                    assert_eq!(started, 0, "{case}");
                }
            }
        }
    }
}

#[test]
fn an_agent_that_throws_is_asked_at_each_call() {
    for runtime in [Runtime::V3_1, Runtime::V9] {
        for mode in ["strict", "default", "fast"] {
            let (rounds, started) = rounds(Fault::Throws, runtime, mode);
            let case = format!("{runtime}, {mode}: {rounds:?}");
            assert!(rounds.iter().all(|thrown| *thrown >= CALLS), "{case}");
            assert_eq!(started, 3 * CALLS, "{case}");
        }
    }
}

/// Bodies are those of the agent's own profiler there, which try again at each call.
#[test]
fn strict_tries_at_each_call() {
    let (rounds, started) = rounds(Fault::Missing, Runtime::V9, "strict");
    assert!(rounds[..2].iter().all(|thrown| *thrown >= CALLS), "{rounds:?}");
    assert_eq!((rounds[2], started), (0, CALLS), "{rounds:?}");
}
