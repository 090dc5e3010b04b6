//! The shortest way to the managed agent: a delegate for its method, in a static field of the
//! module.
//!
//! The agent's own profiler boxes what it passes into an array, and comes to the method through the
//! core library. Here each value is an argument of its own, and the field is loaded directly. The
//! agent's method is the same, so every shape can be called so. .NET Core only.
//!
//! The module gets a type [`HOLDER_TYPE`] with static fields and the method [`RESOLVE`], which
//! fills the first field, [`FIELD`], at the first call. Threads that come together fill it twice,
//! with delegates for the same method.
//!
//! If the agent cannot be loaded, [`RESOLVE`] gives null and calls are not traced. It tries again
//! after [`RETRY_MILLISECONDS`], because the reason may have been a passing one.
//!
//! If the agent's method throws, the traced method empties [`FIELD`], and the next call comes to
//! [`RESOLVE`] again. It then tries whether the runtime can initialize the type of that method and
//! compile it. If not, the agent counts as one that cannot be loaded: every call would throw. If it
//! can, the method threw for reasons of its own, and every call gets to it as before.

use super::assembler::{Assembler, Label};
use super::calls::{AgentMethod, Writer};
use super::references::{
    References, array_of, instance_of, instance_sig, object, static_sig, string,
};
use super::tracer::{SHIM_CLASS, SHIM_METHOD};
use super::{ModuleMetadata, RefStructs, Refusal, Settings};
use crate::shape::AgentShape;
use cil::{
    HeaderFormat, MethodBody, MethodHeader, NewInstruction, Opcode, Primitive, Token, TypeSig,
    encode_field, encode_locals,
};
use std::borrow::Cow;

/// The type that is added to a module: abstract and sealed, without constructor. It has a
/// namespace, as programs that look through all types of an assembly may expect.
pub const HOLDER_TYPE: &str = "NewRelic.Profiler.Tracing";
/// Its static field that traced methods load: the delegate, or null.
pub const FIELD: &str = "Start";
/// Its static method, which gives the delegate, or null if the agent cannot be loaded.
pub const RESOLVE: &str = "Resolve";
/// How long after a failure the agent is looked for again. In between a call costs a nanosecond or
/// two; each attempt costs some exceptions, which are caught.
pub const RETRY_MILLISECONDS: i64 = 60_000;

/// Stack of code that calls so: the delegate, its arguments, and what fills the array of the
/// method's arguments.
pub(super) const STACK: u16 = 16;

/// Stack of [`RESOLVE`]: the type of the delegate and its method.
const RESOLVE_STACK: u16 = 2;
/// Locals of [`RESOLVE`]: the agent's assembly, its method, and the delegate for that.
const ASSEMBLY: u16 = 0;
const METHOD: u16 = 1;
const DELEGATE: u16 = 2;

/// Members of [`HOLDER_TYPE`] that traced methods of its module name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// [`FIELD`].
    pub field: Token,
    /// [`RESOLVE`].
    pub resolve: Token,
}

impl Direct {
    /// Loads the delegate, in a try block. Without one it leaves for `end`.
    pub(super) fn load<M: ModuleMetadata + ?Sized>(
        self,
        writer: &mut Writer<'_, M>,
        settings: &Settings<'_>,
        end: Label,
    ) -> Result<(), Refusal> {
        let known = writer.code.label();
        writer.code.token(Opcode::Ldsfld, self.field);
        writer.code.emit(Opcode::Dup);
        writer.code.branch(Opcode::Brtrue, known);
        writer.code.emit(Opcode::Pop);
        writer.ldstr(settings.agent_path)?;
        writer.code.token(Opcode::Call, self.resolve);
        writer.code.emit(Opcode::Dup);
        writer.code.branch(Opcode::Brtrue, known);
        writer.code.emit(Opcode::Pop);
        writer.code.branch(Opcode::Leave, end);
        writer.code.bind(known);
        Ok(())
    }

