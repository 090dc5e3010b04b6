//! Asks the runtime about everything that can be asked, changes some of it, and writes the answers:
//! one line for each, name and answer with a tab between.
//!
//! It is made for one program, `tests/programs/Names.cs`, and its answers are checked by
//! `tests/runtime.rs`; but it is also the place to see each part of the interface in use.
//!
//! `ASK_EVERYTHING_TO` names the file.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use corprof::abi::{COR_PRF_EVENTPIPE_LEVEL, COR_PRF_EVENTPIPE_PARAM_TYPE, COR_PRF_HANDLE_TYPE};
use corprof::callback::DeliveredEvent;
use corprof::ids::{FunctionId, ModuleId, ReJitId};
use corprof::info::{
    EventDefinition, EventField, EventPipeSession, FieldKind, IlOffset, ProviderConfig,
    SnapshotFlags,
};
use corprof::metadata::{
    AssemblyFlags, AssemblyIdentity, AssemblyVersion, Constant, FieldAttributes, FieldDefinition,
    FieldOffset, GenericParamAttributes, Metadata, MethodAttributes, MethodDef, MethodDefinition,
    MethodImplAttributes, PInvokeAttributes, ParamAttributes, PropertyAttributes,
    PropertyDefinition, TokenKind, TypeAttributes, TypeDef,
};
use corprof::signature::{self, CallingConvention, MethodSig, Primitive, PropertySig, TypeSig};
use corprof::{
    CallbackCx, Error, EventMask, HResult, NameResolver, ObjectId, Profiler, ProfilerCallback,
    ProfilerInfo, Result, export_profiler, guid,
};

/// `CORPROF_E_SUSPENSION_IN_PROGRESS`: somebody else suspends the runtime just now.
const SUSPENSION_IN_PROGRESS: HResult = HResult::from_bits(0x8013_1388);

const VOID: TypeSig = TypeSig::Primitive(Primitive::Void);
const INT: TypeSig = TypeSig::Primitive(Primitive::I4);
const STRING: TypeSig = TypeSig::Primitive(Primitive::String);

#[derive(Default)]
struct Answers(Mutex<BTreeMap<String, String>>);

impl Answers {
    fn put(&self, name: &str, answer: impl Display) {
        let answer = answer.to_string().replace('\n', " ");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), answer);
    }

    /// Keeps the answer, or the error in its place.
    fn ask<T: Display>(&self, name: &str, answer: Result<T>) {
        match answer {
            Ok(answer) => self.put(name, answer),
            Err(error) => self.put(name, format!("error: {error}")),
        }
    }

    fn write(&self, path: &std::ffi::OsStr) {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text =
            answers.iter().map(|(name, answer)| format!("{name}\t{answer}\n")).collect::<String>();
        if let Err(error) = std::fs::write(path, text) {
            eprintln!("cannot write {}: {error}", path.display());
        }
    }
}

/// What is shared with our own thread.
struct State {
    info: ProfilerInfo,
    names: NameResolver,
    answers: Answers,
    module: Mutex<Option<ModuleId>>,
    thrown: AtomicBool,
    worker_done: AtomicBool,
    session: Mutex<Option<EventPipeSession>>,
    delivered: AtomicU64,
}

#[derive(Default)]
struct AskEverything {
    state: OnceLock<Arc<State>>,
}

