//! Structures, enumerations and function types of `corprof.idl`.

use core::ffi::c_void;

use com::HResult;

use crate::ids::{FunctionId, ModuleId, RawObjectId, ReJitId};

/// A Windows BOOL: zero is false.
pub type BOOL = i32;
/// A Windows handle.
pub type HANDLE = *mut c_void;
/// Any metadata token.
pub type mdToken = crate::metadata::token::Token;
/// Token of a type definition.
pub type mdTypeDef = crate::metadata::token::TypeDef;
/// Token of a method definition.
pub type mdMethodDef = crate::metadata::token::MethodDef;
/// Token of a field definition.
pub type mdFieldDef = crate::metadata::token::FieldDef;
/// An element type of a signature (ECMA-335, II.23.1.16).
pub type CorElementType = u32;
/// What an enter/leave/tailcall hook passes on to ask for arguments and return values.
pub type COR_PRF_ELT_INFO = usize;
/// A frame, as `DoStackSnapshot` and the hooks of .NET Framework 2.0 know it; good only inside the
/// callback.
pub type COR_PRF_FRAME_INFO = usize;
/// An EventPipe provider.
pub type EVENTPIPE_PROVIDER = usize;
/// An event that one of our own providers defines.
pub type EVENTPIPE_EVENT = usize;
/// An EventPipe session.
pub type EVENTPIPE_SESSION = u64;
/// A handle to an object, made by `CreateHandle`.
pub type ObjectHandleID = *mut *mut c_void;

/// Decides, for each function, what the enter/leave hooks get as its id and whether they are
/// called.
pub type FunctionIDMapper =
    unsafe extern "system" fn(function: FunctionId, hook: *mut BOOL) -> usize;
/// The same with the data that it was registered with.
pub type FunctionIDMapper2 = unsafe extern "system" fn(
    function: FunctionId,
    client_data: *mut c_void,
    hook: *mut BOOL,
) -> usize;
/// Enter hook of .NET Framework 1.0.
pub type FunctionEnter = unsafe extern "system" fn(function: FunctionId);
/// Leave hook of .NET Framework 1.0.
pub type FunctionLeave = unsafe extern "system" fn(function: FunctionId);
/// Tail call hook of .NET Framework 1.0.
pub type FunctionTailcall = unsafe extern "system" fn(function: FunctionId);
/// Enter hook of .NET Framework 2.0.
pub type FunctionEnter2 = unsafe extern "system" fn(
    function: FunctionId,
    client_data: usize,
    frame: COR_PRF_FRAME_INFO,
    arguments: *mut COR_PRF_FUNCTION_ARGUMENT_INFO,
);
/// Leave hook of .NET Framework 2.0.
pub type FunctionLeave2 = unsafe extern "system" fn(
    function: FunctionId,
    client_data: usize,
    frame: COR_PRF_FRAME_INFO,
    return_value: *mut COR_PRF_FUNCTION_ARGUMENT_RANGE,
);
/// Tail call hook of .NET Framework 2.0.
pub type FunctionTailcall2 =
    unsafe extern "system" fn(function: FunctionId, client_data: usize, frame: COR_PRF_FRAME_INFO);
/// Enter hook without details. It is called with the method's registers live: it must save every
/// register, so it has to be written in assembly.
pub type FunctionEnter3 = unsafe extern "system" fn(function: FunctionIDOrClientID);
/// Leave hook without details; see [`FunctionEnter3`].
pub type FunctionLeave3 = unsafe extern "system" fn(function: FunctionIDOrClientID);
/// Tail call hook without details; see [`FunctionEnter3`].
pub type FunctionTailcall3 = unsafe extern "system" fn(function: FunctionIDOrClientID);
/// Enter hook with details.
pub type FunctionEnter3WithInfo =
    unsafe extern "system" fn(function: FunctionIDOrClientID, info: COR_PRF_ELT_INFO);
/// Leave hook with details.
pub type FunctionLeave3WithInfo =
    unsafe extern "system" fn(function: FunctionIDOrClientID, info: COR_PRF_ELT_INFO);
/// Tail call hook with details.
pub type FunctionTailcall3WithInfo =
    unsafe extern "system" fn(function: FunctionIDOrClientID, info: COR_PRF_ELT_INFO);