    /// The handler of what the agent throws: the next call asks [`RESOLVE`] again. Nothing in it
    /// can throw, since that would reach the program. Gives its start.
    pub(super) fn swallow<M: ModuleMetadata + ?Sized>(
        self,
        writer: &mut Writer<'_, M>,
        end: Label,
    ) -> u32 {
        let handler = writer.code.offset();
        writer.code.emit(Opcode::Pop);
        writer.code.emit(Opcode::Ldnull);
        writer.code.token(Opcode::Stsfld, self.field);
        writer.code.branch(Opcode::Leave, end);
        handler
    }
}

/// A field of [`HOLDER_TYPE`] that is to be defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its signature.
    pub signature: Vec<u8>,
}

/// Static fields of [`HOLDER_TYPE`]: what is to be defined, or the tokens of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields<T> {
    /// [`FIELD`].
    pub start: T,
    /// The delegate of a method that has thrown and that can be compiled.
    pub checked: T,
    /// Whether there was a delegate before.
    pub made: T,
    /// When the agent is looked for again (`Environment.TickCount64`); zero before the first
    /// failure.
    pub again: T,
}

impl<T> Fields<T> {
    /// Makes something of each of them.
    ///
    /// # Errors
    /// The first of `make`.
    pub fn try_map<U, E>(self, mut make: impl FnMut(T) -> Result<U, E>) -> Result<Fields<U>, E> {
        Ok(Fields {
            start: make(self.start)?,
            checked: make(self.checked)?,
            made: make(self.made)?,
            again: make(self.again)?,
        })
    }
}

/// The delegate: a function of all that the agent is told about a call.
fn delegate<M: ModuleMetadata + ?Sized>(
    references: &mut References<'_, M>,
    settings: &Settings<'_>,
) -> Result<TypeSig, Refusal> {
    let class = references.class_sig("System.Type")?;
    let exception = references.class("System.Exception")?;
    let number = |primitive| TypeSig::Primitive(primitive);
    let mut types = vec![
        string(),
        number(Primitive::U4),
        string(),
        string(),
        class.clone(),
        string(),
        string(),
        string(),
        object(),
        array_of(object()),
        number(Primitive::U8),
    ];
    if settings.shape == AgentShape::V10_55 {
        types.push(class);
    }
    types.push(references.action_sig(exception)?);
    let definition = references.class(&format!("System.Func`{}", types.len()))?;
    Ok(instance_of(definition, types))
}

/// `Invoke` of the delegate.
pub(super) fn invoke<M: ModuleMetadata + ?Sized>(
    references: &mut References<'_, M>,
    settings: &Settings<'_>,
) -> Result<Token, Refusal> {
    let delegate = delegate(references, settings)?;
    let TypeSig::GenericInst { arguments, .. } = &delegate else { return Err(Refusal::Malformed) };
    let result = arguments.len().saturating_sub(1) as u32;
    let parameters = (0..result).map(TypeSig::TypeParam).collect();
    let parent = references.type_token(&delegate)?;
    references.method(parent, "Invoke", &instance_sig(TypeSig::TypeParam(result), parameters))
}

/// What [`HOLDER_TYPE`] derives from in a module.
///
/// # Errors
/// The metadata cannot be extended.
pub fn base_type<M: ModuleMetadata + ?Sized>(
    settings: &Settings<'_>,
    metadata: &mut M,
) -> Result<Token, Refusal> {
    References::new(settings, false, metadata).class("System.Object")
}

/// The fields of [`HOLDER_TYPE`] in a module.
///
/// # Errors
/// The metadata cannot be extended.
pub fn fields<M: ModuleMetadata + ?Sized>(
    settings: &Settings<'_>,
    metadata: &mut M,
) -> Result<Fields<Field>, Refusal> {
    let delegate = delegate(&mut References::new(settings, false, metadata), settings)?;
    let field = |name, sig: &TypeSig| {
        let signature = encode_field(sig).map_err(|_| Refusal::Malformed)?;
        Ok::<_, Refusal>(Field { name, signature })
    };
    Ok(Fields {
        start: field(FIELD, &delegate)?,
        checked: field("Checked", &delegate)?,
        made: field("Made", &TypeSig::Primitive(Primitive::Boolean))?,
        again: field("Again", &TypeSig::Primitive(Primitive::I8))?,
    })
}

