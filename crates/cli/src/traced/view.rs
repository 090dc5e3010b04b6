//! Calls of instrumented methods, for people.

use super::report::{Method, Report, Slow};
use document::{
    Cell, Document, Section, Table, Tree,
    format::{counted, duration},
    left, right,
};

/// Rows of a histogram.
const ROWS: usize = 12;
/// How many methods have their histogram shown.
const HISTOGRAMS: usize = 3;
/// How many of the slowest calls are shown.
const SLOWEST: usize = 10;
/// Depth of the tree that is shown.
const DEEPEST: u32 = 24;
/// Methods that were not called, besides those that were.
const NOT_CALLED: usize = 10;

/// The report as a document: at most `top` rows of each list.
pub fn of(report: &Report, top: usize) -> Document {
    let mut sections = vec![head(report, top)];
    if report.dry_run {
        sections.extend(names("Would be instrumented", report, top));
    } else {
        let several = report.methods.iter().filter(|method| method.timed > 1);
        sections.extend(several.take(HISTOGRAMS).map(histogram));
        sections.extend(slowest(report));
        sections.extend(tree(report, top));
        sections.extend(names("Not called in this time", report, top.min(NOT_CALLED)));
    }
    sections.extend(refused(report, top));
    sections.extend(notes(report));
    Document { sections }
}

fn head(report: &Report, top: usize) -> Section {
    let process = format!("{} ({})", report.process, report.pid);
    let (called, others) = (report.methods.len(), report.not_called.len());
    let mut section = if report.dry_run {
        let possible = counted(others as u64, "method");
        let refused = report.refused.len();
        Section::new(format!("{process}: {possible} would be instrumented, {refused} not"))
    } else {
        let instrumented = counted((called + others) as u64, "method");
        let calls = report.methods.iter().map(|method| method.calls).sum();
        let suspended = match report.stopped_ns {
            0 => String::new(),
            time => format!("; the runtime was suspended for {}", duration(time)),
        };
        Section::new(format!(
            "{process}: {instrumented} instrumented for {:.1} s, {called} called, {}{suspended}",
            report.seconds,
            counted(calls, "call")
        ))
    };
    if called == 0 && others == 0 && report.refused.is_empty() {
        section.say(
            "No loaded method matches. Names are those of the compiled program: \
             `clrscope il <assembly>` lists them.",
        );
    }
    if called > 0 {
        section.add(methods(report, top));
    }
    section
}

fn methods(report: &Report, top: usize) -> Table {
    let time = |nanos: Option<u64>| nanos.map_or(Cell::Nothing, Cell::nanoseconds);
    let rows = report.methods.iter().map(|method| {
        let timed = method.timed > 0;
        vec![
            Cell::count(method.calls),
            if timed { Cell::count(method.errors) } else { Cell::Nothing },
            time(timed.then_some(method.total_ns)),
            time(method.p50_ns),
            time(method.p90_ns),
            time(method.p99_ns),
            time(method.max_ns),
            Cell::name(&method.method),
        ]
    });
    let numbers = ["calls", "errors", "total", "p50", "p90", "p99", "max"].map(right);
    let columns = numbers.into_iter().chain([left("method")]).collect();
    Table::top(columns, rows, top)
}

/// Buckets, merged so that the rows fit.
fn histogram(method: &Method) -> Section {
    let together = method.histogram.len().div_ceil(ROWS).max(1);
    let rows = method.histogram.chunks(together).filter_map(|part| {
        let (first, last) = (part.first()?, part.last()?);
        Some((first.0, last.1, part.iter().map(|(.., count)| count).sum()))
    });
    let rows: Vec<(u64, u64, u64)> = rows.collect();
    let most = rows.iter().map(|(.., count)| *count).max().unwrap_or(1).max(1);
    let rows = rows.into_iter().map(|(from, to, calls)| {
        vec![
            Cell::nanoseconds(from),
            Cell::nanoseconds(to),
            Cell::count(calls),
            Cell::Bar(calls as f64 / most as f64),
        ]
    });
    let mut section = Section::new(&method.method);
    section.add(Table::new(vec![right("from"), right("to"), right("calls"), left("")], rows));
    section
}

