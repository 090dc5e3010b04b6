//! Looks at a heap, for people.

use crate::console::{printable, table};
use heap::{
    Extent, Gaps, GenerationRow, HolderRow, LeakReport, PartialReport, PathRow, Report, RootRow,
    TypeRow, growth::Verdict,
};
use report::format::{bytes, count, counted, duration, rate, utc};
use std::fmt::Write as _;

/// Steps of a path that are shown at each end.
const STEPS_AT_END: usize = 4;

/// Letters of a string that are shown.
const LETTERS: usize = 60;

/// A report of one snapshot.
pub fn report(report: &Report, width: Option<usize>) -> String {
    let mut text = String::new();
    head(&mut text, report);
    types(&mut text, "Types by bytes", &report.types, width);
    types(&mut text, "Types by what they retain", &report.retaining_types, width);
    retainers(&mut text, report);
    kinds(&mut text, &report.roots, width);
    if !report.finalizer_queue.is_empty() {
        types(&mut text, "Waiting for their finalizer", &report.finalizer_queue, width);
    }
    strings(&mut text, report);
    for asked in &report.asked {
        let _ = writeln!(text, "\nWhat retains {}", printable(&asked.row.name));
        let _ = writeln!(
            text,
            "  {}, {}, retaining {}",
            counted(asked.row.objects, "object"),
            bytes(asked.row.bytes),
            bytes(asked.row.retained_bytes)
        );
        if asked.examined_objects < asked.row.objects {
            let _ = writeln!(
                text,
                "  paths are those of {} objects, evenly spread",
                count(asked.examined_objects)
            );
        }
        if asked.unreached_objects > 0 {
            let _ = writeln!(
                text,
                "  {} are unreachable from the known roots",
                count(asked.unreached_objects)
            );
        }
        holders(&mut text, &asked.holders);
    }
    gaps(&mut text, report.missing.unreached_objects, &report.missing.gaps);
    text
}

/// Whose snapshot it is, and when it was taken.
fn title(text: &mut String, what: &str, process: &str, pid: u32, runtime: &str, unix_ms: u64) {
    let process = match (process.is_empty(), pid) {
        (true, 0) => "a process".to_owned(),
        (false, 0) => printable(process),
        (true, pid) => format!("process {pid}"),
        (false, pid) => format!("{} (pid {pid})", printable(process)),
    };
    let _ = write!(text, "{what} of {process}");
    if !runtime.is_empty() {
        let _ = write!(text, ", {runtime}");
    }
    if unix_ms > 0 {
        let _ = write!(text, ", {}", utc(unix_ms));
    }
}

/// Where the objects are, for how long the process was paused, and what is missing.
fn circumstances(
    text: &mut String,
    generations: &[GenerationRow],
    pause_seconds: Option<f64>,
    complete: bool,
    said: Option<&str>,
) {
    let generations: Vec<String> =
        generations.iter().map(|row| format!("{} {}", row.name, bytes(row.bytes))).collect();
    if !generations.is_empty() {
        let _ = writeln!(text, "  {}", generations.join(", "));
    }
    if let Some(pause) = pause_seconds {
        let _ = writeln!(text, "  the process was paused for {}", duration((pause * 1e9) as u64));
    }
    note(text, complete, said);
}

/// A snapshot that has no references.
pub fn brief(brief: &PartialReport, width: Option<usize>) -> String {
    let mut text = String::new();
    let what = if brief.looked_at == Extent::Roots { "Roots" } else { "Histogram" };
    title(&mut text, what, &brief.process, brief.pid, &brief.runtime, brief.time_unix_ms);
    let totals = &brief.totals;
    let (objects, types) = (counted(totals.objects, "object"), counted(totals.types, "type"));
    let _ = match brief.looked_at {
        Extent::Roots => {
            writeln!(text, "\n  they refer to {objects} of {types}, {}", bytes(totals.bytes))
        }
        _ => writeln!(text, "\n  {objects}, {}, {types}", bytes(totals.bytes)),
    };
    circumstances(
        &mut text,
        &brief.generations,
        brief.pause_seconds,
        brief.complete,
        brief.note.as_deref(),
    );
    if brief.looked_at == Extent::Roots {
        kinds(&mut text, &brief.roots, width);
        let rows: Vec<Vec<String>> = brief
            .root_types
            .iter()
            .map(|row| {
                let cells = [row.roots, row.objects, row.pinned, row.weak].map(count);
                let kind = std::iter::once(row.kind.name().to_owned());
                kind.chain(cells).chain([bytes(row.bytes), printable(&row.name)]).collect()
            })
            .collect();
        let head = ["KIND", "ROOTS", "OBJECTS", "PINNING", "WEAK", "BYTES", "TYPE"];
        let _ = write!(text, "\nWhat they refer to\n{}", indented(&table(&head, &rows, width)));
    } else {
        let row =
            |row: &heap::BriefRow| vec![bytes(row.bytes), count(row.objects), printable(&row.name)];
        let rows: Vec<Vec<String>> = brief.types.iter().map(row).collect();
        let _ = write!(
            text,
            "\nTypes by bytes\n{}",
            indented(&table(&["BYTES", "OBJECTS", "TYPE"], &rows, width))
        );
    }
    let not_included: String =
        brief.not_looked_at.iter().map(|what| format!("  {what}\n")).collect();
    let _ = write!(text, "\nNot included\n{not_included}");
    gaps(&mut text, 0, &brief.missing);
    text
}