/// The signature of [`RESOLVE`] in a module: from the path of the managed agent to the delegate.
///
/// # Errors
/// The metadata cannot be extended.
pub fn resolve_signature<M: ModuleMetadata + ?Sized>(
    settings: &Settings<'_>,
    metadata: &mut M,
) -> Result<Vec<u8>, Refusal> {
    let delegate = delegate(&mut References::new(settings, false, metadata), settings)?;
    static_sig(delegate, vec![string()]).encode().map_err(|_| Refusal::Malformed)
}

/// The body of [`RESOLVE`], with its header. It swallows what it calls throws, as where the agent
/// lacks the method.
///
/// # Errors
/// The metadata cannot be extended.
pub fn resolve_body<M: ModuleMetadata + ?Sized>(
    fields: Fields<Token>,
    settings: &Settings<'_>,
    metadata: &mut M,
) -> Result<Vec<u8>, Refusal> {
    let mut writer = Writer {
        code: Assembler::default(),
        references: References::new(settings, false, metadata),
        ref_structs: RefStructs::default(),
    };
    let assembly = writer.references.class_sig("System.Reflection.Assembly")?;
    let method = writer.references.class_sig("System.Reflection.MethodInfo")?;
    let delegate = delegate(&mut writer.references, settings)?;
    let exception = writer.references.class("System.Exception")?;
    if_known(&mut writer, fields)?;
    let (start, done) = (writer.code.offset(), writer.code.label());
    writer.code.ldarg(0);
    let load_from = writer.references.load_from()?;
    writer.code.token(Opcode::Call, load_from);
    writer.code.stloc(ASSEMBLY);
    make(&mut writer, &delegate, exception, settings)?;
    check(&mut writer, fields)?;
    writer.code.emit(NewInstruction::ldc_i4(1));
    writer.code.token(Opcode::Stsfld, fields.made);
    writer.code.ldloc(DELEGATE);
    writer.code.token(Opcode::Stsfld, fields.start);
    writer.code.branch(Opcode::Leave, done);
    let handler = writer.code.offset();
    writer.code.emit(Opcode::Pop);
    let now = writer.references.tick_count()?;
    writer.code.token(Opcode::Call, now);
    writer.code.emit(NewInstruction::ldc_i8(RETRY_MILLISECONDS));
    writer.code.emit(Opcode::Add);
    writer.code.token(Opcode::Stsfld, fields.again);
    writer.code.emit(Opcode::Ldnull);
    writer.code.stloc(DELEGATE);
    writer.code.branch(Opcode::Leave, done);
    writer.code.catch(exception, start, handler);
    writer.code.bind(done);
    writer.code.ldloc(DELEGATE);
    writer.code.emit(Opcode::Ret);
    let locals = encode_locals(&[assembly, method, delegate]).map_err(|_| Refusal::Malformed)?;
    let locals = writer.references.metadata().local_signature(&locals)?;
    let (code, clauses) = writer.code.finish()?;
    let format = HeaderFormat::Fat;
    let header = MethodHeader {
        format,
        max_stack: RESOLVE_STACK,
        init_locals: true,
        local_signature: locals,
    };
    MethodBody { header, code: Cow::Owned(code), clauses }.encode().map_err(|_| Refusal::Malformed)
}

/// Returns what is known already: the delegate of a method that was checked, or null so soon after
/// a failure.
fn if_known<M: ModuleMetadata + ?Sized>(
    writer: &mut Writer<'_, M>,
    fields: Fields<Token>,
) -> Result<(), Refusal> {
    let (is_unchecked, look) = (writer.code.label(), writer.code.label());
    writer.code.token(Opcode::Ldsfld, fields.checked);
    writer.code.branch(Opcode::Brfalse, is_unchecked);
    writer.code.token(Opcode::Ldsfld, fields.checked);
    writer.code.emit(Opcode::Dup);
    writer.code.token(Opcode::Stsfld, fields.start);
    writer.code.emit(Opcode::Ret);
    writer.code.bind(is_unchecked);
    // The clock is only asked after a failure.
    writer.code.token(Opcode::Ldsfld, fields.again);
    writer.code.branch(Opcode::Brfalse, look);
    let now = writer.references.tick_count()?;
    writer.code.token(Opcode::Call, now);
    writer.code.token(Opcode::Ldsfld, fields.again);
    writer.code.branch(Opcode::Bge, look);
    writer.code.emit(Opcode::Ldnull);
    writer.code.emit(Opcode::Ret);
    writer.code.bind(look);
    Ok(())
}

