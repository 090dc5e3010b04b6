use crate::Error;
use flate2::read::DeflateDecoder;
use metadata::{Bundle, Metadata, PeHeaders, table};
use object::read::pe::{ImageNtHeaders, PeFile};
use object::{FileKind, ReadCache, ReadRef, pe};
use rootfs::Root;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use symbolic_ppdb::{PortablePdb as Ppdb, PortablePdbCache, PortablePdbCacheConverter};

/// Largest PDB that is read.
const MAX_PDB: u64 = 512 << 20;

/// Largest assembly that is looked at.
const MAX_ASSEMBLY: u64 = 1 << 30;

/// A source line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceLine {
    /// Path of the file as the compiler saw it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
}

/// Lines of an assembly's methods.
///
/// Methods are named by their metadata tokens (`0x06000001` and up) or rows.
#[derive(Clone)]
pub struct PortablePdb {
    /// Lines in the form that is looked up in.
    lines: Vec<u8>,
    facts: PdbFacts,
}

/// What is read of a portable PDB besides its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PdbFacts {
    /// GUID and stamp, as the assembly's debug directory repeats them.
    id: [u8; 20],
    /// `MoveNext` method and the method that the programmer wrote, by row, ascending.
    state_machines: Vec<(u32, u32)>,
    /// First line of each method from row 1 on; 0 for methods without lines.
    first_lines: Vec<u32>,
}

impl PdbFacts {
    /// From the bytes of a portable PDB; `None` when it is none.
    fn read(pdb: &[u8]) -> Option<Self> {
        const TABLE: usize = table::STATE_MACHINE_METHOD;
        let metadata = Metadata::parse(pdb).ok()?;
        let pair = |row| Some((metadata.get(TABLE, row, 0)?, metadata.get(TABLE, row, 1)?));
        let mut state_machines =
            (1..=metadata.rows(TABLE)).map(pair).collect::<Option<Vec<_>>>()?;
        state_machines.sort_unstable();
        const LINES: usize = table::METHOD_DEBUG_INFORMATION;
        let first =
            |row| first_line(metadata.get(LINES, row, 0)?, metadata.blob_of(LINES, row, 1)?);
        let mut first_lines: Vec<u32> =
            (1..=metadata.rows(LINES)).map(|row| first(row).unwrap_or(0)).collect();
        // What a programmer wrote as one method begins where its state machine does.
        for &(move_next, kickoff) in &state_machines {
            let line = |row: u32| first_lines.get(row.checked_sub(1)? as usize).copied();
            if let (Some(line), Some(0)) = (line(move_next), line(kickoff))
                && let Some(first) =
                    kickoff.checked_sub(1).and_then(|at| first_lines.get_mut(at as usize))
            {
                *first = line;
            }
        }
        Some(Self { id: metadata.pdb_id()?, state_machines, first_lines })
    }
}

/// The first line of a method's sequence points: `PortablePdb-Metadata.md`, "Sequence Points Blob".
fn first_line(document: u32, blob: &[u8]) -> Option<u32> {
    let rest = &mut &*blob;
    let _local_signature = compressed(rest)?;
    if document == 0 {
        let _initial_document = compressed(rest)?;
    }
    let mut first = true;
    while !rest.is_empty() {
        let il_offset = compressed(rest)?;
        if il_offset == 0 && !first {
            let _document = compressed(rest)?;
            continue;
        }
        first = false;
        let lines = compressed(rest)?;
        // Signed where the point spans several lines; only whether it is 0 matters here.
        let columns = compressed(rest)?;
        if lines != 0 || columns != 0 {
            return compressed(rest).filter(|line| *line > 0);
        }
    }
    None
}

/// A number of one, two or four bytes: ECMA-335 II.23.2.
fn compressed(rest: &mut &[u8]) -> Option<u32> {
    let first = u32::from(*rest.first()?);
    let (bytes, mask) = match first {
        _ if first & 0x80 == 0 => (1, 0x7f),
        _ if first & 0xc0 == 0x80 => (2, 0x3fff),
        _ if first & 0xe0 == 0xc0 => (4, 0x1fff_ffff),
        _ => return None,
    };
    let (number, after) = rest.split_at_checked(bytes)?;
    *rest = after;
    Some(number.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)) & mask)
}

