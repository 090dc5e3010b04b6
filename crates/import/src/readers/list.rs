//! Lists in JSON that take a bounded amount of memory.

use serde::{Deserialize, Deserializer, de};
use std::{cell::Cell, fmt, marker::PhantomData, ops::Deref};

thread_local! {
    /// Bytes that lists of the file that is being read may still take.
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// A file begins: how many bytes its lists may take.
pub fn begin(bytes: usize) {
    LEFT.set(bytes);
}

/// A list whose memory counts against what [`begin`] allows: two bytes of JSON can be 24 in memory.
#[derive(Debug, Clone)]
pub struct List<T>(Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Elements<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_unit<E>(self) -> Result<List<T>, E> {
                Ok(List::default())
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<List<T>, A::Error> {
                let mut elements = Vec::new();
                let mut counted = 0;
                while let Some(element) = list.next_element()? {
                    elements.push(element);
                    // A vector grows by doubling.
                    if elements.capacity() > counted {
                        let more = (elements.capacity() - counted).saturating_mul(size_of::<T>());
                        let left = LEFT.get().checked_sub(more);
                        LEFT.set(left.ok_or_else(|| <A::Error as de::Error>::custom(TOO_MUCH))?);
                        counted = elements.capacity();
                    }
                }
                elements.shrink_to_fit();
                let back = (counted - elements.capacity()).saturating_mul(size_of::<T>());
                LEFT.set(LEFT.get().saturating_add(back));
                Ok(List(elements))
            }
        }

        deserializer.deserialize_any(Elements(PhantomData))
    }
}

/// What the error of a list says when there is no memory left for it.
pub const TOO_MUCH: &str = "its lists take more memory than clrscope gives them";
