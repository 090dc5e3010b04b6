//! What each shape of the managed agent gets.

use crate::support::{TRACER, app, function, listing, settings, tiny};
use newrelic_compat::Runtime;
use newrelic_compat::points::flags;
use newrelic_compat::rewrite::{
    Function, IMPL_ASYNC, Refusal, Rewritten, Settings, external_types, instrument, instrument_api,
    is_api_method,
};
use newrelic_compat::shape::AgentShape;
use newrelic_compat::strategy::CallingStrategy;

const VOID: [u8; 3] = [0, 0, 1];

/// What is defined while a method is instrumented, and its code.
fn traced(
    settings: &Settings<'_>,
    signature: &[u8],
    implementation: u32,
) -> (Vec<String>, Result<Rewritten, Refusal>) {
    let body = tiny(&[0x2a]);
    let returning = tiny(&[0x14, 0x7a]);
    let body = if signature[2] == 1 { &body } else { &returning };
    let mut model = app();
    let function = Function { implementation, ..function(signature, body) };
    let new = instrument(&function, &TRACER, settings, &mut model);
    (model.log, new)
}

fn has(log: &[String], member: &str) -> bool {
    log.iter().any(|line| line == &format!("member {member}"))
}

#[test]
fn the_cache_names_helpers_and_reflection_names_none() {
    let helper = |name: &str| format!("System.CannotUnloadAppDomainException::{name}");
    for (shape, name) in [
        (AgentShape::V10_53, "GetMethodFromAppDomainStorageOrReflectionOrThrow"),
        (AgentShape::V10_54, "GetAgentShimMethodFromAppDomainStorageOrReflectionOrThrow"),
        (AgentShape::V10_55, "InvokeAgentShimFinishTracerDelegateFunc"),
    ] {
        let (log, new) = traced(&settings(shape, CallingStrategy::Cache), &VOID, 0);
        assert!(new.is_ok() && has(&log, &helper(name)), "{shape}: {log:?}");
        let invokes = has(&log, "System.Reflection.MethodBase::Invoke");
        assert_eq!(invokes, shape != AgentShape::V10_55, "{shape}");
        assert_eq!(
            log.iter().filter(|line| line.contains("CannotUnload")).count(),
            2,
            "{shape}: its type and itself"
        );
        let (log, _) = traced(&settings(shape, CallingStrategy::Reflection), &VOID, 0);
        assert!(
            has(&log, "System.Type::GetMethod")
                && !log.iter().any(|line| line.contains("CannotUnload")),
            "{shape}"
        );
    }
}

#[test]
fn the_core_library_is_referred_to_by_its_name_from_10_54_on() {
    let log = |shape, strategy| traced(&settings(shape, strategy), &VOID, 0).0;
    let old = log(AgentShape::V10_53, CallingStrategy::Reflection);
    assert!(old.contains(&"type [System.Runtime]System.Object".to_owned()), "{old:?}");
    for (strategy, version) in
        [(CallingStrategy::Cache, "[6, 0, 0, 0]"), (CallingStrategy::Reflection, "[0, 0, 0, 0]")]
    {
        let new = log(AgentShape::V10_54, strategy);
        assert!(new.contains(&format!("assembly System.Private.CoreLib {version}")), "{new:?}");
        assert!(new.contains(&"type [System.Private.CoreLib]System.Object".to_owned()));
        assert!(new.contains(&"type [System.Runtime]System.Exception".to_owned()));
        assert!(new.contains(&"type [System.Core]System.Action`2".to_owned()));
        assert!(new.contains(&"type [System.Reflection]System.Reflection.MethodBase".to_owned()));
    }
}

