//! Asynchronous methods: from the call to the end of the task.
//!
//! A compiler makes two methods of one: the method itself, which starts a state machine, and
//! `MoveNext` of that machine, which runs until the first wait, and again after each. Both are
//! rewritten. The method says on its thread that a call begins. The first run of `MoveNext`, which
//! follows at once on the same thread, takes that over. If this run ends the task, the call is
//! over. Otherwise the call continues under the id of the task
//! ([`Task.Id`](https://learn.microsoft.com/dotnet/api/system.threading.tasks.task.id)), until
//! another run of `MoveNext` ends the task with that id. Nothing is allocated, and no continuation
//! is added.
//!
//! The arguments of the call are gone then. But at the beginning the method has put those that
//! `MoveNext` needs into fields of the machine. They stay there as they were, unless `MoveNext`
//! writes to these fields.
//!
//! From the first wait on, a `ValueTask` stands for a task, unless it is pooled: so its `AsTask`
//! returns that very task. Before that, it stands for a result or nothing at all, and would make a
//! task when asked; a call that never waits is over before anybody asks.

mod builders;
mod kept_arguments;

pub(crate) use builders::Tasks;
pub(crate) use kept_arguments::kept;

use crate::arguments::{Parameter, Showing, plan_fields};
use crate::probes::Probes;
use crate::rewrite::{
    ExceptionExit, begin, finish, insert_for_all, open, slot_of, told_of_exceptions,
};
use crate::{Refusal, Scope, probes};
use builders::{Builder, GET_ID, TASK, TASK_OF, builder, definition, member, named, type_spec};
use cil::{
    CallingConvention, Edited, InstructionId, MethodBody, MethodEditor, MethodSig, NewInstruction,
    NewOperand, Opcode, Operand, Primitive, Token, TokenKind, TypeSig,
};
use corprof::metadata::Metadata;
use corprof::metadata::token::{TypeDef, TypeRef};
use kept_arguments::Kept;

/// How far in front of a call the load of its first argument is looked for.
const BACK: usize = 16;

/// The new bodies of an asynchronous method and of its `MoveNext`.
pub(crate) struct Both {
    pub method: Edited,
    pub machine: Edited,
}

/// Body and signature of a method.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub body: &'a [u8],
    pub signature: &'a [u8],
}

/// Makes both.
///
/// # Errors
/// Why the method is better left alone.
pub(crate) fn rewrite(
    scope: &Scope,
    method: Source<'_>,
    machine: Source<'_>,
    (parameters, guard): (&[Parameter], ExceptionExit),
    tasks: Tasks,
    slot: u32,
    probes: &Probes,
) -> Result<Both, Refusal> {
    let task = task_getter(scope.metadata(), method.body, tasks)?;
    let kept =
        if parameters.is_empty() { Vec::new() } else { kept(scope.metadata(), method, machine)? };
    let machine =
        run(scope, machine, task, &Kept { parameters, fields: &kept }, guard, slot, probes)?;
    Ok(Both { method: start(scope, method, slot, probes)?, machine })
}

/// The method itself: says that a call begins.
fn start(scope: &Scope, source: Source<'_>, slot: u32, probes: &Probes) -> Result<Edited, Refusal> {
    let (mut editor, signature) = open(scope, source)?;
    let call = probes::call(probes.begin_async, scope.call()?);
    begin(&mut editor, [slot_of(slot)].into_iter().chain(call));
    finish(scope, &editor, &signature)
}

/// `get_Task` as the method calls it: its token and its signature.
fn task_getter<'a>(
    metadata: &'a Metadata,
    body: &[u8],
    tasks: Tasks,
) -> Result<(Token, &'a [u8]), Refusal> {
    let body = MethodBody::parse(body)?;
    for instruction in body.instructions() {
        let Operand::Token(token) = instruction.map_err(cil::EditError::from)?.operand else {
            continue;
        };
        let Some(member) = member(metadata, token) else { continue };
        let Some(builder) = builder(metadata, member.parent) else { continue };
        if let Some(refusal) = tasks.refusal(builder) {
            return Err(refusal);
        }
        if member.name == "get_Task" {
            return Ok((token, member.signature));
        }
    }
    Err(Refusal::NotATask)
}