/// The slowest calls of all methods, where there is more than one of any.
fn slowest(report: &Report) -> Option<Section> {
    if report.methods.iter().all(|method| method.timed <= 1) {
        return None;
    }
    let calls = report.methods.iter();
    let calls = calls.flat_map(|method| method.slowest.iter().map(move |call| (method, call)));
    let mut calls: Vec<(&Method, &Slow)> = calls.collect();
    order::sort_by_key(&mut calls, |(_, call)| std::cmp::Reverse(call.ns));
    calls.truncate(SLOWEST);
    let rows = calls.iter().map(|(method, call)| {
        vec![
            Cell::nanoseconds(call.ns),
            Cell::text(format!("{:.3} s", call.time_ns as f64 / 1e9)),
            Cell::text(if call.error { "error" } else { "" }),
            Cell::text(&call.thread),
            Cell::name(&method.method),
        ]
    });
    let columns = vec![right("time"), right("from"), left(""), left("thread"), left("method")];
    let mut section = Section::new("Slowest calls");
    section.add(Table::new(columns, rows));
    let mut arguments = Tree::default();
    for (method, call) in calls.iter().filter(|(_, call)| !call.arguments.is_empty()) {
        let values: Vec<String> = call.arguments.iter().map(ToString::to_string).collect();
        arguments.push(0, [Cell::nanoseconds(call.ns), Cell::name(&method.method)]);
        arguments.push(1, [Cell::text(values.join(", "))]);
    }
    if !arguments.nodes.is_empty() {
        section.add(arguments);
    }
    for method in &report.methods {
        if let Some(why) = &method.no_arguments {
            section.say(format!("Arguments of {} are not shown: {why}.", method.method));
        }
    }
    Some(section)
}

fn tree(report: &Report, top: usize) -> Option<Section> {
    // One line for each method says nothing that the table does not.
    if report.tree.iter().all(|node| node.depth == 0) {
        return None;
    }
    let rows = report.tree.iter().filter(|node| node.depth <= DEEPEST).map(|node| {
        vec![
            Cell::count(node.calls),
            Cell::nanoseconds(node.total_ns),
            Cell::nanoseconds(node.own_ns),
            Cell::name("  ".repeat(node.depth as usize) + &node.method),
        ]
    });
    let columns = vec![right("calls"), right("total"), right("self"), left("method")];
    let mut section = Section::new("Call tree");
    section.add(Table::top(columns, rows, top));
    Some(section)
}

fn names(title: &str, report: &Report, top: usize) -> Option<Section> {
    if report.not_called.is_empty() {
        return None;
    }
    let methods = counted(report.not_called.len() as u64, "method");
    let mut section = Section::new(format!("{title}: {methods}"));
    section.add(Tree::top(report.not_called.iter().map(|named| named.method.clone()), top));
    Some(section)
}

fn refused(report: &Report, top: usize) -> Option<Section> {
    if report.refused.is_empty() {
        return None;
    }
    let methods = counted(report.refused.len() as u64, "method");
    let lines = report.refused.iter().map(|one| format!("{}: {}", one.method, one.reason));
    let mut section = Section::new(format!("Not instrumented: {methods}"));
    section.add(Tree::top(lines, top));
    Some(section)
}

fn notes(report: &Report) -> Option<Section> {
    let mut section = Section::new("Notes");
    if !report.dry_run && !report.reverted {
        section.say("The process ended, or was lost, before all methods were reverted.");
    }
    let dropped = report.dropped.iter().filter(|(_, dropped)| **dropped > 0);
    section.lead.extend(dropped.map(|(reason, dropped)| format!("Dropped: {dropped} {reason}.")));
    section.lead.extend(report.notes.iter().map(|note| format!("{note}.")));
    (!section.lead.is_empty()).then_some(section)
}
