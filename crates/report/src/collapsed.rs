use std::io::Write;

use profile::{CallTree, Profile, SeriesKind, TreeOptions};

use crate::{Exporter, Options, ReportError, one_kind};

pub const EXPORTER: Exporter = Exporter {
    id: "collapsed",
    extension: "folded",
    summary: "one line per stack, for flamegraph.pl, inferno and others",
    binary: false,
    single_samples: false,
    snapshots: false,
    render,
};

/// `thread;root;…;leaf count`: samples for CPU and wall time, exceptions for exceptions, bytes for
/// allocations, nanoseconds for locks, the thread pool, calls, transitions, compilations and loads,
/// threads for threads. Never with lines: what reads this format takes each text for a function of
/// its own.
fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    let kind = one_kind(profile, options)?;
    let series = profile.series(kind);
    let tree = CallTree::new(&profile.tables, series, TreeOptions::default());
    // Several stacks may be one line, since frames differ in more than their text.
    let mut sums: Vec<(u32, usize, u64)> = series
        .cells
        .iter()
        .filter_map(|cell| {
            let value = match kind {
                SeriesKind::Cpu | SeriesKind::Wall => cell.samples.into(),
                SeriesKind::Exceptions | SeriesKind::Allocations | SeriesKind::Locks => cell.weight,
                SeriesKind::Threads
                | SeriesKind::Pool
                | SeriesKind::Calls
                | SeriesKind::Transitions => cell.weight,
                SeriesKind::Jit | SeriesKind::Loads => cell.weight,
                SeriesKind::Samples | SeriesKind::Time | SeriesKind::Bytes => cell.weight,
            };
            Some((cell.thread.0, tree.node_of(cell.stack)?, value))
        })
        .collect();
    sums.sort_unstable();
    sums.dedup_by(|next, sum| {
        let same = (sum.0, sum.1) == (next.0, next.1);
        if same {
            sum.2 = sum.2.saturating_add(next.2);
        }
        same
    });
    let mut names: Vec<Option<String>> = vec![None; profile.tables.functions.len()];
    let mut path = Vec::new();
    for (thread, node, value) in sums {
        path.clear();
        let mut at = Some(node);
        while let Some(node) = at {
            path.push(node);
            at = tree.parent(node);
        }
        out.write_all(
            plain(&profile.tables.thread_name(profile::session::ThreadId(thread))).as_bytes(),
        )?;
        for node in path.iter().rev() {
            let function = tree.nodes()[*node].function;
            let name = names[function.index()].get_or_insert_with(|| {
                plain(&profile.tables.function_name(function, options.names))
            });
            out.write_all(b";")?;
            out.write_all(name.as_bytes())?;
        }
        writeln!(out, " {value}")?;
    }
    Ok(())
}

/// A name without what separates frames and lines.
fn plain(name: &str) -> String {
    document::plain::visible(name).replace(';', ":")
}