/// A call that ends the task.
struct End {
    at: InstructionId,
    /// Type of the builder, as `MoveNext` names it.
    parent: Token,
    /// The field that holds it.
    field: Token,
    /// `System.Exception`, if it ends by one.
    exception: Option<Token>,
}

fn ends(metadata: &Metadata, editor: &MethodEditor) -> Result<Vec<End>, Refusal> {
    let mut ends = Vec::new();
    for at in editor.ids() {
        let Some(NewOperand::Plain(Operand::Token(token))) =
            editor.instruction(at).map(|found| found.operand)
        else {
            continue;
        };
        let Some(member) = member(metadata, token) else { continue };
        let fails = match member.name.as_str() {
            "SetResult" => false,
            "SetException" => true,
            _ => continue,
        };
        if !matches!(builder(metadata, member.parent), Some(Builder::Task | Builder::ValueTask)) {
            continue;
        }
        let field = field_before(editor, at).ok_or(Refusal::NotATask)?;
        let exception = match MethodSig::decode(member.signature)?.parameters.first() {
            Some(exception) if fails => Some(named(exception).ok_or(Refusal::NotATask)?),
            _ => None,
        };
        ends.push(End { at, parent: member.parent, field, exception });
    }
    if ends.is_empty() { Err(Refusal::NotATask) } else { Ok(ends) }
}

/// The field whose address is the first argument of a call: of `this`, loaded a little earlier.
fn field_before(editor: &MethodEditor, call: InstructionId) -> Option<Token> {
    let mut at = call;
    for _ in 0..BACK {
        at = editor.previous(at);
        let found = editor.instruction(at)?;
        if found.opcode == Opcode::Ldflda
            && let NewOperand::Plain(Operand::Token(field)) = found.operand
        {
            let before = editor.instruction(editor.previous(at))?;
            return (before.opcode == Opcode::Ldarg0).then_some(field);
        }
    }
    None
}

/// `MoveNext`.
fn run(
    scope: &Scope,
    source: Source<'_>,
    task: (Token, &[u8]),
    kept: &Kept<'_>,
    guard: ExceptionExit,
    slot: u32,
    probes: &Probes,
) -> Result<Edited, Refusal> {
    let (mut editor, signature) = open(scope, source)?;
    let ends = ends(scope.metadata(), &editor)?;
    let builder = ends.first().ok_or(Refusal::NotATask)?.field;
    let showing = plan_fields(kept.parameters, |index| kept.token(scope, builder, index))?;
    let calls = Calls::new(scope, probes, showing.is_some())?;
    let started = editor.add_local(&TypeSig::Primitive(Primitive::I8))?;
    let is_over = editor.add_local(&TypeSig::Primitive(Primitive::I4))?;
    let id = id_of(scope, &mut editor, &ends, task)?;
    let depth = match guard {
        ExceptionExit::Own => None,
        ExceptionExit::Catchers | ExceptionExit::OwnAndCatchers => {
            told_of_exceptions(scope, &mut editor, probes)?
        }
    };
    let locals = editor.local_signature().ok_or(cil::EditError::LocalsUnknown)?;
    editor.set_local_signature(scope.signature(&locals)?);

    let run = Run { scope, probes, slot, showing, calls, started, is_over, id };
    for end in &ends {
        run.tell_end(&mut editor, end)?;
    }
    let returns: Vec<InstructionId> = editor
        .ids()
        .filter(|&at| editor.instruction(at).is_some_and(|found| found.opcode == Opcode::Ret))
        .collect();
    for at in returns {
        run.tell_return(&mut editor, at)?;
    }

    let resume = probes::call(probes.resume_async, scope.signature(Probes::RESUME)?);
    let zero = [NewInstruction::ldc_i4(0), NewInstruction::stloc(is_over)];
    let code = [slot_of(slot)]
        .into_iter()
        .chain(resume)
        .chain([NewInstruction::stloc(started)])
        .chain(zero);
    let code = code.chain(depth.into_iter().flatten());
    begin(&mut editor, code);
    finish(scope, &editor, &signature)
}

