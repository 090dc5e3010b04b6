//! `clrscope heap`: what is on the heap of a process and what retains it.

use crate::{
    console,
    exit::{Code, failure},
    heap::{
        source::{self, MemoryArgs, Source, TakeArgs},
        view,
    },
    recording::AtTerminal,
};
use ::heap::{Extent, ReportOptions, Snapshot, growth::SnapshotSummary};
use document::Document;
use profile::Profile;
use profilers::PROFILERS;
use schemars::JsonSchema;
use std::path::{Path, PathBuf};

/// Take or read a heap snapshot: what is on the heap, and what retains it
///
/// Takes a heap snapshot of a running process: a full collection, during which the process is
/// paused. If you name a session file with heap snapshots, or a .gcdump file of dotnet-gcdump or
/// PerfView, that file is read instead.
///
/// --histogram and --roots take a partial snapshot. --roots forces no collection: it waits, for at
/// most 30 seconds, until the program itself collects its youngest objects. The process is then
/// paused for some milliseconds more than it would be anyway.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Process id, name as `clrscope ps` shows it, or file
    #[arg(value_name = "PID|NAME|FILE")]
    target: String,
    #[command(flatten)]
    take: TakeArgs,
    /// Only count objects by type, without what retains them
    #[arg(long, conflicts_with_all = ["roots", "gcdump", "type_name"])]
    histogram: bool,
    /// Only show roots and what they refer to
    #[arg(long, conflicts_with_all = ["gcdump", "type_name"])]
    roots: bool,
    /// Also write the snapshot as a file for PerfView and Visual Studio
    #[arg(long, value_name = "FILE")]
    gcdump: Option<PathBuf>,
    /// Which snapshot of a session file, from 1 on [default: the last one]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    snapshot: Option<u32>,
    /// Also show what retains the objects of this type: its name, with or without namespace
    #[arg(long = "type", value_name = "NAME")]
    type_name: Option<String>,
    /// Retention paths to show for that type
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    paths: u32,
    /// Rows of each list
    #[arg(long, value_name = "NUMBER", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    top: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let mut damage = None;
    crate::recording::check_outputs([args.gcdump.as_ref()])?;
    let snapshot = match Source::find(&args.target)? {
        Source::Gcdump(path) => source::read_gcdump(&path, args.take.memory())?,
        Source::Session(path) => {
            let (snapshot, reading) = one_look(&path, args.take.memory(), args.snapshot)?;
            damage = reading.damage.map(|damage| format!("{}: {damage}", path.display()));
            snapshot
        }
        Source::Process(target) => {
            let extent = match (args.histogram, args.roots) {
                (true, _) => Extent::Histogram,
                (_, true) => Extent::Roots,
                _ => Extent::All,
            };
            let attendant = AtTerminal::start(args.json)?;
            let (file, summary) = source::take(&target, &args.take, extent, 1, 10, &attendant)?;
            drop(attendant);
            let look = one_look(file.path(), args.take.memory(), Some(1)).ok();
            let Some((snapshot, _)) = look.filter(|(snapshot, _)| !snapshot.is_empty()) else {
                return Err(no_snapshot(&summary));
            };
            snapshot
        }
    };
    if snapshot.end().extent != Extent::All {
        return tell_brief(args, &snapshot, damage);
    }
    if args.histogram || args.roots {
        let message =
            "this is a full snapshot; --histogram and --roots are only for a running process";
        return Err(failure(Code::Usage, message));
    }
    if let Some(path) = &args.gcdump {
        source::write_gcdump(&snapshot, path)?;
    }
    let options = ReportOptions {
        top: args.top as usize,
        type_name: args.type_name.clone(),
        paths: args.paths as usize,
    };
    let report = ::heap::report(&snapshot, &options);
    if let Some(name) = args.type_name.as_ref().filter(|_| report.asked.is_empty()) {
        let message = format!("there is no type `{name}` in the snapshot; see the list of types");
        return Err(failure(Code::BadSession, message));
    }
    match args.json {
        true => console::print_json(&report)?,
        false => console::show(&view::snapshot(&report))?,
    }
    ending(damage, report.complete, report.note.as_deref())
}

/// What the snapshots of a session say, for a report of it.
pub struct SnapshotReport {
    /// For people.
    pub document: Document,
    /// For programs.
    pub json: serde_json::Value,
    /// Why it is incomplete, if it is.
    pub problem: Option<String>,
}

/// A full heap snapshot, or one with `--histogram` or `--roots`.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is needed")]
pub enum Heap {
    Full(::heap::Report),
    Partial(::heap::PartialReport),
}

/// The part about heap snapshots in a report of a session.
pub struct SnapshotPart {
    /// The profiler that takes them.
    pub profiler: &'static str,
    /// The heading.
    pub title: &'static str,
    /// Reads it from a session file, in lists of at most this many rows.
    pub report: fn(&Path, usize) -> anyhow::Result<SnapshotReport>,
    /// The schema of its JSON, which a test compares with the one in the program.
    #[cfg(test)]
    pub schema: report::SnapshotSchema,
}

/// What the last snapshot says.
pub const PART: SnapshotPart = SnapshotPart {
    profiler: profilers::heap::SPEC.id,
    title: "Heap",
    report: report_last,
    #[cfg(test)]
    schema: |generator| generator.subschema_for::<Heap>(),
};