impl State {
    fn module(&self) -> Option<ModuleId> {
        *self.module.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to the program's metadata everything that may be added, and reads it back.
    fn add_metadata(&self, module: ModuleId) -> Result<()> {
        let emit = self.info.module_metadata_emit(module)?;
        let metadata = emit.metadata()?;
        let manifest = emit.manifest()?;
        let identity = AssemblyIdentity {
            name: "Added.Library".to_owned(),
            version: AssemblyVersion { major: 1, minor: 2, build: 3, revision: 4 },
            culture: "de-AT".to_owned(),
        };
        let library = manifest.define_assembly_ref(
            &identity,
            &[1, 2, 3, 4, 5, 6, 7, 8],
            &[],
            AssemblyFlags::default(),
        )?;
        let reading = metadata.manifest()?;
        let props = reading.assembly_ref_props(library)?;
        self.answers.put(
            "emit.assembly_ref",
            format!(
                "{:?} {:?} {:?}",
                props.identity == identity,
                props.public_key_or_token,
                props.hash
            ),
        );
        let thing = emit.define_type_ref(library.into(), "Added.Thing")?;
        let props = metadata.type_ref_props(thing)?;
        self.answers.put(
            "emit.type_ref",
            format!("{} {:?}", props.name, props.scope == Some(library.into())),
        );
        self.answers.put(
            "emit.find_type_ref",
            format!("{:?}", metadata.find_type_ref(library.into(), "Added.Thing")? == Some(thing)),
        );
        let sig = MethodSig {
            convention: CallingConvention::DEFAULT.with_generics(),
            generic_parameters: 1,
            return_type: TypeSig::MethodParam(0),
            parameters: vec![
                TypeSig::SzArray(Box::new(TypeSig::MethodParam(0))),
                TypeSig::Class(thing.into()),
            ],
            sentinel: None,
        };
        let member = emit.define_member_ref(thing.into(), "Do", &sig.encode()?)?;
        let props = metadata.member_ref_props(member)?;
        self.answers.put(
            "emit.member_ref",
            format!(
                "{} {:?}",
                props.name,
                MethodSig::decode(props.signature)? == sig && props.parent == thing.into()
            ),
        );
        let spec =
            emit.define_method_spec(member.into(), &signature::encode_method_spec(&[INT])?)?;
        let props = metadata.method_spec_props(spec)?;
        self.answers.put(
            "emit.method_spec",
            format!(
                "{:?} {:?}",
                props.parent == member.into(),
                signature::decode_method_spec(props.signature)?
            ),
        );
        let array = TypeSig::Array {
            element: Box::new(TypeSig::Class(thing.into())),
            rank: 2,
            sizes: vec![3],
            lower_bounds: vec![-1],
        };
        let type_spec = emit.token_from_type_spec(&array.encode()?)?;
        self.answers.put(
            "emit.type_spec",
            TypeSig::decode(metadata.type_spec_signature(type_spec)?)? == array,
        );
        let locals = signature::encode_locals(&[INT, TypeSig::Pinned(Box::new(STRING))])?;
        let token = emit.token_from_signature(&locals)?;
        self.answers.put("emit.signature", metadata.signature(token)? == locals);
        let text = "added größer \0 with a zero";
        let string = emit.define_user_string(text)?;
        self.answers.put("emit.user_string", metadata.user_string(string)? == text);
        self.add_type(&emit, &metadata)
    }

    fn add_type(&self, emit: &corprof::metadata::MetadataEmit, metadata: &Metadata) -> Result<()> {
        let object = metadata.type_refs().flatten().find(|type_ref| {
            metadata.type_ref_props(*type_ref).is_ok_and(|props| props.name == "System.Object")
        });
        let object = object.ok_or(Error::Nothing { call: "System.Object" })?;
        let flags =
            TypeAttributes::PUBLIC | TypeAttributes::EXPLICIT_LAYOUT | TypeAttributes::SEALED;
        let class = emit.define_type_def("Added.Class`1", flags, object.into(), &[])?;
        let nested = emit.define_nested_type(
            "Nested",
            TypeAttributes::NESTED_PUBLIC,
            object.into(),
            &[],
            class,
        )?;
        self.answers.put("emit.nested", metadata.enclosing_type(nested)? == Some(class));
        emit.define_generic_param(
            class.into(),
            0,
            GenericParamAttributes::REFERENCE_TYPE,
            "TAdded",
            &[],
        )?;
        let param = metadata.generic_params(class).next().transpose()?;
        let param = param.map(|param| metadata.generic_param_props(param)).transpose()?;
        self.answers.put(
            "emit.generic_param",
            format!("{:?}", param.map(|param| (param.name, param.attributes))),
        );
        let field = emit.define_field(
            class,
            &FieldDefinition {
                name: "Added",
                attributes: FieldAttributes::PUBLIC,
                signature: &signature::encode_field(&INT)?,
                constant: None,
            },
        )?;
        let constant = Constant::String("größer".to_owned());
        let literal = emit.define_field(
            class,
            &FieldDefinition {
                name: "Literal",
                attributes: FieldAttributes::PUBLIC
                    | FieldAttributes::STATIC
                    | FieldAttributes::LITERAL,
                signature: &signature::encode_field(&STRING)?,
                constant: Some(constant.clone()),
            },
        )?;
        self.answers
            .put("emit.constant", metadata.field_props(literal)?.constant == Some(constant));
        emit.set_class_layout(class, 8, &[FieldOffset { field, offset: 16 }], 64)?;
        let layout = metadata.class_layout(class)?;
        self.answers.put(
            "emit.layout",
            format!(
                "{:?}",
                layout.map(|layout| {
                    let offset =
                        layout.fields.iter().find(|one| one.field == field).map(|one| one.offset);
                    (layout.pack_size, layout.class_size, offset)
                })
            ),
        );
        let getter_sig = MethodSig {
            convention: CallingConvention::DEFAULT,
            generic_parameters: 0,
            return_type: INT,
            parameters: Vec::new(),
            sentinel: None,
        };
        let native = emit.define_module_ref("libc")?;
        let getter = emit.define_method(
            class,
            &MethodDefinition {
                name: "get_Value",
                attributes: MethodAttributes::PUBLIC
                    | MethodAttributes::STATIC
                    | MethodAttributes::PINVOKE_IMPL,
                signature: &getter_sig.encode()?,
                code_rva: 0,
                implementation: MethodImplAttributes::PRESERVE_SIG,
            },
        )?;
        let flags = PInvokeAttributes::CALL_CONV_CDECL | PInvokeAttributes::SUPPORTS_LAST_ERROR;
        emit.define_pinvoke_map(getter.into(), flags, "getpid", native)?;
        let map = metadata.pinvoke_map(getter)?;
        self.answers.put(
            "emit.pinvoke",
            format!("{:?}", map.map(|map| (map.name, map.flags == flags, map.library == native))),
        );
        let property = emit.define_property(
            class,
            &PropertyDefinition {
                name: "Value",
                attributes: PropertyAttributes::default(),
                signature: &PropertySig {
                    has_this: false,
                    property_type: INT,
                    parameters: Vec::new(),
                }
                .encode()?,
                default: None,
                setter: None,
                getter: Some(getter),
                others: &[],
            },
        )?;
        let props = metadata.property_props(property)?;
        self.answers.put(
            "emit.property",
            format!("{} {:?} {:?}", props.name, props.getter == Some(getter), props.setter),
        );
        let setter_sig = MethodSig { return_type: VOID, parameters: vec![INT], ..getter_sig };
        let setter = emit.define_method(
            class,
            &MethodDefinition {
                name: "Set",
                attributes: MethodAttributes::PUBLIC | MethodAttributes::STATIC,
                signature: &setter_sig.encode()?,
                code_rva: 0,
                implementation: MethodImplAttributes::default(),
            },
        )?;
        let default = Constant::I4(-5);
        let param = emit.define_param(
            setter,
            1,
            "value",
            ParamAttributes::OPTIONAL | ParamAttributes::HAS_DEFAULT,
            Some(&default),
        )?;
        let props = metadata.param_props(param)?;
        self.answers
            .put("emit.param", format!("{} {} {:?}", props.name, props.sequence, props.default));
        let method = metadata.find_method(class, "Set", &setter_sig.encode()?)?;
        self.answers.put("emit.find_method", method == Some(setter));
        emit.set_marshalling(param.into(), &[0x14])?;
        self.answers.put("emit.marshalling", format!("{:?}", metadata.marshalling(param)?));
        emit.define_custom_attribute(class.into(), setter.into(), &[1, 0, 7, 0, 0, 0, 0, 0])?;
        let attribute = metadata.custom_attributes(Some(class.into()), None).next().transpose()?;
        let attribute =
            attribute.map(|attribute| metadata.custom_attribute_props(attribute)).transpose()?;
        self.answers.put(
            "emit.attribute",
            format!("{:?}", attribute.map(|attribute| attribute.value.to_vec())),
        );
        Ok(())
    }

    /// Reads what the compiler wrote.
    fn read_metadata(&self, module: ModuleId) -> Result<()> {
        let metadata = self.names.metadata(module)?;
        let answers = &self.answers;
        answers.put("md.scope", metadata.scope_props()?.name);
        answers.put("md.version", metadata.version_string()?);
        answers.put("md.pe", format!("{:?}", metadata.pe_kind()?.kind));
        answers.put("md.module", metadata.is_valid(metadata.module()?));
        answers.put("md.invalid", metadata.is_valid(MethodDef::from_rid(0x00ff_fff0)));
        answers.put(
            "md.no_such_row",
            format!("{:?}", metadata.method_props(MethodDef::from_rid(0x00ff_fff0)).is_err()),
        );
        let mut types = metadata.type_defs();
        answers.put("md.types.total", types.total()?);
        let all = types.by_ref().collect::<Result<Vec<_>>>()?;
        answers.put("md.types.counted", all.len());
        types.reset(0)?;
        answers.put("md.types.again", types.count());
        let class = metadata.find_type_def("Names.Inner.Constants", None)?;
        let class = class.ok_or(Error::Nothing { call: "FindTypeDefByName" })?;
        answers.put("md.find.none", format!("{:?}", metadata.find_type_def("No.Such", None)?));
        answers.put("md.name_of", metadata.name_of(class)?);
        for name in ["Number", "Text", "Real", "Nothing"] {
            let field = metadata
                .find_field(class, name, &[])?
                .ok_or(Error::Nothing { call: "FindField" })?;
            let props = metadata.field_props(field)?;
            answers.put(&format!("md.constant.{name}"), format!("{:?}", props.constant));
        }
        let obsolete = metadata.custom_attribute_named(class, "System.ObsoleteAttribute")?;
        answers.put(
            "md.obsolete",
            String::from_utf8_lossy(obsolete.and_then(|value| value.get(3..17)).unwrap_or(&[])),
        );
        answers.put(
            "md.obsolete.none",
            format!("{:?}", metadata.custom_attribute_named(class, "System.FlagsAttribute")?),
        );
        let event = metadata
            .events(class)
            .next()
            .transpose()?
            .ok_or(Error::Nothing { call: "EnumEvents" })?;
        let event = metadata.event_props(event)?;
        let add = event.add.ok_or(Error::Nothing { call: "GetEventProps" })?;
        answers.put("md.event", format!("{} {}", event.name, metadata.method_props(add)?.name));
        let pid = metadata
            .find_method(class, "Pid", &[])?
            .ok_or(Error::Nothing { call: "FindMethod" })?;
        let map = metadata.pinvoke_map(pid)?.ok_or(Error::Nothing { call: "GetPinvokeMap" })?;
        answers.put(
            "md.pinvoke",
            format!("{} in {}", map.name, metadata.module_ref_name(map.library)?),
        );
        let optional = metadata
            .find_method(class, "Optional", &[])?
            .ok_or(Error::Nothing { call: "FindMethod" })?;
        answers.put("md.pinvoke.none", format!("{:?}", metadata.pinvoke_map(optional)?.is_none()));
        let params = metadata.params(optional).map(|param| metadata.param_props(param?));
        let params = params.map(|param| param.map(|param| (param.name, param.default)));
        answers.put("md.params", format!("{:?}", params.collect::<Result<Vec<_>>>()?));
        let program = metadata
            .find_type_def("Names.Inner.Program", None)?
            .ok_or(Error::Nothing { call: "Program" })?;
        let property =
            metadata.properties(program).map(|property| metadata.property_props(property?));
        let property = property.map(|property| property.map(|property| property.name));
        answers.put("md.properties", format!("{:?}", property.collect::<Result<Vec<_>>>()?));
        let strings = metadata
            .user_strings()
            .map(|string| metadata.user_string(string?))
            .collect::<Result<Vec<_>>>()?;
        answers
            .put("md.user_strings", strings.iter().any(|string| string == "the message: größer"));
        let members = metadata.members(class).collect::<Result<Vec<_>>>()?;
        let fields =
            members.iter().filter(|member| member.kind() == Some(TokenKind::FieldDef)).count();
        answers.put("md.members", format!("{} {fields}", members.len()));
        let member = metadata.member_props(members.first().copied().unwrap_or_default())?;
        answers.put("md.member", format!("{} {:?}", member.name, member.class == class));
        answers.put("md.layout.none", format!("{:?}", metadata.class_layout(class)?.is_none()));
        let manifest = metadata.manifest()?;
        let assembly =
            manifest.assembly()?.ok_or(Error::Nothing { call: "GetAssemblyFromScope" })?;
        answers.put("md.assembly", manifest.assembly_props(assembly)?.identity.name);
        let refs = manifest
            .assembly_refs()
            .map(|one| manifest.assembly_ref_props(one?).map(|one| one.identity.name));
        answers.put("md.assembly_refs", format!("{:?}", refs.collect::<Result<Vec<_>>>()?));
        answers
            .put("md.resource.none", format!("{:?}", manifest.find_manifest_resource("nothing")?));
        self.read_tables(&metadata, class)
    }

    fn read_tables(&self, metadata: &Metadata, class: TypeDef) -> Result<()> {
        let tables = metadata.tables()?;
        let table = tables.table_of(class.into())?;
        let info = tables.table(table)?;
        let column = (0..info.columns)
            .find(|column| tables.column(table, *column).is_ok_and(|column| column.name == "Name"))
            .ok_or(Error::Nothing { call: "GetColumnInfo" })?;
        let name = tables.value(table, column, class.rid())?;
        self.answers.put("tables.name", format!("{} {}", info.name, tables.string(name)?));
        self.answers
            .put("tables.row", tables.row(table, class.rid())?.len() == info.row_size as usize);
        self.answers.put("tables.count", tables.table_count()?);
        let coded = tables.coded_token(0)?;
        self.answers.put("tables.coded", format!("{} {:?}", coded.name, coded.tables.len()));
        self.answers
            .put("tables.heaps", tables.string_heap_size()? > 0 && tables.blob_heap_size()? > 0);
        self.answers.put("tables.guid", tables.guid(1)? == metadata.scope_props()?.mvid);
        Ok(())
    }

    /// A new body for `Answer`: load 42, return.
    fn change_body(&self, module: ModuleId) -> Result<()> {
        let metadata = self.info.module_metadata(module)?;
        let program = metadata
            .find_type_def("Names.Inner.Program", None)?
            .ok_or(Error::Nothing { call: "Program" })?;
        let answer = metadata
            .find_method(program, "Answer", &[])?
            .ok_or(Error::Nothing { call: "Answer" })?;
        self.answers
            .put("il.before", format!("{:02x?}", self.info.il_function_body(module, answer)?));
        // A tiny header (length and the bits 10), then ldc.i4.s 42 and ret.
        self.info.set_il_function_body(module, answer, &[(3 << 2) | 2, 0x1f, 42, 0x2a])?;
        self.answers
            .put("il.after", format!("{:02x?}", self.info.il_function_body(module, answer)?));
        Ok(())
    }

    /// Asks about an exception that has been thrown on this thread, which waits meanwhile.
    fn look_at_exception(&self, exception: ObjectId<'_>) -> Result<()> {
        let (info, answers) = (&self.info, &self.answers);
        let class = info.class_of(exception)?;
        answers.put("object.class", self.names.class(class)?);
        answers.put("object.size", info.object_size(exception)? > 64);
        answers.ask(
            "object.generation",
            info.object_generation(exception).map(|range| range.generation.0),
        );
        answers.ask("object.frozen", info.is_frozen(exception));
        answers.put("object.string.none", format!("{:?}", info.string(exception, 100)?));
        let mut parent = Some(class);
        let mut found = None;
        while let Some(class) = parent {
            let class_info = info.class_info(class)?;
            if &*self.names.class(class)? == "System.Exception" {
                let metadata = self.names.metadata(class_info.module)?;
                let field = metadata.find_field(class_info.type_def, "_message", &[])?;
                let layout = info.class_layout(class)?;
                found =
                    layout.fields.iter().find(|one| Some(one.field) == field).map(|one| one.offset);
            }
            parent = class_info.parent;
        }
        let offset = found.ok_or(Error::Nothing { call: "_message" })? as usize;
        let mut messages = Vec::new();
        info.object_references(exception, |object, at| {
            if at == exception.address() + offset {
                messages.push(info.string(object, 1000));
            }
            true
        })?;
        answers.put("object.message", format!("{messages:?}"));
        let cut = info.object_references(exception, |object, _| {
            messages.push(info.string(object, 3));
            false
        });
        answers.put("object.message.cut", format!("{:?} {:?}", messages.last(), cut));
        answers
            .put("object.out_of_bounds", info.read_object(exception, 1 << 20, &mut [0]).is_err());
        match info.create_handle(exception, COR_PRF_HANDLE_TYPE::STRONG) {
            Ok(handle) => answers.put("object.handle", handle.object()? == Some(exception.raw())),
            Err(error) => answers.put("object.handle", format!("error: {error}")),
        }
        let mut frames = Vec::new();
        info.stack_snapshot(None, SnapshotFlags::DEFAULT, None, |frame| {
            if let Some(function) = frame.function {
                let name = self.names.method_in_frame(function, frame.frame);
                frames.push(name.map_or_else(|error| error.to_string(), |name| name.to_string()));
            }
            ControlFlow::Continue(())
        })?;
        answers.put("stack.exact", frames.join(" < "));
        let mut count = 0;
        info.stack_snapshot(None, SnapshotFlags::REGISTERS, None, |frame| {
            count += 1;
            answers.put("stack.registers", !frame.context.is_empty());
            ControlFlow::Break(())
        })?;
        answers.put("stack.broken_off", count);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            info.stack_snapshot(None, SnapshotFlags::DEFAULT, None, |_| {
                std::panic::resume_unwind(Box::new("stop"))
            })
        }));
        answers.put("stack.panic", panicked.is_err());
        let thread = info.current_thread()?;
        answers.put("thread.current", thread.is_some());
        answers.ask(
            "thread.os_id",
            thread.map_or(Ok(None), |thread| info.thread_os_id(thread)).map(|id| id.is_some()),
        );
        Ok(())
    }

    /// What a function's code is like.
    fn look_at_code(&self, function: FunctionId) -> Result<()> {
        let (info, answers) = (&self.info, &self.answers);
        let range = info.code_info(function)?;
        let found = info.function_from_ip3(range.start)?;
        answers.put(
            "code.from_ip",
            found.function == function && info.function_from_ip(range.start)? == function,
        );
        answers.put("code.from_ip2", info.function_from_ip2(range.start)?.function == function);
        answers.put("code.nothing", info.function_from_ip3(16).is_err());
        answers.put(
            "code.contains",
            range.contains(range.start) && !range.contains(range.start + range.size),
        );
        answers.put(
            "code.ranges",
            info.code_info2(function)? == info.code_info3(function, ReJitId::NULL)?,
        );
        let starts = info.native_code_start_addresses(function, ReJitId::NULL)?;
        answers.put("code.starts", starts.contains(&range.start));
        answers.put("code.info4", info.code_info4(range.start)? == info.code_info2(function)?);
        let map = info.il_to_native_mapping3(range.start)?;
        answers.put("code.map", map.iter().any(|entry| entry.il == IlOffset::At(0)));
        answers.put(
            "code.map2",
            info.il_to_native_mapping2(function, ReJitId::NULL)?
                == info.il_to_native_mapping(function)?,
        );
        answers.put("code.rejits", format!("{:?}", info.rejit_ids(function)?.len()));
        answers.put("code.dynamic", info.is_function_dynamic(function)?);
        let function_info = info.function_info2(function, None)?;
        let again = info.function_from_token(function_info.module, function_info.token);
        answers.put("code.from_token", again == Ok(function));
        let (metadata, token) = info.metadata_of_function(function)?;
        answers.put("code.metadata", metadata.name_of(token)?);
        Ok(())
    }

    /// Asks what our own thread may ask: the runtime is suspended meanwhile.
    fn look_at_runtime(&self) -> Result<()> {
        let (info, answers) = (&self.info, &self.answers);
        answers.put("thread.own", info.current_thread()?.is_none());
        info.initialize_current_thread()?;
        let mut suspended = info.suspend_runtime();
        while let Err(Error::Hr { hresult, .. }) = suspended
            && hresult == SUSPENSION_IN_PROGRESS
        {
            std::thread::sleep(Duration::from_millis(1));
            suspended = info.suspend_runtime();
        }
        let suspended = suspended?;
        let mut deepest = 0;
        for thread in info.threads()? {
            let mut depth = 0;
            let _ = info.stack_snapshot(Some(thread?), SnapshotFlags::DEFAULT, None, |frame| {
                depth += u32::from(frame.function.is_some());
                ControlFlow::Continue(())
            });
            deepest = deepest.max(depth);
        }
        answers.put("world.deepest", deepest > 3);
        // With the runtime suspended by ourselves, and then by the method itself.
        self.count_objects("heap.objects.suspended");
        suspended.resume()?;
        self.count_objects("heap.objects");
        answers.ask("heap.force_gc", info.force_gc().map(|()| "ok"));
        answers.ask(
            "heap.ranges",
            info.generation_bounds().map(|ranges| ranges.iter().any(|range| range.used > 0)),
        );
        answers.ask("heap.loh", info.large_object_threshold());
        answers
            .ask("heap.non_gc", info.non_gc_objects().map(|objects| objects.flatten().count() > 0));
        answers.ask(
            "heap.non_gc_bounds",
            info.non_gc_heap_bounds().map(|ranges| ranges.iter().any(|range| range.used > 0)),
        );
        Ok(())
    }

    /// Every object on the heap, and how many of them are strings.
    fn count_objects(&self, name: &str) {
        for _ in 0..200 {
            let (mut objects, mut strings) = (0_u64, 0_u64);
            let heap = self.info.gc_heap_objects(|object| {
                objects += 1;
                strings += u64::from(matches!(self.info.string(object, 10), Ok(Some(_))));
                true
            });
            match heap {
                Ok(()) => {
                    self.answers.put(name, objects > 300 && strings > 100 && strings < objects)
                }
                Err(error) => {
                    self.answers.put(name, format!("error: {error}"));
                    if error.hresult() == Some(SUSPENSION_IN_PROGRESS) {
                        std::thread::sleep(Duration::from_millis(5));
                        continue;
                    }
                }
            }
            break;
        }
    }

    /// A provider, an event and a session of our own.
    fn write_event(&self) -> Result<()> {
        let info = &self.info;
        let provider = info.create_event_pipe_provider("Corprof-Test-Provider")?;
        self.answers.put("events.provider", info.event_pipe_provider_name(provider)?);
        let event = info.define_event_pipe_event(
            provider,
            &EventDefinition {
                name: "Tested".to_owned(),
                id: 7,
                keywords: 1,
                version: 1,
                level: COR_PRF_EVENTPIPE_LEVEL::INFORMATIONAL,
                opcode: 0,
                needs_stack: false,
                fields: vec![EventField {
                    name: "number".to_owned(),
                    kind: FieldKind::One(COR_PRF_EVENTPIPE_PARAM_TYPE::INT32),
                }],
            },
        )?;
        let session = info.start_event_pipe_session(
            &[ProviderConfig {
                name: "Corprof-Test-Provider".to_owned(),
                keywords: u64::MAX,
                level: COR_PRF_EVENTPIPE_LEVEL::VERBOSE,
                arguments: None,
            }],
            false,
        )?;
        self.answers.put("events.session", session.id() != 0);
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
        for _ in 0..3 {
            info.write_event_pipe_event(event, &[&1234_i32.to_ne_bytes()], None, None)?;
        }
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).take();
        session.map_or(Ok(()), EventPipeSession::stop)?;
        self.answers.put("events.delivered", self.delivered.load(Ordering::Relaxed));
        Ok(())
    }

    /// What is left to ask when the process ends.
    fn at_the_end(&self) -> Result<()> {
        let (info, answers) = (&self.info, &self.answers);
        answers.put("info.version", info.version());
        let runtime = info.runtime_information()?;
        answers.put("runtime.version", format!("{:?}", runtime.version));
        answers.put("runtime.text", runtime.version_text);
        info.set_environment_variable("ASK_EVERYTHING_SET", Some("größer"))?;
        answers.put("env.set", format!("{:?}", info.environment_variable("ASK_EVERYTHING_SET")?));
        info.set_environment_variable("ASK_EVERYTHING_SET", None)?;
        answers.put("env.none", format!("{:?}", info.environment_variable("ASK_EVERYTHING_SET")?));
        answers.put("modules.total", info.modules()?.total()? as usize == info.modules()?.count());
        let mut assemblies = Vec::new();
        for module in info.modules()? {
            let module = self.names.module(module?)?;
            answers.put(
                &format!("module.{}", module.assembly),
                format!("{} {:?}", module.path.ends_with(".dll"), module.mvid.is_some()),
            );
            assemblies.push(module.assembly);
        }
        answers.put("modules.names", assemblies.iter().any(|name| name == "names"));
        answers.put("layout.string", format!("{:?}", info.string_layout()?));
        answers.put(
            "layout.string.capacity",
            info.string_layout_with_capacity()?.1 == info.string_layout()?,
        );
        if let Some(module) = self.module() {
            self.read_metadata(module)?;
            let metadata = self.names.metadata(module)?;
            let constants =
                metadata.find_type_def("Names.Inner.Constants", None)?.unwrap_or_default();
            let class = info.class_from_token(module, constants)?;
            answers.put("class.token", info.class_token(class)? == (module, constants));
            let count = metadata.find_field(constants, "Count", &[])?.unwrap_or_default();
            answers.ask(
                "class.static",
                info.static_field_info(class, count).map(|kind| format!("{kind:?}")),
            );
            let pair = metadata.find_type_def("Names.Inner.Pair`2", None)?.unwrap_or_default();
            let made = info.class_from_token_and_type_arguments(module, pair, &[class, class])?;
            answers.put("class.made", self.names.class(made)?);
            answers.put("class.box", info.box_value_offset(made)?);
            answers.put(
                "class.parameterized",
                format!("{:?}", info.class_from_token(module, pair).is_err()),
            );
            answers.put("class.open", self.names.type_def(module, pair)?);
            answers.ask("symbols", info.in_memory_symbols(module).map(|symbols| symbols.len()));
            let domains = info.app_domains_containing_module(module)?;
            let domain = domains.first().copied().unwrap_or_default();
            answers.ask("domain", info.app_domain_info(domain).map(|domain| domain.name));
            self.names.forget_module(module);
            answers.put("class.again", self.names.class(made)?);
        }
        answers.put("mask", format!("{:?}", info.event_mask()?.contains(EventMask::EXCEPTIONS)));
        answers.put(
            "clause",
            format!("{:?}", info.notified_exception_clause().map(|clause| clause.is_none())),
        );
        Ok(())
    }
}