/// Calls of the probes for how a run of `MoveNext` ends.
struct Calls {
    end_async: [NewInstruction; 3],
    pending: [NewInstruction; 3],
    completed: [NewInstruction; 3],
}

impl Calls {
    /// `telling` is whether the probes tell if arguments are to be shown.
    fn new(scope: &Scope, probes: &Probes, telling: bool) -> Result<Self, Refusal> {
        let three = scope.signature(if telling { Probes::END_TELLING } else { Probes::END })?;
        let resumed_end = if telling {
            scope.signature(Probes::COMPLETED_TELLING)?
        } else {
            scope.completed()?
        };
        let end_async = if telling { probes.end_async_telling } else { probes.end_async };
        let pending = if telling { probes.pending_telling } else { probes.pending };
        let completed = if telling { probes.completed_telling } else { probes.completed };
        Ok(Self {
            end_async: probes::call(end_async, three),
            pending: probes::call(pending, three),
            completed: probes::call(completed, resumed_end),
        })
    }
}

/// What the new code in `MoveNext` is made of.
struct Run<'a> {
    scope: &'a Scope,
    probes: &'a Probes,
    slot: u32,
    showing: Option<Showing>,
    calls: Calls,
    /// Locals: when the call began, if this is its first run, and whether the task has ended.
    started: u16,
    is_over: u16,
    /// Loads the id of the task.
    id: Vec<NewInstruction>,
}

impl Run<'_> {
    /// Reports the end of the task, in front of the call that ends it.
    fn tell_end(&self, editor: &mut MethodEditor, end: &End) -> Result<(), Refusal> {
        let (resumed, ended, on) = (editor.label(), editor.label(), editor.label());
        let failed = NewInstruction::ldc_i4(i32::from(end.exception.is_some()));
        let mut code = vec![
            NewInstruction::ldc_i4(1),
            NewInstruction::stloc(self.is_over),
            NewInstruction::ldloc(self.started),
            NewInstruction::branch(Opcode::Brfalse, resumed),
            slot_of(self.slot),
            NewInstruction::ldloc(self.started),
            failed.clone(),
        ];
        code.extend(self.calls.end_async.iter().cloned());
        code.push(NewInstruction::branch(Opcode::Br, ended));
        let first_resumed = code.len();
        code.push(slot_of(self.slot));
        code.extend(self.id.iter().cloned());
        code.push(failed);
        code.extend(self.calls.completed.iter().cloned());
        let first_ended = code.len();
        if let Some(showing) = &self.showing {
            code.extend(showing.code(self.scope, self.probes, on)?);
        }
        let mut at_ended = end.at;
        for (index, instruction) in code.into_iter().enumerate() {
            let made = editor.insert_before(end.at, instruction);
            if index == first_resumed {
                editor.bind(resumed, made);
            } else if index == first_ended {
                at_ended = made;
            }
        }
        editor.bind(ended, at_ended);
        editor.bind(on, end.at);
        Ok(())
    }

    /// Reports a first run that returns before the task has ended.
    fn tell_return(&self, editor: &mut MethodEditor, at: InstructionId) -> Result<(), Refusal> {
        let on = editor.label();
        let mut code = vec![
            NewInstruction::ldloc(self.started),
            NewInstruction::ldc_i4(0),
            Opcode::ConvI8.into(),
            NewInstruction::branch(Opcode::Ble, on),
            NewInstruction::ldloc(self.is_over),
            NewInstruction::branch(Opcode::Brtrue, on),
            slot_of(self.slot),
            NewInstruction::ldloc(self.started),
        ];
        code.extend(self.id.iter().cloned());
        code.extend(self.calls.pending.iter().cloned());
        if let Some(showing) = &self.showing {
            code.extend(showing.code(self.scope, self.probes, on)?);
        }
        // Everyone who comes to the return comes by here.
        insert_for_all(editor, at, code);
        editor.bind(on, at);
        Ok(())
    }
}

