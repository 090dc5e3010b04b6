//! What heap snapshots show, for people.

use document::{
    Cell, Column, Document, Figure, Section, Table, Tree, Unit,
    format::{bytes, count, counted, duration, utc},
    left,
    plain::visible,
    right,
};
use heap::{
    Extent, Gaps, GenerationRow, GrowthRow, LeakReport, PartialReport, PathRow, Report, RootRow,
    Strings, Suspect, TypeDetail, TypeRow, growth::Verdict, retention_graph,
};
use std::fmt::Write as _;

/// Steps of a path that are shown at each end.
const STEPS_AT_END: usize = 4;

/// Paths that are drawn together.
const DRAWN: usize = 6;

/// Letters of a string that are shown.
const LETTERS: usize = 60;

/// Growing types of one leak that are listed.
const MEMBERS: usize = 8;

/// A snapshot.
pub fn snapshot(report: &Report) -> Document {
    let mut sections = vec![
        head(report),
        types("Types by bytes", &report.types),
        types("Types by what they retain", &report.retaining_types),
    ];
    sections.extend(retainers(report));
    sections.push(kinds(&report.roots));
    if !report.finalizer_queue.is_empty() {
        sections.push(types("Waiting for their finalizer", &report.finalizer_queue));
    }
    sections.extend(report.strings.as_ref().map(strings));
    sections.extend(report.asked.iter().map(asked));
    sections.extend(gaps(report.missing.unreached_objects, &report.missing.gaps));
    Document { sections }
}

/// A snapshot that has no references.
pub fn partial(report: &PartialReport) -> Document {
    let PartialReport { process, pid, runtime, time_unix_ms, totals, .. } = report;
    let of_roots = report.looked_at == Extent::Roots;
    let what = if of_roots { "Roots" } else { "Histogram" };
    let mut head = Section::new(title(what, process, *pid, runtime, *time_unix_ms));
    let (objects, types) = (counted(totals.objects, "object"), counted(totals.types, "type"));
    head.say(match of_roots {
        true => format!("they refer to {objects} of {types}, {}", bytes(totals.bytes)),
        false => format!("{objects}, {}, {types}", bytes(totals.bytes)),
    });
    let note = report.note.as_deref();
    circumstances(&mut head, &report.generations, report.pause_seconds, report.complete, note);
    let mut sections = vec![head];
    if of_roots {
        sections.push(kinds(&report.roots));
        let mut referred = Section::new("What they refer to");
        let rows = report.root_types.iter().map(|row| {
            let cells = [row.roots, row.objects, row.pinned, row.weak].map(Cell::count);
            let kind = std::iter::once(Cell::text(row.kind.name()));
            kind.chain(cells).chain([Cell::bytes(row.bytes), type_name(&row.name)]).collect()
        });
        let columns = root_columns().chain([right("bytes"), left("type")]);
        referred.add(Table::new(columns.collect(), rows));
        sections.push(referred);
    } else {
        let mut section = Section::new("Types by bytes");
        let rows = report.types.iter().map(|row| {
            vec![Cell::bytes(row.bytes), Cell::count(row.objects), type_name(&row.name)]
        });
        section.add(Table::new(vec![right("bytes"), right("objects"), left("type")], rows));
        sections.push(section);
    }
    let mut not_included = Section::new("Not included");
    not_included.lead = report.not_looked_at.iter().map(ToString::to_string).collect();
    sections.push(not_included);
    sections.extend(gaps(0, &report.missing));
    Document { sections }
}

/// What grew over several snapshots.
pub fn leaks(report: &LeakReport) -> Document {
    let seconds = report.looks.last().map_or(0.0, |look| look.seconds);
    let snapshots = counted(report.looks.len() as u64, "snapshot");
    let mut head = Section::new(format!(
        "Heap of {} (pid {}), {snapshots} in {seconds:.1} s",
        report.process, report.pid
    ));
    if !report.complete {
        head.say("NOT COMPLETE: snapshots that lack objects do not show growth for certain");
    }
    if report.looks.len() < 2 {
        head.say("One snapshot shows no growth.");
    }
    let rows = report.looks.iter().map(|look| {
        vec![
            Cell::text(format!("{:.1} s", look.seconds)),
            Cell::count(look.objects),
            Cell::bytes(look.bytes),
            look.pause_seconds.map_or(Cell::Nothing, seconds_cell),
            Cell::text(if look.complete { "" } else { "not complete" }),
        ]
    });
    let columns = vec![right("at"), right("objects"), right("bytes"), right("pause"), left("")];
    head.add(Table::new(columns, rows));
    let mut sections = vec![head];
    if report.looks.len() > 1 {
        sections.extend(suspects(report));
        sections.push(changes(report));
    }
    Document { sections }
}

