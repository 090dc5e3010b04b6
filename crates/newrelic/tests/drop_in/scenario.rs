//! New bodies: the output of programs is compared with the recorded one, line by line
//! (`fixtures/README.md`).

use crate::support::{Home, SHAPES, compile, run};
use newrelic_compat::shape::AgentShape;
use testkit::{Extras, Launch, Runtime, source_root};

/// Methods that the agent's own profiler loses, since they are inlined before it sees them.
const INLINED: [&str; 2] = ["RefApp.T.TracedInlinable", "RefApp.Outer+Nested.NInlinable"];

/// Methods that have a point and get no tracer, as under the agent's own profiler.
const REFUSED: [&str; 3] = [
    "Skipping sequential layout method: [Target]RefApp.Pt.Sum()",
    "By ref tokenization not supported.: [Target]RefApp.T.RefRet(System.Int32[])",
    "Skipping SpecialName method: [Target]RefApp.T.get_Prop()",
];

/// How methods come to the agent, and what is left out for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// As the agent's own profiler does it.
    Strict,
    /// The same with the cache disabled.
    StrictReflection,
    Default,
    Reflection,
    Fast,
}

impl Way {
    const ALL: [Way; 5] =
        [Way::Strict, Way::StrictReflection, Way::Default, Way::Reflection, Way::Fast];

    fn apply(self, launch: Launch) -> Launch {
        let mode = match self {
            Way::Strict | Way::StrictReflection => "strict",
            Way::Default | Way::Reflection => "default",
            Way::Fast => "fast",
        };
        let is_reflection = matches!(self, Way::StrictReflection | Way::Reflection);
        let is_direct = matches!(self, Way::Default | Way::Fast);
        launch
            .env("NEW_RELIC_CLRSCOPE_MODE", mode)
            .env("NEW_RELIC_DISABLE_APPDOMAIN_CACHING", is_reflection.to_string())
            .env("AGENT_WITHOUT_ARRAYS", is_direct.to_string())
    }

    fn is_strict(self) -> bool {
        matches!(self, Way::Strict | Way::StrictReflection)
    }
}

fn points(name: &str) -> String {
    std::fs::read_to_string(source_root().join("crates").join(name)).unwrap()
}

/// Splits off the tracers of [`INLINED`].
fn without_inlined(lines: Vec<String>) -> (Vec<String>, Vec<String>) {
    let is_inlined = |line: &str| {
        INLINED.iter().any(|method| {
            let (class, name) = method.rsplit_once('.').unwrap();
            line.starts_with(&format!("FINISH {method} "))
                || line.starts_with("GETTRACER ")
                    && line.contains(&format!(" typeName={class} method={name} "))
        })
    };
    lines.into_iter().partition(|line| !is_inlined(line))
}

fn check(shape: AgentShape, way: Way) {
    let api = compile("NewRelic.Api.Agent", "Api.cs", true, Extras::default());
    let target =
        compile("Target", "Target.cs", false, Extras { libraries: &[&api], ..Extras::default() });
    for (runtime, recorded) in [
        (Runtime::V3_1, include_str!("../fixtures/scenario-3.1.txt")),
        (Runtime::V9, include_str!("../fixtures/scenario-9.txt")),
    ] {
        let case = format!("{runtime}, agent {shape}, {way:?}");
        let home = Home::new(shape, Some(&points("newrelic-compat/tests/fixtures/target.xml")));
        let lines = run(way.apply(home.launch::<&str>(&target, runtime, &[]))).well(&case);
        let (lines, inlined) = without_inlined(lines);
        let different = lines
            .iter()
            .map(String::as_str)
            .zip(recorded.lines())
            .find(|(ours, theirs)| ours != theirs);
        assert_eq!(different, None, "{case}\n{}", home.log().join("\n"));
        assert_eq!(lines.len(), recorded.lines().count(), "{case}");
        let count = |lines: &[String], start: &str| {
            lines.iter().filter(|line| line.starts_with(start)).count()
        };
        let more = if way.is_strict() { 0 } else { INLINED.len() };
        for start in ["GETTRACER ", "FINISH "] {
            assert_eq!(
                [count(&lines, start), count(&inlined, start)],
                [50, more],
                "{case}: {start}"
            );
        }
        let log = home.log();
        for refused in REFUSED {
            let is_said =
                log.iter().any(|line| line.starts_with("[Error] ") && line.ends_with(refused));
            assert!(is_said, "{case}: {refused}\n{}", log.join("\n"));
        }
    }
}

