//! Sessions over HTTP.

mod common;

use common::{HOSTILE, Served, file};
use profile::{BuildOptions, Profile};
use serde_json::Value;
use server::Retention;
use std::fs;

#[test]
fn processes_and_profilers_are_as_described() {
    let served = Served::start();
    let profilers = served.get("/api/v1/profilers").expect(200).json();
    let schema = served.schema("Profiler");
    let profilers = profilers.as_array().unwrap();
    assert_eq!(profilers.len(), profilers::PROFILERS.len());
    profilers.iter().for_each(|profiler| schema.check(profiler).unwrap());
    let processes = served.get("/api/v1/processes").expect(200).json();
    let schema = served.schema("Process");
    processes.as_array().unwrap().iter().for_each(|process| schema.check(process).unwrap());
}

#[test]
fn a_session_is_listed_described_and_deleted() {
    let served = Served::start();
    assert_eq!(served.get("/api/v1/sessions").expect(200).json(), Value::Array(vec![]));
    served.add("shop");
    let list = served.get("/api/v1/sessions").expect(200).json();
    let row = &list.as_array().unwrap()[0];
    served.schema("Session").check(row).unwrap();
    assert_eq!((&row["id"], &row["recording"]), (&"shop".into(), &false.into()));
    assert_eq!(row["bytes"], file().len());
    assert!(row["target"]["pid"].is_number() && row["problem"].is_null(), "{row}");
    let detail = served.get("/api/v1/sessions/shop").expect(200).json();
    served.schema("SessionDetail").check(&detail).unwrap();
    assert_eq!((&detail["complete"], &detail["end"]), (&true.into(), &"stopped".into()));
    assert!(detail["series"].as_array().unwrap().contains(&"cpu".into()), "{detail}");
    let problem = served.get("/api/v1/sessions/none").expect_problem(404, "no session none");
    served.schema("Problem").check(&problem.json()).unwrap();
    assert!(served.ask("DELETE", "/api/v1/sessions/shop", &[], b"").expect(204).body.is_empty());
    served.ask("DELETE", "/api/v1/sessions/shop", &[], b"").expect_problem(404, "shop");
    assert!(!served.path("shop").exists());
}

#[test]
fn the_list_of_sessions_has_pages() {
    let served = Served::start();
    for number in 0..5 {
        served.add(&format!("s{number}"));
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(100 - number);
        let file =
            fs::File::options().write(true).open(served.path(&format!("s{number}"))).unwrap();
        file.set_modified(time).unwrap();
    }
    let names = |query: &str| {
        let answer = served.get(&format!("/api/v1/sessions{query}")).expect(200);
        assert_eq!(answer.headers["x-total-count"], "5");
        let rows = answer.json();
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("").len(), 5);
    assert_eq!(names("?rows=2"), ["s4", "s3"]);
    assert_eq!(names("?first=4&rows=2"), ["s0"]);
    served.get("/api/v1/sessions?rows=1001").expect_problem(400, "rows");
}

