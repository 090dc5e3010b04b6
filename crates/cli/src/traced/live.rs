//! Calls of instrumented methods while they are made: a table below the progress.

use crate::recording::Watcher;
use document::{Cell, Document, Section, Table, format::counted, left, right, text::Style};
use profile::{BuildOptions, NameStyle, Profile, ProfileBuilder};
use recorder::Progress;
use session::{FunctionId, InstrumentState, LiveStream};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Time between two tables: the agent reports calls about as often.
const EACH: Duration = Duration::from_millis(500);

/// A trace that is running.
pub struct Live {
    stream: Option<LiveStream>,
    builder: ProfileBuilder,
    /// Whether it was said that methods are instrumented. Scripts wait for that line, too.
    said: bool,
    table: String,
    made: Option<Instant>,
    /// When calls were last reported, and how many there had been of each method.
    before: Option<(Duration, HashMap<FunctionId, u64>)>,
    /// Calls in a second, as of the last two times.
    rates: HashMap<FunctionId, f64>,
}

impl Live {
    /// Without a stream it only says when it begins, and not even that in a dry run.
    pub fn new(stream: Option<LiveStream>, dry_run: bool) -> Self {
        Self {
            stream,
            builder: ProfileBuilder::new(BuildOptions::default()),
            said: dry_run,
            table: String::new(),
            made: None,
            before: None,
            rates: HashMap::new(),
        }
    }

    /// Takes what has come.
    fn take(&mut self) {
        let Some(stream) = &self.stream else { return };
        loop {
            match stream.try_next() {
                // The recorder writes the same records to the file, which is checked when it is
                // read.
                Ok(Some(record)) => drop(self.builder.add(&record)),
                Ok(None) => return,
                Err(session::LiveEnded) => {
                    self.stream = None;
                    return;
                }
            }
        }
    }

    /// Calls in a second, if any were reported since the last time.
    fn measure(&mut self, profile: &Profile) {
        let time = profile.traced.time();
        let calls = || {
            profile
                .traced
                .called()
                .into_iter()
                .map(|method| (method.function, method.calls.calls))
                .collect()
        };
        match &self.before {
            Some((last, _)) if *last == time => {}
            Some((last, before)) => {
                let seconds = time.saturating_sub(*last).as_secs_f64();
                let rate = |(function, calls): (FunctionId, u64)| {
                    let more = calls.saturating_sub(before.get(&function).copied().unwrap_or(0));
                    (function, more as f64 / seconds)
                };
                let calls: HashMap<FunctionId, u64> = calls();
                self.rates =
                    calls.iter().map(|(function, calls)| rate((*function, *calls))).collect();
                self.before = Some((time, calls));
            }
            None => self.before = Some((time, calls())),
        }
    }

    /// At most `rows` lines.
    fn draw(&self, profile: &Profile, columns: usize, rows: usize) -> String {
        let called = profile.traced.called();
        let waiting = profile
            .traced
            .methods()
            .filter(|method| method.calls.calls == 0 && method.state == InstrumentState::Requested)
            .count();
        // Head, what is left out, and what was not called take a line each.
        let shown = rows.saturating_sub(3);
        let rows = called.iter().map(|method| {
            let calls = &method.calls;
            let time = |nanos: Option<f64>| {
                nanos.map_or(Cell::Nothing, |nanos| Cell::nanoseconds(nanos.round() as u64))
            };
            let rate = self.rates.get(&method.function);
            // The end of a long name says more than its beginning, and terminals are narrow.
            let name = profile.tables.function_name(method.function, NameStyle::SHORT);
            vec![
                Cell::count(calls.calls),
                rate.map_or(Cell::Nothing, |rate| Cell::count(rate.round() as u64)),
                if calls.timed > 0 { Cell::count(calls.failed) } else { Cell::Nothing },
                time(calls.quantile(0.5)),
                time(calls.quantile(0.99)),
                time((calls.timed > 0).then_some(calls.longest)),
                Cell::name(name),
            ]
        });
        let numbers = ["calls", "calls/s", "errors", "p50", "p99", "max"].map(right);
        let heads = numbers.into_iter().chain([left("method")]).collect();
        let mut section = Section::default();
        if !called.is_empty() {
            section.add(Table::top(heads, rows, shown));
        }
        let document = Document { sections: vec![section] };
        let style = Style { width: Some(columns), colour: false };
        let mut table = document::text::of(&document, style);
        if waiting > 0 {
            table.push_str(&format!("not called yet: {}\n", counted(waiting as u64, "method")));
        }
        table
    }
}

impl Watcher for Live {
    fn news(&mut self, progress: &Progress) -> Option<String> {
        self.take();
        let begins = progress.stage.starts_with("tracing") && !self.said;
        self.said |= begins;
        begins.then(|| progress.stage.clone())
    }

    fn lines(&mut self, columns: usize, rows: usize) -> String {
        if self.made.is_none_or(|made| made.elapsed() >= EACH)
            && let Some(profile) = self.builder.snapshot()
        {
            self.measure(&profile);
            let left_out = self.stream.as_ref().map_or(0, LiveStream::left_out);
            self.table =
                self.draw(&profile, columns, rows.saturating_sub(usize::from(left_out > 0)));
            if left_out > 0 {
                self.table.push_str(&format!(
                    "{} not shown: the terminal was too slow\n",
                    counted(left_out, "record")
                ));
            }
            self.made = Some(Instant::now());
        }
        self.table.clone()
    }
}
