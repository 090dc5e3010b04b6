use profile::{Totals, session::FunctionId};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ExploreError, ShownFunction, place};
use crate::{Explored, Hit, Pattern, Selection, functions, neighbors};

/// The order of functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Greatest own weight first.
    #[default]
    Own,
    /// Greatest total first.
    Total,
    /// By name.
    Name,
}

/// Functions with their sums.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FunctionsAnswer {
    /// Weight of all that is selected.
    whole: u64,
    /// How many samples of equal weight say as much as all that are selected.
    effective: f64,
    /// How many functions there are, or are found.
    count: usize,
    /// Some of them.
    rows: Vec<FunctionRow>,
}

/// A function with its sums.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FunctionRow {
    /// Which.
    function: ShownFunction,
    /// Where most of its weight is, where known.
    place: Option<String>,
    /// What was sampled in it itself.
    own: u64,
    /// Samples in it itself; its calls, where calls are counted.
    own_samples: u64,
    /// What was sampled in it or what it called.
    total: u64,
}

/// Who calls a function, and whom it calls.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CallersAnswer {
    /// The function.
    function: ShownFunction,
    /// Weight of all that is selected.
    whole: u64,
    /// What was sampled in it itself.
    own: u64,
    /// What was sampled in it or what it called.
    total: u64,
    /// Its callers, greatest first.
    callers: Vec<CalledFunction>,
    /// What it calls, greatest first.
    callees: Vec<CalledFunction>,
}

/// A caller or a callee.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CalledFunction {
    /// Which; null where nothing called the function.
    function: Option<ShownFunction>,
    /// What was sampled in calls of this pair and below.
    weight: u64,
    /// How many samples that are.
    samples: u64,
}

/// Nodes right below a node of a tree.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChildrenAnswer {
    /// How many there are.
    count: usize,
    /// Some of them, heaviest first.
    rows: Vec<ChildRow>,
}

/// A node of a tree.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChildRow {
    /// For the parameter `node`.
    node: u32,
    /// Its function.
    function: ShownFunction,
    /// Its place in the source, where known.
    place: Option<String>,
    /// What was sampled in it itself.
    own: u64,
    /// What was sampled in it and below it.
    total: u64,
    /// Samples in it and below it; of calls that are counted, those in it itself.
    samples: u64,
    /// How many nodes are right below it.
    children: usize,
    /// What a search says: 0 nothing, 1 something below is found, 2 it is found itself.
    hit: u8,
}

impl Explored {
    /// Functions of a selection, from the row `first` on.
    ///
    /// # Errors
    /// [`ExploreError::SearchTooLong`].
    pub fn functions(
        &self,
        selection: &Selection,
        search: Option<&Pattern>,
        sort: Sort,
        first: usize,
        rows: usize,
    ) -> Result<FunctionsAnswer, ExploreError> {
        // Own and total sums are those of callees, whatever is shown.
        let selection = Selection { inverted: false, ..selection.clone() };
        let tree = self.tree(&selection);
        let profile = &self.profile;
        let count = profile.tables.functions.len();
        let mut all = functions(&tree, count);
        if let Some(search) = search {
            let found = search.functions(&profile.tables)?;
            all.retain(|row| found[row.function.index()]);
        }
        match sort {
            Sort::Own => {}
            Sort::Total => order::sort_by_key(&mut all, |row| {
                (std::cmp::Reverse((row.total.weight, row.own.weight)), row.function)
            }),
            Sort::Name => {
                let style = profile::NameStyle::FULL;
                order::sort_by_cached_key(&mut all, |row| {
                    profile.tables.function_name(row.function, style)
                });
            }
        }
        let whole = tree.total(None);
        let series = profile.series(selection.kind);
        let part = whole.samples as f64 / series.totals.samples.max(1) as f64;
        Ok(FunctionsAnswer {
            whole: whole.weight,
            effective: series.effective_samples() * part,
            count: all.len(),
            rows: (all.iter().skip(first).take(rows))
                .map(|row| FunctionRow {
                    function: ShownFunction::of(profile, row.function),
                    place: place(profile, row.line),
                    own: row.own.weight,
                    own_samples: row.own.samples,
                    total: row.total.weight,
                })
                .collect(),
        })
    }

    /// Callers and callees of a function, at most `rows` of each.
    ///
    /// # Errors
    /// [`ExploreError`].
    pub fn callers(
        &self,
        selection: &Selection,
        function: u32,
        rows: usize,
    ) -> Result<CallersAnswer, ExploreError> {
        let selection = Selection { inverted: false, ..selection.clone() };
        let profile = &self.profile;
        let count = profile.tables.functions.len();
        if function as usize >= count {
            return Err(ExploreError::NoFunction(function, count));
        }
        let tree = self.tree(&selection);
        let found = neighbors(&tree, FunctionId(function), count);
        let row = |(function, sum): (Option<FunctionId>, Totals)| CalledFunction {
            function: function.map(|function| ShownFunction::of(profile, function)),
            weight: sum.weight,
            samples: sum.samples,
        };
        let callees = found.callees.into_iter().map(|(callee, sum)| (Some(callee), sum));
        Ok(CallersAnswer {
            function: ShownFunction::of(profile, FunctionId(function)),
            whole: tree.total(None).weight,
            own: found.own.weight,
            total: found.total.weight,
            callers: found.callers.into_iter().take(rows).map(row).collect(),
            callees: callees.take(rows).map(row).collect(),
        })
    }

    /// Nodes right below a node of the tree of a selection, from the row `first` on.
    ///
    /// # Errors
    /// [`ExploreError`].
    pub fn children(
        &self,
        selection: &Selection,
        node: Option<usize>,
        search: Option<&Pattern>,
        first: usize,
        rows: usize,
    ) -> Result<ChildrenAnswer, ExploreError> {
        let tree = self.tree(selection);
        let numbers = self.numbers(selection, &tree);
        let asked = numbers.asked(&tree, node)?.node();
        let profile = &self.profile;
        let found = search.map(|search| search.functions(&profile.tables));
        let hits = found.transpose()?.map(|found| tree.find(&found));
        let calls = selection.kind.is_calls() && !selection.inverted;
        let children = asked.map_or(&[][..], |node| tree.children(node));
        let row = |child: &u32| {
            let own = &tree.calls().nodes()[*child as usize];
            ChildRow {
                node: numbers.number(*child),
                function: ShownFunction::of(profile, own.function),
                place: place(profile, own.line),
                own: own.own.weight,
                total: own.total.weight,
                samples: if calls { own.own.samples } else { own.total.samples },
                children: tree.children(Some(*child as usize)).len(),
                hit: hits.as_ref().map_or(Hit::Nowhere, |hits| hits[*child as usize]) as u8,
            }
        };
        Ok(ChildrenAnswer {
            count: children.len(),
            rows: children.iter().skip(first).take(rows).map(row).collect(),
        })
    }
}
