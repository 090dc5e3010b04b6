//! Makes two threads of an application that no one here wrote block each other, where no program of
//! ours can run: a profiler that gives `azmcp` another entry point.
//!
//! For tests. `DEADLOCKER` is `monitor` or `lock`. The new body, in C#:
//!
//! ```csharp
//! static int Main(string[] args) {            // or two locks, on the second thread
//!     if (args is string[]) {
//!         T a = new T(), b = new T();          // T is object or System.Threading.Lock
//!         Enter(a);
//!         new Thread(Main) { Name = "second", IsBackground = true }.Start(new object[] { a, b });
//!         Thread.Sleep(700);
//!         Enter(b);
//!     } else {
//!         Enter(args[1]);
//!         Enter(args[0]);
//!     }
//!     return 0;
//! }
//! ```

use corprof::{
    CallbackCx, EventMask, HResult, Profiler, ProfilerCallback, ProfilerInfo, Result,
    export_profiler, guid,
    ids::ModuleId,
    metadata::{
        AssemblyFlags, AssemblyIdentity, AssemblyVersion, MetadataEmit, MethodDef, TypeRef,
    },
    signature::{self, CallingConvention, MethodSig, Primitive, TypeSig},
};

const PROGRAM: &str = "Azure.Mcp.Server.Program";
const ENTRY: &str = "<Main>";

const VOID: TypeSig = TypeSig::Primitive(Primitive::Void);
const BOOL: TypeSig = TypeSig::Primitive(Primitive::Boolean);
const INT: TypeSig = TypeSig::Primitive(Primitive::I4);
const POINTER: TypeSig = TypeSig::Primitive(Primitive::IntPtr);
const STRING: TypeSig = TypeSig::Primitive(Primitive::String);
const OBJECT: TypeSig = TypeSig::Primitive(Primitive::Object);

#[derive(Default)]
struct Deadlocker;

impl ProfilerCallback for Deadlocker {
    fn module_load_finished(
        &self,
        cx: &CallbackCx<'_>,
        module: ModuleId,
        _: std::result::Result<(), HResult>,
    ) {
        if let Err(error) = change_entry(cx.info(), module) {
            eprintln!("deadlocker: {error}");
        }
    }
}

impl Profiler for Deadlocker {
    fn initialize(&self, _: &ProfilerInfo) -> std::result::Result<EventMask, HResult> {
        Ok(EventMask::MODULE_LOADS)
    }
}

fn change_entry(info: &ProfilerInfo, module: ModuleId) -> Result<()> {
    let metadata = info.module_metadata(module)?;
    let Some(program) = metadata.find_type_def(PROGRAM, None).ok().flatten() else { return Ok(()) };
    let Some(main) = metadata.find_method(program, ENTRY, &[])? else { return Ok(()) };
    let body = body(&info.module_metadata_emit(module)?, main)?;
    info.set_il_function_body(module, main, &body)?;
    eprintln!("deadlocker: {PROGRAM} will block itself");
    Ok(())
}

