//! What the fake runtime contains.

use std::collections::BTreeMap;

use com::IUnknown;
use corprof::EventMask;
use corprof::abi::{
    COR_DEBUG_IL_TO_NATIVE_MAP, COR_PRF_CODE_INFO, COR_PRF_GC_GENERATION_RANGE,
    COR_PRF_NONGC_HEAP_RANGE, mdMethodDef, mdTypeDef,
};
use corprof::ids::*;

/// Everything that the fake runtime knows. Ids that are not in here are answered with
/// `E_INVALIDARG`.
#[derive(Default)]
pub struct Model {
    /// Functions, dynamic ones too.
    pub functions: BTreeMap<FunctionId, Function>,
    /// Classes.
    pub classes: BTreeMap<ClassId, Class>,
    /// Modules.
    pub modules: BTreeMap<ModuleId, Module>,
    /// Assemblies.
    pub assemblies: BTreeMap<AssemblyId, Assembly>,
    /// Application domains.
    pub app_domains: BTreeMap<AppDomainId, AppDomain>,
    /// Managed threads.
    pub threads: BTreeMap<ThreadId, Thread>,
    /// Objects.
    pub objects: BTreeMap<RawObjectId, Object>,
    /// The thread that calls; `None` is a thread that has run no managed code.
    pub current_thread: Option<ThreadId>,
    /// The runtime's environment variables.
    pub environment: BTreeMap<String, String>,
    /// The event mask, as the profiler set it last.
    pub event_mask: EventMask,
    /// Major, minor, build and fix number of the runtime.
    pub version: (u16, u16, u16, u16),
    /// The runtime's version as a text.
    pub version_text: String,
    /// The ranges of the collected heap.
    pub generations: Vec<COR_PRF_GC_GENERATION_RANGE>,
    /// The ranges of the heap that is never collected.
    pub non_gc_heap: Vec<COR_PRF_NONGC_HEAP_RANGE>,
    /// Objects outside of the collected heap.
    pub non_gc_objects: Vec<RawObjectId>,
    /// From which size on objects go to the large object heap, in bytes.
    pub large_object_threshold: u32,
    /// Whether SuspendRuntime is in force.
    pub suspended: bool,
    /// How often ForceGC was called.
    pub forced_collections: u32,
    /// What RequestProfilerDetach was given, in milliseconds.
    pub detach_requested: Option<u32>,
    /// Methods that RequestReJIT(WithInliners) was given and RequestRevert was not.
    pub rejitted: Vec<(ModuleId, mdMethodDef)>,
    /// Live handles: token of the handle and its object.
    pub handles: BTreeMap<usize, RawObjectId>,
}

/// A function.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Its class; null if that is not known, as for shared generic code without a frame.
    pub class: ClassId,
    /// Its module.
    pub module: ModuleId,
    /// Its token; meaningless for a dynamic function.
    pub token: mdMethodDef,
    /// Generic arguments of the method.
    pub type_arguments: Vec<ClassId>,
    /// Its compiled bodies; none if it is not compiled.
    pub bodies: Vec<CodeBody>,
    /// For a dynamic function (one without metadata) its name.
    pub dynamic_name: Option<String>,
    /// Its IL body with header.
    pub il: &'static [u8],
}

/// A compiled body.
#[derive(Clone, Debug, Default)]
pub struct CodeBody {
    /// Which ReJIT made it; null is the original.
    pub rejit: ReJitId,
    /// Its pieces; the first begins at the entry point.
    pub pieces: Vec<COR_PRF_CODE_INFO>,
    /// Its IL map.
    pub map: Vec<COR_DEBUG_IL_TO_NATIVE_MAP>,
}

impl CodeBody {
    /// The original body in one piece.
    pub fn at(start_address: usize, size: usize) -> CodeBody {
        CodeBody {
            rejit: ReJitId::NULL,
            pieces: vec![COR_PRF_CODE_INFO { start_address, size }],
            map: Vec::new(),
        }
    }

    pub(crate) fn contains(&self, address: usize) -> bool {
        self.pieces.iter().any(|piece| address.wrapping_sub(piece.start_address) < piece.size)
    }
}

/// A class.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// Its module.
    pub module: ModuleId,
    /// Its token.
    pub token: mdTypeDef,
    /// Its base class; null for Object and interfaces.
    pub parent: ClassId,
    /// Its generic arguments.
    pub type_arguments: Vec<ClassId>,
    /// For an array: element type (ECMA-335, II.23.1.16), element class, rank.
    pub array: Option<(u32, ClassId, u32)>,
}

/// A module.
#[derive(Clone, Default)]
pub struct Module {
    /// Where it lies in memory.
    pub base: usize,
    /// Path of its file.
    pub path: String,
    /// Its assembly.
    pub assembly: AssemblyId,
    /// `COR_PRF_MODULE_FLAGS`.
    pub flags: u32,
    /// What GetModuleMetaData gives out, whatever interface is asked for (it is asked by
    /// QueryInterface then). Without it the answer is `S_FALSE` and null, as for a module of
    /// resources.
    pub metadata: Option<IUnknown>,
    /// Its symbols, if it is in memory only.
    pub symbols: Vec<u8>,
}

/// An assembly.
#[derive(Clone, Debug, Default)]
pub struct Assembly {
    /// Its simple name.
    pub name: String,
    /// Its application domain.
    pub app_domain: AppDomainId,
    /// The module with its manifest.
    pub module: ModuleId,
}

/// An application domain.
#[derive(Clone, Debug, Default)]
pub struct AppDomain {
    /// Its name.
    pub name: String,
    /// The process.
    pub process: ProcessId,
}

/// A managed thread.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Its operating system id.
    pub os_id: u32,
    /// Its application domain.
    pub app_domain: AppDomainId,
    /// Its stack, leaf first.
    pub stack: Vec<Frame>,
}

/// A frame of a thread's stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its function; null is a run of native frames.
    pub function: FunctionId,
    /// Where it is.
    pub ip: usize,
}

/// An object.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// Its class.
    pub class: ClassId,
    /// Its size in bytes.
    pub size: usize,
    /// Its generation, as COR_PRF_GC_GENERATION counts.
    pub generation: u32,
    /// What its fields refer to.
    pub references: Vec<RawObjectId>,
    /// Whether it lies outside of the collected heap.
    pub frozen: bool,
}
