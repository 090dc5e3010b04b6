//! What the runtime's error codes mean.

use std::fmt;

/// An error code of the runtime, as its answers on the diagnostic port carry it.
///
/// `Display` gives the meaning and, where there is one, the next step, then the code itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HResult(pub u32);

/// One row of the table of known codes.
struct Known {
    code: u32,
    meaning: &'static str,
    next_step: Option<&'static str>,
}

impl HResult {
    /// The port does not know the command: the runtime is older than the command
    /// (`DS_IPC_E_UNKNOWN_COMMAND`).
    pub const UNKNOWN_COMMAND: Self = Self(0x8013_1385);
    /// The port could not decode the payload (`DS_IPC_E_BAD_ENCODING`).
    pub const BAD_ENCODING: Self = Self(0x8013_1384);
    /// The port does not know the magic of the header (`DS_IPC_E_UNKNOWN_MAGIC`).
    pub const UNKNOWN_MAGIC: Self = Self(0x8013_1386);
    /// Anything else went wrong in the port (`DS_IPC_E_UNKNOWN_ERROR`).
    pub const UNKNOWN_ERROR: Self = Self(0x8013_1387);
    /// The runtime was built or started without what the command needs (`COR_E_NOTSUPPORTED`).
    pub const NOT_SUPPORTED: Self = Self(0x8013_1515);
    /// The profiling part of the runtime is not up yet (`CORPROF_E_NOT_YET_AVAILABLE`).
    pub const NOT_YET_AVAILABLE: Self = Self(0x8013_135b);
    /// The last profiler is still on its way out (`CORPROF_E_PROFILER_DETACHING`).
    pub const PROFILER_DETACHING: Self = Self(0x8013_1367);
    /// The library's class does not implement attaching (`CORPROF_E_PROFILER_NOT_ATTACHABLE`).
    pub const PROFILER_NOT_ATTACHABLE: Self = Self(0x8013_1368);
    /// The main profiler slot is taken (`CORPROF_E_PROFILER_ALREADY_ACTIVE`).
    pub const PROFILER_ALREADY_ACTIVE: Self = Self(0x8013_136a);
    /// The library asked for something that only a launched profiler may have
    /// (`CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER`).
    pub const UNSUPPORTED_FOR_ATTACH: Self = Self(0x8013_136f);
    /// The runtime has not started (`CORPROF_E_RUNTIME_UNINITIALIZED`).
    pub const RUNTIME_UNINITIALIZED: Self = Self(0x8013_1371);
    /// The library itself refused to be activated (`CORPROF_E_PROFILER_CANCEL_ACTIVATION`).
    pub const PROFILER_CANCEL_ACTIVATION: Self = Self(0x8013_1375);
    /// The runtime cannot be profiled beside a concurrent collection
    /// (`CORPROF_E_CONCURRENT_GC_NOT_PROFILABLE`).
    pub const CONCURRENT_GC_NOT_PROFILABLE: Self = Self(0x8013_1376);
    /// Diagnostics are switched off in the process (`CORPROF_E_DEBUGGING_DISABLED`).
    pub const DEBUGGING_DISABLED: Self = Self(0x8013_1378);
    /// The library file, or something that it needs, was not found (`ERROR_MOD_NOT_FOUND`).
    pub const MODULE_NOT_FOUND: Self = Self(0x8007_007e);
    /// The library has no `DllGetClassObject` (`ERROR_PROC_NOT_FOUND`).
    pub const PROCEDURE_NOT_FOUND: Self = Self(0x8007_007f);
    /// The library is for another system or processor (`ERROR_BAD_FORMAT`).
    pub const BAD_FORMAT: Self = Self(0x8007_000b);
    /// The system refused access (`E_ACCESSDENIED`).
    pub const ACCESS_DENIED: Self = Self(0x8007_0005);
    /// An argument is wrong (`E_INVALIDARG`).
    pub const INVALID_ARGUMENT: Self = Self(0x8007_0057);
    /// The library has no class of that id (`CLASS_E_CLASSNOTAVAILABLE`).
    pub const CLASS_NOT_AVAILABLE: Self = Self(0x8004_0111);
    /// The class lacks an interface (`E_NOINTERFACE`).
    pub const NO_INTERFACE: Self = Self(0x8000_4002);
    /// No reason given (`E_FAIL`).
    pub const FAIL: Self = Self(0x8000_4005);
    /// There is no memory, or no other resource that is needed (`E_OUTOFMEMORY`).
    pub const OUT_OF_MEMORY: Self = Self(0x8007_000e);
    /// It took too long (`ERROR_TIMEOUT`).
    pub const TIMEOUT: Self = Self(0x8007_05b4);

