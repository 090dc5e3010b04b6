//! `clrscope async` on every runtime, with a program that knows what waits in it.
#![cfg(unix)]
mod common;

use common::{file, run, scratch};
use serde_json::Value;
use std::time::Duration;
use testkit::{Runtime, Sample, TargetProcess, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);

/// The method that burns, and who awaits it.
const HOT: [&str; 3] = [
    "Clrscope.Samples.Asyncer.Burn",
    "Clrscope.Samples.Asyncer.Step",
    "Clrscope.Samples.Asyncer.Handle",
];

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Methods of a stack, from the one that waits.
fn methods(stack: &Value) -> Vec<&str> {
    stack["frames"]
        .as_array()
        .unwrap()
        .iter()
        .map(|frame| frame["method"].as_str().unwrap())
        .collect()
}

#[test]
fn stacks_states_and_lines_are_those_that_the_program_knows() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let session = file(&folder, "async.clrscope");
        let arguments = ["--orders", "200", "--burners", "1"];
        let mut process =
            Sample::named("asyncer").launch(runtime, &arguments).private_tmp().start();
        process.wait_for_ready();
        let pid = process.pid().to_string();
        let report = run([
            "async",
            &pid,
            "-d",
            "2s",
            "--json",
            "--top",
            "100",
            "-o",
            session.to_str().unwrap(),
        ])
        .expect(0)
        .json();
        process.send_line("over").unwrap();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());

        assert_eq!(
            (&report["schema"], &report["complete"]),
            (&1.into(), &true.into()),
            "{runtime}"
        );
        assert_eq!(report["snapshots"].as_array().unwrap().len(), 2, "{runtime}");
        assert!(report["snapshots"][1]["pause_seconds"].as_f64().unwrap() > 0.0, "{runtime}");
        // The three that burn, and few of the framework's own.
        let (pending, known) = (number(&report["pending"]), number(&truth["pending"]) + 3);
        assert!((known..known + 5).contains(&pending), "{runtime}: {pending} of {known}");
        let stacks = report["stacks"].as_array().unwrap();
        for known in truth["stacks"].as_array().unwrap() {
            let found =
                stacks.iter().filter(|stack| methods(stack) == methods(known)).collect::<Vec<_>>();
            let [found] = found[..] else { panic!("{runtime}: {known} in {stacks:#?}") };
            assert_eq!(found["count"], known["count"], "{runtime}: {found}");
            assert_eq!(found["cause"], known["cause"], "{runtime}: {found}");
            assert_eq!(found["since_first_snapshot"], known["count"], "{runtime}: {found}");
            for (frame, truth) in
                found["frames"].as_array().unwrap().iter().zip(known["frames"].as_array().unwrap())
            {
                assert_eq!(frame["line"], truth["line"], "{runtime}: {frame}");
                let is_method = frame["kind"] == "method";
                assert_eq!(
                    frame["state"].as_i64().is_some_and(|state| state >= 0),
                    is_method,
                    "{runtime}: {frame}"
                );
            }
        }
        // A loop that awaits a new delay each time does not wait since the first snapshot.
        let looping: Vec<&Value> = stacks
            .iter()
            .filter(|stack| methods(stack) == ["Clrscope.Samples.Asyncer.Loop"])
            .collect();
        assert!(!looping.is_empty(), "{runtime}: {stacks:#?}");
        for stack in looping {
            assert!(
                matches!(stack["since_first_snapshot"].as_u64(), None | Some(0)),
                "{runtime}: {stack}"
            );
        }
        // An order waits at its second await, a question at its first.
        let order = stacks.iter().find(|stack| number(&stack["count"]) == 200).unwrap();
        let states: Vec<i64> =
            (0..2).map(|at| order["frames"][at]["state"].as_i64().unwrap()).collect();
        assert_eq!(states[1], states[0] + 1, "{runtime}: {order}");

        // What burns is shown below those that await it, though they are on no thread.
        let hot = &report["hot"];
        let hottest = &hot["paths"][0];
        assert_eq!(hottest["frames"], serde_json::json!(HOT), "{runtime}: {hot:#}");
        assert_eq!(
            (&hottest["estimated"], &hottest["open"]),
            (&true.into(), &false.into()),
            "{runtime}"
        );
        assert!(hottest["cpu_share"].as_f64().unwrap() > 0.6, "{runtime}: {hottest}");
        assert!(hottest["wall_seconds"].as_f64().unwrap() > 0.5, "{runtime}: {hottest}");

        // The session says the same, and the page shows it.
        let page = run(["async", session.to_str().unwrap()]).expect(0).out;
        let line = number(&order["frames"][0]["line"]);
        for part in [
            "200 Clrscope.Samples.Asyncer.Order",
            &format!("Asyncer.cs:{line}"),
            "awaits a TaskCompletionSource that nobody has completed; for ",
            "Task.WhenAll",
            "Async hot paths",
            "awaited by Clrscope.Samples.Asyncer.Handle",
        ] {
            assert!(page.contains(part), "{runtime}: `{part}` is missing in {page}");
        }
        // The snapshots are two seconds apart, as exactly as a busy machine allows.
        assert!(
            ["completed; for 1.9", "completed; for 2."].iter().any(|part| page.contains(part)),
            "{runtime}: {page}"
        );
        common::report_shows(&session, "async");
    }
}

