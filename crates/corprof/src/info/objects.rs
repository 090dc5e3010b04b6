//! Objects: their class, size and content, and handles that hold on to them.
//!
//! An [`ObjectId`] is good for as long as its lifetime says; see there.

use core::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use com::hresult::{E_BOUNDS, E_INVALIDARG};

use super::ProfilerInfo;
use super::call::{check, raw, utf16};
use super::classes::StringLayout;
use super::enumerate::HandleEnum;
use super::error::{Error, Result};
use super::stacks::Visitor;
use crate::abi::{BOOL, COR_PRF_HANDLE_TYPE, ICorProfilerObjectEnum, ObjectHandleID};
use crate::ids::{ClassId, ModuleId, ObjectId, RawObjectId};

/// What is learnt once about objects.
#[derive(Debug, Default)]
pub(super) struct ObjectCache {
    /// Class of strings, 0 until one was met.
    string_class: AtomicUsize,
    string_layout: OnceLock<StringLayout>,
}

/// An array's shape and where its elements are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayObject {
    /// Length of each dimension.
    pub sizes: Vec<u32>,
    /// First index of each dimension.
    pub lower_bounds: Vec<i32>,
    /// Address of the first element.
    pub data: usize,
}

/// A GC handle that this profiler made; freed on drop.
#[derive(Debug)]
pub struct ObjectHandle {
    info: ProfilerInfo,
    handle: ObjectHandleID,
}

// SAFETY: a handle is a slot of the runtime's handle table; the methods that take one may be called
// on any thread.
unsafe impl Send for ObjectHandle {}
// SAFETY: as above.
unsafe impl Sync for ObjectHandle {}

impl ObjectHandle {
    /// The object; `None` if it was collected, which only weak handles allow
    /// (`GetObjectIDFromHandle`).
    ///
    /// The address is good until the next collection may run.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn object(&self) -> Result<Option<RawObjectId>> {
        let mut object = RawObjectId::NULL;
        check(
            "GetObjectIDFromHandle",
            raw!(*self.info.info13()?, GetObjectIDFromHandle(self.handle, &mut object)),
        )?;
        Ok(object.non_null())
    }
}

impl Drop for ObjectHandle {
    fn drop(&mut self) {
        if let Ok(info) = self.info.info13() {
            // Nothing can be done about a handle that cannot be freed.
            let _ = raw!(*info, DestroyHandle(self.handle));
        }
    }
}

impl ProfilerInfo {
    /// The class of an object (`GetClassFromObject`).
    ///
    /// # Errors
    /// `CORPROF_E_NOT_GC_OBJECT` and the like if there is no object there.
    pub fn class_of(&self, object: ObjectId<'_>) -> Result<ClassId> {
        let mut class = ClassId::NULL;
        check("GetClassFromObject", raw!(self.raw, GetClassFromObject(object.raw(), &mut class)))?;
        class.non_null().ok_or(Error::Nothing { call: "GetClassFromObject" })
    }

    /// Size of an object in bytes (`GetObjectSize2`; before .NET Framework 4.5 `GetObjectSize`,
    /// which cannot tell sizes of 4 GiB or more).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a null object.
    pub fn object_size(&self, object: ObjectId<'_>) -> Result<usize> {
        if let Ok(info) = self.info4() {
            let mut size = 0;
            check("GetObjectSize2", raw!(*info, GetObjectSize2(object.raw(), &mut size)))?;
            return Ok(size);
        }
        let mut size = 0;
        check("GetObjectSize", raw!(self.raw, GetObjectSize(object.raw(), &mut size)))?;
        Ok(size as usize)
    }

