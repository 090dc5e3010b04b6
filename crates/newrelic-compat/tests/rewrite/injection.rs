//! Helper methods are added to the core library.

use crate::model::Model;
use crate::support::settings;
use newrelic_compat::Runtime;
use newrelic_compat::log::Level;
use newrelic_compat::rewrite::helpers::{Helper, fields};
use newrelic_compat::rewrite::{Settings, inject, is_core_library};
use newrelic_compat::shape::AgentShape;
use newrelic_compat::strategy::CallingStrategy;
use serde_json::json;

const SHAPES: [AgentShape; 3] = [AgentShape::V10_53, AgentShape::V10_54, AgentShape::V10_55];

/// A core library without helpers.
fn core_library() -> Model {
    Model::new(&json!({
        "typeDefs": {
            "System.Object": "02000001", "System.Type": "02000002", "System.Reflection.MethodInfo": "02000003",
            "System.Reflection.Assembly": "02000004", "System.CannotUnloadAppDomainException": "02000005",
            "System.Security.SecuritySafeCriticalAttribute": "02000006",
            "System.Security.SuppressUnmanagedCodeSecurityAttribute": "02000007",
        },
        "methodDefs": {
            "System.CannotUnloadAppDomainException::.ctor sig:200001": "06000011",
            "System.Security.SecuritySafeCriticalAttribute::.ctor sig:200001": "06000012",
            "System.Security.SuppressUnmanagedCodeSecurityAttribute::.ctor sig:200001": "06000013",
        },
        "nextString": "70000001",
    }))
}

fn both_runtimes(shape: AgentShape) -> [Settings<'static>; 2] {
    [Runtime::Core, Runtime::Framework]
        .map(|runtime| Settings { runtime, ..settings(shape, CallingStrategy::Cache) })
}

/// Names of what was tried to be defined, of one kind.
fn defined<'a>(model: &'a Model, kind: &str) -> Vec<&'a str> {
    let named = model.log.iter().filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' '));
    named.filter_map(|rest| rest.split(' ').next()).collect()
}

#[test]
fn everything_is_defined_in_order() {
    for shape in SHAPES {
        for settings in both_runtimes(shape) {
            let mut model = core_library();
            let injection = inject("/lib/x.dll", &settings, &mut model);
            assert_eq!(
                injection.strategy,
                CallingStrategy::Cache,
                "{shape}: {:?}",
                injection.messages
            );
            assert!(injection.messages.iter().all(|message| message.level == Level::Debug));
            assert_eq!(
                defined(&model, "type"),
                if shape == AgentShape::V10_53 { &[][..] } else { &["__NRInitializer__"] }
            );
            assert_eq!(defined(&model, "field"), fields(shape));
            let names: Vec<&str> = Helper::of(shape).iter().map(|helper| helper.name()).collect();
            assert_eq!(defined(&model, "method"), names);
            let count = |line: &str| model.log.iter().filter(|other| *other == line).count();
            assert_eq!(
                ["attribute 06000012", "attribute 06000013", "assert"].map(count),
                [names.len(); 3]
            );
        }
    }
    let mut model = core_library();
    let settings = settings(AgentShape::V10_54, CallingStrategy::Cache);
    inject("/lib/x.dll", &settings, &mut model);
    let count = model.log.len();
    // They are defined once.
    assert_eq!(inject("/lib/x.dll", &settings, &mut model).strategy, CallingStrategy::Cache);
    assert_eq!(model.log.len(), count);
    assert_eq!(model.log[0], "type __NRInitializer__ 0x180");
    assert_eq!(model.log[1], "field _agentMethodFunc 0x16 [06, 1c]");
    assert_eq!(model.log[4], "method LoadAssemblyOrThrow 0x96 0x8 body 06000011");
}

