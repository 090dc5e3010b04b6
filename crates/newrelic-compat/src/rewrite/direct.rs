//! The shortest way to the managed agent: a delegate for its method, in a static field of the
//! module.
//!
//! The agent's own profiler boxes what it passes into an array, and comes to the method through the
//! core library. Here each value is an argument of its own, and the field is loaded directly. The
//! agent's method is the same, so every shape can be called so. .NET Core only.
//!
//! The module gets a type [`HOLDER_TYPE`] with the field [`FIELD`] and the method [`RESOLVE`],
//! which fills the field at the first call. Threads that come together fill it twice, with
//! delegates for the same method.

use super::assembler::Assembler;
use super::calls::{AgentMethod, Writer};
use super::references::{
    References, array_of, instance_of, instance_sig, object, static_sig, string,
};
use super::tracer::{SHIM_CLASS, SHIM_METHOD};
use super::{ModuleMetadata, RefStructs, Refusal, Settings};
use crate::shape::AgentShape;
use cil::{
    HeaderFormat, MethodBody, MethodHeader, MethodSig, Opcode, Primitive, Token, TypeSig,
    encode_field, encode_locals,
};
use std::borrow::Cow;

/// The type that is added to a module: abstract and sealed, without constructor. It has a
/// namespace, as programs that look through all types of an assembly may expect.
pub const HOLDER_TYPE: &str = "NewRelic.Profiler.Tracing";
/// Its static field, which holds the delegate.
pub const FIELD: &str = "Start";
/// Its static method, which makes the delegate.
pub const RESOLVE: &str = "Resolve";

/// Stack of code that calls so: the delegate, its arguments, and what fills the array of the
/// method's arguments.
pub(super) const STACK: u16 = 16;

/// Stack of [`RESOLVE`]: the type of the delegate, and two values to find its method with.
const RESOLVE_STACK: u16 = 3;

/// Members of [`HOLDER_TYPE`] in the module of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// [`FIELD`].
    pub field: Token,
    /// [`RESOLVE`].
    pub resolve: Token,
}

impl Direct {
    /// Loads the delegate.
    pub(super) fn load<M: ModuleMetadata + ?Sized>(
        self,
        writer: &mut Writer<'_, M>,
        settings: &Settings<'_>,
    ) -> Result<(), Refusal> {
        let known = writer.code.label();
        writer.code.token(Opcode::Ldsfld, self.field);
        writer.code.emit(Opcode::Dup);
        writer.code.branch(Opcode::Brtrue, known);
        writer.code.emit(Opcode::Pop);
        writer.ldstr(settings.agent_path)?;
        writer.code.token(Opcode::Call, self.resolve);
        writer.code.bind(known);
        Ok(())
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

/// The signature of [`FIELD`] in a module.
///
/// # Errors
/// The metadata cannot be extended.
pub fn field_signature<M: ModuleMetadata + ?Sized>(
    settings: &Settings<'_>,
    metadata: &mut M,
) -> Result<Vec<u8>, Refusal> {
    let delegate = delegate(&mut References::new(settings, false, metadata), settings)?;
    encode_field(&delegate).map_err(|_| Refusal::Malformed)
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

/// The body of [`RESOLVE`], with its header. What it calls throws where the agent lacks the method;
/// who calls it swallows that, and the program runs on without tracers.
///
/// The method is found by its token, which takes a millisecond. By its name it took .NET 9 fifteen
/// of them, as its parser of type names has to be compiled first. That is left for a file that is
/// not the one that was read any more: there the token is that of a method with other parameters,
/// or of none.
///
/// # Errors
/// The metadata cannot be extended.
pub fn resolve_body<M: ModuleMetadata + ?Sized>(
    field: Token,
    settings: &Settings<'_>,
    metadata: &mut M,
) -> Result<Vec<u8>, Refusal> {
    let mut writer = Writer {
        code: Assembler::default(),
        references: References::new(settings, false, metadata),
        ref_structs: RefStructs::default(),
    };
    let assembly = writer.references.class_sig("System.Reflection.Assembly")?;
    let delegate = delegate(&mut writer.references, settings)?;
    let delegate = writer.references.type_token(&delegate)?;
    writer.code.ldarg(0);
    let load_from = writer.references.load_from()?;
    writer.code.token(Opcode::Call, load_from);
    writer.code.stloc(0);
    let done = writer.code.label();
    if let Some(start) = settings.start_method {
        let by_name = writer.code.label();
        let try_start = writer.code.offset();
        keep(&mut writer, delegate, field, |writer| {
            let module = writer.references.manifest_module()?;
            writer.code.token(Opcode::Callvirt, module);
            writer.code.ldc_i4_long(start.0.cast_signed());
            let method = writer.references.resolve_method()?;
            writer.code.token(Opcode::Callvirt, method);
            let info = writer.references.class("System.Reflection.MethodInfo")?;
            writer.code.token(Opcode::Castclass, info);
            Ok(())
        })?;
        writer.code.branch(Opcode::Leave, done);
        let exception = writer.references.class("System.Exception")?;
        let handler = writer.swallow(by_name);
        writer.code.catch(exception, try_start, handler);
        writer.code.bind(by_name);
    }
    keep(&mut writer, delegate, field, |writer| {
        writer.find_by_name(&AgentMethod { class: SHIM_CLASS, name: SHIM_METHOD }, None)
    })?;
    writer.code.bind(done);
    writer.code.token(Opcode::Ldsfld, field);
    writer.code.emit(Opcode::Ret);
    let locals = encode_locals(&[assembly]).map_err(|_| Refusal::Malformed)?;
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

/// Makes the delegate for the method that `find` leaves in place of the assembly, and stores it in
/// the field.
fn keep<'m, M: ModuleMetadata + ?Sized>(
    writer: &mut Writer<'m, M>,
    delegate: Token,
    field: Token,
    find: impl FnOnce(&mut Writer<'m, M>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    writer.load_type(delegate)?;
    writer.code.ldloc(0);
    find(writer)?;
    let create = create_delegate(&mut writer.references)?;
    writer.code.token(Opcode::Call, create);
    writer.code.token(Opcode::Castclass, delegate);
    writer.code.token(Opcode::Stsfld, field);
    Ok(())
}

/// `Delegate.CreateDelegate(Type, MethodInfo)`.
fn create_delegate<M: ModuleMetadata + ?Sized>(
    references: &mut References<'_, M>,
) -> Result<Token, Refusal> {
    let parent = references.class("System.Delegate")?;
    let parameters =
        ["System.Type", "System.Reflection.MethodInfo"].map(|name| references.class_sig(name));
    let parameters = parameters.into_iter().collect::<Result<Vec<_>, _>>()?;
    let signature: MethodSig = static_sig(TypeSig::Class(parent), parameters);
    references.method(parent, "CreateDelegate", &signature)
}
