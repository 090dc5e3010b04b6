use explore::Pattern;
use schemars::JsonSchema;
use serde::Serialize;

use super::Viewed;
use crate::{Change, FunctionChange};

/// The order of functions. What changed for certain comes first in the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By how much the function itself changed.
    Own,
    /// By how much it changed with what it calls.
    Total,
    /// By what it was before with what it calls.
    Before,
    /// By what it is after with what it calls.
    After,
    /// By its name.
    Name,
}

impl Order {
    /// All of them, with their words in addresses.
    pub const ALL: [(&'static str, Self); 5] = [
        ("self", Self::Own),
        ("total", Self::Total),
        ("before", Self::Before),
        ("after", Self::After),
        ("name", Self::Name),
    ];
}

/// A function, and how it changed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChangedFunction {
    /// Its number in the comparison.
    id: u32,
    /// Its full name.
    name: String,
    /// Its name without namespaces and parameters.
    short: String,
    /// What kind of code it is: an index into `kinds` of the overview.
    kind: u8,
    /// Its module, where known.
    module: Option<String>,
    /// Where most of its weight is, where known.
    place: Option<String>,
    /// The function itself.
    #[serde(rename = "self")]
    own: Change,
    /// The function or what it called.
    total: Change,
}

/// Functions of a comparison.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChangedFunctions")]
pub struct FunctionsHead {
    /// How many there are.
    count: usize,
    /// Some of them.
    rows: Vec<ChangedFunction>,
}

impl Viewed {
    /// A function of the comparison in a series.
    pub(super) fn function(&self, series: usize, function: u32) -> ChangedFunction {
        let own = &self.comparison.functions[function as usize];
        let place = self.trees[series].change_of[function as usize] as usize;
        // One that only has samples of another thread or state has no change of its own.
        let change = self.comparison.series[series].functions.get(place);
        ChangedFunction {
            id: function,
            name: own.name.clone(),
            short: own.short_name.clone(),
            kind: own.frame_kind,
            module: own.module.clone(),
            place: own.file.as_deref().zip(own.line).map(|(file, line)| format!("{file}:{line}")),
            own: change.map(|change| change.own).unwrap_or_default(),
            total: change.map(|change| change.total).unwrap_or_default(),
        }
    }

    /// Functions of a series, from the row `first` on.
    pub fn functions(
        &self,
        series: usize,
        search: Option<&Pattern>,
        order: Order,
        first: usize,
        rows: usize,
    ) -> FunctionsHead {
        let names = &self.comparison.functions;
        let name = |row: &FunctionChange| names[row.function as usize].name.as_str();
        let of = &self.comparison.series[series].functions;
        let mut all: Vec<&FunctionChange> =
            of.iter().filter(|row| search.is_none_or(|search| search.finds(name(row)))).collect();
        let by = |all: &mut Vec<&FunctionChange>, key: &dyn Fn(&FunctionChange) -> (bool, f64)| {
            order::sort_by(all, |one, other| {
                let (one, other) = (key(one), key(other));
                other.0.cmp(&one.0).then(other.1.total_cmp(&one.1))
            });
        };
        let change = |change: &Change| (change.is_certain(), change.difference().abs());
        match order {
            Order::Own => by(&mut all, &|row| change(&row.own)),
            Order::Total => by(&mut all, &|row| change(&row.total)),
            Order::Before => by(&mut all, &|row| (false, row.total.before)),
            Order::After => by(&mut all, &|row| (false, row.total.after)),
            Order::Name => order::sort_by_key(&mut all, |row| name(row)),
        }
        FunctionsHead {
            count: all.len(),
            rows: (all.iter().skip(first).take(rows))
                .map(|row| self.function(series, row.function))
                .collect(),
        }
    }
}
