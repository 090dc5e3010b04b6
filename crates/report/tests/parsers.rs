//! The programs that our formats are for open what we write: go tool pprof, speedscope and a
//! browser.
//!
//! `cargo xtask setup` brings them; a test whose program is missing fails and says so.

mod common;

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use common::{profile, render, text};
use profile::{
    Counter, NameStyle, SeriesKind, SingleCall,
    profilers::counters::{CounterDef, CounterKind},
};
use report::Options;
use tempfile::TempDir;

/// Longest time that a program gets; these take a second or two.
const LIMIT: Duration = Duration::from_secs(120);

/// What a program says on its standard output. It must end well, and within the limit.
fn output(command: &mut Command, needed: &str) -> String {
    let spawned =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.unwrap_or_else(|error| {
        panic!("{needed} cannot be started ({error}): run `cargo xtask setup`")
    });
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let read = |mut from: Box<dyn std::io::Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let (stdout, stderr) = (read(Box::new(stdout)), read(Box::new(stderr)));
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("{needed} did not end within {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    assert!(status.success(), "{needed} failed: {stderr}");
    stdout
}

/// The document that Chromium makes of a page, after its scripts ran. Chromium talks to nobody.
fn browse(url: &str) -> String {
    let home = TempDir::new().unwrap();
    let profile = format!("--user-data-dir={}", home.path().display());
    let flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--allow-file-access-from-files",
        "--virtual-time-budget=40000",
        "--window-size=1500,950",
        "--dump-dom",
    ];
    output(Command::new("chromium").args(flags).arg(profile).arg(url), "chromium")
}

fn write(directory: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn pprof(file: &Path, arguments: &[&str]) -> String {
    let home = file.parent().unwrap();
    let mut command = Command::new("go");
    command.args(["tool", "pprof"]).args(arguments).arg(file);
    output(
        command.env("HOME", home).env("PPROF_TMPDIR", home).env("GOFLAGS", "-mod=mod"),
        "go (package golang-go)",
    )
}

/// The line of a method in what `pprof -top` prints, in words.
fn line_of<'a>(top: &'a str, method: &str) -> Vec<&'a str> {
    let line = top
        .lines()
        .find(|line| line.contains(method))
        .unwrap_or_else(|| panic!("no {method} in:\n{top}"));
    line.split_whitespace().collect()
}

#[test]
fn go_tool_pprof_reads_all_values_names_lines_and_labels() {
    let directory = TempDir::new().unwrap();
    let file =
        write(directory.path(), "shop.pb.gz", render(&profile(), "pprof", &Options::default()));
    let top = pprof(&file, &["-top", "-nodecount=100"]);
    assert!(top.contains("Type: cpu\n"), "{top}");
    assert!(top.contains("Duration: 10s, Total samples = 10000ms"), "{top}");
    assert_eq!(
        line_of(&top, "PriceList.Price")[..5],
        ["4200ms", "42.00%", "42.00%", "8000ms", "80.00%"]
    );
    assert_eq!(line_of(&top, "gc_heap::mark_object_simple")[0], "700ms");
    assert_eq!(line_of(&top, "[libc.so.6]+0x9ca4e")[0], "100ms");
    let wall = pprof(&file, &["-top", "-sample_index=wall", "-nodecount=100"]);
    assert!(wall.contains("Total samples = 49.85s"), "{wall}");
    assert_eq!(line_of(&wall, "Thread.Sleep")[3], "19.85s");
    let exceptions = pprof(&file, &["-top", "-sample_index=exceptions", "-nodecount=100"]);
    assert_eq!(line_of(&exceptions, "PriceList.Price")[0], "800");
    let lines = pprof(&file, &["-top", "-lines", "-nodecount=100"]);
    assert_eq!(line_of(&lines, "/src/shop/PriceList.cs:87")[0], "3400ms");
    assert_eq!(line_of(&lines, "/src/shop/PriceList.cs:90")[0], "800ms");
    let tags = pprof(&file, &["-tags"]);
    for tag in
        ["thread: Total", "thread_id: Total", "state: Total", ".NET TP Worker (4712)", "running"]
    {
        assert!(tags.contains(tag), "no {tag} in:\n{tags}");
    }
    let waits = pprof(&file, &["-tags", "-sample_index=wall"]);
    assert_eq!(line_of(&waits, ": lock")[0], "3.0s");
    let comments = pprof(&file, &["-comments"]);
    assert!(
        comments.contains("shop (pid 4711)") && comments.contains("12 samples dropped"),
        "{comments}"
    );
    // Names that no terminal or browser should act on are still the names.
    assert!(pprof(&file, &["-raw"]).contains("</script><script>"));
}