impl AskEverything {
    fn with(&self, what: &str, look: impl FnOnce(&State) -> Result<()>) {
        if let Some(state) = self.state.get() {
            let answer = look(state);
            state.answers.ask(&format!("done.{what}"), answer.map(|()| "ok"));
        }
    }
}

impl ProfilerCallback for AskEverything {
    fn module_load_finished(
        &self,
        cx: &CallbackCx<'_>,
        module: ModuleId,
        status: Result<(), HResult>,
    ) {
        let is_ours = || Some(cx.info().module_info(module).ok()?.name.ends_with("names.dll"));
        if status.is_ok() && is_ours() == Some(true) {
            self.with("emit", |state| {
                *state.module.lock().unwrap_or_else(PoisonError::into_inner) = Some(module);
                state.change_body(module)?;
                state.add_metadata(module)
            });
        }
    }

    fn jit_compilation_finished(
        &self,
        _: &CallbackCx<'_>,
        function: FunctionId,
        _: Result<(), HResult>,
        _: bool,
    ) {
        let Some(state) = self.state.get() else { return };
        if state.names.method(function).is_ok_and(|name| name.name == "Keywords") {
            self.with("code", |state| state.look_at_code(function));
        }
    }

    fn exception_thrown(&self, _: &CallbackCx<'_>, exception: ObjectId<'_>) {
        self.with("exception", |state| {
            state.look_at_exception(exception)?;
            state.answers.ask("done.events", state.write_event().map(|()| "ok"));
            state.thrown.store(true, Ordering::Release);
            Ok(())
        });
    }

