//! Names and source lines of functions.

use super::define::Definitions;
use super::staging::AGENT_NAME;
use rootfs::Root;
use session::{
    AsyncStateMachine, AwaitPoint, FunctionDef, FunctionId, FunctionKind, ModuleId, SourceLine,
};
use std::{collections::HashMap, ops::Range, path::Path};
use symbols::{
    AssemblyCode, LeafWaits, ModuleKind, NativeSymbols, PortablePdb, SingleFileApp, UserMethod,
};
use unwind::NativeLocation;
use wire::{Class, Machine, Method, MethodKind, Module};

/// What the agent told about a method.
#[derive(Clone, Copy)]
struct MethodFacts {
    function: FunctionId,
    module: Option<u32>,
    token: u32,
    stub: bool,
}

/// What the agent told about a module.
struct ModuleFacts {
    id: ModuleId,
    path: String,
    mvid: [u8; 16],
    /// `None` until a line is asked for.
    pdb: Option<Option<PortablePdb>>,
    /// `None` until a wait in a method of its own is looked into, or a lambda is named.
    code: Option<Option<AssemblyCode>>,
    /// Routes of a web service by the tokens of their handlers; `None` until a lambda is named.
    routes: Option<HashMap<u32, String>>,
}

impl ModuleFacts {
    fn code(&mut self, root: Option<&Root>) -> Option<&AssemblyCode> {
        let read = || AssemblyCode::read(root?, seen(&self.path)?, self.mvid);
        self.code.get_or_insert_with(read).as_ref()
    }
}

/// A native image.
struct NativeImage {
    id: ModuleId,
    kind: ModuleKind,
    label: String,
    symbols: Option<NativeSymbols>,
}

/// Finds the files with the lines of modules.
struct PdbFiles {
    pid: u32,
    /// The target's root directory; `None` where we may not see it, or it has ended.
    root: Option<Root>,
    /// The target as a single-file application, if it is one; `None` until a module without a file
    /// is met.
    app: Option<Option<SingleFileApp>>,
}

impl PdbFiles {
    fn new(pid: u32) -> Self {
        Self { pid, root: Root::of_process(pid).ok(), app: None }
    }

    /// A module was met. The target may have ended when its lines are asked for, so its executable
    /// is opened now.
    fn met(&mut self, path: &str) {
        if seen(path).is_none() && !path.is_empty() {
            let link = format!("/proc/{}/exe", self.pid);
            self.app.get_or_insert_with(|| SingleFileApp::open(Path::new(&link)));
        }
    }

    /// The lines of a module. The runtime gives a module within a single-file application a path
    /// without a folder.
    fn find(&mut self, path: &str, mvid: [u8; 16]) -> Option<PortablePdb> {
        self.met(path);
        let root = self.root.as_ref()?;
        let found = match (seen(path), &mut self.app) {
            (Some(path), _) => PortablePdb::find(root, path, Some(mvid)),
            (None, Some(Some(app))) => app.find_pdb(root, path, Some(mvid)),
            (None, _) => return None,
        };
        found.ok().flatten()
    }
}

/// Names everything that can stand on a stack.
pub(super) struct Names {
    pdbs: PdbFiles,
    modules: HashMap<u32, ModuleFacts>,
    methods: HashMap<u32, MethodFacts>,
    /// What was read of methods, by number and part of their IL.
    leaf_waits: HashMap<(u32, Option<Range<u32>>), Option<LeafWaits>>,
    classes: HashMap<u32, String>,
    /// Native and IL offsets by code version, ascending.
    il_maps: HashMap<u32, Vec<(u32, u32)>>,
    images: HashMap<String, NativeImage>,
    /// Lambdas and local functions without lines, by module, type and name: the number of the
    /// method around the first one.
    numbered: HashMap<(Option<ModuleId>, String, String), Option<u32>>,
    /// Lines of modules that are named by their file instead of by a number.
    by_file: HashMap<(String, [u8; 16]), Option<PortablePdb>>,
}

impl Names {
    pub fn new(pid: u32) -> Self {
        Self {
            pdbs: PdbFiles::new(pid),
            modules: HashMap::new(),
            methods: HashMap::new(),
            leaf_waits: HashMap::new(),
            classes: HashMap::new(),
            il_maps: HashMap::new(),
            images: HashMap::new(),
            numbered: HashMap::new(),
            by_file: HashMap::new(),
        }
    }

