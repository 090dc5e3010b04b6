//! The tables of ready-to-run images: compact arrays and hash tables.
//!
//! Source: `nativeformatreader.h` of dotnet/runtime, and `docs/design/coreclr/botr/
//! readytorun-format.md`.

/// A section of an image. Offsets count from its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct NativeReader<'a>(pub &'a [u8]);

/// Elements in a block of an array.
const BLOCK: u32 = 16;

impl<'a> NativeReader<'a> {
    fn bytes<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..)?.first_chunk().copied()
    }

    /// A number of one to five bytes, and where the next one begins.
    pub fn unsigned(self, at: usize) -> Option<(u32, usize)> {
        let first = *self.0.get(at)?;
        Some(match first.trailing_ones() {
            0 => (u32::from(first) >> 1, at + 1),
            1 => (u32::from(u16::from_le_bytes(self.bytes(at)?)) >> 2, at + 2),
            2 => {
                let [a, b, c] = self.bytes(at)?;
                (u32::from_le_bytes([a, b, c, 0]) >> 3, at + 3)
            }
            3 => (u32::from_le_bytes(self.bytes(at)?) >> 4, at + 4),
            4 => (u32::from_le_bytes(self.bytes(at + 1)?), at + 5),
            _ => return None,
        })
    }

    /// The same with a sign.
    fn signed(self, at: usize) -> Option<(i32, usize)> {
        let (value, next) = self.unsigned(at)?;
        let bits = match next - at {
            1 => 7,
            2 => 14,
            3 => 21,
            4 => 28,
            _ => 32,
        };
        Some(((value as i32) << (32 - bits) >> (32 - bits), next))
    }

    /// An index in a table of one, two or four bytes each.
    fn index(self, size: u32, base: usize, number: u32) -> Option<usize> {
        let at = base.checked_add((number as usize).checked_mul(1 << size)?)?;
        Some(match size {
            0 => usize::from(*self.0.get(at)?),
            1 => usize::from(u16::from_le_bytes(self.bytes(at)?)),
            _ => u32::from_le_bytes(self.bytes(at)?) as usize,
        })
    }

    /// Where each element of an array is that begins at the start of the section.
    pub fn array(self) -> Option<impl Iterator<Item = (u32, usize)> + 'a> {
        let (head, base) = self.unsigned(0)?;
        let (count, size) = (head >> 2, head & 3);
        let element = move |index: u32| Some((index, self.element(base, size, index)?));
        // More than there are rows in a table of metadata are none.
        Some((0..count.min(1 << 24)).filter_map(element))
    }

    /// Where an element of such an array is.
    pub fn get(self, index: u32) -> Option<usize> {
        let (head, base) = self.unsigned(0)?;
        self.element(base, head & 3, index).filter(|_| index < head >> 2)
    }

    /// `NativeArray::TryGetAt`: each block is a binary tree over the bits of the index.
    fn element(self, base: usize, size: u32, index: u32) -> Option<usize> {
        let mut at = base + self.index(size, base, index / BLOCK)?;
        let mut bit = BLOCK >> 1;
        while bit > 0 {
            let (value, next) = self.unsigned(at)?;
            if index & bit != 0 && value & 2 != 0 {
                at += (value >> 2) as usize;
            } else if index & bit == 0 && value & 1 != 0 {
                at = next;
            } else if value & 3 == 0 && value >> 2 == index & (BLOCK - 1) {
                // The only element below this node.
                return Some(next);
            } else {
                return None;
            }
            bit >>= 1;
        }
        Some(at)
    }

    /// Where each entry of a hash table is that begins at the start of the section; `None` for one
    /// that cannot be read.
    pub fn hash_table(self) -> Option<impl Iterator<Item = Option<usize>> + 'a> {
        let head = *self.0.first()?;
        let (shift, size) = (u32::from(head >> 2), u32::from(head & 3));
        if shift > 24 {
            return None;
        }
        let entries = move |bucket: u32| {
            let from = self.index(size, 1, bucket).map(|from| 1 + from);
            let to = self.index(size, 1, bucket + 1).map(|to| 1 + to);
            let mut next = from.zip(to).map(|(from, _)| from);
            let end = to.unwrap_or_default();
            std::iter::from_fn(move || {
                // A byte of the hash, then a distance.
                let at = next.take_if(|at| *at < end)? + 1;
                let entry = self.signed(at);
                next = entry.map(|(_, behind)| behind);
                Some(entry.and_then(|(distance, _)| at.checked_add_signed(distance as isize)))
            })
        };
        Some((0..1u32 << shift).flat_map(entries))
    }
}

/// The row of the method whose code an entry of the instances is, and where its signature ends:
/// `(row, behind)`. The row is `None` for a method of another module.
///
/// Source: `SigMatchesMethodDesc` of `readytoruninfo.cpp`, `READYTORUN_METHOD_SIG`.
pub(super) fn instance_method(reader: NativeReader<'_>, at: usize) -> Option<(Option<u32>, usize)> {
    const INSTANTIATION: u32 = 0x04;
    const SLOT: u32 = 0x08;
    const MEMBER_REF: u32 = 0x10;
    const CONSTRAINED: u32 = 0x20;
    const OWNER: u32 = 0x40;
    const CONTEXT: u32 = 0x80;
    let (flags, mut at) = compressed(reader, at)?;
    if flags & CONTEXT != 0 {
        at = compressed(reader, at)?.1;
    }
    if flags & OWNER != 0 {
        at = skip_type(reader, at, 0)?;
    }
    let (row, mut at) = compressed(reader, at)?;
    if flags & INSTANTIATION != 0 {
        let (count, next) = compressed(reader, at)?;
        at = next;
        for _ in 0..count {
            at = skip_type(reader, at, 0)?;
        }
    }
    if flags & CONSTRAINED != 0 {
        at = skip_type(reader, at, 0)?;
    }
    let own = flags & (CONTEXT | SLOT | MEMBER_REF) == 0;
    Some((own.then_some(row), at))
}

