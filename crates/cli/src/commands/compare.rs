//! `clrscope compare`: what differs between two recordings, and how certain that is.

use super::{heap, report::LateFile};
use crate::{
    console, duration,
    exit::{Code, failure},
    foreign::SessionFile,
    session_file,
};
use ::report::ReportError;
use anyhow::Context as _;
use clap::builder::{PossibleValue, PossibleValuesParser};
use compare::{Basis, Comparison, FORMATS, Format, Options, Recording, Style};
use document::{format::percent, text};
use profile::{Filter, SeriesKind};
use std::{
    env, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// Compare two recordings: what got slower or faster, and how certain that is
///
/// Functions are matched by name, so the two may be of different builds. A difference counts as
/// certain only if it is larger than what the ups and downs within the recordings explain;
/// together, all that is called certain is wrong with a chance of 1 % (--confidence). Record for 30
/// seconds or more, in the same way and under the same load.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit code 0 says that the comparison was made, 12 that --fail-on has found \
        something that got worse, 8 that a session is damaged or that there is nothing to compare."
)]
pub struct Args {
    /// Session file to compare with, or a file of another tool, as `clrscope report` reads it
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// Session file that is compared, or a file of another tool
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Format of the output
    #[arg(short, long, default_value = "text", value_parser = formats())]
    format: String,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Exit with code 12 if anything got worse by more than this, and that is certain: 5%
    #[arg(long, value_name = "PERCENT", value_parser = percentage)]
    fail_on: Option<f64>,
    /// Functions with a lesser part of all samples do not count for --fail-on
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = percentage)]
    min_share: f64,
    /// The chance that nothing is called certain if nothing changed: from 50% to 99.9999%
    #[arg(long, value_name = "PERCENT", default_value = "99%", value_parser = confidence)]
    confidence: f64,
    /// What amounts are related to: a second, a whole run, or all samples of the profiler [default:
    /// run if both are whole runs of `clrscope launch`, total if one has no times, else second]
    #[arg(long, value_name = "WHAT", value_parser = PossibleValuesParser::new(Basis::ALL.map(|(_, word)| word)))]
    per: Option<String>,
    /// Only what this profiler has recorded
    #[arg(long, value_name = "PROFILER", value_parser = PossibleValuesParser::new(SeriesKind::ALL.map(SeriesKind::id)))]
    profiler: Option<String>,
    /// Only threads with this in their name, or with this id
    #[arg(long, value_name = "NAME|ID")]
    thread: Option<String>,
    /// Only stacks with a function that has this in its full name
    #[arg(long, value_name = "TEXT")]
    function: Option<String>,
    /// Leave out what came before this time since the start of each recording
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    from: Option<Duration>,
    /// Leave out what came after this time since the start of each recording
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    to: Option<Duration>,
    /// Add the differential call trees to JSON
    #[arg(long)]
    tree: bool,
    /// Rows of each list
    #[arg(long, value_name = "NUMBER", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rows: u32,
}

fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(FORMATS.map(|(_, word, help)| PossibleValue::new(word).help(help)))
}

/// Reads `5%`, `5` or `0.5 %` as a share.
fn percentage(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    let value: f64 = number.parse().map_err(|_| "write a number of percent, such as 5%")?;
    match value.is_finite() && value >= 0.0 {
        true => Ok(value / 100.0),
        false => Err("write a number of percent that is not negative, such as 5%".to_owned()),
    }
}

fn confidence(text: &str) -> Result<f64, String> {
    let value = percentage(text)?;
    match (0.5..=0.999_999).contains(&value) {
        true => Ok(value),
        false => Err("it is from 50% to 99.9999%".to_owned()),
    }
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let format = if args.json { Format::Json } else { named(&args.format)? };
    if let Some(output) = &args.output
        && [&args.before, &args.after]
            .iter()
            .any(|session| super::report::same_file(session, output))
    {
        let message = format!("the comparison would overwrite the session {}", output.display());
        return Err(failure(Code::Usage, message));
    }
    let filter = filter(args)?;
    let (before, after) = (read(&args.before, &filter)?, read(&args.after, &filter)?);
    let options = Options {
        basis: args.per.as_deref().and_then(Basis::by_name),
        confidence: args.confidence,
        series: args
            .profiler
            .as_deref()
            .and_then(|id| SeriesKind::ALL.into_iter().find(|kind| kind.id() == id)),
        fail_on: args.fail_on,
        min_share: args.min_share,
        with_tree: args.tree,
    };
    let comparison = compare::compare(&before, &after, &options);
    let style = Style {
        text: text::Style {
            width: args.output.is_none().then(console::width).flatten(),
            colour: args.output.is_none() && console::colours(&io::stdout()),
        },
        rows: args.rows as usize,
        root: env::current_dir().ok().map(|folder| folder.to_string_lossy().into_owned()),
    };
    write(&comparison, format, &style, args.output.as_deref())?;
    ending(args, &comparison, [&before, &after])
}

