//! `clrscope launch`: a command from its first instruction on.

use crate::{
    console, duration,
    exit::{self, Code},
    os::{self, Signal, SignalWatch},
    recording::{self, RecordingArgs},
    traced::rules::TraceArgs,
};
use recorder::{RecordError, Recording, Summary};
use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How often the command's process id is checked.
const POLL: Duration = Duration::from_millis(20);

/// Run a command and record it from the first instruction on
///
/// Every .NET process that the command is or starts is recorded, each into a file of its own. Tools
/// of the .NET SDK (its command line, MSBuild nodes, compilers, servers) are recorded only with
/// --children. The file of -o is that of the program: with `dotnet run` the program that it runs,
/// with `dotnet test` the test host, with `dotnet build` MSBuild.
///
/// The command gets clrscope's standard input, output and error, and its signals. clrscope exits
/// with the command's exit code. What clrscope itself prints goes to standard error. If the command
/// has no .NET process, or if clrscope fails, the exit code is 125, unless the command has one of
/// its own.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    recording: RecordingArgs,
    /// Count and time the calls of these methods from the start, as `clrscope trace` does; may be
    /// repeated. With `-p trace` nothing else is recorded
    #[arg(long, value_name = "PATTERN")]
    trace: Vec<String>,
    /// Event log to write, with what the profilers recorded, one JSON object per line, for
    /// `clrscope validate`; with --trace also the code of each method before and after. For further
    /// processes, a process id is added to the name
    #[arg(long, value_name = "FILE")]
    event_log: Option<PathBuf>,
    #[command(flatten, next_help_heading = "For --trace")]
    traced: TraceArgs,
    /// Also record the tools of the .NET SDK that the command is or starts: its command line,
    /// MSBuild nodes, compilers, servers
    #[arg(long)]
    children: bool,
    /// End the recording after this time; the command continues: 10s, 1m30s, 500ms
    #[arg(short, long, value_parser = duration::parse_positive)]
    duration: Option<Duration>,
    /// Session file to write; for further processes, a process id is added to the name [default:
    /// <command>-<time>.clrscope]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the summary as JSON, to standard error
    #[arg(long)]
    json: bool,
    /// Show no summary
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    /// Command with its arguments, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    recording::check_outputs([args.event_log.as_ref()])
        .map_err(|error| exit::failure(Code::LaunchFailed, console::describe(&error)))?;
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| recording::default_file(&name_of(&args.command), None));
    let mut options = args.recording.options(args.duration, Some(output), false);
    options.sdk_tools = args.children;
    if !args.trace.is_empty() || args.traced.has_file() {
        options.instrument = Some(args.traced.rules(&args.trace)?);
        // By its name it says that nothing else is to be recorded.
        options.profilers.retain(|selection| !selection.spec.needs_rules);
        options.profilers.push(args.traced.profiler(args.event_log.is_some())?);
    }
    run_command(&args.command, options, true, |summary| finish(args, summary))
}

