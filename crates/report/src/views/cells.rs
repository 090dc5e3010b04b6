//! Cells and tables that several views have: names of methods and types, hot paths, states.

use document::{Cell, Table, Unit, Word, left, right};
use profile::{
    Amount, CallSite, CallTree, Estimate, NameStyle, Profile, STATES, Series, TreeOptions,
    session::{FunctionId, ThreadState, TypeId},
    state_index,
};

use crate::{Options, format};

/// Words for the states of a thread, in the order of [`STATES`].
pub const STATE_WORDS: [Word; STATES.len()] = [
    Word { text: profile::state_word(ThreadState::Running), letter: 'R', color: Some(2) },
    Word { text: profile::state_word(ThreadState::Lock), letter: 'L', color: Some(1) },
    Word { text: profile::state_word(ThreadState::Sleep), letter: 'S', color: Some(4) },
    Word { text: profile::state_word(ThreadState::Io), letter: 'I', color: Some(6) },
    Word { text: profile::state_word(ThreadState::Idle), letter: '.', color: Some(8) },
    Word { text: profile::state_word(ThreadState::Gc), letter: 'G', color: Some(5) },
    Word { text: profile::state_word(ThreadState::Task), letter: 'T', color: Some(3) },
    Word { text: profile::state_word(ThreadState::Other), letter: '?', color: None },
    Word { text: profile::state_word(ThreadState::Event), letter: 'E', color: Some(12) },
    Word { text: profile::state_word(ThreadState::Runtime), letter: 'C', color: Some(13) },
    Word { text: profile::state_word(ThreadState::NoProcessor), letter: 'P', color: Some(9) },
    Word { text: profile::state_word(ThreadState::Throttled), letter: 'Q', color: Some(11) },
];

/// Word for a state of a thread.
pub fn state_word(state: ThreadState) -> &'static str {
    STATE_WORDS[state_index(state)].text
}

/// A share with its interval.
pub fn estimate(share: &Estimate) -> Cell {
    Cell::estimate(share.share, share.margin(), Unit::Share)
}

/// An amount with its interval.
pub fn amount(amount: &Amount, unit: Unit) -> Cell {
    Cell::estimate(amount.value, amount.margin, unit)
}

pub fn name(profile: &Profile, options: &Options, function: FunctionId) -> Cell {
    let mut forms: Vec<String> = [options.names, NameStyle::PLAIN, NameStyle::SHORT]
        .into_iter()
        .filter(|style| {
            style.parameters <= options.names.parameters
                && style.namespaces <= options.names.namespaces
        })
        .map(|style| profile.tables.function_name(function, style))
        .collect();
    forms.dedup();
    Cell::Name { forms, place: None }
}

pub fn with_place(
    cell: Cell,
    profile: &Profile,
    options: &Options,
    line: Option<profile::Line>,
) -> Cell {
    match (cell, line.filter(|_| options.lines)) {
        (Cell::Name { forms, .. }, Some(line)) => {
            let place =
                format!("{}:{}", format::file_name(profile.tables.file(line.file)), line.line);
            Cell::Name { forms, place: Some(place) }
        }
        (cell, _) => cell,
    }
}

/// Methods by their own weight.
pub fn methods(
    profile: &Profile,
    options: &Options,
    series: &Series,
    functions: &[profile::FunctionTotals],
) -> Table {
    let lines = heaviest_lines(profile, series);
    let rows = functions.iter().take(options.rows).map(|row| {
        let name = name(profile, options, row.function);
        vec![
            estimate(&row.own_share),
            Cell::Bar(row.own_share.share),
            estimate(&row.total_share),
            with_place(name, profile, options, lines[row.function.index()]),
        ]
    });
    Table::new(vec![right("self"), left(""), right("total"), left("method")], rows)
}

/// The line of each function where it has most weight itself, or else below it.
pub fn heaviest_lines(profile: &Profile, series: &Series) -> Vec<Option<profile::Line>> {
    let tree = CallTree::new(
        &profile.tables,
        series,
        TreeOptions { lines: true, ..TreeOptions::default() },
    );
    let mut sums = std::collections::HashMap::new();
    for node in tree.nodes() {
        if let Some(line) = node.line {
            let sum: &mut (u64, u64) = sums.entry((node.function, line)).or_default();
            sum.0 = sum.0.saturating_add(node.own.weight);
            sum.1 = sum.1.saturating_add(node.total.weight);
        }
    }
    let mut best = vec![None; profile.tables.functions.len()];
    for ((function, line), sum) in sums {
        let best: &mut Option<((u64, u64), std::cmp::Reverse<profile::Line>)> =
            &mut best[function.index()];
        *best = (*best).max(Some((sum, std::cmp::Reverse(line))));
    }
    best.into_iter().map(|best| best.map(|(_, line)| line.0)).collect()
}

/// The heaviest places, each with the managed calls that led to it.
pub fn hot_paths(profile: &Profile, options: &Options, series: &Series) -> Table {
    const CALLERS: usize = 5;
    let tree = CallTree::new(
        &profile.tables,
        series,
        TreeOptions { merge_recursion: true, ..TreeOptions::default() },
    );
    let mut leaves: Vec<usize> =
        (0..tree.nodes().len()).filter(|node| tree.nodes()[*node].own.weight > 0).collect();
    order::sort_by_key(&mut leaves, |node| {
        (std::cmp::Reverse(tree.nodes()[*node].own.weight), *node)
    });
    let short = |function| profile.tables.function_name(function, NameStyle::SHORT);
    let rows = leaves.into_iter().take(options.at_most(5)).map(|leaf| {
        let share = series.share(tree.nodes()[leaf].own.weight);
        let mut path = vec![short(tree.nodes()[leaf].function)];
        let mut at = tree.parent(leaf);
        while let Some(node) = at {
            let function = tree.nodes()[node].function;
            at = tree.parent(node);
            if profile.tables.is_managed(function) {
                path.push(short(function));
            }
        }
        // As many callers as there is room for.
        let forms = (1..=path.len().min(1 + CALLERS)).rev().map(|length| {
            let left_out = path.len() - length;
            let rest =
                if left_out > 0 { format!(" ← … {left_out} more") } else { String::new() };
            path[..length].join(" ← ") + &rest
        });
        vec![Cell::share(share.share), Cell::Name { forms: forms.collect(), place: None }]
    });
    Table::new(vec![right("share"), left("hot path, leaf first")], rows)
}

pub fn type_name(profile: &Profile, ty: TypeId) -> Cell {
    let name = &profile.tables.ty(ty).name;
    Cell::Name { forms: vec![name.clone(), profile::without_namespaces(name)], place: None }
}

pub fn place_cell(profile: &Profile, options: &Options, place: &CallSite, more: &str) -> Cell {
    let forms = [NameStyle::PLAIN, NameStyle::SHORT];
    let forms = forms.map(|style| profile.tables.function_name(place.function, style) + more);
    with_place(Cell::Name { forms: forms.to_vec(), place: None }, profile, options, place.line)
}
