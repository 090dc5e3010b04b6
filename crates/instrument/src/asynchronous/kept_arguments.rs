//! Arguments that state machines keep in fields.

use super::Source;
use super::builders::definition;
use crate::arguments::Parameter;
use crate::{Refusal, Scope};
use cil::{Instruction, MethodBody, MethodSig, Opcode, Operand, Token};
use corprof::metadata::Metadata;
use corprof::metadata::token::{FieldDef, MemberRef, TypeDef};
use std::collections::HashSet;

/// The fields in which a state machine keeps the arguments of its method as they were, by the
/// places of parameters.
///
/// # Errors
/// A body that cannot be read.
pub(crate) fn kept(
    metadata: &Metadata,
    method: Source<'_>,
    machine: Source<'_>,
) -> Result<Vec<Option<FieldDef>>, Refusal> {
    let signature = MethodSig::decode(method.signature)?;
    let mut kept = vec![None; signature.parameters.len()];
    let first = usize::from(signature.call_effect().has_this);
    let mut loaded = None;
    for instruction in MethodBody::parse(method.body)?.instructions() {
        let instruction = instruction.map_err(cil::EditError::from)?;
        if let (Opcode::Stfld, Some(argument)) = (instruction.opcode, loaded)
            && let Some(place) =
                usize::from(argument).checked_sub(first).and_then(|index| kept.get_mut(index))
        {
            *place = field(metadata, instruction.operand);
        }
        loaded = argument(&instruction);
    }
    let mut written = HashSet::new();
    for instruction in MethodBody::parse(machine.body)?.instructions() {
        let instruction = instruction.map_err(cil::EditError::from)?;
        if matches!(instruction.opcode, Opcode::Stfld | Opcode::Ldflda) {
            written.extend(field(metadata, instruction.operand));
        }
    }
    for place in &mut kept {
        *place = place.filter(|field| !written.contains(field));
    }
    Ok(kept)
}

/// The argument that an instruction loads.
fn argument(instruction: &Instruction<'_>) -> Option<u16> {
    match (instruction.opcode, instruction.operand) {
        (Opcode::Ldarg | Opcode::LdargS, Operand::Argument(argument)) => Some(argument),
        (opcode, _) => opcode.implied_argument(),
    }
}

/// The field of a type of this module that an operand names, with or without type arguments.
pub(super) fn field(metadata: &Metadata, operand: Operand<'_>) -> Option<FieldDef> {
    let Operand::Token(token) = operand else { return None };
    if let Ok(field) = FieldDef::try_from(token) {
        return Some(field);
    }
    let props = metadata.member_ref_props(MemberRef::try_from(token).ok()?).ok()?;
    let class = TypeDef::try_from(definition(metadata, props.parent)?).ok()?;
    metadata.fields_named(class, &props.name).ok()?.next()?.ok()
}

/// What is shown of arguments, and where they are.
pub(super) struct Kept<'a> {
    pub(super) parameters: &'a [Parameter],
    pub(super) fields: &'a [Option<FieldDef>],
}

impl Kept<'_> {
    /// The field of a parameter as `MoveNext` names it, which names the builder's field so too.
    pub(super) fn token(
        &self,
        scope: &Scope,
        builder: Token,
        index: usize,
    ) -> Result<Token, Refusal> {
        let field = self.fields.get(index).copied().flatten().ok_or(Refusal::NotATask)?;
        match MemberRef::try_from(builder) {
            Ok(builder) => {
                let parent = scope.metadata().member_ref_props(builder)?.parent;
                let field = scope.metadata().field_props(field)?;
                scope.member(parent, &field.name, field.signature)
            }
            Err(_) => Ok(field.into()),
        }
    }
}
