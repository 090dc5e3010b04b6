//! What is said of a comparison, as a document: a short answer first.

use document::{
    Cell, Column, Document, Section, Table, Tree, Unit as Shown,
    format::{counted, duration, percent},
    left, right,
};
use profile::Unit;

use crate::{
    Basis, Comparison, FunctionChange, SeriesComparison,
    change::{Change, Significance},
    finding::{Finding, FindingKind, all_of},
    heap::HeapCounts,
    recording::Recorded,
};

/// Changes of a kind that the answer names.
const NAMED: usize = 3;

/// Parts of a call tree that changed by less of all samples are left out.
const LEAST_BRANCH: f64 = 0.02;

impl Comparison {
    /// For people, with at most `rows` rows in each list.
    pub fn document(&self, rows: usize) -> Document {
        let mut sections = vec![self.answer(), self.changed(rows)];
        for series in &self.series {
            sections.push(self.functions(series, rows));
            sections.push(self.branches(series, rows));
        }
        sections.push(self.measured(rows));
        sections.push(self.heaps(rows));
        sections.push(self.noted());
        said(sections)
    }

    /// The same for a view that shows functions, call trees and heaps itself: what comes before
    /// them, and what comes after them.
    pub(crate) fn parts(&self, rows: usize) -> (Document, Document) {
        let before = vec![self.answer(), self.changed(rows)];
        (said(before), said(vec![self.measured(rows), self.noted()]))
    }

    fn noted(&self) -> Section {
        let mut notes = Section::new("What cannot be compared, and other causes");
        self.notes.iter().for_each(|note| notes.say(note.as_str()));
        notes
    }

    fn answer(&self) -> Section {
        let mut section =
            Section::new(format!("{} compared with {}", self.after.name, self.before.name));
        section.say(self.verdict());
        for (worse, word) in [(Some(true), "Worse"), (Some(false), "Better"), (None, "Changed")] {
            let of = self.named(worse);
            of.iter()
                .for_each(|finding| section.say(format!("{word}: {}", self.sentence(finding))));
        }
        if let Some(gate) = &self.gate {
            let limit = percent(gate.limit);
            section.say(match gate.failures.len() {
                0 => format!("Passed: nothing got worse by more than {limit} for certain."),
                count => format!(
                    "Failed: {} got worse by more than {limit} for certain.",
                    quantities(count)
                ),
            });
        }
        let side = |recorded: &Recorded| {
            let Recorded { name, process, pid, runtime, duration_seconds, .. } = recorded;
            let seconds = duration((duration_seconds * 1e9) as u64);
            Cell::text(format!("{name}: {process} (pid {pid}), .NET {runtime}, {seconds}"))
        };
        section.add(Table::facts([("before", side(&self.before)), ("after", side(&self.after))]));
        section
    }

    /// In a sentence, without any name of the recordings.
    pub fn verdict(&self) -> String {
        if self.series.is_empty() && self.measures.is_empty() {
            return match &self.heap {
                Some(_) => "The recordings have only heap snapshots in common.".to_owned(),
                None => "The recordings have nothing in common that could be compared.".to_owned(),
            };
        }
        let tested = quantities(self.tests);
        let how = format!("{tested} compared {}, confidence {}", self.relation(), self.level());
        if self.changes.is_empty() {
            return format!("No difference is certain ({how}). All that is seen can be noise.");
        }
        let count = |worse| self.changes.iter().filter(|one| one.worse == worse).count();
        let parts = [(Some(true), "worse"), (Some(false), "better"), (None, "neither")];
        let parts = parts.map(|(worse, word)| (count(worse), word));
        let parts: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        let changes = counted(self.changes.len() as u64, "difference");
        let verb = if self.changes.len() == 1 { "is" } else { "are" };
        format!("{changes} {verb} certain: {} ({how}).", parts.join(", "))
    }

    fn level(&self) -> String {
        let percent = self.confidence * 100.0;
        format!("{} %", (percent * 1e4).round() / 1e4)
    }

