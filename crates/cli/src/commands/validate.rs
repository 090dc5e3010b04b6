//! `clrscope validate`: whether two recordings saw the same, and whether two assemblies have the
//! same code.

use crate::{
    console,
    exit::{Code, failure},
    validated::{
        compare::{Mode, compare, without_repeats},
        il,
        log::{self, Event, KINDS},
        report::Report,
    },
};
use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

/// All kinds of events, on the command line.
const ALL: &str = "all";

/// Compare events and rewritten code of two recordings, or the code of two assemblies
///
/// Takes two sessions or event logs (`clrscope report -f events`, `clrscope trace --event-log`),
/// two logs of a native profiler of the New Relic agent (NewRelic.Profiler.PID.log), or two
/// assemblies. Events are matched by names, never by ids or times: module, full name and parameters
/// of a method; name of an assembly or type. The events of one name are compared in their order.
/// The order between names does not count, because it depends on threads. Two events are equal if
/// their kind and name are equal, and also: the rule and the code before and after of a rewrite,
/// the rule of a revert, rule and reason of a refusal, the tier of a compilation, the outcome of a
/// load, the methods that throw and catch an exception. Code is equal if each instruction is, with
/// names in place of tokens and addresses.
///
/// With `--mode strict`, the order of all events counts as well, and so do the bytes of code,
/// except for tokens. Code that one side has left out is then a difference.
///
/// Fidelity is equal / (equal + different + only in a + only in b) of the events that are compared,
/// in percent and rounded down. Pairs with code that one side has left out are excluded and listed.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit code 0 says that both are equal, 11 that they differ, 8 that a log or \
        session is broken, 6 that a file cannot be read."
)]
pub struct Args {
    /// Session, event log, or assembly
    a: PathBuf,
    /// The same kind of file, to compare with
    b: PathBuf,
    /// Treat both as assemblies, whatever they look like, and compare the bodies of their methods
    #[arg(long)]
    il: bool,
    /// Kinds of events to compare [default: rewrite,refusal,possible,revert,log, which the same
    /// program and rules give each time]
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = kinds(), conflicts_with = "il")]
    events: Vec<String>,
    /// What has to be equal
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// Count an event that is equal to the one before it of the same name only once
    #[arg(long)]
    ignore_repeats: bool,
    /// Leave out names that match, with * and ? for any characters: 'System.*',
    /// '*!MyApp.Generated*'. May be repeated
    #[arg(long, value_name = "NAME")]
    ignore: Vec<String>,
    /// Differences to show
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    top: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn kinds() -> PossibleValuesParser {
    PossibleValuesParser::new(KINDS.iter().map(|kind| kind.id).chain([ALL]))
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let is_il = args.il || is_assembly(&args.a)?;
    if !args.il && is_il != is_assembly(&args.b)? {
        return Err(failure(
            Code::Usage,
            "one is an assembly and the other is not; name two of a kind",
        ));
    }
    if is_il && !args.events.is_empty() {
        return Err(failure(Code::Usage, "assemblies have no events; omit --events"));
    }
    let read = |path: &Path| {
        let mut events = if is_il { il::read(path)? } else { log::read(path)? };
        events.retain(|event| args.takes(event));
        anyhow::Ok(if args.ignore_repeats { without_repeats(events, args.mode) } else { events })
    };
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    if a.is_empty() && b.is_empty() {
        let hint = match is_il {
            true => "neither has a method that is not ignored",
            false => {
                "neither has events of the kinds that are compared; see --events, and record with \
                    --event-log"
            }
        };
        return Err(failure(Code::BadSession, hint));
    }
    let comparison = compare(&a, &b, args.mode);
    let total = comparison.total();
    if total.compared() == 0 {
        let hint = "nothing can be compared, because the code of all methods is left out; record \
            with --event-log";
        return Err(failure(Code::BadSession, hint));
    }
    let report =
        Report::of(&comparison, (&args.a, &a), (&args.b, &b), args.mode, args.top as usize);
    match args.json {
        true => console::print_json(&report)?,
        false => console::show(&report.document())?,
    }
    Ok(if comparison.differences.is_empty() { Code::Success } else { Code::Differs })
}

impl Args {
    fn takes(&self, event: &Event) -> bool {
        let is_wanted = match self.events.is_empty() {
            true => event.kind.is_certain,
            false => self.events.iter().any(|kind| kind == event.kind.id || kind == ALL),
        };
        is_wanted && !self.ignore.iter().any(|pattern| metadata::matches(pattern, &event.name))
    }
}

/// Whether a file begins as images do.
fn is_assembly(path: &Path) -> anyhow::Result<bool> {
    let shown = || format!("cannot read {}", path.display());
    let mut magic = Vec::new();
    File::open(path).with_context(shown)?.take(2).read_to_end(&mut magic).with_context(shown)?;
    Ok(magic == b"MZ")
}
