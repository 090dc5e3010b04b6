//! What one thread has allocated, by class.
//!
//! Its thread alone counts in it, in the runtime's callback; the agent's main thread reads along.
//! Everything is an atomic number that is loaded and stored without order, which on a processor is
//! a plain load or store. The memory is reserved as a whole and used page by page, as classes are
//! met.

use crate::os::map::Zeroed;
use std::sync::atomic::{
    AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Most classes of a thread, the one row that is never used included.
pub const MOST_ROWS: usize = 16_384;
/// Places of the index: never more than half of them are used.
const PLACES: usize = MOST_ROWS * 2;
/// Stands in place of a class that was unloaded. Class ids are addresses, so it is none.
const GONE: u64 = 1;
/// What the runtime rounds sizes up to when it allocates, on 64-bit systems.
const ALIGNMENT: u64 = 8;

/// How the size of a class's objects is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Sizing {
    /// It is not known yet how.
    Unknown = 0,
    /// As the object's method table says.
    ByTable = 1,
    /// The runtime is asked for each.
    Asked = 2,
}

/// Objects of one class.
#[repr(C)]
#[derive(Debug)]
pub struct Row {
    /// Which.
    class: AtomicU64,
    objects: AtomicU64,
    bytes: AtomicU64,
    sizing: AtomicU32,
    /// Number of the type, once somebody has asked what it is called.
    number: AtomicU32,
}

impl Row {
    /// The class; `None` if it was unloaded.
    pub fn class(&self) -> Option<u64> {
        Some(self.class.load(Acquire)).filter(|class| *class != GONE)
    }

    /// Objects, and their bytes.
    pub fn counts(&self) -> (u64, u64) {
        (self.objects.load(Relaxed), self.bytes.load(Relaxed))
    }

    /// Number of the type, where it has one.
    pub fn number(&self) -> Option<u32> {
        Some(self.number.load(Acquire)).filter(|number| *number != 0)
    }

    /// Gives the type a number.
    pub fn set_number(&self, number: u32) {
        self.number.store(number, Release);
    }

    /// The class is unloaded: should its id come again, that is another class. Only while no object
    /// of it can be allocated, so that its thread does not count here meanwhile.
    pub fn retire(&self) {
        self.class.store(GONE, Release);
    }

    /// One object more.
    #[inline]
    fn add(&self, object: &impl Measured) {
        let size = if self.sizing.load(Relaxed) == Sizing::ByTable as u32 {
            object.size_by_table()
        } else {
            self.first_size(object)
        };
        let size = size.next_multiple_of(ALIGNMENT);
        // Nobody else writes them.
        self.objects.store(self.objects.load(Relaxed).wrapping_add(1), Relaxed);
        self.bytes.store(self.bytes.load(Relaxed).wrapping_add(size), Relaxed);
    }

    /// Size of an object while the method table is not trusted: it has to agree with what the
    /// runtime says. An array without elements cannot tell how large one is.
    #[cold]
    #[inline(never)]
    fn first_size(&self, object: &impl Measured) -> u64 {
        let asked = object.size_asked();
        if self.sizing.load(Relaxed) == Sizing::Unknown as u32 && object.elements() != Some(0) {
            let by_table = object.size_by_table().next_multiple_of(ALIGNMENT);
            let agree = asked.next_multiple_of(ALIGNMENT) == by_table;
            self.sizing.store(if agree { Sizing::ByTable } else { Sizing::Asked } as u32, Relaxed);
        }
        asked
    }
}

/// An object whose size is wanted.
pub trait Measured {
    /// Number of elements of an array or characters of a string, `None` for other objects; as the
    /// method table says.
    fn elements(&self) -> Option<u32>;
    /// Size in bytes as the method table says.
    fn size_by_table(&self) -> u64;
    /// Size in bytes as the runtime says.
    fn size_asked(&self) -> u64;
}

/// The table. All zeros are the state before [`Table::init`].
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Table {
    os_tid: AtomicU32,
    number: AtomicU32,
    /// Rows there are, the unused one included; those below can be read.
    used: AtomicU32,
    /// Objects that are not in the table, as there was no row for their class.
    no_room: AtomicU64,
    /// Numbers of rows, by what is made of class ids; 0 for none.
    index: [AtomicU16; PLACES],
    /// The first is never used.
    rows: [Row; MOST_ROWS],
}

impl Table {
    /// Memory for a table.
    pub fn reserve() -> Option<Zeroed<Table>> {
        // SAFETY: a table is made of atomic numbers only, for which zero is a value.
        unsafe { Zeroed::reserve() }
    }

    /// Makes it the empty table of a thread.
    pub fn init(&self, os_tid: u32, number: u32) {
        self.os_tid.store(os_tid, Relaxed);
        self.number.store(number, Relaxed);
        self.used.store(1, Release);
    }

