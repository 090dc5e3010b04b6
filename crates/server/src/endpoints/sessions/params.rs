use crate::problem::Problem;
use profile::{Filter, NameStyle, SeriesKind};
use report::{Exporter, Options};
use serde::Deserialize;

/// How functions are written.
pub const NAMES: [&str; 3] = ["full", "plain", "short"];

/// Rows of a list.
pub const MOST_ROWS: u32 = 100_000;

/// What a report or document is to be of.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportParams {
    format: Option<String>,
    profiler: Option<String>,
    thread: Option<String>,
    function: Option<String>,
    from: Option<f64>,
    to: Option<f64>,
    names: Option<String>,
    lines: Option<bool>,
    rows: Option<u32>,
}

impl ReportParams {
    pub fn has_format(&self) -> bool {
        self.format.is_some()
    }

    /// The format.
    pub fn exporter(&self) -> Result<&'static Exporter, Problem> {
        let format = self.format.as_deref().unwrap_or("text");
        report::exporter(format).ok_or_else(|| {
            let known: Vec<_> = report::EXPORTERS.iter().map(|own| own.id).collect();
            Problem::request(format!("there is no such format; there are {}", known.join(", ")))
        })
    }

    /// All else.
    pub fn options(&self) -> Result<Options, Problem> {
        let series = self.profiler.as_deref().map(series).transpose()?;
        let names = match self.names.as_deref() {
            None | Some("full") => NameStyle::FULL,
            Some("plain") => NameStyle::PLAIN,
            Some("short") => NameStyle::SHORT,
            Some(_) => return Err(Problem::request("`names` is full, plain or short")),
        };
        let rows = self.rows.unwrap_or(15);
        if !(1..=MOST_ROWS).contains(&rows) {
            return Err(Problem::request(format!("`rows` is from 1 to {MOST_ROWS}")));
        }
        Ok(Options {
            series,
            filter: Filter {
                time: time(self.from, self.to)?,
                thread: self.thread.clone(),
                states: None,
                text: self.function.clone(),
            },
            lines: self.lines.unwrap_or(true),
            names,
            rows: rows as usize,
            ..Options::default()
        })
    }
}

/// A part of the time of a session: from and to in seconds, as nanoseconds.
pub fn time(from: Option<f64>, to: Option<f64>) -> Result<Option<std::ops::Range<u64>>, Problem> {
    if from.is_none() && to.is_none() {
        return Ok(None);
    }
    let nanos = |seconds: f64| (seconds * 1e9) as u64;
    let (from, to) = (from.unwrap_or(0.0), to.unwrap_or(f64::INFINITY));
    match from >= 0.0 && from < to {
        true => Ok(Some(nanos(from)..nanos(to))),
        false => Err(Problem::request("`from` is at least 0 and less than `to`")),
    }
}

/// Samples of a profiler.
pub fn series(id: &str) -> Result<SeriesKind, Problem> {
    let found = SeriesKind::ALL.into_iter().find(|kind| kind.id() == id);
    let known = SeriesKind::ALL.map(SeriesKind::id).join(", ");
    found.ok_or_else(|| Problem::request(format!("`profiler` is none that has samples: {known}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        let good = ReportParams { from: Some(0.5), ..ReportParams::default() };
        assert_eq!(good.options().unwrap().filter.time, Some(500_000_000..u64::MAX));
        assert_eq!(ReportParams::default().options().unwrap().filter, Filter::default());
        let some = |text: &str| Some(text.to_owned());
        for (bad, part) in [
            (ReportParams { profiler: some("x"), ..ReportParams::default() }, "profiler"),
            (ReportParams { names: some("x"), ..ReportParams::default() }, "names"),
            (ReportParams { rows: Some(0), ..ReportParams::default() }, "rows"),
            (ReportParams { from: Some(f64::NAN), ..ReportParams::default() }, "from"),
            (ReportParams { from: Some(2.0), to: Some(1.0), ..ReportParams::default() }, "from"),
        ] {
            assert!(bad.options().unwrap_err().cause.contains(part), "{part}");
        }
        let bad = ReportParams { format: some("x"), ..ReportParams::default() };
        assert!(bad.exporter().unwrap_err().cause.contains("markdown"));
    }
}
