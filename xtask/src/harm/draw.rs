//! Draws cells so that each pair of values of two axes meets in one of them: a greedy covering
//! array.

use super::random::Random;
use super::table::{AXES, Axis, COLUMNS, Cell, Partial, Table};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// How many cells are tried for each one that is taken.
const CANDIDATES: usize = 12;

/// Two values of two columns, the lesser first.
type Value = (Axis, usize);
type Pair = (Value, Value);

/// What was drawn.
pub struct Drawn {
    /// The cells, in order.
    pub cells: Vec<Cell>,
    /// Pairs that meet.
    pub met: usize,
    /// Pairs that were not drawn because the number of cells was limited.
    pub left: usize,
    /// How many pairs make no sense, by reason.
    pub senseless: BTreeMap<&'static str, usize>,
}

/// Draws at most `limit` cells out of the wanted values; where all pairs meet sooner, further cells
/// are drawn until `least`.
pub fn draw(
    table: &Table,
    wanted: &[Vec<usize>; COLUMNS],
    seed: u64,
    least: usize,
    limit: usize,
) -> Drawn {
    let mut random = Random::new(seed);
    let (mut open, mut senseless) = pairs(table, wanted);
    let mut missing: HashSet<Pair> = open.iter().copied().collect();
    let mut drawn = Drawn { cells: Vec::new(), met: 0, left: 0, senseless: BTreeMap::new() };
    let mut taken = BTreeSet::new();
    let mut failures = 0;
    while drawn.cells.len() < limit
        && (!missing.is_empty() || drawn.cells.len() < least)
        && failures < 2000
    {
        let mut best: Option<(usize, Cell)> = None;
        let mut seeded = None;
        for _ in 0..CANDIDATES {
            while let Some(index) = (!open.is_empty()).then(|| random.below(open.len())) {
                if missing.contains(&open[index]) {
                    seeded = Some(open[index]);
                    break;
                }
                open.swap_remove(index);
                seeded = None;
            }
            let Some(cell) = fill(table, wanted, &missing, seeded, &mut random) else { continue };
            let new = pairs_of(&cell).filter(|pair| missing.contains(pair)).count();
            if best.is_none_or(|(most, _)| new > most) && !taken.contains(&cell) {
                best = Some((new, cell));
            }
        }
        let Some((_, cell)) = best else {
            // No sensible cell holds the pair, though each pair of its values makes sense.
            failures += 1;
            if let Some(pair) = seeded
                && failures % 20 == 0
                && missing.remove(&pair)
            {
                *senseless.entry("only together with what makes no sense").or_insert(0) += 1;
            }
            continue;
        };
        for pair in pairs_of(&cell) {
            if missing.remove(&pair) {
                drawn.met += 1;
            }
        }
        taken.insert(cell);
        drawn.cells.push(cell);
    }
    drawn.left = missing.len();
    drawn.senseless = senseless;
    drawn
}

fn ordered(one: Value, other: Value) -> Pair {
    if one <= other { (one, other) } else { (other, one) }
}

fn pairs_of(cell: &Cell) -> impl Iterator<Item = Pair> + '_ {
    (0..COLUMNS)
        .flat_map(move |a| (0..a).map(move |b| ordered((AXES[a], cell[a]), (AXES[b], cell[b]))))
}

/// All pairs that make sense, and how many do not.
fn pairs(
    table: &Table,
    wanted: &[Vec<usize>; COLUMNS],
) -> (Vec<Pair>, BTreeMap<&'static str, usize>) {
    let (mut all, mut senseless) = (BTreeSet::new(), BTreeMap::new());
    for a in 0..COLUMNS {
        for b in 0..a {
            for one in &wanted[a] {
                for other in &wanted[b] {
                    let mut partial: Partial = [None; COLUMNS];
                    (partial[a], partial[b]) = (Some(*one), Some(*other));
                    match table.nonsense(&partial) {
                        None => {
                            all.insert(ordered((AXES[a], *one), (AXES[b], *other)));
                        }
                        Some(why) => *senseless.entry(why).or_insert(0) += 1,
                    }
                }
            }
        }
    }
    (all.into_iter().collect(), senseless)
}

