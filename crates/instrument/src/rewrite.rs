//! New bodies: the original one with calls of probes.

use crate::arguments::{self, Parameter};
use crate::asynchronous::Source;
use crate::probes::{self, Probes};
use crate::{Refusal, Scope};
use cil::{
    EditError, Edited, Handler, InstructionId, MethodBody, MethodEditor, MethodShape, MethodSig,
    NewInstruction, Opcode, Operand, OperandKind, Primitive, TypeSig, Verifier,
};
use corprof::metadata::token::Signature;

/// What the new code does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Template {
    /// Calls [`Probes::count`] and then does what the method did.
    Count,
    /// Calls [`Probes::enter`], does what the method did, and calls [`Probes::leave`] or
    /// [`Probes::fail`].
    Time,
}

/// How the end of a call by an exception is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceptionExit {
    /// By a handler around the whole body.
    Own,
    /// By all that may catch it, which are instrumented in this way as well: with a handler in each
    /// method, a program takes a tenth longer to start.
    Catchers,
    /// By a handler, while what it calls may do without.
    OwnAndCatchers,
}

/// Makes the new body of a method and proves its structure.
///
/// `signature` is the blob of the method's own signature; `slot` is the number that probes receive.
/// With `parameters`, which are then all that the method has, calls that are timed are left by
/// [`Probes::leave_telling`], and their arguments are shown if that probe asks for them.
///
/// # Errors
/// Why the method is better left alone.
pub fn rewrite(
    scope: &Scope,
    body: &[u8],
    signature: &[u8],
    (template, guard): (Template, ExceptionExit),
    parameters: &[Parameter],
    slot: u32,
    probes: &Probes,
) -> Result<Edited, Refusal> {
    let (mut editor, signature) = open(scope, Source { body, signature })?;
    match template {
        Template::Count => count(scope, &mut editor, slot, probes)?,
        Template::Time if guard == ExceptionExit::Catchers => {
            time_unguarded(scope, &mut editor, &signature, slot, probes.enter_unguarded, probes)?;
        }
        Template::Time => time(scope, &mut editor, &signature, parameters, guard, slot, probes)?,
    }
    finish(scope, &editor, &signature)
}

