//! Tables that profilers declare: rows of typed cells, kept in columns.
//!
//! The same table goes from the agent to clrscope and into the session. A session defines each
//! table before its first rows ([`TableDef`]), so that a reader that does not know the profiler can
//! still show them. Who knows it declares the table with [`rows!`] and gets typed rows
//! ([`Row::read`]).
//!
//! Ids of threads, functions, stacks and types are numbers. From the agent they are those that the
//! agent gave ([`ThreadId`] is the thread id of the operating system); in a session, those of its
//! definitions. In a row of the runtime's events a thread is that of the operating system, too, and
//! what has no id yet is undefined ([`StackId::UNDEFINED`]).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod check;
mod field;
mod row;
mod select;

pub use check::{Defined, RowsError};
pub use field::{
    Bytes, Count, Duration, Field, Flag, Function, Narrow, Number, Real, Small, Stack, Text,
    Thread, Time, Type, Word, Words,
};
pub use row::{Row, TableMismatch};

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use std::cell::Cell;

/// A moment or a duration in nanoseconds. Moments are on `CLOCK_MONOTONIC` of the machine of the
/// target: the one clock of a recording, inside and outside.
pub type Nanos = u64;

/// Number of a table: in the list of all tables on the wire, by definition in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TableId(pub u32);

/// Declares ids that a cell can hold.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub u32);

        impl $name {
            /// Stands where something has no id yet. No session defines it, so one with a row in
            /// which it was left is refused.
            pub const UNDEFINED: Self = Self(u32::MAX);

            /// As an index into the table that the definitions of a session make in order.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A thread of the target.
    ThreadId;
    /// A function or method.
    FunctionId;
    /// A stack: a node of the tree of all stacks.
    StackId;
    /// A managed type.
    TypeId;
}

/// Most tables of a session.
pub const MAX_TABLES: u32 = 1024;
/// Most columns of a table.
pub const MAX_COLUMNS: usize = 64;
/// Most rows of a batch.
pub const MAX_ROWS: usize = 16 * 1024;
/// Most bytes of the name of a profiler, table, column or word.
pub const MAX_NAME: usize = 64;
/// Most words of a [`Kind::Word`].
pub const MAX_WORDS: usize = 256;

/// What the cells of a column hold, and so how they are checked and shown. Files hold the number of
/// the variant, so new ones come last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A moment, nanoseconds on the clock of the recording.
    Time,
    /// Nanoseconds.
    Duration,
    /// How many.
    Count,
    /// Bytes.
    Bytes,
    /// A whole number that is none of these, such as an address.
    Number,
    /// A number with a fraction.
    Real,
    /// Yes or no.
    Flag,
    /// Text.
    Text,
    /// A thread.
    Thread,
    /// A function.
    Function,
    /// A stack.
    Stack,
    /// A type.
    Type,
    /// One of these words.
    Word(Vec<String>),
    /// A cell of this kind, or nothing.
    Optional(#[serde(deserialize_with = "nested")] Box<Kind>),
    /// Any number of cells of this kind.
    List(#[serde(deserialize_with = "nested")] Box<Kind>),
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnDef {
    /// Its name: lower-case letters, digits and underscores.
    pub name: String,
    /// What its cells hold.
    pub kind: Kind,
    /// What it means, in a sentence.
    pub summary: String,
}

/// A table of a profiler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDef {
    /// Its id.
    pub id: TableId,
    /// Id of the profiler.
    pub profiler: String,
    /// Its name, which no other table of the profiler has: lower-case letters, digits and
    /// underscores.
    pub name: String,
    /// What a row is, in a sentence.
    pub summary: String,
    /// Its columns, at least one.
    pub columns: Vec<ColumnDef>,
}

/// Rows of a table, in columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowBatch {
    /// The table.
    pub table: TableId,
    /// How many rows.
    pub rows: u32,
    /// The cells of each column of the table, in its order.
    pub columns: Vec<Values>,
}

/// The cells of a column. Each [`Kind`] has one form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Values {
    /// [`Kind::Time`]. A file has the difference to the row before.
    Times(#[serde(with = "differences")] Vec<Nanos>),
    /// Whole numbers, ids, flags (0 and 1), and the numbers of words.
    Whole(Vec<u64>),
    /// [`Kind::Real`].
    Real(Vec<f64>),
    /// [`Kind::Text`].
    Text(Vec<String>),
    /// [`Kind::Optional`].
    Optional {
        /// Whether each row has a cell.
        present: Vec<bool>,
        /// The cells of the rows that have one.
        #[serde(deserialize_with = "nested")]
        values: Box<Values>,
    },
    /// [`Kind::List`].
    List {
        /// How many cells each row has.
        lengths: Vec<u32>,
        /// The cells of all rows.
        #[serde(deserialize_with = "nested")]
        values: Box<Values>,
    },
}

