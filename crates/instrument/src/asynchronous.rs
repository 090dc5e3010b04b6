//! Asynchronous methods: from the call to the end of the task.
//!
//! A compiler makes two methods of one: the method itself, which starts a state machine, and `MoveNext` of that machine, which runs
//! until the first wait, and again after each. Both are rewritten. The method says on its thread that a call begins; the first run of
//! `MoveNext`, which follows at once on the same thread, takes that over. If it ends the task, the call is over. Else the call goes on
//! under the id of the task ([`Task.Id`](https://learn.microsoft.com/dotnet/api/system.threading.tasks.task.id)), until another run of
//! `MoveNext` ends the task with that id. Nothing is allocated, and no continuation is added.

use crate::probes::{self, Probes};
use crate::rewrite::{begin, finish, open, slot_of};
use crate::{Refusal, Scope};
use cil::{
    Edited, InstructionId, MethodBody, MethodEditor, NewInstruction, NewOperand, Opcode, Operand, Primitive, Token,
    TokenKind, TypeSig,
};
use corprof::metadata::Metadata;
use corprof::metadata::token::{MemberRef, MethodDef, TypeDef, TypeRef, TypeSpec};

/// The builder of tasks without and with results.
const BUILDERS: [&str; 2] = [
    "System.Runtime.CompilerServices.AsyncTaskMethodBuilder",
    "System.Runtime.CompilerServices.AsyncTaskMethodBuilder`1",
];
const TASK: &str = "System.Threading.Tasks.Task";
/// `int32 get_Id()`.
const GET_ID: &[u8] = &[0x20, 0, 0x08];
/// Whether tasks have ids: programs are trimmed of what they do not use.
pub(crate) fn tasks_have_ids(core: &Metadata) -> bool {
    let task = core.find_type_def(TASK, None).ok().flatten();
    task.is_some_and(|task| core.find_method(task, "get_Id", GET_ID).is_ok_and(|found| found.is_some()))
}

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
    slot: u32,
    probes: &Probes,
) -> Result<Both, Refusal> {
    let task = task_getter(scope.metadata(), method.body)?;
    Ok(Both { method: start(scope, method, slot, probes)?, machine: run(scope, machine, task, slot, probes)? })
}

/// The method itself: says that a call begins.
fn start(scope: &Scope, source: Source<'_>, slot: u32, probes: &Probes) -> Result<Edited, Refusal> {
    let (mut editor, signature) = open(scope, source)?;
    let call = probes::call(probes.begin_async, scope.count()?);
    begin(&mut editor, [slot_of(slot)].into_iter().chain(call));
    finish(scope, &editor, &signature)
}

/// `get_Task` as the method calls it: its token and its signature.
fn task_getter<'a>(metadata: &'a Metadata, body: &[u8]) -> Result<(Token, &'a [u8]), Refusal> {
    let body = MethodBody::parse(body)?;
    for instruction in body.instructions() {
        let Operand::Token(token) = instruction.map_err(cil::EditError::from)?.operand else { continue };
        if let Some(member) = member(metadata, token).filter(|member| member.name == "get_Task")
            && builder(metadata, member.parent).is_some()
        {
            return Ok((token, member.signature));
        }
    }
    Err(Refusal::NotATask)
}

struct Member<'a> {
    name: String,
    parent: Token,
    signature: &'a [u8],
}

fn member(metadata: &Metadata, token: Token) -> Option<Member<'_>> {
    match token.kind()? {
        TokenKind::MemberRef => {
            let props = metadata.member_ref_props(MemberRef::from_raw(token.0)).ok()?;
            Some(Member { name: props.name, parent: props.parent, signature: props.signature })
        }
        TokenKind::MethodDef => {
            let props = metadata.method_props(MethodDef::from_raw(token.0)).ok()?;
            Some(Member { name: props.name, parent: props.class.into(), signature: props.signature })
        }
        _ => None,
    }
}

/// Whether a type is one of the builders that are known, and with how many type parameters.
fn builder(metadata: &Metadata, of: Token) -> Option<usize> {
    let name = type_name(metadata, of)?;
    BUILDERS.iter().position(|known| *known == name)
}

fn type_name(metadata: &Metadata, of: Token) -> Option<String> {
    match of.kind()? {
        TokenKind::TypeRef => metadata.type_ref_props(TypeRef::from_raw(of.0)).ok().map(|props| props.name),
        TokenKind::TypeDef => metadata.type_def_props(TypeDef::from_raw(of.0)).ok().map(|props| props.name),
        TokenKind::TypeSpec => {
            let blob = metadata.type_spec_signature(TypeSpec::from_raw(of.0)).ok()?;
            match TypeSig::decode(blob).ok()? {
                TypeSig::GenericInst { definition, .. } => match *definition {
                    TypeSig::Class(token) | TypeSig::ValueType(token) if token.kind() != Some(TokenKind::TypeSpec) => {
                        type_name(metadata, token)
                    }
                    _ => None,
                },
                _ => None,
            }
        }
        _ => None,
    }
}

/// A call that ends the task.
struct End {
    at: InstructionId,
    /// Type of the builder, as `MoveNext` names it.
    parent: Token,
    /// The field that holds it.
    field: Token,
    fails: bool,
}

