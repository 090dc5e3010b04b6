use object::elf::{FileHeader64, PT_TLS, R_X86_64_TLSDESC, R_X86_64_TPOFF64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Architecture, LittleEndian, Object, ObjectSymbol, RelocationFlags};
use std::{io, path::PathBuf, sync::Arc};

/// The agent library, to be placed where the target can load it.
#[derive(Clone, Debug)]
pub enum AgentFile {
    /// Carried by this program, compressed: lz4, a block behind its length. Unpacking takes as long
    /// as copying it would.
    Embedded(&'static [u8]),
    /// A file.
    Path(Arc<PathBuf>),
}

/// Type of the segment that was one of thread-local storage: the agent looks for it by this number
/// (`tls.rs`).
const PT_HIDDEN_TLS: u32 = 0x6c63_7273;

impl AgentFile {
    /// Its bytes, as a process is to load it: without a segment of thread-local storage, which
    /// glibc cannot load and unload without danger for threads that run (see docs/safety.md).
    ///
    /// # Errors
    /// The file cannot be read, or what is carried cannot be unpacked.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = match self {
            Self::Embedded(packed) => {
                lz4_flex::block::decompress_size_prepended(packed).map_err(io::Error::other)?
            }
            Self::Path(path) => std::fs::read(path.as_ref())?,
        };
        let hidden = tls_segment(&bytes).and_then(|at| bytes.get_mut(at..at + 4));
        if let Some(kind) = hidden {
            kind.copy_from_slice(&PT_HIDDEN_TLS.to_le_bytes());
        }
        Ok(bytes)
    }
}

/// Where the type of the segment of thread-local storage stands, if the library can do without the
/// loader's help: it asks itself for the storage, and no code of it has the place built in.
fn tls_segment(bytes: &[u8]) -> Option<usize> {
    let file = object::File::parse(bytes)
        .ok()
        .filter(|file| file.architecture() == Architecture::X86_64)?;
    let asks_the_loader =
        file.dynamic_symbols().any(|symbol| symbol.name() == Ok("__tls_get_addr"));
    let needs_the_loader = file.dynamic_relocations()?.any(|(_, relocation)| {
        let RelocationFlags::Elf { r_type } = relocation.flags() else { return false };
        [R_X86_64_TPOFF64, R_X86_64_TLSDESC].contains(&r_type)
    });
    if asks_the_loader || needs_the_loader {
        return None;
    }
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    let headers = header.program_headers(LittleEndian, bytes).ok()?;
    let index = headers.iter().position(|header| header.p_type(LittleEndian) == PT_TLS)?;
    let first = usize::try_from(header.e_phoff(LittleEndian)).ok()?;
    Some(first + index * usize::from(header.e_phentsize(LittleEndian)))
}
