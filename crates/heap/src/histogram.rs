use crate::snapshot::{GENERATIONS, Snapshot, TypeId};

/// Objects of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeCounts {
    /// Which.
    pub type_id: TypeId,
    /// How many objects.
    pub count: u64,
    /// Bytes of the objects themselves.
    pub bytes: u64,
    /// Objects by generation; see [`crate::generation_name`].
    pub count_by_generation: [u64; GENERATIONS],
    /// Bytes by generation.
    pub bytes_by_generation: [u64; GENERATIONS],
}

/// Objects and bytes by type and generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// A row for each type of the snapshot, in that order, also for those without objects.
    pub types: Vec<TypeCounts>,
    /// All objects; the type of this row means nothing.
    pub total: TypeCounts,
}

impl Histogram {
    /// Counts the objects of a snapshot.
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut types: Vec<TypeCounts> = (0..snapshot.types().len())
            .map(|type_id| TypeCounts { type_id: type_id as TypeId, ..TypeCounts::default() })
            .collect();
        let mut total = TypeCounts::default();
        let mut count = |from: u32, to: u32, generation: usize| {
            for node in from..to {
                let size = snapshot.size(node);
                let row = &mut types[snapshot.type_of(node) as usize];
                row.count_by_generation[generation] += 1;
                row.bytes_by_generation[generation] =
                    row.bytes_by_generation[generation].saturating_add(size);
            }
        };
        let mut next = 0;
        for (first, end, generation) in &snapshot.generations {
            count(next, *first, GENERATIONS - 1);
            count(*first, *end, usize::from(*generation).min(GENERATIONS - 1));
            next = *end;
        }
        count(next, snapshot.len() as u32, GENERATIONS - 1);
        for row in &mut types {
            row.count = row.count_by_generation.iter().sum();
            row.bytes =
                row.bytes_by_generation.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes));
            total.count += row.count;
            total.bytes = total.bytes.saturating_add(row.bytes);
            for generation in 0..GENERATIONS {
                total.count_by_generation[generation] += row.count_by_generation[generation];
                total.bytes_by_generation[generation] = total.bytes_by_generation[generation]
                    .saturating_add(row.bytes_by_generation[generation]);
            }
        }
        Self { types, total }
    }

    /// The types that have objects, those with most bytes first.
    pub fn by_bytes(&self) -> Vec<&TypeCounts> {
        let mut rows: Vec<&TypeCounts> = self.types.iter().filter(|row| row.count > 0).collect();
        order::sort_by(&mut rows, |one, other| {
            other.bytes.cmp(&one.bytes).then(one.type_id.cmp(&other.type_id))
        });
        rows
    }
}
