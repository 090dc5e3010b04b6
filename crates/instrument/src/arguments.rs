//! Arguments of calls that are reported individually: which can be shown, and the code that shows
//! them.
//!
//! The probe that ends a call answers whether that call is reported. Only then does the code behind
//! it show one argument after the other, from where they are. So a call that is not reported costs
//! one test more. Arguments that the body changes are saved at the beginning. Those of an
//! asynchronous method are where its state machine keeps them. No code at all is made for arguments
//! that nobody is to see.

use crate::probes::{self, Probes};
use crate::{Refusal, Scope};
use cil::{
    Label, MethodEditor, MethodSig, NewInstruction, NewOperand, Opcode, Operand, Primitive, Token,
    TokenKind, TypeSig, decode_field,
};
use corprof::info::ProfilerInfo;
use corprof::metadata::Metadata;
use corprof::metadata::token::{MethodDef, TypeDef, TypeRef};
use rules::RuleSet;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// What is reported about the arguments of a method.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Arguments {
    /// Nobody asks for them.
    #[default]
    Off,
    /// Those that can be shown, with each call that is reported.
    Told(Arc<[Parameter]>),
    /// None of them can be, and why.
    Refused(&'static str),
}

impl Arguments {
    /// Of an asynchronous method: when its task ends, the method itself is long over.
    const GONE: Self =
        Self::Refused("it is asynchronous, and its state machine keeps no argument as it was");

    /// Of an asynchronous method, only those that its state machine keeps, by the places of
    /// parameters.
    pub(crate) fn only_kept(
        mut parameters: Arc<[Parameter]>,
        is_kept: impl Fn(usize) -> bool,
    ) -> Self {
        let all = Arc::make_mut(&mut parameters);
        let asked = all.iter().any(|parameter| parameter.shown.is_read());
        for (index, parameter) in all.iter_mut().enumerate() {
            if parameter.shown.is_read() && !is_kept(index) {
                parameter.shown = Shown::ByType;
            }
        }
        let are_gone = asked && !all.iter().any(|parameter| parameter.shown.is_read());
        if are_gone { Self::GONE } else { Self::Told(parameters) }
    }

    /// The parameters; none where nothing is reported.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        match self {
            Self::Told(parameters) => parameters,
            Self::Off | Self::Refused(_) => &[],
        }
    }
}

/// A parameter of a method.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Parameter {
    /// Its name; `arg1` and so on where it has none.
    pub name: String,
    /// Its type as C# writes it.
    pub type_name: String,
    /// How its argument is shown.
    pub shown: Shown,
}

/// How the argument of a parameter is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shown {
    /// A number with a sign, or an enumeration of such.
    Signed,
    /// A number without a sign, a character or a truth value, or an enumeration of such.
    Unsigned,
    /// A number with a fraction.
    Float,
    /// A string.
    Text,
    /// A reference to an object, by the class of that.
    Object,
    /// Not: its name says that it is a secret.
    Redacted,
    /// Not: it is a structure, a pointer or a reference to a variable, or its value is gone when
    /// the call ends.
    ByType,
}

impl Shown {
    fn is_read(self) -> bool {
        !matches!(self, Self::Redacted | Self::ByType)
    }
}

/// Knows what types of parameters are.
#[derive(Debug, Default)]
pub(crate) struct Types {
    /// What is below enumerations of other modules, by their names; `None` where that is not known.
    enums: Mutex<HashMap<String, Option<Primitive>>>,
}

impl Types {
    /// What the parameters of a method are, and how their arguments are shown. `names` are their
    /// types as C# writes them.
    ///
    /// # Errors
    /// The signature cannot be read.
    pub fn parameters(
        &self,
        info: &ProfilerInfo,
        metadata: &Metadata,
        method: MethodDef,
        names: &[String],
        rules: &RuleSet,
    ) -> Result<Arc<[Parameter]>, Refusal> {
        let signature = MethodSig::decode(metadata.method_unnamed(method)?.signature)?;
        let parameter = |(index, sig)| {
            let name = name(metadata, method, index).unwrap_or_else(|| format!("arg{}", index + 1));
            let shown = if rules.redacts(&name) {
                Shown::Redacted
            } else {
                self.shown(info, metadata, sig)
            };
            Parameter { type_name: names.get(index).cloned().unwrap_or_default(), name, shown }
        };
        Ok(signature.parameters.iter().enumerate().map(parameter).collect())
    }