    fn relation(&self) -> &'static str {
        match self.per {
            Basis::Second => "per second",
            Basis::Run => "per run",
            Basis::Total => "as shares of all samples",
        }
    }

    /// What a reader should know first: the sums of all samples, functions themselves and measures.
    /// Callers of a function that changed are in the lists.
    fn named(&self, worse: Option<bool>) -> Vec<&Finding> {
        let of = self.changes.iter().filter(|finding| finding.worse == worse);
        of.filter(|finding| finding.kind != FindingKind::Total).take(NAMED).collect()
    }

    /// A finding in words: what it is about, before and after, and by how much it changed.
    pub fn sentence(&self, finding: &Finding) -> String {
        let Finding { change, profiler, name, is_level, unit_kind, .. } = finding;
        let what = match finding.kind {
            FindingKind::All => format!("{profiler}, all samples"),
            FindingKind::Own => format!("{profiler}, {name} itself"),
            FindingKind::Total => format!("{profiler}, {name} with what it calls"),
            FindingKind::Measure => format!("{profiler}, {name}"),
        };
        let amount = |value| amount(value, *unit_kind).shown();
        let (before, after) = (amount(change.before), amount(change.after));
        let per = match (unit_kind, is_level, self.per) {
            (None, ..) => " of all samples",
            (_, true, _) => "",
            (_, _, Basis::Run) => " per run",
            _ => " per second",
        };
        let relative = match (change.relative, change.relative_low.zip(change.relative_high)) {
            (Some(relative), Some(interval)) => {
                format!(" ({}, 95 % interval {})", signed(relative), between(interval))
            }
            (Some(relative), None) => format!(" ({})", signed(relative)),
            (None, _) => " (new)".to_owned(),
        };
        format!("{what}: {before} → {after}{per}{relative}")
    }

    fn changed(&self, rows: usize) -> Section {
        let mut section = Section::new("What changed for certain");
        let cells = self.changes.iter().enumerate().map(|(index, finding)| {
            let fails = self.gate.as_ref().is_some_and(|gate| gate.failures.contains(&index));
            let verdict = match finding.worse {
                Some(true) if fails => "fails",
                Some(true) => "worse",
                Some(false) => "better",
                None => "changed",
            };
            let what = match (finding.kind, finding.function) {
                (FindingKind::All, _) => Cell::text("all samples"),
                (FindingKind::Own, Some(function)) => self.name(function, " (itself)"),
                (FindingKind::Total, Some(function)) => self.name(function, ""),
                _ => Cell::name(&finding.name),
            };
            let mut row = vec![Cell::text(verdict), Cell::text(finding.profiler)];
            row.extend(amounts(&finding.change, finding.unit_kind));
            row.push(what);
            row
        });
        let head = [left("verdict"), left("profiler")];
        let table = Table::top(columns(head, "what"), cells, rows);
        if !table.rows.is_empty() {
            section.add(table);
        }
        section
    }

    fn name(&self, function: u32, more: &str) -> Cell {
        let Some(function) = self.functions.get(function as usize) else { return Cell::Nothing };
        let forms = [&function.name, &function.short_name].map(|name| format!("{name}{more}"));
        let place = function.file.as_deref().zip(function.line);
        let place =
            place.map(|(file, line)| format!("{}:{line}", document::format::file_name(file)));
        Cell::Name { forms: forms.to_vec(), place }
    }

    fn functions(&self, series: &SeriesComparison, rows: usize) -> Section {
        let mut section = Section::new(format!("{}: functions", series.profiler));
        let all = amounts(&series.total, Some(series.kind.value_type().unit));
        let [before, after, change, _] = all.map(|cell| cell.shown());
        let per = if self.per == Basis::Run { "per run" } else { "per second" };
        let word = word(&series.total);
        section.say(format!("All samples: {before} → {after} {per}, {change} ({word})."));
        if let Some(why) = &series.not_comparable {
            section.say(format!("Nothing is claimed: {why}."));
        }
        let unit = (self.per != Basis::Total).then(|| series.kind.value_type().unit);
        let mut add = |title: &'static str, of: fn(&FunctionChange) -> &Change| {
            let mut sorted: Vec<&FunctionChange> =
                series.functions.iter().filter(|row| of(row).difference() != 0.0).collect();
            order::sort_by(&mut sorted, |one, other| {
                let key = |row: &FunctionChange| (of(row).is_certain(), of(row).difference().abs());
                let (one, other) = (key(one), key(other));
                other.0.cmp(&one.0).then(other.1.total_cmp(&one.1))
            });
            let cells = sorted.into_iter().map(|row| {
                let change = of(row);
                let mut cells = vec![Cell::text(self::word(change))];
                cells.extend(amounts(change, unit));
                cells.push(self.name(row.function, ""));
                match change.is_certain() {
                    true => cells,
                    false => cells.into_iter().map(Cell::weak).collect(),
                }
            });
            let table = Table::top(columns([left("certain")], title), cells, rows);
            if !table.rows.is_empty() {
                section.add(table);
            }
        };
        add("function itself", |row| &row.own);
        add("function with what it calls", |row| &row.total);
        section
    }

    /// The parts of the call tree that changed most.
    fn branches(&self, series: &SeriesComparison, rows: usize) -> Section {
        let mut section = Section::new(format!("{}: where in the call tree", series.profiler));
        let certain = series.functions.iter().any(|row| row.own.is_certain());
        let all = all_of(self, series);
        if !certain || series.not_comparable.is_some() {
            return section;
        }
        let nodes = &series.tree.nodes;
        let change = |node: u32| {
            let [before, after] = nodes[node as usize].total;
            after.weight as f64 * series.scale[1] - before.weight as f64 * series.scale[0]
        };
        let mut below: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
        let mut roots = Vec::new();
        let least = LEAST_BRANCH * all[0].max(all[1]);
        // A node can change by less than one below it, so all that are above one are kept.
        let mut kept: Vec<bool> =
            (0..nodes.len() as u32).map(|id| change(id).abs() >= least).collect();
        for id in (0..nodes.len()).rev() {
            if let (true, Some(parent)) = (kept[id], nodes[id].parent) {
                kept[parent as usize] = true;
            }
        }
        for (id, node) in nodes.iter().enumerate().filter(|(id, _)| kept[*id]) {
            match node.parent {
                Some(parent) => below[parent as usize].push(id as u32),
                None => roots.push(id as u32),
            }
        }
        let by_change = |ids: &mut Vec<u32>| {
            order::sort_by(ids, |one, other| change(*one).abs().total_cmp(&change(*other).abs()));
        };
        let unit = (self.per != Basis::Total).then(|| series.kind.value_type().unit);
        let mut tree = Tree { branches: true, ..Tree::default() };
        by_change(&mut roots);
        // The largest one is the last, and is taken first.
        while let Some(id) = roots.pop() {
            if tree.nodes.len() >= rows.max(NAMED) * 2 {
                tree.more += 1 + roots.len();
                break;
            }
            let node = &nodes[id as usize];
            let cells = [changed(change(id), unit), self.name(node.function, "")];
            tree.push(node.depth as usize, cells);
            let mut children = std::mem::take(&mut below[id as usize]);
            by_change(&mut children);
            roots.extend(children);
        }
        if !tree.nodes.is_empty() {
            section.add(tree);
        }
        section
    }

    fn measured(&self, rows: usize) -> Section {
        let mut section = Section::new("What has no stacks");
        let mut sorted: Vec<_> = self.measures.iter().collect();
        order::sort_by_key(&mut sorted, |measure| !measure.change.is_certain());
        let cells = sorted.into_iter().map(|measure| {
            let mut cells = vec![Cell::text(word(&measure.change)), Cell::text(measure.profiler)];
            cells.extend(amounts(&measure.change, Some(measure.kind)));
            let per = match (measure.is_level, self.per) {
                (true, _) => "",
                (_, Basis::Run) => ", per run",
                _ => ", per second",
            };
            cells.push(Cell::name(format!("{}{per}", measure.name)));
            match measure.change.is_certain() {
                true => cells,
                false => cells.into_iter().map(Cell::weak).collect(),
            }
        });
        let head = [left("certain"), left("profiler")];
        let table = Table::top(columns(head, "what"), cells, rows);
        if !table.rows.is_empty() {
            section.add(table);
        }
        section
    }

    fn heaps(&self, rows: usize) -> Section {
        let mut section = Section::new("Heap, by type");
        let Some(heap) = &self.heap else { return section };
        let cells = |counts: &HeapCounts| {
            vec![
                Cell::quantity(counts.bytes_change(), Shown::BytesChange),
                Cell::bytes(counts.before_bytes),
                Cell::bytes(counts.after_bytes),
                Cell::quantity(counts.count_change(), Shown::CountChange),
                Cell::count(counts.before_count),
                Cell::count(counts.after_count),
            ]
        };
        let [change, before, after, objects] =
            [0, 1, 2, 3].map(|at| cells(&heap.total)[at].shown());
        section.say(format!("{before} → {after} ({change}, {objects} objects)."));
        section.say(
            "One snapshot of each does not say how much the heap varies: how certain a difference \
             is, is not known.",
        );
        let types = heap.types.iter().map(|row| {
            let mut cells = cells(&row.counts);
            cells.push(Cell::Name {
                forms: vec![row.name.clone(), profile::without_namespaces(&row.name)],
                place: None,
            });
            cells
        });
        let titles = ["bytes", "before", "after", "objects", "before", "after"].map(right);
        section.add(Table::top(titles.into_iter().chain([left("type")]).collect(), types, rows));
        section
    }
}