    /// An asynchronous method, with the lines where it waits.
    pub fn machine(&mut self, machine: Machine) -> AsyncStateMachine {
        let Machine { class, path, mvid, token, points } = machine;
        let pdbs = &mut self.pdbs;
        let pdb = self
            .by_file
            .entry((path, mvid))
            .or_insert_with_key(|(path, _)| pdbs.find(path, mvid))
            .as_ref();
        let points = points.into_iter().map(|(state, il_offset)| {
            let line = pdb.and_then(|pdb| pdb.line(token, il_offset));
            AwaitPoint {
                state,
                line: line.map(|line| SourceLine { file: line.file, line: line.line }),
            }
        });
        AsyncStateMachine { class, points: points.collect() }
    }

    pub fn module(&mut self, definitions: &mut Definitions, module: Module) {
        let mvid = uuid_text(module.mvid);
        let id = definitions.module(true, &module.assembly, &module.path, Some(mvid));
        self.pdbs.met(&module.path);
        let facts = ModuleFacts {
            id,
            path: module.path,
            mvid: module.mvid,
            pdb: None,
            code: None,
            routes: None,
        };
        self.modules.insert(module.id, facts);
    }

    pub fn class(&mut self, class: Class) {
        self.classes.insert(class.id, class.name);
    }

    pub fn class_name(&self, class: u32) -> String {
        self.classes.get(&class).cloned().unwrap_or_else(|| "[unknown type]".to_owned())
    }

    pub fn method(&mut self, definitions: &mut Definitions, method: Method) {
        let module =
            method.module.and_then(|module| self.modules.get(&module)).map(|facts| facts.id);
        let (id, of, token) = (method.id, method.module, method.token);
        let stub = method.kind == MethodKind::IlStub;
        let function = self.define(definitions, module, method);
        self.methods.insert(id, MethodFacts { function, module: of, token, stub });
    }

    /// Whether a method is a stub of the runtime's, through which managed code calls native code.
    pub fn is_stub(&self, method: u32) -> bool {
        self.methods.get(&method).is_some_and(|facts| facts.stub)
    }

    /// What a method can wait for at a place in its code while it is the innermost managed frame;
    /// `None` where its IL cannot be read.
    pub fn leaf_waits(&mut self, method: u32, version: u32, offset: u32) -> Option<LeafWaits> {
        let il = self.il_range(version, offset);
        if let Some(known) = self.leaf_waits.get(&(method, il.clone())) {
            return *known;
        }
        let facts = self.methods.get(&method)?;
        let module = self.modules.get_mut(&facts.module?)?;
        let waits = module.code(self.pdbs.root.as_ref()).and_then(|code| {
            let here = code.leaf_waits(facts.token, il.clone())?;
            // Maps of optimized code have gaps: a call that is not where the map says may be
            // anywhere.
            if here == LeafWaits::default() {
                code.leaf_waits(facts.token, None)
            } else {
                Some(here)
            }
        });
        self.leaf_waits.insert((method, il), waits);
        waits
    }

    /// The part of the IL that the code at an offset was made of: from the last mapped place to the
    /// next one.
    fn il_range(&self, version: u32, offset: u32) -> Option<Range<u32>> {
        let map = self.il_maps.get(&version)?;
        // Numbers at the end of the range mark prologs and epilogs (`ICorDebugInfo::MappingTypes`).
        let is_real = |il: &u32| *il < 0xffff_fff0;
        let start = self.il_offset(version, offset).filter(is_real)?;
        let end = map
            .iter()
            .map(|(_, il)| *il)
            .filter(|il| *il > start && is_real(il))
            .min()
            .unwrap_or(u32::MAX);
        Some(start..end)
    }

    /// The function of a method.
    pub fn define(
        &mut self,
        definitions: &mut Definitions,
        module: Option<ModuleId>,
        method: Method,
    ) -> FunctionId {
        let user = symbols::demangle_compiler_names(&method.type_name, &method.name);
        let kind = match method.kind {
            MethodKind::Normal => FunctionKind::Managed,
            MethodKind::Dynamic => FunctionKind::Dynamic,
            MethodKind::IlStub => FunctionKind::Stub,
        };
        let (type_name, name, parameters, state_machine) = match user {
            Some(user) => {
                let name = match user.is_numbered() {
                    true => self.numbered_name(module, method.module, method.token, &user),
                    false => user.name,
                };
                // What the compiler passes to its own method says nothing to the user.
                (user.type_name, name, String::new(), user.state_machine)
            }
            None => (method.type_name, method.name, method.parameters, None),
        };
        let state_machine = state_machine.map(|kind| match kind {
            symbols::StateMachine::Async => session::StateMachine::Async,
            symbols::StateMachine::Iterator => session::StateMachine::Iterator,
            symbols::StateMachine::AsyncOrIterator => session::StateMachine::AsyncOrIterator,
        });
        let id = FunctionId(0);
        definitions.function(FunctionDef {
            id,
            kind,
            module,
            type_name,
            name,
            parameters,
            state_machine,
        })
    }

