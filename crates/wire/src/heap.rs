//! The bytes of a heap snapshot: what [`Encoder`] makes of objects inside the target, [`decode()`]
//! gives back outside.
//!
//! A snapshot is a stream of items, cut into chunks between two of them. Each chunk can be read
//! without those before it, except that its first [`HeapItem::Reference`]s may belong to the last
//! object of an earlier one.
//!
//! ```text
//! chunk     = item*
//! item      = varint head, then what the head says
//! reference = ……0   zigzag of the distance to the last object, in units of 8 bytes
//! object    = …01   then bits: size as in slot, class as in slot, at the end of the last object; above them the slot
//! other     = …11   then four bits of kind, and flags
//! ```
//!
//! A string that is the last object itself has no address. Classes are kept in [`SLOTS`] slots on
//! both sides, each with the size that its last object had, and with the words of it that held its
//! references. Varints are LEB128, as postcard's.

use std::hash::Hasher;

mod decode;

pub use decode::{Decoder, decode};

/// Bytes that any one item takes at most.
pub const MAX_ITEM: usize = 512;

/// Largest chunk. In a frame it must leave room for what stands around it.
pub const MAX_CHUNK: usize = crate::frame::MAX_FRAME / 2;

/// UTF-16 units of a string that are sent as text at most.
pub const MAX_TEXT: usize = 80;

/// Slots for classes.
const SLOTS: usize = 512;

/// Distances and addresses are multiples of this; others are sent whole.
const UNIT: u64 = 8;

/// One thing that a snapshot saw. Addresses are those at the time of the snapshot, classes the
/// runtime's `ClassID`s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapItem<'a> {
    /// An object that survived.
    Object {
        /// Where it is.
        address: u64,
        /// Its class.
        class: u64,
        /// Its size in bytes, header included, as the runtime tells it: not rounded up to the
        /// next 8.
        size: u64,
        /// Which of its words hold its [`Self::Reference`]s, in their order: bit 1 is the word
        /// behind the class. 0 where that is not known.
        fields: u64,
    },
    /// A reference in a field or an element of the last object. Null ones are left out.
    Reference {
        /// The object referred to.
        target: u64,
    },
    /// A reference from outside of the heap.
    Root {
        /// The object referred to.
        target: u64,
        /// Where the reference is.
        kind: RootKind,
        /// [`ROOT_PINNING`], [`ROOT_WEAK`], [`ROOT_INTERIOR`], [`ROOT_REF_COUNTED`].
        flags: u8,
        /// For a variable the `FunctionID` of its method, 0 if that is none; for a handle its
        /// address; otherwise without meaning.
        id: u64,
    },
    /// An entry of a `ConditionalWeakTable` (a dependent handle): while the key lives, so does the
    /// value.
    Dependent {
        /// The handle's address.
        handle: u64,
        /// The object that the entry depends on.
        key: u64,
        /// The object that it keeps alive.
        value: u64,
    },
    /// A stretch of the heap.
    Generation {
        /// 0, 1, 2; 3 for large objects, 4 for pinned ones, 5 for those that are never collected.
        generation: u8,
        /// First address.
        start: u64,
        /// Bytes in use.
        length: u64,
        /// Bytes reserved, including those in use.
        reserved: u64,
    },
    /// What a string says.
    StringContent {
        /// The string's address.
        address: u64,
        /// [`string_hash`] of its UTF-16 units.
        hash: u64,
        /// UTF-16 units.
        length: u32,
        /// Its beginning, up to [`MAX_TEXT`] units. Sent when a hash is met the second time, and
        /// perhaps again.
        text: Option<&'a str>,
    },
    /// Where the objects that follow were before the collection.
    Origin {
        /// 0 to 4 as in [`Self::Generation`]; [`NOT_COLLECTED`] for objects of generations that
        /// were not collected.
        generation: u8,
    },
    /// Survivors that are told as a sum instead of one by one.
    Sum {
        /// The generation that they were in before the collection.
        generation: u8,
        /// Their class.
        class: u64,
        /// How many.
        objects: u64,
        /// Their bytes, each size rounded up to the next 8.
        bytes: u64,
    },
    /// The value of a field. Sent for tasks, in snapshots of the profiler `async`.
    Field {
        /// The object.
        object: u64,
        /// Which field: [`FIELD_STATE`], [`FIELD_CONTINUATION`].
        field: u16,
        /// Its bits.
        value: u64,
    },
    /// An element of an array of references that a handle holds, in addition to its
    /// [`Self::Reference`]. The runtime keeps static fields in such arrays. Null ones are left out.
    Slot {
        /// Where the element is.
        address: u64,
        /// The object that it refers to.
        target: u64,
    },
}

