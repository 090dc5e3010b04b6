//! Names as a C# programmer knows them: of methods, classes and modules.
//!
//! A method's name comes as parts ([`MethodName`]), so that each reader puts them together its own
//! way: type with namespace, nesting (`+`) and generic arguments (`<…>`); method with generic
//! arguments; parameters in parentheses. Parameters and generic arguments that have a C# keyword
//! are written with it, everything else with its full name: `System.String.Join(string, object[])`.
//!
//! Reference types share one body of generic code, and of the code alone the runtime cannot tell
//! which type it runs for. Then the name of the generic parameter is written: `List<int>.Add(T)`,
//! but `List<T>.Add(T)` for all reference types together. Only the frame that an enter or leave
//! hook gets can tell: see [`NameResolver::method_in_frame`].
//!
//! A [`NameResolver`] remembers metadata scopes, type names and class names, never methods: those
//! are for the caller to remember, under the function's handle. It holds no lock while it asks the
//! runtime, so it may be used by many threads and inside callbacks.

mod memory;
mod type_name;
mod write;

use core::fmt;
use std::sync::Arc;

use com::Guid;

use crate::ids::{AssemblyId, ClassId, FunctionId, ModuleId};
use crate::info::{Error, FrameInfo, FunctionInfo, ProfilerInfo, Result};
use crate::metadata::Metadata;
use crate::metadata::token::{MethodDef, Token, TokenKind, TypeDef, TypeRef};
use crate::signature::{MethodSig, Primitive, SignatureError};
use memory::Memory;
use type_name::{Segment, TypeName};
use write::{Scope, brackets, passing, unreadable};

/// How deep types may nest in each other, by nesting or as generic arguments, before a name ends in
/// `…`.
const MAX_DEPTH: u32 = 48;

/// How long a name may grow, in bytes. Metadata can describe types by each other so that a name
/// doubles at each level; nobody reads further than this.
const MAX_LENGTH: usize = 4096;

/// What is written for a type whose name is unavailable.
const UNKNOWN: &str = "?";

/// What kind of code a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    /// It has metadata.
    Normal,
    /// Made at run time: `DynamicMethod`, compiled LINQ expressions.
    Dynamic,
    /// Made by the runtime itself: marshalling and other IL stubs.
    IlStub,
}

/// A method's name, as parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodName {
    /// What it is.
    pub kind: FunctionKind,
    /// Module that declares it; for functions without metadata, the one they count as part of.
    pub module: Option<ModuleId>,
    /// Its token; nil for functions without metadata.
    pub token: MethodDef,
    /// Full name of the declaring type; empty for functions without metadata and for global ones.
    pub type_name: Arc<str>,
    /// Name with generic arguments.
    pub name: String,
    /// Parameter types in parentheses.
    pub parameters: String,
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.type_name.is_empty() {
            write!(f, "{}.", self.type_name)?;
        }
        write!(f, "{}{}", self.name, self.parameters)
    }
}

/// A module's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleName {
    /// Where its image is in memory; `None` for one made by Reflection.Emit.
    pub base: Option<usize>,
    /// Path of its file, or its name if it has none.
    pub path: String,
    /// Simple name of its assembly; empty while it is not attached to one.
    pub assembly: String,
    /// The assembly.
    pub assembly_id: Option<AssemblyId>,
    /// Which build it is; `None` if it has no metadata.
    pub mvid: Option<Guid>,
}

/// What is remembered of a module.
struct ModuleEntry {
    id: ModuleId,
    metadata: Metadata,
    types: Memory<Token, TypeName>,
}

/// What is remembered of a class.
#[derive(Debug)]
struct ClassEntry {
    /// As a generic argument or an element: with its keyword, if it has one.
    name: Arc<str>,
    /// By itself.
    full_name: Arc<str>,
    /// Where the brackets of arrays begin, so that those of an array of arrays can be put in front
    /// of them: C# writes the outer array's first.
    brackets: usize,
    /// Whether it stands for all reference types in shared code.
    canonical: bool,
    /// The modules that its name comes from.
    modules: Vec<ModuleId>,
}

/// Finds names. See the [module](self) for what they look like.
pub struct NameResolver {
    info: ProfilerInfo,
    modules: Memory<ModuleId, ModuleEntry>,
    classes: Memory<ClassId, ClassEntry>,
}

impl fmt::Debug for NameResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameResolver")
            .field("modules", &self.modules.len())
            .field("classes", &self.classes.len())
            .finish_non_exhaustive()
    }
}

