//! Where the code of methods stands, and what else events say of the process as a whole.

use super::SAMPLER;
use crate::{
    ImportError, limits,
    out::{Function, Out},
};
use nettrace::{Event, Fields, names, runtime};
use rustc_hash::FxHashMap;
use session::{FrameId, FunctionKind};

/// The provider that describes at the end what there was before.
pub const RUNDOWN: &str = "Microsoft-Windows-DotNETRuntimeRundown";

/// Describes the stream itself.
const STREAM: &str = "Microsoft-DotNETCore-EventPipe";

/// Characters of a name that are read. An event has at most 64 KB.
const TEXT: usize = 1 << 15;

/// Flag of a method without metadata.
const DYNAMIC: u32 = 0x1;

struct Method {
    start: u64,
    end: u64,
    module: u64,
    name: Box<str>,
    dynamic: bool,
    frame: Option<FrameId>,
}

/// The methods, and what kinds of events there are.
#[derive(Default)]
pub struct Methods {
    list: Vec<Method>,
    /// Paths of modules by the runtime's numbers.
    modules: FxHashMap<u64, String>,
    bytes: usize,
    unknown: Option<FrameId>,
    /// Ids of the profilers that would have recorded these events.
    pub profilers: Vec<&'static str>,
    pub runtime: String,
    pub command_line: String,
}

/// `Type.Method(parameters)`.
pub fn full_name(ty: &str, method: &str, signature: &str) -> String {
    let dot = if ty.is_empty() { "" } else { "." };
    format!("{}{dot}{}{}", names::type_name(ty), method, names::parameters(signature))
}

impl Methods {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn see(&mut self, event: &Event) -> Result<(), ImportError> {
        let (provider, id) = (event.ty.provider.as_str(), event.ty.id);
        let profiler = match (provider, id) {
            (SAMPLER, _) => Some("wall"),
            (runtime::PROVIDER, 1 | 2 | 9) => Some("gc"),
            (runtime::PROVIDER, 10 | 303) => Some("allocations"),
            (runtime::PROVIDER, 80) => Some("exceptions"),
            (runtime::PROVIDER, 81 | 91) => Some("locks"),
            (runtime::PROVIDER, 145) => Some("jit"),
            _ => None,
        };
        if let Some(id) = profiler.filter(|id| !self.profilers.contains(id)) {
            self.profilers.push(id);
        }
        let fields = Fields(&event.payload);
        // What is cut short says nothing.
        let _ = match (provider, id) {
            (runtime::PROVIDER, 143) | (RUNDOWN, 143 | 144) => self.method(fields),
            (runtime::PROVIDER, 152) | (RUNDOWN, 153 | 154) => self.module(fields),
            (runtime::PROVIDER | RUNDOWN, 187) => self.of_runtime(fields),
            (STREAM, 1) => self.of_process(fields),
            _ => None,
        };
        if self.list.len() > limits::NAMES || self.bytes > limits::NAME_BYTES {
            return Err(ImportError::TooLarge { what: "methods", limit: limits::NAMES as u64 });
        }
        Ok(())
    }

    fn method(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let _method = fields.u64()?;
        let module = fields.u64()?;
        let (start, size) = (fields.u64()?, fields.u32()?);
        let _token = fields.u32()?;
        let flags = fields.u32()?;
        let (ty, name) = (fields.utf16z(TEXT)?, fields.utf16z(TEXT)?);
        let name = full_name(&ty, &name, &fields.utf16z(TEXT)?);
        if size > 0 {
            self.bytes += name.len() + size_of::<Method>();
            let (name, dynamic) = (name.into_boxed_str(), flags & DYNAMIC != 0);
            let end = start.saturating_add(size.into());
            self.list.push(Method { start, end, module, name, dynamic, frame: None });
        }
        Some(())
    }

    fn module(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let module = fields.u64()?;
        let _assembly = fields.u64()?;
        let (_flags, _reserved) = (fields.u32()?, fields.u32()?);
        let path = fields.utf16z(TEXT)?;
        self.bytes += path.len() + 64;
        self.modules.insert(module, path);
        Some(())
    }

    fn of_runtime(&mut self, mut fields: Fields<'_>) -> Option<()> {
        for _ in ["instance", "product", "major", "minor", "build", "revision"] {
            fields.u16()?;
        }
        let (major, minor, build) = (fields.u16()?, fields.u16()?, fields.u16()?);
        if self.runtime.is_empty() && major > 2 {
            self.runtime = format!("{major}.{minor}.{build}");
        }
        Some(())
    }

    fn of_process(&mut self, mut fields: Fields<'_>) -> Option<()> {
        self.command_line = fields.utf16z(TEXT)?;
        Some(())
    }

    /// The name of the assembly that runs, else of the program, by the command line.
    pub fn process_name(&self) -> Option<String> {
        let mut words = self.command_line.split_ascii_whitespace();
        let program = words.next()?;
        let file = words.find(|word| word.ends_with(".dll")).unwrap_or(program);
        let name = file.rsplit(['/', '\\']).next()?.trim_matches('"');
        let name = name.strip_suffix(".dll").or_else(|| name.strip_suffix(".exe")).unwrap_or(name);
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// Brings methods into the order of their addresses. What is described twice is there once.
    pub fn settle(&mut self) {
        // Stable: of code at the same place the last description counts.
        self.list.sort_by_key(|method| method.start);
        self.list.reverse();
        self.list.dedup_by_key(|method| method.start);
        self.list.reverse();
    }

    /// The frame of an address.
    pub fn frame(&mut self, address: u64, out: &mut Out<'_>) -> Result<FrameId, ImportError> {
        let after = self.list.partition_point(|method| method.start <= address);
        let method = after.checked_sub(1).and_then(|at| self.list.get_mut(at));
        let Some(method) = method.filter(|method| address < method.end) else {
            return self.unknown(out);
        };
        if let Some(frame) = method.frame {
            return Ok(frame);
        }
        let module = self.modules.get(&method.module).map_or("", String::as_str);
        let kind = if method.dynamic { FunctionKind::Dynamic } else { FunctionKind::Managed };
        let function = out.function(&Function { name: &method.name, module, kind })?;
        Ok(*method.frame.insert(out.frame(function, None)?))
    }

    fn unknown(&mut self, out: &mut Out<'_>) -> Result<FrameId, ImportError> {
        if let Some(frame) = self.unknown {
            return Ok(frame);
        }
        let function = Function { name: "[unknown]", module: "", kind: FunctionKind::Unknown };
        let function = out.function(&function)?;
        Ok(*self.unknown.insert(out.frame(function, None)?))
    }
}
