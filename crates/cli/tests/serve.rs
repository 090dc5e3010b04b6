//! `clrscope serve` on real processes.
#![cfg(unix)]
mod common;

use common::{
    LIMIT, Report, agent_is_mapped, assert_schema, clrscope, file, run, scratch, serving::Serving,
    wait_until_clean, wait_until_left,
};
use heap::{MemoryBudget, Root, RootKind, SnapshotBuilder, SnapshotEnd};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
    time::{Duration, Instant},
};
use testkit::{Client, Runtime, Sample, TargetProcess, source_root};

/// What scripts send.
const TOKEN: &str = "5f2c1d9ab07e48c6935f2c1d9ab07e48c693";

fn burn() -> TargetProcess {
    let launch = Sample::named("burn").launch(Runtime::V9.require(), &["--seconds", "600"]);
    let mut process = launch.private_tmp().start();
    process.wait_for_ready();
    process
}

#[test]
fn a_process_is_found_recorded_watched_and_reported() {
    let folder = scratch();
    let sessions = file(&folder, "sessions");
    let mut process = burn();
    let pid = process.pid();
    let token = file(&folder, "token");
    std::fs::write(&token, TOKEN).unwrap();
    std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let serving = Serving::start_with(&sessions, &["--token-file", token.to_str().unwrap()]);
    let processes = serving.get("processes").expect(200).json();
    assert_schema("ps", &processes);
    let found = processes.as_array().unwrap().iter().find(|found| found["pid"] == pid).unwrap();
    assert_eq!((&found["name"], &found["attachable"]), (&"burn".into(), &true.into()));
    assert_schema("profilers", &serving.get("profilers").expect(200).json());

    let request = format!(r#"{{"pid":{pid},"profilers":"cpu,gc","duration_seconds":4}}"#);
    let id = serving.record(&request);
    let again = serving.ask("POST", "recordings", &request).expect_problem(409, &id);
    assert!(again.json()["next"].as_str().unwrap().contains("DELETE"));
    serving.ask("DELETE", &format!("sessions/{id}"), "").expect_problem(409, "being written");
    // Its samples can be explored while it runs.
    let (calls, until) = (format!("sessions/{id}/children?nodes=stable"), Instant::now() + LIMIT);
    let mut answer = serving.get(&calls);
    while answer.status == 422 || answer.status == 200 && answer.json()["count"] == 0 {
        assert!(Instant::now() < until, "no samples");
        std::thread::sleep(Duration::from_millis(50));
        answer = serving.get(&calls);
    }
    assert!(answer.expect(200).json()["rows"][0]["node"].is_u64());
    let events = serving.events(&id);
    for (name, schema) in [("progress", "Progress"), ("figures", "Figures"), ("end", "Recording")] {
        let schema = serving.schema(schema);
        let mut data =
            events.iter().filter(|(own, _)| own == name).map(|(_, data)| data).peekable();
        assert!(data.peek().is_some(), "there is no {name} in {events:?}");
        data.for_each(|data| schema.check(data).unwrap());
    }
    let (name, end) = events.last().unwrap();
    let summary = &end["summary"];
    assert_eq!(
        (name.as_str(), &end["ended"], &end["failure"]),
        ("end", &true.into(), &Value::Null)
    );
    assert_schema("record", summary);
    assert!(summary["sessions"][0]["samples"]["cpu"].as_u64().unwrap() > 50, "{summary}");
    assert!(summary["sessions"][0]["file"].is_null(), "{summary}");
    let busy = |figures: &Value| figures["cpu"].as_f64().unwrap() > 0.0;
    assert!(events.iter().any(|(name, data)| name == "figures" && busy(data)), "{events:?}");

    let session = serving.get(&format!("sessions/{id}")).expect(200).json();
    serving.schema("SessionDetail").check(&session).unwrap();
    assert_eq!((&session["complete"], &session["end"]), (&true.into(), &"stopped".into()));
    assert_eq!(session["target"]["process"], "burn");
    let document = serving.get(&format!("sessions/{id}/document")).expect(200);
    serving.schema("Document").check(&document.json()).unwrap();
    assert!(document.text().contains("Burn"), "{}", document.text());
    let kept = sessions.join(format!("{id}.clrscope"));
    let report = serving.get(&format!("sessions/{id}/report?format=json")).expect(200).json();
    assert_eq!(report, Report::of(&kept).0);
    let page = serving.get(&format!("sessions/{id}/report?format=html")).expect(200).text();
    assert!(page.starts_with("<!doctype html>") && page.contains("Burn"));
    serving.ask("DELETE", &format!("sessions/{id}"), "").expect(204);
    assert!(!kept.exists());
    examples_work(&serving, &folder, pid);
    assert!(process.is_running(), "{}", process.transcript());
}

/// Each example of docs/api.md does what it says, in an order in which what it is about is there.
#[track_caller]
fn examples_work(serving: &Serving, folder: &tempfile::TempDir, pid: u32) {
    let page = std::fs::read_to_string(source_root().join("docs/api.md")).unwrap();
    let line = |begin: &str| page.lines().find(|line| line.starts_with(begin)).unwrap();
    let (json, function) = (line("JSON="), line("api()"));
    // The output is that of a program which the server starts, and growth takes several snapshots:
    // these have tests of their own.
    let has_own = |line: &str| line.contains("/output\"") || line.contains("/growth?");
    let is_example = |line: &&str| line.starts_with("api ") && !has_own(line);
    let mut examples: Vec<&str> = page.lines().filter(is_example).collect();
    assert!(examples.len() > 20, "{examples:?}");
    let rank = |example: &str| {
        let first = ["-d", "-X DELETE"].map(|kind| (kind, "/recordings"));
        let parts =
            first.into_iter().chain([("-d", "/checkups"), ("-d", "/traces"), ("-o", "/file")]);
        let last = [("--data-binary", ""), ("", ""), ("-X DELETE", "/sessions")];
        let is_it =
            |(kind, path): &(&str, &str)| example.contains(*kind) && example.contains(*path);
        let deletes = is_it(&last[2]);
        let at = parts.chain(last).position(|part| is_it(&part)).unwrap();
        if deletes { usize::MAX } else { at }
    };
    examples.sort_by_key(|example| rank(example));
    let server = format!("http://{}/api/v1", serving.client.address);
    let before = format!("SERVER={server} TOKEN={TOKEN} PID={pid}\n{json}\n{function}\n");
    for example in examples {
        // What was begun before has an end.
        let until = Instant::now() + LIMIT;
        let is_over = || {
            let all = serving.get("recordings").json();
            all.as_array().unwrap().iter().all(|one| one["ended"] == true)
        };
        while !example.contains("-X DELETE") && !is_over() {
            assert!(Instant::now() < until, "a recording does not end before {example}");
            std::thread::sleep(Duration::from_millis(100));
        }
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("{before}{example}")]).current_dir(folder.path());
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{example}: {output:?}");
        if example.contains("/recordings\"") && example.contains("-d") {
            std::thread::sleep(Duration::from_secs(2));
        }
    }
}

