//! `clrscope launch -p transitions` on every runtime, with a program that knows how often it calls
//! native code.
#![cfg(unix)]
mod common;

use common::{Report, file, run, scratch};
use std::time::Duration;
use testkit::{Runtime, Sample, TargetProcess, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn every_call_between_managed_and_native_code_is_counted() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "transitions.clrscope");
        let launch = Sample::named("caller").launch(runtime, &["--rounds", "3000"]);
        let prefix = [
            common::binary(),
            "launch",
            "-q",
            "-p",
            "transitions",
            "-o",
            output.to_str().unwrap(),
            "--",
        ];
        let mut process = launch.under(prefix).start();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let report = Report::of(&output);
        assert_eq!(report.0["recording"]["dropped"], 0, "{runtime}: {}", report.0["observer"]);
        let rows = report.calls("transitions");
        let sum = |way: &[&str]| {
            let of = rows.iter().filter(|(path, ..)| path.iter().eq(way.iter().copied()));
            of.fold((0, 0), |sum, (_, calls, own)| (sum.0 + calls, sum.1 + own))
        };
        let known = |name: &str| truth["native"][name].as_u64().unwrap();
        let what = format!("{runtime}: {rows:#?}");
        assert_eq!(sum(&["Caller.getppid"]).0, known("getppid"), "{what}");
        assert_eq!(sum(&["Caller.qsort"]).0, known("qsort"), "{what}");
        // Native code has called back through a delegate, and was called from there.
        let compare = ["Caller.qsort", "[called from native code]", "Caller+Compare.Invoke"];
        assert_eq!(sum(&compare).0, known("compare"), "{what}");
        assert_eq!(
            sum(&[&compare[..], &["Caller.getppid"]].concat()).0,
            known("getppid_from_compare"),
            "{what}"
        );
        let (calls, own) = sum(&["Caller.usleep"]);
        assert_eq!(calls, known("usleep"), "{what}");
        let slept = known("usleep_ns");
        assert!(own >= slept && own < slept * 3, "{runtime}: {own} of {slept} ns");
        let page = run(["report", output.to_str().unwrap()]).expect(0).out;
        for part in ["Transitions", "Caller.usleep", "managed", "Caller+Compare.Invoke"] {
            assert!(page.contains(part), "{runtime}: `{part}` is missing in {page}");
        }
    }
}

#[test]
fn a_real_application_lives_and_answers() {
    let folder = scratch();
    let output = file(&folder, "azmcp.clrscope");
    let prefix = [common::binary(), "launch", "-q", "-p", "transitions,calls:filter=AzureMcp.*"];
    let prefix = [&prefix[..], &["-o", output.to_str().unwrap(), "--"]].concat();
    let mut process = TargetProcess::azmcp_launch(Runtime::V10.require()).under(prefix).start();
    process.feed(2).unwrap();
    process.close_stdin();
    assert!(process.wait(LIMIT).is_ok(), "{}", process.transcript());
    let rows = Report::of(&output).calls("transitions");
    let total: u64 = rows.iter().map(|(_, calls, _)| calls).sum();
    assert!(total > 1_000, "{total} calls");
    assert!(
        rows.iter().any(|(path, ..)| path.iter().any(|name| name.starts_with("Interop"))),
        "{rows:?}"
    );
}