    /// Shape and place of an array of `rank` dimensions (`GetArrayObjectInfo`).
    ///
    /// # Errors
    /// `E_INVALIDARG` if it is no array of that rank.
    pub fn array_object(&self, array: ObjectId<'_>, rank: u32) -> Result<ArrayObject> {
        let mut sizes = vec![0; rank as usize];
        let mut lower_bounds = vec![0; rank as usize];
        let mut data = core::ptr::null_mut();
        check(
            "GetArrayObjectInfo",
            raw!(
                self.raw,
                GetArrayObjectInfo(
                    array.raw(),
                    rank,
                    sizes.as_mut_ptr(),
                    lower_bounds.as_mut_ptr(),
                    &mut data
                )
            ),
        )?;
        Ok(ArrayObject { sizes, lower_bounds, data: data.addr() })
    }

    /// Copies bytes out of an object, from `offset` bytes behind its address.
    ///
    /// Other threads may be writing to the object at the same time: the bytes may then be half old
    /// and half new.
    ///
    /// # Errors
    /// `E_BOUNDS` if the object ends before; otherwise as [`Self::object_size`].
    pub fn read_object(&self, object: ObjectId<'_>, offset: usize, out: &mut [u8]) -> Result<()> {
        // The size counts the header word before the address as well, so the last word is out of
        // reach.
        let end = self.object_size(object)?.saturating_sub(size_of::<usize>());
        if offset.checked_add(out.len()).is_none_or(|last| last > end) {
            return Err(Error::Hr { call: "read_object", hresult: E_BOUNDS });
        }
        let start = (object.address() as *const u8).wrapping_add(offset);
        for (index, byte) in out.iter_mut().enumerate() {
            // SAFETY: an `ObjectId` is an object that neither moves nor dies during its lifetime,
            // and the range is within its size. The read is volatile since the program may write at
            // the same time.
            *byte = unsafe { start.wrapping_add(index).read_volatile() };
        }
        Ok(())
    }

    /// The text of a string, up to `limit` UTF-16 units; `None` if the object is no string.
    ///
    /// # Errors
    /// As [`Self::class_of`].
    pub fn string(&self, object: ObjectId<'_>, limit: usize) -> Result<Option<String>> {
        if !self.is_string(object)? {
            return Ok(None);
        }
        let layout = match self.cache.string_layout.get() {
            Some(layout) => *layout,
            None => {
                let layout = self.string_layout()?;
                *self.cache.string_layout.get_or_init(|| layout)
            }
        };
        let mut length = [0; 4];
        self.read_object(object, layout.length_offset as usize, &mut length)?;
        let length = (u32::from_ne_bytes(length) as usize).min(limit);
        let mut bytes = vec![0; length * 2];
        self.read_object(object, layout.buffer_offset as usize, &mut bytes)?;
        let units = bytes
            .chunks_exact(2)
            .filter_map(|pair| pair.try_into().ok())
            .map(u16::from_ne_bytes)
            .collect::<Vec<_>>();
        Ok(Some(utf16(&units)))
    }

    /// Whether an object is a `System.String`.
    fn is_string(&self, object: ObjectId<'_>) -> Result<bool> {
        let class = self.class_of(object)?;
        match self.cache.string_class.load(Ordering::Relaxed) {
            // There is one class of strings in a process.
            0 => {
                if self.array_class(class)?.is_some() {
                    return Ok(false);
                }
                let (module, type_def) = self.class_token(class)?;
                if module.is_null() {
                    return Ok(false);
                }
                let metadata = self.module_metadata(module)?;
                let is_string = metadata.type_def_props(type_def)?.name == "System.String"
                    && metadata.find_type_def("System.Object", None)?.is_some();
                if is_string {
                    self.cache.string_class.store(class.0, Ordering::Relaxed);
                }
                Ok(is_string)
            }
            known => Ok(known == class.0),
        }
    }

    /// Whether an object lies in a heap that is never collected or moved (`IsFrozenObject`).
    ///
    /// # Errors
    /// [`Error::NeedsRuntime`] before .NET Core 3.0.
    pub fn is_frozen(&self, object: ObjectId<'_>) -> Result<bool> {
        let mut frozen: BOOL = 0;
        check("IsFrozenObject", raw!(*self.info10()?, IsFrozenObject(object.raw(), &mut frozen)))?;
        Ok(frozen != 0)
    }