/// Whose snapshot it is, and when it was taken.
fn title(what: &str, process: &str, pid: u32, runtime: &str, unix_ms: u64) -> String {
    let process = match (process.is_empty(), pid) {
        (true, 0) => "a process".to_owned(),
        (false, 0) => process.to_owned(),
        (true, pid) => format!("process {pid}"),
        (false, pid) => format!("{process} (pid {pid})"),
    };
    let mut text = format!("{what} of {process}");
    if !runtime.is_empty() {
        let _ = write!(text, ", {runtime}");
    }
    if unix_ms > 0 {
        let _ = write!(text, ", {}", utc(unix_ms));
    }
    text
}

fn seconds_cell(seconds: f64) -> Cell {
    Cell::nanoseconds((seconds * 1e9) as u64)
}

/// Where the objects are, for how long the process was paused, and what is missing.
fn circumstances(
    section: &mut Section,
    generations: &[GenerationRow],
    pause_seconds: Option<f64>,
    complete: bool,
    note: Option<&str>,
) {
    let generations: Vec<String> =
        generations.iter().map(|row| format!("{} {}", row.name, bytes(row.bytes))).collect();
    if !generations.is_empty() {
        section.say(generations.join(", "));
    }
    if let Some(pause) = pause_seconds {
        section.say(format!("the process was paused for {}", duration((pause * 1e9) as u64)));
    }
    section.lead.extend(completeness(complete, note));
}

/// Whether something is missing, or to be noted.
pub fn completeness(complete: bool, note: Option<&str>) -> Option<String> {
    match (complete, note) {
        (false, note) => {
            Some(format!("NOT COMPLETE: {}", note.unwrap_or("not all objects are in it")))
        }
        (true, note) => note.map(|note| format!("note: {note}")),
    }
}

fn head(report: &Report) -> Section {
    let Report { process, pid, runtime, time_unix_ms, totals, .. } = report;
    let mut section = Section::new(title("Heap", process, *pid, runtime, *time_unix_ms));
    section.say(format!(
        "{}, {}, {}, {}",
        counted(totals.objects, "object"),
        bytes(totals.bytes),
        counted(totals.references, "reference"),
        counted(totals.types, "type")
    ));
    let note = report.note.as_deref();
    circumstances(&mut section, &report.generations, report.pause_seconds, report.complete, note);
    section
}

fn type_name(name: &str) -> Cell {
    Cell::Name { forms: vec![name.to_owned(), profile::without_namespaces(name)], place: None }
}

fn types(title: &str, rows: &[TypeRow]) -> Section {
    let rows = rows.iter().map(|row| {
        vec![
            Cell::bytes(row.bytes),
            Cell::count(row.objects),
            Cell::bytes(row.retained_bytes),
            type_name(&row.name),
        ]
    });
    let columns = vec![right("bytes"), right("objects"), right("retained"), left("type")];
    let mut section = Section::new(title);
    section.add(Table::new(columns, rows));
    section
}

fn retainers(report: &Report) -> Option<Section> {
    let mut tree = Tree::default();
    for retainer in &report.retainers {
        let own = bytes(retainer.bytes);
        let by = format!("by {} at 0x{:x}, itself {own}", retainer.name, retainer.address);
        tree.push(0, [Cell::bytes(retainer.retained_bytes), Cell::text(by)]);
        if let Some(path) = &retainer.path {
            tree.push(1, [Cell::text(path_text(path))]);
        }
    }
    let mut section = Section::new("Where most is retained");
    section.add(tree);
    let paths = report.retainers.iter().filter_map(|retainer| Some((retainer.path.as_ref()?, 0)));
    section.add(Figure::graph("How it is retained", retention_graph(paths.take(DRAWN))));
    (!report.retainers.is_empty()).then_some(section)
}

fn root_columns() -> impl Iterator<Item = Column> {
    let numbers = [right("roots"), right("objects"), right("pinning"), right("weak")];
    std::iter::once(left("kind")).chain(numbers)
}

fn kinds(roots: &[RootRow]) -> Section {
    let rows = roots.iter().map(|row| {
        let cells = [row.roots, row.objects, row.pinned, row.weak].map(Cell::count);
        std::iter::once(Cell::text(row.kind.name())).chain(cells).collect()
    });
    let mut section = Section::new("Roots");
    section.add(Table::new(root_columns().collect(), rows));
    section
}

