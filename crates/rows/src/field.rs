//! Typed cells: what the fields of a row hold, and how they are put into columns.

use crate::{AnyCell, Cells, FunctionId, Kind, Nanos, StackId, ThreadId, TypeId, Values};

/// Most bytes of a number: one for every seven bits.
const MOST_NUMBER: usize = 10;

/// A kind of cells, as [`rows!`](crate::rows!) names it.
pub trait Field {
    /// What a cell is in a row.
    type Value;

    /// The kind.
    fn kind() -> Kind;

    /// Adds a cell to a column of this kind; another column stays as it is.
    fn push(value: &Self::Value, to: &mut Values);

    /// Most bytes that the cell takes in a session, before compression.
    fn bytes(_value: &Self::Value) -> usize {
        MOST_NUMBER
    }

    /// Takes the next cell; `None` where the column is of another kind, or has no more.
    fn next(from: &mut Cells<'_>) -> Option<Self::Value>;
}

/// Declares kinds whose cells are whole numbers.
macro_rules! whole {
    ($($(#[$doc:meta])* $kind:ident: $value:ty, $to:expr, $from:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $kind {}

        impl Field for $kind {
            type Value = $value;

            fn kind() -> Kind {
                Kind::$kind
            }

            fn push(value: &$value, to: &mut Values) {
                if let Values::Times(values) | Values::Whole(values) = to {
                    let to: fn($value) -> u64 = $to;
                    values.push(to(*value));
                }
            }

            fn next(from: &mut Cells<'_>) -> Option<$value> {
                let to: fn(u64) -> $value = $from;
                from.whole().map(to)
            }
        }
    )*};
}

whole! {
    /// [`Kind::Time`].
    Time: Nanos, |time| time, |time| time;
    /// [`Kind::Duration`].
    Duration: Nanos, |time| time, |time| time;
    /// [`Kind::Count`].
    Count: u64, |count| count, |count| count;
    /// [`Kind::Bytes`].
    Bytes: u64, |bytes| bytes, |bytes| bytes;
    /// [`Kind::Number`].
    Number: u64, |number| number, |number| number;
    /// [`Kind::Flag`].
    Flag: bool, u64::from, |flag| flag != 0;
    /// [`Kind::Thread`].
    Thread: ThreadId, |id| id.0.into(), |id| ThreadId(id as u32);
    /// [`Kind::Function`].
    Function: FunctionId, |id| id.0.into(), |id| FunctionId(id as u32);
    /// [`Kind::Stack`].
    Stack: StackId, |id| id.0.into(), |id| StackId(id as u32);
    /// [`Kind::Type`].
    Type: TypeId, |id| id.0.into(), |id| TypeId(id as u32);
}

/// Whole numbers of a kind that fit a smaller type here, such as `Narrow<Number, u8>`. The column
/// is of that kind; a greater number in it, which nobody writes, is read as the greatest that fits.
#[derive(Debug)]
pub struct Narrow<F, T>(std::marker::PhantomData<(F, T)>);

impl<F: Field<Value = u64>, T: Small> Field for Narrow<F, T> {
    type Value = T;

    fn kind() -> Kind {
        F::kind()
    }

    fn push(value: &T, to: &mut Values) {
        F::push(&(*value).into(), to);
    }

    fn next(from: &mut Cells<'_>) -> Option<T> {
        F::next(from).map(T::saturating)
    }
}

/// An integer type smaller than 64 bits, without a sign.
pub trait Small: Copy + Into<u64> {
    /// The number, or the greatest that fits.
    fn saturating(number: u64) -> Self;
}

/// Implements [`Small`].
macro_rules! small {
    ($($small:ty),*) => {$(
        impl Small for $small {
            fn saturating(number: u64) -> Self {
                Self::try_from(number).unwrap_or(Self::MAX)
            }
        }
    )*};
}

small!(u8, u16, u32);

/// [`Kind::Real`].
#[derive(Debug)]
pub enum Real {}

impl Field for Real {
    type Value = f64;

    fn kind() -> Kind {
        Kind::Real
    }

    fn push(value: &f64, to: &mut Values) {
        if let Values::Real(values) = to {
            values.push(*value);
        }
    }

    fn next(from: &mut Cells<'_>) -> Option<f64> {
        match from.any()? {
            AnyCell::Real(value) => Some(value),
            _ => None,
        }
    }
}

/// [`Kind::Text`].
#[derive(Debug)]
pub enum Text {}

impl Field for Text {
    type Value = String;

    fn kind() -> Kind {
        Kind::Text
    }

    fn push(value: &String, to: &mut Values) {
        if let Values::Text(values) = to {
            values.push(value.clone());
        }
    }

    fn bytes(value: &String) -> usize {
        MOST_NUMBER + value.len()
    }

    fn next(from: &mut Cells<'_>) -> Option<String> {
        match from.any()? {
            AnyCell::Text(value) => Some(value.to_owned()),
            _ => None,
        }
    }
}

/// An enumeration whose variants have words.
pub trait Words: Copy + PartialEq + 'static {
    /// Every variant with its word, at most [`MAX_WORDS`](crate::MAX_WORDS). Files hold the
    /// position, so new ones come last.
    const WORDS: &'static [(Self, &'static str)];

    /// The word of this variant.
    fn word(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(variant, _)| *variant == self);
        found.map_or("", |(_, word)| word)
    }
}

