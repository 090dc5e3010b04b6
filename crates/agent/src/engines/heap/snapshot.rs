//! What callbacks take of one collection: roots, objects, tasks and texts.

use crate::engines::heap::async_state_machines::{Plan, Plans};
use crate::engines::heap::object_fields;
use crate::engines::heap::static_fields::StaticArrays;
use crate::engines::snapshots::{Chunks, Ids, Reported};
use crate::host::Host;
use crate::host::runtime::Runtime;
use crate::os::connection::Outgoing;
use corprof::ObjectId;
use corprof::callback::{DependentReferences, Roots};
use corprof::ids::{ClassId, RawObjectId};
use corprof::info::StringLayout;
use profilers::heap::SnapshotKind;
use std::sync::Arc;
use wire::Nanos;
use wire::heap::{self, FIELD_CONTINUATION, FIELD_STATE, MAX_TEXT, RootKind};

/// Slots for ids of classes, and most that are kept; the same for methods.
const CLASSES: usize = 128 << 10;
const METHODS: usize = 8 << 10;
/// Slots for ids of classes whose fields are named.
const WITH_FIELDS: usize = 64 << 10;
/// Slots for hashes of strings.
const HASHES: usize = 64 << 10;
/// Most roots whose objects are looked at where nothing but roots is wanted.
const TARGETS: usize = 128 << 10;
/// Bytes before an object's address that belong to it.
const HEADER: usize = 8;

/// A snapshot that is under way.
pub(super) struct Snapshot {
    pub(super) kind: SnapshotKind,
    pub(super) chunks: Chunks,
    pub(super) classes: Ids,
    pub(super) methods: Ids,
    pub(super) strings: Option<Strings>,
    /// What is read of tasks.
    pub(super) plans: Option<Arc<Plans>>,
    /// What roots refer to, where nothing else is looked at: as many as there is room for, and the
    /// number of the others.
    pub(super) targets: Vec<usize>,
    pub(super) targets_lost: u64,
    /// Classes of objects whose references were found in their words.
    pub(super) with_fields: Ids,
    /// Arrays of static fields, where references are wanted.
    pub(super) statics: Option<StaticArrays>,
}

impl Snapshot {
    pub(super) fn new(
        number: u32,
        kind: SnapshotKind,
        outgoing: &Outgoing,
        strings: Option<Strings>,
        plans: Option<Arc<Plans>>,
        deadline: Nanos,
    ) -> Self {
        let targets = if kind == SnapshotKind::Roots { TARGETS } else { 0 };
        Self {
            kind,
            chunks: Chunks::new(number, outgoing, deadline),
            classes: Ids::new(CLASSES),
            methods: Ids::new(METHODS),
            with_fields: Ids::new(if kind == SnapshotKind::All { WITH_FIELDS } else { 1 }),
            strings,
            plans,
            targets: Vec::with_capacity(targets),
            targets_lost: 0,
            statics: (kind == SnapshotKind::All).then(StaticArrays::default),
        }
    }

    pub(super) fn memory(&self) -> usize {
        let strings = if self.strings.is_some() { HASHES * size_of::<u64>() } else { 0 };
        let plans = self.plans.as_ref().map_or(0, |plans| plans.memory());
        let ids = self.classes.memory() + self.methods.memory() + self.with_fields.memory();
        let targets = self.targets.capacity() * size_of::<usize>();
        let statics = self.statics.as_ref().map_or(0, StaticArrays::memory);
        let own = size_of::<Self>() + self.chunks.encoder.memory();
        own + ids + strings + plans + targets + statics
    }

    /// Keeps what a root refers to until it may be looked at, which is after the collection.
    pub(super) fn target(&mut self, target: RawObjectId) {
        if self.targets.last() == Some(&target.0) {
            return;
        }
        if self.targets.len() >= TARGETS {
            if self.targets_lost == 0 {
                // Many roots may refer to the same few objects.
                self.targets.sort_unstable();
                self.targets.dedup();
            }
            // Sorting again and again for little room would keep the runtime suspended.
            if self.targets.len() > TARGETS / 8 * 7 {
                self.targets_lost += 1;
                return;
            }
        }
        self.targets.push(target.0);
    }

