use crate::{endpoints::sessions::params, problem::Problem};
use explore::{Part, Pattern, Selection, Sort, TimelineQuery, View};
use profile::{Filter, Profile, STATES, SeriesKind, session::ThreadState, state_id};
use serde::Deserialize;
use std::ops::Range;

/// What is below a call.
pub const DIRECTIONS: [&str; 2] = ["callees", "callers"];

/// Orders of functions.
pub const ORDERS: [&str; 3] = ["own", "total", "name"];

/// Pixels of a view: more than any screen has.
pub const MOST_PIXELS: u32 = 16_384;

/// Rows of a view or of a list.
pub const MOST_ROWS: u32 = 2000;

/// Pixels of all rows of a view together: those of a wall of screens.
const MOST_CELLS: u64 = 4_000_000;

/// What is wanted of a session.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExploreParams {
    profiler: Option<String>,
    thread: Option<String>,
    function: Option<String>,
    states: Option<String>,
    from: Option<f64>,
    to: Option<f64>,
    last: Option<f64>,
    direction: Option<String>,
    recursion: Option<String>,
    nodes: Option<String>,
    search: Option<String>,
    root: Option<u32>,
    of: Option<u32>,
    width: Option<u32>,
    top: Option<u32>,
    first: Option<u32>,
    rows: Option<u32>,
    sort: Option<String>,
}

/// A number in its range.
pub fn within(name: &str, given: Option<u32>, other: u32, most: u32) -> Result<u32, Problem> {
    match given.unwrap_or(other) {
        number if (1..=most).contains(&number) => Ok(number),
        _ => Err(Problem::request(format!("`{name}` is from 1 to {most}"))),
    }
}

/// Pixels and rows of a view, if they are not too many together.
fn area(width: Option<u32>, rows: Option<u32>) -> Result<(u32, u32), Problem> {
    let width = within("width", width, 1200, MOST_PIXELS)?;
    let rows = within("rows", rows, 100, MOST_ROWS)?;
    match u64::from(width) * u64::from(rows) > MOST_CELLS {
        true => Err(Problem::request(format!("`width` times `rows` is at most {MOST_CELLS}"))),
        false => Ok((width, rows)),
    }
}

impl ExploreParams {
    /// The part of the time.
    pub fn part(&self) -> Result<Option<Part>, Problem> {
        let time = self.time()?;
        match self.last {
            None => Ok(time.map(Part::Time)),
            Some(_) if time.is_some() => {
                Err(Problem::request("`last` is in place of `from` and `to`: leave these out"))
            }
            Some(last) if last > 0.0 => Ok(Some(Part::Last((last * 1e9) as u64))),
            Some(_) => Err(Problem::request("`last` is greater than 0")),
        }
    }

    fn time(&self) -> Result<Option<Range<u64>>, Problem> {
        params::time(self.from, self.to)
    }

    /// The samples: those that are asked for, or the first that there are.
    fn kind(&self, profile: &Profile) -> Result<SeriesKind, Problem> {
        match &self.profiler {
            Some(id) => params::series(id),
            None => {
                let mut kinds = SeriesKind::ALL.into_iter();
                let first = kinds.find(|kind| !profile.series(*kind).is_empty());
                Ok(first.unwrap_or(SeriesKind::Cpu))
            }
        }
    }

    fn states(&self) -> Result<Option<Vec<ThreadState>>, Problem> {
        let Some(states) = &self.states else { return Ok(None) };
        let state = |id: &str| {
            STATES.into_iter().find(|state| state_id(*state) == id).ok_or_else(|| {
                let known = STATES.map(state_id).join(", ");
                Problem::request(format!("`states` are some of {known}"))
            })
        };
        states.split(',').filter(|id| !id.is_empty()).map(state).collect::<Result<_, _>>().map(Some)
    }

    /// Which samples, put together to which tree.
    pub fn selection(&self, profile: &Profile) -> Result<Selection, Problem> {
        let inverted = match self.direction.as_deref() {
            None | Some("callees") => false,
            Some("callers") => true,
            Some(_) => return Err(Problem::request("`direction` is callees or callers")),
        };
        let merge_recursion = match self.recursion.as_deref() {
            None => false,
            Some("merged") => true,
            Some(_) => return Err(Problem::request("`recursion` is merged, or is left out")),
        };
        let stable = match self.nodes.as_deref() {
            None => false,
            Some("stable") if !inverted && !merge_recursion => true,
            Some("stable") => {
                let cause = "`nodes=stable` is for callees, without merged recursion";
                return Err(Problem::request(cause));
            }
            Some(_) => return Err(Problem::request("`nodes` is stable, or is left out")),
        };
        Ok(Selection {
            kind: self.kind(profile)?,
            filter: Filter {
                time: None,
                thread: self.thread.clone(),
                states: self.states()?,
                text: self.function.clone(),
            },
            inverted,
            merge_recursion,
            stable,
        })
    }