    /// Calls `visit` with each object that this one refers to, and with the address of the
    /// reference (`EnumerateObjectReferences`). Call this while the runtime is suspended. `false`
    /// ends the enumeration.
    ///
    /// Returns whether the object can hold references at all. A panic of `visit` ends the
    /// enumeration and continues from here.
    ///
    /// # Errors
    /// `E_INVALIDARG` for a null object; [`Error::NeedsRuntime`] before .NET Core 3.0.
    pub fn object_references<'cx>(
        &self,
        object: ObjectId<'cx>,
        visit: impl FnMut(ObjectId<'cx>, usize) -> bool,
    ) -> Result<bool> {
        unsafe extern "system" fn each<'cx, F: FnMut(ObjectId<'cx>, usize) -> bool>(
            _from: RawObjectId,
            reference: *mut RawObjectId,
            visitor: *mut c_void,
        ) -> BOOL {
            // SAFETY: the runtime passes a reference inside the object, and back what we gave it.
            let (target, visitor) =
                unsafe { (reference.read(), &mut *visitor.cast::<Visitor<F>>()) };
            let Some(target) = target.non_null() else { return 1 };
            // SAFETY: what a living object refers to lives; nothing moves during 'cx, as its
            // `ObjectId` promises.
            let target = unsafe { ObjectId::from_raw(target) };
            BOOL::from(visitor.call(|visit| visit(target, reference.addr())).unwrap_or(false))
        }
        fn callback_of<'cx, F: FnMut(ObjectId<'cx>, usize) -> bool>(
            _: &Visitor<F>,
        ) -> crate::abi::ObjectReferenceCallback {
            each::<'cx, F>
        }
        let info = self.info10()?;
        let mut visitor = Visitor::new(visit);
        let callback = callback_of(&visitor);
        let hresult = raw!(
            *info,
            EnumerateObjectReferences(object.raw(), Some(callback), (&raw mut visitor).cast())
        );
        visitor.finish();
        super::call::check_s_ok("EnumerateObjectReferences", hresult)
    }

    /// Objects that a module of .NET Framework carried ready-made (`EnumModuleFrozenObjects`).
    ///
    /// # Errors
    /// `E_NOTIMPL` on .NET (Core), or the runtime refuses.
    pub fn module_frozen_objects(
        &self,
        module: ModuleId,
    ) -> Result<HandleEnum<ICorProfilerObjectEnum>> {
        let mut objects = None;
        check(
            "EnumModuleFrozenObjects",
            raw!(self.raw, EnumModuleFrozenObjects(module, &mut objects)),
        )?;
        HandleEnum::new("EnumModuleFrozenObjects", objects)
    }

    /// Makes a handle to an object (`CreateHandle`), to hold on to it over collections. May be
    /// called only where the runtime allows allocation, not inside a collection.
    ///
    /// # Errors
    /// [`Error::NeedsRuntime`] before .NET 7.
    pub fn create_handle(
        &self,
        object: ObjectId<'_>,
        kind: COR_PRF_HANDLE_TYPE,
    ) -> Result<ObjectHandle> {
        if !matches!(
            kind,
            COR_PRF_HANDLE_TYPE::WEAK | COR_PRF_HANDLE_TYPE::STRONG | COR_PRF_HANDLE_TYPE::PINNED
        ) {
            return Err(Error::Hr { call: "CreateHandle", hresult: E_INVALIDARG });
        }
        let mut handle = core::ptr::null_mut();
        check(
            "CreateHandle",
            raw!(*self.info13()?, CreateHandle(object.raw(), kind, &mut handle)),
        )?;
        if handle.is_null() {
            return Err(Error::Nothing { call: "CreateHandle" });
        }
        Ok(ObjectHandle { info: self.clone(), handle })
    }
}