fn head(text: &mut String, report: &Report) {
    title(text, "Heap", &report.process, report.pid, &report.runtime, report.time_unix_ms);
    let totals = &report.totals;
    let _ = writeln!(
        text,
        "\n  {}, {}, {}, {}",
        counted(totals.objects, "object"),
        bytes(totals.bytes),
        counted(totals.references, "reference"),
        counted(totals.types, "type")
    );
    circumstances(
        text,
        &report.generations,
        report.pause_seconds,
        report.complete,
        report.note.as_deref(),
    );
}

fn note(text: &mut String, complete: bool, note: Option<&str>) {
    match (complete, note) {
        (false, note) => {
            let _ = writeln!(
                text,
                "  NOT COMPLETE: {}",
                printable(note.unwrap_or("not all objects are in it"))
            );
        }
        (true, Some(note)) => _ = writeln!(text, "  note: {}", printable(note)),
        (true, None) => {}
    }
}

fn types(text: &mut String, head: &str, rows: &[TypeRow], width: Option<usize>) {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                bytes(row.bytes),
                count(row.objects),
                bytes(row.retained_bytes),
                printable(&row.name),
            ]
        })
        .collect();
    let _ = write!(
        text,
        "\n{head}\n{}",
        indented(&table(&["BYTES", "OBJECTS", "RETAINED", "TYPE"], &rows, width))
    );
}

fn retainers(text: &mut String, report: &Report) {
    if report.retainers.is_empty() {
        return;
    }
    text.push_str("\nWhere most is retained\n");
    for retainer in &report.retainers {
        let _ = writeln!(
            text,
            "  {} by {} at 0x{:x}, itself {}",
            bytes(retainer.retained_bytes),
            printable(&retainer.name),
            retainer.address,
            bytes(retainer.bytes)
        );
        if let Some(path) = &retainer.path {
            let _ = writeln!(text, "    {}", path_text(path));
        }
    }
}

fn kinds(text: &mut String, roots: &[RootRow], width: Option<usize>) {
    let rows: Vec<Vec<String>> = roots
        .iter()
        .map(|row| {
            let cells = [row.roots, row.objects, row.pinned, row.weak].map(count);
            std::iter::once(row.kind.name().to_owned()).chain(cells).collect()
        })
        .collect();
    let head = ["KIND", "ROOTS", "OBJECTS", "PINNING", "WEAK"];
    let _ = write!(text, "\nRoots\n{}", indented(&table(&head, &rows, width)));
}

fn strings(text: &mut String, report: &Report) {
    let Some(strings) = &report.strings else { return };
    let _ = writeln!(
        text,
        "\nStrings\n  {}, {}, of which {} are distinct; the duplicates waste {}",
        counted(strings.objects, "string"),
        bytes(strings.bytes),
        count(strings.distinct),
        bytes(strings.wasted_bytes)
    );
    for row in &strings.duplicates {
        let content = match &row.text {
            Some(text) => quoted(text, row.length),
            None => format!("{} characters", count(u64::from(row.length))),
        };
        let _ = writeln!(
            text,
            "  {} wasted by {} times {content}",
            bytes(row.wasted_bytes),
            count(row.objects)
        );
    }
}

/// A string, cut where it is long; `length` is that of the whole.
fn quoted(text: &str, length: u32) -> String {
    let shown: String = printable(text).chars().take(LETTERS).collect();
    let whole = shown.encode_utf16().count() >= length as usize;
    format!("\"{shown}{}\"", if whole { "" } else { "…" })
}

fn holders(text: &mut String, holders: &[HolderRow]) {
    for holder in holders {
        let _ = writeln!(text, "  {} of them, {}", count(holder.objects), bytes(holder.bytes));
        let _ = writeln!(text, "    {}", path_text(&holder.path));
    }
}

/// `static Shop.orders → List<Order>._items → Order[] → Order × 3`.
pub fn path_text(path: &PathRow) -> String {
    let mut text = printable(&path.root_text());
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
        let _ = write!(text, " → {}", printable(&step.name));
        if step.times > 1 {
            let _ = write!(text, " × {} ", count(u64::from(step.times)));
        }
        if let Some(field) = step.field.as_ref().filter(|field| *field != "[]") {
            let _ = write!(text, ".{}", printable(field));
        }
        text.truncate(text.trim_end().len());
    }
    text
}

