//! What callbacks are given, lifted: ranges of objects, roots, counts, generations and events.

use com::Guid;

use crate::abi::{
    COR_PRF_GC_GENERATION as GcGeneration, COR_PRF_GC_ROOT_FLAGS as GcRootFlags,
    COR_PRF_GC_ROOT_KIND as GcRootKind, *,
};
use crate::ids::*;
use crate::text::Utf16;

/// Ranges of objects that a collection left where they were.
#[derive(Clone, Copy, Debug)]
pub struct SurvivingRanges<'a, L> {
    pub(super) starts: &'a [RawObjectId],
    pub(super) lengths: &'a [L],
}

impl<'a, L: Copy> SurvivingRanges<'a, L> {
    /// The ranges: first address and length in bytes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (RawObjectId, L)> + 'a {
        self.starts.iter().copied().zip(self.lengths.iter().copied())
    }
}

/// Ranges of objects that a collection moved.
#[derive(Clone, Copy, Debug)]
pub struct MovedRanges<'a, L> {
    pub(super) old: &'a [RawObjectId],
    pub(super) new: &'a [RawObjectId],
    pub(super) lengths: &'a [L],
}

/// A range of objects that a collection moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedRange<L> {
    /// First address before.
    pub old: RawObjectId,
    /// First address now, or later in this collection.
    pub new: RawObjectId,
    /// Length in bytes.
    pub length: L,
}

impl<'a, L: Copy> MovedRanges<'a, L> {
    /// The ranges.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = MovedRange<L>> + 'a {
        let pairs = self.old.iter().copied().zip(self.new.iter().copied());
        pairs.zip(self.lengths.iter().copied()).map(|((old, new), length)| MovedRange {
            old,
            new,
            length,
        })
    }
}

/// A root: a reference that keeps an object alive, or watches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The object referred to; `None` for a reference that is null.
    pub object: Option<RawObjectId>,
    /// Where the reference is.
    pub kind: GcRootKind,
    /// Its properties.
    pub flags: GcRootFlags,
    /// For a variable on a stack the function (zero for one of the runtime's own), for a handle the
    /// handle, otherwise without meaning.
    pub id: usize,
}

impl Root {
    /// The function whose variable this is, if it is one and the function is managed.
    pub fn function(&self) -> Option<FunctionId> {
        if self.kind == GcRootKind::STACK { FunctionId(self.id).non_null() } else { None }
    }

    /// The handle, if it is one.
    pub fn handle(&self) -> Option<GcHandleId> {
        if self.kind == GcRootKind::HANDLE { GcHandleId(self.id).non_null() } else { None }
    }
}

/// Roots that a collection found.
#[derive(Clone, Copy, Debug)]
pub struct Roots<'a> {
    pub(super) objects: &'a [RawObjectId],
    pub(super) kinds: &'a [GcRootKind],
    pub(super) flags: &'a [GcRootFlags],
    pub(super) ids: &'a [usize],
}

impl<'a> Roots<'a> {
    /// The roots.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Root> + 'a {
        let objects = self.objects.iter().zip(self.kinds);
        objects.zip(self.flags.iter().zip(self.ids)).map(|((object, kind), (flags, id))| Root {
            object: object.non_null(),
            kind: *kind,
            flags: *flags,
            id: *id,
        })
    }
}

/// An entry of a ConditionalWeakTable: while the key lives, so does the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DependentReference {
    /// The object that the entry depends on.
    pub key: RawObjectId,
    /// The object that it keeps alive.
    pub value: RawObjectId,
    /// The dependent handle.
    pub handle: GcHandleId,
}

/// Entries of ConditionalWeakTables that a collection found.
#[derive(Clone, Copy, Debug)]
pub struct DependentReferences<'a> {
    pub(super) keys: &'a [RawObjectId],
    pub(super) values: &'a [RawObjectId],
    pub(super) handles: &'a [GcHandleId],
}

impl<'a> DependentReferences<'a> {
    /// The entries.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = DependentReference> + 'a {
        let pairs = self.keys.iter().copied().zip(self.values.iter().copied());
        pairs.zip(self.handles.iter().copied()).map(|((key, value), handle)| DependentReference {
            key,
            value,
            handle,
        })
    }
}

/// How many objects were allocated of each class since the last collection.
#[derive(Clone, Copy, Debug)]
pub struct ClassCounts<'a> {
    pub(super) classes: &'a [ClassId],
    pub(super) counts: &'a [u32],
}

impl<'a> ClassCounts<'a> {
    /// The classes with their counts.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ClassId, u32)> + 'a {
        self.classes.iter().copied().zip(self.counts.iter().copied())
    }
}

/// Which generations a collection collects.
#[derive(Clone, Copy, Debug)]
pub struct CollectedGenerations<'a>(pub(super) &'a [BOOL]);

impl<'a> CollectedGenerations<'a> {
    /// Whether `generation` is collected.
    pub fn contains(&self, generation: GcGeneration) -> bool {
        usize::try_from(generation.0)
            .ok()
            .and_then(|index| self.0.get(index))
            .is_some_and(|collected| *collected != 0)
    }

    /// The generations that are collected.
    pub fn iter(&self) -> impl Iterator<Item = GcGeneration> + 'a {
        (0u32..)
            .zip(self.0)
            .filter(|(_, collected)| **collected != 0)
            .map(|(index, _)| GcGeneration(index))
    }

    /// The oldest generation that is collected, of 0, 1 and 2.
    pub fn oldest(&self) -> Option<GcGeneration> {
        [GcGeneration::GEN_2, GcGeneration::GEN_1, GcGeneration::GEN_0]
            .into_iter()
            .find(|gen_| self.contains(*gen_))
    }
}

/// An EventPipe provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventPipeProviderId(pub EVENTPIPE_PROVIDER);

/// An event of an EventPipe session of ours.
#[derive(Clone, Copy, Debug)]
pub struct DeliveredEvent<'a> {
    /// Who wrote it.
    pub provider: EventPipeProviderId,
    /// The event's number.
    pub id: u32,
    /// Its version.
    pub version: u32,
    /// Description of the payload, in EventPipe's format.
    pub metadata: &'a [u8],
    /// The payload.
    pub data: &'a [u8],
    /// The activity it belongs to.
    pub activity: Option<&'a Guid>,
    /// The activity that one came from.
    pub related_activity: Option<&'a Guid>,
    /// The managed thread that wrote it.
    pub thread: Option<ThreadId>,
    /// Instruction pointers, leaf first.
    pub stack: &'a [usize],
}

/// An array of the runtime's. Null is an empty one, whatever the length says.
///
/// # Safety
///
/// Null, or `len` values that stay what they are for `'a`.
pub(crate) unsafe fn slice<'a, T>(start: *const T, len: u32) -> &'a [T] {
    if start.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: not null, and the rest is this function's contract.
    unsafe { core::slice::from_raw_parts(start, len as usize) }
}

/// A zero-terminated text of the runtime's.
///
/// # Safety
///
/// Null, or zero-terminated, and unchanged for `'a`.
pub(super) unsafe fn utf16_z<'a>(start: *const u16) -> Utf16<'a> {
    let mut len = 0usize;
    if !start.is_null() {
        // SAFETY: every unit up to the terminating zero can be read, by this function's contract.
        while unsafe { *start.add(len) } != 0 {
            len += 1;
        }
        // SAFETY: as above.
        return Utf16(unsafe { core::slice::from_raw_parts(start, len) });
    }
    Utf16(&[])
}
