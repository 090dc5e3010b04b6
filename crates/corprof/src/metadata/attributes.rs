//! Custom attributes and declarative security.

use com::hresult::S_FALSE;

use super::token::*;
use super::{Metadata, TokenEnum};
use crate::info::call::{blob, check, raw, wide};
use crate::info::error::Result;

/// A custom attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CustomAttributeProps<'a> {
    /// What it is attached to.
    pub owner: Token,
    /// Its constructor: `MethodDef` or `MemberRef`.
    pub constructor: Token,
    /// Its encoded arguments (ECMA-335 II.23.3).
    pub value: &'a [u8],
}

/// Declarative security of .NET Framework.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermissionProps<'a> {
    /// What it does (`CorDeclSecurity`).
    pub action: u32,
    /// The permission set.
    pub value: &'a [u8],
}

impl Metadata {
    /// Custom attributes attached to `owner`, with constructor or type `kind`; `None` means any
    /// (`EnumCustomAttributes`).
    pub fn custom_attributes(
        &self,
        owner: Option<Token>,
        kind: Option<Token>,
    ) -> TokenEnum<'_, CustomAttribute> {
        let (owner, kind) = (owner.unwrap_or_default(), kind.unwrap_or_default());
        self.tokens("EnumCustomAttributes", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumCustomAttributes(handle, owner, kind, buffer, room, fetched))
        })
    }

    /// Owner, constructor and arguments of a custom attribute (`GetCustomAttributeProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn custom_attribute_props(
        &self,
        attribute: CustomAttribute,
    ) -> Result<CustomAttributeProps<'_>> {
        let (mut owner, mut constructor) = (Token::NIL, Token::NIL);
        let (mut start, mut length) = (core::ptr::null(), 0);
        check(
            "GetCustomAttributeProps",
            raw!(
                self.import,
                GetCustomAttributeProps(
                    attribute,
                    &mut owner,
                    &mut constructor,
                    &mut start,
                    &mut length
                )
            ),
        )?;
        // SAFETY: the runtime answers with a blob of that length in the scope's memory.
        Ok(CustomAttributeProps { owner, constructor, value: unsafe { blob(start, length) } })
    }

    /// Arguments of the first attribute of a type by its full name (`GetCustomAttributeByName`);
    /// `None` if there is none.
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn custom_attribute_named(
        &self,
        owner: impl Into<Token>,
        name: &str,
    ) -> Result<Option<&[u8]>> {
        const CALL: &str = "GetCustomAttributeByName";
        let name = wide(CALL, name)?;
        let (mut start, mut length) = (core::ptr::null(), 0);
        let hresult = raw!(
            self.import,
            GetCustomAttributeByName(owner.into(), name.as_ptr(), &mut start, &mut length)
        );
        // Unlike the other searches this one answers "none" with S_FALSE.
        if hresult == S_FALSE {
            return Ok(None);
        }
        check(CALL, hresult)?;
        // SAFETY: the runtime answers with a blob of that length in the scope's memory.
        Ok(Some(unsafe { blob(start, length) }))
    }

    /// Declarative security of `owner` with this action, 0 for any (`EnumPermissionSets`).
    pub fn permission_sets(&self, owner: Option<Token>, action: u32) -> TokenEnum<'_, Permission> {
        let owner = owner.unwrap_or_default();
        self.tokens("EnumPermissionSets", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumPermissionSets(handle, owner, action, buffer, room, fetched))
        })
    }

    /// Action and set of declarative security (`GetPermissionSetProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn permission_set_props(&self, permission: Permission) -> Result<PermissionProps<'_>> {
        let (mut action, mut start, mut length) = (0, core::ptr::null(), 0);
        check(
            "GetPermissionSetProps",
            raw!(
                self.import,
                GetPermissionSetProps(permission, &mut action, &mut start, &mut length)
            ),
        )?;
        // SAFETY: the runtime answers with a blob of that length in the scope's memory.
        Ok(PermissionProps { action, value: unsafe { blob(start, length) } })
    }
}
