//! `clrscope trace` on real services under load, held against what the load generator, which is
//! this test, knows.
#![cfg(unix)]
mod common;

use common::tracing::Tracing;
use serde_json::{Value, json};
use std::time::Duration;
use testkit::{Runtime, TargetProcess};

/// Handles one request, from when it is read until its answer is written: an asynchronous method.
/// The older application does some of its work by asking a server of its own, whose answers are
/// messages, but no requests.
fn handles(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Azmcp9 => {
            "ModelContextProtocol.Core!ModelContextProtocol.McpSession.HandleRequest"
        }
        _ => "ModelContextProtocol.Core!ModelContextProtocol.McpSessionHandler.HandleMessageAsync",
    }
}

/// Something to ask for.
struct Request {
    method: &'static str,
    parameters: Value,
}

impl Request {
    /// A few milliseconds.
    fn list() -> Self {
        Self { method: "tools/list", parameters: json!({}) }
    }

    /// Tens of milliseconds of the processor's time: reads a large index from a resource, without
    /// network.
    fn schema() -> Self {
        let parameters = json!({ "resource-type": "Microsoft.Storage/storageAccounts" });
        let arguments =
            json!({ "intent": "schema", "command": "bicepschema_get", "parameters": parameters });
        Self {
            method: "tools/call",
            parameters: json!({ "name": "bicepschema", "arguments": arguments }),
        }
    }

    /// The answer, without what is another each time, and the time that it took.
    #[track_caller]
    fn ask(&self, process: &mut TargetProcess) -> (Value, Duration) {
        let (mut answer, taken) = process.ask(self.method, &self.parameters).unwrap();
        if let Some(text) = answer["content"][0]["text"].as_str() {
            let mut inner: Value = serde_json::from_str(text).unwrap();
            inner["duration"].take();
            answer["content"][0]["text"] = inner;
        }
        (answer, taken)
    }
}

/// Traces while it asks so often. Gives what was found of the one method, and the times that the
/// asker measured, in nanoseconds, sorted.
fn traced(
    runtime: Runtime,
    process: &mut TargetProcess,
    request: &Request,
    times: usize,
) -> (Value, Vec<f64>) {
    let what = runtime.to_string();
    let (expected, _) = request.ask(process);
    let tracing = Tracing::start(process, &[handles(runtime)]);
    let mut known: Vec<f64> = Vec::new();
    for _ in 0..times {
        let (answer, taken) = request.ask(process);
        assert!(answer == expected, "{what}: {answer} is not {expected}");
        known.push(taken.as_nanos() as f64);
    }
    known.sort_by(f64::total_cmp);
    // The last answer is written a moment before the method ends.
    std::thread::sleep(Duration::from_millis(300));
    let report = tracing.end();
    assert_eq!(
        (&report["reverted"], &report["dropped"]),
        (&json!(true), &json!({})),
        "{what}: {report:#}"
    );
    let [method] = report["methods"].as_array().unwrap().as_slice() else {
        panic!("{what}: {report:#}")
    };
    let counts = (&method["calls"], &method["timed"], &method["errors"]);
    assert_eq!(counts, (&json!(times), &json!(times), &json!(0)), "{what}: {method:#}");
    (method.clone(), known)
}

#[test]
fn requests_of_real_services_are_counted_and_timed_as_who_asks_knows() {
    for runtime in [Runtime::Azmcp9, Runtime::V10] {
        let what = runtime.to_string();
        let mut process = TargetProcess::azmcp(runtime);
        let (list, schema) = (Request::list(), Request::schema());
        // Until most of it is compiled.
        (0..30).for_each(|_| _ = list.ask(&mut process));
        (0..3).for_each(|_| _ = schema.ask(&mut process));

        let (method, known) = traced(runtime, &mut process, &list, 500);
        let middle = known[known.len() / 2];
        // How long one takes is of the order of what threads wait for each other at both ends, so
        // only the counts are held to it.
        println!("{what}: {} a list, and {middle} for who asked", method["p50_ns"]);

        // Here reading the request, waking threads and taking the answer is less than a hundredth
        // of the time from the question to the answer: that time is the method's.
        let (method, known) = traced(runtime, &mut process, &schema, 25);
        let of = |key: &str| method[key].as_f64().unwrap();
        let (middle, sum) = (known[known.len() / 2], known.iter().sum::<f64>());
        println!("{what}: {} a schema, and {middle} for who asked", of("p50_ns"));
        for (found, known) in
            [(of("p50_ns"), middle), (of("total_ns"), sum), (of("max_ns"), known[known.len() - 1])]
        {
            assert!(
                (found / known - 1.0).abs() <= 0.1,
                "{what}: {found} is not {known}: {method:#}"
            );
        }

        // And as before afterwards.
        let (before, _) = list.ask(&mut process);
        assert_eq!(list.ask(&mut process).0, before, "{what}");
        process.close_stdin();
        assert!(process.wait(common::LIMIT).is_ok(), "{what}: {}", process.transcript());
    }
}
