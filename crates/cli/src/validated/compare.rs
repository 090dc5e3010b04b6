//! Brings two lists of events together.

use super::{
    bytes,
    diff::{self, Side},
    log::{Event, Kind},
};
use std::collections::{BTreeMap, HashMap};

/// Largest table of pairs of events of one name; more are paired in their order.
const LARGEST: usize = 4 << 20;

/// What has to be equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// The events of each name, in their order, and code as text
    #[default]
    Default,
    /// The order of all events as well, and the bytes of code except for tokens; code that is left
    /// out is a difference
    Strict,
}

/// How two lists compare.
#[derive(Debug, Default)]
pub struct Comparison<'e> {
    /// Numbers by kind of event.
    pub kinds: BTreeMap<&'static str, Counts>,
    /// What differs, in the order of the first list.
    pub differences: Vec<Difference<'e>>,
    /// Events that belong together, by their places in both lists.
    pub pairs: Vec<(usize, usize)>,
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
    /// Both are equal, and one of them has another place among the events.
    pub is_moved: bool,
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

/// Compares what happened to each name, in its order. The order between names counts in strict mode
/// only: threads differ in that.
pub fn compare<'e>(a: &'e [Event], b: &'e [Event], mode: Mode) -> Comparison<'e> {
    let mut names: HashMap<&str, (Vec<usize>, Vec<usize>)> = HashMap::new();
    a.iter()
        .enumerate()
        .for_each(|(index, event)| names.entry(&event.name).or_default().0.push(index));
    b.iter()
        .enumerate()
        .for_each(|(index, event)| names.entry(&event.name).or_default().1.push(index));
    let mut comparison = Comparison::default();
    let (mut found, mut equal) = (Vec::new(), Vec::new());
    for (of_a, of_b) in names.values() {
        let relation = |i: usize, j: usize| relation(&a[of_a[i]], &b[of_b[j]], mode);
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
            let relation = i.zip(j).and_then(|(i, j)| relation(i, j));
            let (i, j) = (i.map(|i| of_a[i]), j.map(|j| of_b[j]));
            comparison.pairs.extend(i.zip(j));
            match relation {
                Some(Relation::Equal) => equal.extend(i.zip(j)),
                Some(Relation::NotCompared) => {}
                Some(Relation::Different) | None => found.push((i, j, false)),
            }
        }
    }
    if mode == Mode::Strict {
        order::sort_by(&mut equal, Ord::cmp);
        for (i, j) in out_of_order(&equal) {
            let counts = comparison.kinds.entry(a[i].kind.id).or_default();
            (counts.equal, counts.different) = (counts.equal - 1, counts.different + 1);
            found.push((Some(i), Some(j), true));
        }
    }
    order::sort_by(&mut comparison.pairs, Ord::cmp);
    order::sort_by_key(&mut found, |(i, j, _)| (i.or(*j), i.is_none()));
    let difference = |&(i, j, is_moved): &(Option<usize>, Option<usize>, bool)| Difference {
        a: i.map(|i| &a[i]),
        b: j.map(|j| &b[j]),
        is_moved,
    };
    comparison.differences = found.iter().map(difference).collect();
    comparison
}

/// Of pairs in the order of their first places, as few as possible without which their second
/// places ascend, too.
pub fn out_of_order(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // The pair that ends the ascending run of each length, the one with the least second place; and
    // the one before each.
    let (mut ends, mut before) = (Vec::<usize>::new(), vec![None; pairs.len()]);
    for (index, &(_, place)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|&end| pairs[end].1 < place);
        before[index] = length.checked_sub(1).map(|shorter| ends[shorter]);
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut is_in_order = vec![false; pairs.len()];
    let mut next = ends.last().copied();
    while let Some(index) = next {
        is_in_order[index] = true;
        next = before[index];
    }
    pairs
        .iter()
        .zip(is_in_order)
        .filter(|(_, is_in_order)| !is_in_order)
        .map(|(pair, _)| *pair)
        .collect()
}

/// Events without those that are equal to the one before them of the same name.
pub fn without_repeats(events: Vec<Event>, mode: Mode) -> Vec<Event> {
    let mut kept: Vec<Event> = Vec::new();
    let mut last: HashMap<String, usize> = HashMap::new();
    for event in events {
        let earlier = last.get(&event.name).map(|&index| &kept[index]);
        if earlier.is_none_or(|earlier| relation(earlier, &event, mode) != Some(Relation::Equal)) {
            last.insert(event.name.clone(), kept.len());
            kept.push(event);
        }
    }
    kept
}