    fn shown(&self, info: &ProfilerInfo, metadata: &Metadata, sig: &TypeSig) -> Shown {
        match sig.unmodified() {
            TypeSig::Primitive(primitive) => of_primitive(*primitive),
            TypeSig::Class(_) | TypeSig::SzArray(_) | TypeSig::Array { .. } => Shown::Object,
            TypeSig::GenericInst { value_type: false, .. } => Shown::Object,
            TypeSig::ValueType(of) => {
                self.of_enum(info, metadata, *of).map_or(Shown::ByType, of_primitive)
            }
            // What stands for a type parameter is not known: the code is shared.
            _ => Shown::ByType,
        }
    }

    /// The type below an enumeration; `None` if it is none, or that is not known.
    fn of_enum(&self, info: &ProfilerInfo, metadata: &Metadata, of: Token) -> Option<Primitive> {
        if of.kind()? == TokenKind::TypeDef {
            return underlying(metadata, TypeDef::from_raw(of.0));
        }
        let reference = metadata.type_ref_props(TypeRef::try_from(of).ok()?).ok()?;
        // One that is nested has its name only within another.
        if reference.scope?.kind()? != TokenKind::AssemblyRef {
            return None;
        }
        let mut enums = self.enums.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = enums.get(&reference.name) {
            return *known;
        }
        // The reference may lead on to another assembly than it names. What is the same enumeration
        // everywhere is so there.
        let modules = info
            .modules()
            .ok()?
            .filter_map(|module| info.module_metadata(module.ok()?.non_null()?).ok());
        let kinds = modules.filter_map(|module| {
            let named = module.find_type_def(&reference.name, None).ok()??;
            Some(underlying(&module, named))
        });
        let kinds: Option<BTreeSet<Primitive>> = kinds.collect();
        let kind = kinds.filter(|kinds| kinds.len() == 1).and_then(|mut kinds| kinds.pop_first());
        enums.insert(reference.name, kind);
        kind
    }
}

/// The name of a parameter, from 0; `None` if metadata has none.
fn name(metadata: &Metadata, method: MethodDef, index: usize) -> Option<String> {
    let place = u32::try_from(index).ok()?.checked_add(1)?;
    let props = metadata.param_props(metadata.param_at(method, place).ok()??).ok()?;
    Some(props.name).filter(|name| !name.is_empty())
}

fn of_primitive(primitive: Primitive) -> Shown {
    use Primitive as P;
    match primitive {
        P::I1 | P::I2 | P::I4 | P::I8 | P::IntPtr => Shown::Signed,
        P::Boolean | P::Char | P::U1 | P::U2 | P::U4 | P::U8 | P::UIntPtr => Shown::Unsigned,
        P::R4 | P::R8 => Shown::Float,
        P::String => Shown::Text,
        P::Object => Shown::Object,
        P::Void | P::TypedByRef => Shown::ByType,
    }
}

/// The same of an enumeration that is defined here.
fn underlying(metadata: &Metadata, of: TypeDef) -> Option<Primitive> {
    let extends = metadata.type_def_props(of).ok()?.extends?;
    let base = match extends.kind()? {
        TokenKind::TypeDef => metadata.type_def_props(TypeDef::from_raw(extends.0)).ok()?.name,
        TokenKind::TypeRef => metadata.type_ref_props(TypeRef::from_raw(extends.0)).ok()?.name,
        _ => return None,
    };
    if base != "System.Enum" {
        return None;
    }
    // Its one field that is no constant: ECMA-335 II.14.3.
    let value = metadata.fields_named(of, "value__").ok()?.next()?.ok()?;
    match decode_field(metadata.field_props(value).ok()?.signature).ok()? {
        TypeSig::Primitive(primitive) => Some(primitive),
        _ => None,
    }
}