    /// Records references of the last object.
    pub(super) fn references(
        &mut self,
        host: &Host,
        references: impl Iterator<Item = usize>,
    ) -> bool {
        for reference in references {
            if !self.chunks.has_room(host) {
                return false;
            }
            self.chunks.encoder.reference(reference as u64);
        }
        true
    }

    /// Records where the elements of an array are that may be static fields.
    pub(super) fn elements(
        &mut self,
        host: &Host,
        object: ObjectId<'_>,
        size: usize,
        references: &[RawObjectId],
    ) -> bool {
        let Some(statics) = &mut self.statics else { return true };
        // SAFETY: the object has this size, and stays what and where it is during this callback.
        let Some(elements) = (unsafe { statics.elements(object, size, references) }) else {
            return true;
        };
        for (address, target) in elements {
            if !self.chunks.has_room(host) {
                return false;
            }
            self.chunks.encoder.slot(address, target);
        }
        true
    }

    /// Reads where a task stands.
    pub(super) fn task(
        &mut self,
        host: &Host,
        object: ObjectId<'_>,
        size: usize,
        plan: Plan,
    ) -> bool {
        if !self.chunks.has_room(host) {
            return false;
        }
        let address = object.address() as u64;
        // SAFETY: the object stays what and where it is while the runtime is suspended, and has
        // this size.
        if let Some(state) = unsafe { read_field::<i32>(object, size, plan.state) } {
            self.chunks.encoder.field(address, FIELD_STATE, u64::from(state as u32));
        }
        if !self.chunks.has_room(host) {
            return false;
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { read_field::<usize>(object, size, plan.continuation) } {
            self.chunks.encoder.field(address, FIELD_CONTINUATION, next as u64);
        }
        true
    }

    pub(super) fn string(&mut self, host: &Host, object: ObjectId<'_>, size: usize) -> bool {
        if !self.chunks.has_room(host) {
            return false;
        }
        let Some(strings) = &mut self.strings else { return true };
        // SAFETY: the object is a string of `size` bytes, and stays what and where it is during
        // this callback.
        let Some(units) = (unsafe { strings.units(object, size) }) else { return true };
        // SAFETY: every two bytes are a number, and a number's bytes may be looked at one by one.
        let bytes =
            unsafe { std::slice::from_raw_parts(units.as_ptr().cast::<u8>(), size_of_val(units)) };
        let hash = heap::string_hash(bytes);
        let text = strings
            .is_second(hash)
            .then(|| units.get(..units.len().min(MAX_TEXT)).unwrap_or_default());
        self.chunks.encoder.string(object.address() as u64, hash, units.len() as u32, text);
        true
    }
}

impl Reported for Snapshot {
    fn roots(&mut self, host: &Host, roots: Roots<'_>) {
        if self.kind == SnapshotKind::Histogram {
            return;
        }
        for root in roots.iter() {
            let Some(target) = root.object else { continue };
            if !self.chunks.has_room(host) {
                return;
            }
            let kind = self.chunks.root(target, &root);
            if kind == RootKind::Stack {
                self.methods.insert(root.id as u64);
            }
            let flags = root.flags.0 as u8;
            if kind == RootKind::Handle
                && flags & (heap::ROOT_WEAK | heap::ROOT_REF_COUNTED) == 0
                && let Some(statics) = &mut self.statics
            {
                statics.held(target);
            }
            // What the root refers to is asked for its class, so it must be an object, and not
            // something within one.
            if self.kind == SnapshotKind::Roots && root.flags.0 as u8 & heap::ROOT_INTERIOR == 0 {
                self.target(target);
            }
        }
    }

    fn dependent(&mut self, host: &Host, references: DependentReferences<'_>) {
        if self.kind != SnapshotKind::All {
            return;
        }
        for reference in references.iter() {
            if reference.key.is_null() || reference.value.is_null() {
                continue;
            }
            if !self.chunks.has_room(host) {
                return;
            }
            self.chunks.dependent(&reference);
        }
    }