/// What has something to say.
fn said(mut sections: Vec<Section>) -> Document {
    sections.retain(|section| !(section.lead.is_empty() && section.blocks.is_empty()));
    Document { sections }
}

/// Columns of a table of changes.
fn columns<const N: usize>(head: [Column; N], what: &'static str) -> Vec<Column> {
    let amounts = ["before", "after", "change", "95 % interval"].map(right);
    head.into_iter().chain(amounts).chain([left(what)]).collect()
}

/// Cells of a change: before, after, relative, its interval.
fn amounts(change: &Change, unit: Option<Unit>) -> [Cell; 4] {
    let relative = match change.relative {
        Some(relative) => Cell::quantity(relative, Shown::ShareChange),
        None if change.after > 0.0 => Cell::text("new"),
        None => Cell::Nothing,
    };
    let interval = change.relative_low.zip(change.relative_high);
    let interval = interval.map_or(Cell::Nothing, |interval| Cell::text(between(interval)));
    [amount(change.before, unit), amount(change.after, unit), relative, interval]
}

/// An amount; without a unit it is a share.
fn amount(value: f64, unit: Option<Unit>) -> Cell {
    match unit {
        None => Cell::share(value),
        Some(Unit::Nanoseconds) => Cell::quantity(value, Shown::Nanoseconds),
        Some(Unit::Bytes) => Cell::quantity(value, Shown::Bytes),
        Some(Unit::Count) => Cell::quantity(value, Shown::Number),
    }
}

/// How much more or less.
fn changed(difference: f64, unit: Option<Unit>) -> Cell {
    match unit {
        None => Cell::quantity(difference, Shown::ShareChange),
        Some(Unit::Nanoseconds) => Cell::quantity(difference, Shown::NanosecondsChange),
        Some(Unit::Bytes) => Cell::quantity(difference, Shown::BytesChange),
        Some(Unit::Count) => Cell::quantity(difference, Shown::ChangePerSecond),
    }
}

fn signed(relative: f64) -> String {
    Cell::quantity(relative, Shown::ShareChange).shown()
}

fn between((low, high): (f64, f64)) -> String {
    format!("{} to {}", signed(low), signed(high))
}

fn quantities(count: usize) -> String {
    match count {
        1 => "1 quantity".to_owned(),
        _ => format!("{} quantities", document::format::count(count as u64)),
    }
}

/// How certain a change is, in a word or two.
pub fn word(change: &Change) -> &'static str {
    match change.significance {
        Significance::Changed => "changed",
        Significance::WithinNoise => "can be noise",
        Significance::TooFew => "too few samples",
        Significance::NotComparable => "not comparable",
    }
}
