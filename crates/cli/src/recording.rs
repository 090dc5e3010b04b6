//! What commands that record have in common: options, where the session goes, progress, the end,
//! the summary.

mod progress;
mod summary;

pub use progress::{Watcher, wait, wait_with};
pub use summary::{cut_off, summary_text};

use crate::agent::AgentArgs;
use crate::interrupt::{self, StopOnSignal};
use anyhow::Context;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use diagnostics::DotnetProcess;
use profilers::Selection;
use recorder::{EngineChoice, RecordError, RecordOptions, Recording, Summary};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// CPU samples per second and thread between heap snapshots, where some are taken.
const LOOKS_RATE: u32 = 100;

/// What to record.
#[derive(clap::Args, Debug)]
pub struct RecordingArgs {
    /// Profilers to run, with parameters: cpu,wall:rate=50. `clrscope profilers` lists them
    #[arg(short, long = "profilers", value_name = "LIST", default_value = profilers::DEFAULT, value_parser = Profilers::parse)]
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

/// Who waits for recordings, and may end them.
pub trait Attendant {
    /// Something begins that is no recording.
    fn begins(&self, _what: &str) {}

    /// Waits for the end of a recording, which `limit` is the planned length of.
    ///
    /// # Errors
    /// Those of the recording.
    fn wait(&self, recording: Recording, limit: Option<Duration>) -> Result<Summary, RecordError>;

    /// Whether an end was asked for.
    fn is_ending(&self) -> bool;
}

/// Who has started a command: signals end recordings, and standard error shows how far they are.
#[derive(Debug)]
pub struct AtTerminal {
    stop: StopOnSignal,
    quiet: bool,
}

impl AtTerminal {
    /// Watches for signals from now on.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn start(quiet: bool) -> std::io::Result<Self> {
        Ok(Self { stop: StopOnSignal::start()?, quiet })
    }
}

impl Attendant for AtTerminal {
    fn wait(&self, recording: Recording, limit: Option<Duration>) -> Result<Summary, RecordError> {
        self.stop.set(recording.stop_handle());
        wait(recording, limit, self.quiet)
    }

    fn is_ending(&self) -> bool {
        interrupt::requested()
    }
}

/// Heap snapshots of a running process, until they are taken or an end is asked for; where they
/// are, and how it went.
///
/// # Errors
/// When the process cannot be recorded.
pub fn take_snapshots(
    process: &DotnetProcess,
    profilers: Vec<Selection>,
    output: Option<&Path>,
    agent: &AgentArgs,
    attendant: &dyn Attendant,
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
    let summary = attendant.wait(recorder::attach(process, options)?, None)?;
    Ok((file, summary))
}

/// The profilers of a list. A type of its own, because clap takes a `Vec` for an option that may be
/// repeated.
#[derive(Clone, Debug)]
pub struct Profilers(pub Vec<Selection>);

impl Profilers {
    pub fn parse(text: &str) -> Result<Self, String> {
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
    format!("{}.{}", api::session_name(name, pid), session::EXTENSION).into()
}

#[cfg(test)]
mod tests {
    use super::progress::progress_text;
    use super::*;
    use api::SummaryJson;
    use recorder::{Progress, SessionSummary};
    use session::ObserverStatus;
    use session::{EndReason, SamplingRate};

    #[test]
    fn lists_of_profilers() {
        let parsed = Profilers::parse(profilers::DEFAULT).unwrap();
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
        let json = serde_json::to_value(SummaryJson::of(&summary)).unwrap();
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
        let json = serde_json::to_value(SummaryJson::of(&summary())).unwrap();
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
