//! References to members and modules, stand-alone signatures, literal strings.

use super::methods::start_and_length;
use super::token::*;
use super::{Metadata, PInvokeAttributes, TokenEnum};
use crate::info::call::{blob, check, found, raw, text, utf16, wide};
use crate::info::error::{Error, Result};
use core::ptr::{null, null_mut};

/// A member of another type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRefProps<'a> {
    /// Its type: `TypeRef`, `TypeSpec`, `TypeDef`, `ModuleRef`, or the `MethodDef` of a vararg
    /// method.
    pub parent: Token,
    /// Its name.
    pub name: String,
    /// Its signature: of a field if it starts with 6, else of a method.
    pub signature: &'a [u8],
}

/// The native function behind a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PInvokeMap {
    /// How it is called.
    pub flags: PInvokeAttributes,
    /// Its name.
    pub name: String,
    /// Its library.
    pub library: ModuleRef,
}

impl Metadata {
    /// The references to members of one type (`EnumMemberRefs`).
    pub fn member_refs(&self, parent: impl Into<Token>) -> TokenEnum<'_, MemberRef> {
        let parent = parent.into();
        self.tokens("EnumMemberRefs", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumMemberRefs(handle, parent, buffer, room, fetched))
        })
    }

    /// The reference to a member of a type by its name, and by its signature if one is given
    /// (`FindMemberRef`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn find_member_ref(
        &self,
        parent: TypeRef,
        name: &str,
        signature: &[u8],
    ) -> Result<Option<MemberRef>> {
        const CALL: &str = "FindMemberRef";
        let name = wide(CALL, name)?;
        let (start, length) = start_and_length(signature);
        let mut member = MemberRef::NIL;
        let hresult =
            raw!(self.import, FindMemberRef(parent, name.as_ptr(), start, length, &mut member));
        found(CALL, hresult, ()).map(|found| found.map(|()| member))
    }

    /// Type, name and signature of a reference to a member (`GetMemberRefProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn member_ref_props(&self, member: MemberRef) -> Result<MemberRefProps<'_>> {
        let (mut parent, mut signature, mut length) = (Token::NIL, null(), 0);
        let name = text("GetMemberRefProps", |buffer, room, needed| {
            raw!(
                self.import,
                GetMemberRefProps(
                    member,
                    &mut parent,
                    buffer,
                    room,
                    needed,
                    &mut signature,
                    &mut length
                )
            )
        })?;
        // SAFETY: the runtime answers with a blob of that length in the scope's memory.
        Ok(MemberRefProps { parent, name, signature: unsafe { blob(signature, length) } })
    }

    /// The signature of a member reference alone, which is less work than [all of
    /// it](Self::member_ref_props) (`GetMemberRefProps`).
    ///
    /// # Errors
    /// As [`Self::member_ref_props`].
    pub fn member_ref_signature(&self, member: MemberRef) -> Result<&[u8]> {
        let (mut signature, mut length) = (null(), 0);
        check(
            "GetMemberRefProps",
            raw!(
                self.import,
                GetMemberRefProps(
                    member,
                    null_mut(),
                    null_mut(),
                    0,
                    null_mut(),
                    &mut signature,
                    &mut length
                )
            ),
        )?;
        // SAFETY: the runtime answers with a blob of that length in the scope's memory.
        Ok(unsafe { blob(signature, length) })
    }

    /// All references to modules, which are also the libraries of native functions
    /// (`EnumModuleRefs`).
    pub fn module_refs(&self) -> TokenEnum<'_, ModuleRef> {
        self.tokens("EnumModuleRefs", |import, handle, buffer, room, fetched| {
            raw!(import, EnumModuleRefs(handle, buffer, room, fetched))
        })
    }

    /// Name of a referenced module or library (`GetModuleRefProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn module_ref_name(&self, module: ModuleRef) -> Result<String> {
        text("GetModuleRefProps", |buffer, room, needed| {
            raw!(self.import, GetModuleRefProps(module, buffer, room, needed))
        })
    }

    /// The native function behind a method (`GetPinvokeMap`); `None` if it has none.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn pinvoke_map(&self, method: impl Into<Token>) -> Result<Option<PInvokeMap>> {
        let method = method.into();
        let (mut flags, mut library) = (0, ModuleRef::NIL);
        let name = text("GetPinvokeMap", |buffer, room, needed| {
            raw!(self.import, GetPinvokeMap(method, &mut flags, buffer, room, needed, &mut library))
        });
        match name {
            Err(Error::Hr { hresult, .. }) if super::types::not_found(hresult) => Ok(None),
            name => Ok(Some(PInvokeMap {
                flags: PInvokeAttributes::from_bits(flags),
                name: name?,
                library,
            })),
        }
    }

    /// All stand-alone signatures (`EnumSignatures`).
    pub fn signatures(&self) -> TokenEnum<'_, Signature> {
        self.tokens("EnumSignatures", |import, handle, buffer, room, fetched| {
            raw!(import, EnumSignatures(handle, buffer, room, fetched))
        })
    }

    /// A stand-alone signature (`GetSigFromToken`): local variables, or the target of `calli`.
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn signature(&self, signature: Signature) -> Result<&[u8]> {
        let (mut start, mut length) = (null(), 0);
        check(
            "GetSigFromToken",
            raw!(self.import, GetSigFromToken(signature, &mut start, &mut length)),
        )?;
        // SAFETY: the runtime answers with a blob of that length in the scope's memory.
        Ok(unsafe { blob(start, length) })
    }

    /// All literal strings (`EnumUserStrings`).
    pub fn user_strings(&self) -> TokenEnum<'_, UserString> {
        self.tokens("EnumUserStrings", |import, handle, buffer, room, fetched| {
            raw!(import, EnumUserStrings(handle, buffer, room, fetched))
        })
    }

    /// A literal string (`GetUserString`), zeros inside included.
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` or `E_INVALIDARG` for an offset that is none.
    pub fn user_string(&self, string: UserString) -> Result<String> {
        // Unlike names, literals come without a zero at the end, so the usual way of reading texts
        // does not fit.
        let units = crate::info::call::list("GetUserString", 128, |room, needed, buffer| {
            raw!(self.import, GetUserString(string, buffer, room, needed))
        })?;
        Ok(utf16(&units))
    }
}