impl PortablePdb {
    /// The PDB that belongs to an assembly, in the file system of the process that has loaded it:
    /// embedded in it, or beside it. `Ok(None)` when there is none, or only one of another build;
    /// also when there is no file at all, as for assemblies within a single-file application: see
    /// [`SingleFileApp`].
    ///
    /// With `module_version_id` the assembly itself is checked as well: the file may have been
    /// replaced since it was loaded.
    ///
    /// Fails when a PDB is there but damaged, or cannot be read.
    pub fn find(
        root: &Root,
        assembly: &Path,
        module_version_id: Option<[u8; 16]>,
    ) -> Result<Option<Self>, Error> {
        let file = match root.open(assembly, MAX_ASSEMBLY) {
            Ok(file) => file,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(source) => return Err(Error::Io { path: assembly.to_owned(), source }),
        };
        Self::of_image(root, assembly, &ReadCache::new(file), module_version_id)
    }

    /// The PDB of an assembly that lies at a path, or would lie there.
    fn of_image<'data, R: ReadRef<'data>>(
        root: &Root,
        assembly: &Path,
        data: R,
        module_version_id: Option<[u8; 16]>,
    ) -> Result<Option<Self>, Error> {
        let damaged =
            |what: String| Error::Damaged { path: assembly.to_owned(), expected: "assembly", what };
        let (debug, version): (_, fn(R) -> _) = match FileKind::parse(data) {
            Ok(FileKind::Pe64) => (
                DebugData::read::<pe::ImageNtHeaders64, _>(data),
                version_of::<pe::ImageNtHeaders64, _>,
            ),
            Ok(FileKind::Pe32) => (
                DebugData::read::<pe::ImageNtHeaders32, _>(data),
                version_of::<pe::ImageNtHeaders32, _>,
            ),
            Ok(_) | Err(_) => return Ok(None),
        };
        let debug = debug.map_err(|error| damaged(error.to_string()))?;
        let mut candidates = match debug.pdb_id {
            Some(_) if debug.embedded.is_none() => beside(assembly, debug.pdb_path.as_deref()),
            _ => Vec::new(),
        };
        candidates.retain(|candidate| root.is_file(candidate));
        if debug.embedded.is_none() && candidates.is_empty() {
            // The usual case for the framework, whose metadata are megabytes to read.
            return Ok(None);
        }
        if module_version_id.is_some() && version(data) != module_version_id {
            return Ok(None);
        }
        if let Some(bytes) = debug.embedded {
            return Self::parse(&bytes).map(Some).map_err(damaged);
        }
        let Some(id) = debug.pdb_id else { return Ok(None) };
        for candidate in candidates {
            let Ok(bytes) = root.read(&candidate, MAX_PDB) else { continue };
            // A PDB of another kind, or of another build.
            if PdbFacts::read(&bytes).is_none_or(|facts| facts.id != id) {
                continue;
            }
            let pdb = Self::parse(&bytes);
            return pdb.map(Some).map_err(|what| Error::Damaged {
                path: candidate,
                expected: "portable PDB",
                what,
            });
        }
        Ok(None)
    }

    /// From the bytes of a portable PDB, whatever assembly it is of.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let read = || {
            let mut bytes = Vec::new();
            rootfs::open_at(path, MAX_PDB)?.read_to_end(&mut bytes).map(|_| bytes)
        };
        let bytes = read().map_err(|source| Error::Io { path: path.to_owned(), source })?;
        Self::parse(&bytes).map_err(|what| Error::Damaged {
            path: path.to_owned(),
            expected: "portable PDB",
            what,
        })
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let facts = PdbFacts::read(bytes).ok_or("its tables are not in order")?;
        let pdb = Ppdb::parse(bytes).map_err(|error| error.to_string())?;
        let mut converter = PortablePdbCacheConverter::new();
        converter.process_portable_pdb(&pdb).map_err(|error| error.to_string())?;
        let mut lines = Vec::new();
        converter.serialize(&mut lines).map_err(|error| error.to_string())?;
        // Looking up must not fail later.
        PortablePdbCache::parse(&lines).map_err(|error| error.to_string())?;
        Ok(Self { lines, facts })
    }

    /// The line of an IL offset of a method; `None` for methods without lines.
    ///
    /// Code that the compiler added without a line of its own counts to the line before it.
    pub fn line(&self, method: u32, il_offset: u32) -> Option<SourceLine> {
        let lines = PortablePdbCache::parse(&self.lines).ok()?;
        let found = lines.lookup(row(method)?, il_offset)?;
        (found.line > 0).then(|| SourceLine { file: found.file_name.to_owned(), line: found.line })
    }

    /// The line at which a method begins, also of one of which the compiler made a state machine;
    /// `None` for methods without lines.
    pub fn first_line(&self, method: u32) -> Option<u32> {
        let at = row(method)?.checked_sub(1)? as usize;
        self.facts.first_lines.get(at).copied().filter(|line| *line > 0)
    }

    /// The method that the programmer wrote, for the `MoveNext` of its state machine; as a token.
    pub fn kickoff_method(&self, move_next: u32) -> Option<u32> {
        let wanted = row(move_next)?;
        let table = &self.facts.state_machines;
        let at = table.binary_search_by_key(&wanted, |&(move_next, _)| move_next).ok()?;
        table.get(at).map(|&(_, kickoff)| kickoff | METHOD_DEF)
    }

    /// Id of the PDB: GUID and stamp, as the assembly's debug directory repeats them.
    pub fn id(&self) -> [u8; 20] {
        self.facts.id
    }
}

