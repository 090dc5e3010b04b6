/// Which part of a .NET process a native module is. Reports name time in it by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModuleKind {
    /// The runtime: `libcoreclr`. Its collector and type system are in it as well.
    Runtime,
    /// A collector of its own file: `libclrgc`, `libclrgcexp`.
    Gc,
    /// The compiler: `libclrjit` and its cross-compiling sisters.
    Jit,
    /// What finds and starts the runtime: `dotnet`, `libhostfxr`, `libhostpolicy`.
    Host,
    /// The native half of the base class library: `libSystem.Native`,
    /// `libSystem.IO.Compression.Native` …
    SystemNative,
    /// The C library, its loader, and its threads.
    LibC,
    /// Page provided by the kernel: `[vdso]`.
    Vdso,
    /// Any other.
    Other,
}

impl ModuleKind {
    /// By the file's name. A single-file application is [`ModuleKind::Other`] here: see
    /// [`crate::NativeSymbols::is_single_file_host`].
    pub fn of(file_name: &str) -> Self {
        let name = file_name.rsplit(['/', '\\']).next().unwrap_or(file_name);
        let stem = name.strip_prefix("lib").unwrap_or(name);
        let is = |word: &str| {
            stem.strip_prefix(word)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '_', '-']))
        };
        if is("coreclr") || is("mscordaccore") || is("mscordbi") || is("coreclrtraceptprovider") {
            ModuleKind::Runtime
        } else if is("clrgc") || is("clrgcexp") {
            ModuleKind::Gc
        } else if is("clrjit") {
            ModuleKind::Jit
        } else if is("hostfxr") || is("hostpolicy") || matches!(name, "dotnet" | "dotnet.exe") {
            ModuleKind::Host
        } else if stem.starts_with("System.") && stem.contains(".Native") || is("System.Native") {
            ModuleKind::SystemNative
        } else if matches!(name, "[vdso]" | "linux-vdso.so.1") {
            ModuleKind::Vdso
        } else if name.starts_with("libc.so")
            || name.starts_with("libc-2")
            || name.starts_with("libc.musl-")
            || name.starts_with("libpthread")
            || name.starts_with("ld-linux")
            || name.starts_with("ld-musl")
            || name.starts_with("ld-2")
            || name.starts_with("libSystem.B.")
        {
            ModuleKind::LibC
        } else {
            ModuleKind::Other
        }
    }

    /// Whether the module belongs to the .NET runtime in the wider sense.
    pub fn is_dotnet(self) -> bool {
        match self {
            ModuleKind::Runtime
            | ModuleKind::Gc
            | ModuleKind::Jit
            | ModuleKind::Host
            | ModuleKind::SystemNative => true,
            ModuleKind::LibC | ModuleKind::Vdso | ModuleKind::Other => false,
        }
    }

    /// The part that a function is of, where its name tells: the collector and the compiler are
    /// linked into the runtime or into a single-file application, and keep their class and
    /// namespace names there.
    pub fn of_function(self, demangled_name: &str) -> Self {
        if !matches!(self, ModuleKind::Runtime | ModuleKind::Other) {
            return self;
        }
        let starts = |words: &[&str]| words.iter().any(|word| demangled_name.starts_with(word));
        if starts(&["WKS::", "SVR::", "gc_heap::", "GCHeap::"]) {
            ModuleKind::Gc
        } else if self == ModuleKind::Runtime
            && starts(&["Compiler::", "CILJit::", "CodeGen::", "LinearScan::"])
        {
            ModuleKind::Jit
        } else {
            self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files() {
        for (name, kind) in [
            (
                "/usr/share/dotnet/shared/Microsoft.NETCore.App/9.0.5/libcoreclr.so",
                ModuleKind::Runtime,
            ),
            ("libclrgc.so", ModuleKind::Gc),
            ("libclrgcexp.so", ModuleKind::Gc),
            ("libclrjit.so", ModuleKind::Jit),
            ("libclrjit_unix_x64_x64.so", ModuleKind::Jit),
            ("clrjit.dll", ModuleKind::Jit),
            ("libhostpolicy.so", ModuleKind::Host),
            ("dotnet", ModuleKind::Host),
            ("libSystem.Native.so", ModuleKind::SystemNative),
            ("libSystem.Security.Cryptography.Native.OpenSsl.so", ModuleKind::SystemNative),
            ("System.Native.so", ModuleKind::SystemNative),
            ("libc.so.6", ModuleKind::LibC),
            ("ld-linux-x86-64.so.2", ModuleKind::LibC),
            ("libc-2.31.so", ModuleKind::LibC),
            ("libclrscope.so", ModuleKind::Other),
            ("libcoreclrish.so", ModuleKind::Other),
            ("libcurl.so.4", ModuleKind::Other),
            ("[vdso]", ModuleKind::Vdso),
        ] {
            assert_eq!(ModuleKind::of(name), kind, "{name}");
        }
    }

    #[test]
    fn functions() {
        assert_eq!(ModuleKind::Runtime.of_function("WKS::gc_heap::mark_object"), ModuleKind::Gc);
        assert_eq!(ModuleKind::Runtime.of_function("Compiler::fgMorph"), ModuleKind::Jit);
        assert_eq!(ModuleKind::Runtime.of_function("MethodDesc::DoPrestub"), ModuleKind::Runtime);
        assert_eq!(ModuleKind::Other.of_function("Compiler::compile"), ModuleKind::Other);
        assert_eq!(ModuleKind::LibC.of_function("SVR::x"), ModuleKind::LibC);
    }
}