    fn object(
        &mut self,
        host: &Host,
        object: RawObjectId,
        class: ClassId,
        references: &[RawObjectId],
    ) -> bool {
        let references = match self.kind {
            SnapshotKind::All => references,
            SnapshotKind::Histogram => &[],
            // Roots were reported before; the heap need not be walked.
            SnapshotKind::Roots => return false,
        };
        // SAFETY: the runtime names objects that are where they will stay, and waits for this
        // callback while it is suspended.
        let id = unsafe { ObjectId::from_raw(object) };
        let Ok(size) = host.runtime.info().object_size(id) else { return true };
        if !self.chunks.has_room(host) {
            return false;
        }
        self.chunks.objects += 1;
        // SAFETY: the object has this size, and stays what and where it is during this callback.
        let found = unsafe { object_fields::find(id, size, references) };
        let words = found.map_or(0, |found| found.words);
        if !self.chunks.encoder.object(object.0 as u64, class.0 as u64, size as u64, words) {
            self.classes.insert(class.0 as u64);
            if words != 0 {
                self.with_fields.insert(class.0 as u64);
            }
        }
        let all_told = match found {
            Some(found) => self.references(host, found.references()),
            None => {
                let references = references.iter().filter(|reference| !reference.is_null());
                self.references(host, references.map(|reference| reference.0))
            }
        };
        if !all_told {
            return false;
        }
        if !self.elements(host, id, size, references) {
            return false;
        }
        if let Some(plan) = self.plans.as_ref().and_then(|plans| plans.of(class.0 as u64)) {
            return self.task(host, id, size, plan);
        }
        if self.strings.as_ref().is_some_and(|strings| strings.class == class) {
            return self.string(host, id, size);
        }
        true
    }

    fn collection_finished(&mut self, host: &Host) {
        let info = host.runtime.info();
        self.targets.sort_unstable();
        self.targets.dedup();
        for target in std::mem::take(&mut self.targets) {
            // SAFETY: the collection has ended, so that objects are where they will stay, and the
            // runtime is still suspended.
            let object = unsafe { ObjectId::from_raw(RawObjectId(target)) };
            let (Ok(class), Ok(size)) = (info.class_of(object), info.object_size(object)) else {
                continue;
            };
            if !self.chunks.has_room(host) {
                return;
            }
            self.chunks.objects += 1;
            if !self.chunks.encoder.object(target as u64, class.0 as u64, size as u64, 0) {
                self.classes.insert(class.0 as u64);
            }
        }
        self.chunks.generations(host);
        for range in info.non_gc_heap_bounds().unwrap_or_default() {
            if self.chunks.has_room(host) {
                self.chunks.encoder.generation(
                    5,
                    range.start as u64,
                    range.used as u64,
                    range.reserved as u64,
                );
            }
        }
    }
}

/// Reads a field of an object, if it lies within it. Offset 0 is none: the class stands there.
///
/// # Safety
/// The object has `size` bytes with its header, and stays what and where it is meanwhile. Every bit
/// pattern is a `T`.
pub(super) unsafe fn read_field<T: Copy>(
    object: ObjectId<'_>,
    size: usize,
    offset: u32,
) -> Option<T> {
    let offset = offset as usize;
    let end = offset.checked_add(size_of::<T>())?.checked_add(HEADER)?;
    if offset < size_of::<usize>() || end > size {
        return None;
    }
    let field = object.address().checked_add(offset)? as *const T;
    // SAFETY: the field lies within the object, as was checked, and may hold any bits.
    Some(unsafe { field.read_unaligned() })
}

/// What is known of strings.
pub(super) struct Strings {
    pub(super) class: ClassId,
    pub(super) layout: StringLayout,
    /// Hashes that were met, the lowest bit of each replaced by whether the text was sent.
    pub(super) hashes: Box<[u64]>,
}

impl Strings {
    /// Finds the class of strings: the one of that name in the module that has `System.Object`. To
    /// be called in a [hold](crate::host::unloads::Unloads::hold_all).
    pub(super) fn find(runtime: &Runtime) -> Option<Self> {
        let info = runtime.info();
        let modules = info.modules().ok()?.filter_map(|module| module.ok()?.non_null());
        let class = modules.filter_map(|module| {
            let metadata = info.module_metadata(module).ok()?;
            metadata.find_type_def("System.Object", None).ok()??;
            let string = metadata.find_type_def("System.String", None).ok()??;
            info.class_from_token(module, string).ok()
        });
        let class = class.into_iter().next()?;
        Some(Self {
            class,
            layout: info.string_layout().ok()?,
            hashes: vec![0; HASHES].into_boxed_slice(),
        })
    }

