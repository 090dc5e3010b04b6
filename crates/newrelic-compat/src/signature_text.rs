//! The text form of a method's parameters: what instrumentation files name overloads by, and what a
//! tracer gets.
//!
//! ``System.Int32,System.String[],System.Collections.Generic.List`1[!!0]``: no spaces, full names,
//! of nested types only the innermost name, without assemblies and custom modifiers.

use cil::{MethodSig, Primitive, Token, TypeSig};

/// A type in a signature has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The token names no type of the module.
    #[error("no type has the token {0}")]
    UnknownType(Token),
    /// A type handle of the running process, which only dynamic methods have.
    #[error("a signature with type handles has no text")]
    Handle,
}

/// The parameters of a method. `name` gives the name of a type by its token, with its namespace if
/// it has one.
///
/// # Errors
/// A type has no name.
pub fn parameters(
    sig: &MethodSig,
    name: &impl Fn(Token) -> Option<String>,
) -> Result<String, TextError> {
    let mut text = String::new();
    parameters_into(sig, name, &mut text)?;
    Ok(text)
}

fn parameters_into(
    sig: &MethodSig,
    name: &impl Fn(Token) -> Option<String>,
    out: &mut String,
) -> Result<(), TextError> {
    for (index, parameter) in sig.parameters.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        if sig.sentinel == Some(index) {
            out.push_str("...,");
        }
        append(parameter, name, out)?;
    }
    Ok(())
}

fn append(
    sig: &TypeSig,
    name: &impl Fn(Token) -> Option<String>,
    out: &mut String,
) -> Result<(), TextError> {
    match sig {
        TypeSig::Primitive(Primitive::Void) => out.push_str("void"),
        TypeSig::Primitive(primitive) => out.push_str(primitive.full_name()),
        TypeSig::Class(token) | TypeSig::ValueType(token) => {
            out.push_str(&name(*token).ok_or(TextError::UnknownType(*token))?);
        }
        TypeSig::GenericInst { definition, arguments, .. } => {
            append(definition, name, out)?;
            out.push('[');
            for (index, argument) in arguments.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                append(argument, name, out)?;
            }
            out.push(']');
        }
        TypeSig::TypeParam(index) => out.push_str(&format!("!{index}")),
        TypeSig::MethodParam(index) => out.push_str(&format!("!!{index}")),
        TypeSig::SzArray(element) => {
            append(element, name, out)?;
            out.push_str("[]");
        }
        TypeSig::Array { element, rank, sizes, lower_bounds } => {
            append(element, name, out)?;
            out.push('[');
            // A rank costs nothing in a signature, so that a hostile one could ask for any amount
            // of text.
            for dimension in 0..(*rank).min(MAX_RANK) as usize {
                if dimension > 0 {
                    out.push(',');
                }
                let low = lower_bounds.get(dimension).copied().unwrap_or(0);
                match sizes.get(dimension) {
                    Some(&size) => {
                        out.push_str(&format!("{low}...{}", i64::from(low) + i64::from(size) - 1))
                    }
                    None if low != 0 => out.push_str(&format!("{low}...")),
                    None => {}
                }
            }
            out.push(']');
        }
        TypeSig::Pointer(element) => {
            append(element, name, out)?;
            out.push('*');
        }
        TypeSig::ByRef(element) => {
            append(element, name, out)?;
            out.push('&');
        }
        TypeSig::FunctionPointer(method) => {
            out.push('(');
            append(&method.return_type, name, out)?;
            out.push_str(")(");
            parameters_into(method, name, out)?;
            out.push(')');
        }
        TypeSig::Modified { inner, .. } | TypeSig::Pinned(inner) => append(inner, name, out)?,
        TypeSig::Internal(_) => return Err(TextError::Handle),
    }
    Ok(())
}

/// Dimensions of an array that the runtime allows.
const MAX_RANK: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(blob: &[u8]) -> Result<String, TextError> {
        let name = |token: Token| match token {
            Token(0x0100_0001) => Some("System.Collections.Generic.List`1".to_owned()),
            Token(0x0200_0001) => Some("App.Point".to_owned()),
            _ => None,
        };
        parameters(&MethodSig::decode(blob).unwrap(), &name)
    }

    #[test]
    fn primitives_and_none() {
        assert_eq!(text(&[0, 0, 1]).unwrap(), "");
        assert_eq!(
            text(&[0, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0x18, 0x19, 0x1c])
                .unwrap(),
            "System.Boolean,System.Char,System.SByte,System.Byte,System.Int16,System.UInt16,System.Int32,System.UInt32,\
             System.Int64,System.UInt64,System.Single,System.Double,System.String,System.IntPtr,System.UIntPtr,System.Object"
        );
        assert_eq!(text(&[0, 1, 1, 0x16]).unwrap(), "System.TypedReference");
    }

    #[test]
    fn composed_types() {
        assert_eq!(text(&[0x20, 2, 1, 0x10, 8, 0x0f, 1]).unwrap(), "System.Int32&,void*");
        assert_eq!(
            text(&[0, 2, 1, 0x1d, 0x0e, 0x1d, 0x1d, 8]).unwrap(),
            "System.String[],System.Int32[][]"
        );
        assert_eq!(text(&[0, 1, 1, 0x14, 0x0e, 2, 0, 2, 0, 0]).unwrap(), "System.String[,]");
        assert_eq!(
            text(&[0, 1, 1, 0x14, 8, 2, 2, 3, 4, 2, 2, 0]).unwrap(),
            "System.Int32[1...3,0...3]"
        );
        assert_eq!(text(&[0, 1, 1, 0x14, 8, 1, 0, 1, 2]).unwrap(), "System.Int32[1...]");
        assert_eq!(text(&[0, 1, 1, 0x1b, 0, 1, 1, 8]).unwrap(), "(void)(System.Int32)");
        assert_eq!(text(&[5, 2, 1, 8, 0x41, 0x0e]).unwrap(), "System.Int32,...,System.String");
    }

    #[test]
    fn generics_classes_and_modifiers() {
        assert_eq!(
            text(&[0x10, 1, 2, 1, 0x15, 0x12, 5, 1, 0x1e, 0, 0x13, 1]).unwrap(),
            "System.Collections.Generic.List`1[!!0],!1"
        );
        assert_eq!(
            text(&[0, 2, 1, 0x11, 4, 0x20, 5, 0x1f, 5, 8]).unwrap(),
            "App.Point,System.Int32"
        );
        assert_eq!(text(&[0, 1, 1, 0x12, 9]), Err(TextError::UnknownType(Token(0x0100_0002))));
    }

    #[test]
    fn a_rank_that_lies_costs_little() {
        let text = text(&[0, 1, 1, 0x14, 8, 0xdf, 0xff, 0xff, 0xff, 0, 0]).unwrap();
        assert_eq!(text.len(), "System.Int32[]".len() + 31);
    }
}
