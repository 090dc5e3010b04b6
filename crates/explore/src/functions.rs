use std::collections::HashMap;

use profile::{CallTree, Line, Totals, session::FunctionId};

use crate::Tree;

/// Sums of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FunctionSums {
    /// The function.
    pub function: FunctionId,
    /// Samples in the function itself.
    pub own: Totals,
    /// Samples in it or what it called; a stack counts once, however often the function is on it.
    pub total: Totals,
    /// The line where most of its own weight is, or else most of its total, where known.
    pub line: Option<Line>,
}

/// Adds sums, which stop at the greatest number.
fn add(sum: &mut Totals, more: Totals) {
    sum.samples = sum.samples.saturating_add(more.samples);
    sum.weight = sum.weight.saturating_add(more.weight);
}

/// All functions of a tree whose root is the outermost call; greatest own weight first.
pub fn functions(tree: &Tree, functions: usize) -> Vec<FunctionSums> {
    let none = FunctionSums {
        function: FunctionId(0),
        own: Totals::default(),
        total: Totals::default(),
        line: None,
    };
    let mut sums = vec![none; functions];
    let mut on_path = vec![0_u32; functions];
    let mut best = vec![(0, 0); functions];
    let nodes = tree.calls().nodes();
    tree.visit(None, |node, entering| {
        let node = &nodes[node];
        let function = node.function.index();
        if !entering {
            on_path[function] -= 1;
            return;
        }
        let sum = &mut sums[function];
        add(&mut sum.own, node.own);
        if on_path[function] == 0 {
            add(&mut sum.total, node.total);
        }
        on_path[function] += 1;
        let key = (node.own.weight, node.total.weight);
        if node.line.is_some() && (sum.line.is_none() || key > best[function]) {
            (sum.line, best[function]) = (node.line, key);
        }
    });
    let numbered = sums.into_iter().enumerate();
    let mut rows: Vec<FunctionSums> = numbered
        .map(|(id, sum)| FunctionSums { function: FunctionId(id as u32), ..sum })
        .filter(|row| row.total != Totals::default())
        .collect();
    order::sort_by_key(&mut rows, |row| {
        (std::cmp::Reverse((row.own.weight, row.total.weight)), row.function)
    });
    rows
}

/// Who calls a function, and whom it calls; greatest first. A stack counts once for each pair of
/// caller and callee, however often the pair is on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbors {
    /// Samples in the function itself.
    pub own: Totals,
    /// Samples in it or what it called.
    pub total: Totals,
    /// Those that call it; `None` where it is the outermost call.
    pub callers: Vec<(Option<FunctionId>, Totals)>,
    /// Those that it calls.
    pub callees: Vec<(FunctionId, Totals)>,
}

/// Callers and callees of a function in a tree whose root is the outermost call.
pub fn neighbors(tree: &Tree, function: FunctionId, functions: usize) -> Neighbors {
    let mut all = Neighbors::default();
    // The last place stands for no function.
    let mut callers = vec![Totals::default(); functions + 1];
    let mut callees = vec![Totals::default(); functions];
    let (mut from, mut to) = (vec![0_u32; functions + 1], vec![0_u32; functions]);
    let mut depth = 0_u32;
    let nodes = tree.calls().nodes();
    tree.visit(None, |at, entering| {
        let node = &nodes[at];
        let caller = tree.calls().parent(at).map(|parent| nodes[parent].function);
        let pairs = [
            (node.function == function)
                .then(|| (caller.map_or(functions, FunctionId::index), &mut callers, &mut from)),
            (caller == Some(function)).then(|| (node.function.index(), &mut callees, &mut to)),
        ];
        for (other, sums, on_path) in pairs.into_iter().flatten() {
            if entering {
                if on_path[other] == 0 {
                    add(&mut sums[other], node.total);
                }
                on_path[other] += 1;
            } else {
                on_path[other] -= 1;
            }
        }
        if node.function == function {
            if entering {
                add(&mut all.own, node.own);
                if depth == 0 {
                    add(&mut all.total, node.total);
                }
                depth += 1;
            } else {
                depth -= 1;
            }
        }
    });
    let is_some = |sum: &Totals| *sum != Totals::default();
    let id = |index: usize| FunctionId(index as u32);
    all.callers = (callers.into_iter().enumerate())
        .filter(|(_, sum)| is_some(sum))
        .map(|(other, sum)| ((other < functions).then(|| id(other)), sum))
        .collect();
    all.callees = (callees.into_iter().enumerate())
        .filter(|(_, sum)| is_some(sum))
        .map(|(other, sum)| (id(other), sum))
        .collect();
    order::sort_by_key(&mut all.callers, |(_, sum)| std::cmp::Reverse(sum.weight));
    order::sort_by_key(&mut all.callees, |(_, sum)| std::cmp::Reverse(sum.weight));
    all
}