fn strings(strings: &Strings) -> Section {
    let mut section = Section::new("Strings");
    section.say(format!(
        "{}, {}, of which {} are distinct; the duplicates waste {}",
        counted(strings.objects, "string"),
        bytes(strings.bytes),
        count(strings.distinct),
        bytes(strings.wasted_bytes)
    ));
    let rows = strings.duplicates.iter().map(|row| {
        let content = match &row.text {
            Some(text) => quoted(text, row.length),
            None => format!("{} characters", count(u64::from(row.length))),
        };
        vec![Cell::bytes(row.wasted_bytes), Cell::count(row.objects), Cell::text(content)]
    });
    section.extend(Table::of(vec![right("wasted"), right("times"), left("text")], rows));
    section
}

/// A string, cut where it is long; `length` is that of the whole.
fn quoted(text: &str, length: u32) -> String {
    let shown: String = visible(text).chars().take(LETTERS).collect();
    let whole = shown.encode_utf16().count() >= length as usize;
    format!("\"{shown}{}\"", if whole { "" } else { "…" })
}

/// What retains the objects of a type.
fn asked(asked: &TypeDetail) -> Section {
    let mut section = Section::new(format!("What retains {}", asked.row.name));
    section.say(format!(
        "{}, {}, retaining {}",
        counted(asked.row.objects, "object"),
        bytes(asked.row.bytes),
        bytes(asked.row.retained_bytes)
    ));
    if asked.examined_objects < asked.row.objects {
        let examined = count(asked.examined_objects);
        section.say(format!("paths are those of {examined} objects, evenly spread"));
    }
    if asked.unreached_objects > 0 {
        let unreached = count(asked.unreached_objects);
        section.say(format!("{unreached} are unreachable from the known roots"));
    }
    let mut tree = Tree::default();
    for holder in &asked.holders {
        let objects = format!("{} of them, {}", count(holder.objects), bytes(holder.bytes));
        tree.push(0, [Cell::text(objects)]);
        tree.push(1, [Cell::text(path_text(&holder.path))]);
    }
    if !tree.nodes.is_empty() {
        section.add(tree);
        let paths = asked.holders.iter().map(|holder| (&holder.path, holder.objects));
        section.add(Figure::graph("How they are retained", retention_graph(paths)));
    }
    section
}

/// `static Shop.orders → List<Order>._items → Order[] → Order × 3`.
pub fn path_text(path: &PathRow) -> String {
    let mut text = path.root_text();
    let steps = path.steps.len();
    let cut = steps > 2 * STEPS_AT_END + 1 || path.omitted_steps > 0;
    for (index, step) in path.steps.iter().enumerate() {
        if cut && index == STEPS_AT_END {
            let left_out =
                (steps as u64 + path.omitted_steps).saturating_sub(2 * STEPS_AT_END as u64);
            let _ = write!(text, " → … {} more …", count(left_out));
        }
        if cut && (STEPS_AT_END..steps.saturating_sub(STEPS_AT_END)).contains(&index) {
            continue;
        }
        let _ = write!(text, " → {}", step.name);
        if step.times > 1 {
            let _ = write!(text, " × {} ", count(u64::from(step.times)));
        }
        if let Some(field) = step.field.as_ref().filter(|field| *field != "[]") {
            let _ = write!(text, ".{}", field);
        }
        text.truncate(text.trim_end().len());
    }
    text
}

fn gaps(unreached: u64, gaps: &Gaps) -> Option<Section> {
    let numbers = [
        (unreached, "objects that are unreachable from the roots"),
        (gaps.dangling_references, "references to where no object is known"),
        (gaps.dangling_roots, "roots to where no object is known"),
        (gaps.duplicate_objects, "objects reported twice"),
        (gaps.objects_without_type, "objects whose type has no name"),
        (gaps.objects_over_budget, "objects that did not fit into memory"),
        (gaps.references_over_budget, "references that did not fit into memory"),
        (gaps.others_over_budget, "roots and strings that did not fit into memory"),
    ];
    let numbers = numbers.into_iter().filter(|(number, _)| *number > 0);
    let mut section = Section::new("Gaps in the snapshot");
    section.lead = numbers.map(|(number, what)| format!("{} {what}", count(number))).collect();
    if gaps.spooled_bytes > 0 {
        let spooled = bytes(gaps.spooled_bytes);
        section.say(format!("{spooled} of references went through a temporary file"));
    }
    (!section.lead.is_empty()).then_some(section)
}

fn growth_cells(growth: &GrowthRow) -> [Cell; 3] {
    [
        Cell::quantity(growth.bytes_trend.change, Unit::BytesChange),
        Cell::quantity(growth.objects_trend.change, Unit::CountChange),
        Cell::quantity(growth.objects_trend.per_second, Unit::ChangePerSecond),
    ]
}

