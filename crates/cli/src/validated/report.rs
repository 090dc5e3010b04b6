//! What a comparison has found, for people and for programs.

use super::{
    aspects::{self, Aspect},
    compare::{Comparison, Counts, Difference, Mode, bytes_differ, code_differs},
    diff,
    log::Event,
};
use document::{
    Cell, Document, Section, Table, Tree,
    format::{counted, duration},
    left, right,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::{collections::BTreeMap, path::Path};

/// Version of the form of the JSON.
const SCHEMA: u32 = 1;
/// Most lines of one difference in text.
const MOST_LINES: usize = 40;

/// Where two recordings or assemblies are equal, and where they differ.
#[derive(Serialize, JsonSchema)]
pub struct Report<'e> {
    schema: u32,
    a: Side,
    b: Side,
    /// `default` or `strict`.
    mode: &'static str,
    equal: bool,
    fidelity: f64,
    kinds: BTreeMap<&'static str, Numbers>,
    /// In their order.
    aspects: Vec<AspectShown>,
    differences: Vec<Shown<'e>>,
    /// Differences that are not shown.
    more: usize,
}

#[derive(Serialize, JsonSchema)]
struct Side {
    path: String,
    /// Events that were compared.
    events: usize,
}

#[derive(Serialize, JsonSchema)]
struct Numbers {
    equal: u64,
    different: u64,
    only_a: u64,
    only_b: u64,
    not_compared: u64,
    fidelity: f64,
}

#[derive(Serialize, JsonSchema)]
struct AspectShown {
    aspect: &'static str,
    compared: u64,
    equal: u64,
    percent: f64,
}

#[derive(Serialize, JsonSchema)]
struct Shown<'e> {
    kind: &'static str,
    name: &'e str,
    /// `different`, `moved`, `only-a` or `only-b`.
    what: &'static str,
    a_ns: Option<u64>,
    b_ns: Option<u64>,
    /// What is not the same, beside code: name, `a`, `b`.
    fields: Vec<(&'static str, Option<&'e str>, Option<&'e str>)>,
    code: Vec<CodeShown>,
}

#[derive(Serialize, JsonSchema)]
struct CodeShown {
    part: &'static str,
    diff: Vec<String>,
}

impl Numbers {
    fn of(counts: &Counts) -> Self {
        let Counts { equal, different, only_a, only_b, not_compared } = *counts;
        Self { equal, different, only_a, only_b, not_compared, fidelity: counts.fidelity() }
    }
}

impl<'e> Report<'e> {
    /// The report with at most `top` differences.
    pub fn of(
        comparison: &Comparison<'e>,
        (path_a, a): (&Path, &[Event]),
        (path_b, b): (&Path, &[Event]),
        mode: Mode,
        top: usize,
    ) -> Self {
        let aspect = |aspect: &Aspect| {
            let &Aspect { name, compared, equal } = aspect;
            AspectShown { aspect: name, compared, equal, percent: aspect.percent() }
        };
        let side = |path: &Path, events| Side { path: path.display().to_string(), events };
        let differences = &comparison.differences;
        Self {
            schema: SCHEMA,
            a: side(path_a, a.len()),
            b: side(path_b, b.len()),
            mode: match mode {
                Mode::Default => "default",
                Mode::Strict => "strict",
            },
            aspects: aspects::of(a, b, comparison).iter().map(aspect).collect(),
            equal: differences.is_empty(),
            fidelity: comparison.total().fidelity(),
            kinds: comparison
                .kinds
                .iter()
                .map(|(kind, counts)| (*kind, Numbers::of(counts)))
                .collect(),
            differences: differences
                .iter()
                .take(top)
                .map(|difference| Shown::of(difference, mode))
                .collect(),
            more: differences.len().saturating_sub(top),
        }
    }

    /// For people.
    pub fn document(&self) -> Document {
        let not_compared: u64 = self.kinds.values().map(|numbers| numbers.not_compared).sum();
        let verdict = match (self.equal, not_compared) {
            (false, _) => "not equal",
            (true, 0) => "equal",
            (true, _) => "equal, as far as it can be compared",
        };
        let mut head = Section::new("Compared");
        let what = if self.kinds.contains_key(super::il::METHOD.id) { "method" } else { "event" };
        for (letter, side) in [("a", &self.a), ("b", &self.b)] {
            let (path, events) = (&side.path, counted(side.events as u64, what));
            head.say(format!("{letter}: {path}, {events}"));
        }
        if not_compared > 0 {
            let pairs = counted(not_compared, "pair");
            head.say(format!("Not compared, because code was left out: {pairs}"));
        }
        head.add(self.kinds());
        head.add(self.aspects());
        let mut sections = vec![head];
        sections.extend(self.differences.iter().map(Shown::section));
        if self.more > 0 {
            let more = counted(self.more as u64, "more difference");
            sections.push(Section::new(format!("… and {more} (--top)")));
        }
        sections.push(Section::new(format!("Fidelity {} %: {verdict}", self.fidelity)));
        Document { sections }
    }