/// Larger files are no applications.
const MAX_EXECUTABLE: u64 = 2 << 30;

/// A single-file application, whose assemblies lie within its executable.
#[derive(Debug)]
pub struct SingleFileApp {
    bundle: Bundle<File>,
    executable: PathBuf,
}

impl SingleFileApp {
    /// The executable of a process, by its link `/proc/<pid>/exe`; `None` if it is no such
    /// application, or cannot be read. It stays open: lines may be asked for when the process has
    /// ended.
    pub fn open(link: &Path) -> Option<Self> {
        let bundle = Bundle::open(rootfs::open_at(link, MAX_EXECUTABLE).ok()?).ok()??;
        Some(Self { bundle, executable: std::fs::read_link(link).ok()? })
    }

    /// The PDB that belongs to an assembly within it, as [`PortablePdb::find`]: embedded in the
    /// assembly, or beside the executable. `assembly` is its path in the application.
    ///
    /// Fails when a PDB is there but damaged, or it or the application cannot be read.
    pub fn find_pdb(
        &mut self,
        root: &Root,
        assembly: &str,
        module_version_id: Option<[u8; 16]>,
    ) -> Result<Option<PortablePdb>, Error> {
        let path = self.executable.with_file_name(assembly);
        if let Some((offset, size)) = self.bundle.place(assembly) {
            // Assemblies have many megabytes, of which some kilobytes say where the PDB is.
            let cache = ReadCache::new(self.bundle.file());
            let image = cache.range(offset, size);
            return PortablePdb::of_image(root, &path, image, module_version_id);
        }
        let read = self
            .bundle
            .read(assembly)
            .map_err(|source| Error::Io { path: self.executable.clone(), source })?;
        let Some(bytes) = read else { return Ok(None) };
        PortablePdb::of_image(root, &path, &*bytes, module_version_id)
    }
}

impl std::fmt::Debug for PortablePdb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PortablePdb")
            .field("bytes", &self.lines.len())
            .field("state_machines", &self.facts.state_machines.len())
            .finish_non_exhaustive()
    }
}

/// Table of a method's token.
const METHOD_DEF: u32 = 0x0600_0000;

/// The row of a method, from its token or its row; 0 is no row.
fn row(method: u32) -> Option<u32> {
    let row = method & 0x00ff_ffff;
    (row != 0 && matches!(method & 0xff00_0000, 0 | METHOD_DEF)).then_some(row)
}

/// Where the PDB of an assembly may be: with its name, or with the name that the compiler gave it.
fn beside(assembly: &Path, compiled_to: Option<&str>) -> Vec<PathBuf> {
    let mut candidates = vec![assembly.with_extension("pdb")];
    // Only the last part counts: the rest is a path on the machine that compiled.
    let name = compiled_to
        .and_then(|path| path.rsplit(['/', '\\']).next())
        .filter(|name| !matches!(*name, "" | "." | ".."));
    if let Some(name) = name {
        let named = assembly.with_file_name(name);
        if !candidates.contains(&named) {
            candidates.push(named);
        }
    }
    candidates
}

/// What an assembly says of its PDB.
#[derive(Default)]
struct DebugData {
    embedded: Option<Vec<u8>>,
    pdb_id: Option<[u8; 20]>,
    pdb_path: Option<String>,
}