    /// The text of a string.
    ///
    /// # Safety
    /// The object is a string of `size` bytes, and stays what and where it is for as long as the
    /// result is used.
    unsafe fn units<'a>(&self, object: ObjectId<'a>, size: usize) -> Option<&'a [u16]> {
        let (length_at, text_at) =
            (self.layout.length_offset as usize, self.layout.buffer_offset as usize);
        if size < HEADER + text_at || length_at + size_of::<u32>() > text_at {
            return None;
        }
        let length = object.address().checked_add(length_at)? as *const u32;
        // SAFETY: the field lies within the object, as was checked.
        let length = unsafe { length.read_unaligned() } as usize;
        if length.checked_mul(2)?.checked_add(HEADER + text_at)? > size {
            return None;
        }
        let text = object.address().checked_add(text_at)? as *const u16;
        if !text.is_aligned() {
            return None;
        }
        // SAFETY: the text lies within the object, as was checked, and the object stays what it is.
        Some(unsafe { std::slice::from_raw_parts(text, length) })
    }

    /// Whether a hash is met the second time, as far as is remembered.
    pub(super) fn is_second(&mut self, hash: u64) -> bool {
        let at = (hash >> 40) as usize & (HASHES - 1);
        let Some(slot) = self.hashes.get_mut(at) else { return false };
        // 0 is for none.
        let (first, sent) = (hash & !1 | 2, hash | 3);
        let is_second = *slot == first;
        if *slot != sent {
            *slot = if is_second { sent } else { first };
        }
        is_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_sent_at_the_second_sight_of_its_hash_only() {
        let layout = StringLayout { length_offset: 8, buffer_offset: 12 };
        let mut strings =
            Strings { class: ClassId(1), layout, hashes: vec![0; HASHES].into_boxed_slice() };
        for hash in [0, 4, u64::MAX, 0x1234_5678_9abc_def0] {
            let met: Vec<bool> = (0..4).map(|_| strings.is_second(hash)).collect();
            assert_eq!(met, [false, true, false, false], "{hash:x}");
        }
        // Two that share a slot take it from each other.
        assert!(!strings.is_second(8) && !strings.is_second(16) && !strings.is_second(8));
    }

    #[test]
    fn a_string_is_read_within_its_object_only() {
        let layout = StringLayout { length_offset: 8, buffer_offset: 12 };
        let strings = Strings { class: ClassId(1), layout, hashes: Box::new([]) };
        // Class, length, text, zero.
        let mut object = [0u64; 4];
        let bytes: Vec<u8> =
            object[0].to_le_bytes().into_iter().chain(3u32.to_le_bytes()).collect();
        let text = "abc".encode_utf16().chain([0]).flat_map(u16::to_le_bytes);
        for (index, byte) in bytes.into_iter().chain(text).enumerate() {
            object[index / 8] |= u64::from(byte) << (index % 8 * 8);
        }
        // SAFETY: the object is a local that nobody changes.
        let id = unsafe { ObjectId::from_raw(RawObjectId(object.as_ptr().addr())) };
        // SAFETY: as above, and the object has at least the sizes that are tried.
        let units = |size| unsafe { strings.units(id, size) };
        assert_eq!(units(28), Some(&[0x61, 0x62, 0x63][..]));
        assert_eq!(units(26), Some(&[0x61, 0x62, 0x63][..]));
        assert_eq!(units(25), None);
        assert_eq!(units(0), None);
    }
}