#[test]
fn what_began_between_the_looks_is_not_said_to_have_waited_all_the_time() {
    let folder = scratch();
    let session = file(&folder, "async.clrscope");
    let mut process =
        Sample::named("asyncer").launch(Runtime::V9, &["--orders", "30"]).private_tmp().start();
    process.wait_for_ready();
    let pid = process.pid().to_string();
    let recorded =
        ["record", &pid, "-p", "async:snapshots=2:every=2", "-o", session.to_str().unwrap()];
    let mut recording = common::Running::start(common::clrscope(recorded));
    std::thread::sleep(Duration::from_secs(1));
    assert!(!recording.has_ended(), "there were no two looks");
    process.send_line("more 70").unwrap();
    process.wait_for_line(LIMIT, |line| line == "begun").unwrap();
    // A recording for snapshots ends with the last one.
    recording.wait().expect(0);
    let report = run(["async", session.to_str().unwrap(), "--json"]).expect(0).json();
    let order =
        report["stacks"].as_array().unwrap().iter().find(|stack| number(&stack["count"]) == 100);
    let order = order.unwrap_or_else(|| panic!("{report:#}"));
    assert!(methods(order)[1].ends_with(".Order"), "{order}");
    assert_eq!(number(&order["since_first_snapshot"]), 30, "{order}");
    assert!(report["hot"].is_null(), "{report}");
    // What is no session is refused.
    let dump = file(&folder, "look.gcdump");
    run(["heap", session.to_str().unwrap(), "--gcdump", dump.to_str().unwrap()]).expect(0);
    run(["async", dump.to_str().unwrap()]).expect_error(8, &["name a session file"]);
    run(["async", "--duration", "1500ms", &pid]).expect_error(2, &["whole seconds"]);
}

#[test]
fn methods_of_a_real_application_are_found_with_their_states() {
    for runtime in [Runtime::Azmcp9, Runtime::V10] {
        let mut process = TargetProcess::azmcp_launch(runtime).private_tmp().start();
        process.feed(1).unwrap();
        let pid = process.pid().to_string();
        let report = run(["async", &pid, "-d", "1s", "--json", "--top", "1000"]).expect(0).json();
        assert!(number(&report["pending"]) >= 3, "{runtime}: {report:#}");
        assert_eq!(
            (&report["states"], &report["complete"]),
            (&true.into(), &true.into()),
            "{runtime}: {report:#}"
        );
        let stacks = report["stacks"].as_array().unwrap();
        // The host runs until it is stopped: a chain that ends in Main.
        let main =
            stacks.iter().filter(|stack| methods(stack).iter().any(|name| name.ends_with(".Main")));
        assert!(main.clone().any(|stack| methods(stack).len() >= 3), "{runtime}: {stacks:#?}");
        let frames = stacks.iter().flat_map(|stack| stack["frames"].as_array().unwrap());
        let (mut all, mut stated) = (0, 0);
        for frame in frames.filter(|frame| frame["kind"] == "method") {
            all += 1;
            stated += u32::from(frame["state"].is_i64());
        }
        assert!(stated * 10 >= all * 9, "{runtime}: the states of {stated} of {all} are known");
        process.kill();
    }
}
