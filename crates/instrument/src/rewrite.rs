//! New bodies: the original one with calls of probes.

use crate::arguments::{self, Parameter};
use crate::asynchronous::Source;
use crate::probes::{self, Probes};
use crate::{Refusal, Scope};
use cil::{
    EditError, Edited, Handler, InstructionId, MethodBody, MethodEditor, MethodShape, MethodSig, NewInstruction,
    Opcode, Operand, Primitive, TypeSig, Verifier,
};
use corprof::metadata::token::Signature;

/// What the new code does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Template {
    /// Calls [`Probes::count`] and then does what the method did.
    Count,
    /// Calls [`Probes::enter`], does what the method did, and calls [`Probes::leave`] however it ends.
    Time,
}

/// Makes the new body of a method and proves its structure.
///
/// `signature` is the blob of the method's own signature; `slot` is what probes are told. With `parameters`, which are then all that
/// the method has, calls that are timed are left by [`Probes::leave_telling`], and their arguments are shown if that asks for them.
///
/// # Errors
/// Why the method is better left alone.
pub fn rewrite(
    scope: &Scope,
    body: &[u8],
    signature: &[u8],
    template: Template,
    parameters: &[Parameter],
    slot: u32,
    probes: &Probes,
) -> Result<Edited, Refusal> {
    let (mut editor, signature) = open(scope, Source { body, signature })?;
    match template {
        Template::Count => count(scope, &mut editor, slot, probes)?,
        Template::Time => time(scope, &mut editor, &signature, parameters, slot, probes)?,
    }
    finish(scope, &editor, &signature)
}

/// Reads a body to change it.
pub(crate) fn open(scope: &Scope, source: Source<'_>) -> Result<(MethodEditor, MethodSig), Refusal> {
    let body = MethodBody::parse(source.body)?;
    let signature = MethodSig::decode(source.signature)?;
    if signature.convention.kind() == cil::CallingConvention::VARARG {
        return Err(Refusal::VariableArguments);
    }
    let locals = match body.header.local_signature.non_nil() {
        Some(token) => Some(scope.metadata().signature(Signature::from_raw(token.0))?),
        None => None,
    };
    Ok((MethodEditor::new(&body, locals)?, signature))
}

/// Lays the new body out and proves its structure.
pub(crate) fn finish(scope: &Scope, editor: &MethodEditor, signature: &MethodSig) -> Result<Edited, Refusal> {
    let effect = signature.call_effect();
    let locals = match editor.local_signature() {
        Some(blob) => cil::count_locals(&blob)?,
        None => 0,
    };
    let arguments = effect.parameters.saturating_add(u16::from(effect.has_this));
    let shape = MethodShape { arguments, locals, returns: effect.returns };
    Ok(editor.finish_verified(shape, scope, &mut Verifier::default())?)
}

/// In front of the first instruction, and of no loop that comes back to it.
pub(crate) fn begin(editor: &mut MethodEditor, code: impl IntoIterator<Item = NewInstruction>) {
    let first = editor.first();
    for instruction in code {
        editor.insert_before(first, instruction);
    }
}

/// Never in one of the short forms: so new bodies of the same method differ in nothing but the number itself.
pub(crate) fn slot_of(slot: u32) -> NewInstruction {
    NewInstruction::plain(Opcode::LdcI4, Operand::Int32(slot.cast_signed()))
}

fn count(scope: &Scope, editor: &mut MethodEditor, slot: u32, probes: &Probes) -> Result<(), Refusal> {
    let call = probes::call(probes.count, scope.count()?);
    begin(editor, [slot_of(slot)].into_iter().chain(call));
    Ok(())
}

fn time(
    scope: &Scope,
    editor: &mut MethodEditor,
    signature: &MethodSig,
    parameters: &[Parameter],
    slot: u32,
    probes: &Probes,
) -> Result<(), Refusal> {
    let ends_by_a_call =
        |id| editor.instruction(id).is_some_and(|instruction| matches!(instruction.opcode, Opcode::Tail | Opcode::Jmp));
    if editor.ids().any(ends_by_a_call) {
        return Err(Refusal::TailCall);
    }
    let entered = editor.add_local(&TypeSig::Primitive(Primitive::I8))?;
    let result = match signature.return_type.unmodified() {
        TypeSig::Primitive(Primitive::Void) => None,
        TypeSig::Primitive(Primitive::TypedByRef) => return Err(Refusal::Returns),
        returned => Some(editor.add_local(returned)?),
    };
    let showing = arguments::plan(editor, signature, parameters)?;
    let locals = editor.local_signature().ok_or(EditError::LocalsUnknown)?;
    editor.set_local_signature(scope.signature(&locals)?);

    let leave = match showing {
        Some(_) => probes::call(probes.leave_telling, scope.signature(Probes::LEAVE_TELLING)?),
        None => probes::call(probes.leave, scope.leave()?),
    };
    let leaves = |failed| {
        let arguments = [slot_of(slot), NewInstruction::ldloc(entered), NewInstruction::ldc_i4(failed)];
        arguments.into_iter().chain(leave.clone())
    };
    editor.wrap_body(Handler::Fault(leaves(1).collect()), result)?;
    let (after_fault, after) = (editor.label(), editor.label());
    let mut normal: Vec<NewInstruction> = leaves(0).collect();
    if let Some(showing) = &showing {
        let at = end_of_fault(editor);
        for instruction in showing.code(scope, probes, after_fault)? {
            editor.insert_before(at, instruction);
        }
        editor.bind(after_fault, at);
        normal.extend(showing.code(scope, probes, after)?);
    }
    if let Some(at) = returning(editor, result.is_some(), normal) {
        editor.bind(after, at);
    }
    let enter = probes::call(probes.enter, scope.enter()?);
    let saves = showing.into_iter().flat_map(|showing| showing.saves);
    begin(editor, saves.chain([slot_of(slot)]).chain(enter).chain([NewInstruction::stloc(entered)]));
    Ok(())
}

/// The instruction that ends the handler of a wrapped body: the last of its kind.
fn end_of_fault(editor: &MethodEditor) -> InstructionId {
    let mut at = editor.previous(MethodEditor::END);
    while at != MethodEditor::END && editor.instruction(at).is_none_or(|found| found.opcode != Opcode::Endfinally) {
        at = editor.previous(at);
    }
    at
}

/// In front of the one `ret` of a wrapped body and the load of the result, for everyone who gets there; gives what follows. A method that
/// never returns has none.
fn returning(editor: &mut MethodEditor, returns: bool, code: Vec<NewInstruction>) -> Option<InstructionId> {
    let mut at = editor.previous(MethodEditor::END);
    if editor.instruction(at).is_none_or(|last| last.opcode != Opcode::Ret) {
        return None;
    }
    if returns {
        at = editor.previous(at);
    }
    let mut code = code.into_iter();
    // The first takes over the labels.
    if let Some(first) = code.next() {
        editor.insert_at(at, first);
    }
    for instruction in code {
        editor.insert_before(at, instruction);
    }
    Some(at)
}