impl DebugData {
    fn read<'data, Pe: ImageNtHeaders, R: ReadRef<'data>>(data: R) -> Result<Self, object::Error> {
        const CODE_VIEW: u32 = 2;
        const EMBEDDED: u32 = 17;
        let file = PeFile::<Pe, R>::parse(data)?;
        let sections = file.section_table();
        let mut debug = Self::default();
        let Some(directory) = file.data_directory(pe::IMAGE_DIRECTORY_ENTRY_DEBUG) else {
            return Ok(debug);
        };
        // Characteristics, stamp, versions, type, size, address, position in the file.
        for entry in directory.data(data, &sections)?.chunks_exact(28) {
            let field = |at: usize| {
                let bytes = entry.get(at..).and_then(|bytes| bytes.first_chunk());
                u32::from_le_bytes(bytes.copied().unwrap_or_default())
            };
            let (stamp, kind, size, position) = (field(4), field(12), field(16), field(24));
            let contents = || data.read_bytes_at(position.into(), size.into()).ok();
            match kind {
                CODE_VIEW => {
                    // Signature, GUID, age, path.
                    let Some((b"RSDS", rest)) =
                        contents().and_then(|bytes| bytes.split_first_chunk::<4>())
                    else {
                        continue;
                    };
                    let Some((guid, rest)) = rest.split_first_chunk::<16>() else { continue };
                    let mut id = [0; 20];
                    for (to, from) in id.iter_mut().zip(guid.iter().chain(&stamp.to_le_bytes())) {
                        *to = *from;
                    }
                    debug.pdb_id = Some(id);
                    let path = rest.get(4..).and_then(|path| path.split(|&byte| byte == 0).next());
                    debug.pdb_path =
                        path.and_then(|path| Some(std::str::from_utf8(path).ok()?.to_owned()));
                }
                EMBEDDED => debug.embedded = contents().and_then(inflate),
                _ => {}
            }
        }
        Ok(debug)
    }
}

/// The id of an assembly's module, from its metadata.
fn version_of<'data, Pe: ImageNtHeaders, R: ReadRef<'data>>(data: R) -> Option<[u8; 16]> {
    let file = PeFile::<Pe, R>::parse(data).ok()?;
    let sections = file.section_table();
    let header = file
        .data_directory(pe::IMAGE_DIRECTORY_ENTRY_COM_DESCRIPTOR)?
        .data(data, &sections)
        .ok()?;
    let (address, size) = PeHeaders::metadata_of(header)?;
    let (position, most) = sections.pe_file_range_at(address)?;
    let bytes = data.read_bytes_at(position.into(), u64::from(size).min(most.into())).ok()?;
    (bytes.len() == size as usize).then(|| Metadata::parse(bytes).ok()?.module_version_id())?
}

/// An embedded PDB: `MPDB`, its size, and the file deflated.
fn inflate(contents: &[u8]) -> Option<Vec<u8>> {
    let (magic, rest) = contents.split_first_chunk::<4>()?;
    let (size, deflated) = rest.split_first_chunk::<4>()?;
    let size = u32::from_le_bytes(*size).into();
    if magic != b"MPDB" || size > MAX_PDB {
        return None;
    }
    let mut bytes = Vec::new();
    DeflateDecoder::new(deflated).take(size).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 == size).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_rows() {
        assert_eq!(row(0x0600_0007), Some(7));
        assert_eq!(row(7), Some(7));
        assert_eq!(row(0x0600_0000), None);
        assert_eq!(row(0x0a00_0001), None);
    }

    #[test]
    fn the_first_line_is_that_of_the_first_point_that_is_not_hidden() {
        // Local signature 0; offset 2, hidden; offset 5, one line of 10 columns, line 300,
        // column 9.
        assert_eq!(first_line(1, &[0, 2, 0, 0, 5, 0, 10, 0x81, 0x2c, 9]), Some(300));
        // The document stands in the blob, and changes.
        assert_eq!(first_line(0, &[0, 1, 2, 0, 0, 0, 2, 5, 1, 0x7e, 7, 9]), Some(7));
        assert_eq!(first_line(1, &[0, 2, 0, 0]), None);
        assert_eq!(first_line(1, &[]), None);
        assert_eq!(compressed(&mut &[0xc0, 0, 0x40, 0][..]), Some(0x4000));
        assert_eq!(compressed(&mut &[0xff][..]), None);
    }

    #[test]
    fn places() {
        let all = beside(Path::new("/srv/App.dll"), Some(r"C:\build\..\Other.pdb"));
        assert_eq!(all, [Path::new("/srv/App.pdb"), Path::new("/srv/Other.pdb")]);
        assert_eq!(beside(Path::new("/srv/App.dll"), Some("/x/App.pdb")).len(), 1);
        assert_eq!(beside(Path::new("/srv/App.dll"), Some("x/..")).len(), 1);
    }

    #[test]
    fn what_is_not_there_is_none() {
        let root = Root::own().unwrap();
        assert!(PortablePdb::find(&root, Path::new("/nowhere/App.dll"), None).unwrap().is_none());
        assert!(
            PortablePdb::find(&root, Path::new("/etc/passwd/App.dll"), None).unwrap().is_none()
        );
        assert!(PortablePdb::find(&root, Path::new("/etc/passwd"), None).unwrap().is_none());
        assert!(PortablePdb::read(Path::new("/etc/passwd")).is_err());
        assert!(inflate(b"MPDB\x01\0\0\0garbage").is_none());
    }
}