    /// What is searched for.
    pub fn search(&self) -> Result<Option<Pattern>, Problem> {
        Pattern::parse(self.search.as_deref().unwrap_or_default())
            .map_err(|error| Problem::request(error.to_string()))
    }

    /// The node.
    pub fn root(&self) -> Option<usize> {
        self.root.map(|root| root as usize)
    }

    /// The function.
    pub fn function_id(&self) -> Result<u32, Problem> {
        self.of.ok_or_else(|| Problem::request("`of` is missing: the `id` of a function"))
    }

    /// Which part of a flame graph is visible.
    pub fn view(&self) -> Result<View, Problem> {
        let (width, rows) = area(self.width, self.rows)?;
        Ok(View { root: self.root(), width: f64::from(width), top: self.top.unwrap_or(0), rows })
    }

    /// The first row of a list, and how many.
    pub fn rows(&self) -> Result<(usize, usize), Problem> {
        let rows = within("rows", self.rows, 100, MOST_ROWS)?;
        Ok((self.first.unwrap_or(0) as usize, rows as usize))
    }

    /// The order of functions.
    pub fn sort(&self) -> Result<Sort, Problem> {
        match self.sort.as_deref() {
            None | Some("own") => Ok(Sort::Own),
            Some("total") => Ok(Sort::Total),
            Some("name") => Ok(Sort::Name),
            Some(_) => Err(Problem::request(format!("`sort` is one of {}", ORDERS.join(", ")))),
        }
    }

    /// Which part of a timeline is visible.
    pub fn timeline(&self, profile: &Profile) -> Result<TimelineQuery, Problem> {
        let (pixels, rows) = area(self.width, self.rows)?;
        Ok(TimelineQuery {
            kind: self.kind(profile)?,
            time: self.time()?,
            pixels: pixels as usize,
            first: self.first.unwrap_or(0) as usize,
            rows: rows as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        let some = |text: &str| Some(text.to_owned());
        let sort = ExploreParams { sort: some("x"), ..ExploreParams::default() };
        assert!(sort.sort().unwrap_err().cause.contains("own, total, name"));
        for (width, rows) in [(Some(0), None), (Some(20_000), None), (None, Some(0))] {
            let bad = ExploreParams { width, rows, ..ExploreParams::default() };
            assert!(bad.view().unwrap_err().cause.contains("from 1 to"));
        }
        for (width, rows, allowed) in [(16_384, 244, true), (16_384, 245, false)] {
            let view =
                ExploreParams { width: Some(width), rows: Some(rows), ..ExploreParams::default() };
            assert_eq!(view.view().is_ok(), allowed, "{width} x {rows}");
        }
        let long = ExploreParams { search: some(&"x".repeat(1001)), ..ExploreParams::default() };
        assert!(long.search().unwrap_err().cause.contains("1000 letters"));
        let bad = ExploreParams { states: some("running,x"), ..ExploreParams::default() };
        assert!(bad.states().unwrap_err().cause.contains("no-processor"));
        let good = ExploreParams { states: some("running,lock"), ..ExploreParams::default() };
        assert_eq!(good.states().unwrap(), Some(vec![ThreadState::Running, ThreadState::Lock]));
        let bad = ExploreParams { search: some("/(/"), ..ExploreParams::default() };
        assert!(bad.search().unwrap_err().cause.contains("regular expression"));
        assert!(ExploreParams::default().function_id().is_err());
        let part = |from, last| ExploreParams { from, last, ..ExploreParams::default() }.part();
        assert_eq!(part(None, Some(2.5)).unwrap(), Some(Part::Last(2_500_000_000)));
        assert_eq!(part(Some(1.0), None).unwrap(), Some(Part::Time(1_000_000_000..u64::MAX)));
        for (from, last) in [(None, 0.0), (None, -1.0), (None, f64::NAN), (Some(1.0), 2.0)] {
            assert!(part(from, Some(last)).unwrap_err().cause.contains("last"), "{from:?} {last}");
        }
    }
}
