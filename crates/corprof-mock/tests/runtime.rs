//! The fake runtime, asked through the safe interface that profilers use.

use std::ops::ControlFlow;

use com::codes::{
    CORPROF_E_FUNCTION_NOT_COMPILED, CORPROF_E_NOT_MANAGED_THREAD, CORPROF_E_SUSPENSION_IN_PROGRESS,
};
use com::hresult::{E_ACCESSDENIED, E_INVALIDARG};
use corprof::ids::*;
use corprof::metadata::token::{MethodDef, TypeDef};
use corprof::{Error, EventMask, HResult};
use corprof_mock::{
    AppDomain, Assembly, Class, CodeBody, Frame, Function, MockClr, Module, Thread,
};

const F: FunctionId = FunctionId(0xF0);
const G: FunctionId = FunctionId(0xF1);

fn filled() -> MockClr {
    let clr = MockClr::new();
    clr.model(|model| {
        model.version = (9, 0, 5, 0);
        model.version_text = "9.0.5".into();
        model
            .app_domains
            .insert(AppDomainId(1), AppDomain { name: "clrhost".into(), process: ProcessId(2) });
        let assembly =
            Assembly { name: "App".into(), app_domain: AppDomainId(1), module: ModuleId(3) };
        model.assemblies.insert(AssemblyId(4), assembly);
        let path = format!("/{}/App.dll", "long".repeat(200));
        model.modules.insert(
            ModuleId(3),
            Module {
                base: 0x7000,
                path,
                assembly: AssemblyId(4),
                flags: 1,
                symbols: vec![7; 5000],
                ..Module::default()
            },
        );
        model.classes.insert(
            ClassId(5),
            Class {
                module: ModuleId(3),
                token: TypeDef::from_rid(2),
                parent: ClassId(6),
                ..Class::default()
            },
        );
        model
            .classes
            .insert(ClassId(6), Class { array: Some((0x08, ClassId(5), 2)), ..Class::default() });
        model.functions.insert(
            F,
            Function {
                class: ClassId(5),
                module: ModuleId(3),
                token: MethodDef::from_rid(9),
                bodies: vec![CodeBody::at(0x1000, 0x100)],
                ..Function::default()
            },
        );
        model
            .functions
            .insert(G, Function { dynamic_name: Some("stub".into()), ..Function::default() });
        let stack =
            vec![Frame { function: F, ip: 0x1010 }, Frame { function: FunctionId::NULL, ip: 0 }];
        model.threads.insert(ThreadId(8), Thread { os_id: 77, app_domain: AppDomainId(1), stack });
    });
    clr
}

fn code<T>(result: corprof::Result<T>) -> Option<HResult> {
    result.err().map(HResult::from)
}

#[test]
fn handles_lead_to_what_the_model_says() {
    let info = filled().info().unwrap();
    let function = info.function_info(F).unwrap();
    assert_eq!(
        (function.class, function.module, function.token),
        (Some(ClassId(5)), ModuleId(3), MethodDef::from_rid(9))
    );
    assert_eq!(info.function_from_ip(0x10FF), Ok(F));
    assert!(info.function_from_ip(0x1100).is_err());
    assert_eq!(info.function_from_token(ModuleId(3), MethodDef::from_rid(9)), Ok(F));
    assert_eq!(info.class_token(ClassId(5)), Ok((ModuleId(3), TypeDef::from_rid(2))));
    assert!(info.array_class(ClassId(5)).unwrap().is_none());
    assert_eq!(info.array_class(ClassId(6)).unwrap().unwrap().rank, 2);
    assert_eq!(info.is_function_dynamic(G), Ok(true));
    assert_eq!(info.is_function_dynamic(F), Ok(false));
    assert_eq!(code(info.code_info(G)), Some(CORPROF_E_FUNCTION_NOT_COMPILED));
    assert_eq!(code(info.function_info(FunctionId(1))), Some(E_INVALIDARG));
    assert_eq!(info.runtime_information().unwrap().version_text, "9.0.5");
}

#[test]
fn texts_and_lists_longer_than_any_buffer_come_whole() {
    let info = filled().info().unwrap();
    let module = info.module_info(ModuleId(3)).unwrap();
    assert_eq!(module.name.len(), 1 + 800 + 8);
    assert_eq!(info.in_memory_symbols(ModuleId(3)).unwrap(), vec![7; 5000]);
    let clr = filled();
    clr.model(|model| {
        for index in 0..1000 {
            model.threads.insert(ThreadId(0x1000 + index), Thread::default());
        }
    });
    let threads: Vec<ThreadId> =
        clr.info().unwrap().threads().unwrap().map(|thread| thread.unwrap()).collect();
    assert_eq!(threads.len(), 1001);
}

#[test]
fn a_thread_has_a_stack_and_the_caller_may_be_no_managed_thread() {
    let clr = filled();
    let info = clr.info().unwrap();
    assert_eq!(info.current_thread(), Ok(None));
    let mut frames = Vec::new();
    let visit = |frame: &corprof::info::StackFrame<'_>| {
        frames.push((frame.function, frame.ip));
        ControlFlow::Continue(())
    };
    info.stack_snapshot(Some(ThreadId(8)), Default::default(), None, visit).unwrap();
    assert_eq!(frames, [(Some(F), 0x1010), (None, 0)]);
    let own = info.stack_snapshot(None, Default::default(), None, |_| ControlFlow::Continue(()));
    assert_eq!(code(own), Some(CORPROF_E_NOT_MANAGED_THREAD));
    clr.model(|model| model.current_thread = Some(ThreadId(8)));
    assert_eq!(info.current_thread(), Ok(Some(ThreadId(8))));
}

#[test]
fn an_old_runtime_refuses_new_interfaces() {
    let clr = MockClr::with_newest_info(9);
    let info = clr.info().unwrap();
    assert!(matches!(
        info.suspend_runtime(),
        Err(Error::NeedsRuntime { interface: "ICorProfilerInfo10", .. })
    ));
    assert!(clr.take_calls().is_empty());
    let clr = MockClr::with_newest_info(10);
    let info = clr.info().unwrap();
    let suspended = info.suspend_runtime().unwrap();
    assert!(clr.model(|model| model.suspended));
    assert_eq!(code(info.suspend_runtime()), Some(CORPROF_E_SUSPENSION_IN_PROGRESS));
    drop(suspended);
    assert!(!clr.model(|model| model.suspended));
    assert_eq!(clr.take_calls(), ["SuspendRuntime", "SuspendRuntime", "ResumeRuntime"]);
}

#[test]
fn calls_can_be_made_to_fail_and_are_listed() {
    let clr = filled();
    let info = clr.info().unwrap();
    clr.fail("GetFunctionFromIP", E_ACCESSDENIED);
    assert_eq!(code(info.function_from_ip(0x1000)), Some(E_ACCESSDENIED));
    clr.mend("GetFunctionFromIP");
    assert_eq!(info.function_from_ip(0x1000), Ok(F));
    assert_eq!(clr.take_calls(), ["GetFunctionFromIP", "GetFunctionFromIP"]);
    info.set_event_mask(EventMask::GC).unwrap();
    assert_eq!(info.event_mask(), Ok(EventMask::GC));
}