/// [`HeapItem::Field`]: where an asynchronous method stands, as its compiler counts. The bits are
/// those of an `i32`. The object is the box around the state machine, or the state machine where
/// that is an object of its own.
pub const FIELD_STATE: u16 = 0;
/// [`HeapItem::Field`]: the continuation that runs when a task has completed
/// (`Task.m_continuationObject`): the address of an object, 0 for nothing.
pub const FIELD_CONTINUATION: u16 = 1;

/// [`HeapItem::Origin`] of objects that the collection did not touch.
pub const NOT_COLLECTED: u8 = 15;

/// Where a root is (`COR_PRF_GC_ROOT_KIND`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RootKind {
    /// Somewhere else in the runtime.
    Other,
    /// A variable of a method that runs.
    Stack,
    /// The queue of objects to be finalized.
    Finalizer,
    /// A handle: of `GCHandle`, or one of the runtime's own, by which statics are held.
    Handle,
}

/// The object must not move.
pub const ROOT_PINNING: u8 = 1;
/// The reference keeps nothing alive.
pub const ROOT_WEAK: u8 = 2;
/// The reference points into the object.
pub const ROOT_INTERIOR: u8 = 4;
/// Whether it keeps the object alive depends on a count.
pub const ROOT_REF_COUNTED: u8 = 8;

/// Why bytes are no chunk of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a chunk of a heap snapshot is damaged at byte {at}: {what}")]
pub struct HeapError {
    /// Where the item begins that cannot be read.
    pub at: usize,
    /// What is wrong.
    pub what: &'static str,
}

/// A hash of a string's UTF-16 units, given as their bytes. Equal texts have equal hashes on every
/// machine; it is none to rely on against those who choose texts on purpose.
pub fn string_hash(bytes: &[u8]) -> u64 {
    let mut hasher = Mix(bytes.len() as u64);
    hasher.write(bytes);
    hasher.finish()
}

/// Multiplies and folds eight bytes at a time: the runtime is suspended meanwhile.
struct Mix(u64);

impl Mix {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            self.mix(u64::from_le_bytes(last));
        }
    }

    fn finish(&self) -> u64 {
        let mut last = Mix(self.0);
        last.mix(0);
        last.0
    }
}

// Kinds of the items that are neither references nor objects.
const FAR_REFERENCE: u64 = 0;
const FAR_OBJECT: u64 = 1;
const ROOT: u64 = 2;
const DEPENDENT: u64 = 3;
const GENERATION: u64 = 4;
const STRING: u64 = 5;
const STRING_WITH_TEXT: u64 = 6;
const FIELD: u64 = 7;
const ORIGIN: u64 = 8;
const SUM: u64 = 9;
const SLOT: u64 = 10;
const FIELDS: u64 = 11;

/// Words of an object whose references can be told apart by [`HeapItem::Object`].
pub const MOST_WORDS: usize = 59;

/// What both sides know at a place in a chunk.
#[derive(Debug)]
struct State {
    slots: Box<[Slot; SLOTS]>,
    /// Address of the last object, and where it ends.
    object: u64,
    end: u64,
    /// Address of the last [`HeapItem::Slot`], or that of the last object if it has none yet.
    element: u64,
    /// [`HeapItem::Object`] of the next object, where it was said.
    fields: Option<u64>,
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slot {
    class: u64,
    size: u64,
    fields: u64,
}

impl State {
    fn new() -> Self {
        let slots = Box::new([Slot::default(); SLOTS]);
        Self { slots, object: 0, end: 0, element: 0, fields: None }
    }

    fn clear(&mut self) {
        self.slots.fill(Slot::default());
        self.object = 0;
        self.end = 0;
        self.element = 0;
        self.fields = None;
    }

    /// The next object, as it was read.
    fn object<'a>(&mut self, slot: usize, address: u64, class: u64, size: u64) -> HeapItem<'a> {
        let said = self.fields.take();
        let mut fields = said.unwrap_or_default();
        if let Some(entry) = self.slots.get_mut(slot) {
            if said.is_none() && entry.class == class {
                fields = entry.fields;
            }
            *entry = Slot { class, size, fields };
        }
        self.moved_to(address, size);
        HeapItem::Object { address, class, size, fields }
    }

