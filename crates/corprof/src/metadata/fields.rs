//! Fields.

use super::constant::Constant;
use super::methods::start_and_length;
use super::token::*;
use super::{FieldAttributes, Metadata, TokenEnum};
use crate::info::call::{blob, found, raw, text, wide};
use crate::info::error::Result;

/// A field of this module.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldProps<'a> {
    /// Its type; nil for a global one.
    pub class: TypeDef,
    /// Its name.
    pub name: String,
    /// Flags.
    pub attributes: FieldAttributes,
    /// Its signature, for [`decode_field`](crate::signature::decode_field).
    pub signature: &'a [u8],
    /// Its value, if it is a constant.
    pub constant: Option<Constant>,
}

impl Metadata {
    /// The fields of a type, nil for the global ones (`EnumFields`).
    pub fn fields(&self, class: TypeDef) -> TokenEnum<'_, FieldDef> {
        self.tokens("EnumFields", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumFields(handle, class, buffer, room, fetched))
        })
    }

    /// The fields of a type that have this name (`EnumFieldsWithName`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn fields_named(&self, class: TypeDef, name: &str) -> Result<TokenEnum<'_, FieldDef>> {
        let name = wide("EnumFieldsWithName", name)?;
        Ok(self.tokens("EnumFieldsWithName", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumFieldsWithName(handle, class, name.as_ptr(), buffer, room, fetched))
        }))
    }

    /// The field of a type with this name, and with this signature if one is given (`FindField`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn find_field(
        &self,
        class: TypeDef,
        name: &str,
        signature: &[u8],
    ) -> Result<Option<FieldDef>> {
        const CALL: &str = "FindField";
        let name = wide(CALL, name)?;
        let (start, length) = start_and_length(signature);
        let mut field = FieldDef::NIL;
        let hresult = raw!(self.import, FindField(class, name.as_ptr(), start, length, &mut field));
        found(CALL, hresult, ()).map(|found| found.map(|()| field))
    }

    /// Name, flags, signature and constant of a field (`GetFieldProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn field_props(&self, field: FieldDef) -> Result<FieldProps<'_>> {
        let (mut class, mut attributes) = (TypeDef::NIL, 0);
        let (mut signature, mut length) = (core::ptr::null(), 0);
        let (mut element, mut value, mut units) = (0, core::ptr::null(), 0);
        let name = text("GetFieldProps", |buffer, room, needed| {
            raw!(
                self.import,
                GetFieldProps(
                    field,
                    &mut class,
                    buffer,
                    room,
                    needed,
                    &mut attributes,
                    &mut signature,
                    &mut length,
                    &mut element,
                    &mut value,
                    &mut units,
                )
            )
        })?;
        Ok(FieldProps {
            class,
            name,
            attributes: FieldAttributes::from_bits(attributes),
            // SAFETY: the runtime answers with a blob of that length in the scope's memory.
            signature: unsafe { blob(signature, length) },
            // SAFETY: the runtime answers with a constant of that type in the scope's memory, or
            // null.
            constant: unsafe { Constant::read(element, value, units) },
        })
    }
}