impl NameResolver {
    /// A resolver that remembers nothing yet.
    #[must_use]
    pub fn new(info: ProfilerInfo) -> Self {
        Self { info, modules: Memory::default(), classes: Memory::default() }
    }

    /// The runtime that is asked.
    #[must_use]
    pub const fn info(&self) -> &ProfilerInfo {
        &self.info
    }

    /// The name of a function.
    ///
    /// # Errors
    /// The function is not loaded (any more), or its metadata cannot be read.
    pub fn method(&self, function: FunctionId) -> Result<MethodName> {
        self.resolve(function, None)
    }

    /// The name of a function in a frame of a running thread. The frames of enter and leave hooks
    /// (with `EventMask::ENABLE_FRAME_INFO`) tell what shared generic code runs for; those of a
    /// stack snapshot do not, on any .NET (Core) so far.
    ///
    /// # Errors
    /// As [`Self::method`].
    pub fn method_in_frame(
        &self,
        function: FunctionId,
        frame: FrameInfo<'_>,
    ) -> Result<MethodName> {
        self.resolve(function, Some(frame))
    }

    /// The name of a method by its place in metadata, with generic parameters in place of
    /// arguments.
    ///
    /// # Errors
    /// Its metadata cannot be read.
    pub fn method_def(&self, module: ModuleId, method: MethodDef) -> Result<MethodName> {
        let info =
            FunctionInfo { class: None, module, token: method, type_arguments: Default::default() };
        self.with_metadata(&info)
    }

    /// The full name of a class.
    ///
    /// # Errors
    /// The class is not loaded (any more), or is a pointer or the like, which have no name of their
    /// own.
    pub fn class(&self, class: ClassId) -> Result<Arc<str>> {
        self.class_entry(class, 0).map(|entry| Arc::clone(&entry.full_name))
    }

    /// The full name of a class, and the modules that it comes from: its own, and those of its
    /// generic arguments. When one of them is unloaded, the handle stands for the class no longer.
    ///
    /// # Errors
    /// As [`Self::class`].
    pub fn class_and_modules(&self, class: ClassId) -> Result<(Arc<str>, Vec<ModuleId>)> {
        self.class_entry(class, 0)
            .map(|entry| (Arc::clone(&entry.full_name), entry.modules.clone()))
    }

    /// The full name of a type by its place in metadata, with generic parameters in place of
    /// arguments.
    ///
    /// # Errors
    /// Its metadata cannot be read.
    pub fn type_def(&self, module: ModuleId, type_def: TypeDef) -> Result<String> {
        let module = self.module_entry(module)?;
        let mut name = String::new();
        self.type_name(&module, type_def.into(), 0)?.write_open(&mut name);
        Ok(name)
    }

