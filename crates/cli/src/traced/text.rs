//! Calls of instrumented methods, for people.

use super::report::{Method, Report};
use crate::console::{printable, table};
use profile::format::{count, counted, duration};
use std::fmt::Write as _;

/// Most letters of a bar.
const BAR: u64 = 40;
/// Rows of a histogram.
const ROWS: usize = 12;
/// How many methods have their histogram shown.
const HISTOGRAMS: usize = 3;
/// How many of the slowest calls are shown.
const SLOWEST: usize = 10;
/// Depth of the tree that is shown.
const DEEPEST: u32 = 24;

/// The report as text: at most `top` rows of each list, lines as wide as the terminal.
pub fn of(report: &Report, top: usize, width: Option<usize>) -> String {
    let mut text = String::new();
    let process = format!("{} ({})", printable(&report.process), report.pid);
    if report.dry_run {
        let possible = counted(report.not_called.len() as u64, "method");
        let _ = writeln!(
            text,
            "{process}: {possible} would be instrumented, {} not",
            report.refused.len()
        );
        names(&mut text, report, top);
        refused(&mut text, report, top);
        text.push_str(nothing(report));
        return text;
    }
    let called = report.methods.len();
    let instrumented = counted((called + report.not_called.len()) as u64, "method");
    let calls = report.methods.iter().map(|method| method.calls).sum();
    let calls = counted(calls, "call");
    let _ = write!(
        text,
        "{process}: {instrumented} instrumented for {:.1} s, {called} called, {calls}",
        report.seconds
    );
    if report.stopped_ns > 0 {
        let _ = write!(text, "; the runtime was suspended for {}", duration(report.stopped_ns));
    }
    text.push('\n');
    if !report.methods.is_empty() {
        text.push('\n');
        text.push_str(&methods(report, top, width));
    }
    for method in report.methods.iter().filter(|method| method.timed > 1).take(HISTOGRAMS) {
        histogram(&mut text, method);
    }
    slowest(&mut text, report, width);
    tree(&mut text, report, top);
    if !report.not_called.is_empty() {
        let _ = writeln!(
            text,
            "\nNot called in this time: {}",
            counted(report.not_called.len() as u64, "method")
        );
        names(&mut text, report, top.min(10));
    }
    refused(&mut text, report, top);
    text.push_str(nothing(report));
    if !report.reverted {
        text.push_str(
            "\nNote: the process ended, or was lost, before all methods were reverted.\n",
        );
    }
    for (reason, dropped) in report.dropped.iter().filter(|(_, dropped)| **dropped > 0) {
        let _ = writeln!(text, "\nDropped: {dropped} {reason}.");
    }
    for note in &report.notes {
        let _ = writeln!(text, "\nNote: {}.", printable(note));
    }
    text
}

/// What is said where no rule matches anything.
fn nothing(report: &Report) -> &'static str {
    if report.methods.is_empty() && report.not_called.is_empty() && report.refused.is_empty() {
        "\n\
            No loaded method matches. Names are those of the compiled program: `clrscope il <assembly>` lists them.\n"
    } else {
        ""
    }
}

fn methods(report: &Report, top: usize, width: Option<usize>) -> String {
    let time = |nanos: Option<u64>| nanos.map_or_else(|| "-".to_owned(), duration);
    let rows = report.methods.iter().take(top).map(|method| {
        vec![
            count(method.calls),
            if method.timed > 0 { count(method.errors) } else { "-".to_owned() },
            if method.timed > 0 { duration(method.total_ns) } else { "-".to_owned() },
            time(method.p50_ns),
            time(method.p90_ns),
            time(method.p99_ns),
            time(method.max_ns),
            printable(&method.method),
        ]
    });
    let head = ["CALLS", "ERRORS", "TOTAL", "P50", "P90", "P99", "MAX", "METHOD"];
    let mut text = table(&head, &rows.collect::<Vec<_>>(), width);
    if report.methods.len() > top {
        let _ = writeln!(text, "… and {} more (--top)", report.methods.len() - top);
    }
    text
}

