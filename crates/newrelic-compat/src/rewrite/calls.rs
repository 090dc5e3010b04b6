//! Pieces of code that both templates use.

use super::assembler::{Assembler, Label};
use super::references::References;
use super::{Function, ModuleMetadata, Owner, RefStructs, Refusal, unmodified};
use cil::{MethodSig, NewInstruction, Opcode, Primitive, Token, TypeSig};

/// The method of the managed agent that injected code calls.
pub(super) struct AgentMethod<'a> {
    /// Full name of its type.
    pub class: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// An assembler with the references that its code needs.
pub(super) struct Writer<'m, M: ?Sized> {
    pub code: Assembler,
    pub references: References<'m, M>,
    /// Generic parameters of the method whose values cannot be boxed.
    pub ref_structs: RefStructs,
}

impl<M: ModuleMetadata + ?Sized> Writer<'_, M> {
    /// Loads a string.
    pub fn ldstr(&mut self, text: &str) -> Result<(), Refusal> {
        let token = self.references.string(text)?;
        self.code.token(Opcode::Ldstr, token);
        Ok(())
    }

    /// Loads the `Type` of a token.
    pub fn load_type(&mut self, token: Token) -> Result<(), Refusal> {
        self.code.token(Opcode::Ldtoken, token);
        let from_handle = self.references.type_from_handle()?;
        self.code.token(Opcode::Call, from_handle);
        Ok(())
    }

    /// Makes an array of `length` elements.
    pub fn array(&mut self, element: &str, length: usize) -> Result<(), Refusal> {
        let length = i32::try_from(length).map_err(|_| Refusal::Signature)?;
        self.code.ldc_i4_long(length);
        let token = self.references.class(element)?;
        self.code.token(Opcode::Newarr, token);
        Ok(())
    }

    /// Fills an element of the array on the stack.
    pub fn element(
        &mut self,
        index: usize,
        value: impl FnOnce(&mut Self) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.code.emit(Opcode::Dup);
        self.code.ldc_i4_long(i32::try_from(index).map_err(|_| Refusal::Signature)?);
        value(self)?;
        self.code.emit(Opcode::StelemRef);
        Ok(())
    }

    /// Makes an array of the method's arguments, each of them boxed.
    pub fn arguments(&mut self, signature: &MethodSig) -> Result<(), Refusal> {
        let first =
            u16::from(signature.convention.has_this() && !signature.convention.explicit_this());
        self.array("System.Object", signature.parameters.len())?;
        for (index, parameter) in signature.parameters.iter().enumerate() {
            let argument = u16::try_from(index).ok().and_then(|index| index.checked_add(first));
            let argument = argument.ok_or(Refusal::Signature)?;
            self.element(index, |writer| {
                let parameter = unmodified(parameter);
                if writer.can_box(&parameter) {
                    writer.code.ldarg(argument);
                    let token = writer.references.type_token(&parameter)?;
                    writer.code.token(Opcode::Box, token);
                } else {
                    writer.code.emit(Opcode::Ldnull);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Whether a value can become an object: no reference, no pointer, no `ref struct`.
    pub fn can_box(&mut self, sig: &TypeSig) -> bool {
        if self.ref_structs.contains(sig) {
            return false;
        }
        let definition = match sig {
            TypeSig::ByRef(_)
            | TypeSig::Pointer(_)
            | TypeSig::FunctionPointer(_)
            | TypeSig::Primitive(Primitive::TypedByRef | Primitive::Void) => return false,
            TypeSig::GenericInst { value_type: true, definition, .. } => definition,
            other => other,
        };
        match definition {
            TypeSig::ValueType(token) => !self.references.metadata().is_by_ref_like(*token),
            _ => true,
        }
    }

    /// Loads `this` as an object. That of a value type is boxed: a managed pointer in an array of
    /// objects would break the garbage collector.
    pub fn this(&mut self, function: &Function<'_>) -> Result<(), Refusal> {
        match function.owner {
            Owner::Class => self.code.ldarg(0),
            Owner::ByRefLike => self.code.emit(Opcode::Ldnull),
            Owner::ValueType => {
                let token = if function.type_parameters == 0 {
                    function.type_token
                } else {
                    self.references.type_token(&TypeSig::GenericInst {
                        value_type: true,
                        definition: Box::new(TypeSig::ValueType(function.type_token)),
                        arguments: (0..function.type_parameters).map(TypeSig::TypeParam).collect(),
                    })?
                };
                self.code.ldarg(0);
                self.code.token(Opcode::Ldobj, token);
                self.code.token(Opcode::Box, token);
            }
        }
        Ok(())
    }

    /// Loads an array of the types of the parameters; of what is passed by reference, the type that
    /// is referred to.
    pub fn parameter_types(&mut self, signature: &MethodSig) -> Result<(), Refusal> {
        self.array("System.Type", signature.parameters.len())?;
        for (index, parameter) in signature.parameters.iter().enumerate() {
            self.element(index, |writer| {
                let parameter = match unmodified(parameter) {
                    TypeSig::ByRef(inner) => *inner,
                    other => other,
                };
                let token = writer.references.type_token(&parameter)?;
                writer.load_type(token)
            })?;
        }
        Ok(())
    }

    /// Loads the `MethodInfo` of a method of the agent by reflection: the only one of its name, or
    /// the one with the parameters of a signature.
    pub fn find_by_reflection(
        &mut self,
        path: &str,
        method: &AgentMethod<'_>,
        overload: Option<&MethodSig>,
    ) -> Result<(), Refusal> {
        self.ldstr(path)?;
        self.find_in_assembly(method, overload)
    }

    /// The same with the path on the stack.
    pub fn find_in_assembly(
        &mut self,
        method: &AgentMethod<'_>,
        overload: Option<&MethodSig>,
    ) -> Result<(), Refusal> {
        let load_from = self.references.load_from()?;
        self.code.token(Opcode::Call, load_from);
        self.find_by_name(method, overload)
    }

    /// The same with the assembly on the stack.
    pub fn find_by_name(
        &mut self,
        method: &AgentMethod<'_>,
        overload: Option<&MethodSig>,
    ) -> Result<(), Refusal> {
        self.ldstr(method.class)?;
        let get_type = self.references.get_type()?;
        self.code.token(Opcode::Callvirt, get_type);
        self.ldstr(method.name)?;
        if let Some(signature) = overload {
            self.parameter_types(signature)?;
        }
        let get_method = self.references.get_method(overload.is_some())?;
        self.code.token(Opcode::Callvirt, get_method);
        Ok(())
    }

    /// Pops the exception and leaves for `to`: the handler that swallows what the agent throws.
    /// Gives its start.
    pub fn swallow(&mut self, to: Label) -> u32 {
        let handler = self.code.offset();
        self.code.emit(Opcode::Pop);
        self.code.branch(Opcode::Leave, to);
        handler
    }

    /// Loads an eight-byte number as it is.
    pub fn ldc_i8(&mut self, value: u64) {
        self.code.emit(NewInstruction::ldc_i8(value.cast_signed()));
    }
}