/// How to get at the arguments that are shown.
pub(crate) struct Showing {
    /// Index of the parameter, how it is shown, and what loads it.
    loads: Vec<(u32, Shown, Vec<NewInstruction>)>,
    /// To do before the body begins.
    pub saves: Vec<NewInstruction>,
}

/// Makes locals for arguments that the body changes. `None` if nothing is shown.
pub(crate) fn plan(
    editor: &mut MethodEditor,
    signature: &MethodSig,
    parameters: &[Parameter],
) -> Result<Option<Showing>, Refusal> {
    let first = u16::from(signature.call_effect().has_this);
    let changed: BTreeSet<u16> =
        editor.ids().filter_map(|id| changes(&editor.instruction(id)?)).collect();
    let mut showing = Showing { loads: Vec::new(), saves: Vec::new() };
    for (index, (parameter, sig)) in (0_u16..).zip(parameters.iter().zip(&signature.parameters)) {
        if !parameter.shown.is_read() {
            continue;
        }
        let argument = first.saturating_add(index);
        let mut load = NewInstruction::ldarg(argument);
        if changed.contains(&argument) {
            let local = editor.add_local(sig.unmodified())?;
            showing.saves.extend([load, NewInstruction::stloc(local)]);
            load = NewInstruction::ldloc(local);
        }
        showing.loads.push((index.into(), parameter.shown, vec![load]));
    }
    Ok(showing.some())
}

/// The same where arguments are in fields of `this`, one for each parameter that is shown.
pub(crate) fn plan_fields(
    parameters: &[Parameter],
    mut field: impl FnMut(usize) -> Result<Token, Refusal>,
) -> Result<Option<Showing>, Refusal> {
    let mut showing = Showing { loads: Vec::new(), saves: Vec::new() };
    for (index, parameter) in
        parameters.iter().enumerate().filter(|(_, parameter)| parameter.shown.is_read())
    {
        let load = vec![Opcode::Ldarg0.into(), NewInstruction::token(Opcode::Ldfld, field(index)?)];
        showing.loads.push((index as u32, parameter.shown, load));
    }
    Ok(showing.some())
}

/// The argument that an instruction may change: by itself, or by its address.
fn changes(instruction: &NewInstruction) -> Option<u16> {
    let NewOperand::Plain(Operand::Argument(index)) = instruction.operand else { return None };
    matches!(instruction.opcode, Opcode::Starg | Opcode::StargS | Opcode::Ldarga | Opcode::LdargaS)
        .then_some(index)
}

impl Showing {
    fn some(self) -> Option<Self> {
        (!self.loads.is_empty()).then_some(self)
    }