fn ends(metadata: &Metadata, editor: &MethodEditor) -> Result<Vec<End>, Refusal> {
    let mut ends = Vec::new();
    for at in editor.ids() {
        let Some(NewOperand::Plain(Operand::Token(token))) = editor.instruction(at).map(|found| found.operand) else {
            continue;
        };
        let Some(member) = member(metadata, token) else { continue };
        let fails = match member.name.as_str() {
            "SetResult" => false,
            "SetException" => true,
            _ => continue,
        };
        if builder(metadata, member.parent).is_none() {
            continue;
        }
        let field = field_before(editor, at).ok_or(Refusal::NotATask)?;
        ends.push(End { at, parent: member.parent, field, fails });
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
fn run(scope: &Scope, source: Source<'_>, task: (Token, &[u8]), slot: u32, probes: &Probes) -> Result<Edited, Refusal> {
    let (mut editor, signature) = open(scope, source)?;
    let ends = ends(scope.metadata(), &editor)?;
    let Some(first) = ends.first() else { return Err(Refusal::NotATask) };
    let id = id_of(scope, first, task)?;
    let started = editor.add_local(&TypeSig::Primitive(Primitive::I8))?;
    let is_over = editor.add_local(&TypeSig::Primitive(Primitive::I4))?;
    let locals = editor.local_signature().ok_or(cil::EditError::LocalsUnknown)?;
    editor.set_local_signature(scope.signature(&locals)?);

    for end in &ends {
        let (resumed, on) = (editor.label(), editor.label());
        let failed = NewInstruction::ldc_i4(i32::from(end.fails));
        let mut code = vec![
            NewInstruction::ldc_i4(1),
            NewInstruction::stloc(is_over),
            NewInstruction::ldloc(started),
            NewInstruction::branch(Opcode::Brfalse, resumed),
            slot_of(slot),
            NewInstruction::ldloc(started),
            failed.clone(),
        ];
        code.extend(probes::call(probes.end_async, scope.leave()?));
        code.push(NewInstruction::branch(Opcode::Br, on));
        let first_resumed = code.len();
        code.push(slot_of(slot));
        code.extend(id.iter().cloned());
        code.push(failed);
        code.extend(probes::call(probes.completed, scope.completed()?));
        for (index, instruction) in code.into_iter().enumerate() {
            let made = editor.insert_before(end.at, instruction);
            if index == first_resumed {
                editor.bind(resumed, made);
            }
        }
        editor.bind(on, end.at);
    }

    let returns: Vec<InstructionId> =
        editor.ids().filter(|&at| editor.instruction(at).is_some_and(|found| found.opcode == Opcode::Ret)).collect();
    for at in returns {
        let on = editor.label();
        let mut code = vec![
            NewInstruction::ldloc(started),
            NewInstruction::branch(Opcode::Brfalse, on),
            NewInstruction::ldloc(is_over),
            NewInstruction::branch(Opcode::Brtrue, on),
            slot_of(slot),
            NewInstruction::ldloc(started),
        ];
        code.extend(id.iter().cloned());
        code.extend(probes::call(probes.pending, scope.leave()?));
        let mut code = code.into_iter();
        // Everyone who comes to the return comes by here.
        if let Some(first) = code.next() {
            editor.insert_at(at, first);
        }
        for instruction in code {
            editor.insert_before(at, instruction);
        }
        editor.bind(on, at);
    }

    let resume = probes::call(probes.resume_async, scope.enter()?);
    let zero = [NewInstruction::ldc_i4(0), NewInstruction::stloc(is_over)];
    let code = [slot_of(slot)].into_iter().chain(resume).chain([NewInstruction::stloc(started)]).chain(zero);
    begin(&mut editor, code);
    finish(scope, &editor, &signature)
}

/// Loads the id of the task of this machine.
fn id_of(scope: &Scope, end: &End, (getter, signature): (Token, &[u8])) -> Result<[NewInstruction; 4], Refusal> {
    let metadata = scope.metadata();
    let returned = cil::MethodSig::decode(signature)?.return_type;
    let named = match &returned {
        TypeSig::Class(token) => Some(*token),
        TypeSig::GenericInst { definition, .. } => match **definition {
            TypeSig::Class(token) => Some(token),
            _ => None,
        },
        _ => None,
    };
    let named = named.ok_or(Refusal::NotATask)?;
    // Without type arguments the getter is the same in both methods; with some, they are named from elsewhere here.
    let get_task = match end.parent.kind() {
        Some(TokenKind::TypeSpec) => scope.member(end.parent, "get_Task", signature)?,
        _ => getter,
    };
    let get_id = match named.kind() {
        // Only the core library itself.
        Some(TokenKind::TypeDef) => {
            let task = metadata.find_type_def(TASK, None)?.ok_or(Refusal::NotATask)?;
            metadata.find_method(task, "get_Id", GET_ID)?.ok_or(Refusal::NotATask)?.into()
        }
        Some(TokenKind::TypeRef) => {
            let reference = metadata.type_ref_props(TypeRef::from_raw(named.0))?;
            let task = match reference.scope {
                _ if reference.name == TASK => named,
                Some(of) => scope.type_ref(of, TASK)?,
                None => return Err(Refusal::NotATask),
            };
            scope.member(task, "get_Id", GET_ID)?
        }
        _ => return Err(Refusal::NotATask),
    };
    Ok([
        Opcode::Ldarg0.into(),
        NewInstruction::token(Opcode::Ldflda, end.field),
        NewInstruction::token(Opcode::Call, get_task),
        NewInstruction::token(Opcode::Callvirt, get_id),
    ])
}
