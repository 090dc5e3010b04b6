//! Adding types, their layouts and generic parameters.

use super::{MetadataEmit, ended};
use crate::abi::COR_FIELD_OFFSET;
use crate::info::call::{check, raw, wide};
use crate::info::error::Result;
use crate::metadata::token::*;
use crate::metadata::{FieldOffset, GenericParamAttributes, TypeAttributes};

impl MetadataEmit {
    /// Defines a type (`DefineTypeDef`). `extends` is nil for interfaces; `implements` are its
    /// interfaces.
    ///
    /// # Errors
    /// `META_S_DUPLICATE` is a success; `E_INVALIDARG` for a name with a zero inside.
    pub fn define_type_def(
        &self,
        name: &str,
        attributes: TypeAttributes,
        extends: Token,
        implements: &[Token],
    ) -> Result<TypeDef> {
        const CALL: &str = "DefineTypeDef";
        let (name, implements) = (wide(CALL, name)?, ended(implements));
        let mut type_def = TypeDef::NIL;
        check(
            CALL,
            raw!(
                self.emit,
                DefineTypeDef(
                    name.as_ptr(),
                    attributes.bits(),
                    extends,
                    implements.as_ptr(),
                    &mut type_def
                )
            ),
        )?;
        Ok(type_def)
    }

    /// Defines a type nested in another one (`DefineNestedType`).
    ///
    /// # Errors
    /// As [`Self::define_type_def`].
    pub fn define_nested_type(
        &self,
        name: &str,
        attributes: TypeAttributes,
        extends: Token,
        implements: &[Token],
        enclosing: TypeDef,
    ) -> Result<TypeDef> {
        const CALL: &str = "DefineNestedType";
        let (name, implements) = (wide(CALL, name)?, ended(implements));
        let mut type_def = TypeDef::NIL;
        check(
            CALL,
            raw!(
                self.emit,
                DefineNestedType(
                    name.as_ptr(),
                    attributes.bits(),
                    extends,
                    implements.as_ptr(),
                    enclosing,
                    &mut type_def,
                )
            ),
        )?;
        Ok(type_def)
    }

    /// Changes a type (`SetTypeDefProps`). What is `None` stays.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_type_def_props(
        &self,
        type_def: TypeDef,
        attributes: Option<TypeAttributes>,
        extends: Option<Token>,
        implements: Option<&[Token]>,
    ) -> Result<()> {
        let implements = implements.map(ended);
        check(
            "SetTypeDefProps",
            raw!(
                self.emit,
                SetTypeDefProps(
                    type_def,
                    attributes.map_or(u32::MAX, TypeAttributes::bits),
                    extends.unwrap_or(Token(u32::MAX)),
                    implements.as_ref().map_or(core::ptr::null(), |implements| implements.as_ptr()),
                )
            ),
        )
    }

    /// States a type's layout (`SetClassLayout`). All ones as an offset leave that field without
    /// one.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_class_layout(
        &self,
        type_def: TypeDef,
        pack_size: u32,
        fields: &[FieldOffset],
        class_size: u32,
    ) -> Result<()> {
        let end = COR_FIELD_OFFSET { field: FieldDef::NIL, offset: 0 };
        let fields = fields
            .iter()
            .map(|field| COR_FIELD_OFFSET { field: field.field, offset: field.offset })
            .chain([end])
            .collect::<Vec<_>>();
        check(
            "SetClassLayout",
            raw!(self.emit, SetClassLayout(type_def, pack_size, fields.as_ptr(), class_size)),
        )
    }

    /// Takes a type's layout away (`DeleteClassLayout`).
    ///
    /// # Errors
    /// `CLDB_E_RECORD_NOTFOUND` if it has none.
    pub fn delete_class_layout(&self, type_def: TypeDef) -> Result<()> {
        check("DeleteClassLayout", raw!(self.emit, DeleteClassLayout(type_def)))
    }

    /// Defines a generic parameter (`DefineGenericParam`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_generic_param(
        &self,
        owner: Token,
        sequence: u32,
        attributes: GenericParamAttributes,
        name: &str,
        constraints: &[Token],
    ) -> Result<GenericParam> {
        const CALL: &str = "DefineGenericParam";
        let (name, constraints) = (wide(CALL, name)?, ended(constraints));
        let mut param = GenericParam::NIL;
        check(
            CALL,
            raw!(
                self.emit,
                DefineGenericParam(
                    owner,
                    sequence,
                    attributes.bits(),
                    name.as_ptr(),
                    0,
                    constraints.as_ptr(),
                    &mut param,
                )
            ),
        )?;
        Ok(param)
    }

    /// Changes a generic parameter (`SetGenericParamProps`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn set_generic_param_props(
        &self,
        param: GenericParam,
        attributes: GenericParamAttributes,
        name: &str,
        constraints: &[Token],
    ) -> Result<()> {
        const CALL: &str = "SetGenericParamProps";
        let (name, constraints) = (wide(CALL, name)?, ended(constraints));
        check(
            CALL,
            raw!(
                self.emit,
                SetGenericParamProps(
                    param,
                    attributes.bits(),
                    name.as_ptr(),
                    0,
                    constraints.as_ptr()
                )
            ),
        )
    }
}
