//! Methods and their parameters.

use super::constant::Constant;
use super::token::*;
use super::types::not_found;
use super::{
    Metadata, MethodAttributes, MethodImplAttributes, MethodSemanticsAttributes, ParamAttributes,
    TokenEnum,
};
use crate::info::call::{blob, check, found, raw, text, text_into, wide};
use crate::info::error::Result;
use com::HResult;
use core::ptr::{null, null_mut};

/// A method of this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodProps<'a> {
    /// Its type; nil for a global one.
    pub class: TypeDef,
    /// Its name.
    pub name: String,
    /// Flags.
    pub attributes: MethodAttributes,
    /// Its signature, for [`MethodSig::decode`](crate::signature::MethodSig::decode).
    pub signature: &'a [u8],
    /// Where its body is in the image; 0 if it has none.
    pub code_rva: u32,
    /// How it is implemented.
    pub implementation: MethodImplAttributes,
}

/// A parameter of a method of this module.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamProps {
    /// Its method.
    pub method: MethodDef,
    /// Its place, from 1; 0 is the return value.
    pub sequence: u32,
    /// Its name.
    pub name: String,
    /// Flags.
    pub attributes: ParamAttributes,
    /// Its default value.
    pub default: Option<Constant>,
}

impl Metadata {
    /// The methods of a type, nil for the global ones (`EnumMethods`).
    pub fn methods(&self, class: TypeDef) -> TokenEnum<'_, MethodDef> {
        self.tokens("EnumMethods", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumMethods(handle, class, buffer, room, fetched))
        })
    }

    /// The methods of a type that have this name (`EnumMethodsWithName`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn methods_named(&self, class: TypeDef, name: &str) -> Result<TokenEnum<'_, MethodDef>> {
        let name = wide("EnumMethodsWithName", name)?;
        Ok(self.tokens("EnumMethodsWithName", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumMethodsWithName(handle, class, name.as_ptr(), buffer, room, fetched))
        }))
    }

    /// The method of a type with this name, and with this signature if one is given (`FindMethod`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn find_method(
        &self,
        class: TypeDef,
        name: &str,
        signature: &[u8],
    ) -> Result<Option<MethodDef>> {
        const CALL: &str = "FindMethod";
        let name = wide(CALL, name)?;
        let (start, length) = start_and_length(signature);
        let mut method = MethodDef::NIL;
        let hresult =
            raw!(self.import, FindMethod(class, name.as_ptr(), start, length, &mut method));
        found(CALL, hresult, ()).map(|found| found.map(|()| method))
    }

    /// Name, flags and signature of a method (`GetMethodProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn method_props(&self, method: MethodDef) -> Result<MethodProps<'_>> {
        let mut name = String::new();
        let mut props = self.method_into(method, &mut name)?;
        props.name = name;
        Ok(props)
    }

    /// As [`Self::method_props`], with the name appended to `name` and that of the answer left
    /// empty: for those who build longer names.
    ///
    /// # Errors
    /// As [`Self::method_props`].
    pub fn method_into(&self, method: MethodDef, name: &mut String) -> Result<MethodProps<'_>> {
        self.method_with(method, |ask| text_into(name, "GetMethodProps", ask))
    }

    /// `name` asks once or more often, with room for the name.
    fn method_with(
        &self,
        method: MethodDef,
        name: impl FnOnce(&mut dyn FnMut(*mut u16, u32, *mut u32) -> HResult) -> Result<()>,
    ) -> Result<MethodProps<'_>> {
        let (mut class, mut attributes, mut code_rva, mut implementation) = (TypeDef::NIL, 0, 0, 0);
        let (mut signature, mut length) = (null(), 0);
        name(&mut |buffer, room, needed| {
            raw!(
                self.import,
                GetMethodProps(
                    method,
                    &mut class,
                    buffer,
                    room,
                    needed,
                    &mut attributes,
                    &mut signature,
                    &mut length,
                    &mut code_rva,
                    &mut implementation,
                )
            )
        })?;
        Ok(MethodProps {
            class,
            name: String::new(),
            attributes: MethodAttributes::from_bits(attributes),
            // SAFETY: the runtime answers with a blob of that length in the scope's memory.
            signature: unsafe { blob(signature, length) },
            code_rva,
            implementation: MethodImplAttributes::from_bits(implementation),
        })
    }

    /// As [`Self::method_props`], without the name, which is most of the work.
    ///
    /// # Errors
    /// As [`Self::method_props`].
    pub fn method_unnamed(&self, method: MethodDef) -> Result<MethodProps<'_>> {
        self.method_with(method, |ask| check("GetMethodProps", ask(null_mut(), 0, null_mut())))
    }

    /// Where the body of a method, or the bytes of a field, are in the image, and how a method is
    /// implemented (`GetRVA`).
    ///
    /// # Errors
    /// `CLDB_E_RECORD_NOTFOUND` for a field without bytes.
    pub fn rva(&self, member: impl Into<Token>) -> Result<(u32, MethodImplAttributes)> {
        let (mut rva, mut implementation) = (0, 0);
        check("GetRVA", raw!(self.import, GetRVA(member.into(), &mut rva, &mut implementation)))?;
        Ok((rva, MethodImplAttributes::from_bits(implementation)))
    }

    /// The explicit overrides of a type: body and declaration (`EnumMethodImpls`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn method_impls(&self, class: TypeDef) -> Result<Vec<(Token, Token)>> {
        const BATCH: usize = 16;
        let mut open =
            super::enumerate::OpenEnum::new(super::enumerate::Scope::Import(&self.import));
        let mut pairs = Vec::new();
        loop {
            let (mut bodies, mut declarations, mut fetched) =
                ([Token::NIL; BATCH], [Token::NIL; BATCH], 0);
            check(
                "EnumMethodImpls",
                raw!(
                    self.import,
                    EnumMethodImpls(
                        &mut open.handle,
                        class,
                        bodies.as_mut_ptr(),
                        declarations.as_mut_ptr(),
                        BATCH as u32,
                        &mut fetched,
                    )
                ),
            )?;
            if fetched == 0 {
                return Ok(pairs);
            }
            pairs.extend(bodies.into_iter().zip(declarations).take(fetched as usize));
        }
    }

    /// The properties and events that a method is an accessor of (`EnumMethodSemantics`).
    pub fn method_semantics_of(&self, method: MethodDef) -> TokenEnum<'_, Token> {
        self.tokens("EnumMethodSemantics", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumMethodSemantics(handle, method, buffer, room, fetched))
        })
    }

    /// What a method is for a property or event (`GetMethodSemantics`); `None` if nothing.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn method_semantics(
        &self,
        method: MethodDef,
        of: impl Into<Token>,
    ) -> Result<Option<MethodSemanticsAttributes>> {
        let mut semantics = 0;
        let hresult = raw!(self.import, GetMethodSemantics(method, of.into(), &mut semantics));
        found("GetMethodSemantics", hresult, ())
            .map(|found| found.map(|()| MethodSemanticsAttributes::from_bits(semantics)))
    }

    /// The parameters of a method that metadata has something to say of (`EnumParams`).
    pub fn params(&self, method: MethodDef) -> TokenEnum<'_, ParamDef> {
        self.tokens("EnumParams", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumParams(handle, method, buffer, room, fetched))
        })
    }

    /// The parameter of a method at this place, from 1; 0 is the return value
    /// (`GetParamForMethodIndex`). `None` if metadata has nothing to say of it.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn param_at(&self, method: MethodDef, sequence: u32) -> Result<Option<ParamDef>> {
        let mut param = ParamDef::NIL;
        let hresult = raw!(self.import, GetParamForMethodIndex(method, sequence, &mut param));
        Ok(found("GetParamForMethodIndex", hresult, ())?.and_then(|()| param.non_nil()))
    }

    /// Name, place and default of a parameter (`GetParamProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn param_props(&self, param: ParamDef) -> Result<ParamProps> {
        let (mut method, mut sequence, mut attributes) = (MethodDef::NIL, 0, 0);
        let (mut element, mut value, mut units) = (0, null(), 0);
        let name = text("GetParamProps", |buffer, room, needed| {
            raw!(
                self.import,
                GetParamProps(
                    param,
                    &mut method,
                    &mut sequence,
                    buffer,
                    room,
                    needed,
                    &mut attributes,
                    &mut element,
                    &mut value,
                    &mut units,
                )
            )
        })?;
        Ok(ParamProps {
            method,
            sequence,
            name,
            attributes: ParamAttributes::from_bits(attributes),
            // SAFETY: the runtime answers with a constant of that type in the scope's memory, or
            // null.
            default: unsafe { Constant::read(element, value, units) },
        })
    }

    /// Flags of a parameter alone, without reading its name.
    ///
    /// # Errors
    /// As [`Self::param_props`].
    pub fn param_attributes(&self, param: ParamDef) -> Result<ParamAttributes> {
        let mut attributes = 0;
        check(
            "GetParamProps",
            raw!(
                self.import,
                GetParamProps(
                    param,
                    null_mut(),
                    null_mut(),
                    null_mut(),
                    0,
                    null_mut(),
                    &mut attributes,
                    null_mut(),
                    null_mut(),
                    null_mut(),
                )
            ),
        )?;
        Ok(ParamAttributes::from_bits(attributes))
    }

    /// How a parameter or field is marshalled to native code (`GetFieldMarshal`); `None` if nothing
    /// is said.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn marshalling(&self, of: impl Into<Token>) -> Result<Option<&[u8]>> {
        let (mut start, mut length) = (null(), 0);
        let hresult = raw!(self.import, GetFieldMarshal(of.into(), &mut start, &mut length));
        if not_found(hresult) {
            return Ok(None);
        }
        check("GetFieldMarshal", hresult)?;
        // SAFETY: the runtime answers with a blob of that length in the scope's memory.
        Ok(Some(unsafe { blob(start, length) }))
    }

    /// Methods that are declared but defined nowhere (`EnumUnresolvedMethods`): only in what a
    /// compiler emits.
    pub fn unresolved_methods(&self) -> TokenEnum<'_, Token> {
        self.tokens("EnumUnresolvedMethods", |import, handle, buffer, room, fetched| {
            raw!(import, EnumUnresolvedMethods(handle, buffer, room, fetched))
        })
    }

    /// The native calling convention that the modifiers of a signature's return type state
    /// (`GetNativeCallConvFromSig`): a value of `CorPinvokeMap`'s call convention bits.
    ///
    /// # Errors
    /// `E_NOTIMPL` on .NET (Core).
    pub fn native_call_convention(&self, signature: &[u8]) -> Result<u32> {
        let mut convention = 0;
        let (start, length) = start_and_length(signature);
        check(
            "GetNativeCallConvFromSig",
            raw!(self.import, GetNativeCallConvFromSig(start, length, &mut convention)),
        )?;
        Ok(convention)
    }

    /// Whether a method or field belongs to no type (`IsGlobal`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for another kind of token.
    pub fn is_global(&self, member: impl Into<Token>) -> Result<bool> {
        let mut global = 0;
        check("IsGlobal", raw!(self.import, IsGlobal(member.into(), &mut global)))?;
        Ok(global != 0)
    }
}

/// A slice as the runtime wants it; an empty one is null, which means "any".
pub(super) fn start_and_length(bytes: &[u8]) -> (*const u8, u32) {
    if bytes.is_empty() { (null(), 0) } else { (bytes.as_ptr(), bytes.len() as u32) }
}