/// Loads the id of the task of this machine, which has waited.
fn id_of(
    scope: &Scope,
    editor: &mut MethodEditor,
    ends: &[End],
    (getter, signature): (Token, &[u8]),
) -> Result<Vec<NewInstruction>, Refusal> {
    let metadata = scope.metadata();
    let end = ends.first().ok_or(Refusal::NotATask)?;
    let is_value_task = builder(metadata, end.parent) == Some(Builder::ValueTask);
    let returned = MethodSig::decode(signature)?.return_type;
    // A type from the assembly that has `Task` as well, which that with `ValueTask` need not be.
    let beside = match (&returned, is_value_task) {
        (_, true) => ends.iter().find_map(|end| end.exception),
        (TypeSig::GenericInst { definition, .. }, false) => named(definition),
        (task, false) => named(task),
    };
    let beside = beside.ok_or(Refusal::NotATask)?;
    // Only the core library has all in itself; another builder of that name is none that is known.
    if definition(metadata, end.parent).and_then(Token::kind) != beside.kind() {
        return Err(Refusal::NotATask);
    }
    // Without type arguments the getter is the same in both methods; with some, they are named from
    // elsewhere here.
    let get_task = match end.parent.kind() {
        Some(TokenKind::TypeSpec) => scope.member(end.parent, "get_Task", signature)?,
        _ => getter,
    };
    let task = core_type(scope, beside, TASK)?;
    let mut code = vec![
        Opcode::Ldarg0.into(),
        NewInstruction::token(Opcode::Ldflda, end.field),
        NewInstruction::token(Opcode::Call, get_task),
    ];
    if is_value_task {
        let (value_task, as_task) = match returned {
            TypeSig::ValueType(of) => {
                (returned, method_of(scope, of, "AsTask", &getter_of(TypeSig::Class(task))?)?)
            }
            TypeSig::GenericInst { definition, .. } => {
                let Some(TypeSig::GenericInst { arguments, .. }) = type_spec(metadata, end.parent)
                else {
                    return Err(Refusal::NotATask);
                };
                let value_task = TypeSig::GenericInst { value_type: true, definition, arguments };
                let task_of = TypeSig::GenericInst {
                    value_type: false,
                    definition: Box::new(TypeSig::Class(core_type(scope, beside, TASK_OF)?)),
                    arguments: vec![TypeSig::TypeParam(0)],
                };
                let of = scope.type_spec(&value_task.encode()?)?;
                (value_task, scope.member(of, "AsTask", &getter_of(task_of)?)?)
            }
            _ => return Err(Refusal::NotATask),
        };
        let local = editor.add_local(&value_task)?;
        let as_task = NewInstruction::token(Opcode::Call, as_task);
        code.extend([NewInstruction::stloc(local), NewInstruction::ldloca(local), as_task]);
    }
    code.push(NewInstruction::token(Opcode::Callvirt, method_of(scope, task, "get_Id", GET_ID)?));
    Ok(code)
}

/// Signature of a method of an object that takes nothing.
fn getter_of(return_type: TypeSig) -> Result<Vec<u8>, Refusal> {
    let convention = CallingConvention::DEFAULT.with_this();
    let signature = MethodSig {
        convention,
        generic_parameters: 0,
        return_type,
        parameters: Vec::new(),
        sentinel: None,
    };
    Ok(signature.encode()?)
}

/// A public type of the core library, from where this module has another one: an assembly that
/// passes on the one passes on the other.
fn core_type(scope: &Scope, beside: Token, name: &str) -> Result<Token, Refusal> {
    let metadata = scope.metadata();
    match beside.kind() {
        // Only the core library itself.
        Some(TokenKind::TypeDef) => {
            Ok(metadata.find_type_def(name, None)?.ok_or(Refusal::NotATask)?.into())
        }
        Some(TokenKind::TypeRef) => {
            let from = metadata.type_ref_props(TypeRef::from_raw(beside.0))?.scope;
            scope.type_ref(from.ok_or(Refusal::NotATask)?, name)
        }
        _ => Err(Refusal::NotATask),
    }
}

/// A method of a type without type arguments.
fn method_of(scope: &Scope, of: Token, name: &str, signature: &[u8]) -> Result<Token, Refusal> {
    match of.kind() {
        // Only in the core library itself.
        Some(TokenKind::TypeDef) => {
            let found = scope.metadata().find_method(TypeDef::from_raw(of.0), name, signature)?;
            Ok(found.ok_or(Refusal::NotATask)?.into())
        }
        _ => scope.member(of, name, signature),
    }
}