    /// The names of a module.
    ///
    /// # Errors
    /// The module is not loaded (any more), or not attached to its assembly yet.
    pub fn module(&self, module: ModuleId) -> Result<ModuleName> {
        let info = self.info.module_info(module)?;
        let assembly =
            info.assembly.map(|assembly| self.info.assembly_info(assembly)).transpose()?;
        let mvid = match self.module_entry(module) {
            Ok(entry) => Some(entry.metadata.scope_props()?.mvid),
            // A module with only resources.
            Err(Error::Nothing { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(ModuleName {
            base: info.base,
            path: info.name,
            assembly: assembly.map(|assembly| assembly.name).unwrap_or_default(),
            assembly_id: info.assembly,
            mvid,
        })
    }

    /// Metadata of a module; remembered.
    ///
    /// # Errors
    /// The module is not loaded (any more), or has only resources.
    pub fn metadata(&self, module: ModuleId) -> Result<Metadata> {
        self.module_entry(module).map(|entry| entry.metadata.clone())
    }

    /// Forgets what is known of a module and of all classes that are named after it. To be called
    /// when it is unloaded, before its handles come again with another meaning.
    pub fn forget_module(&self, module: ModuleId) {
        self.classes.retain(|_, class| !class.modules.contains(&module));
        self.modules.retain(|id, _| *id != module);
    }

    /// Forgets everything, and gives back what it holds of the runtime.
    pub fn forget_all(&self) {
        self.classes.retain(|_, _| false);
        self.modules.retain(|_, _| false);
    }

    fn resolve(&self, function: FunctionId, frame: Option<FrameInfo<'_>>) -> Result<MethodName> {
        match self.info.function_info2(function, frame) {
            Ok(info) if !info.token.is_nil() => self.with_metadata(&info),
            Ok(_) => self.without_metadata(function),
            // Some runtimes refuse functions without metadata here.
            Err(error) => self.without_metadata(function).map_err(|_| error),
        }
    }

    fn with_metadata(&self, info: &FunctionInfo) -> Result<MethodName> {
        let module = self.module_entry(info.module)?;
        let mut name = String::with_capacity(48);
        let props = module.metadata.method_into(info.token, &mut name)?;
        let declaring = match props.class.non_nil() {
            // Members of the module itself belong to its first type, `<Module>`, which is no name
            // to show.
            Some(class) if class.rid() != 1 => Some(self.type_name(&module, class.into(), 0)?),
            _ => None,
        };
        let class = info.class.and_then(|class| self.class_entry(class, 0).ok());
        let type_name = match (class, &declaring) {
            (Some(class), Some(_)) => Arc::clone(&class.full_name),
            (None, Some(declaring)) => {
                let mut open = String::new();
                declaring.write_open(&mut open);
                open.into()
            }
            (_, None) => Arc::from(""),
        };
        let sig = MethodSig::decode_start(props.signature);
        let generics = sig.as_ref().map_or(0, |sig| sig.generic_parameters);
        let method_params =
            if generics > 0 { generic_names(&module.metadata, info.token)? } else { Vec::new() };
        if !method_params.is_empty() {
            name.push('<');
            for (index, param) in method_params.iter().enumerate() {
                if index > 0 {
                    name.push_str(", ");
                }
                self.write_argument(
                    &mut name,
                    info.type_arguments.get(index).copied(),
                    param,
                    0,
                    &mut Vec::new(),
                );
            }
            name.push('>');
        }
        let mut parameters = String::with_capacity(48);
        match sig {
            Ok(sig) => {
                let scope = Scope {
                    module: Some(&module),
                    type_params: declaring.as_ref().map_or(&[], |declaring| &declaring.params),
                    method_params: &method_params,
                };
                let passing = |sequence| passing(&module.metadata, info.token, sequence);
                self.write_parameters(&mut parameters, &sig, &scope, passing);
            }
            Err(error) => unreadable(&mut parameters, error),
        }
        Ok(MethodName {
            kind: FunctionKind::Normal,
            module: Some(info.module),
            token: info.token,
            type_name,
            name,
            parameters,
        })
    }

    fn without_metadata(&self, function: FunctionId) -> Result<MethodName> {
        let dynamic = self.info.dynamic_function_info(function)?;
        let module = dynamic.module.and_then(|module| self.module_entry(module).ok());
        let mut parameters = String::new();
        if !dynamic.signature.is_empty() {
            match MethodSig::decode_start(dynamic.signature) {
                Ok(sig) => {
                    let scope =
                        Scope { module: module.as_deref(), type_params: &[], method_params: &[] };
                    self.write_parameters(&mut parameters, &sig, &scope, |_| "ref ");
                }
                Err(error) => unreadable(&mut parameters, error),
            }
        }
        // Every stub's name starts so in all runtimes; a program could give such a name too, and
        // nobody does.
        let kind = if dynamic.name.starts_with("IL_STUB") {
            FunctionKind::IlStub
        } else {
            FunctionKind::Dynamic
        };
        Ok(MethodName {
            kind,
            module: dynamic.module,
            token: MethodDef::NIL,
            type_name: Arc::from(""),
            name: dynamic.name,
            parameters,
        })
    }

    fn module_entry(&self, module: ModuleId) -> Result<Arc<ModuleEntry>> {
        if let Some(entry) = self.modules.get(module) {
            return Ok(entry);
        }
        let metadata = self.info.module_metadata(module)?;
        Ok(self.modules.put(module, ModuleEntry { id: module, metadata, types: Memory::default() }))
    }

    /// The name of a `TypeDef` or `TypeRef`.
    fn type_name(&self, module: &ModuleEntry, token: Token, depth: u32) -> Result<Arc<TypeName>> {
        if let Some(name) = module.types.get(token) {
            return Ok(name);
        }
        let metadata = &module.metadata;
        let (own, outer, params) = match token.kind() {
            Some(TokenKind::TypeDef) => {
                let type_def = TypeDef::from_raw(token.0);
                let mut name = String::new();
                metadata.type_def_into(type_def, &mut name)?;
                let outer = metadata.enclosing_type(type_def)?.map(Token::from);
                (name, outer, generic_names(metadata, type_def)?)
            }
            Some(TokenKind::TypeRef) => {
                let props = metadata.type_ref_props(TypeRef::from_raw(token.0))?;
                let outer = props.scope.filter(|scope| scope.kind() == Some(TokenKind::TypeRef));
                (props.name, outer, Vec::new())
            }
            _ => return Err(Error::Signature(SignatureError::BadToken { offset: 0 })),
        };
        let mut segments = Vec::new();
        if let Some(outer) = outer {
            // Metadata that nests a type in itself must not lead us around for ever.
            if depth >= MAX_DEPTH {
                return Err(Error::Signature(SignatureError::TooDeep { offset: 0 }));
            }
            let outer = self.type_name(module, outer, depth + 1)?;
            segments.extend(
                outer
                    .segments
                    .iter()
                    .map(|one| Segment { text: one.text.clone(), arity: one.arity }),
            );
        }
        segments.push(TypeName::segment(&own));
        Ok(module.types.put(token, TypeName::new(segments, params)))
    }

    /// The name of a class without its generic arguments.
    fn definition(&self, class: ClassId) -> Result<Arc<TypeName>> {
        let info = self.info.class_info(class)?;
        let module = self.module_entry(info.module)?;
        self.type_name(&module, info.type_def.into(), 0)
    }

    fn class_entry(&self, class: ClassId, depth: u32) -> Result<Arc<ClassEntry>> {
        if let Some(entry) = self.classes.get(class) {
            return Ok(entry);
        }
        if depth >= MAX_DEPTH {
            return Err(Error::Signature(SignatureError::TooDeep { offset: 0 }));
        }
        if let Some(array) = self.info.array_class(class)? {
            let brackets = brackets(array.rank);
            let element = array
                .element_class
                .map(|element| self.class_entry(element, depth + 1))
                .transpose()?;
            let (base, inner, modules) = match &element {
                Some(element) => {
                    let (base, inner) = element
                        .name
                        .split_at_checked(element.brackets)
                        .unwrap_or((&element.name, ""));
                    (base, inner, element.modules.clone())
                }
                // The element's class is not loaded; its kind is known.
                None => {
                    let base = Primitive::from_element(array.element_type)
                        .map_or(UNKNOWN, Primitive::keyword);
                    (base, "", Vec::new())
                }
            };
            let mut name = format!("{base}{brackets}{inner}");
            cut(&mut name);
            let name = Arc::<str>::from(name);
            let entry = ClassEntry {
                full_name: Arc::clone(&name),
                name,
                brackets: base.len(),
                canonical: false,
                modules,
            };
            return Ok(self.classes.put(class, entry));
        }
        let info = self.info.class_info(class)?;
        if info.module.is_null() || info.type_def.is_nil() {
            return Err(Error::Nothing { call: "GetClassIDInfo2" });
        }
        let module = self.module_entry(info.module)?;
        let type_name = self.type_name(&module, info.type_def.into(), 0)?;
        let mut modules = vec![module.id];
        let mut full_name = String::with_capacity(48);
        let count = if info.type_arguments.is_empty() {
            type_name.params.len()
        } else {
            info.type_arguments.len()
        };
        let mut argument = |out: &mut String, index: usize| {
            let param = type_name.params.get(index).map_or(UNKNOWN, |param| param);
            self.write_argument(
                out,
                info.type_arguments.get(index).copied(),
                param,
                depth + 1,
                &mut modules,
            );
        };
        type_name.write_full(&mut full_name, count, &mut argument);
        cut(&mut full_name);
        let full_name = Arc::<str>::from(full_name);
        let name = if type_name.has_short_form(count) {
            let mut name = String::new();
            type_name.write(&mut name, count, &mut argument);
            cut(&mut name);
            name.into()
        } else {
            Arc::clone(&full_name)
        };
        let canonical = &*full_name == "System.__Canon";
        let brackets = name.len();
        Ok(self.classes.put(class, ClassEntry { name, full_name, brackets, canonical, modules }))
    }
}

/// Ends a name that has become too long with `…`.
fn cut(name: &mut String) {
    if name.len() > MAX_LENGTH {
        let end = (0..=MAX_LENGTH).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
        name.truncate(end);
        name.push('…');
    }
}

/// Names of the generic parameters of a type or method, in order.
fn generic_names(metadata: &Metadata, owner: impl Into<Token>) -> Result<Vec<Box<str>>> {
    let mut params = Vec::new();
    for param in metadata.generic_params(owner) {
        let props = metadata.generic_param_props(param?)?;
        params.push((props.sequence, props.name.into_boxed_str()));
    }
    params.sort_by_key(|(sequence, _)| *sequence);
    Ok(params.into_iter().map(|(_, name)| name).collect())
}

#[cfg(test)]
mod tests {
    use super::type_name::keyword_of;
    use super::*;

    fn type_name(segments: &[&str], params: &[&str]) -> TypeName {
        let segments = segments.iter().map(|name| TypeName::segment(name)).collect();
        TypeName::new(segments, params.iter().map(|param| (*param).into()).collect())
    }

    fn open(segments: &[&str], params: &[&str]) -> String {
        let mut out = String::new();
        type_name(segments, params).write_open(&mut out);
        out
    }

    fn argument(segments: &[&str], params: &[&str]) -> String {
        let mut out = String::new();
        type_name(segments, params)
            .write(&mut out, params.len(), |out, index| out.push_str(params[index]));
        out
    }

    #[test]
    fn arguments_go_to_the_type_they_belong_to() {
        assert_eq!(open(&["N.List`1"], &["T"]), "N.List<T>");
        assert_eq!(
            open(&["N.Outer`1", "Mid", "Inner`2"], &["A", "B", "C"]),
            "N.Outer<A>+Mid+Inner<B, C>"
        );
        // Compilers nest closures without a number in their names.
        assert_eq!(open(&["N.Outer`1", "<>c"], &["A"]), "N.Outer<A>+<>c");
        assert_eq!(
            open(&["Outer", "<>c__DisplayClass0_0"], &["A"]),
            "Outer+<>c__DisplayClass0_0<A>"
        );
        // More is claimed than there is, and no number at all.
        assert_eq!(open(&["Odd`5"], &["A"]), "Odd<A>");
        assert_eq!(open(&["Odd`x"], &[]), "Odd`x");
    }

    #[test]
    fn keywords_only_for_arguments_and_without_nesting() {
        assert_eq!(open(&["System.Int32"], &[]), "System.Int32");
        assert_eq!(open(&["System.Nullable`1"], &["T"]), "System.Nullable<T>");
        assert_eq!(argument(&["System.Int32"], &[]), "int");
        assert_eq!(argument(&["System.Decimal"], &[]), "decimal");
        assert_eq!(argument(&["System.Int32", "Inner"], &[]), "System.Int32+Inner");
        assert_eq!(argument(&["My.System.Int32"], &[]), "My.System.Int32");
        assert_eq!(argument(&["System.Nullable`1"], &["T"]), "T?");
        for primitive in Primitive::ALL {
            if primitive != Primitive::TypedByRef {
                assert_eq!(keyword_of(primitive.full_name()), Some(primitive.keyword()));
            }
        }
    }

    #[test]
    fn ranks() {
        assert_eq!([brackets(0), brackets(1), brackets(3)], ["[]", "[]", "[,,]"]);
        assert_eq!(brackets(u32::MAX).len(), 33);
    }

    #[test]
    fn long_names_are_cut_between_letters() {
        for (letter, kept) in [("a", MAX_LENGTH), ("é", MAX_LENGTH), ("€", MAX_LENGTH / 3 * 3)] {
            let mut name = letter.repeat(MAX_LENGTH / letter.len());
            let whole = name.clone();
            cut(&mut name);
            assert_eq!(name, whole);
            name.push_str(&letter.repeat(2));
            cut(&mut name);
            assert_eq!((name.len(), name.ends_with('…')), (kept + '…'.len_utf8(), true));
        }
    }

    #[test]
    fn a_name_is_put_together() {
        let name = MethodName {
            kind: FunctionKind::Normal,
            module: None,
            token: MethodDef::NIL,
            type_name: "N.C<T>".into(),
            name: "M<int>".to_owned(),
            parameters: "(T, string)".to_owned(),
        };
        assert_eq!(name.to_string(), "N.C<T>.M<int>(T, string)");
        assert_eq!(MethodName { type_name: "".into(), ..name }.to_string(), "M<int>(T, string)");
    }

    #[test]
    fn what_is_remembered_can_be_forgotten() {
        let memory = Memory::<ClassId, u32>::default();
        for id in 0..1000 {
            memory.put(ClassId(id * 8), id as u32);
        }
        assert_eq!(memory.get(ClassId(80)).as_deref(), Some(&10));
        memory.retain(|_, value| value % 2 == 1);
        assert_eq!((memory.get(ClassId(80)), memory.len()), (None, 500));
    }
}