/// Buckets, merged so that the rows fit.
fn histogram(text: &mut String, method: &Method) {
    let _ = writeln!(text, "\n{}", printable(&method.method));
    let together = method.histogram.len().div_ceil(ROWS).max(1);
    let rows: Vec<(u64, u64, u64)> = method
        .histogram
        .chunks(together)
        .filter_map(|part| {
            let (first, last) = (part.first()?, part.last()?);
            Some((first.0, last.1, part.iter().map(|(.., count)| count).sum()))
        })
        .collect();
    let most = rows.iter().map(|(.., count)| *count).max().unwrap_or(1).max(1);
    for (from, to, calls) in rows {
        let bar = (calls * BAR).div_ceil(most) as usize;
        let _ = writeln!(
            text,
            "  {:>9} – {:<9} {:<40} {}",
            duration(from),
            duration(to),
            "█".repeat(bar),
            count(calls)
        );
    }
}

/// The slowest calls of all methods, where there is more than one of any.
fn slowest(text: &mut String, report: &Report, width: Option<usize>) {
    if report.methods.iter().all(|method| method.timed <= 1) {
        return;
    }
    let calls = report
        .methods
        .iter()
        .flat_map(|method| method.slowest.iter().map(move |call| (method, call)));
    let mut calls: Vec<_> = calls.collect();
    calls.sort_by_key(|(_, call)| std::cmp::Reverse(call.ns));
    let rows = calls.iter().take(SLOWEST).map(|(method, call)| {
        vec![
            duration(call.ns),
            format!("{:.3} s", call.time_ns as f64 / 1e9),
            if call.error { "error" } else { "" }.to_owned(),
            printable(&call.thread),
            printable(&method.method),
        ]
    });
    let rows =
        table(&["SLOWEST", "FROM", "", "THREAD", "METHOD"], &rows.collect::<Vec<_>>(), width);
    let mut lines = rows.lines();
    let _ = writeln!(text, "\n{}", lines.next().unwrap_or_default());
    for (line, (_, call)) in lines.zip(calls) {
        let _ = writeln!(text, "{line}");
        if !call.arguments.is_empty() {
            let arguments: Vec<String> = call.arguments.iter().map(ToString::to_string).collect();
            let _ = writeln!(text, "    {}", printable(&arguments.join(", ")));
        }
    }
    for method in &report.methods {
        if let Some(why) = &method.no_arguments {
            let _ = writeln!(
                text,
                "\nArguments of {} are not shown: {why}.",
                printable(&method.method)
            );
        }
    }
}

fn tree(text: &mut String, report: &Report, top: usize) {
    // One line for each method says nothing that the table does not.
    if report.tree.iter().all(|node| node.depth == 0) {
        return;
    }
    text.push_str("\nCall tree (calls, total, self):\n");
    for node in report.tree.iter().filter(|node| node.depth <= DEEPEST).take(top) {
        let indent = "  ".repeat(node.depth as usize + 1);
        let (total, own) = (duration(node.total_ns), duration(node.own_ns));
        let _ = writeln!(
            text,
            "{indent}{}  {}, {total}, {own}",
            printable(&node.method),
            count(node.calls)
        );
    }
    if report.tree.len() > top {
        let _ = writeln!(text, "  … and {} more (--top)", report.tree.len() - top);
    }
}

fn names(text: &mut String, report: &Report, top: usize) {
    for named in report.not_called.iter().take(top) {
        let _ = writeln!(text, "  {}", printable(&named.method));
    }
    if report.not_called.len() > top {
        let _ = writeln!(text, "  … and {} more (--top)", report.not_called.len() - top);
    }
}

fn refused(text: &mut String, report: &Report, top: usize) {
    if report.refused.is_empty() {
        return;
    }
    let _ =
        writeln!(text, "\nNot instrumented: {}", counted(report.refused.len() as u64, "method"));
    for refused in report.refused.iter().take(top) {
        let _ = writeln!(text, "  {}: {}", printable(&refused.method), printable(&refused.reason));
    }
    if report.refused.len() > top {
        let _ = writeln!(text, "  … and {} more (--top)", report.refused.len() - top);
    }
}
