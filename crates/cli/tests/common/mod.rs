//! Runs the built `clrscope` and reads what it says.
#![allow(dead_code)] // Each test file uses its part.

#[cfg(unix)]
pub mod assistant;
#[cfg(unix)]
pub mod serving;
#[cfg(unix)]
pub mod tracing;

use serde_json::Value;
use session::{SessionReader, SessionRecord};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Mutex,
    thread::JoinHandle,
    time::{Duration, Instant},
};
use testkit::{JsonSchema, Runtime, TargetProcess};

/// What any one command may take on a busy machine. A command that hangs fails its test here.
pub const LIMIT: Duration = Duration::from_secs(120);

/// The binary under test.
pub fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_clrscope")
}

/// The binary with arguments, free of what the tester's environment may hold.
pub fn clrscope<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(binary());
    command.args(args).stdin(Stdio::null()).env("COLUMNS", "100").env("TERM", "xterm");
    for name in ["NO_COLOR", "RUST_BACKTRACE", "CLRSCOPE_AGENT"] {
        command.env_remove(name);
    }
    command
}

/// How a command ended and what it wrote.
#[derive(Debug)]
pub struct Ended {
    /// The command of clrscope.
    command: String,
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// Exit code, -1 when a signal ended it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// Asserts the exit code, and shows what was written when it is another one.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code(),
            code,
            "{}\nstandard output:\n{}\nstandard error:\n{}",
            self.status,
            self.out,
            self.err
        );
        self
    }

    /// Asserts an error that names all of these.
    #[track_caller]
    pub fn expect_error(self, code: i32, parts: &[&str]) -> Self {
        let ended = self.expect(code);
        assert!(ended.err.starts_with("error: "), "{}", ended.err);
        for part in parts {
            assert!(ended.err.contains(part), "`{part}` is missing in: {}", ended.err);
        }
        ended
    }

    /// Standard output as JSON, which is what the schema of this command says.
    #[track_caller]
    pub fn json(&self) -> Value {
        let value = serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {}", self.out));
        // A build without optimization takes long for larger ones.
        if self.out.len() <= MOST_CHECKED {
            assert_schema(&self.command, &value);
        }
        value
    }
}

/// Most bytes of output that are checked by its schema.
const MOST_CHECKED: usize = 4 << 20;

/// Asserts that the schema of what a command prints allows this, and names everything in it.
#[track_caller]
pub fn assert_schema(command: &str, value: &Value) {
    static SCHEMAS: Mutex<BTreeMap<String, &'static JsonSchema>> = Mutex::new(BTreeMap::new());
    let known = SCHEMAS.lock().unwrap().get(command).copied();
    let schema = known.unwrap_or_else(|| {
        let printed = run(["schema", command]).expect(0).out;
        let schema = JsonSchema::new(serde_json::from_str(&printed).unwrap()).unwrap();
        let schema: &'static JsonSchema = Box::leak(Box::new(schema));
        SCHEMAS.lock().unwrap().insert(command.to_owned(), schema);
        schema
    });
    if let Err(error) = schema.check(value) {
        panic!("`clrscope schema {command}` does not describe this output: {error}");
    }
}

/// A command that runs beside the test; killed when it is dropped.
pub struct Running {
    command: String,
    child: Child,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

impl Running {
    #[track_caller]
    pub fn start(mut command: Command) -> Self {
        // Behind the last program that runs another one, such as `setpriv`.
        let mut words = command.get_args().map(|word| word.to_string_lossy().into_owned());
        let first = if command.get_program() == binary() {
            words.next()
        } else {
            words.by_ref().find(|word| word == binary()).and_then(|_| words.next())
        };
        let first = first.unwrap_or_default();
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let out = child.stdout.take().map(collect);
        let err = child.stderr.take().map(collect);
        Self { command: first, child, out, err }
    }

    /// One that was started by other means, with what it has said on standard error, and the rest
    /// of that.
    pub fn adopt(
        command: &str,
        mut child: Child,
        said: String,
        mut error: impl Read + Send + 'static,
    ) -> Self {
        let out = child.stdout.take().map(collect);
        let err = std::thread::spawn(move || {
            let mut said = said;
            let _ = error.read_to_string(&mut said);
            said
        });
        Self { command: command.to_owned(), child, out, err: Some(err) }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    #[cfg(unix)]
    #[track_caller]
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).expect("a pid");
        rustix::process::kill_process(pid, signal).expect("the command still runs");
    }

