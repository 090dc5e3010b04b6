//! Ids of modules, classes and methods, and the records that define them.

use super::{Named, Resolver};
use crate::host::counters::Counters;
use crate::host::event_class_names::full_name;
use crate::host::id_table::Meaning;
use crate::host::runtime::Runtime;
use crate::os::clock;
use corprof::ids::{ClassId, FunctionId, ModuleId};
use corprof::metadata::token::MethodDef;
use corprof::{Error, FunctionKind, MethodName};
use wire::unwind_table::Image;
use wire::{Class, Method, MethodKind, Module, Record, as_csharp};

impl Resolver {
    /// Id of a method, which must be loaded: see [`crate::host::unloads::Unloads`].
    pub fn method(
        &mut self,
        runtime: &Runtime,
        counters: &Counters,
        function: FunctionId,
        out: &mut Vec<Record>,
    ) -> u32 {
        if let Some(named) = self.methods.get(&function) {
            return named.id;
        }
        // The thread's own time: what it waits for a processor is no cost of naming.
        let begun = clock::thread_cpu();
        let name = runtime.names().method(function);
        let taken = clock::thread_cpu().saturating_sub(begun);
        Counters::add(&counters.naming, taken);
        Counters::add(&counters.methods, 1);
        let module = name.as_ref().ok().and_then(|name| name.module);
        if module.is_some_and(|module| !self.modules.contains_key(&module)) {
            Counters::add(&counters.first_methods, 1);
            Counters::add(&counters.opening, taken);
        }
        self.define(runtime, function, name, out)
    }

    /// Id of a method that has a name already, or cannot have one.
    pub fn define(
        &mut self,
        runtime: &Runtime,
        function: FunctionId,
        name: Result<MethodName, Error>,
        out: &mut Vec<Record>,
    ) -> u32 {
        if let Some(named) = self.methods.get(&function) {
            return named.id;
        }
        let module = name.as_ref().ok().and_then(|name| name.module);
        if self.methods.len() >= Self::MOST {
            self.forget_all_code();
            self.methods.clear();
        }
        self.last_method = self.last_method.wrapping_add(1);
        let id = self.last_method;
        self.methods.insert(function, Named { id, module, code: Vec::new() });
        let method = self.record(runtime, id, name, out);
        out.push(Record::Method(method));
        id
    }

    fn record(
        &mut self,
        runtime: &Runtime,
        id: u32,
        name: Result<MethodName, Error>,
        out: &mut Vec<Record>,
    ) -> Method {
        match name {
            Ok(name) => {
                let (kind, module) = match name.kind {
                    FunctionKind::Normal => (MethodKind::Normal, name.module),
                    FunctionKind::Dynamic => (MethodKind::Dynamic, None),
                    FunctionKind::IlStub => (MethodKind::IlStub, None),
                };
                Method {
                    id,
                    module: module.and_then(|module| self.module(runtime, module, out)),
                    token: if kind == MethodKind::Normal { name.token.raw() } else { 0 },
                    kind,
                    type_name: name.type_name.as_ref().to_owned(),
                    name: name.name,
                    parameters: name.parameters,
                }
            }
            Err(error) => Method {
                id,
                module: None,
                token: 0,
                kind: MethodKind::Normal,
                type_name: String::new(),
                name: format!("[unnamed: {error}]"),
                parameters: String::new(),
            },
        }
    }

    /// A new id for a method by its place in metadata, with generic parameters in place of
    /// arguments.
    pub fn method_def(
        &mut self,
        runtime: &Runtime,
        module: ModuleId,
        method: MethodDef,
        out: &mut Vec<Record>,
    ) -> u32 {
        let name = runtime.names().method_def(module, method);
        self.last_method = self.last_method.wrapping_add(1);
        let record = self.record(runtime, self.last_method, name, out);
        out.push(Record::Method(record));
        self.last_method
    }