/// `None` for different kinds, which are no pair.
fn relation(a: &Event, b: &Event, mode: Mode) -> Option<Relation> {
    if a.kind != b.kind {
        return None;
    }
    Some(match () {
        () if a.fields != b.fields => Relation::Different,
        () if a.left_out.is_some() || b.left_out.is_some() => match mode {
            Mode::Default => Relation::NotCompared,
            Mode::Strict => Relation::Different,
        },
        () if code_differs(a, b).next().is_some() => Relation::Different,
        () if mode == Mode::Strict && !bytes_differ(a, b).is_empty() => Relation::Different,
        () => Relation::Equal,
    })
}

/// Code that differs: what it is, and both sides.
pub fn code_differs<'e>(
    a: &'e Event,
    b: &'e Event,
) -> impl Iterator<Item = (&'static str, Side<'e>, Side<'e>)> {
    const NONE: &[String] = &[];
    (0..a.code.len().max(b.code.len())).filter_map(move |part| {
        let side = |event: &'e Event| Side {
            lines: event.code.get(part).map_or(NONE, |(_, lines)| lines),
            slot: event.slot,
        };
        let what = a.code.get(part).or(b.code.get(part)).map_or("", |(what, _)| what);
        (!diff::is_same(side(a), side(b))).then(|| (what, side(a), side(b)))
    })
}

/// Bytes of code that differ: which code, and both sides in lines.
pub fn bytes_differ(a: &Event, b: &Event) -> Vec<(&'static str, Vec<String>, Vec<String>)> {
    let lines = |event: &Event, part: &str| {
        let digits =
            event.bytes.iter().find(|(known, _)| *known == part).map(|(_, digits)| digits)?;
        let text =
            event.code.iter().find(|(known, _)| *known == part).map_or(&[][..], |(_, lines)| lines);
        Some(bytes::masked(digits, text, event.slot).unwrap_or_else(|| vec![digits.clone()]))
    };
    let parts = [("before", "bytes before"), ("after", "bytes after")];
    let sides = parts.map(|(part, name)| {
        (name, lines(a, part).unwrap_or_default(), lines(b, part).unwrap_or_default())
    });
    sides.into_iter().filter(|(_, a, b)| a != b).collect()
}