#[test]
fn agent_10_53() {
    for way in Way::ALL {
        check(AgentShape::V10_53, way);
    }
}

#[test]
fn agent_10_54() {
    for way in Way::ALL {
        check(AgentShape::V10_54, way);
    }
}

#[test]
fn agent_10_55() {
    for way in Way::ALL {
        check(AgentShape::V10_55, way);
    }
}

/// What the agent gets for the calls in `Values.cs`, except for those of `Inc`: method, arguments
/// and result.
const VALUES: [(&str, &str, &str); 13] = [
    ("Values.Auto.Sum", "System.Int32:1", "System.Int32:5"),
    ("Values.Generic`1.Get", "", "System.String:g"),
    ("Values.Generic`1.Get", "", "System.Int32:7"),
    ("Values.Generic`1+Nested.GetNested", "", "System.Int32:8"),
    ("Values.Takes.Span", "null", "System.Int32:3"),
    ("Values.Takes.ReturnSpan", "Int32[]{System.Int32:0}", "null"),
    ("Values.Takes.Reference", "null", "System.Int32:1"),
    ("Values.Takes.RefStruct", "null", "System.Int32:9"),
    (
        "Values.Takes.Mixed",
        "null,System.Int32:5,null,System.DateTime:01/01/0001 00:00:00,System.DayOfWeek:Friday",
        "System.Int32:2",
    ),
    ("Values.Takes.Value", "Values.Auto:Auto4s", "System.Int32:4"),
    ("Values.Takes.Nested", "System.Environment+SpecialFolder:Desktop", "System.Int32:0"),
    ("System.Net.Http.Headers.RetryConditionHeaderValue..ctor", "System.TimeSpan:00:00:03", "null"),
    ("System.Net.IPAddress.Parse", "null", "System.Net.IPAddress:127.0.0.1"),
];
/// Calls of `Inc` there.
const INCREMENTS: usize = 201;

/// The parts of what the agent prints at the start and the end of a tracer: method, arguments,
/// result.
fn call(start: &str, end: &str) -> (String, String, String) {
    let between = |line: &str, from: &str, to: &str| {
        let rest = line.split_once(from).unwrap_or_else(|| panic!("no {from:?} in {line}")).1;
        rest.split_once(to).unwrap_or_else(|| panic!("no {to:?} in {line}")).0.to_owned()
    };
    let method = format!(
        "{}.{}",
        between(start, " typeName=", " method="),
        between(start, " method=", " sig=")
    );
    let result = between(end, &format!("FINISH {method} ret="), " ex=null");
    (method, between(start, " params=Object[]{", "} fid=nz"), result)
}

#[test]
fn values_are_boxed_where_they_can_be() {
    let program = compile("Values", "Values.cs", false, Extras::default());
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let plain = run(Launch::new(runtime.require().executable()).arg(&program))
            .well("without the library");
        for (shape, way) in SHAPES
            .into_iter()
            .flat_map(|shape| [Way::Reflection, Way::Fast].map(|way| (shape, way)))
        {
            let case = format!("{runtime}, agent {shape}, {way:?}");
            let home = Home::new(shape, Some(&points("newrelic/tests/fixtures/values.xml")));
            let lines = run(way.apply(home.launch::<&str>(&program, runtime, &[]))).well(&case);
            let is_tracer =
                |line: &String| line.starts_with("GETTRACER ") || line.starts_with("FINISH ");
            let (tracers, printed): (Vec<_>, Vec<_>) = lines.into_iter().partition(is_tracer);
            assert_eq!(printed, plain, "{case}");
            let calls = tracers.chunks_exact(2).map(|lines| call(&lines[0], &lines[1]));
            let (increments, calls): (Vec<_>, Vec<_>) =
                calls.partition(|(method, ..)| method == "Values.Auto.Inc");
            let wanted = VALUES.map(|(method, arguments, result)| {
                (method.into(), arguments.into(), result.into())
            });
            assert_eq!(calls, wanted, "{case}\n{}", home.log().join("\n"));
            assert_eq!(increments.len(), INCREMENTS, "{case}");
        }
    }
}