    /// The name of a lambda or a local function: with its line where that is known, as the number
    /// alone does not say much to whoever looks for it in the source. Without lines, those of
    /// overloads may have the same number: then the second one that is met has that of its method
    /// as well.
    fn numbered_name(
        &mut self,
        module: Option<ModuleId>,
        of: Option<u32>,
        token: u32,
        user: &UserMethod,
    ) -> String {
        let route = of
            .and_then(|of| self.route(of, token))
            .map_or_else(String::new, |route| format!(" [{route}]"));
        if let Some(line) = of.and_then(|of| self.pdb(of)?.first_line(token)) {
            return user.name_at(line) + &route;
        }
        if !route.is_empty() {
            return user.name.clone() + &route;
        }
        let key = (module, user.type_name.clone(), user.name.clone());
        match *self.numbered.entry(key).or_insert(user.around) == user.around {
            true => user.name.clone(),
            false => user.name_of_overload(),
        }
    }

    /// The route of a web service that a method handles, where the code of its module says so.
    fn route(&mut self, module: u32, token: u32) -> Option<String> {
        let (module, root) = (self.modules.get_mut(&module)?, self.pdbs.root.as_ref());
        if module.routes.is_none() {
            let routes = module.code(root).map(AssemblyCode::routes).unwrap_or_default();
            module.routes = Some(routes);
        }
        module.routes.as_ref()?.get(&token).cloned()
    }

    /// Lines of a module.
    fn pdb(&mut self, module: u32) -> Option<&PortablePdb> {
        let (module, pdbs) = (self.modules.get_mut(&module)?, &mut self.pdbs);
        module.pdb.get_or_insert_with(|| pdbs.find(&module.path, module.mvid)).as_ref()
    }

    /// The function of a method, if its metadata token is this one.
    pub fn function_with_token(&self, method: u32, token: u32) -> Option<FunctionId> {
        self.methods.get(&method).filter(|facts| facts.token == token).map(|facts| facts.function)
    }

    pub fn function_of(&self, method: u32) -> Option<FunctionId> {
        self.methods.get(&method).map(|facts| facts.function)
    }

    pub fn code(&mut self, version: u32, il_map: Vec<(u32, u32)>) {
        self.il_maps.insert(version, il_map);
    }

    /// Function and source line of a place in managed code.
    pub fn managed(
        &mut self,
        definitions: &mut Definitions,
        method: u32,
        version: u32,
        offset: u32,
    ) -> (FunctionId, Option<SourceLine>) {
        let Some(&MethodFacts { function, module, token, .. }) = self.methods.get(&method) else {
            return (definitions.named(FunctionKind::Managed, "[unknown method]", None), None);
        };
        let line = self.il_offset(version, offset).and_then(|il_offset| {
            let line = self.pdb(module?)?.line(token, il_offset)?;
            Some(SourceLine { file: line.file, line: line.line })
        });
        (function, line)
    }

    fn il_offset(&self, version: u32, offset: u32) -> Option<u32> {
        let map = self.il_maps.get(&version)?;
        let behind = map.partition_point(|(native, _)| *native <= offset);
        map.get(behind.checked_sub(1)?).map(|(_, il)| *il)
    }

    /// Function of a place in a native image.
    pub fn native(
        &mut self,
        definitions: &mut Definitions,
        location: Option<&NativeLocation>,
    ) -> FunctionId {
        let Some(location) = location else {
            return definitions.named(FunctionKind::Native, "[unknown native code]", None);
        };
        if !self.images.contains_key(&location.path) {
            let image = self.load_image(definitions, &location.path);
            self.images.insert(location.path.clone(), image);
        }
        let Some(image) = self.images.get(&location.path) else {
            return definitions.named(FunctionKind::Native, "[unknown native code]", None);
        };
        match image.symbols.as_ref().and_then(|symbols| symbols.lookup_stated(location.address)) {
            Some(function) => {
                let kind = function_kind(image.kind.of_function(&function.name));
                definitions.named(kind, &function.name, Some(image.id))
            }
            None => definitions.named(function_kind(image.kind), &image.label, Some(image.id)),
        }
    }

