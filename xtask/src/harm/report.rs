//! What a run of the matrix found, in words and as the page docs/reliability.md.

use super::Ran;
use super::cell::Verdict;
use super::draw::Drawn;
use super::table::{AXES, Axis, Table};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::Duration;
use testkit::source_root;

/// Where the page's generated part begins and ends.
const BEGIN: &str = "<!-- harm matrix: written by `cargo xtask harm --long` -->";
const END: &str = "<!-- end of the harm matrix -->";

/// A run.
pub struct Report<'a> {
    /// The axes.
    pub table: &'a Table,
    /// What was drawn.
    pub drawn: &'a Drawn,
    /// What came of it.
    pub ran: &'a [Ran],
    /// What this machine cannot do, and why.
    pub absent: &'a [(String, String)],
    /// The machine.
    pub machine: &'a str,
    /// Seed of the draw.
    pub seed: u64,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    passed: usize,
    refused: usize,
    failed: usize,
    unfit: usize,
}

impl Counts {
    fn add(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Refused(..) => self.refused += 1,
            Verdict::Failed(_) => self.failed += 1,
            Verdict::Unfit(_) => self.unfit += 1,
        }
    }

    fn row(self) -> String {
        let Counts { passed, refused, failed, unfit } = self;
        format!("{} | {passed} | {refused} | {failed} | {unfit}", passed + refused + failed + unfit)
    }
}