/// What the last snapshot of a session says.
fn report_last(path: &Path, top: usize) -> anyhow::Result<SnapshotReport> {
    let (snapshot, _) = one_look(path, MemoryArgs::default(), None)?;
    let (document, json) = match snapshot.end().extent {
        Extent::All => {
            let report =
                ::heap::report(&snapshot, &ReportOptions { top, ..ReportOptions::default() });
            (view::snapshot(&report), serde_json::to_value(&report)?)
        }
        _ => {
            let brief = ::heap::brief(&snapshot, top);
            (view::partial(&brief), serde_json::to_value(&brief)?)
        }
    };
    let end = snapshot.end();
    Ok(SnapshotReport {
        document,
        json,
        problem: (!end.complete).then(|| not_complete(Some(&end.reason))),
    })
}

/// What the last heap snapshot of a session counts, where the recording was to take some and there
/// is one with all objects of the heap, or at least their number.
pub fn last_summary(path: &Path, profile: &Profile) -> Option<SnapshotSummary> {
    let mut takers = PROFILERS.iter().filter(|spec| spec.heap_snapshots.is_some());
    takers.find(|spec| profile.run(spec.id).is_some())?;
    let (snapshot, _) = one_look(path, MemoryArgs::default(), None).ok()?;
    (snapshot.end().extent != Extent::Roots).then(|| SnapshotSummary::of(&snapshot))
}

/// A snapshot of a session: its number from 1 on, or the last one.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn snapshot_of(path: &Path, number: Option<u32>) -> anyhow::Result<Snapshot> {
    Ok(one_look(path, MemoryArgs::default(), number)?.0)
}

/// What all snapshots of a session count, in order; without those that have only roots.
///
/// # Errors
/// When the session cannot be read.
pub fn summaries(path: &Path) -> anyhow::Result<Vec<SnapshotSummary>> {
    let mut summaries = Vec::new();
    source::read_session(
        path,
        MemoryArgs::default(),
        |_| true,
        |snapshot| {
            if snapshot.end().extent != Extent::Roots {
                summaries.push(SnapshotSummary::of(&snapshot));
            }
        },
    )?;
    Ok(summaries)
}

/// The last snapshot of a session, analyzed.
///
/// # Errors
/// When there is no full snapshot in it.
pub fn analyze_last(path: &Path, options: &ReportOptions) -> anyhow::Result<::heap::Report> {
    let (snapshot, _) = one_look(path, MemoryArgs::default(), None)?;
    match snapshot.end().extent {
        Extent::All => Ok(::heap::report(&snapshot, options)),
        _ => Err(failure(Code::BadSession, "the snapshot has no references: it is a partial one")),
    }
}

/// What is said of a snapshot that lacks objects.
pub fn not_complete(note: Option<&str>) -> String {
    let note = note.filter(|note| !note.is_empty()).unwrap_or("not all objects are in it");
    format!("the heap snapshot is not complete: {note}")
}

/// Exit code of a snapshot that was shown.
fn ending(damage: Option<String>, complete: bool, note: Option<&str>) -> anyhow::Result<Code> {
    match damage {
        Some(damage) => {
            Err(failure(Code::BadSession, format!("{damage}; the report covers what came before")))
        }
        None if !complete => Err(failure(Code::BadSession, not_complete(note))),
        None => Ok(Code::Success),
    }
}

/// Shows a snapshot that has no references.
fn tell_brief(args: &Args, snapshot: &Snapshot, damage: Option<String>) -> anyhow::Result<Code> {
    if args.gcdump.is_some() || args.type_name.is_some() {
        let message = "the snapshot has no references: it does not show what retains a type, and \
            cannot be written as a .gcdump; take one without --histogram and --roots";
        return Err(failure(Code::Usage, message));
    }
    let brief = ::heap::brief(snapshot, args.top as usize);
    match args.json {
        true => console::print_json(&brief)?,
        false => console::show(&view::partial(&brief))?,
    }
    ending(damage, brief.complete, brief.note.as_deref())
}

/// The snapshot of that number, from 1 on, or the last one.
fn one_look(
    path: &Path,
    memory: MemoryArgs,
    number: Option<u32>,
) -> anyhow::Result<(Snapshot, source::Reading)> {
    // Making a snapshot is dear, so of several only the one that is requested is made.
    let number = match number {
        Some(number) => number,
        None => source::read_session(path, memory, |_| false, |_| {})?.snapshots,
    };
    let mut found = None;
    let reading = source::read_session(
        path,
        memory,
        |snapshot| snapshot + 1 == number,
        |snapshot| found = Some(snapshot),
    )?;
    match found {
        Some(snapshot) => Ok((snapshot, reading)),
        None => {
            let message = match (reading.snapshots, reading.damage) {
                (0, None) => {
                    format!(
                        "there is no heap snapshot in {}; `clrscope heap <PID>` takes one",
                        path.display()
                    )
                }
                (0, Some(damage)) => {
                    format!("there is no heap snapshot in {}: {damage}", path.display())
                }
                (looks, _) => format!(
                    "there is no snapshot {number} in {}, which has {looks}",
                    path.display()
                ),
            };
            Err(failure(Code::BadSession, message))
        }
    }
}

/// Why a recording has no snapshot in it.
pub fn no_snapshot(summary: &recorder::Summary) -> anyhow::Error {
    failure(Code::Ended, format!("no heap snapshot could be taken: {}", why_ended(summary)))
}

/// Why a recording has fewer snapshots than it was for.
pub fn why_ended(summary: &recorder::Summary) -> String {
    let notes: Vec<String> = summary
        .sessions
        .iter()
        .flat_map(|session| &session.notes)
        .map(|note| console::printable(note))
        .collect();
    let ended = summary.sessions.iter().any(|session| session.end != session::EndReason::Stopped);
    match (notes.is_empty(), ended) {
        (false, _) => notes.join("; "),
        (true, true) => "the process ended, or the connection to it was lost".to_owned(),
        (true, false) => "it was interrupted".to_owned(),
    }
}