    fn load_image(&self, definitions: &mut Definitions, path: &str) -> NativeImage {
        let name = Path::new(path)
            .file_name()
            .map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned());
        // The agent, in callbacks on the target's threads: one name for all of it.
        if name.starts_with(AGENT_NAME) {
            let id = definitions.module(false, "clrscope agent", path, None);
            return NativeImage {
                id,
                kind: ModuleKind::Other,
                label: "[clrscope agent]".into(),
                symbols: None,
            };
        }
        let label = if name.starts_with('[') { name.clone() } else { format!("[{name}]") };
        let root = self.pdbs.root.as_ref();
        let symbols = seen(path).and_then(|path| NativeSymbols::open(root?, path).ok());
        let kind = match ModuleKind::of(&name) {
            // The runtime is linked into the application.
            ModuleKind::Other
                if symbols.as_ref().is_some_and(NativeSymbols::is_single_file_host) =>
            {
                ModuleKind::Runtime
            }
            kind => kind,
        };
        let build_id = symbols.as_ref().and_then(|symbols| symbols.build_id().map(str::to_owned));
        let id = definitions.module(false, &name, path, build_id);
        NativeImage { id, kind, label, symbols }
    }
}

/// The path of a file as the target sees it. `None` for what is no file.
fn seen(path: &str) -> Option<&Path> {
    path.starts_with('/').then(|| Path::new(path.strip_suffix(" (deleted)").unwrap_or(path)))
}

/// What functions of a part of a .NET process are.
fn function_kind(kind: ModuleKind) -> FunctionKind {
    match kind {
        ModuleKind::Runtime => FunctionKind::Runtime,
        ModuleKind::Gc => FunctionKind::Gc,
        ModuleKind::Jit => FunctionKind::Jit,
        ModuleKind::Host
        | ModuleKind::SystemNative
        | ModuleKind::LibC
        | ModuleKind::Vdso
        | ModuleKind::Other => FunctionKind::Native,
    }
}

/// A module version id as tools write it.
fn uuid_text(bytes: [u8; 16]) -> String {
    diagnostics::clsid_text(bytes).trim_matches(['{', '}']).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn il_offsets_are_those_of_the_statement_before() {
        let mut names = Names::new(std::process::id());
        names.code(0, vec![(0, 0), (10, 5), (20, 9)]);
        assert_eq!(names.il_offset(0, 0), Some(0));
        assert_eq!(names.il_offset(0, 19), Some(5));
        assert_eq!(names.il_offset(0, 500), Some(9));
        assert_eq!(names.il_offset(1, 0), None);
        // Optimized code is not in the order of its IL.
        names.code(2, vec![(0, 0xffff_fffe), (10, 9), (20, 5), (30, 0)]);
        assert_eq!(
            [0, 10, 20, 30].map(|offset| names.il_range(2, offset)),
            [None, Some(9..u32::MAX), Some(5..9), Some(0..5)]
        );
    }

    fn lambda(id: u32, type_name: &str, name: &str) -> Method {
        let (type_name, name, parameters) =
            (type_name.to_owned(), name.to_owned(), "(int)".to_owned());
        Method {
            id,
            module: Some(1),
            token: 0x0600_0000 | id,
            kind: MethodKind::Normal,
            type_name,
            name,
            parameters,
        }
    }

    /// Names of these methods of a module without lines.
    fn names_of(methods: Vec<Method>) -> Vec<String> {
        let (mut names, mut definitions) = (Names::new(std::process::id()), Definitions::default());
        let (path, assembly) = ("/nowhere/Shop.dll".to_owned(), "Shop".to_owned());
        names.module(&mut definitions, Module { id: 1, base: 0, path, assembly, mvid: [0; 16] });
        let named = methods.into_iter().map(|method| {
            let id = method.id;
            names.method(&mut definitions, method);
            let function = names.function_of(id).unwrap();
            let facts = definitions.function_facts(function).unwrap();
            format!("{}.{}", facts.type_name, facts.name)
        });
        named.collect()
    }

    #[test]
    fn lambdas_of_overloads_are_told_apart_without_lines() {
        let methods = [
            ("Shop+<>c", "<Load>b__4_0"),
            ("Shop+<>c", "<Load>b__4_1"),
            ("Shop+<>c", "<Load>b__5_0"),
            ("Shop+<>c__DisplayClass5_0+<<Load>b__0>d", "MoveNext"),
        ];
        let methods = (1..).zip(methods).map(|(id, (ty, name))| lambda(id, ty, name)).collect();
        let expected = [
            "Shop.Load.lambda#0",
            "Shop.Load.lambda#1",
            "Shop.Load.lambda#5_0",
            "Shop.Load.lambda#5_0",
        ];
        assert_eq!(names_of(methods), expected);
    }

    #[test]
    fn native_frames_of_our_own_process_are_named() {
        let mut names = Names::new(std::process::id());
        let mut definitions = Definitions::default();
        assert_eq!(names.native(&mut definitions, None), names.native(&mut definitions, None));
        let gc =
            ModuleKind::Runtime.of_function("WKS::gc_heap::mark_object_simple(unsigned char**)");
        assert_eq!(function_kind(gc), FunctionKind::Gc);
    }
}