    /// Whose it is.
    pub fn os_tid(&self) -> u32 {
        self.os_tid.load(Relaxed)
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    /// Objects for which there was no room.
    pub fn no_room(&self) -> u64 {
        self.no_room.load(Relaxed)
    }

    /// The rows that there are.
    pub fn rows(&self) -> &[Row] {
        self.rows.get(1..self.used.load(Acquire) as usize).unwrap_or_default()
    }

    /// About how many bytes it uses.
    pub fn memory(&self) -> usize {
        let used = self.used.load(Relaxed) as usize;
        used * size_of::<Row>() + (used * 4096).min(size_of_val(&self.index)) + 4096
    }

    /// Counts an object. Only on the table's own thread.
    #[inline]
    pub fn count(&self, class: u64, object: &impl Measured) {
        let mut place = place_of(class);
        // There are always free places, so it ends.
        while let Some(number) = self.index.get(place) {
            let number = number.load(Relaxed);
            if number == 0 {
                break;
            }
            if let Some(row) = self.rows.get(usize::from(number))
                && row.class.load(Relaxed) == class
            {
                row.add(object);
                return;
            }
            place = (place + 1) % PLACES;
        }
        self.count_first(place, class, object);
    }

    /// Counts an object of a class that has no row yet, and whose number belongs to this place of
    /// the index.
    #[cold]
    #[inline(never)]
    fn count_first(&self, place: usize, class: u64, object: &impl Measured) {
        let used = self.used.load(Relaxed);
        let (Some(row), Some(place)) = (self.rows.get(used as usize), self.index.get(place)) else {
            self.no_room.store(self.no_room.load(Relaxed).wrapping_add(1), Relaxed);
            return;
        };
        row.class.store(class, Relaxed);
        row.add(object);
        place.store(used as u16, Relaxed);
        // Whoever sees the row sees what is in it.
        self.used.store(used + 1, Release);
    }
}

/// Where in the index a class is looked for first. Ids are addresses of structures, of which the
/// lowest bits are alike; the multiplier is the golden ratio.
#[inline]
fn place_of(class: u64) -> usize {
    (class.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 49) as usize % PLACES
}

const _: () = assert!(MOST_ROWS <= 1 << 16 && PLACES == 1 << 15);

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Thing<'a> {
        elements: Option<u32>,
        by_table: u64,
        asked: u64,
        questions: &'a Cell<u32>,
    }

    impl Measured for Thing<'_> {
        fn elements(&self) -> Option<u32> {
            self.elements
        }

        fn size_by_table(&self) -> u64 {
            self.by_table
        }

        fn size_asked(&self) -> u64 {
            self.questions.set(self.questions.get() + 1);
            self.asked
        }
    }

    fn table() -> Zeroed<Table> {
        let table = Table::reserve().unwrap();
        table.init(1, 1);
        table
    }

    #[test]
    fn objects_are_counted_by_class_and_the_runtime_is_asked_once() {
        let (table, questions) = (table(), Cell::new(0));
        let plain =
            |size| Thing { elements: None, by_table: size, asked: size, questions: &questions };
        let array = |length: u32| {
            let size = 22 + 2 * u64::from(length);
            Thing { elements: Some(length), by_table: size, asked: size, questions: &questions }
        };
        for length in [0, 0, 5, 6, 7] {
            table.count(0x1000, &plain(24));
            table.count(0x2000, &array(length));
        }
        let rows: Vec<_> = table.rows().iter().map(|row| (row.class(), row.counts())).collect();
        // 22 bytes take 24, 32 take 32, 34 and 36 take 40.
        assert_eq!(rows, [(Some(0x1000), (5, 120)), (Some(0x2000), (5, 24 + 24 + 32 + 40 + 40))]);
        // Once for the one, and for the other until there is something in it.
        assert_eq!(questions.get(), 1 + 3);
    }

    #[test]
    fn a_method_table_that_disagrees_is_not_believed() {
        let (table, questions) = (table(), Cell::new(0));
        for _ in 0..3 {
            table.count(
                0x1000,
                &Thing { elements: None, by_table: 1 << 40, asked: 32, questions: &questions },
            );
        }
        assert_eq!((table.rows()[0].counts(), questions.get()), ((3, 96), 3));
    }

    #[test]
    fn a_class_whose_id_comes_again_has_a_row_of_its_own() {
        let (table, questions) = (table(), Cell::new(0));
        let thing = Thing { elements: None, by_table: 24, asked: 24, questions: &questions };
        table.count(0x1000, &thing);
        table.rows()[0].set_number(7);
        table.rows()[0].retire();
        table.count(0x1000, &thing);
        table.count(0x1000, &thing);
        let rows: Vec<_> =
            table.rows().iter().map(|row| (row.class(), row.number(), row.counts().0)).collect();
        assert_eq!(rows, [(None, Some(7), 1), (Some(0x1000), None, 2)]);
    }

    #[test]
    fn the_bound_holds_and_what_is_beyond_is_counted() {
        let (table, questions) = (table(), Cell::new(0));
        let thing = Thing { elements: None, by_table: 24, asked: 24, questions: &questions };
        for class in 1..=MOST_ROWS as u64 + 9 {
            table.count(class * 8, &thing);
        }
        assert_eq!((table.rows().len(), table.no_room()), (MOST_ROWS - 1, 10));
        table.count(8, &thing);
        assert_eq!((table.rows()[0].counts().0, table.no_room()), (2, 10));
    }
}
