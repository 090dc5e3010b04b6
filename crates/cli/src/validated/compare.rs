//! Brings two lists of events together.

use super::{
    diff::{self, Side},
    log::{Event, Kind},
};
use std::collections::{BTreeMap, HashMap};

/// Largest table of pairs of events of one name; more are paired in their order.
const LARGEST: usize = 4 << 20;

/// How two lists compare.
#[derive(Debug, Default)]
pub struct Comparison<'e> {
    /// Numbers by kind of event.
    pub kinds: BTreeMap<&'static str, Counts>,
    /// What differs, in the order of the first list.
    pub differences: Vec<Difference<'e>>,
}

/// How many events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In both, and equal.
    pub equal: u64,
    /// In both, with differences.
    pub different: u64,
    /// Only in the first.
    pub only_a: u64,
    /// Only in the second.
    pub only_b: u64,
    /// In both, with code that one of them has left out.
    pub not_compared: u64,
}

impl Counts {
    /// How many places there are: an event and its partner share one.
    pub fn compared(&self) -> u64 {
        self.equal + self.different + self.only_a + self.only_b
    }

    /// Of 100 places how many have equals. Rounded down to hundredths, so that
    /// 100 means all.
    pub fn fidelity(&self) -> f64 {
        match self.compared() {
            0 => 100.0,
            all => (10_000 * u128::from(self.equal) / u128::from(all)) as f64 / 100.0,
        }
    }

    /// Together with others.
    pub fn and(self, other: &Self) -> Self {
        Self {
            equal: self.equal + other.equal,
            different: self.different + other.different,
            only_a: self.only_a + other.only_a,
            only_b: self.only_b + other.only_b,
            not_compared: self.not_compared + other.not_compared,
        }
    }
}

impl Comparison<'_> {
    /// Numbers of all kinds together.
    pub fn total(&self) -> Counts {
        self.kinds.values().fold(Counts::default(), |sum, counts| sum.and(counts))
    }
}

/// An event that has no equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference<'e> {
    /// That of the first list.
    pub a: Option<&'e Event>,
    /// That of the second.
    pub b: Option<&'e Event>,
}

impl<'e> Difference<'e> {
    /// One of the two.
    fn any(&self) -> Option<&'e Event> {
        self.a.or(self.b)
    }

    /// Name of what it happened to.
    pub fn name(&self) -> &'e str {
        self.any().map_or("", |event| &event.name)
    }

    /// Kind of the event.
    pub fn kind(&self) -> &'static str {
        self.any().map_or("", |event| event.kind.id)
    }
}

/// How two events of one name compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Equal,
    NotCompared,
    Different,
}

/// Compares what happened to each name, in its order. The order between names does not count: threads differ in that.
pub fn compare<'e>(a: &'e [Event], b: &'e [Event]) -> Comparison<'e> {
    let mut names: HashMap<&str, (Vec<usize>, Vec<usize>)> = HashMap::new();
    a.iter().enumerate().for_each(|(index, event)| names.entry(&event.name).or_default().0.push(index));
    b.iter().enumerate().for_each(|(index, event)| names.entry(&event.name).or_default().1.push(index));
    let mut comparison = Comparison::default();
    let mut found = Vec::new();
    for (of_a, of_b) in names.values() {
        let relation = |i: usize, j: usize| relation(&a[of_a[i]], &b[of_b[j]]);
        for (i, j) in pairs(of_a.len(), of_b.len(), &relation) {
            let kind: &'static Kind = match (i, j) {
                (Some(i), _) => a[of_a[i]].kind,
                (None, Some(j)) => b[of_b[j]].kind,
                (None, None) => continue,
            };
            let counts = comparison.kinds.entry(kind.id).or_default();
            match (i, j) {
                (Some(i), Some(j)) => match relation(i, j) {
                    Some(Relation::Equal) => counts.equal += 1,
                    Some(Relation::NotCompared) => counts.not_compared += 1,
                    Some(Relation::Different) | None => counts.different += 1,
                },
                (Some(_), None) => counts.only_a += 1,
                _ => counts.only_b += 1,
            }
            let is_difference = i.zip(j).is_none_or(|(i, j)| relation(i, j) == Some(Relation::Different));
            if is_difference {
                found.push((i.map(|i| of_a[i]), j.map(|j| of_b[j])));
            }
        }
    }
    found.sort_by_key(|(i, j)| (i.or(*j), i.is_none()));
    comparison.differences =
        found.iter().map(|(i, j)| Difference { a: i.map(|i| &a[i]), b: j.map(|j| &b[j]) }).collect();
    comparison
}