#[test]
fn a_session_says_what_the_report_says() {
    let served = Served::start();
    served.add("shop");
    let document = served.get("/api/v1/sessions/shop/document").expect(200);
    served.schema("Document").check(&document.json()).unwrap();
    let profile = Profile::read(&file()[..], BuildOptions::default()).unwrap();
    let expected = report::document(&profile, &report::Options::default());
    assert_eq!(document.text(), serde_json::to_string(&expected).unwrap());
    for exporter in report::EXPORTERS {
        let path = format!("/api/v1/sessions/shop/report?format={}", exporter.id);
        let answer = served.get(&path).expect(200);
        let mut expected = Vec::new();
        exporter.convert(&file()[..], &report::Options::default(), &mut expected).unwrap();
        assert!(answer.body == expected, "{} differs", exporter.id);
        let name = format!("filename=\"shop.{}\"", exporter.extension);
        assert!(answer.headers["content-disposition"].contains(&name));
        // Names of types may hold scripts: pages run in an origin of their own.
        assert!(answer.headers["content-security-policy"].starts_with("sandbox"));
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    }
    let text = served.get("/api/v1/sessions/shop/report").expect(200);
    assert_eq!(text.headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(served.get("/api/v1/sessions/shop/file").expect(200).body, file());
}

#[test]
fn reports_can_be_of_a_part() {
    let served = Served::start();
    served.add("shop");
    let report = |query: &str| {
        served.get(&format!("/api/v1/sessions/shop/report?{query}")).expect(200).text()
    };
    let whole = report("format=json");
    let cpu: Value = serde_json::from_str(&report("format=json&profiler=cpu")).unwrap();
    assert_eq!(cpu["series"].as_array().unwrap().len(), 1);
    assert!(report("format=json&thread=4714&from=0&to=0.01").len() < whole.len());
    assert_ne!(report("names=short"), report("names=full"));
    let narrow = served.get("/api/v1/sessions/shop/document?profiler=cpu").expect(200).json();
    let whole = served.get("/api/v1/sessions/shop/document").expect(200).json();
    assert!(narrow.to_string().len() < whole.to_string().len());
    for query in ["to=0.01", "thread=4714", "function=Evil"] {
        let part =
            served.get(&format!("/api/v1/sessions/shop/document?{query}")).expect(200).json();
        served.schema("Document").check(&part).unwrap();
        assert_ne!(part, whole, "{query}");
    }
    for (query, part) in [
        ("format=nope", "markdown"),
        ("profiler=nope", "profiler"),
        ("rows=0", "rows"),
        ("rows=x", "rows"),
        ("from=2&to=1", "from"),
        ("colour=red", "colour"),
    ] {
        served.get(&format!("/api/v1/sessions/shop/report?{query}")).expect_problem(400, part);
    }
    served.get("/api/v1/sessions/shop/document?format=html").expect_problem(400, "format");
    served
        .get("/api/v1/sessions/shop/report?format=collapsed&profiler=transitions")
        .expect_problem(422, "transitions");
}

#[test]
fn no_name_leads_out_of_the_folder() {
    let served = Served::start();
    fs::write(served.path("../outside"), file()).unwrap();
    for name in [
        "..%2Foutside",
        "%2e%2e%2foutside",
        "..",
        "%2e%2e",
        ".upload-x",
        "a%00",
        "a%2Fb",
        "a%5Cb",
        "%2Fetc%2Fpasswd",
        "-a",
        "a%0d%0ab",
        "%ff",
    ] {
        for (method, rest) in [
            ("GET", ""),
            ("GET", "/document"),
            ("GET", "/report"),
            ("GET", "/file"),
            ("DELETE", ""),
        ] {
            let path = format!("/api/v1/sessions/{name}{rest}");
            let answer = served.ask(method, &path, &[], b"");
            assert!([400, 404].contains(&answer.status), "{method} {path}: {}", answer.status);
        }
    }
    assert!(served.path("../outside").exists());
}

#[test]
fn damaged_sessions_are_listed_with_the_reason() {
    let served = Served::start();
    let whole = file();
    fs::write(served.path("cut"), &whole[..whole.len() / 2]).unwrap();
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0xff;
    fs::write(served.path("flipped"), flipped).unwrap();
    fs::write(served.path("noise"), [7; 1000]).unwrap();
    fs::write(served.path("empty"), []).unwrap();
    let list = served.get("/api/v1/sessions").expect(200).json();
    let list = list.as_array().unwrap();
    let schema = served.schema("Session");
    list.iter().for_each(|row| schema.check(row).unwrap());
    assert_eq!(list.len(), 4);
    for row in list.iter().filter(|row| ["noise", "empty"].contains(&row["id"].as_str().unwrap())) {
        assert!(row["target"].is_null() && row["problem"].is_string(), "{row}");
    }
    for name in ["noise", "empty"] {
        for rest in ["", "/document", "/report"] {
            served.get(&format!("/api/v1/sessions/{name}{rest}")).expect_problem(422, "session");
        }
    }
    for name in ["cut", "flipped"] {
        let answer = served.get(&format!("/api/v1/sessions/{name}"));
        if answer.status == 200 {
            assert_eq!(answer.json()["complete"], false);
        } else {
            // Nothing is left of such a small one.
            answer.expect_problem(422, "");
        }
    }
}

#[test]
fn hostile_names_stay_text() {
    let served = Served::start();
    served.add("shop");
    let document = served.get("/api/v1/sessions/shop/document").expect(200);
    assert_eq!(document.headers["content-type"], "application/json");
    let json = served.get("/api/v1/sessions/shop/report?format=json").expect(200).json();
    assert!(json["types"].to_string().contains("script") && HOSTILE.contains("<script>"));
}

#[test]
fn sessions_are_uploaded() {
    let served = Served::with(Retention { count: 3, bytes: 1 << 30 });
    let kind = [("Content-Type", "application/octet-stream")];
    let upload = |query: &str, body: &[u8]| {
        served.ask("POST", &format!("/api/v1/sessions{query}"), &kind, body)
    };
    let row = upload("?name=mine", &file()).expect(201).json();
    served.schema("Session").check(&row).unwrap();
    assert_eq!(row["id"], "mine");
    assert_eq!(fs::read(served.path("mine")).unwrap(), file());
    assert_eq!(upload("?name=mine", &file()).expect(201).json()["id"], "mine-2");
    let named = upload("", &file()).expect(201).json();
    let name = named["target"]["process"].as_str().unwrap();
    assert!(named["id"].as_str().unwrap().starts_with(name), "{named}");
    // Of four, the oldest goes.
    assert_eq!(upload("?name=last", &file()).expect(201).json()["id"], "last");
    assert!(!served.path("mine").exists() && served.path("mine-2").exists());
    upload("?name=bad", &[7; 100]).expect_problem(422, "not a clrscope session");
    upload("?name=bad", &file()[..10]).expect_problem(422, "");
    upload("?name=..%2Fbad", &file()).expect_problem(400, "letters");
    upload("?nam=bad", &file()).expect_problem(400, "nam");
    served.ask("POST", "/api/v1/sessions", &[], &file()).expect_problem(415, "octet-stream");
    let head = format!(
        "POST /api/v1/sessions HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer \
         {}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
        served.address,
        common::TOKEN,
        10_u64 << 30
    );
    served.raw(head.as_bytes()).expect_problem(413, "4.00 GB");
    assert!(!served.path("bad").exists());
    let left = fs::read_dir(served.path("x").parent().unwrap()).unwrap().count();
    assert_eq!(left, 3, "something is left of what was refused");
}

#[test]
fn files_of_other_tools_become_sessions() {
    let served = Served::start();
    let kind = [("Content-Type", "application/octet-stream")];
    let upload = |query: &str, body: &[u8]| {
        served.ask("POST", &format!("/api/v1/sessions{query}"), &kind, body)
    };
    let export = |format: &str| {
        let (mut out, options) = (Vec::new(), report::Options::default());
        report::exporter(format).unwrap().convert(&file()[..], &options, &mut out).unwrap();
        out
    };
    let trace = include_bytes!("../../import/tests/data/small.nettrace").to_vec();
    let exported = ["pprof", "collapsed", "speedscope", "firefox"].map(|id| (id, export(id)));
    for (format, file) in exported.into_iter().chain([("nettrace", trace)]) {
        let row = upload(&format!("?name={format}"), &file).expect(201).json();
        served.schema("Session").check(&row).unwrap();
        assert_eq!(row["id"], format);
        assert!(row["recorded_unix_ms"].as_u64().unwrap() > 1_600_000_000_000, "{row}");
        let detail = served.get(&format!("/api/v1/sessions/{format}")).expect(200).json();
        served.schema("SessionDetail").check(&detail).unwrap();
        assert!(detail["complete"].as_bool().unwrap(), "{detail}");
        assert!(!detail["notes"].as_array().unwrap().is_empty(), "{detail}");
        let series = detail["series"][0].as_str().unwrap();
        let path = format!("/api/v1/sessions/{format}/flame?profiler={series}&width=800&rows=20");
        assert!(served.get(&path).expect(200).body.starts_with(b"CLRC"));
        for view in ["functions", "children", "timeline"] {
            let path = format!("/api/v1/sessions/{format}/{view}?profiler={series}");
            served.get(&path).expect(200);
        }
        let overview = served.get(&format!("/api/v1/sessions/{format}/explore")).expect(200);
        assert!(overview.json()["series"][0]["samples"].as_u64().unwrap() > 0, "{format}");
        let document = served.get(&format!("/api/v1/sessions/{format}/document")).expect(200);
        served.schema("Document").check(&document.json()).unwrap();
        let method = if format == "nettrace" { "Shop.Cart.Add" } else { "PriceList.Price" };
        assert!(document.text().contains(method), "{format}: {}", document.text());
    }
    let row = upload("", b"main;work 3\n").expect(201).json();
    assert!(row["id"].as_str().unwrap().starts_with("imported-"), "{row}");
    let compared = served.post("/api/v1/compare", r#"{"before":"pprof","after":"speedscope"}"#);
    assert!(compared.expect(200).text().contains("cpu"));
    // What cannot be imported says why and what to do, and leaves nothing.
    for (body, part) in [
        (&b"main;work 3\nno number\n"[..], "line 2"),
        (br#"{"traceEvents":[]}"#, "Chrome"),
        (b"Nettrace\x14\0\0\0!FastSerialization.1", "cut short"),
        (b"\x1f\x8b\x08\0", "cannot be read"),
    ] {
        upload("?name=bad", body).expect_problem(422, part);
    }
    assert!(!served.path("bad").exists());
    assert_eq!(common::files_in(served.path("x").parent().unwrap()), 6);
}

#[test]
fn a_heap_dump_of_another_tool_becomes_a_session() {
    let served = Served::start();
    let kind = [("Content-Type", "application/octet-stream")];
    let post = |body: &[u8]| served.ask("POST", "/api/v1/sessions?name=dump", &kind, body);
    let dump = common::heap_dump();
    let row = post(&dump).expect(201).json();
    served.schema("Session").check(&row).unwrap();
    let detail = served.get("/api/v1/sessions/dump").expect(200).json();
    served.schema("SessionDetail").check(&detail).unwrap();
    assert_eq!((&detail["heap_snapshots"], &detail["complete"]), (&1.into(), &true.into()));
    let document = served.get("/api/v1/sessions/dump/document").expect(200);
    served.schema("Document").check(&document.json()).unwrap();
    assert!(document.text().contains("heap dump"), "{}", document.text());
    // It has no samples: viewers of samples say so.
    let overview = served.get("/api/v1/sessions/dump/explore").expect(200).json();
    assert_eq!(overview["series"], serde_json::json!([]), "{overview}");
    post(&dump[..dump.len() / 2]).expect_problem(422, ".gcdump");
    assert_eq!(common::files_in(served.path("x").parent().unwrap()), 1);
}

#[test]
fn an_upload_without_a_length_has_the_same_limit() {
    let file = file();
    let served = Served::with_config(|config| config.most_upload = file.len() as u64);
    let upload = |body: &[u8], end: &[u8]| {
        let head = format!(
            "POST /api/v1/sessions?name=parts HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Authorization: Bearer {}\r\nContent-Type: application/octet-stream\r\n\
             Transfer-Encoding: chunked\r\n\r\n",
            served.address,
            common::TOKEN,
        );
        let parts = body
            .chunks(1000)
            .flat_map(|part| [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat());
        served.raw(
            &head.into_bytes().into_iter().chain(parts).chain(end.to_vec()).collect::<Vec<_>>(),
        )
    };
    let folder = served.path("x").parent().unwrap().to_owned();
    // It is refused as soon as there is too much, not at its end, which never comes.
    let larger = [&file[..], b"x"].concat();
    let limit = document::format::bytes(file.len() as u64);
    upload(&larger, b"").expect_problem(413, &format!("more than {limit}"));
    assert_eq!(common::files_in(&folder), 0, "something is left of what was refused");
    let row = upload(&file, b"0\r\n\r\n").expect(201).json();
    assert_eq!((&row["id"], &row["bytes"]), (&"parts".into(), &file.len().into()));
    assert_eq!(common::files_in(&folder), 1);
}

#[test]
fn programs_are_not_started_unless_that_is_allowed() {
    let served = Served::start();
    let body = r#"{"launch":{"command":"touch /tmp/never"}}"#;
    let problem = served.post("/api/v1/recordings", body).expect_problem(403, "start programs");
    assert!(problem.text().contains("--allow-launch"));
    let allowed = served.get("/api/v1/launch").expect(200).json();
    served.schema("LaunchAllowed").check(&allowed).unwrap();
    assert_eq!(allowed["allowed"], false);
    let both = r#"{"pid":1,"launch":{"command":"true"}}"#;
    served.post("/api/v1/recordings", both).expect_problem(400, "beside it");
    served.post("/api/v1/recordings", r#"{"launch":{}}"#).expect_problem(400, "command");
}

#[test]
fn an_upload_that_is_cut_off_leaves_nothing() {
    use std::io::Write as _;
    let served = Served::start();
    let mut stream = served.connect();
    let head = format!(
        "POST /api/v1/sessions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: \
         application/octet-stream\r\nContent-Length: 1000\r\n\r\n",
        served.address,
        common::TOKEN,
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&file()[..100]).unwrap();
    let folder = served.path("x").parent().unwrap().to_owned();
    let count = || fs::read_dir(&folder).unwrap().count();
    let until = std::time::Instant::now() + common::LIMIT;
    while count() == 0 {
        assert!(std::time::Instant::now() < until, "nothing is received");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    drop(stream);
    while count() > 0 {
        assert!(std::time::Instant::now() < until, "something is left");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn recordings_that_cannot_begin_say_why() {
    let served = Served::start();
    let record = |body: &str| served.post("/api/v1/recordings", body);
    record(r#"{"pid":999999999}"#).expect_problem(404, "999999999");
    record(r#"{"process":"nobody-has-this-name"}"#).expect_problem(404, "nobody-has-this-name");
    let own = format!(r#"{{"pid":{}}}"#, std::process::id());
    record(&own).expect_problem(409, "not a .NET process");
    record(r#"{"pid":1,"profilers":"nope"}"#).expect_problem(400, "nope");
    record("{}").expect_problem(400, "pid");
    record("{").expect_problem(400, "");
    assert_eq!(served.get("/api/v1/recordings").expect(200).json(), Value::Array(vec![]));
    let methods = |rest: &str| served.get(&format!("/api/v1/processes/{rest}"));
    methods("999999999/methods?search=a").expect_problem(404, "999999999");
    methods("x/methods?search=a").expect_problem(400, "number");
    methods(&format!("{}/methods?search=a", std::process::id())).expect_problem(409, ".NET");
    methods("1/methods").expect_problem(400, "search");
    methods("1/methods?search=%20").expect_problem(400, "no word");
    methods("1/methods?search=a&rows=0").expect_problem(400, "rows");
    methods(&format!("1/methods?search={}", "a".repeat(1001))).expect_problem(400, "1000");
    let check_up = |body: &str| served.post("/api/v1/checkups", body);
    check_up(r#"{"pid":999999999}"#).expect_problem(404, "999999999");
    check_up(r#"{"pid":1,"limits":["nope:a=1"]}"#).expect_problem(400, "nope");
    let trace = |body: &str| served.post("/api/v1/traces", body);
    trace(r#"{"pid":999999999,"patterns":["Shop.**"]}"#).expect_problem(404, "999999999");
    trace(r#"{"pid":1,"patterns":["**"]}"#).expect_problem(400, "rule");
    for (method, path) in [("GET", ""), ("DELETE", ""), ("GET", "/events")] {
        let path = format!("/api/v1/recordings/none{path}");
        served.ask(method, &path, &[], b"").expect_problem(404, "no recording none");
    }
}

#[test]
fn the_description_has_all_addresses_and_no_other() {
    let served = Served::start();
    let document = served.get("/api/v1/openapi.json").expect(200).json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let paths = document["paths"].as_object().unwrap();
    let mut all: Vec<_> = paths
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(move |method| format!("{method} {path}"))
        })
        .collect();
    all.sort();
    assert_eq!(
        all,
        [
            "delete /api/v1/recordings/{id}",
            "delete /api/v1/sessions/{id}",
            "get /api/v1/compare/children",
            "get /api/v1/compare/flame",
            "get /api/v1/compare/functions",
            "get /api/v1/compare/overview",
            "get /api/v1/compare/types",
            "get /api/v1/formats",
            "get /api/v1/launch",
            "get /api/v1/presets",
            "get /api/v1/processes",
            "get /api/v1/processes/{pid}/methods",
            "get /api/v1/profilers",
            "get /api/v1/recordings",
            "get /api/v1/recordings/{id}",
            "get /api/v1/recordings/{id}/events",
            "get /api/v1/recordings/{id}/output",
            "get /api/v1/sessions",
            "get /api/v1/sessions/{id}",
            "get /api/v1/sessions/{id}/callers",
            "get /api/v1/sessions/{id}/children",
            "get /api/v1/sessions/{id}/document",
            "get /api/v1/sessions/{id}/explore",
            "get /api/v1/sessions/{id}/explore/lines",
            "get /api/v1/sessions/{id}/explore/stacks",
            "get /api/v1/sessions/{id}/file",
            "get /api/v1/sessions/{id}/flame",
            "get /api/v1/sessions/{id}/functions",
            "get /api/v1/sessions/{id}/heap",
            "get /api/v1/sessions/{id}/heap/dominated",
            "get /api/v1/sessions/{id}/heap/growth",
            "get /api/v1/sessions/{id}/heap/paths",
            "get /api/v1/sessions/{id}/heap/treemap",
            "get /api/v1/sessions/{id}/heap/types",
            "get /api/v1/sessions/{id}/report",
            "get /api/v1/sessions/{id}/timeline",
            "patch /api/v1/sessions/{id}",
            "post /api/v1/checkups",
            "post /api/v1/compare",
            "post /api/v1/recordings",
            "post /api/v1/sessions",
            "post /api/v1/traces",
        ]
    );
    // Every reference leads to something, and no two types have one name.
    let text = document.to_string();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
    let numbered = schemas.keys().find(|name| name.ends_with(|last: char| last.is_ascii_digit()));
    assert_eq!(numbered, None);
}