/// A compressed number of a signature (ECMA-335 II.23.2).
fn compressed(reader: NativeReader<'_>, at: usize) -> Option<(u32, usize)> {
    let first = *reader.0.get(at)?;
    Some(match first {
        0..0x80 => (u32::from(first), at + 1),
        0x80..0xc0 => {
            let [a, b] = reader.bytes(at)?;
            (u32::from_be_bytes([0, 0, a & 0x3f, b]), at + 2)
        }
        0xc0..0xe0 => {
            let [a, b, c, d] = reader.bytes(at)?;
            (u32::from_be_bytes([a & 0x1f, b, c, d]), at + 4)
        }
        _ => return None,
    })
}

/// Where a type of a signature ends (ECMA-335 II.23.2.12, and `CorElementTypeZapSig`).
fn skip_type(reader: NativeReader<'_>, at: usize, depth: u32) -> Option<usize> {
    const DEEPEST: u32 = 64;
    if depth > DEEPEST {
        return None;
    }
    let inner = |at| skip_type(reader, at, depth + 1);
    let kind = *reader.0.get(at)?;
    let at = at + 1;
    match kind {
        // Primitive types, `TypedReference`, `nint`, `nuint`, `object`, and `__Canon`.
        0x01..=0x0e | 0x16 | 0x18 | 0x19 | 0x1c | 0x3e => Some(at),
        // Pointer, reference, array of one dimension, pinned, and a native value type.
        0x0f | 0x10 | 0x1d | 0x45 | 0x3d => inner(at),
        // Value type, class, parameter of a type, parameter of a method.
        0x11 | 0x12 | 0x13 | 0x1e => Some(compressed(reader, at)?.1),
        // Array: type, rank, sizes, lower bounds.
        0x14 => {
            let mut at = compressed(reader, inner(at)?)?.1;
            for _ in 0..2 {
                let (count, next) = compressed(reader, at)?;
                at = next;
                for _ in 0..count {
                    at = compressed(reader, at)?.1;
                }
            }
            Some(at)
        }
        // Instantiation: type, and its arguments.
        0x15 => {
            let (count, mut at) = compressed(reader, inner(at)?)?;
            for _ in 0..count {
                at = inner(at)?;
            }
            Some(at)
        }
        // Custom modifiers, and a type of another module.
        0x1f | 0x20 | 0x3f => inner(compressed(reader, at)?.1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_lengths() {
        let of = |bytes: &[u8]| NativeReader(bytes).unsigned(0);
        assert_eq!(of(&[0x0a]), Some((5, 1)));
        assert_eq!(of(&[0x01 | 0x04, 0x01]), Some((0x41, 2)));
        assert_eq!(of(&[0x03 | 0x08, 0, 1]), Some((0x2001, 3)));
        assert_eq!(of(&[0x07, 0, 0, 1]), Some((1 << 20, 4)));
        assert_eq!(of(&[0x0f, 1, 2, 3, 4]), Some((0x0403_0201, 5)));
        assert_eq!((of(&[0x1f, 0, 0, 0, 0, 0]), of(&[0x01]), of(&[])), (None, None, None));
        assert_eq!(NativeReader(&[0xfe]).signed(0), Some((-1, 1)));
        assert_eq!(NativeReader(&[0x0a]).signed(0), Some((5, 1)));
    }

    #[test]
    fn an_array_with_two_elements_and_gaps() {
        // Eight elements, indices of one byte; a block that has 1 and 5 of 16.
        // Bit 8: left only. Bit 4: both; the right one is 3 bytes further. Each is a single leaf.
        let bytes =
            [8 << 3, 1, 1 << 1, (3 << 2 | 3) << 1, (1 << 2) << 1, 0xaa, (5 << 2) << 1, 0xbb];
        let reader = NativeReader(&bytes);
        let found: Vec<(u32, usize)> = reader.array().unwrap().collect();
        assert_eq!(found, [(1, 5), (5, 7)]);
        assert!(NativeReader(&[]).array().is_none());
    }

    #[test]
    fn a_hash_table_with_one_bucket() {
        // One bucket from 2 to 6 behind the head; two entries, one of which cannot be read.
        let bytes = [0, 2, 6, 0x11, 8 << 1, 0x22, 0x1f];
        let reader = NativeReader(&bytes);
        let found: Vec<Option<usize>> = reader.hash_table().unwrap().collect();
        assert_eq!(found, [Some(4 + 8), None]);
        assert!(NativeReader(&[]).hash_table().is_none());
    }

    #[test]
    fn signatures_of_instances() {
        let of = |bytes: &[u8]| instance_method(NativeReader(bytes), 0);
        // Owner `List<__Canon>`, method 7.
        assert_eq!(of(&[0x40, 0x15, 0x12, 0x08, 1, 0x3e, 7, 0xff]), Some((Some(7), 7)));
        // Of another module.
        assert_eq!(of(&[0x80, 0xc0, 2, 0x11, 0x08, 7]), Some((None, 6)));
        // With two arguments: `int`, `string[]`.
        assert_eq!(of(&[0x04, 9, 2, 0x08, 0x1d, 0x0e]), Some((Some(9), 6)));
        assert_eq!((of(&[0x40, 0x55]), of(&[]), of(&[0x40])), (None, None, None));
    }
}
