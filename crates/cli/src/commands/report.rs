//! `clrscope report`: a session file in a form for people or for other tools.

use super::{
    heap,
    heap::{SnapshotPart, SnapshotReport},
    tasks,
};
use crate::{
    console, duration,
    exit::{Code, failure},
    foreign::SessionFile,
    session_file,
};
use anyhow::Context;
use clap::builder::{PossibleValue, PossibleValuesParser};
use document::{Document, Section};
use profile::{Filter, NameStyle, Profile, SeriesKind};
use report::{EXPORTERS, Exporter, Options, SnapshotSection};
use std::{
    fs::{self, File},
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    time::Duration,
};

/// Write a recorded session as text, HTML, or a format of another tool
///
/// Reads files of other tools, too: pprof, collapsed stacks, speedscope, Firefox Profiler,
/// .nettrace and .gcdump.
///
/// If the session has heap snapshots, shows what `clrscope heap` and `clrscope async` show. A
/// session that was cut short or is damaged is reported as far as it can be read; the exit code
/// then says so.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Session file, or a file of another tool
    #[arg(value_name = "FILE")]
    session: PathBuf,
    /// Format of the report
    #[arg(short, long, default_value = "text", value_parser = formats())]
    format: String,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only the samples of this profiler
    #[arg(long, value_name = "PROFILER", value_parser = PossibleValuesParser::new(SeriesKind::ALL.map(SeriesKind::id)))]
    profiler: Option<String>,
    /// Only threads with this in their name, or with this id
    #[arg(long, value_name = "NAME|ID")]
    thread: Option<String>,
    /// Only stacks with a function that has this in its full name
    #[arg(long, value_name = "TEXT")]
    function: Option<String>,
    /// Leave out what came before this time since the start of the recording
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    from: Option<Duration>,
    /// Leave out what came after this time since the start of the recording
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    to: Option<Duration>,
    /// How functions are written: with namespaces and parameters, with namespaces, or without both
    #[arg(long, default_value = "full", value_parser = ["full", "plain", "short"])]
    names: String,
    /// Leave out source files and lines
    #[arg(long)]
    no_lines: bool,
    /// Rows of each list in text and Markdown, and of heap snapshots in all formats
    #[arg(long, value_name = "NUMBER", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rows: u32,
}

impl Args {
    fn format(&self) -> &str {
        if self.json { "json" } else { &self.format }
    }
}

/// All exporters, as clap takes them.
fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(
        EXPORTERS.iter().map(|exporter| PossibleValue::new(exporter.id).help(exporter.summary)),
    )
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let exporter = report::exporter(args.format())
        .ok_or_else(|| failure(Code::Usage, format!("there is no format `{}`", args.format())))?;
    let options = options(args)?;
    if exporter.binary && args.output.is_none() && io::stdout().is_terminal() {
        return Err(failure(
            Code::Usage,
            format!("{} is a binary format; write it to a file with -o FILE", exporter.id),
        ));
    }
    let file = || format!("{}", args.session.display());
    let source = SessionFile::of(&args.session)?;
    let session = session_file::open(source.path())?;
    let mut problems = Vec::new();
    let snapshots =
        |profile: &Profile| snapshots(source.path(), profile, args.rows as usize, &mut problems);
    let profile = match &args.output {
        Some(path) if same_file(&args.session, path) => {
            return Err(failure(
                Code::Usage,
                format!("the report would overwrite the session {}", file()),
            ));
        }
        Some(path) => {
            let mut output = LateFile::new(path);
            let converted = exporter.convert_with(session, &options, &mut output, snapshots);
            if converted.is_err() && output.is_made() {
                // Half a report is worse than none; the error reported is the first one.
                drop(fs::remove_file(path));
            }
            converted
        }
        None => exporter.convert_with(session, &options, &mut console::output(), snapshots),
    }
    .with_context(file)?;
    let code = warn(args, exporter, &profile);
    for problem in &problems {
        console::say(&format!("error: {}: {problem}", args.session.display()));
    }
    Ok(if problems.is_empty() { code } else { Code::BadSession })
}

/// What reports say of heap snapshots.
pub const SNAPSHOT_PARTS: &[SnapshotPart] = &[heap::PART, tasks::PART];

/// What heap snapshots say, where the recording was to take some, in lists of at most `rows` rows;
/// and what is wrong with them.
pub fn snapshots(
    path: &Path,
    profile: &Profile,
    rows: usize,
    problems: &mut Vec<String>,
) -> Vec<SnapshotSection> {
    let mut sections = Vec::new();
    for part in SNAPSHOT_PARTS.iter().filter(|part| profile.run(part.profiler).is_some()) {
        let (id, title) = (part.profiler, part.title);
        let report = (part.report)(path, rows).unwrap_or_else(|error| {
            let why = console::describe(&error);
            let mut section = Section::new(title);
            section.say(&why);
            SnapshotReport {
                document: Document { sections: vec![section] },
                json: serde_json::Value::Null,
                problem: Some(why),
            }
        });
        problems.extend(report.problem);
        let SnapshotReport { document, json, .. } = report;
        sections.push(SnapshotSection { id, title, document, json });
    }
    sections
}

fn options(args: &Args) -> anyhow::Result<Options> {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let (from, to) = (args.from.map_or(0, nanos), args.to.map_or(u64::MAX, nanos));
    if from >= to {
        return Err(failure(Code::Usage, "--from must be before --to"));
    }
    let series = args
        .profiler
        .as_deref()
        .and_then(|id| SeriesKind::ALL.into_iter().find(|kind| kind.id() == id));
    Ok(Options {
        series,
        filter: Filter {
            time: (args.from.is_some() || args.to.is_some()).then_some(from..to),
            thread: args.thread.clone(),
            states: None,
            text: args.function.clone(),
        },
        lines: !args.no_lines,
        names: match args.names.as_str() {
            "short" => NameStyle::SHORT,
            "plain" => NameStyle::PLAIN,
            _ => NameStyle::FULL,
        },
        width: console::width().unwrap_or(Options::default().width),
        colour: args.output.is_none() && console::colours(&io::stdout()),
        rows: args.rows as usize,
        ..Options::default()
    })
}

/// Says where the report is and whether the session was whole.
fn warn(args: &Args, exporter: &Exporter, profile: &Profile) -> Code {
    if let Some(path) = &args.output
        && io::stderr().is_terminal()
    {
        console::say(&format!("{} ({})", path.display(), exporter.summary));
    }
    let file = args.session.display();
    if let Some(damage) = &profile.damage {
        console::say(&format!("error: {file}: {damage}; the report covers what came before"));
        return Code::BadSession;
    }
    if profile.cut_short {
        console::say(&format!(
            "error: {file} was cut short: the recording did not end in order, or the file is \
             incomplete; the report covers what is there"
        ));
        return Code::BadSession;
    }
    Code::Success
}

/// Whether two paths lead to the same file, as far as that can be determined.
pub fn same_file(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// A file that is made with its first byte, so that a session that cannot be read leaves no empty
/// report behind.
pub struct LateFile<'a> {
    path: &'a Path,
    file: Option<File>,
}

impl<'a> LateFile<'a> {
    pub fn new(path: &'a Path) -> Self {
        Self { path, file: None }
    }

    /// Whether there is a file now.
    pub fn is_made(&self) -> bool {
        self.file.is_some()
    }
}

impl Write for LateFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let failed = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot write {}: {error}", self.path.display()))
        };
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(session::create_file(self.path).map_err(failed)?),
        };
        file.write(bytes).map_err(failed)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}
