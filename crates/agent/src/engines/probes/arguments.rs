//! Arguments of individual calls, on their way from the threads that make the calls to the thread
//! that reports them.
//!
//! The values that rewritten code shows are copied into a ring of its thread: numbers as they are,
//! the beginning of strings, and the class of other objects. The arguments of a call become
//! available together with [the call](crate::engines::probes::individual_calls), and are taken
//! together with it.

use crate::ring::Ring;

/// Words that wait to be read, of each thread: 256 KiB, which are 500 strings of the longest kind.
const MOST: usize = 32_768;
/// Most UTF-16 units of a string that are reported.
const MOST_TEXT: usize = 256;
/// Units of a string in a word.
const UNITS: usize = 4;

const NUMBER: u64 = 1;
const FLOAT: u64 = 2;
const TEXT: u64 = 3;
const NULL: u64 = 4;
const OBJECT: u64 = 5;
const ARRAY: u64 = 6;

/// Where strings have what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextLayout {
    /// Bytes from the object's address to its length, a `u32` in UTF-16 units.
    pub length: u32,
    /// The same to the first unit.
    pub units: u32,
}

/// An argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number, or what stands for one; without a sign as the same bits.
    Number(i64),
    /// A number with a fraction.
    Float(f64),
    /// The beginning of a string, and how many units it has.
    Text(Vec<u16>, u32),
    /// No object.
    Null,
    /// An object of this class.
    Object(usize),
    /// An array: its class, which is that of other arrays, too, before .NET 5, and its elements.
    Array(usize, u32),
}

/// Arguments of calls of one thread. All zeros are none.
#[repr(transparent)]
pub struct Values(Ring<MOST>);

impl Values {
    /// Begins to record the arguments of a call; `false` if there is no room for the longest
    /// argument. Only one thread at a time may call this and the following methods.
    pub fn begin(&self) -> bool {
        self.0.clear();
        // How many words there are is said in the end.
        self.0.has_room(2 + MOST_TEXT / UNITS) && self.0.put(&[0])
    }

    /// A number; `false` if there is no room.
    pub fn number(&self, index: u32, value: i64) -> bool {
        self.0.put(&[head(NUMBER, index, 0), value.cast_unsigned()])
    }

    /// A number with a fraction; likewise.
    pub fn float(&self, index: u32, value: f64) -> bool {
        self.0.put(&[head(FLOAT, index, 0), value.to_bits()])
    }

    /// A string; likewise.
    ///
    /// # Safety
    /// It is null, or a string that stays where it is as long as this takes, and the layout is that
    /// of strings.
    pub unsafe fn text(&self, index: u32, text: *const u8, layout: TextLayout) -> bool {
        if text.is_null() {
            return self.0.put(&[head(NULL, index, 0)]);
        }
        // SAFETY: the caller's word. A string has its length at that place.
        let length = unsafe { text.wrapping_add(layout.length as usize).cast::<u32>().read() };
        let units = text.wrapping_add(layout.units as usize).cast::<u16>();
        let told = (length as usize).min(MOST_TEXT);
        let mut words = [0; 1 + MOST_TEXT / UNITS];
        let (first, rest) = words.split_at_mut(1);
        first.fill(head(TEXT, index, length));
        for unit in 0..told {
            // SAFETY: the caller's word. A string has as many units as its length says.
            let bits = unsafe { units.wrapping_add(unit).read() };
            if let Some(word) = rest.get_mut(unit / UNITS) {
                *word |= u64::from(bits) << (unit % UNITS * 16);
            }
        }
        self.0.put(words.get(..1 + told.div_ceil(UNITS)).unwrap_or(&words))
    }

    /// An object; likewise.
    ///
    /// # Safety
    /// It is null, or an object that stays where it is as long as this takes.
    pub unsafe fn object(&self, index: u32, object: *const u8) -> bool {
        /// What kind of class it is, in the flags that a method table begins with, and the kind for
        /// arrays (`MethodTable::enum_flag_Category_Array`, src/coreclr/vm/methodtable.h; the same
        /// from .NET Core 3.1 to .NET 10).
        const KIND: u32 = 0x000c_0000;
        const ARRAYS: u32 = 0x0008_0000;
        if object.is_null() {
            return self.0.put(&[head(NULL, index, 0)]);
        }
        // SAFETY: the caller's word. An object begins with the address of its method table; no
        // collection runs, so there are no marks in the lower bits.
        let class = unsafe { object.cast::<usize>().read() };
        // SAFETY: method tables of objects that are alive are there.
        let flags = unsafe { (class as *const u32).read() };
        if flags & KIND != ARRAYS {
            return self.0.put(&[head(OBJECT, index, 0), class as u64]);
        }
        // SAFETY: the caller's word. An array has the number of its elements behind its method
        // table.
        let elements = unsafe { object.wrapping_add(size_of::<usize>()).cast::<u32>().read() };
        self.0.put(&[head(ARRAY, index, elements), class as u64])
    }

