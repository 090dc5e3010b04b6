//! Typed cells: what the fields of a row hold, and how they are put into columns.

use crate::{AnyCell, Cells, FunctionRef, Kind, Nanos, StackRef, ThreadRef, TypeRef, Values};

/// A kind of cells, as [`rows!`](crate::rows!) names it.
pub trait Field {
    /// What a cell is in a row.
    type Value;

    /// The kind.
    fn kind() -> Kind;

    /// Adds a cell to a column of this kind; another column stays as it is.
    fn push(value: &Self::Value, to: &mut Values);

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
    Thread: ThreadRef, |id| id.0.into(), |id| ThreadRef(id as u32);
    /// [`Kind::Function`].
    Function: FunctionRef, |id| id.0.into(), |id| FunctionRef(id as u32);
    /// [`Kind::Stack`].
    Stack: StackRef, |id| id.0.into(), |id| StackRef(id as u32);
    /// [`Kind::Type`].
    Type: TypeRef, |id| id.0.into(), |id| TypeRef(id as u32);
}

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

    fn next(from: &mut Cells<'_>) -> Option<Vec<F::Value>> {
        let Values::List { lengths, .. } = from.values else { return None };
        let length = *lengths.get(from.at)?;
        from.at += 1;
        let inner = from.inner.as_mut()?;
        (0..length).map(|_| F::next(inner)).collect()
    }
}