    /// Meanings follow `corerror.h`, `winerror.h` and the runtime's diagnostic server.
    const KNOWN: &[Known] = &[
        Known {
            code: Self::UNKNOWN_COMMAND.0,
            meaning: "the runtime does not know this command",
            next_step: Some(
                "it needs a newer runtime, or one that is not compiled ahead of time (NativeAOT)",
            ),
        },
        Known {
            code: Self::BAD_ENCODING.0,
            meaning: "the runtime could not decode the command",
            next_step: None,
        },
        Known {
            code: Self::UNKNOWN_MAGIC.0,
            meaning: "the runtime speaks another diagnostics protocol",
            next_step: None,
        },
        Known {
            code: Self::UNKNOWN_ERROR.0,
            meaning: "the runtime failed without saying why",
            next_step: None,
        },
        Known {
            code: Self::NOT_SUPPORTED.0,
            meaning: "the runtime was built or started without support for this command",
            next_step: Some("profiling may be switched off by DOTNET_EnableDiagnostics_Profiler=0"),
        },
        Known {
            code: Self::NOT_YET_AVAILABLE.0,
            meaning: "the profiling part of the runtime is not up yet",
            next_step: Some(
                "try again in a moment; a process that is suspended at its start has to be resumed \
                    first",
            ),
        },
        Known {
            code: Self::PROFILER_DETACHING.0,
            meaning: "the last profiler is still detaching",
            next_step: Some("try again in a few seconds"),
        },
        Known {
            code: Self::PROFILER_NOT_ATTACHABLE.0,
            meaning: "the profiler library cannot be attached, only launched",
            next_step: None,
        },
        Known {
            code: Self::PROFILER_ALREADY_ACTIVE.0,
            meaning: "another profiler is active in the process",
            next_step: Some(
                "end the other recording, or remove the other profiler (look for CORECLR_PROFILER \
                    in its environment)",
            ),
        },
        Known {
            code: Self::UNSUPPORTED_FOR_ATTACH.0,
            meaning: "the profiler asked for something that is not allowed after attaching",
            next_step: Some("launch the process with the profiler instead"),
        },
        Known {
            code: Self::RUNTIME_UNINITIALIZED.0,
            meaning: "the runtime has not started yet",
            next_step: Some("try again in a moment"),
        },
        Known {
            code: Self::PROFILER_CANCEL_ACTIVATION.0,
            meaning: "the profiler library refused to be activated",
            next_step: None,
        },
        Known {
            code: Self::CONCURRENT_GC_NOT_PROFILABLE.0,
            meaning: "the runtime cannot be profiled so while concurrent garbage collection is on",
            next_step: None,
        },
        Known {
            code: Self::DEBUGGING_DISABLED.0,
            meaning: "diagnostics are switched off in the process",
            next_step: Some("start it without DOTNET_EnableDiagnostics=0"),
        },
        Known {
            code: Self::MODULE_NOT_FOUND.0,
            meaning: "the process could not load the profiler library",
            next_step: Some(
                "the file must be readable for the process, lie where the process can see it, and \
                    fit its C library",
            ),
        },
        Known {
            code: Self::PROCEDURE_NOT_FOUND.0,
            meaning: "the profiler library has no DllGetClassObject",
            next_step: None,
        },
        Known {
            code: Self::BAD_FORMAT.0,
            meaning: "the profiler library is for another system or processor",
            next_step: Some("use the build for the architecture of the process"),
        },
        Known {
            code: Self::ACCESS_DENIED.0,
            meaning: "the system refused access",
            next_step: None,
        },
        Known {
            code: Self::INVALID_ARGUMENT.0,
            meaning: "the runtime refused an argument",
            next_step: None,
        },
        Known {
            code: Self::CLASS_NOT_AVAILABLE.0,
            meaning: "the profiler library has no such class",
            next_step: None,
        },
        Known {
            code: Self::NO_INTERFACE.0,
            meaning: "the profiler library lacks an interface that the runtime needs",
            next_step: None,
        },
        Known {
            code: Self::FAIL.0,
            meaning: "the runtime refused without saying why",
            next_step: None,
        },
        Known {
            code: Self::OUT_OF_MEMORY.0,
            meaning: "the process has no memory left, or no thread-local key (PTHREAD_KEYS_MAX)",
            next_step: Some(
                "look for a library in it that creates keys without end, or for what uses its \
                    memory",
            ),
        },
        Known {
            code: Self::TIMEOUT.0,
            meaning: "the runtime took too long",
            next_step: Some("try again; the process may be overloaded"),
        },
    ];

    /// Whether the code says that the operation worked: it is not negative as a signed number.
    pub const fn is_success(self) -> bool {
        self.0 & 0x8000_0000 == 0
    }

    fn known(self) -> Option<&'static Known> {
        Self::KNOWN.iter().find(|known| known.code == self.0)
    }

    /// What the code means, for a reader; `None` for codes that are not in our table.
    pub fn meaning(self) -> Option<&'static str> {
        self.known().map(|known| known.meaning)
    }

    /// What the user may do about it.
    pub fn next_step(self) -> Option<&'static str> {
        self.known().and_then(|known| known.next_step)
    }
}

impl fmt::Display for HResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.meaning(), self.next_step()) {
            (Some(meaning), Some(step)) => write!(f, "{meaning} ({:#010x}): {step}", self.0),
            (Some(meaning), None) => write!(f, "{meaning} ({:#010x})", self.0),
            (None, _) => write!(f, "the runtime answered with error {:#010x}", self.0),
        }
    }
}

impl fmt::Debug for HResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HResult({:#010x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_code_stands_once_and_is_a_failure() {
        let codes: HashSet<_> = HResult::KNOWN.iter().map(|known| known.code).collect();
        assert_eq!(codes.len(), HResult::KNOWN.len());
        assert!(codes.into_iter().all(|code| !HResult(code).is_success()));
        assert!(HResult(0).is_success() && HResult(1).is_success());
    }

    #[test]
    fn says_meaning_step_and_code() {
        let text = HResult::PROFILER_ALREADY_ACTIVE.to_string();
        assert!(
            text.starts_with(
                "another profiler is active in the process (0x8013136a): end the other"
            ),
            "{text}"
        );
        assert_eq!(HResult(0x8badf00d).to_string(), "the runtime answered with error 0x8badf00d");
    }
}