/// Reads a body to change it.
pub(crate) fn open(
    scope: &Scope,
    source: Source<'_>,
) -> Result<(MethodEditor, MethodSig), Refusal> {
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
pub(crate) fn finish(
    scope: &Scope,
    editor: &MethodEditor,
    signature: &MethodSig,
) -> Result<Edited, Refusal> {
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

/// Never in one of the short forms: so new bodies of the same method differ in nothing but the
/// number itself.
pub(crate) fn slot_of(slot: u32) -> NewInstruction {
    NewInstruction::plain(Opcode::LdcI4, Operand::Int32(slot.cast_signed()))
}

fn count(
    scope: &Scope,
    editor: &mut MethodEditor,
    slot: u32,
    probes: &Probes,
) -> Result<(), Refusal> {
    let call = probes::call(probes.count, scope.call()?);
    begin(editor, [slot_of(slot)].into_iter().chain(call));
    Ok(())
}

fn time(
    scope: &Scope,
    editor: &mut MethodEditor,
    signature: &MethodSig,
    parameters: &[Parameter],
    guard: ExceptionExit,
    slot: u32,
    probes: &Probes,
) -> Result<(), Refusal> {
    if parameters.is_empty() && end_of_accessor(editor, signature).is_some() {
        return time_unguarded(scope, editor, signature, slot, probes.enter, probes);
    }
    returns(editor)?;
    let result = match signature.return_type.unmodified() {
        TypeSig::Primitive(Primitive::Void) => None,
        TypeSig::Primitive(Primitive::TypedByRef) => return Err(Refusal::Returns),
        // Nobody needs any of the others where the method returns. The runtime looks through all
        // signatures that there are for a new one.
        returned => Some(editor.local_of(returned).map_or_else(|| editor.add_local(returned), Ok)?),
    };
    let showing = arguments::plan(editor, signature, parameters)?;
    let depth = match guard {
        ExceptionExit::Own => None,
        ExceptionExit::Catchers | ExceptionExit::OwnAndCatchers => {
            told_of_exceptions(scope, editor, probes)?
        }
    };
    if editor.has_new_locals() {
        let locals = editor.local_signature().ok_or(EditError::LocalsUnknown)?;
        editor.set_local_signature(scope.signature(&locals)?);
    }

    let (leave, fail, returned) = match showing {
        Some(_) => {
            (probes.leave_telling, probes.fail_telling, scope.signature(Probes::CALL_TELLING)?)
        }
        None => (probes.leave, probes.fail, scope.call()?),
    };
    let ends = |probe| [slot_of(slot)].into_iter().chain(probes::call(probe, returned));
    editor.wrap_body(Handler::Fault(ends(fail).collect()), result)?;
    let (after_fault, after) = (editor.label(), editor.label());
    let mut normal: Vec<NewInstruction> = ends(leave).collect();
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
    let saves = showing.into_iter().flat_map(|showing| showing.saves);
    let enter = [slot_of(slot)].into_iter().chain(probes::call(probes.enter, scope.call()?));
    begin(editor, saves.chain(enter).chain(depth.into_iter().flatten()));
    Ok(())
}

/// Refuses methods that end by a call.
fn returns(editor: &MethodEditor) -> Result<(), Refusal> {
    let ends_by_a_call = |id| {
        editor
            .instruction(id)
            .is_some_and(|instruction| matches!(instruction.opcode, Opcode::Tail | Opcode::Jmp))
    };
    if editor.ids().any(ends_by_a_call) { Err(Refusal::TailCall) } else { Ok(()) }
}

/// Times a method without a handler: what is returned stays where it is. `enter` is the probe that
/// is called at the beginning.
fn time_unguarded(
    scope: &Scope,
    editor: &mut MethodEditor,
    signature: &MethodSig,
    slot: u32,
    enter: usize,
    probes: &Probes,
) -> Result<(), Refusal> {
    returns(editor)?;
    if *signature.return_type.unmodified() == TypeSig::Primitive(Primitive::TypedByRef) {
        return Err(Refusal::Returns);
    }
    let call = scope.call()?;
    let tell = |probe| [slot_of(slot)].into_iter().chain(probes::call(probe, call));
    let is_ret = |&at: &InstructionId| {
        editor.instruction(at).is_some_and(|found| found.opcode == Opcode::Ret)
    };
    let rets: Vec<InstructionId> = editor.ids().filter(is_ret).collect();
    for ret in rets {
        insert_for_all(editor, ret, tell(probes.leave));
    }
    let depth = told_of_exceptions(scope, editor, probes)?;
    if depth.is_some() {
        let locals = editor.local_signature().ok_or(EditError::LocalsUnknown)?;
        editor.set_local_signature(scope.signature(&locals)?);
    }
    begin(editor, tell(enter).chain(depth.into_iter().flatten()));
    Ok(())
}

/// Has handlers tell that an exception was caught here, and gives what is to be done before any of
/// them can run: `None` if there are none. A local is new then.
pub(crate) fn told_of_exceptions(
    scope: &Scope,
    editor: &mut MethodEditor,
    probes: &Probes,
) -> Result<Option<Vec<NewInstruction>>, Refusal> {
    let handlers = editor.exception_handlers();
    if handlers.is_empty() {
        return Ok(None);
    }
    let local = editor.add_local(&TypeSig::Primitive(Primitive::I4))?;
    for handler in handlers {
        let unwound = probes::call(probes.unwound, scope.call()?);
        insert_for_all(editor, handler, [NewInstruction::ldloc(local)].into_iter().chain(unwound));
    }
    let depth = probes::call(probes.depth, scope.signature(Probes::DEPTH)?);
    Ok(Some(depth.into_iter().chain([NewInstruction::stloc(local)]).collect()))
}

/// In front of an instruction, for everyone who gets there.
pub(crate) fn insert_for_all(
    editor: &mut MethodEditor,
    at: InstructionId,
    code: impl IntoIterator<Item = NewInstruction>,
) {
    let mut code = code.into_iter();
    // The first takes over the labels.
    if let Some(first) = code.next() {
        editor.insert_at(at, first);
    }
    for instruction in code {
        editor.insert_before(at, instruction);
    }
}

/// Of a constant, an argument or a local, or of the address of one.
fn is_load(opcode: Opcode) -> bool {
    use OperandKind::{
        Argument8, Argument16, Float32, Float64, Int8, Int32, Int64, Local8, Local16, None, String,
    };
    let of = opcode.operand();
    let is_plain = matches!(
        of,
        None | Argument8
            | Argument16
            | Local8
            | Local16
            | Int8
            | Int32
            | Int64
            | Float32
            | Float64
            | String
    );
    is_plain && opcode.pops() == Some(0) && opcode.pushes() == Some(1)
}

/// Into a local.
fn is_store(opcode: Opcode) -> bool {
    let is_of_local = opcode.implied_local().is_some()
        || matches!(opcode.operand(), OperandKind::Local8 | OperandKind::Local16);
    is_of_local && opcode.pops() == Some(1)
}

/// The `ret` of a method that does nothing but load, and load and store fields of its own object:
/// one that no exception leaves, so that it needs no handler. There are many of them.
fn end_of_accessor(editor: &MethodEditor, signature: &MethodSig) -> Option<InstructionId> {
    let has_this = signature.convention.has_this();
    // What is on the stack: whether it is that object.
    let mut stack = Vec::new();
    let mut ids = editor.ids();
    for id in &mut ids {
        match editor.instruction(id)?.opcode {
            Opcode::Nop => {}
            Opcode::Ldarg0 => stack.push(has_this),
            load if is_load(load) => stack.push(false),
            store if is_store(store) => drop(stack.pop()?),
            Opcode::Ldfld | Opcode::Ldflda => {
                stack.pop().filter(|is_own| *is_own)?;
                stack.push(false);
            }
            Opcode::Stfld => {
                stack.pop()?;
                stack.pop().filter(|is_own| *is_own)?;
            }
            Opcode::Ret => return ids.next().is_none().then_some(id),
            _ => return None,
        }
    }
    None
}

/// The instruction that ends the handler of a wrapped body: the last of its kind.
fn end_of_fault(editor: &MethodEditor) -> InstructionId {
    let mut at = editor.previous(MethodEditor::END);
    while at != MethodEditor::END
        && editor.instruction(at).is_none_or(|found| found.opcode != Opcode::Endfinally)
    {
        at = editor.previous(at);
    }
    at
}

/// In front of the one `ret` of a wrapped body and the load of the result, for everyone who gets
/// there; gives what follows. A method that never returns has none.
fn returning(
    editor: &mut MethodEditor,
    returns: bool,
    code: Vec<NewInstruction>,
) -> Option<InstructionId> {
    let mut at = editor.previous(MethodEditor::END);
    if editor.instruction(at).is_none_or(|last| last.opcode != Opcode::Ret) {
        return None;
    }
    if returns {
        at = editor.previous(at);
    }
    insert_for_all(editor, at, code);
    Some(at)
}