/// What speedscope shows of a file.
fn speedscope(app: &Path, name: &str, content: &str) -> String {
    // Its own way to open a local file, as its command line does: a script that hands the content
    // to the importer.
    let directory = TempDir::new().unwrap();
    let base64 = base64(content.as_bytes());
    let script = format!("speedscope.loadFileFromBase64(\"{name}\", \"{base64}\")");
    let script = write(directory.path(), "shop.js", script);
    let document = browse(&format!(
        "file://{}#localProfilePath={}",
        app.join("index.html").display(),
        script.display()
    ));
    assert!(
        !document.contains("Unrecognized format") && !document.contains("Something went wrong"),
        "{document}"
    );
    document
}

/// Where speedscope is.
fn speedscope_app() -> PathBuf {
    let cache = std::env::var_os("CLRSCOPE_CACHE").map(PathBuf::from).unwrap_or_else(|| {
        PathBuf::from(std::env::var_os("HOME").expect("HOME is set")).join(".cache/clrscope")
    });
    let app = cache.join("apps/speedscope-1.25.0/dist/release");
    assert!(
        app.join("index.html").exists(),
        "speedscope is not in {}: run `cargo xtask setup`",
        app.display()
    );
    app
}

/// It reads the Trace Event Format of Chrome and Perfetto, too.
#[test]
fn speedscope_imports_single_calls() {
    let mut profile = profile();
    let (thread, other) = (profile.tables.threads[0].id, profile.tables.threads[1].id);
    let function = |index: usize| profile.tables.functions[index].id;
    let start = profile.start;
    let call = |function, thread, begun, taken, asynchronous| SingleCall {
        function,
        thread,
        begun: start + begun,
        taken,
        failed: taken == 300,
        asynchronous,
        arguments: None,
    };
    let single = vec![
        call(function(1), thread, 1_200_100, 300, false),
        call(function(0), thread, 1_200_000, 5_000_000, false),
        call(function(1), other, 1_000_000, 9_000, true),
    ];
    let names = [0, 1].map(|index| profile.tables.function_name(function(index), NameStyle::FULL));
    profile.traced.single = single;
    let json = text(&profile, "chrome", &Options::default());
    let document = speedscope(
        &speedscope_app(),
        &format!("shop.{}", report::exporter("chrome").unwrap().extension),
        &json,
    );
    // The first row is the one of the process; its title tells which is shown.
    assert!(
        document.contains(&format!("pid {}", profile.info.pid)) || document.contains("Runtime"),
        "{document}"
    );
    let file: serde_json::Value = serde_json::from_str(&json).unwrap();
    let events = file["traceEvents"].as_array().unwrap();
    let calls: Vec<_> = events.iter().filter(|event| event["cat"] == "call").collect();
    assert_eq!(
        (&calls[0]["name"], &calls[1]["name"]),
        (&names[1].clone().into(), &names[0].clone().into())
    );
    assert_eq!((&calls[0]["ts"], &calls[0]["dur"]), (&1200.1.into(), &0.3.into()));
    assert_eq!(calls[0]["args"]["error"], true);
    assert_eq!(events.iter().filter(|event| event["cat"] == "async call").count(), 2);

    let spans: serde_json::Value =
        serde_json::from_str(&text(&profile, "otlp", &Options::default())).unwrap();
    let spans = spans["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let inner = spans.iter().find(|span| span["status"]["code"] == 2).unwrap();
    let outer = spans.iter().find(|span| span["spanId"] == inner["parentSpanId"]).unwrap();
    assert_eq!(outer["attributes"][0]["value"]["stringValue"], names[0].as_str());
    assert_eq!(spans.iter().filter(|span| span.get("parentSpanId").is_none()).count(), 2);
    let unix = u128::from(profile.info.start_unix_ms) * 1_000_000 + 1_200_100;
    assert_eq!(inner["startTimeUnixNano"], unix.to_string());
}

#[test]
fn speedscope_imports_every_thread() {
    let app = speedscope_app();
    let json = text(&profile(), "speedscope", &Options::default());
    let document = speedscope(&app, "shop.speedscope.json", &json);
    // Its title and its tool bar name the profile that is shown: the busiest thread of the first
    // kind.
    assert!(document.contains("cpu · .NET TP Worker (4712)"), "{document}");

    // Against the schema that is shipped with it, for what its importer does not look at.
    let schema = std::fs::read_to_string(app.join("file-format-schema.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let file: serde_json::Value = serde_json::from_str(&json).unwrap();
    let mut faults = String::new();
    check(&schema, &schema, &file, "file", &mut faults);
    assert!(faults.is_empty(), "{faults}");
    let profiles = file["profiles"].as_array().unwrap();
    let names: Vec<&str> =
        profiles.iter().map(|profile| profile["name"].as_str().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("cpu · ")).count(), 3);
    assert_eq!(names.iter().filter(|name| name.starts_with("wall · ")).count(), 5);
    let ends: u64 = profiles[..3].iter().map(|profile| profile["endValue"].as_u64().unwrap()).sum();
    assert_eq!(ends, 10_000_000_000);
    let frames = file["shared"]["frames"].as_array().unwrap();
    let price = frames.iter().find(|frame| frame["line"] == 87).unwrap();
    assert_eq!(price["file"], "/src/shop/PriceList.cs");
    // Root first.
    let first = profiles[0]["samples"][0][0].as_u64().unwrap() as usize;
    assert!(frames[first]["name"].as_str().unwrap().contains("WorkerThreadStart"));
}

/// The parts of JSON Schema that speedscope's schema uses: types, properties, required, enum,
/// const, anyOf, references and items.
fn check(
    schema: &serde_json::Value,
    root: &serde_json::Value,
    value: &serde_json::Value,
    at: &str,
    faults: &mut String,
) {
    use serde_json::Value;
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.trim_start_matches('#');
        let target =
            root.pointer(pointer).unwrap_or_else(|| panic!("the schema has no {reference}"));
        return check(target, root, value, at, faults);
    }
    if let Some(options) = schema["anyOf"].as_array() {
        let mut tried = String::new();
        let fits = options.iter().any(|option| {
            let mut faults = String::new();
            check(option, root, value, at, &mut faults);
            tried.push_str(&faults);
            faults.is_empty()
        });
        if !fits {
            write!(faults, "{at} fits none of its forms: {tried}").unwrap();
        }
    }
    let fits = match schema["type"].as_str() {
        None => true,
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("boolean") => value.is_boolean(),
        Some(other) => panic!("the schema has a type {other}"),
    };
    if !fits {
        writeln!(faults, "{at} should be {}", schema["type"]).unwrap();
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        writeln!(faults, "{at} is {value}, not one of {words:?}").unwrap();
    }
    if let Some(constant) = schema.get("const")
        && constant != value
    {
        writeln!(faults, "{at} is {value}, not {constant}").unwrap();
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            writeln!(faults, "{at} has no {name}").unwrap();
        }
    }
    if let (Some(properties), Some(object)) = (schema["properties"].as_object(), value.as_object())
    {
        for (name, schema) in properties {
            if let Some(value) = object.get(name) {
                check(schema, root, value, &format!("{at}.{name}"), faults);
            }
        }
        if schema["additionalProperties"] == Value::Bool(false) {
            for name in object.keys().filter(|name| !properties.contains_key(*name)) {
                writeln!(faults, "{at} has the unknown property {name}").unwrap();
            }
        }
    }
    if let (Some(items), Some(array)) =
        (schema.get("items").filter(|items| items.is_object()), value.as_array())
    {
        for (index, value) in array.iter().enumerate() {
            check(items, root, value, &format!("{at}[{index}]"), faults);
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = ALPHABET[(number >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// The page with a script behind it that uses it as a person would and leaves what it saw.
fn drive(html: &str, script: &str) -> String {
    let directory = TempDir::new().unwrap();
    let driver = format!(
        "<script>
        const seen = {{}};
        const $ = selector => document.querySelector(selector);
        const button = text => [...document.querySelectorAll('button')].find(b => b.textContent.trim() === text);
        const pause = () => new Promise(done => setTimeout(done, 250));
        const press = async (target, key) => {{ target.dispatchEvent(new KeyboardEvent('keydown', {{ key, bubbles: true }})); await pause(); }};
        (async () => {{
            await pause();
            try {{ {script} }} catch (error) {{ seen.error = String(error && error.stack || error); }}
            const out = document.createElement('pre');
            out.id = 'seen';
            out.textContent = JSON.stringify(seen);
            document.body.append(out);
        }})();
        </script></body>"
    );
    let page = html.replace("</body>", &driver);
    assert_ne!(page, html);
    let path = write(directory.path(), "report.html", page);
    let document = browse(&format!("file://{}", path.display()));
    assert!(document.contains("data-ready=\"yes\""), "the page did not come up: {document}");
    let begin =
        document.find("<pre id=\"seen\">").expect("the driver ended") + "<pre id=\"seen\">".len();
    let seen = &document[begin..begin + document[begin..].find("</pre>").unwrap()];
    let seen = seen.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    assert!(!seen.contains("\"error\""), "{seen}");
    seen
}

#[test]
fn a_browser_draws_the_page_and_all_its_parts_work() {
    let html = text(&profile(), "html", &Options::default());
    let seen = drive(
        &html,
        r#"
        const canvas = () => $('.flame canvas');
        const painted = () => {
            const c = canvas(), data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, colors = new Set();
            for (let i = 0; i < data.length; i += 4) if (data[i + 3]) colors.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
            return colors.size;
        };
        const open = async tab => { $(`[data-tab=${tab}]`).click(); await pause(); };
        const series = title => [...document.querySelectorAll('.segments button')].find(b => b.textContent === title).click();
        const rows = () => [...document.querySelectorAll('.treegrid .body [role=row]')];
        seen.title = document.title;
        seen.colors = painted();
        seen.legend = $('.legend').textContent;
        const area = canvas().getBoundingClientRect();
        const at = { clientX: area.left + 50, clientY: area.top + 3 + 19 * 4 + 8, bubbles: true };
        canvas().dispatchEvent(new MouseEvent('mousemove', at));
        await pause();
        seen.tip = $('.tip').innerText;
        canvas().dispatchEvent(new MouseEvent('click', at));
        await pause();
        seen.zoomed = $('.crumbs').innerText;
        await press(canvas(), 'Escape');
        seen.all = $('.crumbs').innerText;
        await press(canvas(), 'ArrowDown'); await press(canvas(), 'ArrowDown');
        seen.spoken = $('[aria-live]').textContent;
        seen.twin = rows().find(row => row.getAttribute('aria-selected') === 'true').innerText;
        await press(canvas(), 'Enter');
        seen.entered = $('.crumbs b').textContent;
        await press(canvas(), 'Backspace');
        seen.left = $('.crumbs b').textContent;
        await press(document.body, '/');
        seen.searching = document.activeElement.type;
        const search = $('input[type=search]');
        search.value = 'discounts'; search.dispatchEvent(new Event('input'));
        await pause(); await pause();
        seen.found = $('.found').textContent;
        search.value = '/^SVR::|futex/'; search.dispatchEvent(new Event('input'));
        await pause(); await pause();
        seen.foundByExpression = $('.found').textContent;
        await press(search, 'Escape');
        const thread = async id => { const select = $('select'); select.value = id; select.dispatchEvent(new Event('change', { bubbles: true })); await pause(); };
        await thread('4715');
        seen.thread = $('.crumbs .end').textContent;
        await thread('');
        button('Callers').click();
        await pause();
        canvas().focus(); await press(canvas(), 'Escape'); await press(canvas(), 'ArrowDown'); await press(canvas(), 'Enter');
        seen.callers = $('.crumbs').innerText;
        button('Callees').click();
        await pause();
        // The call tree below, by keyboard alone.
        const grid = () => $('.treegrid .body [tabindex="0"]');
        seen.grid = rows().map(row => row.getAttribute('aria-level') + ' ' + row.innerText);
        grid().focus();
        await press(grid(), 'Home'); await press(grid(), 'ArrowLeft');
        seen.closed = rows().length;
        await press(grid(), 'ArrowRight'); await press(grid(), 'ArrowRight');
        seen.gridFocus = document.activeElement.innerText;
        await press(grid(), 'Enter');
        seen.gridZoom = $('.crumbs b').textContent;
        await press(canvas(), 'Escape');
        series('Wall');
        await pause();
        seen.wall = $('.crumbs .end').textContent;
        button('pool idle').click();
        await pause();
        seen.withIdle = $('.crumbs .end').textContent;
        series('Exceptions');
        await pause();
        seen.thrown = $('.crumbs .end').textContent;
        series('CPU');
        await pause();
        await open('functions');
        seen.methods = [...document.querySelectorAll('tbody tr')].slice(0, 3).map(row => row.innerText);
        button('Total').click();
        await pause();
        seen.byTotal = $('tbody tr').innerText;
        [...document.querySelectorAll('tbody tr')].find(row => row.innerText.includes('Discounts.Best')).querySelector('.where button').click();
        await pause();
        seen.neighbors = $('.callers').innerText;
        for (const tab of ['threads', 'gc', 'exceptions', 'recording']) {
            await open(tab);
            seen[tab] = $('main').innerText;
        }
        seen.address = location.hash;
        seen.theme = document.documentElement.dataset.theme;
        $('header button').click();
        seen.otherTheme = document.documentElement.dataset.theme;
        seen.requests = performance.getEntriesByType('resource').length;
        "#,
    );
    let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
    let says = |key: &str, parts: &[&str]| {
        let text = seen[key].to_string();
        parts
            .iter()
            .for_each(|part| assert!(text.contains(part), "{key} does not say {part}: {text}"));
    };
    assert_eq!(seen["title"], "shop – clrscope");
    assert!(seen["colors"].as_u64().unwrap() > 10, "{seen}");
    assert_eq!(seen["requests"], 0, "the page asks nobody for anything");
    says("legend", &["your code", "65.0 %", "GC", "7.0 %"]);
    says(
        "tip",
        &[
            "Shop.Pricing.PriceList.Price(System.Collections.Generic.List<Shop.Orders.Line>, int)",
            "80.0 %",
            "42.0 % ± 3.1",
            "/src/shop/PriceList.cs:87",
            "shop.dll",
        ],
    );
    says("zoomed", &["PriceList.Price", "8.00 s", "800 samples"]);
    says("all", &["10.0 s", "1,000 samples"]);
    says("spoken", &["ProcessRequestsAsync", "92.0 %"]);
    says("twin", &["ProcessRequestsAsync", "92.0 %"]);
    says("entered", &["ProcessRequestsAsync"]);
    says("left", &["WorkerThreadStart"]);
    says("searching", &["search"]);
    // Within the zoomed worker: 21 of 92.
    says("found", &["22.8 % matched"]);
    says("foundByExpression", &["2.2 % matched"]);
    says("thread", &["700 ms", "70 samples"]);
    says("callers", &["PriceList.Price", "4.20 s"]);
    // The heaviest path is open.
    says("grid", &["1 ", "4 ", "PriceList.Price", "80.0 %", "42.0 %"]);
    assert!(seen["closed"].as_u64().unwrap() < seen["grid"].as_array().unwrap().len() as u64);
    says("gridFocus", &["ProcessRequestsAsync"]);
    says("gridZoom", &["ProcessRequestsAsync"]);
    says("wall", &["40.4 s", "807 samples"]);
    says("withIdle", &["49.9 s", "997 samples"]);
    says("thrown", &["808 exceptions", "40 samples"]);
    says(
        "methods",
        &[
            "42.0 %",
            "Shop.Pricing.PriceList.Price",
            "12.0 %",
            "Shop.Pricing.Discounts.Best",
            "PriceList.cs:87",
        ],
    );
    says("byTotal", &["92.0 %"]);
    says("neighbors", &["Called by", "PriceList.Price", "Calls", "Discounts.Search", "21.0 %"]);
    says("address", &["tab=recording"]);
    says("threads", &["Audit <log> &", "running 50 %, lock 30 %, pool idle 20 %"]);
    says("gc", &["gen 2", "12.4 ms", "AllocSmall 29, Induced 1", "SuspendForProfiler, excluded"]);
    says(
        "exceptions",
        &[
            "812",
            "System.InvalidOperationException",
            "Sequence contains no elements (+1 other)",
            "PriceList.Price",
            "38.0 µs",
        ],
    );
    says(
        "recording",
        &[
            "kernel ring, read from outside",
            "ring full 12",
            "portable PDB was not found",
            "20 with a stack cut",
        ],
    );
    assert_ne!(seen["theme"], seen["otherTheme"]);
}

#[test]
fn counters_are_lines_in_the_page_and_rows_in_texts() {
    let mut profile = profile();
    let start = profile.start;
    let counter = |id: u32, title: &str, unit: &str, kind: CounterKind, values: &[f64]| Counter {
        def: CounterDef {
            counter: id,
            source: "System.Runtime".into(),
            name: title.to_lowercase(),
            title: title.into(),
            unit: unit.into(),
            tags: if id == 1 { "kind=<b>".into() } else { String::new() },
            kind,
        },
        values: values
            .iter()
            .enumerate()
            .map(|(i, v)| (start + (i as u64 + 1) * 1_000_000_000, *v))
            .collect(),
    };
    profile.counters = vec![
        counter(0, "Working Set", "MB", CounterKind::Level, &[100.0, 120.5, 140.0]),
        counter(1, "Exceptions", "", CounterKind::Rate, &[0.0, 1234.0]),
        counter(2, "Never Seen", "", CounterKind::Rate, &[]),
    ];
    let words = |format: &str| text(&profile, format, &Options::default());
    let plain = words("text");
    let row = plain.lines().find(|line| line.contains("Working Set")).unwrap();
    let parts: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        parts,
        ["140", "120.2", "100", "140", "MB", "▁▅█", "Working", "Set", "System.Runtime"]
    );
    assert!(
        plain.contains("1,234") && plain.contains("/s") && !plain.contains("Never Seen"),
        "{plain}"
    );
    assert!(
        words("markdown").contains("| 140 | 120.2 | 100 | 140 | MB |"),
        "{}",
        words("markdown")
    );
    let json: serde_json::Value = serde_json::from_str(&words("json")).unwrap();
    assert_eq!(json["counters"][1]["kind"], "rate");
    assert_eq!(
        json["counters"][0]["values"][1],
        serde_json::json!({"time_ns": 2_000_000_000u64, "value": 120.5})
    );
    let seen = drive(
        &words("html"),
        r#"
        document.querySelector('[data-tab=counters]').click();
        await pause();
        seen.text = $('main').innerText;
        seen.lines = document.querySelectorAll('svg.line polyline').length;
        seen.points = [...document.querySelectorAll('svg.line polyline')].map(line => line.getAttribute('points')).find(points => points.split(' ').length === 3);
        seen.tips = [...document.querySelectorAll('svg.line')].map(line => line.getAttribute('aria-label'));
        seen.bold = document.querySelectorAll('main b').length;
        seen.height = document.querySelector('svg.line').getBoundingClientRect().height;
        "#,
    );
    let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
    assert_eq!((&seen["lines"], &seen["bold"]), (&2.into(), &0.into()), "{seen}");
    assert_eq!(seen["points"].as_str().unwrap().split(' ').count(), 3, "{seen}");
    assert!(seen["tips"].to_string().contains("from 100 to 140"), "{seen}");
    assert!(seen["height"].as_f64().unwrap() >= 40.0, "{seen}");
    for part in ["System.Runtime", "Working Set", "1,234", "kind=<b>", "MB"] {
        assert!(seen["text"].as_str().unwrap().contains(part), "{part} is missing in {seen}");
    }
}

#[test]
fn names_of_the_recording_never_become_markup() {
    let html = text(&profile(), "html", &Options::default());
    let data = html.split("<script id=\"data\" type=\"application/json\">").nth(1).unwrap();
    let data = &data[..data.find("</script>").unwrap()];
    let parsed: serde_json::Value =
        serde_json::from_str(data).expect("the element ends where the data ends");
    assert!(parsed["samples"]["functions"]["name"].as_array().unwrap().iter().any(|name| {
        name.as_str().unwrap().contains(&*document::plain::visible_lines(common::HOSTILE))
    }));
    let seen = drive(
        &html,
        "for (const tab of ['functions', 'exceptions', 'threads', 'recording', 'flame']) {
            document.querySelector(`[data-tab=${tab}]`).click(); await pause();
         }
         seen.scripts = document.querySelectorAll('script').length; seen.title = document.title;",
    );
    let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
    assert_eq!((&seen["scripts"], &seen["title"]), (&3.into(), &"shop – clrscope".into()));
}

#[test]
fn an_empty_recording_is_drawn_too() {
    let records = common::records();
    let mut builder = profile::ProfileBuilder::new(Default::default());
    [records.first().unwrap(), records.last().unwrap()]
        .iter()
        .for_each(|record| builder.add(record).unwrap());
    let profile = builder.finish(false).unwrap();
    let html = text(&profile, "html", &Options::default());
    let seen = drive(
        &html,
        "for (const tab of ['flame', 'functions', 'threads', 'gc', 'exceptions', 'recording']) {
            document.querySelector(`[data-tab=${tab}]`).click(); await pause(); seen[tab] = document.querySelector('main').innerText;
         }",
    );
    for sentence in
        ["No samples in this recording.", "0 GC pauses", "None were thrown.", "kernel ring"]
    {
        assert!(seen.contains(sentence), "no \"{sentence}\" in {seen}");
    }
    for exporter in report::EXPORTERS {
        let mut out = Vec::new();
        match exporter.write(&profile, &Options::default(), &mut out) {
            Ok(()) => assert!(!out.is_empty(), "{}", exporter.id),
            Err(error) => assert!(
                matches!(error, report::ReportError::NoSamples { .. }),
                "{}: {error}",
                exporter.id
            ),
        }
    }
}

#[test]
fn collapsed_stacks_make_a_flame_graph() {
    let collapsed = text(&profile(), "collapsed", &Options { lines: false, ..Options::default() });
    let total: u64 = collapsed
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(total, 1000);
    let mut svg = Vec::new();
    let mut options = inferno::flamegraph::Options::default();
    inferno::flamegraph::from_lines(&mut options, collapsed.lines(), &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    assert!(svg.contains("all (1,000 samples, 100%)"));
    let wall = text(
        &profile(),
        "collapsed",
        &Options { series: Some(SeriesKind::Wall), ..Options::default() },
    );
    assert_eq!(
        wall.lines()
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum::<u64>(),
        997
    );
}
