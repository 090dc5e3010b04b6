//! The table: its axes, and which combinations make no sense.

use super::actions::{self, Action};
use super::conditions::{self, Condition};
use super::endings::{self, Ending};
use super::targets::{self, Target};
use anyhow::{Result, bail};
use testkit::Runtime;

/// Columns of a cell.
pub const COLUMNS: usize = 6;

/// What a column holds. Both columns of conditions hold the same: each pair of conditions is to
/// meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// Runtimes.
    Runtime,
    /// Programs.
    Target,
    /// Circumstances.
    Condition,
    /// What clrscope does.
    Action,
    /// How that ends.
    Ending,
}

/// The axis of each column.
pub const AXES: [Axis; COLUMNS] =
    [Axis::Runtime, Axis::Target, Axis::Condition, Axis::Condition, Axis::Action, Axis::Ending];

/// A cell, some of whose columns may still be open: an index for each axis.
pub type Partial = [Option<usize>; COLUMNS];

/// A cell: an index for each column.
pub type Cell = [usize; COLUMNS];

/// All axes.
pub struct Table {
    /// Runtimes.
    pub runtimes: Vec<Runtime>,
    /// Programs.
    pub targets: Vec<Target>,
    /// Circumstances; the first is none.
    pub conditions: Vec<Condition>,
    /// What clrscope does.
    pub actions: Vec<Action>,
    /// How that ends.
    pub endings: Vec<Ending>,
}

/// A runtime's name in the table.
pub fn runtime_name(runtime: Runtime) -> String {
    match runtime {
        Runtime::Azmcp9 => "9-app".into(),
        Runtime::V3_1 => "3.1".into(),
        other => other.major().to_string(),
    }
}

impl Table {
    /// Everything that this machine can do, and what it cannot, with the reason.
    pub fn of_machine() -> (Table, Vec<(String, String)>) {
        let runtimes = vec![Runtime::V3_1, Runtime::V8, Runtime::V9, Runtime::Azmcp9, Runtime::V10];
        let mut absent = Vec::new();
        let mut conditions = conditions::all();
        conditions.retain(|condition| match (condition.missing)() {
            Some(why) => {
                absent.push((condition.name.to_owned(), why));
                false
            }
            None => true,
        });
        (
            Table {
                runtimes,
                targets: targets::all(),
                conditions,
                actions: actions::all(),
                endings: endings::all(),
            },
            absent,
        )
    }

    /// Number of values on the axis of a column.
    pub fn len(&self, column: usize) -> usize {
        match AXES[column] {
            Axis::Runtime => self.runtimes.len(),
            Axis::Target => self.targets.len(),
            Axis::Condition => self.conditions.len(),
            Axis::Action => self.actions.len(),
            Axis::Ending => self.endings.len(),
        }
    }

    /// The name of a value.
    pub fn name(&self, axis: Axis, index: usize) -> String {
        match axis {
            Axis::Runtime => runtime_name(self.runtimes[index]),
            Axis::Target => self.targets[index].name.to_owned(),
            Axis::Condition => self.conditions[index].name.to_owned(),
            Axis::Action => self.actions[index].name.clone(),
            Axis::Ending => self.endings[index].name.to_owned(),
        }
    }

    /// The name of a cell.
    pub fn shown(&self, cell: &Cell) -> String {
        let names: Vec<String> =
            AXES.iter().zip(cell).map(|(axis, index)| self.name(*axis, *index)).collect();
        names.join(" ")
    }

    /// Indices that are left in each column when only cells with these words are wanted: each word
    /// is a value's name.
    ///
    /// # Errors
    /// When a word is the name of no value.
    pub fn wanted(&self, words: &str) -> Result<[Vec<usize>; COLUMNS]> {
        let mut wanted: [Vec<usize>; COLUMNS] =
            std::array::from_fn(|column| (0..self.len(column)).collect());
        let mut named: [Vec<usize>; COLUMNS] = Default::default();
        for word in words.split_whitespace() {
            let mut known = false;
            for (column, axis) in AXES.iter().enumerate() {
                if let Some(index) =
                    (0..self.len(column)).find(|index| self.name(*axis, *index) == word)
                {
                    known = true;
                    named[column].push(index);
                }
            }
            if !known {
                let all = [0, 1, 2, 4, 5].map(|column| {
                    let names: Vec<_> =
                        (0..self.len(column)).map(|index| self.name(AXES[column], index)).collect();
                    format!("  {:?}: {}", AXES[column], names.join(" "))
                });
                bail!("\"{word}\" is no name in the table, which has\n{}", all.join("\n"));
            }
        }
        // Conditions stand in two columns: two names fill both, a single one the first.
        let conditions = std::mem::take(&mut named[2]);
        named[3].clear();
        if let Some(first) = conditions.first() {
            named[2] = vec![*first];
            named[3] = conditions
                .get(1..)
                .filter(|more| !more.is_empty())
                .map(<[usize]>::to_vec)
                .unwrap_or_default();
        }
        for (all, named) in wanted.iter_mut().zip(named) {
            if !named.is_empty() {
                *all = named;
            }
        }
        Ok(wanted)
    }

    /// Why a cell makes no sense, as far as its columns are filled. What is not refused here is
    /// run.
    pub fn nonsense(&self, cell: &Partial) -> Option<&'static str> {
        let runtime = cell[0].map(|index| self.runtimes[index]);
        let target = cell[1].map(|index| &self.targets[index]);
        let conditions: Vec<&Condition> =
            [cell[2], cell[3]].into_iter().flatten().map(|index| &self.conditions[index]).collect();
        let action = cell[4].map(|index| &self.actions[index]);
        let ending = cell[5].map(|index| &self.endings[index]);
        if let (Some(runtime), Some(target)) = (runtime, target)
            && !target.runs_on(runtime)
        {
            return Some(
                "the program does not run there: applications bring their runtime, samples need \
                    one",
            );
        }
        if let (Some(runtime), Some(action)) = (runtime, action)
            && runtime.major() < action.since
        {
            return Some("the profiler needs a newer runtime");
        }
        if let [one, other] = conditions[..]
            && one.name == other.name
            && one.name != conditions::NONE
        {
            return Some("a condition twice is that condition");
        }
        if let [one, other] = conditions[..]
            && (one.excludes.contains(&other.name) || other.excludes.contains(&one.name))
        {
            return Some("both set the same thing");
        }
        for condition in &conditions {
            if let Some(why) = target.and_then(|target| (condition.not_for)(target)) {
                return Some(why);
            }
            if action.is_some_and(|action| action.launches) && condition.attach_only {
                return Some("the condition has to be there before clrscope comes");
            }
        }
        if let (Some(action), Some(ending)) = (action, ending) {
            let is_forked = conditions.iter().any(|condition| condition.name == "pid-namespace");
            if action.launches && ending.polite().is_some() && is_forked {
                return Some("unshare, which is launched then, keeps signals to itself");
            }
            if action.name == "ps" && !ending.is_natural() {
                return Some("it is over at once");
            }
        }
        None
    }
}
