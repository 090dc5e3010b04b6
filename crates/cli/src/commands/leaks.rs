//! `clrscope leaks`: which types grow between heap snapshots.

use super::heap::{no_snapshot, why_ended};
use crate::{
    console, duration,
    exit::{Code, failure},
    heap::{
        source::{self, MemoryArgs, Source, TakeArgs},
        view,
    },
    recording::AtTerminal,
};
use ::heap::{Extent, ReportOptions, Snapshot, growth::SnapshotSummary};
use std::{path::Path, time::Duration};

/// Find leaks: take or read several heap snapshots, and show which types grow
///
/// Each heap snapshot is a full collection, during which the process is paused. Two snapshots show
/// what grew. From three on, clrscope also says whether the growth is statistically significant.
/// Session files with heap snapshots and .gcdump files of one process can be compared as well.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Process id, name as `clrscope ps` shows it, or files in the order of their times
    #[arg(value_name = "PID|NAME|FILE", required = true)]
    targets: Vec<String>,
    #[command(flatten)]
    take: TakeArgs,
    /// Number of heap snapshots to take
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=100))]
    snapshots: u32,
    /// Time from one snapshot to the next, in whole seconds: 10s, 5m, 1h
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse_positive)]
    every: Duration,
    /// Retention paths to show for each suspect
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    paths: u32,
    /// Rows of the list of types
    #[arg(long, value_name = "NUMBER", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    top: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let every = whole_seconds(args.every)?;
    let mut all = Snapshots::default();
    // Why there are fewer snapshots than were requested.
    let mut ended = None;
    let several = args.targets.len() > 1;
    for target in &args.targets {
        match Source::find(target)? {
            Source::Session(path) => all.read(&path, args.take.memory())?,
            Source::Gcdump(path) => {
                let snapshot = source::read_gcdump(&path, args.take.memory())?;
                // Such files know only the time on the clock.
                let time = snapshot.end().unix_ms.saturating_mul(1_000_000);
                all.add(snapshot, Some(time));
            }
            Source::Process(_) if several => {
                let message =
                    format!("{target} is not a file; a process cannot be compared with others");
                return Err(failure(Code::Usage, message));
            }
            Source::Process(process) => {
                let (file, summary) = source::take(
                    &process,
                    &args.take,
                    Extent::All,
                    args.snapshots,
                    every,
                    &AtTerminal::start(args.json)?,
                )?;
                all.read(file.path(), args.take.memory())?;
                if all.last.as_ref().is_none_or(Snapshot::is_empty) && all.looks.len() <= 1 {
                    return Err(no_snapshot(&summary));
                }
                if all.looks.len() < args.snapshots as usize {
                    let (taken, why) = (all.looks.len(), why_ended(&summary));
                    let asked = args.snapshots;
                    ended = Some(format!(
                        "only {taken} of {asked} snapshots were taken: {why}; the report covers \
                            those"
                    ));
                }
            }
        }
    }
    let Some(last) = &all.last else {
        let why = all.damage.unwrap_or_else(|| "`clrscope leaks <PID>` takes some".to_owned());
        return Err(failure(Code::BadSession, format!("there is no heap snapshot in it: {why}")));
    };
    if let Some(at) = all.looks.windows(2).position(|pair| pair[0].time >= pair[1].time) {
        let message = format!(
            "snapshot {} is not later than the one before; name files in the order of their times",
            at + 2
        );
        return Err(failure(Code::Usage, message));
    }
    let options =
        ReportOptions { top: args.top as usize, type_name: None, paths: args.paths as usize };
    let report = ::heap::leaks(&all.looks, last, &options);
    match args.json {
        true => console::print_json(&report)?,
        false => console::show(&view::leaks(&report))?,
    }
    if let Some(ended) = ended {
        return Err(failure(Code::Ended, ended));
    }
    match all.damage {
        Some(damage) => {
            Err(failure(Code::BadSession, format!("{damage}; the report covers what is there")))
        }
        None if !report.complete => {
            Err(failure(Code::BadSession, "not all heap snapshots are complete"))
        }
        None => Ok(Code::Success),
    }
}

fn whole_seconds(every: Duration) -> anyhow::Result<u64> {
    match (every.as_secs(), every.subsec_nanos()) {
        (seconds @ 1..=86_400, 0) => Ok(seconds),
        _ => Err(failure(Code::Usage, "--every takes whole seconds, from 1s to 24h")),
    }
}

/// Snapshots from all sources, in order. Of all but the last one only what is compared is kept.
#[derive(Default)]
struct Snapshots {
    looks: Vec<SnapshotSummary>,
    last: Option<Snapshot>,
    damage: Option<String>,
}

impl Snapshots {
    fn add(&mut self, snapshot: Snapshot, time: Option<u64>) {
        let mut look = SnapshotSummary::of(&snapshot);
        look.time = time.unwrap_or(look.time);
        self.looks.push(look);
        self.last = Some(snapshot);
    }

    fn read(&mut self, path: &Path, memory: MemoryArgs) -> anyhow::Result<()> {
        let reading = source::read_session(
            path,
            memory,
            |_| true,
            |snapshot| {
                // The clock of a recording begins with it, so files are compared by the one on the
                // wall.
                let time = snapshot.end().unix_ms.saturating_mul(1_000_000)
                    + snapshot.end().time % 1_000_000;
                // One snapshot at a time is all that memory has to hold.
                self.last = None;
                self.add(snapshot, Some(time));
            },
        )?;
        if self.last.as_ref().is_some_and(|last| last.end().extent == Extent::Roots) {
            let message = format!(
                "{} has only snapshots of roots, which do not show what grows",
                path.display()
            );
            return Err(failure(Code::BadSession, message));
        }
        if let Some(damage) = reading.damage {
            self.damage = Some(format!("{}: {damage}", path.display()));
        }
        Ok(())
    }
}