/// Called by `DoStackSnapshot` for each frame, leaf first; a result other than `S_OK` ends the
/// walk.
pub type StackSnapshotCallback = unsafe extern "system" fn(
    function: FunctionId,
    instruction_pointer: usize,
    frame: COR_PRF_FRAME_INFO,
    context_size: u32,
    context: *mut u8,
    client_data: *mut c_void,
) -> HResult;
/// Called by `EnumerateObjectReferences` for each reference; zero ends the enumeration.
pub type ObjectReferenceCallback = unsafe extern "system" fn(
    root: RawObjectId,
    reference: *mut RawObjectId,
    client_data: *mut c_void,
) -> BOOL;
/// Called by `EnumerateGCHeapObjects` for each object; zero ends the enumeration.
pub type ObjectCallback =
    unsafe extern "system" fn(object: RawObjectId, client_data: *mut c_void) -> BOOL;
/// Called when a session enables, changes or disables a provider of ours.
pub type EventPipeProviderCallback = unsafe extern "system" fn(
    source_id: *const u8,
    is_enabled: u32,
    level: u8,
    match_any_keywords: u64,
    match_all_keywords: u64,
    filter_data: *mut COR_PRF_FILTER_DATA,
    client_data: *mut c_void,
);

/// What the third generation of enter/leave hooks gets: the function's id, or what the mapper put
/// in its place.
#[repr(C)]
#[derive(Clone, Copy)]
pub union FunctionIDOrClientID {
    /// Without a mapper.
    pub function_id: FunctionId,
    /// With a mapper.
    pub client_id: usize,
}

/// Declares structures of plain values, all-zero by default.
macro_rules! structs {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $ty:ty,)* })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name {
                $($(#[$field_meta])* pub $field: $ty,)*
            }

            impl Default for $name {
                fn default() -> $name {
                    // SAFETY: every field is an integer, a bare pointer, or made of these; zero is
                    // a value of all.
                    unsafe { core::mem::zeroed() }
                }
            }
        )*
    };
}

