//! What a benchmark has found: one row for each figure, and the table of all of them.

use std::fmt;

/// Whether a figure is what was asked for. All goals are upper bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// What must not be exceeded.
    pub must: f64,
    /// What would be better; `None` where nothing is.
    pub stretch: Option<f64>,
    /// What is counted, as it stands behind a number.
    pub unit: &'static str,
}

impl Goal {
    /// A bound and a better one.
    pub const fn new(must: f64, stretch: f64, unit: &'static str) -> Goal {
        Goal { must, stretch: Some(stretch), unit }
    }

    /// A bound that nothing can be better than.
    pub const fn only(must: f64, unit: &'static str) -> Goal {
        Goal { must, stretch: None, unit }
    }

    /// What of it a value reaches.
    pub fn reached(&self, value: f64) -> Reached {
        match self.stretch {
            Some(stretch) if value <= stretch => Reached::Stretch,
            _ if value <= self.must => Reached::Must,
            _ => Reached::Nothing,
        }
    }
}

/// How far a figure got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// As good as we would like.
    Stretch,
    /// As good as it has to be.
    Must,
    /// Not good enough, or not measured at all.
    Nothing,
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reached::Stretch => "stretch",
            Reached::Must => "must",
            Reached::Nothing => "**no**",
        })
    }
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// Where.
    pub runtime: String,
    /// The figure, with what belongs to it.
    pub measured: String,
    /// What is held against the goal; `None` where measuring failed.
    pub value: Option<f64>,
    /// What was asked for; `None` for a figure that is only reported.
    pub goal: Option<Goal>,
}

impl Row {
    /// A figure that is held against a goal.
    pub fn new(
        what: impl Into<String>,
        runtime: impl fmt::Display,
        value: f64,
        measured: String,
        goal: Goal,
    ) -> Row {
        let runtime = runtime.to_string();
        Row { what: what.into(), runtime, measured, value: Some(value), goal: Some(goal) }
    }

    /// A figure that has no goal of its own.
    pub fn told(what: impl Into<String>, runtime: impl fmt::Display, measured: String) -> Row {
        Row { what: what.into(), runtime: runtime.to_string(), measured, value: None, goal: None }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |bound: Option<f64>| match (bound, self.goal) {
            (Some(bound), Some(goal)) => format!("≤ {bound} {}", goal.unit),
            _ => "·".to_owned(),
        };
        let reached = match (self.value, self.goal) {
            (Some(value), Some(goal)) => goal.reached(value).to_string(),
            (None, Some(_)) => Reached::Nothing.to_string(),
            (_, None) => "·".to_owned(),
        };
        let (must, stretch) = (
            bound(self.goal.map(|goal| goal.must)),
            bound(self.goal.and_then(|goal| goal.stretch)),
        );
        write!(
            f,
            "| {} | {} | {} | {must} | {stretch} | {reached} |",
            self.what, self.runtime, self.measured
        )
    }
}

/// All rows as one Markdown table.
pub fn markdown(rows: &[Row]) -> String {
    let head =
        "| row | runtime | measured | must | stretch | reached |\n|---|---|---|---|---|---|\n";
    rows.iter().fold(head.to_owned(), |table, row| table + &row.to_string() + "\n")
}

/// Values in order, to be asked for quantiles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution(Vec<f64>);

impl Distribution {
    /// Of these values.
    pub fn of(mut values: Vec<f64>) -> Distribution {
        values.sort_by(f64::total_cmp);
        Distribution(values)
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The value that this share of all values lies below, between neighbours by distance; not a
    /// number where there are no values.
    pub fn at(&self, share: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else { return f64::NAN };
        let position = share * last as f64;
        let (below, above) = (self.0[position.floor() as usize], self.0[position.ceil() as usize]);
        below + (above - below) * position.fract()
    }

    /// Half of the values lies below.
    pub fn median(&self) -> f64 {
        self.at(0.5)
    }

    /// Median and, in brackets, the quartiles.
    pub fn with_quartiles(&self, unit: &str) -> String {
        format!("{:.2} {unit} ({:.2} … {:.2})", self.median(), self.at(0.25), self.at(0.75))
    }

    /// Median and 95th percentile.
    pub fn with_tail(&self, unit: &str) -> String {
        format!("p50 {:.2}, p95 {:.2} {unit}, n {}", self.median(), self.at(0.95), self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let found = Distribution::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((found.at(0.25), found.median(), found.at(0.75)), (1.75, 2.5, 3.25));
        assert_eq!(Distribution::of(vec![7.0]).at(0.95), 7.0);
        assert!(Distribution::default().median().is_nan());
    }

    #[test]
    fn a_value_reaches_the_better_bound_first_and_no_number_reaches_none() {
        let goal = Goal::new(4.0, 2.5, "%");
        let reached = [2.5, 4.0, 4.01, f64::NAN].map(|value| goal.reached(value));
        assert_eq!(reached, [Reached::Stretch, Reached::Must, Reached::Nothing, Reached::Nothing]);
        assert_eq!(Goal::only(0.0, "deaths").reached(0.0), Reached::Must);
    }

    #[test]
    fn rows_make_a_table() {
        let rows = [
            Row::new("wall", "9.0.5", 0.7, "0.70 %".into(), Goal::new(1.0, 0.5, "%")),
            Row::told("own CPU", "9.0.5", "3 %".into()),
        ];
        let table = markdown(&rows);
        assert!(table.contains("| wall | 9.0.5 | 0.70 % | ≤ 1 % | ≤ 0.5 % | must |\n"), "{table}");
        assert!(table.ends_with("| own CPU | 9.0.5 | 3 % | · | · | · |\n"), "{table}");
    }
}