#[test]
fn external_types_are_those_that_bodies_name() {
    for shape in [AgentShape::V10_53, AgentShape::V10_54, AgentShape::V10_55] {
        for strategy in [CallingStrategy::Cache, CallingStrategy::Reflection] {
            let settings = settings(shape, strategy);
            let log = traced(&settings, &VOID, 0).0;
            let mut named: Vec<&str> =
                log.iter().filter_map(|line| line.strip_prefix("type ")).collect();
            let listed = external_types(&settings, false)
                .into_iter()
                .map(|(library, name)| format!("[{library}]{name}"));
            let mut listed: Vec<String> = listed.collect();
            named.sort_unstable();
            listed.sort_unstable();
            assert_eq!(named, listed, "{shape} {strategy}");
        }
    }
}

#[test]
fn twelve_slots_from_10_55_on() {
    for (shape, slots) in
        [(AgentShape::V10_53, 11), (AgentShape::V10_54, 11), (AgentShape::V10_55, 12)]
    {
        for strategy in [CallingStrategy::Cache, CallingStrategy::Reflection] {
            let new = traced(&settings(shape, strategy), &VOID, 0).1.unwrap();
            let stored = listing(&new.bytes).iter().filter(|line| *line == "stelem.ref").count();
            assert_eq!(stored, slots, "{shape} {strategy}");
        }
    }
}

#[test]
fn framework_refers_to_mscorlib() {
    let framework = |strategy, references: &[&str]| {
        let settings =
            Settings { runtime: Runtime::Framework, ..settings(AgentShape::V10_53, strategy) };
        let mut model = crate::model::Model::new(&serde_json::json!({
            "assemblyRefs": references, "rows": [0, 0, 0, 0], "nextString": "70000001",
        }));
        let body = tiny(&[0x2a]);
        instrument(&function(&VOID, &body), &TRACER, &settings, &mut model).map(|_| model.log)
    };
    let log = framework(CallingStrategy::Cache, &["mscorlib"]).unwrap();
    assert!(
        log.contains(&"type [mscorlib]System.Action`2".to_owned())
            && !log.iter().any(|line| line.starts_with("assembly"))
    );
    let log = framework(CallingStrategy::Cache, &["netstandard"]).unwrap();
    assert!(log.contains(&"assembly mscorlib [4, 0, 0, 0]".to_owned()));
    let log = framework(CallingStrategy::Reflection, &["System.Runtime", "netstandard"]).unwrap();
    assert!(log.contains(&"type [netstandard]System.Object".to_owned()));
    let log = framework(CallingStrategy::Reflection, &["System.Runtime"]).unwrap();
    assert!(log.contains(&"type [System.Runtime]System.Object".to_owned()));
    assert_eq!(framework(CallingStrategy::Reflection, &["Other"]), Err(Refusal::NoCoreReference));
}

#[test]
fn api_methods() {
    let body = tiny(&[0x2a]);
    let signature = [0, 2, 1, 0x0e, 0x10, 8];
    let api = |shape, strategy| {
        let mut model = app();
        let new =
            instrument_api(&function(&signature, &body), &settings(shape, strategy), &mut model)
                .unwrap();
        (model.log, listing(&new.bytes))
    };
    let types = |lines: &[String]| lines.iter().filter(|line| line.starts_with("ldtoken")).count();
    for shape in [AgentShape::V10_54, AgentShape::V10_55] {
        let (log, lines) = api(shape, CallingStrategy::Reflection);
        assert!(
            has(&log, "System.Reflection.MethodBase::Invoke")
                && !log.iter().any(|line| line.contains("CannotUnload"))
        );
        assert_eq!(types(&lines), 2);
    }
    let (log, _) = api(AgentShape::V10_54, CallingStrategy::Cache);
    assert!(has(
        &log,
        "System.CannotUnloadAppDomainException::GetMethodFromAppDomainStorageOrReflectionOrThrow"
    ));
    let (log, lines) = api(AgentShape::V10_55, CallingStrategy::Cache);
    assert!(has(&log, "System.CannotUnloadAppDomainException::InvokeAgentMethodInvokerFunc"));
    assert!(!has(&log, "System.Reflection.MethodBase::Invoke"));
    assert_eq!(types(&lines), 2);
    let returning = [0, 1, 0x0e, 8];
    let body = tiny(&[0x14, 0x2a]);
    let settings = settings(AgentShape::V10_55, CallingStrategy::Cache);
    let new = instrument_api(&function(&returning, &body), &settings, &mut app()).unwrap();
    assert_eq!(types(&listing(&new.bytes)), 2, "one for the parameter and one for the result");
}