structs! {
    /// One step of a map from a method's old IL offsets to its new ones.
    COR_IL_MAP {
        /// Offset in the original body, in bytes.
        old_offset: u32,
        /// Offset in the new body, in bytes.
        new_offset: u32,
        /// For the debugger; profilers set 1.
        accurate: BOOL,
    }

    /// One range of native code and the IL offset that it came from.
    COR_DEBUG_IL_TO_NATIVE_MAP {
        /// Offset in the IL body, or one of [`CorDebugIlToNativeMappingTypes`].
        il_offset: u32,
        /// First byte, from the start of the native body.
        native_start_offset: u32,
        /// First byte behind it.
        native_end_offset: u32,
    }

    /// Where a field lies in its object.
    COR_FIELD_OFFSET {
        /// Token of the field.
        field: mdFieldDef,
        /// Offset in bytes from the object's address, or from the start of the value in a value
        /// type.
        offset: u32,
    }

    /// Where one argument, or a part of it, lies in memory.
    COR_PRF_FUNCTION_ARGUMENT_RANGE {
        /// First byte.
        start_address: usize,
        /// Length in bytes.
        length: u32,
    }

    /// Where a call's arguments lie; `ranges` is the first of `num_ranges`.
    COR_PRF_FUNCTION_ARGUMENT_INFO {
        /// How many ranges follow.
        num_ranges: u32,
        /// Size of all arguments in bytes.
        total_argument_size: u32,
        /// The first of them.
        ranges: [COR_PRF_FUNCTION_ARGUMENT_RANGE; 1],
    }

    /// A piece of a method's native code.
    COR_PRF_CODE_INFO {
        /// First byte.
        start_address: usize,
        /// Length in bytes.
        size: usize,
    }

    /// A function and one version of its body.
    COR_PRF_FUNCTION {
        /// The function.
        function_id: FunctionId,
        /// Which ReJIT made the body; zero is the original.
        rejit_id: ReJitId,
    }

    /// A method definition.
    COR_PRF_METHOD {
        /// Where it is defined.
        module_id: ModuleId,
        /// Its token there.
        method_id: mdMethodDef,
    }

    /// An operating system that an assembly was made for. Nothing sets it any more.
    OSINFO {
        /// Platform id.
        platform_id: u32,
        /// Major version.
        major_version: u32,
        /// Minor version.
        minor_version: u32,
    }

    /// Version and culture of an assembly.
    ASSEMBLYMETADATA {
        /// First part of the version.
        major_version: u16,
        /// Second part.
        minor_version: u16,
        /// Third part.
        build_number: u16,
        /// Fourth part.
        revision_number: u16,
        /// Culture, as zero-terminated UTF-16.
        locale: *mut u16,
        /// Length of the buffer behind `locale` in UTF-16 units; on return, of the text.
        locale_len: u32,
        /// Processors that the assembly was made for; unused.
        processors: *mut u32,
        /// How many.
        processor_count: u32,
        /// Operating systems that the assembly was made for; unused.
        operating_systems: *mut OSINFO,
        /// How many.
        operating_system_count: u32,
    }

    /// A reference that a profiler is going to add to an assembly.
    COR_PRF_ASSEMBLY_REFERENCE_INFO {
        /// Public key, or its token.
        public_key_or_token: *mut c_void,
        /// Length of that in bytes.
        public_key_or_token_len: u32,
        /// Simple name, as zero-terminated UTF-16.
        name: *const u16,
        /// Version and culture.
        metadata: *const ASSEMBLYMETADATA,
        /// Hash of the assembly.
        hash: *mut c_void,
        /// Length of that in bytes.
        hash_len: u32,
        /// CorAssemblyFlags.
        flags: u32,
    }

    /// A stretch of the collected heap.
    COR_PRF_GC_GENERATION_RANGE {
        /// To which generation it belongs.
        generation: COR_PRF_GC_GENERATION,
        /// First byte.
        range_start: RawObjectId,
        /// Bytes in use; exact only inside the callbacks of a collection's start and end.
        range_length: usize,
        /// Bytes reserved, including those in use.
        range_length_reserved: usize,
    }

    /// A stretch of the heap of objects that are never collected.
    COR_PRF_NONGC_HEAP_RANGE {
        /// First byte.
        range_start: RawObjectId,
        /// Bytes in use.
        range_length: usize,
        /// Bytes reserved, including those in use.
        range_length_reserved: usize,
    }

    /// The exception clause that is being entered or left.
    COR_PRF_EX_CLAUSE_INFO {
        /// Its kind.
        clause_type: COR_PRF_CLAUSE_TYPE,
        /// Native address of the handler.
        program_counter: usize,
        /// Frame pointer of the handler.
        frame_pointer: usize,
        /// Shadow stack pointer; zero on today's processors.
        shadow_stack_pointer: usize,
    }

    /// A provider as a session asks for it.
    COR_PRF_EVENTPIPE_PROVIDER_CONFIG {
        /// Name, as zero-terminated UTF-16.
        provider_name: *const u16,
        /// Which events: the union of these groups.
        keywords: u64,
        /// Up to which [`COR_PRF_EVENTPIPE_LEVEL`].
        logging_level: u32,
        /// Arguments for the provider, `key=value;…`, as zero-terminated UTF-16, or null.
        filter_data: *const u16,
    }

    /// One field of an event that we define.
    COR_PRF_EVENTPIPE_PARAM_DESC {
        /// A [`COR_PRF_EVENTPIPE_PARAM_TYPE`].
        kind: u32,
        /// Type of the elements, for an array.
        element_kind: u32,
        /// Name, as zero-terminated UTF-16.
        name: *const u16,
    }

    /// One field's value in an event that we write.
    COR_PRF_EVENT_DATA {
        /// Address of the value.
        ptr: u64,
        /// Its length in bytes.
        size: u32,
        /// Zero.
        reserved: u32,
    }

    /// Arguments that a session gave for a provider of ours.
    COR_PRF_FILTER_DATA {
        /// Address of the text.
        ptr: u64,
        /// Its length in bytes.
        size: u32,
        /// Kind of the text.
        kind: u32,
    }
}