/// Finds the agent's method in its assembly, and makes a delegate for it.
///
/// The method is found by its token, which takes a millisecond. By its name it took .NET 9 fifteen
/// of them, as its parser of type names has to be compiled first. That is left for a file that is
/// not the one that was read any more: there the token is that of a method with other parameters,
/// or of none.
fn make<M: ModuleMetadata + ?Sized>(
    writer: &mut Writer<'_, M>,
    delegate: &TypeSig,
    exception: Token,
    settings: &Settings<'_>,
) -> Result<(), Refusal> {
    let delegate = writer.references.type_token(delegate)?;
    let made = writer.code.label();
    if let Some(start) = settings.start_method {
        let by_name = writer.code.label();
        let try_start = writer.code.offset();
        writer.code.ldloc(ASSEMBLY);
        let module = writer.references.manifest_module()?;
        writer.code.token(Opcode::Callvirt, module);
        writer.code.ldc_i4_long(start.0.cast_signed());
        let method = writer.references.resolve_method()?;
        writer.code.token(Opcode::Callvirt, method);
        let info = writer.references.class("System.Reflection.MethodInfo")?;
        writer.code.token(Opcode::Castclass, info);
        create_delegate(writer, delegate)?;
        writer.code.branch(Opcode::Leave, made);
        let handler = writer.swallow(by_name);
        writer.code.catch(exception, try_start, handler);
        writer.code.bind(by_name);
    }
    writer.code.ldloc(ASSEMBLY);
    writer.find_by_name(&AgentMethod { class: SHIM_CLASS, name: SHIM_METHOD }, None)?;
    create_delegate(writer, delegate)?;
    writer.code.bind(made);
    Ok(())
}

/// Stores the method on the stack, and a delegate for it.
fn create_delegate<M: ModuleMetadata + ?Sized>(
    writer: &mut Writer<'_, M>,
    delegate: Token,
) -> Result<(), Refusal> {
    writer.code.stloc(METHOD);
    writer.load_type(delegate)?;
    writer.code.ldloc(METHOD);
    let create = writer.references.create_delegate()?;
    writer.code.token(Opcode::Call, create);
    writer.code.token(Opcode::Castclass, delegate);
    writer.code.stloc(DELEGATE);
    Ok(())
}

/// Where a delegate was made before, the agent's method has thrown, or two threads came together:
/// initializes its type and compiles it, which throws if that is what failed.
fn check<M: ModuleMetadata + ?Sized>(
    writer: &mut Writer<'_, M>,
    fields: Fields<Token>,
) -> Result<(), Refusal> {
    let first = writer.code.label();
    writer.code.token(Opcode::Ldsfld, fields.made);
    writer.code.branch(Opcode::Brfalse, first);
    writer.code.ldloc(METHOD);
    let class = writer.references.declaring_type()?;
    writer.code.token(Opcode::Callvirt, class);
    let handle = writer.references.type_handle()?;
    writer.code.token(Opcode::Callvirt, handle);
    let initialize = writer.references.run_class_constructor()?;
    writer.code.token(Opcode::Call, initialize);
    writer.code.ldloc(METHOD);
    let handle = writer.references.method_handle()?;
    writer.code.token(Opcode::Callvirt, handle);
    let compile = writer.references.prepare_method()?;
    writer.code.token(Opcode::Call, compile);
    writer.code.ldloc(DELEGATE);
    writer.code.token(Opcode::Stsfld, fields.checked);
    writer.code.bind(first);
    Ok(())
}