    /// Shows all, if the answer of [`Probes::leave_telling`] or another that tells, which is on the
    /// stack, is not 0; else goes to `done`, which is to be bound to what follows.
    pub(crate) fn code(
        &self,
        scope: &Scope,
        probes: &Probes,
        done: Label,
    ) -> Result<Vec<NewInstruction>, Refusal> {
        let mut code = vec![NewInstruction::branch(Opcode::Brfalse, done)];
        for (index, shown, load) in &self.loads {
            let (convert, probe, signature) = match shown {
                Shown::Signed => (Some(Opcode::ConvI8), probes.show_number, Probes::SHOW_NUMBER),
                Shown::Unsigned => (Some(Opcode::ConvU8), probes.show_number, Probes::SHOW_NUMBER),
                Shown::Float => (Some(Opcode::ConvR8), probes.show_float, Probes::SHOW_FLOAT),
                Shown::Text => (None, probes.show_text, Probes::SHOW_OBJECT),
                Shown::Object => (None, probes.show_object, Probes::SHOW_OBJECT),
                Shown::Redacted | Shown::ByType => continue,
            };
            code.push(NewInstruction::ldc_i4(index.cast_signed()));
            code.extend(load.iter().cloned());
            code.extend(convert.map(NewInstruction::from));
            code.extend(probes::call(probe, scope.signature(signature)?));
        }
        code.extend(probes::call(probes.shown, scope.signature(Probes::SHOWN)?));
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cil::MethodBody;

    fn parameter(shown: Shown) -> Parameter {
        Parameter { name: "a".into(), type_name: "int".into(), shown }
    }

    #[test]
    fn only_what_is_shown_is_loaded_and_what_changes_is_saved() {
        // starg.s 2, ldarga.s 3, pop, ldarg.1, pop, ret; void (string, int, object, int, int), with
        // `this`.
        let body = [8 << 2 | 2, 0x16, 0x10, 2, 0x0f, 3, 0x26, 0x2a, 0x00];
        let body = MethodBody::parse(&body).unwrap();
        let mut editor = MethodEditor::new(&body, None).unwrap();
        let signature = MethodSig::decode(&[0x20, 5, 0x01, 0x0e, 0x08, 0x1c, 0x08, 0x08]).unwrap();
        let parameters =
            [Shown::Text, Shown::Signed, Shown::Object, Shown::Redacted, Shown::ByType]
                .map(parameter);
        let showing = plan(&mut editor, &signature, &parameters).unwrap().unwrap();
        let expected = [
            (0, Shown::Text, vec![NewInstruction::ldarg(1)]),
            (1, Shown::Signed, vec![NewInstruction::ldloc(0)]),
            (2, Shown::Object, vec![NewInstruction::ldloc(1)]),
        ];
        assert_eq!(showing.loads, expected);
        let (ldarg, stloc) = (NewInstruction::ldarg, NewInstruction::stloc);
        assert_eq!(showing.saves, [ldarg(2), stloc(0), ldarg(3), stloc(1)]);

        let hidden = [Shown::Redacted; 5].map(parameter);
        assert!(plan(&mut editor, &signature, &hidden).unwrap().is_none());
        assert!(plan(&mut editor, &signature, &[]).unwrap().is_none());
    }

    #[test]
    fn of_a_state_machine_only_what_it_keeps_is_shown() {
        let parameters: Arc<[Parameter]> =
            [Shown::Text, Shown::Redacted, Shown::Signed].map(parameter).into();
        let shown = |arguments: &Arguments| -> Vec<Shown> {
            arguments.parameters().iter().map(|parameter| parameter.shown).collect()
        };
        let some = Arguments::only_kept(Arc::clone(&parameters), |index| index == 2);
        assert_eq!(shown(&some), [Shown::ByType, Shown::Redacted, Shown::Signed]);
        assert_eq!(Arguments::only_kept(parameters, |_| false), Arguments::GONE);
        // Where there is nothing to show, nothing is gone.
        let hidden: Arc<[Parameter]> = [Shown::Redacted, Shown::ByType].map(parameter).into();
        assert_eq!(
            shown(&Arguments::only_kept(hidden, |_| false)),
            [Shown::Redacted, Shown::ByType]
        );

        let token = Token(0x0400_0007);
        let showing = plan_fields(some.parameters(), |_| Ok(token)).unwrap().unwrap();
        let load = vec![NewInstruction::ldarg(0), NewInstruction::token(Opcode::Ldfld, token)];
        assert_eq!(showing.loads, [(2, Shown::Signed, load)]);
        assert!(plan_fields(&[], |_| Ok(token)).unwrap().is_none());
    }

    #[test]
    fn numbers_keep_their_signs() {
        assert_eq!([Primitive::I1, Primitive::IntPtr].map(of_primitive), [Shown::Signed; 2]);
        assert_eq!(
            [Primitive::Boolean, Primitive::Char, Primitive::U8].map(of_primitive),
            [Shown::Unsigned; 3]
        );
        assert_eq!(of_primitive(Primitive::TypedByRef), Shown::ByType);
    }
}