thread_local! {
    /// How deep what is being read is nested.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Reads what is nested in a kind or in cells, if it is not nested too deep: a file may say
/// anything, and each level takes some of the stack.
fn nested<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Box<T>, D::Error> {
    let depth = DEPTH.get();
    if depth >= check::MAX_DEPTH {
        return Err(D::Error::custom("it is nested too deep"));
    }
    DEPTH.set(depth + 1);
    let read = T::deserialize(deserializer);
    DEPTH.set(depth);
    read.map(Box::new)
}

/// Times as differences to the one before, so that most take two or three bytes.
mod differences {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(times: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
        let mut before = 0_u64;
        let differences = times.iter().map(|time| {
            let difference = time.wrapping_sub(before) as i64;
            before = *time;
            difference
        });
        differences.collect::<Vec<i64>>().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
        let mut time = 0_u64;
        let differences = Vec::<i64>::deserialize(deserializer)?;
        let times = differences.into_iter().map(|difference| {
            time = time.wrapping_add(difference as u64);
            time
        });
        Ok(times.collect())
    }
}

impl Values {
    /// No cells of this kind.
    pub fn none(kind: &Kind) -> Self {
        match kind {
            Kind::Time => Values::Times(Vec::new()),
            Kind::Real => Values::Real(Vec::new()),
            Kind::Text => Values::Text(Vec::new()),
            Kind::Optional(kind) => {
                Values::Optional { present: Vec::new(), values: Box::new(Values::none(kind)) }
            }
            Kind::List(kind) => {
                Values::List { lengths: Vec::new(), values: Box::new(Values::none(kind)) }
            }
            _ => Values::Whole(Vec::new()),
        }
    }

    /// How many cells.
    pub fn len(&self) -> usize {
        match self {
            Values::Times(values) | Values::Whole(values) => values.len(),
            Values::Real(values) => values.len(),
            Values::Text(values) => values.len(),
            Values::Optional { present, .. } => present.len(),
            Values::List { lengths, .. } => lengths.len(),
        }
    }

    /// Whether there are no cells.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A cell of a table whose profiler is not known.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyCell<'v> {
    /// A time, a number, an id, a flag or the number of a word.
    Whole(u64),
    /// A number with a fraction.
    Real(f64),
    /// Text.
    Text(&'v str),
    /// No cell.
    Nothing,
    /// Cells.
    List(Vec<AnyCell<'v>>),
}

/// Hands out the cells of a column, one after another.
#[derive(Debug)]
pub struct Cells<'v> {
    values: &'v Values,
    at: usize,
    inner: Option<Box<Cells<'v>>>,
}

impl<'v> Cells<'v> {
    /// From the first one on.
    pub fn of(values: &'v Values) -> Self {
        let inner = match values {
            Values::Optional { values, .. } | Values::List { values, .. } => {
                Some(Box::new(Cells::of(values)))
            }
            _ => None,
        };
        Self { values, at: 0, inner }
    }

    /// The next cell; `None` where there is none, which a checked batch does not have.
    pub fn any(&mut self) -> Option<AnyCell<'v>> {
        let at = self.at;
        self.at += 1;
        Some(match self.values {
            Values::Times(values) | Values::Whole(values) => AnyCell::Whole(*values.get(at)?),
            Values::Real(values) => AnyCell::Real(*values.get(at)?),
            Values::Text(values) => AnyCell::Text(values.get(at)?),
            Values::Optional { present, .. } => match present.get(at)? {
                true => self.inner.as_mut()?.any()?,
                false => AnyCell::Nothing,
            },
            Values::List { lengths, .. } => {
                let length = *lengths.get(at)?;
                let inner = self.inner.as_mut()?;
                AnyCell::List((0..length).map(|_| inner.any()).collect::<Option<_>>()?)
            }
        })
    }

    fn whole(&mut self) -> Option<u64> {
        match self.any()? {
            AnyCell::Whole(value) => Some(value),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Colour {
        Red,
        Green,
    }

    impl Words for Colour {
        const WORDS: &'static [(Self, &'static str)] =
            &[(Colour::Red, "red"), (Colour::Green, "green")];
    }

    rows! {
        /// All kinds
        /// of cells.
        struct All in "test-profiler", "all" {
            /// When.
            time: Time,
            length: Duration,
            count: Count,
            bytes: Bytes,
            number: Number,
            real: Real,
            flag: Flag,
            text: Text,
            thread: Thread,
            function: Function,
            stack: Stack,
            ty: Type,
            colour: Word<Colour>,
            maybe: Option<Text>,
            several: Vec<Type>,
            nested: Vec<Option<Count>>,
            three: [Bytes; 3],
            small: Narrow<Count, u8>,
        }

        /// What an earlier version may have made of it.
        struct Shorter in "test-profiler", "all" {
            three: [Bytes; 2],
        }

        struct Longer in "test-profiler", "all" {
            three: [Bytes; 4],
        }

        /// What a later version may have made of it.
        struct Fewer in "test-profiler", "all" {
            colour: Word<Colour>,
            time: Time,
        }

        struct Other in "test-profiler", "all" {
            time: Count,
        }

        struct More in "test-profiler", "all" {
            late: Count,
        }
    }

    const DEFINED: Defined = Defined { threads: 5, functions: 6, stacks: 7, types: 8 };

    fn row() -> impl Strategy<Value = All> {
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
        let ids = (0..5_u32, 0..6_u32, 0..7_u32, 0..8_u32);
        let others = (-1e9..1e9_f64, any::<bool>(), ".{0,9}", any::<bool>());
        let nested = (
            proptest::option::of(".{0,9}"),
            proptest::collection::vec(0..8_u32, 0..4),
            proptest::collection::vec(proptest::option::of(any::<u64>()), 0..4),
            any::<[u64; 3]>(),
        );
        (numbers, ids, others, nested).prop_map(|(numbers, ids, others, nested)| All {
            time: numbers.0,
            length: numbers.1,
            count: numbers.2,
            bytes: numbers.3,
            number: numbers.4,
            real: others.0,
            flag: others.1,
            text: others.2,
            thread: ThreadId(ids.0),
            function: FunctionId(ids.1),
            stack: StackId(ids.2),
            ty: TypeId(ids.3),
            colour: if others.3 { Colour::Red } else { Colour::Green },
            maybe: nested.0,
            several: nested.1.into_iter().map(TypeId).collect(),
            nested: nested.2,
            three: nested.3,
            small: nested.3[0] as u8,
        })
    }

    fn kinds(def: &TableDef) -> impl ExactSizeIterator<Item = &Kind> {
        def.columns.iter().map(|column| &column.kind)
    }

    proptest! {
        #[test]
        fn rows_come_back_as_they_were(rows in proptest::collection::vec(row(), 0..20)) {
            let def = All::table(TableId(3));
            def.check().unwrap();
            let batch = All::batch(def.id, &rows);
            batch.check(kinds(&def), &DEFINED).unwrap();
            let bytes = postcard::to_stdvec(&batch).unwrap();
            let none = postcard::to_stdvec(&All::batch(def.id, &[])).unwrap().len();
            let most = none + 4 * def.columns.len() + rows.iter().map(Row::bytes).sum::<usize>();
            prop_assert!(bytes.len() <= most, "{} of {most}", bytes.len());
            let batch: RowBatch = postcard::from_bytes(&bytes).unwrap();
            prop_assert_eq!(&All::read(&def, &batch).unwrap(), &rows);
            let fewer = Fewer::read(&def, &batch).unwrap();
            let same = fewer.iter().zip(&rows).all(|(fewer, row)| {
                fewer.time == row.time && fewer.colour == row.colour
            });
            prop_assert!(same && fewer.len() == rows.len());
            let shorter = Shorter::read(&def, &batch).unwrap();
            let longer = Longer::read(&def, &batch).unwrap();
            for ((two, four), row) in shorter.iter().zip(&longer).zip(&rows) {
                prop_assert_eq!(&two.three[..], &row.three[..2]);
                prop_assert_eq!((&four.three[..3], four.three[3]), (&row.three[..], 0));
            }
        }

        #[test]
        fn any_bytes_are_rows_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let def = All::table(TableId(0));
            if let Ok(batch) = postcard::from_bytes::<RowBatch>(&bytes)
                && batch.check(kinds(&def), &DEFINED).is_ok()
            {
                prop_assert_eq!(All::read(&def, &batch).unwrap().len(), batch.rows as usize);
            }
        }
    }

    #[test]
    fn tables_describe_themselves() {
        let def = All::table(TableId(0));
        assert_eq!((&*def.name, &*def.summary), ("all", "All kinds of cells."));
        let time = ColumnDef { name: "time".into(), kind: Kind::Time, summary: "When.".into() };
        assert_eq!(def.columns[0], time);
        assert!(All::is(&def) && !All::is(&TableDef { name: "other".into(), ..def }));
    }

    #[test]
    fn columns_that_are_missing_or_of_another_kind_are_named() {
        let def = Fewer::table(TableId(0));
        let rows = [Fewer { colour: Colour::Red, time: 1 }];
        let batch = Fewer::batch(def.id, &rows);
        let error = Other::read(&def, &batch).unwrap_err().to_string();
        let text =
            "the column time of the table test-profiler.all holds something else than expected";
        assert_eq!(error, text);
        let error = More::read(&def, &batch).unwrap_err().to_string();
        assert_eq!(error, "the column late of the table test-profiler.all is missing");
    }

    #[test]
    fn what_breaks_the_rules_is_refused() {
        let good = Fewer::table(TableId(0));
        let with = |change: fn(&mut TableDef)| {
            let mut def = good.clone();
            change(&mut def);
            def.check().unwrap_err()
        };
        assert!(matches!(with(|def| def.name = "A b".into()), RowsError::Name { .. }));
        assert!(matches!(with(|def| def.profiler = "a".repeat(65)), RowsError::Name { .. }));
        assert!(matches!(with(|def| def.columns.clear()), RowsError::Columns { columns: 0, .. }));
        let same = with(|def| def.columns[1].name = "colour".into());
        assert!(matches!(same, RowsError::SameName { .. }));
        let deep = with(|def| {
            let list = |kind| Kind::List(Box::new(kind));
            def.columns[0].kind = list(list(list(list(Kind::Time))));
        });
        assert!(matches!(deep, RowsError::Kind { .. }));
        let words = with(|def| def.columns[0].kind = Kind::Word(Vec::new()));
        assert!(matches!(words, RowsError::Kind { .. }));

        let rows = [Fewer { colour: Colour::Green, time: 1 }];
        let good_batch = Fewer::batch(good.id, &rows);
        let with = |change: fn(&mut RowBatch)| {
            let mut batch = good_batch.clone();
            change(&mut batch);
            batch.check(kinds(&good), &DEFINED).unwrap_err()
        };
        assert_eq!(with(|batch| batch.rows = 2), RowsError::Form);
        assert_eq!(with(|batch| batch.rows = u32::MAX), RowsError::Form);
        assert_eq!(with(|batch| batch.columns.truncate(1)), RowsError::Form);
        assert_eq!(with(|batch| batch.columns.swap(0, 1)), RowsError::Form);
        let word = with(|batch| batch.columns[0] = Values::Whole(vec![2]));
        assert_eq!(word, RowsError::Value { value: 2, limit: 2 });
        let ids = [(Kind::Thread, "thread", 5), (Kind::Function, "function", 6)];
        for (kind, name, id) in
            ids.into_iter().chain([(Kind::Stack, "stack", 7), (Kind::Type, "type", 8)])
        {
            let batch =
                RowBatch { table: TableId(0), rows: 1, columns: vec![Values::Whole(vec![id])] };
            let refused = batch.check([&kind].into_iter(), &DEFINED);
            assert_eq!(refused, Err(RowsError::Undefined { kind: name, id }));
        }
        let lengths = Values::List {
            lengths: vec![u32::MAX, u32::MAX],
            values: Box::new(Values::Whole(vec![])),
        };
        let batch = RowBatch { table: TableId(0), rows: 2, columns: vec![lengths] };
        let list = Kind::List(Box::new(Kind::Count));
        assert_eq!(batch.check([&list].into_iter(), &DEFINED), Err(RowsError::Form));
    }

    #[test]
    fn an_id_that_was_left_undefined_is_refused() {
        let most = u32::MAX;
        let all = Defined { threads: most, functions: most, stacks: most, types: most };
        let undefined = StackId::UNDEFINED.0.into();
        let columns = vec![Values::Whole(vec![undefined])];
        let batch = RowBatch { table: TableId(0), rows: 1, columns };
        let refused = batch.check([&Kind::Stack].into_iter(), &all);
        assert_eq!(refused, Err(RowsError::Undefined { kind: "stack", id: undefined }));
    }

    #[test]
    fn a_number_that_does_not_fit_is_the_greatest_that_does() {
        assert_eq!(u8::saturating(255), 255);
        assert_eq!(u8::saturating(256), u8::MAX);
        assert_eq!(u32::saturating(u64::MAX), u32::MAX);
        let values = Values::Whole(vec![7, 300]);
        let mut cells = Cells::of(&values);
        let mut next = || Narrow::<Number, u8>::next(&mut cells);
        assert_eq!([next(), next(), next()], [Some(7), Some(255), None]);
    }

    #[test]
    fn times_take_little_room() {
        let times = Values::Times((0..1000).map(|at| 1_000_000_000_000 + at * 10_000).collect());
        assert!(postcard::to_stdvec(&times).unwrap().len() < 3_100);
    }
}