fn body(emit: &MetadataEmit, main: MethodDef) -> Result<Vec<u8>> {
    let identity = AssemblyIdentity {
        name: "System.Private.CoreLib".to_owned(),
        version: AssemblyVersion { major: 10, minor: 0, build: 0, revision: 0 },
        culture: String::new(),
    };
    let key = [0x7c, 0xec, 0x85, 0xd7, 0xbe, 0xa7, 0x79, 0x8e];
    let library =
        emit.manifest()?.define_assembly_ref(&identity, &key, &[], AssemblyFlags::default())?;
    let ty = |name: &str| emit.define_type_ref(library.into(), name);
    let (object, thread, start) = (
        ty("System.Object")?,
        ty("System.Threading.Thread")?,
        ty("System.Threading.ParameterizedThreadStart")?,
    );
    let returning =
        |return_type: TypeSig, of: TypeRef, name: &str, this: bool, parameters: Vec<TypeSig>| {
            let convention = CallingConvention::DEFAULT;
            let convention = if this { convention.with_this() } else { convention };
            let sig = MethodSig {
                convention,
                generic_parameters: 0,
                return_type,
                parameters,
                sentinel: None,
            };
            Ok::<u32, corprof::Error>(
                emit.define_member_ref(of.into(), name, &sig.encode()?)?.raw(),
            )
        };
    let method = |of: TypeRef, name: &str, this: bool, parameters| {
        returning(VOID, of, name, this, parameters)
    };
    let monitors = std::env::var("DEADLOCKER").is_ok_and(|kind| kind == "monitor");
    let lock = ty("System.Threading.Lock")?;
    let new = method(if monitors { object } else { lock }, ".ctor", true, vec![])?;
    let scope = TypeSig::ValueType(emit.define_type_ref(lock.into(), "Scope")?.into());
    let flag = TypeSig::ByRef(Box::new(BOOL));
    let enter = match monitors {
        true => method(ty("System.Threading.Monitor")?, "Enter", false, vec![OBJECT, flag])?,
        // The one that C# uses, and that trimming leaves therefore.
        false => returning(scope, lock, "EnterScope", true, vec![])?,
    };
    let delegate = method(start, ".ctor", true, vec![OBJECT, POINTER])?;
    let new_thread = method(thread, ".ctor", true, vec![TypeSig::Class(start.into())])?;
    let set_name = method(thread, "set_Name", true, vec![STRING])?;
    let set_background = method(thread, "set_IsBackground", true, vec![BOOL])?;
    let start_with = method(thread, "Start", true, vec![OBJECT])?;
    let sleep = method(thread, "Sleep", false, vec![INT])?;
    let strings = emit.token_from_type_spec(&TypeSig::SzArray(Box::new(STRING)).encode()?)?.raw();
    let name = emit.define_user_string("second")?.raw();
    let locals =
        emit.token_from_signature(&signature::encode_locals(&[BOOL, OBJECT, OBJECT])?)?.raw();

    let with = |opcode: u8, token: u32| [&[opcode][..], &token.to_le_bytes()].concat();
    // Enters the object on the stack; a flag that is set already would be refused.
    let enter = match monitors {
        true => [&[0x16, 0x0a, 0x12, 0x00][..], &with(0x28, enter)].concat(),
        false => [&with(0x6f, enter)[..], &[0x26]].concat(),
    };
    let second =
        [&[0x02, 0x17, 0x9a][..], &enter, &[0x02, 0x16, 0x9a], &enter, &[0x16, 0x2a]].concat();
    let first = [
        &with(0x73, new)[..],
        &[0x0b],
        &with(0x73, new),
        &[0x0c, 0x07],
        &enter,
        // The thread: a delegate of this method without an object, background, name.
        &[0x14, 0xfe],
        &with(0x06, main.raw()),
        &with(0x73, delegate),
        &with(0x73, new_thread),
        &[0x25, 0x17],
        &with(0x6f, set_background),
        &[0x25],
        &with(0x72, name),
        &with(0x6f, set_name),
        // Its argument: both objects.
        &[0x18],
        &with(0x8d, object.raw()),
        &[0x25, 0x16, 0x07, 0xa2, 0x25, 0x17, 0x08, 0xa2],
        &with(0x6f, start_with),
        &with(0x20, 700),
        &with(0x28, sleep),
        &[0x08],
        &enter,
        &[0x16, 0x2a],
    ]
    .concat();
    let choice = [&[0x02][..], &with(0x75, strings), &[0x2d, second.len() as u8]].concat();
    let code = [choice, second, first].concat();
    // A fat header (ECMA-335 II.25.4.3): locals are cleared; depth of the stack; length; locals.
    let mut body = vec![0x13, 0x30, 8, 0];
    body.extend((code.len() as u32).to_le_bytes());
    body.extend(locals.to_le_bytes());
    body.extend(code);
    Ok(body)
}

export_profiler! {
    guid!("2F6A4C1E-5B6D-4C63-8A0E-5D7C9B1E3F0D") => |_clsid| Deadlocker,
}
