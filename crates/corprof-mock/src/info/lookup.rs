//! Finds functions, classes and code of the model by their ids, tokens and addresses.

use com::HResult;
use com::codes::CORPROF_E_FUNCTION_NOT_COMPILED;
use com::hresult::E_INVALIDARG;
use corprof::abi::*;
use corprof::ids::*;

use crate::model::{Class, CodeBody, Function, Model};

pub(super) fn known<T>(value: Option<T>) -> Result<T, HResult> {
    value.ok_or(E_INVALIDARG)
}

impl Model {
    pub(super) fn function(&self, id: FunctionId) -> Result<&Function, HResult> {
        known(self.functions.get(&id))
    }

    pub(super) fn class(&self, id: ClassId) -> Result<&Class, HResult> {
        known(self.classes.get(&id))
    }

    pub(super) fn function_at(&self, ip: usize) -> Result<(FunctionId, ReJitId), HResult> {
        let mut bodies = self
            .functions
            .iter()
            .flat_map(|(id, function)| function.bodies.iter().map(move |body| (id, body)));
        let found = bodies.find(|(_, body)| body.contains(ip)).map(|(id, body)| (*id, body.rejit));
        found.ok_or(com::hresult::E_FAIL)
    }

    pub(super) fn body(&self, id: FunctionId, rejit: ReJitId) -> Result<&CodeBody, HResult> {
        let mut bodies = self.function(id)?.bodies.iter();
        bodies.find(|body| body.rejit == rejit).ok_or(CORPROF_E_FUNCTION_NOT_COMPILED)
    }

    pub(super) fn body_at_start(&self, start: usize) -> Result<&CodeBody, HResult> {
        let mut bodies = self.functions.values().flat_map(|function| &function.bodies);
        known(
            bodies
                .find(|body| body.pieces.first().is_some_and(|piece| piece.start_address == start)),
        )
    }

    pub(super) fn function_by_token(
        &self,
        module: ModuleId,
        token: mdToken,
        type_arguments: &[ClassId],
    ) -> Result<FunctionId, HResult> {
        let mut functions = self.functions.iter();
        let found = functions.find(|(_, function)| {
            function.module == module
                && function.token.raw() == token.0
                && function.dynamic_name.is_none()
                && function.type_arguments == type_arguments
        });
        known(found.map(|(id, _)| *id))
    }

    pub(super) fn class_by_token(
        &self,
        module: ModuleId,
        token: mdTypeDef,
        type_arguments: &[ClassId],
    ) -> Result<ClassId, HResult> {
        let mut classes = self.classes.iter();
        let found = classes.find(|(_, class)| {
            class.module == module
                && class.token == token
                && class.array.is_none()
                && class.type_arguments == type_arguments
        });
        known(found.map(|(id, _)| *id))
    }

    pub(super) fn compiled(&self) -> Vec<COR_PRF_FUNCTION> {
        let functions = self.functions.iter();
        functions
            .flat_map(|(id, function)| {
                function
                    .bodies
                    .iter()
                    .map(|body| COR_PRF_FUNCTION { function_id: *id, rejit_id: body.rejit })
            })
            .collect()
    }
}

/// # Safety
///
/// Null, or `len` values.
pub(super) unsafe fn slice<'a, T>(start: *const T, len: u32) -> &'a [T] {
    // SAFETY: this function's contract.
    if start.is_null() { &[] } else { unsafe { core::slice::from_raw_parts(start, len as usize) } }
}