impl Report<'_> {
    fn counts(&self) -> Counts {
        self.ran.iter().fold(Counts::default(), |mut counts, ran| {
            counts.add(&ran.verdict);
            counts
        })
    }

    fn pairs(&self) -> String {
        let senseless: usize = self.drawn.senseless.values().sum();
        format!(
            "{} pairs met, {} left out by the limit, {senseless} make no sense",
            self.drawn.met, self.drawn.left
        )
    }

    /// A line for the terminal.
    pub fn summary(&self, took: Duration) -> String {
        let Counts { passed, refused, failed, unfit } = self.counts();
        let slowest = self.ran.iter().max_by_key(|ran| ran.took);
        let slowest = slowest.map_or(String::new(), |ran| {
            format!(
                "; the slowest took {:.1} s: {}",
                ran.took.as_secs_f64(),
                self.table.shown(&ran.cell)
            )
        });
        format!(
            "harm: seed {}, {} cells in {:.0} s: {passed} passed, {refused} refused, {failed} \
                failed, {unfit} unfit; {}{slowest}",
            self.seed,
            self.ran.len(),
            took.as_secs_f64(),
            self.pairs()
        )
    }

    /// Writes the page's generated part.
    ///
    /// # Errors
    /// When the page cannot be read or written.
    pub fn write(&self, took: Duration, only: &str) -> Result<()> {
        let path = source_root().join("docs/reliability.md");
        let page = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let (head, rest) =
            page.split_once(BEGIN).with_context(|| format!("{} lacks {BEGIN}", path.display()))?;
        let (_, tail) =
            rest.split_once(END).with_context(|| format!("{} lacks {END}", path.display()))?;
        let text = self.markdown(took, only);
        fs::write(&path, format!("{head}{BEGIN}\n{text}\n{END}{tail}"))
            .with_context(|| path.display().to_string())
    }

    fn markdown(&self, took: Duration, only: &str) -> String {
        let mut text = String::new();
        let date = Command::new("date")
            .arg("-u")
            .arg("+%Y-%m-%d")
            .output()
            .map(|output| output.stdout)
            .unwrap_or_default();
        let only = if only.is_empty() { String::new() } else { format!(" --only '{only}'") };
        let counts = self.counts();
        let _ = writeln!(
            text,
            "`cargo xtask harm --long --seed {}{only}`, {}, {}, {:.0} minutes: {}.\n",
            self.seed,
            String::from_utf8_lossy(&date).trim(),
            self.machine,
            took.as_secs_f64() / 60.0,
            self.pairs()
        );
        let _ = writeln!(
            text,
            "| | cells | passed | refused | failed | unfit |\n|---|--:|--:|--:|--:|--:|"
        );
        let _ = writeln!(text, "| **all** | {} |", counts.row());
        for axis in [Axis::Runtime, Axis::Target, Axis::Condition, Axis::Action, Axis::Ending] {
            let mut by_value: BTreeMap<usize, Counts> = BTreeMap::new();
            for ran in self.ran {
                let mut values: Vec<usize> = AXES
                    .iter()
                    .zip(ran.cell)
                    .filter(|(of, _)| **of == axis)
                    .map(|(_, value)| value)
                    .collect();
                values.dedup();
                for value in values {
                    by_value.entry(value).or_default().add(&ran.verdict);
                }
            }
            for (value, counts) in by_value {
                let _ = writeln!(
                    text,
                    "| {axis:?}: {} | {} |",
                    self.table.name(axis, value),
                    counts.row()
                );
            }
        }
        self.list(&mut text, "Failed", |verdict| match verdict {
            Verdict::Failed(reasons) => Some(reasons.join("; ")),
            _ => None,
        });
        self.list(
            &mut text,
            "Unfit: the target does not live, or does not stay as it is, without clrscope either",
            |verdict| match verdict {
                Verdict::Unfit(why) => Some(why.clone()),
                _ => None,
            },
        );
        self.refusals(&mut text);
        if !self.absent.is_empty() {
            let _ = writeln!(text, "\nNot possible on this machine:\n");
            for (name, why) in self.absent {
                let _ = writeln!(text, "* {name}: {why}");
            }
        }
        let _ = writeln!(text, "\nPairs that make no sense:\n");
        for (why, count) in &self.drawn.senseless {
            let _ = writeln!(text, "* {count}: {why}");
        }
        text
    }

    fn list(&self, text: &mut String, title: &str, what: impl Fn(&Verdict) -> Option<String>) {
        let found: Vec<_> =
            self.ran.iter().filter_map(|ran| Some((&ran.cell, what(&ran.verdict)?))).collect();
        if found.is_empty() {
            return;
        }
        let _ = writeln!(text, "\n{title}:\n");
        for (cell, why) in found {
            let _ = writeln!(text, "* `{}`: {}", self.table.shown(cell), one_line(&why));
        }
    }

    /// Refusals by message, with numbers left out.
    fn refusals(&self, text: &mut String) {
        let mut by_message: BTreeMap<(i32, String), (usize, String)> = BTreeMap::new();
        for ran in self.ran {
            if let Verdict::Refused(code, why) = &ran.verdict {
                let plain: String = without_places(why)
                    .chars()
                    .map(|c| if c.is_ascii_digit() { '#' } else { c })
                    .collect();
                let entry =
                    by_message.entry((*code, plain)).or_insert((0, self.table.shown(&ran.cell)));
                entry.0 += 1;
            }
        }
        if by_message.is_empty() {
            return;
        }
        let _ = writeln!(text, "\nRefused, by exit code and message:\n");
        for ((code, why), (count, example)) in by_message {
            let _ = writeln!(text, "* {count} with {code}, as in `{example}`: {}", one_line(&why));
        }
    }
}

/// Without the target's command line, and without folders of this machine.
fn without_places(text: &str) -> String {
    let mut text = text.to_owned();
    for (begin, end) in [("error: ", " ended with exit code"), ("`", "`")] {
        if let Some(from) = text.find(begin).map(|at| at + begin.len())
            && let Some(length) = text.get(from..).and_then(|rest| rest.find(end))
        {
            text.replace_range(from..from + length, "the command");
        }
    }
    let folders = [(testkit::Cache::of_user().folder().to_owned(), "CACHE"), (source_root(), ".")];
    folders
        .iter()
        .fold(text, |text, (folder, short)| text.replace(&folder.display().to_string(), short))
}

fn one_line(text: &str) -> String {
    without_places(text)
        .chars()
        .take(300)
        .map(|c| if c == '\n' || c == '|' { ' ' } else { c })
        .collect()
}