    /// Whether it has ended already.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(mut self) -> Ended {
        let until = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            if Instant::now() > until {
                let _ = self.child.kill();
                let _ = self.child.wait();
                let (out, err) = self.output();
                panic!(
                    "the command did not end within {LIMIT:?}\nstandard output:\n{out}\n\
                        standard error:\n{err}"
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let (out, err) = self.output();
        Ended { command: std::mem::take(&mut self.command), status, out, err }
    }

    fn output(&mut self) -> (String, String) {
        let text = |thread: Option<JoinHandle<String>>| {
            thread.map(|thread| thread.join().unwrap()).unwrap_or_default()
        };
        (text(self.out.take()), text(self.err.take()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The one process that a process has started, but for the keeper of its event sessions.
pub fn child_of(pid: u32) -> u32 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let children = tasks.map(|task| {
        std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default()
    });
    let children =
        children.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let is_keeper = |pid: &String| {
        std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|name| name == "event-keeper\n")
    };
    let children: Vec<String> = children.filter(|pid| !is_keeper(pid)).collect();
    assert_eq!(children.len(), 1, "{children:?}");
    children[0].parse().unwrap()
}

/// Runs the binary to its end.
#[track_caller]
pub fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Ended {
    Running::start(clrscope(args)).wait()
}

/// Asserts that a report of a session has in each format what the command of that name says of its
/// heap snapshots.
#[track_caller]
pub fn report_shows(session: &Path, command: &str) {
    let session = session.to_str().unwrap();
    let report =
        |more: &[&str]| run([&["report", session, "--rows", "15"], more].concat()).expect(0);
    let (text, known) = (
        run([command, session, "--top", "15"]).expect(0).out,
        [command, session, "--top", "15", "--json"],
    );
    // Every section, in the same order. Below their titles, lines are as wide as their place.
    let titles: Vec<&str> =
        text.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).collect();
    assert!(titles.len() > 2 && text.lines().count() > titles.len() + 5, "{text}");
    let html = report(&["--format", "html"]).out;
    for (mut rest, before, after) in [
        (&*report(&[]).out, "\n\n", "\n  "),
        (&*report(&["--format", "markdown"]).out, "\n## ", "\n\n"),
    ] {
        for title in &titles {
            let title = format!("{before}{title}{after}");
            rest = rest.split_once(&title).unwrap_or_else(|| panic!("{rest} lacks {title}")).1;
        }
    }
    let json = report(&["--format", "json"]).json();
    assert_eq!(json[command], run(known).expect(0).json());
    let data =
        html.split_once("type=\"application/json\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: Value = serde_json::from_str(data).unwrap();
    let documents = data["documents"].as_array().unwrap();
    let [tab] = &documents.iter().filter(|tab| tab["id"] == *command).collect::<Vec<_>>()[..]
    else {
        panic!("{}", data["documents"])
    };
    let sections = tab["document"]["sections"].as_array().unwrap().iter();
    let found: Vec<&str> = sections.map(|section| section["title"].as_str().unwrap()).collect();
    assert_eq!(found, titles);
    // They cannot be narrowed down, so they are left out where samples are.
    let narrow = report(&["--format", "json", "--to", "1s"]).json();
    assert!(narrow.get(command).is_none(), "{narrow}");
}

/// Waits until a session file holds its first record: everything is switched on by then.
#[track_caller]
pub fn wait_until_recording(session: &Path, recorder: &mut Running) {
    let until = Instant::now() + LIMIT;
    let begun = || {
        let reader = SessionReader::new(File::open(session).ok()?).ok()?;
        reader.flatten().next().filter(|record| matches!(record, SessionRecord::Info(_)))
    };
    while begun().is_none() {
        if recorder.has_ended() {
            let (out, err) = recorder.output();
            panic!(
                "the recording ended before it began\nstandard output:\n{out}\nstandard error:\n\
                    {err}"
            );
        }
        assert!(Instant::now() < until, "the recording did not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Records a sample that waits for its `go`, from before it until so long after what it says of
/// itself: events come in blocks, a moment late. Gives the report, and the truth.
#[track_caller]
pub fn recorded_work(
    process: &mut TargetProcess,
    profilers: &str,
    session: &Path,
    after: Duration,
) -> (Report, Value) {
    let pid = process.pid().to_string();
    let mut recorder = Running::start(clrscope([
        "record",
        &pid,
        "-o",
        session.to_str().unwrap(),
        "-p",
        profilers,
    ]));
    wait_until_recording(session, &mut recorder);
    std::thread::sleep(Duration::from_millis(500));
    process.send_line("go").unwrap();
    let truth = process.truth(Duration::from_secs(60));
    std::thread::sleep(after);
    recorder.signal(rustix::process::Signal::INT);
    recorder.wait().expect(0);
    (Report::of(session), truth)
}

/// A session as `clrscope report --format json` tells it.
pub struct Report(pub Value);

impl Report {
    /// Of a session that is whole.
    #[track_caller]
    pub fn of(session: &Path) -> Self {
        Self(
            run(["report".as_ref(), session.as_os_str(), "--format".as_ref(), "json".as_ref()])
                .expect(0)
                .json(),
        )
    }

    /// The samples of a profiler.
    #[track_caller]
    pub fn series(&self, profiler: &str) -> &Value {
        let series = self.0["series"].as_array().expect("a list of series");
        series
            .iter()
            .find(|series| series["profiler"] == profiler)
            .unwrap_or_else(|| panic!("no series {profiler} in {}", self.0["recording"]))
    }

    /// Whether there is any sample of a profiler.
    pub fn has_series(&self, profiler: &str) -> bool {
        self.0["series"]
            .as_array()
            .is_some_and(|all| all.iter().any(|series| series["profiler"] == profiler))
    }

    /// Weight of all samples with a method on their stack whose type and name begin so. A sample
    /// counts once, also when several functions are that method: an asynchronous one is there twice
    /// while it runs synchronously.
    #[track_caller]
    pub fn total_weight(&self, profiler: &str, type_name: &str, method: &str) -> u64 {
        let list = |value: &Value| value.as_array().expect("a list").clone();
        let starts =
            |text: &Value, with: &str| text.as_str().is_some_and(|text| text.starts_with(with));
        let functions: Vec<bool> = list(&self.0["functions"])
            .iter()
            .map(|function| {
                starts(&function["type_name"], type_name) && starts(&function["method"], method)
            })
            .collect();
        let index = |value: &Value| value.as_u64().expect("an id") as usize;
        let frames: Vec<bool> = list(&self.0["frames"])
            .iter()
            .map(|frame| functions[index(&frame["function"])])
            .collect();
        let mut stacks: Vec<bool> = Vec::new();
        for (parent, frame) in
            list(&self.0["stacks"]["parent"]).iter().zip(&list(&self.0["stacks"]["frame"]))
        {
            stacks.push(frames[index(frame)] || (!parent.is_null() && stacks[index(parent)]));
        }
        let sums = &self.series(profiler)["sums"];
        let rows = list(&sums["stack"]).into_iter().zip(list(&sums["weight"]));
        rows.filter(|(stack, _)| stacks[index(stack)])
            .map(|(_, weight)| weight.as_u64().expect("a weight"))
            .sum()
    }

    /// What a profiler of calls has counted: by the path to it, root first, as `Type.Method`
    /// without namespaces and generic arguments: calls and own nanoseconds. Several ways that read
    /// the same are several rows.
    #[track_caller]
    pub fn calls(&self, profiler: &str) -> Vec<(Vec<String>, u64, u64)> {
        let list = |value: &Value| value.as_array().expect("a list").clone();
        let index = |value: &Value| value.as_u64().expect("an id") as usize;
        let name = |function: &Value| {
            let type_name = open_type(function["type_name"].as_str().expect("a name"));
            let type_name = type_name.rsplit('.').next().unwrap_or(type_name);
            let method = function["method"].as_str().expect("a name");
            let method = if method.starts_with('<') { method } else { open_type(method) };
            if type_name.is_empty() { method.to_owned() } else { format!("{type_name}.{method}") }
        };
        let functions: Vec<String> = list(&self.0["functions"]).iter().map(name).collect();
        let frames: Vec<usize> =
            list(&self.0["frames"]).iter().map(|frame| index(&frame["function"])).collect();
        let mut stacks: Vec<Vec<String>> = Vec::new();
        for (parent, frame) in
            list(&self.0["stacks"]["parent"]).iter().zip(&list(&self.0["stacks"]["frame"]))
        {
            let mut path =
                if parent.is_null() { Vec::new() } else { stacks[index(parent)].clone() };
            path.push(functions[frames[index(frame)]].clone());
            stacks.push(path);
        }
        let sums = &self.series(profiler)["sums"];
        let rows =
            list(&sums["stack"]).into_iter().zip(list(&sums["samples"])).zip(list(&sums["weight"]));
        rows.map(|((stack, samples), weight)| {
            let number = |value: &Value| value.as_u64().expect("a number");
            (stacks[index(&stack)].clone(), number(&samples), number(&weight))
        })
        .collect()
    }

    /// Exact number of exceptions by type name.
    #[track_caller]
    pub fn exceptions(&self) -> BTreeMap<String, u64> {
        assert_eq!(self.0["exceptions"]["exact"], true, "exception counts must be exact");
        let types = self.0["exceptions"]["types"].as_array().expect("types");
        let name = |row: &Value| open_type(row["type_name"].as_str().expect("a name")).to_owned();
        types.iter().map(|row| (name(row), row["count"].as_u64().expect("a count"))).collect()
    }

    /// Number of collections of each generation.
    #[track_caller]
    pub fn collections(&self) -> [u64; 3] {
        let counts = self.0["gc"]["collections"].as_array().expect("collections");
        [0, 1, 2].map(|generation: usize| counts[generation].as_u64().expect("a count"))
    }
}

/// A type name without generic arguments, as we write it (`Box<int>`) or as metadata does
/// (`Box`1`).
pub fn open_type(name: &str) -> &str {
    name.split(['<', '`']).next().unwrap_or(name)
}

/// What lies in a process's private folder for temporary files and is ours.
#[track_caller]
pub fn left_behind(tmp: &Path) -> Vec<String> {
    let names = std::fs::read_dir(tmp).expect("the folder is there");
    let names =
        names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("clrscope")).collect()
}

/// Waits until nothing of us lies in a process's private folder any more.
#[track_caller]
pub fn wait_until_clean(tmp: &Path) {
    let until = Instant::now() + Duration::from_secs(15);
    while !left_behind(tmp).is_empty() {
        assert!(Instant::now() < until, "left behind: {:?}", left_behind(tmp));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether an agent is still mapped into a process, other than those that only make up for main
/// profilers that have left.
pub fn agent_is_mapped(pid: u32) -> bool {
    libraries(pid).iter().any(|name| !name.starts_with("libclrscope-idle-"))
}

/// Waits until no agent is mapped any more: on a busy machine it leaves some time after clrscope
/// has ended.
#[track_caller]
pub fn wait_until_left(pid: u32) {
    let start = Instant::now();
    while agent_is_mapped(pid) {
        assert!(start.elapsed() < Duration::from_secs(60), "stays: {:?}", libraries(pid));
        std::thread::sleep(Duration::from_millis(20));
    }
    if start.elapsed() > Duration::from_secs(5) {
        eprintln!("process {pid}: left after {:.1} s", start.elapsed().as_secs_f64());
    }
}

/// Names of our libraries that are mapped into a process.
pub fn libraries(pid: u32) -> std::collections::BTreeSet<String> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let names = maps.lines().filter_map(|line| line.split("/libclrscope").nth(1));
    names.map(|name| format!("libclrscope{}", name.split(' ').next().unwrap_or_default())).collect()
}

/// Stops a process, and waits until all of its threads stand.
#[track_caller]
pub fn freeze(process: &mut TargetProcess) {
    process.freeze().expect("it runs");
    let until = Instant::now() + Duration::from_secs(10);
    let stands = |tid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    };
    let tasks = format!("/proc/{}/task", process.pid());
    loop {
        let mut threads = std::fs::read_dir(&tasks).expect("it runs").flatten();
        if threads.all(|thread| stands(&thread.file_name().to_string_lossy())) {
            return;
        }
        assert!(Instant::now() < until, "it does not stand still");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A folder for session files that goes with the test.
pub fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("clrscope-test-").tempdir().expect("a folder")
}

/// A file in it.
pub fn file(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}

/// Words of a command line.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// `azmcp` on .NET 10, fed from another thread until the value is dropped.
pub struct Fed {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    feeder: Option<JoinHandle<TargetProcess>>,
    pub pid: u32,
    pub tmp: PathBuf,
}

impl Fed {
    pub fn start(runtime: Runtime) -> Self {
        let mut process = TargetProcess::azmcp_launch(runtime).private_tmp().start();
        process.feed(1).expect("azmcp answers");
        let (pid, tmp) = (process.pid(), process.tmp().expect("a private folder").to_owned());
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = std::sync::Arc::clone(&stop);
        let feeder = std::thread::spawn(move || {
            while !stopped.load(std::sync::atomic::Ordering::Acquire) {
                process.feed(1).expect("azmcp goes on answering");
            }
            process
        });
        Self { stop, feeder: Some(feeder), pid, tmp }
    }

    /// Ends the feeding; the process is alive and well.
    pub fn finish(mut self) -> TargetProcess {
        self.stop.store(true, std::sync::atomic::Ordering::Release);
        self.feeder.take().expect("not finished yet").join().expect("azmcp answered to the end")
    }
}

impl Drop for Fed {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::Release);
    }
}