    fn kinds(&self) -> Table {
        let rows = self.kinds.iter().map(|(kind, numbers)| {
            let counts = [numbers.equal, numbers.different, numbers.only_a, numbers.only_b];
            let fidelity = Cell::text(format!("{} %", numbers.fidelity));
            let cells = counts.map(Cell::count).into_iter().chain([fidelity]);
            std::iter::once(Cell::text(*kind)).chain(cells).collect()
        });
        let numbers = ["equal", "different", "only a", "only b", "fidelity"].map(right);
        Table::new(std::iter::once(left("kind")).chain(numbers).collect(), rows)
    }

    fn aspects(&self) -> Table {
        let rows = self.aspects.iter().map(|shown| {
            let AspectShown { aspect, compared, equal, percent } = shown;
            let share = Cell::text(format!("{percent} %"));
            vec![Cell::text(*aspect), Cell::count(*equal), Cell::count(*compared), share]
        });
        let columns = vec![left("aspect"), right("equal"), right("compared"), right("share")];
        Table::new(columns, rows)
    }
}

impl<'e> Shown<'e> {
    fn of(difference: &Difference<'e>, mode: Mode) -> Self {
        let Difference { a, b, is_moved } = *difference;
        let time = |event: Option<&Event>| event.and_then(|event| event.time);
        let (mut fields, mut code) = (Vec::new(), Vec::new());
        if let (Some(a), Some(b)) = (a, b) {
            let pairs = a.kind.fields.iter().zip(a.fields.iter().zip(&b.fields));
            fields.extend(
                pairs
                    .filter(|(_, (a, b))| a != b)
                    .map(|(name, (a, b))| (*name, a.as_deref(), b.as_deref())),
            );
            if a.left_out.is_some() || b.left_out.is_some() {
                fields.push(("left_out", a.left_out.as_deref(), b.left_out.as_deref()));
            }
            let diffs = code_differs(a, b);
            code.extend(diffs.map(|(part, a, b)| CodeShown { part, diff: diff::unified(a, b) }));
            let diffs = if mode == Mode::Strict { bytes_differ(a, b) } else { Vec::new() };
            code.extend(diffs.iter().map(|(part, a, b)| {
                let side = |lines| diff::Side { lines, slot: None };
                CodeShown { part, diff: diff::unified(side(a), side(b)) }
            }));
        }
        let what = match (a, b) {
            (Some(_), Some(_)) if is_moved => "moved",
            (Some(_), Some(_)) => "different",
            (Some(_), None) => "only-a",
            _ => "only-b",
        };
        Self {
            kind: difference.kind(),
            name: difference.name(),
            what,
            a_ns: time(a),
            b_ns: time(b),
            fields,
            code,
        }
    }

    fn section(&self) -> Section {
        let what = match self.what {
            "only-a" => "only in a",
            "only-b" => "only in b",
            "moved" => "at another place among the events",
            _ => "different",
        };
        let times = [("a", self.a_ns), ("b", self.b_ns)]
            .into_iter()
            .filter_map(|(side, time)| Some((side, time?)));
        let times: Vec<String> =
            times.map(|(side, time)| format!("{side} at {}", duration(time))).collect();
        let times =
            if times.is_empty() { String::new() } else { format!(" ({})", times.join(", ")) };
        let mut section = Section::new(format!("{} {}: {what}{times}", self.kind, self.name));
        let mut tree = Tree::default();
        for (name, a, b) in &self.fields {
            let [a, b] = [a, b].map(|value| value.unwrap_or("nothing"));
            tree.push(0, [Cell::text(format!("{name}: {a} in a, {b} in b"))]);
        }
        for CodeShown { part, diff } in &self.code {
            tree.push(0, [Cell::text(format!("{part}:"))]);
            for line in diff.iter().take(MOST_LINES) {
                tree.push(1, [Cell::text(line)]);
            }
            if diff.len() > MOST_LINES {
                let more = counted((diff.len() - MOST_LINES) as u64, "more line");
                tree.push(1, [Cell::text(format!("… {more} (--json)"))]);
            }
        }
        if !tree.nodes.is_empty() {
            section.add(tree);
        }
        section
    }
}