/// Sums of a line of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineSum {
    /// Samples in the line itself.
    pub own: Totals,
    /// Samples in it or what it called; a stack counts once, however often the line is on it.
    pub total: Totals,
    /// How often it is on the path of the walk.
    on_path: u32,
}

/// Sums of a function by line.
#[derive(Clone, Debug, Default)]
pub struct LineSums {
    /// Samples in the function itself.
    pub own: Totals,
    /// Samples in it or what it called.
    pub total: Totals,
    /// The lines; `None` stands for all places of which the line is not known.
    pub lines: HashMap<Option<Line>, LineSum>,
}

/// Lines of a function in a tree of calls with [`profile::TreeOptions::lines`], whose root is the
/// outermost call.
pub fn lines(calls: &CallTree, function: FunctionId) -> LineSums {
    let mut all = LineSums::default();
    let mut depth = 0_u32;
    calls.visit(|node, entering| {
        if node.function != function {
            return;
        }
        let sum = all.lines.entry(node.line).or_default();
        if !entering {
            sum.on_path -= 1;
            depth -= 1;
            return;
        }
        add(&mut sum.own, node.own);
        add(&mut all.own, node.own);
        if sum.on_path == 0 {
            add(&mut sum.total, node.total);
        }
        if depth == 0 {
            add(&mut all.total, node.total);
        }
        sum.on_path += 1;
        depth += 1;
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop;
    use profile::{NameStyle, SeriesKind, TreeOptions};

    #[test]
    fn lines_have_the_sums_of_their_function() {
        let profile = shop::profile();
        let (tables, cpu) = (&profile.tables, profile.series(SeriesKind::Cpu));
        let options = TreeOptions { lines: true, ..TreeOptions::default() };
        let calls = CallTree::new(tables, cpu, options);
        let of = |name: &str| {
            let mut ids = (0..tables.functions.len()).map(|id| FunctionId(id as u32));
            let is_it =
                |id: &FunctionId| tables.function_name(*id, NameStyle::SHORT).starts_with(name);
            lines(&calls, ids.find(is_it).unwrap())
        };
        let price = of("PriceList.Price");
        assert_eq!((price.own.weight, price.total.weight), (4_200_000_000, 8_000_000_000));
        let known: Vec<_> = price.lines.keys().flatten().map(|line| line.line).collect();
        assert!(known.len() > 1 && known.contains(&87), "{known:?}");
        let own: u64 = price.lines.values().map(|line| line.own.weight).sum();
        assert_eq!(own, price.own.weight);
        // No call of it is below another one.
        let total: u64 = price.lines.values().map(|line| line.total.weight).sum();
        assert_eq!(total, price.total.weight);
        // Three frames of a recursion on a stack count once.
        let search = of("Discounts.Search");
        assert_eq!((search.own.weight, search.total.weight), (900_000_000, 900_000_000));
        assert!(search.lines.values().all(|line| line.total.weight <= 900_000_000));
    }
}