    fn moved_to(&mut self, address: u64, size: u64) {
        self.object = address;
        self.element = address;
        self.end = address.wrapping_add(size).wrapping_add(UNIT - 1) & !(UNIT - 1);
    }
}

/// Slot of a class. Classes lie at addresses, whose low bits say little.
fn slot_of(class: u64) -> usize {
    (class.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS.ilog2())) as usize
}

/// A distance in units, and its sign in the lowest bit; `None` for what is not a multiple of the
/// unit.
fn distance(from: u64, to: u64) -> Option<u64> {
    let distance = to.wrapping_sub(from) as i64;
    (distance as u64).is_multiple_of(UNIT).then(|| {
        let units = distance >> UNIT.ilog2();
        ((units << 1) ^ (units >> 63)) as u64 & (u64::MAX >> 2)
    })
}

/// A difference of addresses, and its sign in the lowest bit.
fn difference(from: u64, to: u64) -> u64 {
    let difference = to.wrapping_sub(from) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// The address at a difference.
fn at_difference(from: u64, zigzag: u64) -> u64 {
    from.wrapping_add((zigzag >> 1) ^ 0u64.wrapping_sub(zigzag & 1))
}

/// The address at a distance.
fn at_distance(from: u64, zigzag: u64) -> u64 {
    let units = (zigzag >> 1) ^ 0u64.wrapping_sub(zigzag & 1);
    from.wrapping_add(units.wrapping_mul(UNIT))
}

/// Makes chunks. Nothing is allocated once it is made.
///
/// Before each item the caller sees with [`Self::has_room`] whether the chunk is full; if it is,
/// takes [`Self::bytes`] and begins the next with [`Self::clear`]. An item for which there is no
/// room is left out.
#[derive(Debug)]
pub struct Encoder {
    bytes: Vec<u8>,
    limit: usize,
    state: State,
}

impl Encoder {
    /// One whose chunks have `limit` bytes at most, and [`MAX_ITEM`] at least.
    pub fn new(limit: usize) -> Self {
        let limit = limit.max(MAX_ITEM);
        Self { bytes: Vec::with_capacity(limit), limit, state: State::new() }
    }

    /// Whether the next item fits, whatever it is.
    pub fn has_room(&self) -> bool {
        self.limit - self.bytes.len() >= MAX_ITEM
    }

    /// The chunk so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Begins the next chunk.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.state.clear();
    }

    /// Bytes that this holds.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + size_of::<[Slot; SLOTS]>()
    }

    /// Adds an object. Returns whether its class is known to be in this chunk already, with the
    /// same `fields`: if not, it may be new. Of `fields` the lowest bit and those from
    /// [`MOST_WORDS`] on are not set.
    pub fn object(&mut self, address: u64, class: u64, size: u64, fields: u64) -> bool {
        if !self.has_room() {
            return false;
        }
        let fields = fields & ((1 << MOST_WORDS) - 1) & !1;
        let slot = slot_of(class);
        let contiguous = address == self.state.end;
        let zigzag = distance(self.state.object, address);
        let Some(entry) = self.state.slots.get_mut(slot) else { return false };
        let (known, same) = (entry.class == class, entry.class == class && entry.size == size);
        let as_before = fields == if known { entry.fields } else { 0 };
        *entry = Slot { class, size, fields };
        if !as_before {
            self.head(FIELDS, fields >> 1);
        }
        match (contiguous, zigzag) {
            (false, None) => {
                self.head(FAR_OBJECT, 0);
                self.word(address);
                self.word(class);
                self.varint(size);
            }
            (contiguous, zigzag) => {
                let flags = u64::from(same) | u64::from(known) << 1 | u64::from(contiguous) << 2;
                self.varint(0b01 | flags << 2 | (slot as u64) << 5);
                if let (false, Some(zigzag)) = (contiguous, zigzag) {
                    self.varint(zigzag);
                }
                if !known {
                    self.word(class);
                }
                if !same {
                    self.varint(size);
                }
            }
        }
        self.state.moved_to(address, size);
        known && as_before
    }

    /// Adds a reference of the last object.
    pub fn reference(&mut self, target: u64) {
        if !self.has_room() {
            return;
        }
        match distance(self.state.object, target) {
            Some(zigzag) => self.varint(zigzag << 1),
            None => {
                self.head(FAR_REFERENCE, 0);
                self.word(target);
            }
        }
    }

    /// Adds a root.
    pub fn root(&mut self, target: u64, kind: RootKind, flags: u8, id: u64) {
        if !self.has_room() {
            return;
        }
        let kind = match kind {
            RootKind::Other => 0,
            RootKind::Stack => 1,
            RootKind::Finalizer => 2,
            RootKind::Handle => 3,
        };
        self.head(ROOT, kind | u64::from(flags) << 2);
        self.varint(target);
        self.varint(id);
    }

    /// Adds an entry of a `ConditionalWeakTable`.
    pub fn dependent(&mut self, handle: u64, key: u64, value: u64) {
        if !self.has_room() {
            return;
        }
        self.head(DEPENDENT, 0);
        self.varint(handle);
        self.varint(key);
        self.varint(value);
    }

    /// Adds a stretch of the heap.
    pub fn generation(&mut self, generation: u8, start: u64, length: u64, reserved: u64) {
        if !self.has_room() {
            return;
        }
        self.head(GENERATION, u64::from(generation));
        self.varint(start);
        self.varint(length);
        self.varint(reserved);
    }

    /// Adds an element of an array that a handle holds.
    pub fn slot(&mut self, address: u64, target: u64) {
        if !self.has_room() {
            return;
        }
        self.head(SLOT, 0);
        self.varint(difference(self.state.element, address));
        self.varint(difference(self.state.object, target));
        self.state.element = address;
    }

    /// Adds what a string says. Of `text`, UTF-16 units, the first [`MAX_TEXT`] are taken.
    pub fn string(&mut self, address: u64, hash: u64, length: u32, text: Option<&[u16]>) {
        if !self.has_room() {
            return;
        }
        let here = address == self.state.object;
        self.head(if text.is_some() { STRING_WITH_TEXT } else { STRING }, u64::from(here));
        if !here {
            self.varint(address);
        }
        self.word(hash);
        self.varint(u64::from(length));
        if let Some(text) = text {
            let units = text.iter().copied().take(MAX_TEXT);
            let characters = || {
                char::decode_utf16(units.clone())
                    .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
            };
            self.varint(characters().map(char::len_utf8).sum::<usize>() as u64);
            for character in characters() {
                self.bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }

    /// Adds the value of a field.
    pub fn field(&mut self, object: u64, field: u16, value: u64) {
        if !self.has_room() {
            return;
        }
        self.head(FIELD, u64::from(field));
        self.varint(object);
        self.varint(value);
    }

    /// Says where the objects that follow were.
    pub fn origin(&mut self, generation: u8) {
        if self.has_room() {
            self.head(ORIGIN, u64::from(generation));
        }
    }

    /// Adds survivors of a class.
    pub fn sum(&mut self, generation: u8, class: u64, objects: u64, bytes: u64) {
        if !self.has_room() {
            return;
        }
        self.head(SUM, u64::from(generation));
        self.word(class);
        self.varint(objects);
        self.varint(bytes);
    }

    fn head(&mut self, kind: u64, flags: u64) {
        self.varint(0b11 | kind << 2 | flags << 6);
    }

    fn word(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An item with what it owns.
    #[derive(Clone, Debug)]
    enum Given {
        Item(HeapItem<'static>),
        String(u64, u64, u32, Option<Vec<u16>>),
    }

    fn encode(items: &[Given], limit: usize) -> Vec<Vec<u8>> {
        let mut encoder = Encoder::new(limit);
        let mut chunks = Vec::new();
        for item in items {
            if !encoder.has_room() {
                chunks.push(encoder.bytes().to_vec());
                encoder.clear();
            }
            let before = encoder.bytes().len();
            match item {
                Given::Item(HeapItem::Object { address, class, size, fields }) => {
                    encoder.object(*address, *class, *size, *fields);
                }
                Given::Item(HeapItem::Reference { target }) => encoder.reference(*target),
                Given::Item(HeapItem::Root { target, kind, flags, id }) => {
                    encoder.root(*target, *kind, *flags, *id)
                }
                Given::Item(HeapItem::Dependent { handle, key, value }) => {
                    encoder.dependent(*handle, *key, *value)
                }
                Given::Item(HeapItem::Generation { generation, start, length, reserved }) => {
                    encoder.generation(*generation, *start, *length, *reserved);
                }
                Given::Item(HeapItem::StringContent { .. }) => unreachable!(),
                Given::Item(HeapItem::Origin { generation }) => encoder.origin(*generation),
                Given::Item(HeapItem::Sum { generation, class, objects, bytes }) => {
                    encoder.sum(*generation, *class, *objects, *bytes);
                }
                Given::Item(HeapItem::Field { object, field, value }) => {
                    encoder.field(*object, *field, *value)
                }
                Given::Item(HeapItem::Slot { address, target }) => encoder.slot(*address, *target),
                Given::String(address, hash, length, text) => {
                    encoder.string(*address, *hash, *length, text.as_deref())
                }
            }
            let taken = encoder.bytes().len() - before;
            assert!(taken > 0 && taken <= MAX_ITEM, "{taken} bytes for {item:?}");
        }
        chunks.push(encoder.bytes().to_vec());
        chunks
    }

    fn check(items: &[Given], limit: usize) {
        let chunks = encode(items, limit);
        assert!(chunks.iter().all(|chunk| chunk.len() <= limit.max(MAX_ITEM)));
        let texts: Vec<Option<String>> = items
            .iter()
            .map(|item| match item {
                Given::String(_, _, _, Some(text)) => {
                    Some(String::from_utf16_lossy(&text[..text.len().min(MAX_TEXT)]))
                }
                _ => None,
            })
            .collect();
        let expected: Vec<HeapItem<'_>> = items
            .iter()
            .zip(&texts)
            .map(|(item, text)| match item {
                Given::Item(item) => *item,
                Given::String(address, hash, length, _) => HeapItem::StringContent {
                    address: *address,
                    hash: *hash,
                    length: *length,
                    text: text.as_deref(),
                },
            })
            .collect();
        let decoded: Result<Vec<HeapItem<'_>>, _> =
            chunks.iter().flat_map(|chunk| decode(chunk)).collect();
        assert_eq!(decoded.unwrap(), expected);
    }

    /// Addresses and classes as they are, and as they never are.
    fn address() -> impl Strategy<Value = u64> {
        prop_oneof![
            8 => (0u64..1 << 20).prop_map(|n| 0x7f12_0000_0000 + n * 8),
            1 => any::<u64>(),
            1 => prop_oneof![Just(0), Just(u64::MAX), Just(1 << 63), Just((1 << 63) - 8), Just(1 << 62)],
        ]
    }

    fn item() -> impl Strategy<Value = Given> {
        let kind = prop_oneof![
            Just(RootKind::Other),
            Just(RootKind::Stack),
            Just(RootKind::Finalizer),
            Just(RootKind::Handle)
        ];
        let class = prop_oneof![(1u64..40).prop_map(|n| 0x7f00_0000_1000 + n * 64), any::<u64>()];
        let size = prop_oneof![24u64..64, any::<u64>()];
        let fields = prop_oneof![
            Just(0),
            (0u64..4).prop_map(|n| n << 1),
            (0u64..1 << 58).prop_map(|n| n << 1)
        ];
        prop_oneof![
            4 => (address(), class, size, fields)
                .prop_map(|(address, class, size, fields)| Given::Item(HeapItem::Object { address, class, size, fields })),
            4 => address().prop_map(|target| Given::Item(HeapItem::Reference { target })),
            1 => (address(), kind, any::<u8>(), any::<u64>())
                .prop_map(|(target, kind, flags, id)| Given::Item(HeapItem::Root { target, kind, flags, id })),
            1 => (any::<u64>(), address(), address())
                .prop_map(|(handle, key, value)| Given::Item(HeapItem::Dependent { handle, key, value })),
            1 => (any::<u8>(), address(), any::<u64>(), any::<u64>()).prop_map(|(generation, start, length, reserved)| {
                Given::Item(HeapItem::Generation { generation, start, length, reserved })
            }),
            1 => any::<u8>().prop_map(|generation| Given::Item(HeapItem::Origin { generation })),
            1 => (any::<u8>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(generation, class, objects, bytes)| {
                Given::Item(HeapItem::Sum { generation, class, objects, bytes })
            }),
            1 => (address(), any::<u16>(), any::<u64>())
                .prop_map(|(object, field, value)| Given::Item(HeapItem::Field { object, field, value })),
            1 => (address(), address())
                .prop_map(|(address, target)| Given::Item(HeapItem::Slot { address, target })),
            1 => (address(), any::<u64>(), any::<u32>(), proptest::option::of(proptest::collection::vec(any::<u16>(), 0..100)))
                .prop_map(|(address, hash, length, text)| Given::String(address, hash, length, text)),
        ]
    }

    proptest! {
        #[test]
        fn items_come_back(items in proptest::collection::vec(item(), 0..300), limit in 0usize..4096) {
            check(&items, limit);
        }

        #[test]
        fn hostile_bytes_end_in_an_error_or_not_but_never_in_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
            let items: Vec<_> = decode(&bytes).collect();
            prop_assert!(items.len() <= bytes.len());
            prop_assert!(items.iter().rev().skip(1).all(|item| item.is_ok()));
        }

        #[test]
        fn a_changed_byte_does_no_harm(items in proptest::collection::vec(item(), 1..50), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut chunk = encode(&items, 1 << 20).remove(0);
            let at = at.index(chunk.len());
            chunk[at] = byte;
            let items: Vec<_> = decode(&chunk).collect();
            prop_assert!(items.len() <= chunk.len());
        }
    }

    #[test]
    fn a_string_after_its_object_has_no_address() {
        let object = Given::Item(HeapItem::Object {
            address: 0x7f12_3456_0000,
            class: 64,
            size: 30,
            fields: 0,
        });
        let here = [object.clone(), Given::String(0x7f12_3456_0000, 5, 4, None)];
        check(&here, 4096);
        let there = [object, Given::String(0x7f12_3456_0008, 5, 4, None)];
        check(&there, 4096);
        assert!(encode(&here, 4096)[0].len() + 6 <= encode(&there, 4096)[0].len());
    }

    #[test]
    fn neighbours_are_small() {
        let objects = (0..1000u64).map(|n| HeapItem::Object {
            address: 0x7f12_3456_0000 + n * 40,
            class: 0x7f00_1234_5678,
            size: 40,
            fields: 0b110,
        });
        let items = objects.flat_map(|object| {
            let HeapItem::Object { address, .. } = object else { unreachable!() };
            [Given::Item(object), Given::Item(HeapItem::Reference { target: address - 400 })]
        });
        let chunk = encode(&items.collect::<Vec<_>>(), 1 << 20).remove(0);
        assert!(chunk.len() < 1000 * 4 + 30, "{} bytes", chunk.len());
    }

    #[test]
    fn a_chunk_can_be_read_by_itself() {
        let objects = (0..2000u64).map(|n| {
            Given::Item(HeapItem::Object { address: 4096 + n * 40, class: 64, size: 40, fields: 4 })
        });
        let items: Vec<_> = objects.collect();
        let chunks = encode(&items, MAX_ITEM + 100);
        assert!(chunks.len() > 10);
        let first = decode(&chunks[5]).next().unwrap().unwrap();
        assert!(matches!(first, HeapItem::Object { class: 64, size: 40, .. }), "{first:?}");
    }

    #[test]
    fn a_full_encoder_takes_nothing() {
        let mut encoder = Encoder::new(0);
        assert!(encoder.has_room());
        encoder.reference(8);
        assert!(!encoder.has_room());
        let before = encoder.bytes().to_vec();
        encoder.reference(16);
        encoder.object(8, 8, 8, 0);
        encoder.root(8, RootKind::Stack, 0, 0);
        encoder.string(8, 1, 1, Some(&[65]));
        assert_eq!(encoder.bytes(), before);
    }

    #[test]
    fn what_is_cut_is_told_with_its_place() {
        let mut encoder = Encoder::new(1 << 12);
        encoder.object(0x1000, 0x2000, 32, 0);
        let whole = encoder.bytes().len();
        encoder.string(0x1000, 7, 3, Some(&[0x41, 0xd800, 0x42]));
        for cut in whole + 1..encoder.bytes().len() {
            let items: Vec<_> = decode(&encoder.bytes()[..cut]).collect();
            assert_eq!(items.len(), 2);
            assert_eq!(items[1], Err(HeapError { at: whole, what: decode::CUT }), "cut at {cut}");
        }
        let last = decode(encoder.bytes()).last().unwrap().unwrap();
        assert_eq!(
            last,
            HeapItem::StringContent {
                address: 0x1000,
                hash: 7,
                length: 3,
                text: Some("A\u{fffd}B")
            }
        );
    }

    #[test]
    fn hashes_differ_where_texts_do() {
        let bytes =
            |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let texts = (0..10_000).map(|n| format!("text number {n}")).chain([
            "".into(),
            "\0".into(),
            "\0\0".into(),
            "\0\0\0\0".into(),
        ]);
        let hashes: std::collections::HashSet<u64> =
            texts.map(|text| string_hash(&bytes(&text))).collect();
        assert_eq!(hashes.len(), 10_004);
        assert_eq!(string_hash(&bytes("same")), string_hash(&bytes("same")));
    }
}