/// A cell that holds the pair and as many others that are missing as can be found column by column.
fn fill(
    table: &Table,
    wanted: &[Vec<usize>; COLUMNS],
    missing: &HashSet<Pair>,
    pair: Option<Pair>,
    random: &mut Random,
) -> Option<Cell> {
    let mut partial: Partial = [None; COLUMNS];
    for (axis, index) in pair.into_iter().flat_map(|(one, other)| [one, other]) {
        let free = |column: &usize| {
            AXES[*column] == axis && partial[*column].is_none() && wanted[*column].contains(&index)
        };
        let column = (0..COLUMNS).find(free)?;
        partial[column] = Some(index);
    }
    if table.nonsense(&partial).is_some() {
        return None;
    }
    let mut order: Vec<usize> = (0..COLUMNS).filter(|column| partial[*column].is_none()).collect();
    for index in (1..order.len()).rev() {
        order.swap(index, random.below(index + 1));
    }
    for column in order {
        let (mut best, mut most) = (Vec::new(), 0);
        for index in &wanted[column] {
            partial[column] = Some(*index);
            if table.nonsense(&partial).is_some() {
                continue;
            }
            let value = (AXES[column], *index);
            let others = (0..COLUMNS).filter(|other| *other != column);
            let met =
                others.filter_map(|other| Some(ordered(value, (AXES[other], partial[other]?))));
            let new = met.filter(|pair| missing.contains(pair)).count();
            if new > most {
                best.clear();
                most = new;
            }
            if new == most {
                best.push(*index);
            }
        }
        partial[column] = Some(*random.of(&best)?);
    }
    let mut cell = [0; COLUMNS];
    for (place, index) in cell.iter_mut().zip(partial) {
        *place = index?;
    }
    // Two conditions in any order are the same cell.
    if cell[2] > cell[3] && wanted[2].contains(&cell[3]) && wanted[3].contains(&cell[2]) {
        cell.swap(2, 3);
    }
    Some(cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sensible_pair_meets_and_a_seed_gives_the_same_cells() {
        let (table, _) = Table::of_machine();
        let wanted = table.wanted("").unwrap();
        let drawn = draw(&table, &wanted, 1, 0, usize::MAX);
        assert_eq!(drawn.left, 0);
        let met: HashSet<Pair> = drawn.cells.iter().flat_map(pairs_of).collect();
        let (all, _) = pairs(&table, &wanted);
        let never = all.iter().filter(|pair| !met.contains(pair)).count();
        let told: usize =
            drawn.senseless.get("only together with what makes no sense").copied().unwrap_or(0);
        assert_eq!(never, told, "pairs that never meet are counted");
        assert!(told * 100 < all.len(), "{told} of {}", all.len());
        for cell in &drawn.cells {
            assert_eq!(table.nonsense(&cell.map(Some)), None, "{}", table.shown(cell));
        }
        assert_eq!(draw(&table, &wanted, 1, 0, 50).cells, drawn.cells[..50]);
        assert_ne!(draw(&table, &wanted, 2, 0, 50).cells, drawn.cells[..50]);
    }

    #[test]
    fn only_what_is_named_is_drawn() {
        let (table, _) = Table::of_machine();
        let wanted = table.wanted("nre attach-wall 9 killed").unwrap();
        let drawn = draw(&table, &wanted, 1, 0, 20);
        for cell in &drawn.cells {
            let name = table.shown(cell);
            assert!(name.starts_with("9 nre ") && name.ends_with("attach-wall killed"), "{name}");
        }
        assert!(!drawn.cells.is_empty());
        assert!(table.wanted("no-such").is_err());
    }
}
