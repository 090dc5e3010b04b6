//! Adding methods, and functions of native libraries that they stand for.

use super::MetadataEmit;
use crate::info::call::{check, raw, wide};
use crate::info::error::Result;
use crate::metadata::methods::start_and_length;
use crate::metadata::token::*;
use crate::metadata::{MethodAttributes, MethodImplAttributes, PInvokeAttributes};

/// A method to be defined.
#[derive(Clone, Copy, Debug)]
pub struct MethodDefinition<'a> {
    /// Its name.
    pub name: &'a str,
    /// Flags.
    pub attributes: MethodAttributes,
    /// Its signature, as [`MethodSig::encode`](crate::signature::MethodSig::encode) makes it.
    pub signature: &'a [u8],
    /// Where its body is in the image; 0 for none, to be set by
    /// [`ProfilerInfo::set_il_function_body`](crate::info::ProfilerInfo::set_il_function_body).
    pub code_rva: u32,
    /// How it is implemented.
    pub implementation: MethodImplAttributes,
}

impl MetadataEmit {
    /// Defines a method (`DefineMethod`); nil as the class makes it a global one.
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_method(
        &self,
        class: TypeDef,
        method: &MethodDefinition<'_>,
    ) -> Result<MethodDef> {
        const CALL: &str = "DefineMethod";
        let name = wide(CALL, method.name)?;
        let (signature, length) = start_and_length(method.signature);
        let mut token = MethodDef::NIL;
        check(
            CALL,
            raw!(
                self.emit,
                DefineMethod(
                    class,
                    name.as_ptr(),
                    method.attributes.bits(),
                    signature,
                    length,
                    method.code_rva,
                    method.implementation.bits(),
                    &mut token,
                )
            ),
        )?;
        Ok(token)
    }

    /// Makes a method the body of another one that it does not match by name (`DefineMethodImpl`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn define_method_impl(
        &self,
        class: TypeDef,
        body: Token,
        declaration: Token,
    ) -> Result<()> {
        check("DefineMethodImpl", raw!(self.emit, DefineMethodImpl(class, body, declaration)))
    }

    /// Changes a method (`SetMethodProps`). What is `None` stays.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_method_props(
        &self,
        method: MethodDef,
        attributes: Option<MethodAttributes>,
        code_rva: Option<u32>,
        implementation: Option<MethodImplAttributes>,
    ) -> Result<()> {
        check(
            "SetMethodProps",
            raw!(
                self.emit,
                SetMethodProps(
                    method,
                    attributes.map_or(u32::MAX, MethodAttributes::bits),
                    code_rva.unwrap_or(u32::MAX),
                    implementation.map_or(u32::MAX, MethodImplAttributes::bits),
                )
            ),
        )
    }

    /// Says how a method is implemented (`SetMethodImplFlags`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_method_impl_flags(
        &self,
        method: MethodDef,
        implementation: MethodImplAttributes,
    ) -> Result<()> {
        check(
            "SetMethodImplFlags",
            raw!(self.emit, SetMethodImplFlags(method, implementation.bits())),
        )
    }

    /// Says where a method's body is in the image (`SetRVA`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_rva(&self, method: MethodDef, rva: u32) -> Result<()> {
        check("SetRVA", raw!(self.emit, SetRVA(method, rva)))
    }

    /// Says which native function is behind a method (`DefinePinvokeMap`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_pinvoke_map(
        &self,
        method: Token,
        flags: PInvokeAttributes,
        name: &str,
        library: ModuleRef,
    ) -> Result<()> {
        const CALL: &str = "DefinePinvokeMap";
        let name = wide(CALL, name)?;
        check(CALL, raw!(self.emit, DefinePinvokeMap(method, flags.bits(), name.as_ptr(), library)))
    }

    /// Changes which native function is behind a method (`SetPinvokeMap`).
    ///
    /// # Errors
    /// As [`Self::define_pinvoke_map`].
    pub fn set_pinvoke_map(
        &self,
        method: Token,
        flags: PInvokeAttributes,
        name: &str,
        library: ModuleRef,
    ) -> Result<()> {
        const CALL: &str = "SetPinvokeMap";
        let name = wide(CALL, name)?;
        check(CALL, raw!(self.emit, SetPinvokeMap(method, flags.bits(), name.as_ptr(), library)))
    }

    /// Takes the native function behind a method away (`DeletePinvokeMap`).
    ///
    /// # Errors
    /// `CLDB_E_RECORD_NOTFOUND` if it has none.
    pub fn delete_pinvoke_map(&self, method: Token) -> Result<()> {
        check("DeletePinvokeMap", raw!(self.emit, DeletePinvokeMap(method)))
    }
}