fn gaps(text: &mut String, unreached: u64, gaps: &Gaps) {
    let lines = [
        (unreached, "objects that are unreachable from the roots"),
        (gaps.dangling_references, "references to where no object is known"),
        (gaps.dangling_roots, "roots to where no object is known"),
        (gaps.duplicate_objects, "objects reported twice"),
        (gaps.objects_without_type, "objects whose type has no name"),
        (gaps.objects_over_budget, "objects that did not fit into memory"),
        (gaps.references_over_budget, "references that did not fit into memory"),
        (gaps.others_over_budget, "roots and strings that did not fit into memory"),
    ];
    let lines: Vec<String> = lines
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("  {} {what}\n", count(*number)))
        .collect();
    if !lines.is_empty() {
        let _ = write!(text, "\nGaps in the snapshot\n{}", lines.concat());
    }
    if gaps.spooled_bytes > 0 {
        let _ = writeln!(
            text,
            "\n{} of references went through a temporary file",
            bytes(gaps.spooled_bytes)
        );
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// What grew over several snapshots.
pub fn leaks(report: &LeakReport, width: Option<usize>) -> String {
    let mut text = String::new();
    let seconds = report.looks.last().map_or(0.0, |look| look.seconds);
    let _ = writeln!(
        text,
        "Heap of {} (pid {}), {} in {:.1} s",
        printable(&report.process),
        report.pid,
        counted(report.looks.len() as u64, "snapshot"),
        seconds
    );
    let rows: Vec<Vec<String>> = report
        .looks
        .iter()
        .map(|look| {
            let pause =
                look.pause_seconds.map(|pause| duration((pause * 1e9) as u64)).unwrap_or_default();
            let note = if look.complete { "" } else { "not complete" };
            vec![
                format!("{:.1} s", look.seconds),
                count(look.objects),
                bytes(look.bytes),
                pause,
                note.to_owned(),
            ]
        })
        .collect();
    text.push_str(&indented(&table(&["AT", "OBJECTS", "BYTES", "PAUSE", ""], &rows, width)));
    if !report.complete {
        text.push_str(
            "  NOT COMPLETE: snapshots that lack objects do not show growth for certain\n",
        );
    }
    if report.looks.len() < 2 {
        text.push_str("\nOne snapshot shows no growth.\n");
        return text;
    }
    verdicts(&mut text, report, width);
    let rows: Vec<Vec<String>> = report
        .types
        .iter()
        .map(|row| {
            let objects: Vec<u64> = row.objects.clone();
            vec![
                signed(row.bytes_trend.change, bytes),
                signed(row.objects_trend.change, count),
                signed(row.objects_trend.per_second, |objects| rate(objects as f64)),
                row.objects_trend.t.map(|t| format!("{t:.1}")).unwrap_or_default(),
                objects.iter().map(|objects| count(*objects)).collect::<Vec<_>>().join(" → "),
                printable(&row.name),
            ]
        })
        .collect();
    let head = ["BYTES", "OBJECTS", "RATE", "T", "IN EACH SNAPSHOT", "TYPE"];
    let _ = write!(text, "\nWhat changed most\n{}", indented(&table(&head, &rows, width)));
    text
}

/// Growing types of one leak that are listed.
const MEMBERS: usize = 8;

fn verdicts(text: &mut String, report: &LeakReport, width: Option<usize>) {
    if report.suspects.is_empty() {
        text.push_str("\nNothing is suspected to leak.\n");
        return;
    }
    text.push_str("\nSuspected to leak\n");
    for (index, suspect) in report.suspects.iter().enumerate() {
        let verdict = match suspect.verdict {
            Verdict::Leaking => "leaks: it grows from each snapshot to the next, along a line",
            Verdict::Likely => "is likely to leak",
            Verdict::Grew => "grew; two snapshots cannot tell a leak from a cache that fills",
        };
        let _ = writeln!(
            text,
            "  {}. {} {verdict}\n     grows by {}/s, with all that grows with it",
            index + 1,
            printable(&suspect.name),
            bytes(suspect.bytes_per_second.max(0.0).round() as u64)
        );
        if let Some(owner) = &suspect.owner {
            let _ = writeln!(
                text,
                "     owner: a {}, which retains {}{}",
                printable(&owner.name),
                bytes(owner.retained_bytes),
                owner.static_field.as_ref().map_or_else(String::new, |field| format!(
                    ", held by static {}",
                    printable(field)
                ))
            );
        }
        if let Some(path) = suspect.path() {
            let _ = writeln!(text, "     {}", path_text(path));
        }
        let rows: Vec<Vec<String>> = suspect
            .members
            .iter()
            .take(MEMBERS)
            .map(|member| {
                let growth = &member.growth;
                vec![
                    signed(growth.bytes_trend.change, bytes),
                    signed(growth.objects_trend.change, count),
                    signed(growth.objects_trend.per_second, |objects| rate(objects as f64)),
                    printable(&growth.name),
                ]
            })
            .collect();
        let members = table(&["BYTES", "OBJECTS", "RATE", "TYPE"], &rows, width);
        text.extend(members.lines().map(|line| format!("       {line}\n")));
        if suspect.members.len() > MEMBERS {
            let _ = writeln!(text, "       … {} more", suspect.members.len() - MEMBERS);
        }
    }
}

fn signed(value: f64, write: impl Fn(u64) -> String) -> String {
    let sign = if value < 0.0 { "-" } else { "+" };
    format!("{sign}{}", write(value.abs().round() as u64))
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
        assert_eq!(signed(-2048.0, bytes), "-2.00 KB");
    }
}
