//! What [`crate::rewrite::direct`] needs in a module.

use super::module::LoadedModule;
use super::refused;
use crate::rewrite::direct::{
    Direct, HOLDER_TYPE, RESOLVE, base_type, fields, resolve_body, resolve_signature,
};
use crate::rewrite::helpers::{
    FIELD_ATTRIBUTES, FIELDS_TYPE_ATTRIBUTES, HELPER_ATTRIBUTES, HELPER_IMPLEMENTATION,
};
use crate::rewrite::{Refusal, Settings};
use cil::Token;
use corprof::metadata::{
    FieldAttributes, FieldDefinition, MethodAttributes, MethodDefinition, MethodImplAttributes,
    TypeAttributes,
};

impl LoadedModule {
    /// Adds the type with the delegate to the module and makes it known to the runtime. Do it once
    /// for a module, before the first of its methods is rewritten.
    ///
    /// # Errors
    /// The metadata cannot be extended.
    pub fn define_direct(&mut self, settings: &Settings<'_>) -> Result<Direct, Refusal> {
        let base = base_type(settings, self)?;
        let fields = fields(settings, self)?;
        let resolve_signature = resolve_signature(settings, self)?;
        let attributes = TypeAttributes::from_bits(FIELDS_TYPE_ATTRIBUTES);
        let holder =
            self.emit.define_type_def(HOLDER_TYPE, attributes, base, &[]).map_err(refused)?;
        let fields = fields.try_map(|field| {
            let definition = FieldDefinition {
                name: field.name,
                attributes: FieldAttributes::from_bits(FIELD_ATTRIBUTES),
                signature: &field.signature,
                constant: None,
            };
            self.emit.define_field(holder, &definition).map(Token::from).map_err(refused)
        })?;
        let resolve = MethodDefinition {
            name: RESOLVE,
            attributes: MethodAttributes::from_bits(HELPER_ATTRIBUTES),
            signature: &resolve_signature,
            // Its body is set at once.
            code_rva: 0,
            implementation: MethodImplAttributes::from_bits(HELPER_IMPLEMENTATION),
        };
        let resolve = self.emit.define_method(holder, &resolve).map_err(refused)?;
        let body = resolve_body(fields, settings, self)?;
        self.info.apply_metadata(self.id).map_err(refused)?;
        self.info.set_il_function_body(self.id, resolve, &body).map_err(refused)?;
        Ok(Direct { field: fields.start, resolve: resolve.into() })
    }
}