    /// Those were all of the call: it may be read.
    pub fn end(&self) {
        self.0.publish(Some);
    }

    /// Takes the arguments of the next call, each with its place among the parameters. To be called
    /// by one thread at a time.
    pub fn take(&self) -> Vec<(u16, Value)> {
        let word = |at| self.0.word(at);
        let end = word(0).min(self.0.waiting());
        let mut values = Vec::new();
        let mut at = 1;
        while at < end {
            let head = word(at);
            let (index, more) = ((head >> 8) as u16, (head >> 32) as u32);
            let next = word(at + 1);
            let (value, words) = match head & 0xff {
                NUMBER => (Value::Number(next.cast_signed()), 1),
                FLOAT => (Value::Float(f64::from_bits(next)), 1),
                TEXT => {
                    let told = (more as usize).min(MOST_TEXT);
                    let unit =
                        |unit| (word(at + 1 + (unit / UNITS) as u64) >> (unit % UNITS * 16)) as u16;
                    (Value::Text((0..told).map(unit).collect(), more), told.div_ceil(UNITS) as u64)
                }
                OBJECT => (Value::Object(next as usize), 1),
                ARRAY => (Value::Array(next as usize, more), 1),
                _ => (Value::Null, 0),
            };
            values.push((index, value));
            at += 1 + words;
        }
        self.0.skip(end);
        values
    }
}

/// The first word of an argument. A method has at most 65535 parameters.
const fn head(kind: u64, index: u32, more: u32) -> u64 {
    kind | (index as u64 & 0xffff) << 8 | (more as u64) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::map::Zeroed;

    const LAYOUT: TextLayout = TextLayout { length: 8, units: 12 };

    fn ring() -> Zeroed<Values> {
        // SAFETY: it is made of atomic numbers only.
        unsafe { Zeroed::<Values>::reserve() }.unwrap()
    }

    /// A string as it lies in memory.
    fn string(text: &str) -> Vec<u64> {
        let units: Vec<u16> = text.encode_utf16().collect();
        let mut bytes = vec![0_u8; 8];
        bytes.extend((units.len() as u32).to_ne_bytes());
        bytes.extend(units.iter().flat_map(|unit| unit.to_ne_bytes()));
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
    }

    fn text(values: &Values, index: u32, text: &str) -> bool {
        let string = string(text);
        // SAFETY: it looks like a string.
        unsafe { values.text(index, string.as_ptr().cast(), LAYOUT) }
    }

    #[test]
    fn what_goes_in_comes_out_and_long_texts_are_cut() {
        let values = ring();
        let long = "äx".repeat(1000);
        for _ in 0..200 {
            assert!(values.begin());
            assert!(
                values.number(0, -5)
                    && values.float(1, 0.25)
                    && text(&values, 2, "hé")
                    && text(&values, 3, "")
            );
            assert!(text(&values, 65_535, &long));
            // SAFETY: null is allowed.
            assert!(unsafe {
                values.text(4, std::ptr::null(), LAYOUT) && values.object(5, std::ptr::null())
            });
            let (class, of_arrays) = ([0_u32; 4], [0x8008_0008_u32, 0, 0, 0]);
            let object = [class.as_ptr() as usize, 0];
            let array = [of_arrays.as_ptr() as usize, 7];
            // SAFETY: they look like objects.
            assert!(unsafe {
                values.object(6, object.as_ptr().cast()) && values.object(7, array.as_ptr().cast())
            });
            values.end();
            let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
            let expected = [
                (0, Value::Number(-5)),
                (1, Value::Float(0.25)),
                (2, Value::Text(units("hé"), 2)),
                (3, Value::Text(vec![], 0)),
                (65_535, Value::Text(units(&long)[..MOST_TEXT].to_vec(), 2000)),
                (4, Value::Null),
                (5, Value::Null),
                (6, Value::Object(object[0])),
                (7, Value::Array(array[0], 7)),
            ];
            assert_eq!(values.take(), expected);
        }
    }

    #[test]
    fn calls_are_kept_apart_and_there_are_not_too_many() {
        let values = ring();
        // One that was begun and never ended leaves nothing.
        assert!(values.begin() && values.number(9, 9));
        let mut calls = 0;
        while values.begin() && values.number(0, calls) && values.number(1, 1) {
            values.end();
            calls += 1;
        }
        // As long as there is room for the longest argument.
        assert!((MOST as i64 / 5 - 14..MOST as i64 / 5).contains(&calls), "{calls}");
        for call in 0..calls {
            assert_eq!(values.take(), [(0, Value::Number(call)), (1, Value::Number(1))]);
        }
        assert_eq!(values.take(), []);
        // One that finds no room on its way has those that did.
        assert!(values.begin());
        while text(&values, 1, &"x".repeat(MOST_TEXT)) {}
        assert!(values.number(2, 5) || values.number(2, 5) == values.0.has_room(2));
        values.end();
        assert!(values.take().len() > 200);
        assert_eq!(values.take(), []);
    }
}