/// Declares C enumerations: an integer with named values, because a newer runtime may send others.
macro_rules! enums {
    ($($(#[$meta:meta])* $name:ident { $($value:ident = $bits:expr, $doc:literal;)* })*) => {
        $(
            $(#[$meta])*
            #[repr(transparent)]
            #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
            pub struct $name(pub u32);

            impl $name {
                $(
                    #[doc = $doc]
                    pub const $value: $name = $name($bits);
                )*
            }
        )*
    };
}

enums! {
    /// IL offsets that are none.
    CorDebugIlToNativeMappingTypes {
        NO_MAPPING = u32::MAX, "The code belongs to no IL instruction.";
        PROLOG = u32::MAX - 1, "The method's prologue.";
        EPILOG = u32::MAX - 2, "The method's epilogue.";
    }

    /// How `DoStackSnapshot` walks; flags.
    COR_PRF_SNAPSHOT_INFO {
        DEFAULT = 0x0, "Only the frames.";
        REGISTER_CONTEXT = 0x1, "Each frame with its registers.";
        X86_OPTIMIZED = 0x2, "A faster walk along EBP, 32-bit x86 only.";
    }

    /// What a static field belongs to; flags.
    COR_PRF_STATIC_TYPE {
        FIELD_NOT_A_STATIC = 0x0, "The field is not static.";
        FIELD_APP_DOMAIN_STATIC = 0x1, "One for each application domain.";
        FIELD_THREAD_STATIC = 0x2, "One for each thread.";
        FIELD_CONTEXT_STATIC = 0x4, "One for each remoting context.";
        FIELD_RVA_STATIC = 0x8, "Mapped from the module's file.";
    }

    /// Numbers above every handle that stand for none.
    COR_PRF_MISC {
        PROFILER_PARENT_UNKNOWN = 0xFFFF_FFFD, "The module is not attached to an assembly yet.";
        PROFILER_GLOBAL_CLASS = 0xFFFF_FFFE, "Class of functions that have none.";
        PROFILER_GLOBAL_MODULE = 0xFFFF_FFFF, "Module of functions that have none.";
    }

    /// Outcome of the search for precompiled code.
    COR_PRF_JIT_CACHE {
        CACHED_FUNCTION_FOUND = 0, "The function has precompiled code.";
        CACHED_FUNCTION_NOT_FOUND = 1, "It will be compiled.";
    }

    /// Direction of a transition between managed and native code.
    COR_PRF_TRANSITION_REASON {
        CALL = 0, "By a call.";
        RETURN = 1, "By a return.";
    }

    /// Why the runtime stops managed threads.
    COR_PRF_SUSPEND_REASON {
        OTHER = 0, "None of the others.";
        FOR_GC = 1, "For a garbage collection.";
        FOR_APPDOMAIN_SHUTDOWN = 2, "An application domain ends.";
        FOR_CODE_PITCHING = 3, "Compiled code is thrown away.";
        FOR_SHUTDOWN = 4, "The runtime ends.";
        FOR_INPROC_DEBUGGER = 6, "For the debugger inside the process.";
        FOR_GC_PREP = 7, "To prepare for a garbage collection.";
        FOR_REJIT = 8, "For ReJIT.";
        FOR_PROFILER = 9, "Because a profiler asked for it.";
    }

    /// Which runtime this is.
    COR_PRF_RUNTIME_TYPE {
        DESKTOP_CLR = 0x1, ".NET Framework.";
        CORE_CLR = 0x2, ".NET Core and .NET 5 or newer.";
    }

    /// How `RequestReJITWithInliners` works; flags.
    COR_PRF_REJIT_FLAGS {
        BLOCK_INLINING = 0x1, "The methods are no longer inlined anywhere.";
        INLINING_CALLBACKS = 0x2, "GetReJITParameters is also called for methods that had inlined \
            them.";
    }

    /// Types of an event's fields.
    COR_PRF_EVENTPIPE_PARAM_TYPE {
        OBJECT = 1, "A structure.";
        BOOLEAN = 3, "A Boolean of four bytes.";
        CHAR = 4, "A UTF-16 unit.";
        SBYTE = 5, "Signed, 8 bits.";
        BYTE = 6, "Unsigned, 8 bits.";
        INT16 = 7, "Signed, 16 bits.";
        UINT16 = 8, "Unsigned, 16 bits.";
        INT32 = 9, "Signed, 32 bits.";
        UINT32 = 10, "Unsigned, 32 bits.";
        INT64 = 11, "Signed, 64 bits.";
        UINT64 = 12, "Unsigned, 64 bits.";
        SINGLE = 13, "IEEE 754, 32 bits.";
        DOUBLE = 14, "IEEE 754, 64 bits.";
        DECIMAL = 15, "System.Decimal.";
        DATETIME = 16, "System.DateTime.";
        GUID = 17, "System.Guid.";
        STRING = 18, "Zero-terminated UTF-16.";
        ARRAY = 19, "An array of `element_kind`.";
    }

    /// How important an event is.
    COR_PRF_EVENTPIPE_LEVEL {
        LOGALWAYS = 0, "Always written.";
        CRITICAL = 1, "Critical errors.";
        ERROR = 2, "Errors.";
        WARNING = 3, "Warnings.";
        INFORMATIONAL = 4, "Information.";
        VERBOSE = 5, "Everything.";
    }

    /// What a handle does for its object.
    COR_PRF_HANDLE_TYPE {
        WEAK = 0x1, "Does not keep it alive.";
        STRONG = 0x2, "Keeps it alive.";
        PINNED = 0x3, "Keeps it alive and where it is.";
    }

    /// What kind of root a reference comes from.
    COR_PRF_GC_ROOT_KIND {
        OTHER = 0, "None of the others.";
        STACK = 1, "A variable on a stack.";
        FINALIZER = 2, "The queue of objects to be finalized.";
        HANDLE = 3, "A GC handle.";
    }

    /// Properties of a root; flags.
    COR_PRF_GC_ROOT_FLAGS {
        PINNING = 0x1, "The object may not move.";
        WEAKREF = 0x2, "Does not keep the object alive.";
        INTERIOR = 0x4, "Points into the object, not at it.";
        REFCOUNTED = 0x8, "Keeps the object alive depending on a count; if it does not, WEAKREF is \
            set too.";
    }

    /// Properties of a finalizer; flags.
    COR_PRF_FINALIZER_FLAGS {
        CRITICAL = 0x1, "Derived from CriticalFinalizerObject.";
    }

    /// Generations of the collected heap.
    COR_PRF_GC_GENERATION {
        GEN_0 = 0, "The youngest.";
        GEN_1 = 1, "Survived once.";
        GEN_2 = 2, "Survived at least twice.";
        LARGE_OBJECT_HEAP = 3, "Large objects; collected with generation 2.";
        PINNED_OBJECT_HEAP = 4, "Objects allocated as pinned (.NET 5 and newer); collected with \
            generation 2.";
    }

    /// Kinds of exception clauses.
    COR_PRF_CLAUSE_TYPE {
        NONE = 0, "No clause.";
        FILTER = 1, "A filter.";
        CATCH = 2, "A catch block.";
        FINALLY = 3, "A finally or fault block.";
    }

    /// Why a collection runs.
    COR_PRF_GC_REASON {
        OTHER = 0, "By the runtime's own decision.";
        INDUCED = 1, "By GC.Collect.";
    }

    /// What a module is; flags.
    COR_PRF_MODULE_FLAGS {
        DISK = 0x1, "Loaded from a file.";
        NGEN = 0x2, "With code that was compiled before: a native image of .NET Framework, \
            ReadyToRun.";
        DYNAMIC = 0x4, "Made by Reflection.Emit.";
        COLLECTIBLE = 0x8, "May be unloaded by the garbage collector.";
        RESOURCE = 0x10, "Only resources, no metadata.";
        FLAT_LAYOUT = 0x20, "In memory as in the file, not as mapped: RVAs must be translated.";
        WINDOWS_RUNTIME = 0x40, "A Windows Runtime assembly.";
    }

    /// How ReJIT compiles a method; flags.
    COR_PRF_CODEGEN_FLAGS {
        DISABLE_INLINING = 0x1, "Inline nothing into it.";
        DISABLE_ALL_OPTIMIZATIONS = 0x2, "Optimize nothing.";
        DEBUG_INFO = 0x3, "As for debugging: nothing inlined, nothing optimized.";
    }
}
