/// The resident memory of a process, by what it is used for. Every byte is in one part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySplit {
    /// All of it, bytes.
    pub resident: u64,
    /// Mapped assemblies.
    pub assemblies: u64,
    /// Native libraries and programs, and other mapped files.
    pub native_modules: u64,
    /// Code that was compiled at run time, with the runtime's own data beside it.
    pub code: u64,
    /// Stacks of threads.
    pub stacks: u64,
    /// What `malloc` holds in the program break and in its arenas. Large blocks have mappings of
    /// their own, and are in `other`.
    pub native_heap: u64,
    /// What is in use of the segments of the managed heap. From .NET 7 on it has no segments, and
    /// is in `other`, except for some of its memory.
    pub segments: u64,
    /// All other memory: the managed heap where it has no segments, and large blocks of native
    /// code.
    pub other: u64,
}

/// What the resident memory of a process is made of.
///
/// # Errors
/// When the process has ended, belongs to somebody else, or the system does not tell (all but
/// Linux).
pub fn memory(pid: u32) -> std::io::Result<MemorySplit> {
    #[cfg(target_os = "linux")]
    return crate::platform::memory::memory(pid);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = pid;
        Err(std::io::ErrorKind::Unsupported.into())
    }
}