#[test]
fn the_core_library_gets_the_recorded_methods() {
    let program = compile("Helpers", "Helpers.cs", false, Extras::default());
    for (runtime, recorded) in [
        (Runtime::V3_1, include_str!("../fixtures/helpers-3.1.txt")),
        (Runtime::V9, include_str!("../fixtures/helpers-9.txt")),
    ] {
        let plain = run(Launch::assembly(&program, runtime, &[""; 0])).well("without the library");
        for way in Way::ALL {
            let case = format!("{runtime}, {way:?}");
            let home = Home::new(AgentShape::V10_54, None);
            let lines = run(way.apply(home.launch::<&str>(&program, runtime, &[]))).well(&case);
            // Only the agent's own way needs them.
            let expected = if way == Way::Strict {
                recorded.lines().map(str::to_owned).collect()
            } else {
                plain.clone()
            };
            assert_eq!(lines, expected, "{case}");
        }
    }
}

/// Lines of level info and above, without their times, but for those that only this profiler
/// writes.
fn important(log: &[String]) -> Vec<String> {
    let text = |line: &String| {
        let (level, rest) = line.split_at_checked(8)?;
        // The time has 20 characters.
        let text = rest.get(20..)?;
        let is_ours = text.starts_with("The managed agent is of shape ")
            || text.starts_with("The use of AppDomain for method information caching");
        // It names the method as well.
        let text = if text.starts_with("By ref tokenization") {
            "By ref tokenization not supported."
        } else {
            text
        };
        let is_important = ["[Info ] ", "[Warn ] ", "[Error] "].contains(&level);
        (is_important && !is_ours).then(|| format!("{level}{text}"))
    };
    log.iter().filter_map(text).collect()
}

#[test]
fn the_log_has_the_recorded_lines() {
    let api = compile("NewRelic.Api.Agent", "Api.cs", true, Extras::default());
    let target =
        compile("Target", "Target.cs", false, Extras { libraries: &[&api], ..Extras::default() });
    for (runtime, shape, recorded) in [
        (Runtime::V3_1, AgentShape::V10_53, include_str!("../fixtures/log-3.1-10.53.txt")),
        (Runtime::V3_1, AgentShape::V10_54, include_str!("../fixtures/log-3.1-10.54.txt")),
        (Runtime::V9, AgentShape::V10_53, include_str!("../fixtures/log-9-10.53.txt")),
        (Runtime::V9, AgentShape::V10_54, include_str!("../fixtures/log-9-10.54.txt")),
    ] {
        let case = format!("{runtime}, agent {shape}");
        let home = Home::new(shape, Some(&points("newrelic-compat/tests/fixtures/target.xml")));
        std::fs::create_dir(home.path().join("extensions/netcore")).unwrap();
        run(Way::Strict.apply(home.launch::<&str>(&target, runtime, &[]))).well(&case);
        let ours = important(&home.log());
        let recorded: Vec<_> = recorded.lines().map(str::to_owned).collect();
        let sorted = |lines: &[String]| {
            let lines: std::collections::BTreeSet<_> = lines.iter().cloned().collect();
            Vec::from_iter(lines)
        };
        assert_eq!(sorted(&ours), sorted(&recorded), "{case}");
        // Those of methods, in the order in which they are rewritten. On 3.1 the agent's own
        // rewrites some of them once more.
        if runtime == Runtime::V9 {
            let of_methods = |lines: &[String]| {
                let is_one = |line: &&String| {
                    line.contains("] Instrumenting ") || line.contains("] Skipping ")
                };
                lines.iter().filter(is_one).cloned().collect::<Vec<_>>()
            };
            assert_eq!(of_methods(&ours), of_methods(&recorded), "{case}");
        }
    }
}
