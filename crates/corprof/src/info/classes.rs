//! Classes: what a class handle stands for, and how its objects are laid out.

use com::HResult;

use super::ProfilerInfo;
use super::call::{check, check_s_ok, list, raw};
use super::error::{Error, Result};
use crate::abi::COR_FIELD_OFFSET;
use crate::ids::{ClassId, ModuleId};
use crate::metadata::FieldOffset;
use crate::metadata::token::TypeDef;

/// How many generic arguments fit without an allocation.
const INLINE_ARGUMENTS: usize = 8;

/// Generic arguments of a class or function. Up to eight are held in place. An argument whose type
/// is not loaded is a null handle.
#[derive(Clone, Debug, Default)]
pub struct TypeArguments {
    inline: [ClassId; INLINE_ARGUMENTS],
    /// Used instead if it is not empty.
    heap: Vec<ClassId>,
    length: usize,
}

impl TypeArguments {
    /// The arguments.
    #[must_use]
    pub fn as_slice(&self) -> &[ClassId] {
        if self.heap.is_empty() {
            self.inline.get(..self.length).unwrap_or_default()
        } else {
            &self.heap
        }
    }

    /// Asks with the room that is there, and again if it does not suffice.
    pub(super) fn ask(
        call: &'static str,
        mut ask: impl FnMut(u32, *mut u32, *mut ClassId) -> HResult,
    ) -> Result<Self> {
        let mut arguments = Self::default();
        let mut needed = 0;
        let hresult = ask(INLINE_ARGUMENTS as u32, &mut needed, arguments.inline.as_mut_ptr());
        if needed as usize > INLINE_ARGUMENTS {
            arguments.heap = list(call, needed as usize, ask)?;
            return Ok(arguments);
        }
        check(call, hresult)?;
        arguments.length = needed as usize;
        Ok(arguments)
    }
}

impl core::ops::Deref for TypeArguments {
    type Target = [ClassId];

    fn deref(&self) -> &[ClassId] {
        self.as_slice()
    }
}

impl PartialEq for TypeArguments {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for TypeArguments {}

/// What a class handle stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassInfo {
    /// Module that defines it.
    pub module: ModuleId,
    /// Its token; nil for types without one.
    pub type_def: TypeDef,
    /// The class that it is derived from; `None` for `System.Object`, interfaces, and what is not
    /// loaded so far.
    pub parent: Option<ClassId>,
    /// Its generic arguments, those of enclosing types first.
    pub type_arguments: TypeArguments,
}

/// What an array class is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayClass {
    /// Element type of the elements (`CorElementType`), such as `0x08` for `int`.
    pub element_type: u8,
    /// Class of the elements; `None` if it is not loaded.
    pub element_class: Option<ClassId>,
    /// Number of dimensions.
    pub rank: u32,
}

/// How objects of a class are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassLayout {
    /// Size in bytes: of an object with its header word for a reference type, of the value for a
    /// value type.
    pub size: u32,
    /// Its own fields, without those of its parents, by offset from the object's address (for a
    /// value type, from the start of the value).
    pub fields: Vec<FieldOffset>,
}

/// How strings are laid out: offsets in bytes from the object's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringLayout {
    /// Where the length stands: 32 bits, in UTF-16 units.
    pub length_offset: u32,
    /// Where the text starts.
    pub buffer_offset: u32,
}

impl ProfilerInfo {
    /// The class of a type that is not generic (`GetClassFromToken`). May load it.
    ///
    /// # Errors
    /// `CORPROF_E_TYPE_IS_PARAMETERIZED` for a generic type, `CORPROF_E_DATAINCOMPLETE` if it
    /// cannot be loaded now.
    pub fn class_from_token(&self, module: ModuleId, type_def: TypeDef) -> Result<ClassId> {
        let mut class = ClassId::NULL;
        check(
            "GetClassFromToken",
            raw!(self.raw, GetClassFromToken(module, type_def, &mut class)),
        )?;
        class.non_null().ok_or(Error::Nothing { call: "GetClassFromToken" })
    }

    /// The class of a generic type with these arguments (`GetClassFromTokenAndTypeArgs`). May load
    /// it.
    ///
    /// # Errors
    /// `E_INVALIDARG` if the number of arguments is wrong, `CORPROF_E_DATAINCOMPLETE` if it cannot
    /// be loaded now.
    pub fn class_from_token_and_type_arguments(
        &self,
        module: ModuleId,
        type_def: TypeDef,
        arguments: &[ClassId],
    ) -> Result<ClassId> {
        const CALL: &str = "GetClassFromTokenAndTypeArgs";
        let mut class = ClassId::NULL;
        check(
            CALL,
            raw!(
                self.raw,
                GetClassFromTokenAndTypeArgs(
                    module,
                    type_def,
                    arguments.len() as u32,
                    arguments.as_ptr(),
                    &mut class,
                )
            ),
        )?;
        class.non_null().ok_or(Error::Nothing { call: CALL })
    }