    /// Id of a module; `None` if it is gone, and was not met before.
    fn module(
        &mut self,
        runtime: &Runtime,
        module: ModuleId,
        out: &mut Vec<Record>,
    ) -> Option<u32> {
        if let Some(&(id, _)) = self.modules.get(&module) {
            return Some(id);
        }
        let found =
            runtime.unloads().hold(module, || (runtime.module(module), runtime.mvid(module)));
        let ((base, path, assembly), mvid) = found?;
        self.last_module = self.last_module.wrapping_add(1);
        let id = self.last_module;
        self.modules.insert(module, (id, base));
        if let Some(image) = Image::at(&*self.memory, base) {
            self.images.insert(base, image);
        }
        out.push(Record::Module(Module { id, base, path, assembly, mvid }));
        Some(id)
    }

    /// Id of a class, which must be loaded: see [`crate::host::unloads::Unloads`].
    pub fn class(&mut self, runtime: &Runtime, class: ClassId, out: &mut Vec<Record>) -> u32 {
        if let Some(&id) = self.classes.get(&class) {
            return id;
        }
        let id = match runtime.names().class(class) {
            Ok(name) => self.named_class(&name, out),
            Err(error) => self.named_class(&format!("[unnamed: {error}]"), out),
        };
        self.classes.insert(class, id);
        id
    }

    /// Id of a class that is known by its name in an event only.
    pub fn event_class(
        &mut self,
        runtime: &Runtime,
        class: ClassId,
        name: &str,
        out: &mut Vec<Record>,
    ) -> u32 {
        if let Some(&id) = self.event_classes.get(&class) {
            return id;
        }
        let name = full_name(runtime, name).unwrap_or_else(|| as_csharp(name));
        let id = self.named_class(&name, out);
        self.event_classes.insert(class, id);
        id
    }

    /// Id of a class by its number in the [table of ids](crate::host::id_table). It may have been
    /// unloaded.
    pub fn numbered_class(&mut self, runtime: &Runtime, number: u32, out: &mut Vec<Record>) -> u32 {
        if let Some(&id) = self.numbered_classes.get(&number) {
            return id;
        }
        if self.numbered_classes.len() >= Self::MOST {
            self.numbered_classes.clear();
        }
        let id = runtime.unloads().hold_all(|| match runtime.ids().class_of(number) {
            Meaning::Loaded(class) => self.class(runtime, class, out),
            Meaning::Unloaded(name) => self.named_class(&name, out),
            Meaning::Unknown => self.named_class("[unloaded type]", out),
        });
        self.numbered_classes.insert(number, id);
        id
    }

    /// Id of a method by its number in the [table of ids](crate::host::id_table). It may have been
    /// unloaded.
    pub fn numbered_method(
        &mut self,
        runtime: &Runtime,
        counters: &Counters,
        number: u32,
        out: &mut Vec<Record>,
    ) -> Option<u32> {
        if let Some(&id) = self.numbered_methods.get(&number) {
            return Some(id);
        }
        if self.numbered_methods.len() >= Self::MOST {
            self.numbered_methods.clear();
        }
        let id = runtime.unloads().hold_all(|| match runtime.ids().function_of(number) {
            Meaning::Loaded(function) => Some(self.method(runtime, counters, function, out)),
            Meaning::Unloaded(name) => {
                self.last_method = self.last_method.wrapping_add(1);
                let method = self.record(runtime, self.last_method, Ok(name), out);
                out.push(Record::Method(method));
                Some(self.last_method)
            }
            Meaning::Unknown => None,
        })?;
        self.numbered_methods.insert(number, id);
        Some(id)
    }

    /// A new id for a class that is known by its full name.
    pub fn named_class(&mut self, name: &str, out: &mut Vec<Record>) -> u32 {
        self.last_class = self.last_class.wrapping_add(1);
        out.push(Record::Class(Class { id: self.last_class, name: name.to_owned() }));
        self.last_class
    }
}