/// [`Kind::Word`].
#[derive(Debug)]
pub struct Word<W>(std::marker::PhantomData<W>);

impl<W: Words> Field for Word<W> {
    type Value = W;

    fn kind() -> Kind {
        Kind::Word(W::WORDS.iter().map(|(_, word)| (*word).to_owned()).collect())
    }

    fn push(value: &W, to: &mut Values) {
        if let Values::Whole(values) = to {
            let at = W::WORDS.iter().position(|(variant, _)| variant == value);
            values.push(at.unwrap_or_default() as u64);
        }
    }

    fn next(from: &mut Cells<'_>) -> Option<W> {
        let at = usize::try_from(from.whole()?).ok()?;
        W::WORDS.get(at).map(|(variant, _)| *variant)
    }
}

impl<F: Field> Field for Option<F> {
    type Value = Option<F::Value>;

    fn kind() -> Kind {
        Kind::Optional(Box::new(F::kind()))
    }

    fn push(value: &Option<F::Value>, to: &mut Values) {
        if let Values::Optional { present, values } = to {
            present.push(value.is_some());
            if let Some(value) = value {
                F::push(value, values);
            }
        }
    }

    fn bytes(value: &Option<F::Value>) -> usize {
        1 + value.as_ref().map_or(0, F::bytes)
    }

    fn next(from: &mut Cells<'_>) -> Option<Option<F::Value>> {
        let Values::Optional { present, .. } = from.values else { return None };
        let is_present = *present.get(from.at)?;
        from.at += 1;
        match is_present {
            true => F::next(from.inner.as_mut()?).map(Some),
            false => Some(None),
        }
    }
}

impl<F: Field> Field for Vec<F> {
    type Value = Vec<F::Value>;

    fn kind() -> Kind {
        Kind::List(Box::new(F::kind()))
    }

    fn push(list: &Vec<F::Value>, to: &mut Values) {
        if let Values::List { lengths, values } = to {
            lengths.push(u32::try_from(list.len()).unwrap_or(u32::MAX));
            list.iter().for_each(|value| F::push(value, values));
        }
    }

    fn bytes(list: &Vec<F::Value>) -> usize {
        MOST_NUMBER + list.iter().map(F::bytes).sum::<usize>()
    }

    fn next(from: &mut Cells<'_>) -> Option<Vec<F::Value>> {
        let Values::List { lengths, .. } = from.values else { return None };
        let length = *lengths.get(from.at)?;
        from.at += 1;
        let inner = from.inner.as_mut()?;
        (0..length).map(|_| F::next(inner)).collect()
    }
}

/// A [`Kind::List`] of a known length. Cells that are missing have their default, and further ones
/// are left out.
impl<F: Field<Value: Copy + Default>, const N: usize> Field for [F; N] {
    type Value = [F::Value; N];

    fn kind() -> Kind {
        Vec::<F>::kind()
    }

    fn push(list: &[F::Value; N], to: &mut Values) {
        if let Values::List { lengths, values } = to {
            lengths.push(u32::try_from(N).unwrap_or(u32::MAX));
            list.iter().for_each(|value| F::push(value, values));
        }
    }

    fn bytes(list: &[F::Value; N]) -> usize {
        MOST_NUMBER + list.iter().map(F::bytes).sum::<usize>()
    }

    fn next(from: &mut Cells<'_>) -> Option<[F::Value; N]> {
        let mut list = [F::Value::default(); N];
        let cells = Vec::<F>::next(from)?;
        list.iter_mut().zip(cells).for_each(|(to, cell)| *to = cell);
        Some(list)
    }
}
