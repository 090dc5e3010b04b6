//! What commands that record have in common: options, where the session goes, progress, the end,
//! the summary.

use crate::{
    agent::AgentArgs,
    console::{self, printable},
    duration,
    interrupt::StopOnSignal,
};
use anyhow::Context;
use clap::{ValueEnum, builder::PossibleValue};
use diagnostics::DotnetProcess;
use profilers::Selection;
use recorder::{
    EngineChoice, Progress, RecordError, RecordOptions, Recording, SessionSummary, Summary,
};
use report::ResourceJson;
use schemars::JsonSchema;
use serde::Serialize;
use session::{EndReason, SamplingRate};
use std::{
    convert::Infallible,
    fmt::Write as _,
    fs::File,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Profilers when none is named.
pub const DEFAULT_PROFILERS: &str = "cpu,wall,exceptions,gc";

/// CPU samples per second and thread between heap snapshots, where some are taken.
const LOOKS_RATE: u32 = 100;

/// How often progress is checked.
const POLL: Duration = Duration::from_millis(20);

/// How long the last lines may take to be written.
const DRAWN: Duration = Duration::from_millis(300);

/// How often progress is shown.
const SHOW: Duration = Duration::from_millis(200);

/// What to record.
#[derive(clap::Args, Debug)]
pub struct RecordingArgs {
    /// Profilers to run, with parameters: cpu,wall:rate=50. `clrscope profilers` lists them
    #[arg(short, long = "profilers", value_name = "LIST", default_value = DEFAULT_PROFILERS, value_parser = Profilers::parse)]
    profilers: Profilers,
    /// CPU samples per second and running thread, 1 to 1000
    #[arg(long, value_name = "HZ", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
    /// How to take CPU samples; auto is the best that the machine allows
    #[arg(long, default_value = "auto")]
    engine: Engine,
    #[command(flatten)]
    agent: AgentArgs,
}

/// Where a session goes: to a file that the user named, or into a folder that goes with this.
pub struct SessionFile {
    path: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

impl SessionFile {
    /// `name` is what the file is called where the user named none.
    ///
    /// # Errors
    /// When there is no place for a temporary folder.
    pub fn new(output: Option<&Path>, name: impl AsRef<Path>) -> anyhow::Result<Self> {
        let Some(path) = output else {
            // A session may hold what is private to the program: others may not enter.
            #[cfg_attr(not(unix), expect(unused_mut, reason = "folders have no mode there"))]
            let mut builder = tempfile::Builder::new();
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
            let folder = builder.tempdir().context("cannot make a folder for a temporary file")?;
            return Ok(Self { path: folder.path().join(name), _folder: Some(folder) });
        };
        Ok(Self { path: path.to_owned(), _folder: None })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Heap snapshots of a running process, until they are taken or a signal comes; where they are, and
/// how it went.
///
/// # Errors
/// When the process cannot be recorded.
pub fn take_snapshots(
    process: &DotnetProcess,
    profilers: Vec<Selection>,
    output: Option<&Path>,
    agent: &AgentArgs,
    quiet: bool,
) -> anyhow::Result<(SessionFile, Summary)> {
    let file = SessionFile::new(output, format!("snapshots.{}", session::EXTENSION))?;
    let options = RecordOptions {
        profilers,
        rate_hz: LOOKS_RATE,
        engine: EngineChoice::Auto,
        // It ends with the last snapshot.
        duration: None,
        output: Some(file.path().to_owned()),
        instrument: None,
        live: false,
        sdk_tools: false,
        agent: agent.file(),
    };
    let stop = StopOnSignal::start()?;
    let recording = recorder::attach(process, options)?;
    stop.set(recording.stop_handle());
    let summary = wait(recording, None, quiet)?;
    Ok((file, summary))
}

/// The profilers of a list. A type of its own, because clap takes a `Vec` for an option that may be
/// repeated.
#[derive(Clone, Debug)]
struct Profilers(Vec<Selection>);

impl Profilers {
    fn parse(text: &str) -> Result<Self, String> {
        let selections = Selection::parse_list(text).map_err(|error| error.to_string())?;
        match selections.is_empty() {
            true => Err("no profiler is named; `clrscope profilers` lists them".to_owned()),
            false => Ok(Self(selections)),
        }
    }
}

/// A choice of engine on the command line.
#[derive(Clone, Copy, Debug)]
struct Engine(EngineChoice);

impl ValueEnum for Engine {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Engine; EngineChoice::ALL.len()] = {
            let mut all = [Engine(EngineChoice::Auto); EngineChoice::ALL.len()];
            let mut index = 0;
            while index < all.len() {
                all[index] = Engine(EngineChoice::ALL[index].0);
                index += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        EngineChoice::ALL
            .iter()
            .find(|(choice, _)| *choice == self.0)
            .map(|(_, word)| PossibleValue::new(*word))
    }
}

impl RecordingArgs {
    /// For the recorder.
    pub fn options(
        &self,
        duration: Option<Duration>,
        output: Option<PathBuf>,
        live: bool,
    ) -> RecordOptions {
        RecordOptions {
            profilers: self.profilers.0.clone(),
            rate_hz: self.rate,
            engine: self.engine.0,
            duration,
            output,
            instrument: None,
            live,
            sdk_tools: false,
            agent: self.agent.file(),
        }
    }
}

/// Refuses outputs that cannot be written, before a process is touched for them.
///
/// # Errors
/// With the path and the cause.
pub fn check_outputs<'a>(
    outputs: impl IntoIterator<Item = Option<&'a PathBuf>>,
) -> anyhow::Result<()> {
    outputs.into_iter().flatten().try_for_each(|path| {
        session::check_file(path).with_context(|| format!("cannot write {}", path.display()))
    })
}

/// Writes the event log of a session.
///
/// # Errors
/// When the session cannot be read, or the log not be written.
pub fn write_event_log(session: &Path, log: &Path) -> anyhow::Result<()> {
    let exporter = report::exporter("events").context("event logs are a format of reports")?;
    let shown = || format!("cannot write the event log {}", log.display());
    let input = File::open(session).with_context(|| session.display().to_string())?;
    let mut output = session::create_file(log).with_context(shown)?;
    exporter
        .convert(input, &report::Options::default(), &mut output)
        .with_context(shown)
        .inspect_err(|_| {
            // Half a log is worse than none; the error reported is the first one.
            let _ = std::fs::remove_file(log);
        })?;
    Ok(())
}

/// A name for a session file: of the process, when, and what tells it from others of the same
/// second.
pub fn default_file(name: &str, pid: Option<u32>) -> PathBuf {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut file = sanitised(name);
    if let Some(pid) = pid {
        let _ = write!(file, "-{pid}");
    }
    let _ = write!(file, "-{}.{}", utc(unix), session::EXTENSION);
    file.into()
}

/// A name without what is special in file names; 64 letters are enough.
fn sanitised(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|letter| {
            if letter.is_alphanumeric() || matches!(letter, '.' | '_' | '-') { letter } else { '_' }
        })
        .take(64)
        .collect();
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() { "session".to_owned() } else { name.to_owned() }
}

/// A time as `20261121T090510Z`.
fn utc(unix: u64) -> String {
    let (days, seconds) = (unix / 86_400, unix % 86_400);
    let (year, month, day) = document::format::date(days);
    format!(
        "{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Waits for the end of a recording, and shows progress on standard error where that is a terminal
/// and wanted.
///
/// # Errors
/// Those of the recording.
pub fn wait(
    recording: Recording,
    limit: Option<Duration>,
    quiet: bool,
) -> Result<Summary, RecordError> {
    wait_with(recording, limit, quiet, ())
}

/// What a command adds to the progress that is shown while it waits for its recording.
pub trait Watcher {
    /// Asked all the time; an answer is written to standard error, above the progress.
    fn news(&mut self, _progress: &Progress) -> Option<String> {
        None
    }

    /// Lines to be shown below the progress until the next time: at most `rows` of them, each at
    /// most `columns` wide. Asked only where standard error is a terminal, several times a second.
    fn lines(&mut self, _columns: usize, _rows: usize) -> String {
        String::new()
    }
}

/// One that adds nothing.
impl Watcher for () {}

/// As [`wait`], with what `watcher` adds.
///
/// A terminal on which the progress is shown and that goes away ends the recording, as its SIGHUP
/// does, unless that signal is ignored (`nohup`). What is shown is written by a thread of its own:
/// a terminal that takes no more text (Ctrl-S, a stalled connection) holds neither the recording
/// nor its end up.
///
/// # Errors
/// Those of the recording.
pub fn wait_with(
    recording: Recording,
    limit: Option<Duration>,
    quiet: bool,
    mut watcher: impl Watcher + Send + 'static,
) -> Result<Summary, RecordError> {
    let mut shown = Shown::new(quiet, limit);
    let tied = shown.wanted && !crate::os::hangup_is_ignored();
    let progress = recording.progress_reader();
    let (end, ended) = mpsc::channel::<Infallible>();
    let (drawing, drawn) = mpsc::channel::<Infallible>();
    let draw = move || {
        let _drawing = drawing;
        loop {
            let over = ended.recv_timeout(POLL) != Err(RecvTimeoutError::Timeout);
            let now = progress();
            if let Some(news) = watcher.news(&now) {
                shown.clear();
                console::say(&news);
            }
            if over {
                shown.clear();
                return;
            }
            if shown.is_due() {
                shown.show(&now, &mut watcher);
            }
        }
    };
    let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(draw);
    let thread = thread.map_err(|source| RecordError::Io {
        what: "starting the progress thread".into(),
        source,
    })?;
    while !recording.finishes_within(POLL) {
        if tied && crate::os::hung_up(&io::stderr()) {
            recording.stop_handle().stop();
        }
    }
    drop(end);
    // What comes is that it has ended, if it does.
    if drawn.recv_timeout(DRAWN) != Err(RecvTimeoutError::Timeout)
        && let Err(panic) = thread.join()
    {
        std::panic::resume_unwind(panic);
    }
    recording.wait()
}

/// Lines at the bottom of a terminal: progress, and what is below it.
struct Shown {
    wanted: bool,
    limit: Option<Duration>,
    when: Option<std::time::Instant>,
    /// Lines above the one that the cursor is in.
    above: usize,
}

impl Shown {
    fn new(quiet: bool, limit: Option<Duration>) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { wanted: !quiet && !dumb && io::stderr().is_terminal(), limit, when: None, above: 0 }
    }

    fn is_due(&self) -> bool {
        self.wanted && self.when.is_none_or(|when| when.elapsed() >= SHOW)
    }

    fn show(&mut self, progress: &Progress, watcher: &mut impl Watcher) {
        let (columns, rows) = crate::os::error_terminal().unwrap_or((80, 24));
        let lines = watcher.lines(columns - 1, rows.saturating_sub(2));
        let mut text = self.back();
        let progress = progress_text(progress, self.limit);
        for (index, line) in std::iter::once(progress.as_str()).chain(lines.lines()).enumerate() {
            if index > 0 {
                text.push('\n');
            }
            text.extend(line.chars().take(columns - 1));
            // Erase to the end of the line.
            text.push_str("\x1b[K");
            self.above = index;
        }
        // And what was below.
        text.push_str("\x1b[J");
        let _ = io::stderr().lock().write_all(text.as_bytes());
        self.when = Some(std::time::Instant::now());
    }

    fn clear(&mut self) {
        if self.when.take().is_some() {
            let _ = write!(io::stderr().lock(), "{}\x1b[J", self.back());
        }
    }

    /// To the beginning of the first line.
    fn back(&mut self) -> String {
        match std::mem::take(&mut self.above) {
            0 => "\r".to_owned(),
            above => format!("\r\x1b[{above}A"),
        }
    }
}

fn progress_text(progress: &Progress, limit: Option<Duration>) -> String {
    let mut text = progress.stage.clone();
    if progress.elapsed > Duration::ZERO {
        let _ = write!(text, "  {:.1} s", progress.elapsed.as_secs_f64());
        match limit {
            Some(limit) => _ = write!(text, " of {}", duration::show(limit)),
            None => text.push_str(" (Ctrl-C ends)"),
        }
    }
    for (profiler, samples) in &progress.samples {
        let _ = write!(text, "  {profiler} {samples}");
    }
    if progress.dropped > 0 {
        let _ = write!(text, "  dropped {}", progress.dropped);
    }
    text
}

/// What was recorded, for people.
pub fn summary_text(summary: &Summary) -> String {
    let mut text = String::new();
    for session in &summary.sessions {
        session_text(&mut text, session);
    }
    if summary.sessions.len() > 1 {
        processes_text(&mut text, &summary.sessions);
    }
    let files: Vec<String> = summary
        .sessions
        .iter()
        .filter_map(|session| session.path.as_ref())
        .map(|path| quoted(path))
        .collect();
    if let Some(file) = files.first() {
        let html = format!("{}.html", file.trim_end_matches(".clrscope"));
        let _ = write!(
            text,
            "\nNext:\n  clrscope report {file}\n  clrscope report {file} --format html -o {html}\n"
        );
    }
    text
}

/// All processes with their files, where there are several.
fn processes_text(text: &mut String, sessions: &[SessionSummary]) {
    let file = |session: &SessionSummary| {
        session.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    };
    let width =
        sessions.iter().map(|session| file(session).chars().count()).max().unwrap_or_default();
    let _ = writeln!(text, "\nRecorded {} processes:", sessions.len());
    for session in sessions {
        let command = printable(&session.command_line);
        let _ = writeln!(text, "  {:<width$}  {:>7}  {command}", file(session), session.pid);
    }
}

fn session_text(text: &mut String, session: &SessionSummary) {
    let how = match session.end {
        EndReason::Stopped => "",
        EndReason::ProcessExited => ", until the process ended",
        EndReason::AgentLost => ", until the connection to it was lost",
    };
    let _ = writeln!(
        text,
        "Recorded {} ({}) for {}{how}",
        printable(&session.process_name),
        session.pid,
        duration::show(session.duration)
    );
    let samples: Vec<String> =
        session.samples.iter().map(|(profiler, samples)| format!("{profiler} {samples}")).collect();
    if !samples.is_empty() {
        let _ = writeln!(text, "  samples  {}", samples.join(", "));
    }
    if !session.engine.is_empty() {
        let _ = writeln!(text, "  engine   {}", session.engine);
    }
    if let Some(rate) =
        session.rate.as_ref().map(ToString::to_string).filter(|rate| !rate.is_empty())
    {
        let _ = writeln!(text, "  rate     {rate}");
    }
    let observer = &session.observer;
    let _ = writeln!(
        text,
        "  cost     {} CPU in the process, {} suspended, {} CPU outside",
        duration::show(Duration::from_nanos(observer.target_cpu)),
        duration::show(Duration::from_nanos(observer.target_stopped)),
        duration::show(Duration::from_nanos(observer.own_cpu))
    );
    let dropped: Vec<String> = observer
        .dropped
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    let _ = writeln!(
        text,
        "  dropped  {}",
        if dropped.is_empty() { "nothing".to_owned() } else { dropped.join(", ") }
    );
    for note in &session.notes {
        let _ = writeln!(text, "  note     {}", printable(note));
    }
    if let Some(path) = &session.path {
        let _ = writeln!(text, "  file     {}", path.display());
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |letter: char| {
        letter.is_alphanumeric() || matches!(letter, '.' | '_' | '-' | '/' | '+' | ':' | '@')
    };
    match !text.is_empty() && text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// What was recorded, in one file for each process.
#[derive(Serialize, JsonSchema)]
pub struct SummaryJson<'a> {
    exit_code: Option<i32>,
    sessions: Vec<SessionJson<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct SessionJson<'a> {
    pid: u32,
    process: String,
    command: String,
    file: Option<String>,
    duration_seconds: f64,
    engine: Option<String>,
    rate_hz: Option<u32>,
    achieved_hz: Option<f64>,
    /// Only where the rate that was achieved differs noticeably.
    rate_limit: Option<String>,
    kernel_tick_hz: Option<u32>,
    threads_without_timer: Option<u64>,
    samples: std::collections::BTreeMap<&'static str, u64>,
    dropped: std::collections::BTreeMap<String, u64>,
    target_cpu_seconds: f64,
    target_stopped_seconds: f64,
    target_memory_bytes: u64,
    resources: Vec<ResourceJson<'a>>,
    own_cpu_seconds: f64,
    notes: Vec<String>,
    end: &'static str,
    attach_to_initialize_seconds: Option<f64>,
    attach_to_first_sample_seconds: Option<f64>,
    detach_seconds: Option<f64>,
}

impl<'a> SessionJson<'a> {
    fn of(session: &'a SessionSummary) -> Self {
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        Self {
            pid: session.pid,
            process: session.process_name.clone(),
            command: session.command_line.clone(),
            file: session.path.as_ref().map(|path| path.display().to_string()),
            duration_seconds: session.duration.as_secs_f64(),
            engine: Some(session.engine.clone()).filter(|engine| !engine.is_empty()),
            rate_hz: session.rate.as_ref().map(|rate| rate.asked_hz),
            achieved_hz: session.rate.as_ref().and_then(SamplingRate::achieved_hz),
            rate_limit: session
                .rate
                .as_ref()
                .filter(|rate| rate.differs())
                .and_then(|rate| rate.limit.clone()),
            kernel_tick_hz: session.rate.as_ref().and_then(|rate| rate.tick_hz),
            threads_without_timer: session.rate.as_ref().map(|rate| rate.threads_without_timer),
            samples: session.samples.iter().copied().collect(),
            dropped: session.observer.dropped.iter().cloned().collect(),
            target_cpu_seconds: seconds(session.observer.target_cpu),
            target_stopped_seconds: seconds(session.observer.target_stopped),
            target_memory_bytes: session.observer.target_memory,
            resources: session.resources.iter().map(Into::into).collect(),
            own_cpu_seconds: seconds(session.observer.own_cpu),
            notes: session.notes.clone(),
            end: match session.end {
                EndReason::Stopped => "stopped",
                EndReason::ProcessExited => "process-exited",
                EndReason::AgentLost => "agent-lost",
            },
            attach_to_initialize_seconds: session
                .timings
                .attach_to_initialize
                .map(|time| time.as_secs_f64()),
            attach_to_first_sample_seconds: session
                .timings
                .attach_to_first_sample
                .map(|time| time.as_secs_f64()),
            detach_seconds: session.timings.detach.map(|time| time.as_secs_f64()),
        }
    }
}

/// What was recorded, for programs.
pub fn summary_json(summary: &Summary) -> SummaryJson<'_> {
    SummaryJson {
        exit_code: summary.exit_code,
        sessions: summary.sessions.iter().map(SessionJson::of).collect(),
    }
}

/// What cut a recording off before its time, if something did. A process may end when no duration
/// was asked for. `kept` is whether the session file stays.
pub fn cut_off(summary: &Summary, timed: bool, kept: bool) -> Option<String> {
    let session = summary.sessions.iter().find(|session| match session.end {
        EndReason::Stopped => false,
        EndReason::ProcessExited => timed,
        EndReason::AgentLost => true,
    })?;
    let what = match session.end {
        // The agent ended it, and has said why.
        EndReason::AgentLost if session.notes.iter().any(|note| note == wire::OUT_OF_MEMORY) => {
            format!("process {}: {}", session.pid, wire::OUT_OF_MEMORY)
        }
        EndReason::AgentLost => format!("the connection to process {} was lost", session.pid),
        _ => format!("process {} ended", session.pid),
    };
    let kept = match &session.path {
        Some(path) if kept => {
            format!("{} has what was recorded before; `clrscope report` reads it", path.display())
        }
        _ => "no session file was to be kept".to_owned(),
    };
    let duration = duration::show(session.duration);
    if what.ends_with(wire::OUT_OF_MEMORY) {
        return Some(format!("{what}; {kept}"));
    }
    Some(format!("{what} before the recording was complete, after {duration}; {kept}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::ObserverStatus;

    #[test]
    fn times_are_civil() {
        for (unix, text) in [
            (0, "19700101T000000Z"),
            (951_782_400, "20000229T000000Z"),
            (1_795_251_910, "20261121T090510Z"),
            (4_107_542_399, "21000228T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(utc(unix), text);
        }
    }

    #[test]
    fn file_names_are_harmless() {
        assert_eq!(sanitised("Shop.Api"), "Shop.Api");
        assert_eq!(sanitised("../etc/pass wd\n"), "_etc_pass_wd_");
        assert_eq!(sanitised("--"), "session");
        let file = default_file("web", Some(12)).display().to_string();
        assert!(file.starts_with("web-12-2") && file.ends_with("Z.clrscope"), "{file}");
    }

    #[test]
    fn lists_of_profilers() {
        let parsed = Profilers::parse(DEFAULT_PROFILERS).unwrap();
        assert_eq!(
            parsed.0.iter().map(|selection| selection.spec.id).collect::<Vec<_>>(),
            ["cpu", "wall", "exceptions", "gc"]
        );
        assert!(Profilers::parse(" , ").unwrap_err().contains("no profiler"));
        assert!(Profilers::parse("cpu,nope").unwrap_err().contains("clrscope profilers"));
    }

    fn summary() -> Summary {
        Summary {
            sessions: vec![SessionSummary {
                pid: 12,
                process_name: "web".into(),
                command_line: "dotnet web.dll --urls\n".into(),
                path: Some("my files/web.clrscope".into()),
                duration: Duration::from_secs(10),
                engine: "kernel ring".into(),
                rate: Some(SamplingRate {
                    asked_hz: 999,
                    samples: 1000,
                    cpu: 4_000_000_000,
                    tick_hz: Some(250),
                    limit: Some("the kernel ticks at 250 Hz".into()),
                    ..SamplingRate::default()
                }),
                samples: vec![("cpu", 990), ("gc", 3)],
                observer: ObserverStatus {
                    target_cpu: 12_000_000,
                    dropped: vec![("ring full".into(), 2), ("late".into(), 0)],
                    ..ObserverStatus::default()
                },
                resources: Vec::new(),
                notes: vec!["an APM holds the main profiler slot".into()],
                end: EndReason::ProcessExited,
                timings: recorder::Timings {
                    attach_to_initialize: Some(Duration::from_micros(2500)),
                    ..recorder::Timings::default()
                },
            }],
            exit_code: None,
            nested: vec![],
        }
    }

    #[test]
    fn a_summary_names_what_was_lost_and_what_is_next() {
        let text = summary_text(&summary());
        for part in [
            "Recorded web (12) for 10.0s, until the process ended",
            "cpu 990, gc 3",
            "12.0ms CPU in the process",
            "dropped  2 ring full\n",
            "rate     achieved 250 Hz instead of 999 Hz: the kernel ticks at 250 Hz\n",
            "note     an APM holds the main profiler slot",
            "clrscope report 'my files/web.clrscope' --format html",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
    }

    #[test]
    fn several_processes_are_listed_with_their_files_and_commands() {
        let mut summary = summary();
        assert!(!summary_text(&summary).contains("processes:"));
        let mut compiler = summary.sessions[0].clone();
        (compiler.pid, compiler.path) = (4567, Some("x.clrscope".into()));
        compiler.command_line = "dotnet exec csc.dll".into();
        summary.sessions.push(compiler);
        let text = summary_text(&summary);
        let expected = concat!(
            "\nRecorded 2 processes:\n",
            "  my files/web.clrscope       12  dotnet web.dll --urls\\u{a}\n",
            "  x.clrscope                4567  dotnet exec csc.dll\n\nNext:\n",
        );
        assert!(text.contains(expected), "{text}");
        let json = serde_json::to_value(summary_json(&summary)).unwrap();
        assert_eq!(json["sessions"][1]["command"], "dotnet exec csc.dll");
    }

    #[test]
    fn a_recording_is_cut_off_by_what_was_not_planned() {
        let mut summary = summary();
        assert!(
            cut_off(&summary, true, true)
                .is_some_and(|message| message.starts_with("process 12 ended before"))
        );
        assert_eq!(cut_off(&summary, false, true), None);
        summary.sessions[0].end = EndReason::AgentLost;
        let lost = |kept| cut_off(&summary, false, kept).unwrap();
        assert!(
            lost(true).contains("connection to process 12 was lost")
                && lost(true).contains("clrscope report")
        );
        assert!(!lost(false).contains("clrscope report"), "{}", lost(false));
        summary.sessions[0].end = EndReason::Stopped;
        assert_eq!(cut_off(&summary, true, true), None);
    }

    #[test]
    fn a_summary_in_json() {
        let json = serde_json::to_value(summary_json(&summary())).unwrap();
        assert_eq!(
            (&json["sessions"][0]["rate_hz"], &json["sessions"][0]["achieved_hz"]),
            (&999.into(), &250.0.into())
        );
        assert_eq!(json["sessions"][0]["rate_limit"], "the kernel ticks at 250 Hz");
        let session = &json["sessions"][0];
        assert_eq!(
            (&session["samples"]["cpu"], &session["end"]),
            (&990.into(), &"process-exited".into())
        );
        assert_eq!(session["dropped"]["ring full"], 2);
        assert_eq!(session["attach_to_initialize_seconds"], 0.0025);
        assert!(session["detach_seconds"].is_null());
    }

    #[test]
    fn progress_in_one_line() {
        let progress = Progress {
            stage: "recording".into(),
            elapsed: Duration::from_millis(3200),
            samples: vec![("cpu", 320)],
            dropped: 0,
            bytes: 1,
            ..Progress::default()
        };
        assert_eq!(
            progress_text(&progress, Some(Duration::from_secs(10))),
            "recording  3.2 s of 10.0s  cpu 320"
        );
        let endless = progress_text(&progress, None);
        assert_eq!(endless, "recording  3.2 s (Ctrl-C ends)  cpu 320");
    }
}