    /// Module and token of a class (`GetClassIDInfo`).
    ///
    /// # Errors
    /// The handle is null, or of a type without metadata: arrays give a null module.
    pub fn class_token(&self, class: ClassId) -> Result<(ModuleId, TypeDef)> {
        let (mut module, mut type_def) = (ModuleId::NULL, TypeDef::NIL);
        check("GetClassIDInfo", raw!(self.raw, GetClassIDInfo(class, &mut module, &mut type_def)))?;
        Ok((module, type_def))
    }

    /// Module, token, parent and generic arguments of a class (`GetClassIDInfo2`).
    ///
    /// Allocates only for more than eight generic arguments.
    ///
    /// # Errors
    /// `CORPROF_E_CLASSID_IS_ARRAY`, `CORPROF_E_CLASSID_IS_COMPOSITE` (pointers and the like),
    /// `CORPROF_E_DATAINCOMPLETE` while it is being loaded.
    pub fn class_info(&self, class: ClassId) -> Result<ClassInfo> {
        let (mut module, mut type_def, mut parent) = (ModuleId::NULL, TypeDef::NIL, ClassId::NULL);
        let type_arguments = TypeArguments::ask("GetClassIDInfo2", |room, needed, arguments| {
            raw!(
                self.raw,
                GetClassIDInfo2(
                    class,
                    &mut module,
                    &mut type_def,
                    &mut parent,
                    room,
                    needed,
                    arguments
                )
            )
        })?;
        Ok(ClassInfo { module, type_def, parent: parent.non_null(), type_arguments })
    }

    /// What an array class is made of; `None` if it is no array (`IsArrayClass`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a null handle.
    pub fn array_class(&self, class: ClassId) -> Result<Option<ArrayClass>> {
        let (mut element_type, mut element_class, mut rank) = (0, ClassId::NULL, 0);
        let is_array = check_s_ok(
            "IsArrayClass",
            raw!(self.raw, IsArrayClass(class, &mut element_type, &mut element_class, &mut rank)),
        )?;
        Ok(is_array.then_some(ArrayClass {
            element_type: element_type as u8,
            element_class: element_class.non_null(),
            rank,
        }))
    }

    /// Layout of a class's objects (`GetClassLayout`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for arrays and strings, `CORPROF_E_DATAINCOMPLETE` while it is being loaded.
    pub fn class_layout(&self, class: ClassId) -> Result<ClassLayout> {
        let mut size = 0;
        let fields = list::<COR_FIELD_OFFSET>("GetClassLayout", 16, |room, needed, fields| {
            raw!(self.raw, GetClassLayout(class, fields, room, needed, &mut size))
        })?;
        let fields = fields
            .into_iter()
            .map(|field| FieldOffset { field: field.field, offset: field.offset })
            .collect();
        Ok(ClassLayout { size, fields })
    }

    /// How far into a boxed value type the value starts, in bytes (`GetBoxClassLayout`).
    ///
    /// # Errors
    /// `E_INVALIDARG` if the class is no value type.
    pub fn box_value_offset(&self, class: ClassId) -> Result<u32> {
        let mut offset = 0;
        check("GetBoxClassLayout", raw!(self.raw, GetBoxClassLayout(class, &mut offset)))?;
        Ok(offset)
    }

    /// How strings are laid out (`GetStringLayout2`).
    ///
    /// # Errors
    /// None on any known runtime.
    pub fn string_layout(&self) -> Result<StringLayout> {
        let (mut length_offset, mut buffer_offset) = (0, 0);
        check(
            "GetStringLayout2",
            raw!(self.raw, GetStringLayout2(&mut length_offset, &mut buffer_offset)),
        )?;
        Ok(StringLayout { length_offset, buffer_offset })
    }

    /// How strings were laid out when they had a capacity (`GetStringLayout`): offset of the
    /// capacity, which today is that of the length, and the rest.
    ///
    /// # Errors
    /// None on any known runtime.
    pub fn string_layout_with_capacity(&self) -> Result<(u32, StringLayout)> {
        let (mut capacity_offset, mut length_offset, mut buffer_offset) = (0, 0, 0);
        check(
            "GetStringLayout",
            raw!(
                self.raw,
                GetStringLayout(&mut capacity_offset, &mut length_offset, &mut buffer_offset)
            ),
        )?;
        Ok((capacity_offset, StringLayout { length_offset, buffer_offset }))
    }
}