fn growth_columns() -> impl Iterator<Item = Column> {
    [right("bytes"), right("objects"), right("rate")].into_iter()
}

/// What changed most from the first snapshot to the last.
fn changes(report: &LeakReport) -> Section {
    let rows = report.types.iter().map(|row| {
        let objects: Vec<String> = row.objects.iter().map(|objects| count(*objects)).collect();
        let t = row.objects_trend.t.map_or(Cell::Nothing, |t| Cell::text(format!("{t:.1}")));
        let rest = [t, Cell::text(objects.join(" → ")), type_name(&row.name)];
        growth_cells(row).into_iter().chain(rest).collect()
    });
    let columns = growth_columns().chain([right("t"), left("in each snapshot"), left("type")]);
    let mut section = Section::new("What changed most");
    section.add(Table::new(columns.collect(), rows));
    section
}

/// What is suspected to leak, most growth first.
fn suspects(report: &LeakReport) -> Vec<Section> {
    if report.suspects.is_empty() {
        let mut section = Section::new("Suspected to leak");
        section.say("Nothing is suspected to leak.");
        return vec![section];
    }
    report.suspects.iter().enumerate().map(|(index, of)| suspect(index + 1, of)).collect()
}

fn suspect(number: usize, suspect: &Suspect) -> Section {
    let mut section = Section::new(format!("Suspected to leak: {number}. {}", suspect.name));
    section.say(match suspect.verdict {
        Verdict::Leaking => "it leaks: it grows from each snapshot to the next, along a line",
        Verdict::Likely => "it is likely to leak",
        Verdict::Grew => "it grew; two snapshots cannot tell a leak from a cache that fills",
    });
    let per_second = bytes(suspect.bytes_per_second.max(0.0).round() as u64);
    section.say(format!("grows by {per_second}/s, with all that grows with it"));
    if let Some(owner) = &suspect.owner {
        let field = owner.static_field.as_ref();
        section.say(format!(
            "owner: a {}, which retains {}{}",
            owner.name,
            bytes(owner.retained_bytes),
            field.map_or_else(String::new, |field| format!(", held by static {field}"))
        ));
    }
    if let Some(path) = suspect.path() {
        section.say(path_text(path));
    }
    let rows = suspect.members.iter().map(|member| {
        let growth = &member.growth;
        growth_cells(growth).into_iter().chain([type_name(&growth.name)]).collect()
    });
    let columns = growth_columns().chain([left("type")]).collect();
    section.add(Table::top(columns, rows, MEMBERS));
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use heap::{RootKind, Step};

    fn path(types: &[(&str, u32)], omitted_steps: u64) -> PathRow {
        let step = |(name, times): &(&str, u32)| Step {
            name: (*name).to_owned(),
            times: *times,
            address: 8,
            field: None,
        };
        PathRow {
            root: RootKind::Handle,
            root_name: None,
            pinned: true,
            steps: types.iter().map(step).collect(),
            omitted_steps,
        }
    }

    #[test]
    fn paths_show_both_ends() {
        let short = path(&[("Object[]", 1), ("Link", 1234)], 0);
        assert_eq!(path_text(&short), "pinning handle → Object[] → Link × 1,234");
        let letters = ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J"].map(|letter| (letter, 1));
        let long = path_text(&path(&letters, 90));
        assert_eq!(long, "pinning handle → A → B → C → D → … 92 more … → G → H → I → J");
        let named = PathRow {
            root: RootKind::Stack,
            root_name: Some("Main".into()),
            ..path(&[("A", 1)], 0)
        };
        assert_eq!(path_text(&named), "stack Main → A");
        let mut fields = path(&[("List", 1), ("Link[]", 1), ("Link", 1234), ("A", 1)], 0);
        for (step, field) in fields.steps.iter_mut().zip(["_items", "[]", "value"]) {
            step.field = Some(field.to_owned());
        }
        let text = "pinning handle → List._items → Link[] → Link × 1,234 .value → A";
        assert_eq!(path_text(&fields), text);
        let field = PathRow {
            root: RootKind::Statics,
            root_name: Some("Shop.Cache.entries".into()),
            ..path(&[("A", 1)], 0)
        };
        assert_eq!(path_text(&field), "static Shop.Cache.entries → A");
    }

    #[test]
    fn strings_are_cut_and_harmless() {
        assert_eq!(quoted("a\nb", 3), "\"a\\u{a}b\"");
        assert_eq!(quoted("ab", 200), "\"ab…\"");
    }
}
