//! Methods that the runtime itself makes asynchronous (.NET 11).

use super::ModuleMetadata;
use cil::{MethodSig, Primitive, Token, TypeSig};

/// `MethodImplAttributes.Async`: the runtime makes the method asynchronous.
pub const IMPL_ASYNC: u32 = 0x2000;

/// What the body of such a method returns: nothing for `Task` and `ValueTask`, `T` for `Task<T>`
/// and `ValueTask<T>`.
///
/// `None` for other types. One level is taken off, so that `Task<Task<int>>` gives `Task<int>`.
pub fn effective_return_type<M: ModuleMetadata + ?Sized>(
    sig: &MethodSig,
    metadata: &M,
) -> Option<TypeSig> {
    let named = |token: Token, names: [&str; 2]| {
        metadata.type_name(token).is_some_and(|name| names.contains(&name.as_str()))
    };
    match sig.return_type.unmodified() {
        TypeSig::Class(token) | TypeSig::ValueType(token) => {
            let names = ["System.Threading.Tasks.Task", "System.Threading.Tasks.ValueTask"];
            named(*token, names).then_some(TypeSig::Primitive(Primitive::Void))
        }
        TypeSig::GenericInst { definition, arguments, .. } => {
            let (TypeSig::Class(token) | TypeSig::ValueType(token)) = **definition else {
                return None;
            };
            let [result] = arguments.as_slice() else { return None };
            let names = ["System.Threading.Tasks.Task`1", "System.Threading.Tasks.ValueTask`1"];
            named(token, names).then(|| super::unmodified(result))
        }
        _ => None,
    }
}