#[test]
fn two_may_stop_a_recording_and_a_signal_ends_the_rest_in_order() {
    let folder = scratch();
    let (process, other) = (burn(), burn());
    let serving = Serving::start(folder.path());
    let id = serving.record(&format!(r#"{{"pid":{},"profilers":"cpu"}}"#, process.pid()));
    std::thread::scope(|scope| {
        let stop = || serving.ask("DELETE", &format!("recordings/{id}"), "").expect(200).json();
        let both = [scope.spawn(stop), scope.spawn(stop)].map(|thread| thread.join().unwrap());
        assert!(both.iter().all(|recording| recording["ended"] == true), "{both:?}");
        assert_eq!(both[0]["summary"], both[1]["summary"]);
    });
    let left = serving.record(&format!(r#"{{"pid":{},"profilers":"cpu"}}"#, other.pid()));
    let list = serving.get("recordings").expect(200).json();
    let ended: Vec<_> = list.as_array().unwrap().iter().map(|one| one["ended"].clone()).collect();
    assert_eq!(ended, [Value::from(false), Value::from(true)]);
    serving.signal(Signal::TERM);
    let (code, out, err) = serving.wait();
    assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
    if rustix::process::geteuid().is_root() {
        assert!(err.contains("runs as root") && err.contains("sudo -u"), "{err}");
    }
    for id in [id, left] {
        let report = Report::of(&file(&folder, &format!("{id}.clrscope")));
        assert_eq!(report.0["recording"]["end"]["reason"], "stopped", "{}", report.0["recording"]);
    }
}

/// Waits until something holds, at most as long as a command may take.
#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_a_killed_server_recorded_is_kept_and_the_process_can_be_recorded_again() {
    let folder = scratch();
    let mut process = burn();
    let pid = process.pid();
    let serving = Serving::start(folder.path());
    let id = serving.record(&format!(r#"{{"pid":{pid},"profilers":"cpu,gc"}}"#));
    let shows_method = |serving: &Serving| {
        let document = serving.get(&format!("sessions/{id}/document"));
        document.status == 200 && document.text().contains("Burn.Slow")
    };
    wait_until("the session has no method", || shows_method(&serving));
    serving.signal(Signal::KILL);
    let (code, ..) = serving.wait();
    assert_eq!(code, None);

    let serving = Serving::start(folder.path());
    assert_eq!(serving.get("recordings").expect(200).json(), json!([]));
    let list = serving.get("sessions").expect(200).json();
    let [row] = &list.as_array().unwrap()[..] else { panic!("{list}") };
    assert_eq!((&row["id"], &row["recording"]), (&json!(id), &json!(false)), "{row}");
    assert_eq!((&row["target"]["pid"], &row["problem"]), (&json!(pid), &Value::Null), "{row}");
    let detail = serving.get(&format!("sessions/{id}")).expect(200).json();
    serving.schema("SessionDetail").check(&detail).unwrap();
    assert_eq!((&detail["complete"], &detail["end"]), (&json!(false), &Value::Null), "{detail}");
    // What could be read before can still be read.
    assert!(shows_method(&serving));
    // The agent unloads by itself, and the process can be recorded again.
    wait_until_left(pid);
    wait_until_clean(process.tmp().unwrap());
    let again = format!(r#"{{"pid":{pid},"profilers":"cpu,gc","duration_seconds":3}}"#);
    let again = serving.record(&again);
    let (_, end) = serving.events(&again).pop().unwrap();
    assert_eq!((&end["ended"], &end["failure"]), (&json!(true), &Value::Null), "{end}");
    let detail = serving.get(&format!("sessions/{again}")).expect(200).json();
    assert_eq!(detail["complete"], true, "{detail}");
    let document = serving.get(&format!("sessions/{again}/document")).expect(200).text();
    assert!(document.contains("Burn.Slow"), "{document}");
    serving.ask("DELETE", &format!("sessions/{id}"), "").expect(204);
    assert!(process.is_running(), "{}", process.transcript());
}

/// A cart that holds a string, as `dotnet-gcdump` writes it.
fn heap_dump() -> Vec<u8> {
    let mut builder = SnapshotBuilder::new(MemoryBudget::default());
    for (class, name) in [(1, "Shop.Cart"), (2, "System.String")] {
        builder.class(class, name, "Shop.dll");
    }
    builder.object(0x1000, 1, 32);
    builder.reference(0x1020);
    builder.object(0x1020, 2, 40);
    let (target, kind, pinned, weak, interior) = (0x1000, RootKind::Statics, false, false, false);
    builder.root(Root { target, kind, pinned, weak, interior, id: 9 });
    builder.root_name(9, "Shop.Cart.all");
    let end = SnapshotEnd { complete: true, process: "shop".into(), ..SnapshotEnd::default() };
    let mut out = Vec::new();
    heap::gcdump::write(&builder.finish(end), &mut out).unwrap();
    out
}

#[test]
fn an_uploaded_heap_dump_is_explored() {
    let folder = scratch();
    let serving = Serving::start(folder.path());
    serving.upload("dump", &heap_dump()).expect(201);
    let document = serving.get("sessions/dump/document").expect(200);
    serving.schema("Document").check(&document.json()).unwrap();
    assert!(document.text().contains("Shop.Cart"), "{}", document.text());
    let heap = serving.get("sessions/dump/heap").expect(200).json();
    serving.schema("HeapDescription").check(&heap).unwrap();
    let types = serving.get("sessions/dump/heap/types?search=cart").expect(200).json();
    serving.schema("HeapTypes").check(&types).unwrap();
    let row = &types["rows"][0];
    assert_eq!((&row["name"], &row["objects"]), (&json!("Shop.Cart"), &json!(1)), "{types}");
    let paths = serving.get(&format!("sessions/dump/heap/paths?type={}", row["id"])).expect(200);
    assert!(paths.text().contains("Shop.Cart.all"), "{}", paths.text());
    let dominated = serving.get("sessions/dump/heap/dominated").expect(200);
    serving.schema("HeapChildren").check(&dominated.json()).unwrap();
    assert!(serving.get("sessions/dump/heap/treemap").expect(200).body.starts_with(b"CLRC"));
}

/// What is compressed in a gzip file, several times in a row: such a file is one, too.
fn packed(begin: &[u8], part: &[u8], times: usize) -> Vec<u8> {
    let member = |bytes: &[u8]| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    };
    [member(begin), member(part).repeat(times)].concat()
}

/// The most memory that a process has had, in bytes.
#[cfg(target_os = "linux")]
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

#[cfg(target_os = "linux")]
#[test]
fn files_that_are_far_larger_unpacked_are_refused_within_little_memory() {
    const PART: usize = 8 << 20;
    let folder = scratch();
    let serving = Serving::start(folder.path());
    let before = peak_memory(serving.child.id());
    let of = |letter: u8| vec![letter; PART];
    for (what, file, part) in [
        ("collapsed stacks in one line", packed(b"main;a", &of(b'a'), 1000), "in one line"),
        ("JSON of spaces", packed(b"{", &of(b' '), 100), "536870912 bytes after decompression"),
        ("zeros", packed(b"", &of(0), 1000), "no field at byte 0"),
        ("a message of pprof", packed(b"\x0a\xff\xff\xff\x7f", &of(8), 1000), "one message"),
        ("gzip in gzip", packed(b"", &packed(b"", &of(0), 1000), 100), "no field"),
        // No format that is read is packed in this way, so nothing is unpacked.
        ("zip", [&b"PK\x03\x04"[..], &[0; 1000]].concat(), "not a clrscope session"),
    ] {
        assert!(file.len() < 20 << 20, "{what}: {} bytes are sent", file.len());
        let begun = Instant::now();
        serving.upload("bomb", &file).expect_problem(422, part);
        println!("{what}: {} bytes, refused after {:?}", file.len(), begun.elapsed());
    }
    let more = peak_memory(serving.child.id()) - before;
    println!("{more} bytes of memory");
    assert!(more < 100 << 20, "{more} bytes of memory");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a file is left");
    assert_eq!(serving.get("sessions").expect(200).json(), json!([]));
}

#[test]
fn a_process_that_ends_ends_its_recording() {
    let folder = scratch();
    let mut process = burn();
    let serving = Serving::start(folder.path());
    let id = serving.record(&format!(r#"{{"pid":{},"profilers":"cpu"}}"#, process.pid()));
    process.kill();
    let events = serving.events(&id);
    let end = &events.last().unwrap().1;
    assert_eq!(end["summary"]["sessions"][0]["end"], "process-exited", "{end}");
    serving.get(&format!("sessions/{id}")).expect(200);
    let again = format!(r#"{{"pid":{}}}"#, process.pid());
    serving.ask("POST", "recordings", &again).expect_problem(404, "no process");
}

#[test]
fn a_check_up_says_what_is_wrong() {
    let folder = scratch();
    let mut thrower = Sample::named("thrower")
        .launch(Runtime::V9.require(), &["--seconds", "60", "--rate", "200", "--only", "plain"])
        .private_tmp()
        .start();
    thrower.wait_for_ready();
    let serving = Serving::start(folder.path());
    let request = format!(r#"{{"pid":{},"duration_seconds":3}}"#, thrower.pid());
    let begun = serving.ask("POST", "checkups", &request).expect(201).json();
    serving.schema("Recording").check(&begun).unwrap();
    let id = begun["id"].as_str().unwrap();
    let events = serving.events(id);
    let stages: Vec<_> = events.iter().map(|(_, data)| data["stage"].to_string()).collect();
    assert!(stages.iter().any(|stage| stage.contains("heap snapshot")), "{stages:?}");
    let end = &events.last().unwrap().1;
    serving.schema("Recording").check(end).unwrap();
    assert_eq!((&end["is_checkup"], &end["failure"]), (&true.into(), &Value::Null), "{end}");
    assert_schema("checkup", &end["checkup"]);
    let findings = end["checkup"]["findings"].as_array().unwrap();
    let storm = findings.iter().find(|finding| finding["id"] == "exception-storm");
    assert!(storm.is_some_and(|storm| storm["culprit"].is_string()), "{findings:#?}");
    let session = serving.get(&format!("sessions/{id}")).expect(200).json();
    assert_eq!(session["complete"], true, "{session}");
    // The next one is stopped while it runs; what was observed before counts.
    let request = format!(r#"{{"pid":{},"duration_seconds":600,"heap":false}}"#, thrower.pid());
    let begun = serving.ask("POST", "checkups", &request).expect(201).json();
    std::thread::sleep(Duration::from_secs(3));
    let id = begun["id"].as_str().unwrap();
    let stopped = serving.ask("DELETE", &format!("recordings/{id}"), "").expect(200).json();
    assert_eq!(stopped["ended"], true, "{stopped}");
}

#[test]
fn assistants_get_the_verdicts_of_the_server() {
    let folder = scratch();
    let mut thrower = Sample::named("thrower")
        .launch(Runtime::V9.require(), &["--seconds", "120", "--rate", "200", "--only", "plain"])
        .private_tmp()
        .start();
    thrower.wait_for_ready();
    let pid = thrower.pid();
    let serving = Serving::start(folder.path());
    // Nobody is let in by another way than to all else.
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let kind = ("Content-Type", "application/json");
    let accept = ("Accept", "application/json, text/event-stream");
    let send = |headers: &[(&str, &str)]| {
        serving.client.send("POST", "/mcp", &[&[kind, accept], headers].concat(), hello.as_bytes())
    };
    send(&[]).expect_problem(401, "token");
    send(&[("Cookie", &serving.cookie), ("Origin", "http://evil.example")])
        .expect_problem(403, "origin");
    send(&[("Cookie", &serving.cookie), ("Host", "evil.example")]).expect_problem(403, "name");
    let large = vec![b' '; 100 << 10];
    let headers = [kind, accept, ("Cookie", &serving.cookie)];
    serving.client.send("POST", "/mcp", &headers, &large).expect(413);

    let hello = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let greeting = serving.assistant("initialize", hello);
    assert_eq!(greeting["serverInfo"]["name"], "clrscope", "{greeting}");
    let tools = serving.assistant("tools/list", json!({}));
    assert!((8..=10).contains(&tools["tools"].as_array().unwrap().len()), "{tools}");
    serving.tool("record", json!({"pid": pid})).bad("--mcp-allow-record");
    let said = serving.tool("checkup", json!({"pid": pid, "seconds": 4})).good();
    let session = said.session();
    let recording = serving.get(&format!("recordings/{session}")).expect(200).json();
    assert_schema("checkup", &recording["checkup"]);
    let own = recording["checkup"]["findings"].as_array().unwrap();
    assert!(own.iter().any(|finding| finding["id"] == "exception-storm"), "{recording}");
    let facts = said.facts["findings"].as_array().unwrap();
    assert_eq!(own.len(), facts.len(), "{said:?}");
    for (own, fact) in own.iter().zip(facts) {
        for name in ["id", "severity", "confidence", "culprit"] {
            assert_eq!(own[name], fact[name], "{own}\n{fact}");
        }
    }
    // A client that goes away cancels its call.
    let call = json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "checkup", "arguments": {"pid": pid, "seconds": 60, "heap": false}},
    });
    let body = call.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        serving.client.address,
        serving.cookie,
        body.len(),
    );
    let mut stream = serving.client.connect();
    stream.write_all(head.as_bytes()).unwrap();
    let until = Instant::now() + LIMIT;
    while !agent_is_mapped(pid) {
        assert!(Instant::now() < until, "the checkup does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(stream);
    wait_until_left(pid);
}

#[test]
fn methods_are_traced_and_reverted() {
    let folder = scratch();
    let mut process = Sample::named("traced").start(Runtime::V9.require(), &[] as &[&str]);
    process.wait_for_ready();
    process.send_line("spin").unwrap();
    let serving = Serving::start(folder.path());
    let request = format!(
        r#"{{"pid":{},"patterns":["traced!*.Traced.Plain"],"calls":1000000000,"one_in":10}}"#,
        process.pid()
    );
    let begun = serving.ask("POST", "traces", &request).expect(201).json();
    serving.schema("Recording").check(&begun).unwrap();
    let id = begun["id"].as_str().unwrap();
    std::thread::sleep(Duration::from_secs(4));
    let ended = serving.ask("DELETE", &format!("recordings/{id}"), "").expect(200).json();
    assert_eq!((&ended["ended"], &ended["failure"]), (&true.into(), &Value::Null), "{ended}");
    let report = serving.get(&format!("sessions/{id}/report?format=json")).expect(200).json();
    let [method] = &report["traced"]["methods"].as_array().unwrap()[..] else {
        panic!("{}", report["traced"])
    };
    let (calls, timed) = (method["calls"].as_u64().unwrap(), method["timed"].as_u64().unwrap());
    assert!(timed > 0 && calls > 5 * timed, "{method}");
    // It runs its own code again, and says whether anything went wrong.
    process.send_line("still").unwrap();
    assert_eq!(process.truth(LIMIT)["wrong"], 0);
    let nothing = format!(r#"{{"pid":{},"patterns":["a.{{b"]}}"#, process.pid());
    serving.ask("POST", "traces", &nothing).expect_problem(400, "a.{b");
}

#[test]
fn a_program_is_started_recorded_and_ended() {
    let folder = scratch();
    let serving = Serving::start_with(&file(&folder, "sessions"), &["--allow-launch"]);
    assert_eq!(serving.get("launch").expect(200).json()["allowed"], true);
    let launch = Sample::named("burn").launch(Runtime::V9.require(), &["--seconds", "600"]);
    let command = launch.command();
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_str().unwrap())
        .collect();
    let mut variables: std::collections::BTreeMap<_, _> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_str().unwrap(), value?.to_str().unwrap())))
        .collect();
    // The collector then has threads of its own, whose time can be seen from outside.
    variables.insert("DOTNET_gcServer", "1");
    let request = json!({
        "profilers": "cpu,gc",
        "launch": {"command": words, "folder": folder.path(), "environment": variables},
    });
    let id = serving.record(&request.to_string());
    // It runs, prints, and is recorded.
    let until = Instant::now() + LIMIT;
    let printed = loop {
        let output = serving.get(&format!("recordings/{id}/output")).expect(200).json();
        let recording = serving.get(&format!("recordings/{id}")).expect(200).json();
        let samples = recording["progress"]["samples"]["cpu"].as_u64().unwrap_or(0);
        assert!(recording["failure"].is_null(), "{recording}");
        if output["text"].as_str().unwrap().contains("ready") && samples > 50 {
            break output;
        }
        assert!(Instant::now() < until, "{recording} {output}");
        std::thread::sleep(Duration::from_millis(50));
    };
    serving.schema("ProgramOutput").check(&printed).unwrap();
    let recording = serving.get(&format!("recordings/{id}")).expect(200).json();
    assert_eq!(recording["process"], "burn");
    assert!(recording["command"].as_str().unwrap().contains("burn.dll"), "{recording}");
    let pid = recording["pid"].as_u64().unwrap() as i32;
    let processes = serving.get("processes").expect(200).json();
    let found = processes.as_array().unwrap().iter().find(|found| found["pid"] == pid).unwrap();
    assert!(found["gc_cpu_seconds"].is_number(), "{found}");
    let lives = || rustix::process::test_kill_process(Pid::from_raw(pid).unwrap()).is_ok();
    assert!(lives());
    // It ends with its recording.
    let ended = serving.ask("DELETE", &format!("recordings/{id}"), "").expect(200).json();
    assert!(ended["failure"].is_null() && !lives(), "{ended}");
    let document = serving.get(&format!("sessions/{id}/document")).expect(200).text();
    assert!(document.contains("Burn") && document.contains("launched"), "{document}");

    // So it does when the server ends.
    let id = serving.record(&request.to_string());
    let pid = serving.get(&format!("recordings/{id}")).expect(200).json()["pid"].as_u64().unwrap();
    let missing = r#"{"launch":{"command":"/no/such/program"}}"#;
    serving.ask("POST", "recordings", missing).expect_problem(422, "/no/such/program");
    serving.signal(Signal::TERM);
    let (code, _, err) = serving.wait();
    assert_eq!(code, Some(0), "{err}");
    let group = Pid::from_raw(pid as i32).unwrap();
    assert!(rustix::process::test_kill_process_group(group).is_err());
}

#[test]
fn ui_opens_the_browser_with_a_token_of_its_own() {
    use std::os::unix::fs::PermissionsExt;
    let folder = scratch();
    let (browser, opened) = (file(&folder, "browser"), file(&folder, "opened"));
    // It is renamed so that all of it is there once it is there.
    let script =
        format!("#!/bin/sh\necho \"$1\" > {0}.part && mv {0}.part {0}\nexit 3\n", opened.display());
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, PermissionsExt::from_mode(0o755)).unwrap();
    let sessions = file(&folder, "sessions");
    let mut command = clrscope(["ui", "--sessions", sessions.to_str().unwrap()]);
    command.env("BROWSER", &browser).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut printed = String::new();
    out.read_line(&mut printed).unwrap();
    let until = Instant::now() + LIMIT;
    while !opened.exists() {
        assert!(Instant::now() < until, "no browser was started");
        std::thread::sleep(Duration::from_millis(10));
    }
    let given = std::fs::read_to_string(&opened).unwrap();
    assert_ne!(given, printed);
    let client = Client::of(&printed);
    let path =
        |url: &str| url.trim_end().split_once(&client.address.to_string()).unwrap().1.to_owned();
    assert!(client.address.ip().is_loopback());
    for url in [&given, &printed] {
        client.send("GET", &path(url), &[], b"").expect(303);
        client.send("GET", &path(url), &[], b"").expect_problem(401, "already used");
    }
    let serving = Serving { child, out, client, cookie: String::new() };
    // The program that opens the browser has failed by then.
    std::thread::sleep(Duration::from_millis(500));
    serving.signal(Signal::TERM);
    let (code, rest, err) = serving.wait();
    assert_eq!((code, rest.as_str()), (Some(0), ""), "{err}");
    assert!(err.contains("exit status: 3") && err.contains("open the address above"), "{err}");
}

#[test]
fn what_cannot_be_served_is_refused() {
    let folder = scratch();
    let sessions = file(&folder, "sessions");
    let serve =
        |more: &[&str]| run([&["serve", "--sessions", sessions.to_str().unwrap()], more].concat());
    serve(&["--listen", "0.0.0.0:0"]).expect_error(2, &["--token-file", "0.0.0.0"]);
    serve(&["--token-file", "/nowhere/token"]).expect_error(6, &["/nowhere/token", "token file"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    serve(&["--listen", &address]).expect_error(6, &[address.as_str(), "--listen"]);
    let pem = file(&folder, "nothing.pem");
    std::fs::write(&pem, "nothing").unwrap();
    let pem = pem.to_str().unwrap();
    serve(&["--tls-cert", pem]).expect_error(2, &["--tls-key"]);
    serve(&["--tls-cert", "/nowhere/a", "--tls-key", pem]).expect_error(6, &["/nowhere/a"]);
    serve(&["--tls-cert", pem, "--tls-key", pem]).expect_error(2, &["no certificate in it"]);
    let blocked = file(&folder, "blocked");
    std::fs::write(&blocked, "").unwrap();
    run(["serve", "--sessions", blocked.to_str().unwrap()]).expect_error(6, &["--sessions"]);
}