#[test]
fn which_methods_are_the_api() {
    const API: &str = "NewRelic.Api.Agent.NewRelic";
    for (class, method, is) in [
        (API, "SetTransactionName", true),
        (API, "AddCustomAttribute", true),
        (API, ".cctor", false),
        (API, "GetAgent", false),
        ("NewRelic.Api.Agent.Agent", "SetTransactionName", false),
    ] {
        assert_eq!(is_api_method(class, method), is, "{class} {method}");
    }
}

/// The result in the locals of a runtime-async method with this return type; `None` where it is
/// refused.
fn effective(return_type: &[u8]) -> Option<Vec<u8>> {
    let signature = [&[0, 0], return_type].concat();
    let settings = settings(AgentShape::V10_55, CallingStrategy::Cache);
    match traced(&settings, &signature, IMPL_ASYNC).1 {
        Ok(new) => {
            let ordinary = traced(&settings, &[0, 0, 1], 0).1.unwrap().locals;
            // Behind the convention and the count, those of an ordinary method are two.
            Some(new.locals[ordinary.len()..].to_vec())
        }
        Err(Refusal::RuntimeAsyncReturn) => None,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn results_of_runtime_async_methods() {
    // Tokens 2 to 5: Task, Task`1, ValueTask, ValueTask`1.
    assert_eq!(effective(&[0x12, 9]).unwrap(), [0_u8; 0]);
    assert_eq!(effective(&[0x11, 17]).unwrap(), [0_u8; 0]);
    assert_eq!(effective(&[0x15, 0x12, 13, 1, 8]).unwrap(), [8]);
    assert_eq!(effective(&[0x15, 0x11, 21, 1, 0x0e]).unwrap(), [0x0e]);
    // Class or value type does not matter, the name does.
    assert_eq!(effective(&[0x11, 9]).unwrap(), [0_u8; 0]);
    assert_eq!(effective(&[0x12, 17]).unwrap(), [0_u8; 0]);
    assert_eq!(effective(&[0x15, 0x11, 13, 1, 8]).unwrap(), [8]);
    assert_eq!(effective(&[0x15, 0x12, 21, 1, 8]).unwrap(), [8]);
    assert_eq!(effective(&[0x15, 0x11, 21, 1, 0x13, 1]).unwrap(), [0x13, 1]);
    assert_eq!(effective(&[0x15, 0x11, 21, 1, 0x1e, 1]).unwrap(), [0x1e, 1]);
    assert_eq!(effective(&[0x15, 0x12, 13, 1, 0x13, 0]).unwrap(), [0x13, 0]);
    assert_eq!(effective(&[0x15, 0x12, 13, 1, 0x1e, 0]).unwrap(), [0x1e, 0]);
    // One level only.
    let nested = [0x15, 0x12, 13, 1, 8];
    assert_eq!(effective(&[&[0x15, 0x12, 13, 1][..], &nested].concat()).unwrap(), nested);
    for refused in [
        &[8][..],
        &[1],
        &[0x0e],
        &[0x16],
        &[0x1d, 8],
        &[0x12, 8],
        &[0x10, 0x12, 9],
        &[0x15, 0x11, 5, 1, 8],
        &[0x15, 0x12, 13, 2, 8, 8],
        &[0x15, 0x12, 9, 1, 8],
        &[0x12, 0x81, 1],
        &[0x15, 0x12, 0x81, 1, 1, 8],
        &[0x13, 0],
        &[0x1e, 0],
        &[0x14, 0x12, 9, 2, 0, 0],
        &[0x15, 0x12, 17, 1, 8],
        &[0x15, 0x12, 21, 2, 8, 8],
    ] {
        assert_eq!(effective(refused), None, "{refused:02x?}");
    }
}

#[test]
fn runtime_async_methods_say_so() {
    let settings = settings(AgentShape::V10_55, CallingStrategy::Cache);
    let flags_of = |signature: &[u8], implementation| {
        let new = traced(&settings, signature, implementation).1.unwrap();
        let parsed = cil::MethodBody::parse(&new.bytes).unwrap().into_owned();
        let all = parsed.decode().unwrap();
        let number = all.iter().find_map(|instruction| match instruction.operand {
            cil::Operand::Int32(value) => Some(value.cast_unsigned()),
            _ => None,
        });
        (
            number.unwrap(),
            listing(&new.bytes).iter().filter(|line| line.starts_with("ldtoken")).count(),
        )
    };
    let task = [0, 0, 0x12, 9];
    let task_of_int = [0, 0, 0x15, 0x12, 13, 1, 8];
    assert_eq!(flags_of(&task, IMPL_ASYNC), (0x3400 | flags::RUNTIME_ASYNC, 1));
    assert_eq!(flags_of(&task_of_int, IMPL_ASYNC), (0x3400 | flags::RUNTIME_ASYNC, 2));
    assert_eq!(flags_of(&task_of_int, 0), (0x3400, 1));
    // A value task, and one of a type parameter, are tasks as well.
    assert_eq!(flags_of(&[0, 0, 0x11, 17], IMPL_ASYNC), (0x3400 | flags::RUNTIME_ASYNC, 1));
    assert_eq!(
        flags_of(&[0, 0, 0x15, 0x11, 21, 1, 0x13, 0], IMPL_ASYNC),
        (0x3400 | flags::RUNTIME_ASYNC, 2)
    );
    assert_eq!(traced(&settings, &[0, 0, 8], IMPL_ASYNC).1, Err(Refusal::RuntimeAsyncReturn));
    assert!(traced(&settings, &[0, 0, 8], 0).1.is_ok());
    for shape in [AgentShape::V10_53, AgentShape::V10_54] {
        let older = Settings { shape, ..settings };
        assert_eq!(traced(&older, &task, IMPL_ASYNC).1, Err(Refusal::RuntimeAsync));
    }
}

#[test]
fn runtime_async_bodies_are_those_of_ordinary_methods() {
    let settings = settings(AgentShape::V10_55, CallingStrategy::Cache);
    let new = |signature: &[u8], code: &[u8], implementation| {
        let body = tiny(code);
        let function = Function { implementation, ..function(signature, &body) };
        instrument(&function, &TRACER, &settings, &mut app()).unwrap()
    };
    let mnemonics = |new: &Rewritten| -> Vec<String> {
        let lines = listing(&new.bytes).into_iter();
        lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    let task = new(&[0, 0, 0x12, 9], &[0x2a], IMPL_ASYNC);
    let void = new(&VOID, &[0x2a], 0);
    assert_eq!((&task.locals, mnemonics(&task)), (&void.locals, mnemonics(&void)));
    assert_eq!(task.locals[..2], [7, 2]);
    // The bytes differ in one of those of the flags only.
    let differences =
        task.bytes.iter().zip(&void.bytes).filter(|(task, void)| task != void).count();
    assert_eq!((task.bytes.len(), differences), (void.bytes.len(), 1));

    let task = new(&[0, 0, 0x15, 0x12, 13, 1, 8], &[0x17, 0x2a], IMPL_ASYNC);
    let int = new(&[0, 0, 8], &[0x17, 0x2a], 0);
    assert_eq!((task.locals[1], task.locals.last()), (3, Some(&8)));
    assert_eq!(task.locals, int.locals);
    // And the type that the runtime makes a task of is loaded in place of null.
    let mut lines = mnemonics(&task);
    let at = lines.iter().rposition(|line| line == "ldtoken").unwrap();
    assert_eq!(lines[at + 1], "call");
    lines.splice(at..at + 2, ["ldnull".to_owned()]);
    assert_eq!(lines, mnemonics(&int));
}