/// What a command is called in names of files.
pub(super) fn name_of(command: &[OsString]) -> String {
    command
        .first()
        .map(Path::new)
        .and_then(Path::file_stem)
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Runs and records a command, reports what was recorded, and ends as the command did. `kept` is
/// whether the session files are kept.
pub(super) fn run_command(
    command: &[OsString],
    options: recorder::RecordOptions,
    kept: bool,
    told: impl FnOnce(&Summary) -> anyhow::Result<()>,
) -> anyhow::Result<Code> {
    let recorded = Passing::start()
        .map_err(|source| RecordError::Io { what: "installing signal handlers".into(), source })
        .and_then(|passing| record(passing, command.to_vec(), options));
    let error: anyhow::Error = match recorded {
        Ok(summary) => {
            told(&summary)?;
            if let (Some(nested), true) = (summary.nested.first(), summary.sessions.is_empty()) {
                console::say(&format!(
                    "note: the command has called `clrscope launch` itself (process {nested}), \
                     which recorded its program; this launch writes no file"
                ));
            }
            // The command's own end is its own affair; a lost connection is not.
            if let Some(message) = recording::cut_off(&summary, false, kept) {
                console::say(&format!("warning: {message}"));
            }
            return Ok(summary.exit_code.map_or(Code::Success, command_code));
        }
        Err(error) => error.into(),
    };
    if let Some(RecordError::NothingProfiled { exit_code, .. }) = error.downcast_ref()
        && *exit_code != 0
    {
        console::complain(&error);
        return Ok(command_code(*exit_code));
    }
    match exit::of(&error) {
        Code::NotExecutable | Code::NotFound | Code::Internal => Err(error),
        _ => Err(exit::failure(Code::LaunchFailed, console::describe(&error))),
    }
}

fn record(
    mut passing: Passing,
    command: Vec<OsString>,
    options: recorder::RecordOptions,
) -> Result<Summary, RecordError> {
    let recording = recorder::launch(command, options)?;
    // Progress would be written between the lines of the command.
    passing.follow(&recording);
    while !recording.finishes_within(POLL) {
        passing.follow(&recording);
    }
    recording.wait()
}

fn finish(args: &Args, summary: &Summary) -> anyhow::Result<()> {
    for (index, session) in summary.sessions.iter().enumerate() {
        if let (Some(log), Some(path)) = (&args.event_log, &session.path) {
            let further = || log.with_extension(format!("{}.jsonl", session.pid));
            recording::write_event_log(path, &if index == 0 { log.clone() } else { further() })?;
        }
    }
    match (args.json, args.quiet) {
        (true, _) => console::say(&document::plain::json(&api::SummaryJson::of(summary))?),
        (false, false) => console::say(recording::summary_text(summary).trim_end()),
        (false, true) => {}
    }
    Ok(())
}

/// The exit code of the command as ours. Systems with larger codes than a byte show them cut, as a
/// shell does.
fn command_code(code: i32) -> Code {
    if code == 0 {
        Code::Success
    } else {
        Code::Command(u8::try_from(code & 0xff).unwrap_or(1).max(1))
    }
}

/// Passes our signals to the command.
struct Passing {
    shared: Arc<Shared>,
    _watch: SignalWatch,
}

/// What is known of the command, all at once: a signal is passed on, or kept for it, or too late.
#[derive(Default)]
struct Shared(Mutex<Passed>);

#[derive(Default)]
struct Passed {
    /// Process id of the command, 0 before it runs and after its end.
    pid: u32,
    /// Whether it has run.
    ran: bool,
    /// Signals that came before it ran.
    early: Vec<Signal>,
}

impl Passing {
    fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let pass = Arc::clone(&shared);
        // What is ignored stays so, and the command inherits that, as it would without us.
        let mut passed = vec![
            Signal::Interrupt,
            Signal::Terminate,
            Signal::Hangup,
            Signal::Quit,
            Signal::User1,
            Signal::User2,
        ];
        passed.retain(|signal| !os::is_ignored(*signal));
        let watch = SignalWatch::start(&passed, move |signal| pass.pass(signal))?;
        Ok(Self { shared, _watch: watch })
    }

    /// Looks at whether the command runs.
    fn follow(&mut self, recording: &Recording) {
        let pid = recording.command_pid().unwrap_or(0);
        let mut passed = self.shared.lock();
        passed.pid = pid;
        if pid != 0 && !passed.ran {
            passed.ran = true;
            std::mem::take(&mut passed.early).into_iter().for_each(|signal| send(pid, signal));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Passed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, signal: Signal) {
        // The terminal has sent these to the whole foreground group already.
        if matches!(signal, Signal::Interrupt | Signal::Quit) && os::in_foreground() {
            return;
        }
        let mut passed = self.lock();
        match passed.pid {
            0 if passed.ran => {}
            0 => passed.early.push(signal),
            pid => send(pid, signal),
        }
    }
}

/// Sends a signal to the command, which may have ended a moment ago.
fn send(pid: u32, signal: Signal) {
    let _ = os::send(pid, signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_commands_are_never_cut_to_success() {
        assert_eq!(command_code(0), Code::Success);
        assert_eq!(command_code(3), Code::Command(3));
        assert_eq!(command_code(143), Code::Command(143));
        assert_eq!(command_code(256), Code::Command(1));
        assert_eq!(command_code(-1), Code::Command(255));
    }
}