/// `None` for different kinds, which are no pair.
fn relation(a: &Event, b: &Event) -> Option<Relation> {
    if a.kind != b.kind {
        return None;
    }
    Some(match () {
        () if a.fields != b.fields => Relation::Different,
        () if a.left_out.is_some() || b.left_out.is_some() => Relation::NotCompared,
        () if code_differs(a, b).next().is_some() => Relation::Different,
        () => Relation::Equal,
    })
}

/// Code that differs: what it is, and both sides.
pub fn code_differs<'e>(a: &'e Event, b: &'e Event) -> impl Iterator<Item = (&'static str, Side<'e>, Side<'e>)> {
    const NONE: &[String] = &[];
    (0..a.code.len().max(b.code.len())).filter_map(move |part| {
        let side =
            |event: &'e Event| Side { lines: event.code.get(part).map_or(NONE, |(_, lines)| lines), slot: event.slot };
        let what = a.code.get(part).or(b.code.get(part)).map_or("", |(what, _)| what);
        (!diff::is_same(side(a), side(b))).then(|| (what, side(a), side(b)))
    })
}

/// The cheapest way to bring two sequences together, where a pair that differs and an event without partner cost the same: so a
/// pair that differs is told as one difference, not as two.
fn pairs(
    a: usize,
    b: usize,
    relation: &dyn Fn(usize, usize) -> Option<Relation>,
) -> Vec<(Option<usize>, Option<usize>)> {
    let is_equal = |i: usize, j: usize| relation(i, j) == Some(Relation::Equal);
    let front = (0..a.min(b)).take_while(|i| is_equal(*i, *i)).count();
    let back = (1..=a.min(b) - front).take_while(|i| is_equal(a - i, b - i)).count();
    let mut found: Vec<_> = (0..front).map(|i| (Some(i), Some(i))).collect();
    let (rows, columns) = (a - front - back, b - front - back);
    let cost =
        |i: usize, j: usize| relation(front + i, front + j).map(|relation| u32::from(relation == Relation::Different));
    let (mut i, mut j) = (0, 0);
    if (rows + 1) * (columns + 1) <= LARGEST {
        let width = columns + 1;
        // Cost of what is left from each pair on.
        let mut best = vec![0_u32; (rows + 1) * width];
        for i in (0..=rows).rev() {
            for j in (0..=columns).rev() {
                let skip_a = (i < rows).then(|| best[(i + 1) * width + j] + 1);
                let skip_b = (j < columns).then(|| best[i * width + j + 1] + 1);
                let both = (i < rows && j < columns)
                    .then(|| cost(i, j).map(|cost| best[(i + 1) * width + j + 1] + cost))
                    .flatten();
                best[i * width + j] = [both, skip_a, skip_b].into_iter().flatten().min().unwrap_or(0);
            }
        }
        while i < rows && j < columns {
            let now = best[i * width + j];
            if cost(i, j).is_some_and(|cost| best[(i + 1) * width + j + 1] + cost == now) {
                found.push((Some(front + i), Some(front + j)));
                (i, j) = (i + 1, j + 1);
            } else if best[(i + 1) * width + j] + 1 == now {
                found.push((Some(front + i), None));
                i += 1;
            } else {
                found.push((None, Some(front + j)));
                j += 1;
            }
        }
    } else {
        while i < rows && j < columns {
            match relation(front + i, front + j) {
                Some(_) => found.push((Some(front + i), Some(front + j))),
                None => found.extend([(Some(front + i), None), (None, Some(front + j))]),
            }
            (i, j) = (i + 1, j + 1);
        }
    }
    found.extend((i..rows).map(|i| (Some(front + i), None)));
    found.extend((j..columns).map(|j| (None, Some(front + j))));
    found.extend((0..back).map(|k| (Some(a - back + k), Some(b - back + k))));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validated::log::KINDS;

    fn event(kind: &str, name: &str, field: &str) -> Event {
        let kind = KINDS.iter().find(|known| known.id == kind).unwrap();
        let fields = kind.fields.iter().map(|_| Some(field.to_owned())).collect();
        Event { kind, name: name.into(), time: None, fields, code: vec![], slot: None, left_out: None }
    }

    fn rewrite(slot: u64, lines: &[&str]) -> Event {
        let code = vec![("after", lines.iter().map(|line| (*line).to_owned()).collect())];
        Event { code, slot: Some(slot), ..event("rewrite", "m", "r") }
    }

    #[test]
    fn order_counts_for_a_name_and_not_between_names() {
        let a = [event("rewrite", "x", ""), event("jit", "y", ""), event("jit", "x", ""), event("revert", "x", "")];
        let b = [event("jit", "y", ""), event("rewrite", "x", ""), event("jit", "x", ""), event("revert", "x", "")];
        assert_eq!((compare(&a, &b).total().fidelity(), compare(&a, &b).differences.len()), (100.0, 0));
        let swapped =
            [event("jit", "x", ""), event("rewrite", "x", ""), event("jit", "y", ""), event("revert", "x", "")];
        let found = compare(&a, &swapped);
        let expected = Counts { equal: 3, only_a: 1, only_b: 1, ..Counts::default() };
        assert_eq!((found.total(), found.differences.len()), (expected, 2));
        assert_eq!(found.total().fidelity(), 60.0);
    }

    #[test]
    fn a_pair_that_differs_is_one_difference() {
        let a = [event("jit", "x", "tier-0"), event("jit", "x", "tier-1"), event("jit", "only a", "")];
        let b = [event("jit", "x", "tier-0"), event("jit", "x", "osr")];
        let found = compare(&a, &b);
        let expected = Counts { equal: 1, different: 1, only_a: 1, ..Counts::default() };
        assert_eq!(found.kinds["jit"], expected);
        assert_eq!(found.total().fidelity(), 33.33);
        assert_eq!(
            found.differences,
            [Difference { a: Some(&a[1]), b: Some(&b[1]) }, Difference { a: Some(&a[2]), b: None }]
        );
    }

    #[test]
    fn code_is_compared_but_for_the_number_of_the_method() {
        let code = |slot: u64, rest: &'static str| rewrite(slot, &[&format!("IL_0000:  ldc.i4     {slot}"), rest]);
        let (a, b) = ([code(3, "ret")], [code(7, "ret")]);
        assert_eq!(compare(&a, &b).total().equal, 1);
        let other = [code(7, "throw")];
        let found = compare(&a, &other);
        assert_eq!((found.total().different, code_differs(&a[0], &other[0]).count()), (1, 1));
        let left_out = [Event { left_out: Some("too large".into()), ..code(7, "ret") }];
        let found = compare(&a, &left_out);
        assert_eq!((found.total().not_compared, found.differences.len()), (1, 0));
    }

    #[test]
    fn not_all_is_never_100_percent() {
        let counts = Counts { equal: 1_000_000, only_b: 1, ..Counts::default() };
        assert_eq!(counts.fidelity(), 99.99);
        assert_eq!(Counts::default().fidelity(), 100.0);
    }
}
