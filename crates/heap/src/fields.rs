use session::FieldKind;
use std::collections::HashMap;

/// Derived classes that are followed to the fields of those that they are derived from.
const MOST_PARENTS: usize = 64;

/// The shape of objects of which it is not known where they hold their references. No table is
/// so long.
pub(crate) const UNKNOWN_SHAPE: u32 = u32::MAX;

/// Shapes that are kept: real heaps have some thousands.
const MOST_SHAPES: usize = 1 << 20;

/// Where objects of a class hold their references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The runtime's number of the class.
    pub class: u64,
    /// A bit for each word of the object.
    pub words: u64,
}

impl Shape {
    /// Where the object holds one of its references, in bytes from its address.
    pub fn offset_of(self, reference: usize) -> Option<u32> {
        let mut words = self.words;
        for _ in 0..reference {
            words &= words.checked_sub(1)?;
        }
        (words != 0).then(|| words.trailing_zeros() * 8)
    }
}

/// All shapes that occur, each once.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    pub table: Vec<Shape>,
    index: HashMap<(u32, u64), u32>,
    /// The last one of each class.
    last: Vec<u32>,
}

impl Shapes {
    /// The number of the shape of objects of a class, which is given by its index and its number.
    pub fn shape(&mut self, class: u32, number: u64, words: u64) -> u32 {
        let at = class as usize;
        if let Some(last) = self.last.get(at).and_then(|last| self.table.get(*last as usize))
            && last.words == words
        {
            return self.last[at];
        }
        let next = self.table.len() as u32;
        if self.table.len() >= MOST_SHAPES && !self.index.contains_key(&(class, words)) {
            return UNKNOWN_SHAPE;
        }
        let shape = *self.index.entry((class, words)).or_insert(next);
        if shape == next {
            self.table.push(Shape { class: number, words });
        }
        if self.last.len() <= at {
            self.last.resize(at + 1, UNKNOWN_SHAPE);
        }
        self.last[at] = shape;
        shape
    }
}

/// The fields of classes.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    classes: HashMap<u64, Class>,
    /// How many there are.
    pub count: usize,
}

#[derive(Debug)]
struct Class {
    parent: u64,
    /// By offset.
    fields: Vec<(u32, String, FieldKind)>,
}

impl Fields {
    pub fn add(&mut self, class: u64, parent: u64, mut fields: Vec<(u32, String, FieldKind)>) {
        order::sort_by_key(&mut fields, |(offset, _, _)| *offset);
        self.count += fields.len();
        self.classes.insert(class, Class { parent, fields });
    }

    /// The field of objects of a class that has the word at an offset, if it can hold a reference
    /// there.
    pub fn name(&self, class: u64, offset: u32) -> Option<&str> {
        let mut at = Some(class);
        let mut nearest: Option<&(u32, String, FieldKind)> = None;
        for _ in 0..MOST_PARENTS {
            let Some(class) = at.and_then(|class| self.classes.get(&class)) else { break };
            let behind = class.fields.partition_point(|(start, _, _)| *start <= offset);
            if let Some(field) = behind.checked_sub(1).map(|at| &class.fields[at])
                && nearest.is_none_or(|(start, _, _)| field.0 > *start)
            {
                nearest = Some(field);
            }
            at = Some(class.parent).filter(|parent| *parent != 0);
        }
        // Otherwise the field may be one of a class that is not known.
        let (start, name, kind) = nearest.filter(|_| at.is_none())?;
        let holds = match kind {
            FieldKind::Reference => *start == offset,
            FieldKind::Value => true,
            FieldKind::Other => false,
        };
        (holds && !name.is_empty()).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_offsets_in_order() {
        let shape = Shape { class: 1, words: 0b1_0110 };
        let offsets: Vec<_> = (0..4).map(|reference| shape.offset_of(reference)).collect();
        assert_eq!(offsets, [Some(8), Some(16), Some(32), None]);
    }

    #[test]
    fn shapes_are_kept_once() {
        let mut shapes = Shapes::default();
        let numbers = [(0, 6), (0, 2), (3, 6), (0, 6), (0, 6), (3, 6)]
            .map(|(class, words)| shapes.shape(class, u64::from(class) + 100, words));
        assert_eq!(numbers, [0, 1, 2, 0, 0, 2]);
        assert_eq!(shapes.table[2], Shape { class: 103, words: 6 });
    }

    #[test]
    fn fields_are_those_of_the_class_and_of_its_parents() {
        use FieldKind::{Other, Reference, Value};
        let mut fields = Fields::default();
        let field = |offset, name: &str, kind| (offset, name.to_owned(), kind);
        fields.add(
            1,
            2,
            vec![field(40, "", Other), field(24, "pair", Value), field(16, "text", Reference)],
        );
        fields.add(2, 3, vec![field(8, "owner", Reference)]);
        fields.add(3, 0, vec![]);
        let name = |offset| fields.name(1, offset);
        assert_eq!([name(8), name(16)], [Some("owner"), Some("text")]);
        // Both words of a value are its own, and the number behind it holds nothing.
        assert_eq!(
            [name(24), name(32), name(40), name(48)],
            [Some("pair"), Some("pair"), None, None]
        );
        assert_eq!(name(0), None);
        // Where the class above is not known, its fields may be anywhere.
        fields.add(4, 9, vec![field(8, "first", Reference)]);
        assert_eq!([fields.name(4, 8), fields.name(5, 8)], [None, None]);
    }
}