#[test]
fn a_type_that_fails_does_not_stop_the_methods() {
    for settings in both_runtimes(AgentShape::V10_54) {
        let mut model = core_library();
        model.fails = Some("__NRInitializer__".to_owned());
        let injection = inject("/lib/x.dll", &settings, &mut model);
        assert_eq!(injection.strategy, CallingStrategy::Reflection);
        assert_eq!(defined(&model, "method").len(), 13);
        let errors: Vec<&str> = injection
            .messages
            .iter()
            .filter(|message| message.level == Level::Error)
            .map(|message| message.text.as_str())
            .collect();
        let expected = [
            "Failed to inject New Relic helper type into /lib/x.dll: chosen to fail",
            "__NRInitializer__ helper type was not defined into the core library; downgrading the \
             managed-agent calling strategy to Reflection for this process. injection_downgrades=1",
        ];
        assert_eq!(errors, expected);
    }
}

#[test]
fn one_method_that_fails_is_enough_for_reflection() {
    for shape in SHAPES {
        for helper in Helper::of(shape) {
            for settings in both_runtimes(shape) {
                let mut model = core_library();
                model.fails = Some(helper.name().to_owned());
                let injection = inject("/lib/x.dll", &settings, &mut model);
                assert_eq!(injection.strategy, CallingStrategy::Reflection, "{}", helper.name());
                // All are tried.
                assert_eq!(defined(&model, "method").len(), Helper::of(shape).len());
            }
        }
    }
    for settings in both_runtimes(AgentShape::V10_54) {
        let mut model = core_library();
        model.fails = Some(String::new());
        let injection = inject("/lib/x.dll", &settings, &mut model);
        assert_eq!(
            (injection.strategy, defined(&model, "method").len()),
            (CallingStrategy::Reflection, 13)
        );
    }
}

#[test]
fn a_trimmed_core_library_is_left_alone() {
    let mut model = Model::new(
        &json!({ "typeDefs": { "System.Object": "02000001" }, "nextString": "70000001" }),
    );
    let injection =
        inject("/lib/x.dll", &settings(AgentShape::V10_54, CallingStrategy::Cache), &mut model);
    assert_eq!(injection.strategy, CallingStrategy::Reflection);
    assert!(model.log.is_empty());
    assert!(injection.messages.iter().all(|message| message.level < Level::Warn));
}

#[test]
fn reflection_adds_nothing() {
    let mut model = core_library();
    let injection = inject(
        "/lib/x.dll",
        &settings(AgentShape::V10_54, CallingStrategy::Reflection),
        &mut model,
    );
    assert_eq!(
        (injection.strategy, injection.messages.len(), model.log.len()),
        (CallingStrategy::Reflection, 0, 0)
    );
}

#[test]
fn attributes_that_are_missing() {
    let without = || {
        let mut state = json!({
            "typeDefs": {
                "System.Object": "02000001", "System.Type": "02000002", "System.Reflection.MethodInfo": "02000003",
                "System.Reflection.Assembly": "02000004", "System.CannotUnloadAppDomainException": "02000005",
            },
            "methodDefs": { "System.CannotUnloadAppDomainException::.ctor sig:200001": "06000011" },
        });
        state["nextString"] = json!("70000001");
        Model::new(&state)
    };
    let [core, framework] = both_runtimes(AgentShape::V10_53);
    assert_eq!(inject("x.dll", &core, &mut without()).strategy, CallingStrategy::Cache);
    let injection = inject("x.dll", &framework, &mut without());
    assert_eq!(
        injection.messages.iter().filter(|message| message.level == Level::Error).count(),
        6
    );
}

#[test]
fn core_libraries_by_path() {
    let core = "/usr/share/dotnet/shared/System.Private.CoreLib.dll";
    let framework = "C:\\Windows\\assembly\\mscorlib.dll";
    for (path, runtime, is) in [
        (core, Runtime::Core, true),
        (core, Runtime::Framework, false),
        (framework, Runtime::Framework, true),
        (framework, Runtime::Core, false),
        ("/x/System.Private.CoreLib", Runtime::Core, false),
    ] {
        assert_eq!(is_core_library(path, runtime), is, "{path}");
    }
}
