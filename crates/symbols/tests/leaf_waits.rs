//! What methods of real assemblies can wait for without a frame of their own.
#![forbid(unsafe_code)]

use metadata::Assembly;
use rootfs::Root;
use std::fs;
use std::path::Path;
use symbols::{AssemblyCode, LeafWaits};
use testkit::{Host, Runtime, Sample};

/// What methods of an assembly can wait for, one for each overload of the name.
fn waits(assembly: &Path, names: &[&str]) -> Vec<LeafWaits> {
    let bytes = fs::read(assembly).unwrap();
    let parsed = Assembly::parse(&bytes).unwrap();
    let mvid = parsed.metadata().module_version_id().unwrap();
    let code = AssemblyCode::read(&Root::own().unwrap(), assembly, mvid).unwrap();
    let found = parsed.methods().filter(|method| names.contains(&method.full_name().as_str()));
    let found: Vec<LeafWaits> =
        found.map(|method| code.leaf_waits(method.token().0, None).unwrap()).collect();
    assert!(!found.is_empty(), "{names:?} in {}", assembly.display());
    found
}

#[test]
fn locks_signals_and_native_calls_of_a_program_are_told_apart() {
    let assembly = Sample::named("states").compile(Runtime::V9).unwrap();
    let of = |name: &str| waits(&assembly, &[name]);
    let nothing = LeafWaits::default();
    assert_eq!(of("Clrscope.Samples.States::WaitForLock"), [LeafWaits { lock: true, ..nothing }]);
    assert_eq!(
        of("Clrscope.Samples.States::WaitForPulse"),
        [LeafWaits { lock: true, signal: true, sleep: true, ..nothing }]
    );
    assert_eq!(of("Clrscope.Samples.States::Deep"), [nothing]);
    assert_eq!(of("Clrscope.Samples.States::WaitForEvent"), [LeafWaits { sleep: true, ..nothing }]);
    let native = LeafWaits { native: true, ..nothing };
    assert_eq!(of("Clrscope.Samples.Kernel::Call"), [native]);
    assert_eq!(of("Clrscope.Samples.Kernel::ThreadId"), [native]);
}

#[test]
fn locks_of_the_base_library_are_found_on_every_runtime() {
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let Host::Muxer { framework, .. } = runtime.require().host() else {
            panic!("{runtime} is multi-file")
        };
        let concurrent = framework.join("System.Collections.Concurrent.dll");
        let take = "System.Collections.Concurrent.ConcurrentDictionary`2::TryAddInternal";
        let core = framework.join("System.Private.CoreLib.dll");
        // It moved from the one to the other.
        let adding = match runtime {
            Runtime::V3_1 => waits(&concurrent, &[take]),
            _ => [concurrent, core.clone()].iter().flat_map(|file| find(file, take)).collect(),
        };
        assert!(
            !adding.is_empty() && adding.iter().all(|waits| waits.lock && !waits.native),
            "{runtime}: {adding:?}"
        );
        // Methods of the base library call `Monitor` as one of their own assembly.
        let slim = waits(&core, &["System.Threading.SemaphoreSlim::Release"]);
        assert!(slim.iter().any(|waits| waits.lock && !waits.signal), "{runtime}: {slim:?}");
        let join = waits(&core, &["System.String::Concat"]);
        assert!(join.iter().all(|waits| *waits == LeafWaits::default()), "{runtime}: {join:?}");
    }
}

fn find(assembly: &Path, name: &str) -> Vec<LeafWaits> {
    let bytes = fs::read(assembly).unwrap();
    let parsed = Assembly::parse(&bytes).unwrap();
    match parsed.methods().any(|method| method.full_name() == name) {
        true => waits(assembly, &[name]),
        false => Vec::new(),
    }
}

#[test]
fn an_assembly_of_another_build_says_nothing() {
    let assembly = Sample::named("states").compile(Runtime::V9).unwrap();
    assert!(AssemblyCode::read(&Root::own().unwrap(), &assembly, [7; 16]).is_none());
    assert!(
        AssemblyCode::read(&Root::own().unwrap(), Path::new("/no/such.dll"), [7; 16]).is_none()
    );
    let bytes = fs::read(&assembly).unwrap();
    let mvid = Assembly::parse(&bytes).unwrap().metadata().module_version_id().unwrap();
    let code = AssemblyCode::read(&Root::own().unwrap(), &assembly, mvid).unwrap();
    for token in [0, 0x0600_0000, 0x06ff_ffff, 0x0200_0001, u32::MAX] {
        assert_eq!(code.leaf_waits(token, None), None, "{token:#x}");
    }
}