fn named(format: &str) -> anyhow::Result<Format> {
    Format::by_name(format)
        .ok_or_else(|| failure(Code::Usage, format!("there is no format `{format}`")))
}

fn filter(args: &Args) -> anyhow::Result<Filter> {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let (from, to) = (args.from.map_or(0, nanos), args.to.map_or(u64::MAX, nanos));
    if from >= to {
        return Err(failure(Code::Usage, "--from must be before --to"));
    }
    Ok(Filter {
        time: (args.from.is_some() || args.to.is_some()).then_some(from..to),
        thread: args.thread.clone(),
        states: None,
        text: args.function.clone(),
    })
}

/// Reads a session. A heap snapshot belongs to no thread and no time, so a part has none.
fn read(path: &Path, filter: &Filter) -> anyhow::Result<Recording> {
    let file = || path.display().to_string();
    let source = SessionFile::of(path)?;
    let session = session_file::open(source.path())?;
    let mut recording = Recording::read(file(), io::BufReader::new(session), filter)
        .map_err(ReportError::from)
        .with_context(file)?;
    if *filter == Filter::default() {
        recording.heap = heap::last_summary(source.path(), &recording.profile);
    }
    Ok(recording)
}

fn write(
    comparison: &Comparison,
    format: Format,
    style: &Style,
    output: Option<&Path>,
) -> anyhow::Result<()> {
    let Some(path) = output else {
        let mut out = io::BufWriter::new(console::output());
        comparison.write(format, style, &mut out)?;
        return Ok(io::Write::flush(&mut out)?);
    };
    let mut file = LateFile::new(path);
    let mut out = io::BufWriter::new(&mut file);
    let written =
        comparison.write(format, style, &mut out).and_then(|()| io::Write::flush(&mut out));
    drop(out);
    if written.is_err() && file.is_made() {
        // Half an answer is worse than none; the error reported is the first one.
        drop(fs::remove_file(path));
    }
    Ok(written?)
}

/// What is wrong with the sessions, and the exit code.
fn ending(
    args: &Args,
    comparison: &Comparison,
    recordings: [&Recording; 2],
) -> anyhow::Result<Code> {
    let mut broken = false;
    for (path, recording) in [&args.before, &args.after].into_iter().zip(recordings) {
        let (path, profile) = (path.display(), &recording.profile);
        if let Some(damage) = &profile.damage {
            console::say(&format!("error: {path}: {damage}; what came before is compared"));
            broken = true;
        } else if profile.cut_short {
            console::say(&format!("error: {path} was cut short; what is there is compared"));
            broken = true;
        }
    }
    if let Some(gate) = comparison.gate.as_ref().filter(|gate| gate.failed) {
        let limit = percent(gate.limit);
        console::say(&format!(
            "error: what got worse by more than {limit}: {}",
            gate.failures.len()
        ));
        return Ok(Code::Worse);
    }
    if broken {
        return Ok(Code::BadSession);
    }
    let is_empty = comparison.series.is_empty() && comparison.measures.is_empty();
    if is_empty && comparison.heap.is_none() {
        let message = "the sessions have nothing in common that could be compared";
        return Err(failure(Code::BadSession, message));
    }
    if comparison.gate.is_some() && comparison.tests == 0 {
        let message = "--fail-on cannot say anything: there is too little to compare, or it was \
            recorded in different ways";
        return Err(failure(Code::BadSession, message));
    }
    Ok(Code::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        for (text, share) in [("5%", 0.05), ("5", 0.05), (" 0.5 % ", 0.005), ("0%", 0.0)] {
            assert!((percentage(text).unwrap() - share).abs() < 1e-12, "{text}");
        }
        for text in ["", "%", "-1%", "nan", "inf", "five", "5%5"] {
            assert!(percentage(text).is_err(), "{text}");
        }
        assert!(confidence("99%").is_ok() && confidence("99.9999").is_ok());
        assert!(confidence("100%").is_err() && confidence("49%").is_err());
    }
}