    fn event_pipe_event_delivered(&self, _: &CallbackCx<'_>, event: DeliveredEvent<'_>) {
        if let Some(state) = self.state.get()
            && event.id == 7
            && event.data == 1234_i32.to_ne_bytes()
        {
            state.delivered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Profiler for AskEverything {
    fn initialize(&self, info: &ProfilerInfo) -> Result<EventMask, HResult> {
        let state = Arc::new(State {
            info: info.clone(),
            names: NameResolver::new(info.clone()),
            answers: Answers::default(),
            module: Mutex::default(),
            thrown: AtomicBool::default(),
            worker_done: AtomicBool::default(),
            session: Mutex::default(),
            delivered: AtomicU64::default(),
        });
        if self.state.set(Arc::clone(&state)).is_ok() {
            std::thread::spawn(move || {
                while !state.thrown.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                // Until the program has come to where it waits for us.
                std::thread::sleep(Duration::from_millis(500));
                let answer = state.look_at_runtime();
                state.answers.ask("done.runtime", answer.map(|()| "ok"));
                state.worker_done.store(true, Ordering::Release);
                println!("asked");
            });
        }
        let mask = EventMask::MODULE_LOADS
            | EventMask::JIT_COMPILATION
            | EventMask::EXCEPTIONS
            | EventMask::ENABLE_STACK_SNAPSHOT
            | EventMask::GC;
        // The first runtime with events of our own has the interface for them.
        Ok(if info.version() >= 12 { mask | EventMask::EVENT_PIPE } else { mask })
    }

    fn shutdown(&self, _: &CallbackCx<'_>) {
        self.with("end", State::at_the_end);
        if let (Some(state), Some(path)) = (self.state.get(), std::env::var_os("ASK_EVERYTHING_TO"))
        {
            state.answers.put("worker_done", state.worker_done.load(Ordering::Acquire));
            state.answers.write(&path);
        }
    }
}

export_profiler! {
    guid!("6D1C2B7A-3E1F-4F0C-9A53-1C0B7E44A903") => |_clsid| AskEverything::default(),
}