/// The cheapest way to bring two sequences together, where a pair that differs and an event without
/// partner cost the same: so a pair that differs is reported as one difference, not as two.
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
    let cost = |i: usize, j: usize| {
        relation(front + i, front + j).map(|relation| u32::from(relation == Relation::Different))
    };
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
                best[i * width + j] =
                    [both, skip_a, skip_b].into_iter().flatten().min().unwrap_or(0);
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
        Event {
            kind,
            name: name.into(),
            time: None,
            fields,
            code: vec![],
            bytes: vec![],
            slot: None,
            left_out: None,
        }
    }

    fn rewrite(slot: u64, lines: &[&str]) -> Event {
        let code = vec![("after", lines.iter().map(|line| (*line).to_owned()).collect())];
        Event { code, slot: Some(slot), ..event("rewrite", "m", "r") }
    }

    #[test]
    fn order_counts_for_a_name_and_not_between_names() {
        let a = [
            event("rewrite", "x", ""),
            event("jit", "y", ""),
            event("jit", "x", ""),
            event("revert", "x", ""),
        ];
        let b = [
            event("jit", "y", ""),
            event("rewrite", "x", ""),
            event("jit", "x", ""),
            event("revert", "x", ""),
        ];
        assert_eq!(
            (
                compare(&a, &b, Mode::Default).total().fidelity(),
                compare(&a, &b, Mode::Default).differences.len()
            ),
            (100.0, 0)
        );
        let swapped = [
            event("jit", "x", ""),
            event("rewrite", "x", ""),
            event("jit", "y", ""),
            event("revert", "x", ""),
        ];
        let found = compare(&a, &swapped, Mode::Default);
        let expected = Counts { equal: 3, only_a: 1, only_b: 1, ..Counts::default() };
        assert_eq!((found.total(), found.differences.len()), (expected, 2));
        assert_eq!(found.total().fidelity(), 60.0);
    }

    #[test]
    fn a_pair_that_differs_is_one_difference() {
        let a =
            [event("jit", "x", "tier-0"), event("jit", "x", "tier-1"), event("jit", "only a", "")];
        let b = [event("jit", "x", "tier-0"), event("jit", "x", "osr")];
        let found = compare(&a, &b, Mode::Default);
        let expected = Counts { equal: 1, different: 1, only_a: 1, ..Counts::default() };
        assert_eq!(found.kinds["jit"], expected);
        assert_eq!(found.total().fidelity(), 33.33);
        assert_eq!(
            found.differences,
            [
                Difference { a: Some(&a[1]), b: Some(&b[1]), is_moved: false },
                Difference { a: Some(&a[2]), b: None, is_moved: false }
            ]
        );
    }

    #[test]
    fn code_is_compared_but_for_the_number_of_the_method() {
        let code = |slot: u64, rest: &'static str| {
            rewrite(slot, &[&format!("IL_0000:  ldc.i4     {slot}"), rest])
        };
        let (a, b) = ([code(3, "ret")], [code(7, "ret")]);
        assert_eq!(compare(&a, &b, Mode::Default).total().equal, 1);
        let other = [code(7, "throw")];
        let found = compare(&a, &other, Mode::Default);
        assert_eq!((found.total().different, code_differs(&a[0], &other[0]).count()), (1, 1));
        let left_out = [Event { left_out: Some("too large".into()), ..code(7, "ret") }];
        let found = compare(&a, &left_out, Mode::Default);
        assert_eq!((found.total().not_compared, found.differences.len()), (1, 0));
    }

    #[test]
    fn not_all_is_never_100_percent() {
        let counts = Counts { equal: 1_000_000, only_b: 1, ..Counts::default() };
        assert_eq!(counts.fidelity(), 99.99);
        assert_eq!(Counts::default().fidelity(), 100.0);
    }

    #[test]
    fn strict_counts_the_order_of_all_events() {
        let events = |names: &[&str]| {
            names.iter().map(|name| event("rewrite", name, "")).collect::<Vec<_>>()
        };
        let (a, b) = (events(&["x", "y", "z", "x"]), events(&["y", "z", "x", "x"]));
        assert_eq!(compare(&a, &b, Mode::Default).total().fidelity(), 100.0);
        assert_eq!(compare(&a, &a, Mode::Strict).total().fidelity(), 100.0);
        let found = compare(&a, &b, Mode::Strict);
        assert_eq!(found.total(), Counts { equal: 3, different: 1, ..Counts::default() });
        assert_eq!(
            found.differences,
            [Difference { a: Some(&a[0]), b: Some(&b[2]), is_moved: true }]
        );
        assert_eq!(found.pairs, [(0, 2), (1, 0), (2, 1), (3, 3)]);
    }

    #[test]
    fn as_few_pairs_as_possible_are_out_of_order() {
        let of = |places: &[usize]| {
            let pairs: Vec<_> = places.iter().copied().enumerate().collect();
            out_of_order(&pairs).into_iter().map(|(_, place)| place).collect::<Vec<_>>()
        };
        assert_eq!(of(&[]), [0; 0]);
        assert_eq!(of(&[0, 1, 2]), [0; 0]);
        assert_eq!(of(&[3, 0, 1, 2]), [3]);
        assert_eq!(of(&[1, 2, 3, 0]), [0]);
        assert_eq!(of(&[2, 1, 0]).len(), 2);
        assert_eq!(of(&[0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15]).len(), 16 - 6);
    }

    #[test]
    fn strict_compares_bytes_and_takes_nothing_for_granted() {
        let with = |digits: &str| {
            [Event { bytes: vec![("after", digits.to_owned())], ..rewrite(1, &["IL_0000:  ret"]) }]
        };
        // A tiny and a fat header.
        let (tiny, fat) = (with("062a"), with("0330080001000000000000002a"));
        assert_eq!(compare(&tiny, &fat, Mode::Default).differences.len(), 0);
        let found = compare(&tiny, &fat, Mode::Strict);
        assert_eq!(
            (found.total().different, bytes_differ(&tiny[0], &fat[0])[0].0),
            (1, "bytes after")
        );
        assert_eq!(compare(&tiny, &tiny, Mode::Strict).total().fidelity(), 100.0);
        let without = [rewrite(1, &["IL_0000:  ret"])];
        assert_eq!(compare(&tiny, &without, Mode::Strict).total().different, 1);
        let left_out = [Event { left_out: Some("too large".into()), ..rewrite(1, &[]) }];
        assert_eq!(compare(&left_out, &left_out, Mode::Strict).total().different, 1);
        assert_eq!(compare(&left_out, &left_out, Mode::Default).total().not_compared, 1);
    }

    #[test]
    fn repeats_are_left_out() {
        let events =
            || vec![rewrite(1, &["a"]), event("revert", "m", "r"), event("revert", "n", "r")];
        let mut repeated = events();
        // The number of the method differs.
        repeated.insert(1, rewrite(2, &["a"]));
        repeated.insert(2, event("revert", "n", "r"));
        let kept = without_repeats(repeated, Mode::Strict);
        assert_eq!(kept.len(), 3);
        assert_eq!(compare(&kept, &events(), Mode::Default).total().equal, 3);
        // One that is not next to its equal is none.
        let back = vec![rewrite(1, &["a"]), event("revert", "m", "r"), rewrite(1, &["a"])];
        assert_eq!(without_repeats(back, Mode::Default).len(), 3);
    }
}
