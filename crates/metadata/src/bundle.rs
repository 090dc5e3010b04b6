//! Single-file applications: a host program with the application's files behind it. Sources:
//! `bundle.md` and `Microsoft.NET.HostModel` of dotnet/runtime.

use crate::Error;
use crate::bytes::{u32_at, u64_at};
use flate2::read::DeflateDecoder;
use std::borrow::Cow;
use std::io::{self, Read, Seek, SeekFrom};

/// SHA-256 of `.net core bundle` and a line feed. In front of it in the host stands where the list
/// of files is, or 0.
const MARK: [u8; 32] = [
    0x8b, 0x12, 0x02, 0xb9, 0x6a, 0x61, 0x20, 0x38, 0x72, 0x7b, 0x93, 0x02, 0x14, 0xd7, 0xa0, 0x32,
    0x13, 0xf5, 0xb9, 0xe6, 0xef, 0xae, 0x33, 0x18, 0xee, 0x3b, 0x2d, 0xce, 0x24, 0xb3, 0x6a, 0xae,
];
/// Larger files are not unpacked. The largest assembly known has 50 MB.
const LARGEST: u64 = 1 << 30;
/// More of a file is not read as its list: the largest known has 40 KB.
const LONGEST_LIST: u64 = 16 << 20;
/// The host is searched for its mark in pieces of this size.
const PIECE: usize = 1 << 20;
/// Bytes of the list's head that .NET 5 (version 2) added: places of two files, and flags.
const SINCE_2: usize = 40;

/// A file in a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundledFile {
    /// Its path in the application.
    pub path: String,
    offset: u64,
    size: u64,
    /// Bytes in the bundle if it is compressed, or 0.
    compressed: u64,
}

/// The files of a single-file application; `None` if the program in `bytes` is none.
///
/// # Errors
/// The list of files is not whole.
pub fn bundled_files(bytes: &[u8]) -> Result<Option<Vec<BundledFile>>, Error> {
    let Some(mark) = memchr::memmem::find(bytes, &MARK) else { return Ok(None) };
    // A host without an application has 0 here.
    let Some(start) =
        mark.checked_sub(8).and_then(|at| u64_at(bytes, at)).filter(|&start| start != 0)
    else {
        return Ok(None);
    };
    let files = usize::try_from(start).ok().and_then(|start| bytes.get(start..)).and_then(list);
    files.map(Some).ok_or(Error::Truncated { what: "the list of files in the bundle" })
}

/// A single-file application of which only what is asked for is read: most have some hundred
/// megabytes.
#[derive(Debug)]
pub struct Bundle<F> {
    file: F,
    files: Vec<BundledFile>,
}

impl<F: Read + Seek> Bundle<F> {
    /// The application in a file; `None` if the program in it is none.
    ///
    /// # Errors
    /// Those of the system; `InvalidData` if the list of files is not whole.
    pub fn open(mut file: F) -> io::Result<Option<Self>> {
        let Some(start) = list_start(&mut file)?.filter(|start| *start != 0) else {
            return Ok(None);
        };
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.by_ref().take(LONGEST_LIST).read_to_end(&mut bytes)?;
        let files =
            list(&bytes).ok_or_else(|| invalid("the list of files in the bundle is cut short"))?;
        Ok(Some(Self { file, files }))
    }

    /// The files of the application.
    #[must_use]
    pub fn files(&self) -> &[BundledFile] {
        &self.files
    }

    /// Where a file of the application is in the bundle, by its path there: offset and size. `None`
    /// if there is no such file, or if it is compressed.
    #[must_use]
    pub fn place(&self, path: &str) -> Option<(u64, u64)> {
        let found = self.files.iter().find(|file| file.path == path)?;
        (found.compressed == 0).then_some((found.offset, found.size))
    }

    /// The bundle itself.
    pub fn file(&mut self) -> &mut F {
        &mut self.file
    }

    /// What is in a file of the application, by its path there; `None` if there is no such file.
    ///
    /// # Errors
    /// Those of the system; `InvalidData` if the file is not all there, too large, or not what the
    /// list says.
    pub fn read(&mut self, path: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(found) = self.files.iter().find(|file| file.path == path) else { return Ok(None) };
        let stored = if found.compressed == 0 { found.size } else { found.compressed };
        if stored > LARGEST {
            return Err(invalid("a file in the bundle is too large"));
        }
        self.file.seek(SeekFrom::Start(found.offset))?;
        let mut bytes = Vec::new();
        self.file.by_ref().take(stored).read_to_end(&mut bytes)?;
        let whole = BundledFile { offset: 0, ..found.clone() };
        let contents = whole.contents(&bytes).map_err(|error| invalid(&error.to_string()))?;
        Ok(Some(contents.into_owned()))
    }
}

/// The number in front of the mark of a bundle; `None` where there is no mark.
fn list_start(file: &mut (impl Read + Seek)) -> io::Result<Option<u64>> {
    // The host has it in its data, which is small, and behind all of its code, which is not.
    for (start, size) in writable_segments(file)? {
        if let Some(found) = find_mark(file, start, size)? {
            return Ok(Some(found));
        }
    }
    find_mark(file, 0, u64::MAX)
}

/// Where the data of a program for Linux is in its file: offset and size (ELF gABI, program headers
/// of the type `PT_LOAD` with the flag `PF_W`). None for other files.
fn writable_segments(file: &mut (impl Read + Seek)) -> io::Result<Vec<(u64, u64)>> {
    /// Magic number, 64 bit, little-endian.
    const ELF: [u8; 6] = *b"\x7fELF\x02\x01";
    const HEADER: u64 = 64;
    const ENTRY: usize = 56;
    const LOAD: u32 = 1;
    const WRITABLE: u32 = 2;
    let mut read = |from, size| {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.by_ref().take(size).read_to_end(&mut bytes).map(|_| bytes)
    };
    let header = read(0, HEADER)?;
    let (Some(table), Some(sizes)) = (u64_at(&header, 32), u32_at(&header, 54)) else {
        return Ok(Vec::new());
    };
    // The size of an entry, and their number.
    let (size, count) = (sizes as usize & 0xffff, u64::from(sizes >> 16));
    if !header.starts_with(&ELF) || size != ENTRY {
        return Ok(Vec::new());
    }
    let table = read(table, count * ENTRY as u64)?;
    let segments = table.chunks_exact(ENTRY).filter(|entry| {
        let flags = u32_at(entry, 4).unwrap_or_default();
        u32_at(entry, 0) == Some(LOAD) && flags & WRITABLE != 0
    });
    Ok(segments.filter_map(|entry| u64_at(entry, 8).zip(u64_at(entry, 32))).collect())
}

/// The number in front of the mark in a part of a file.
fn find_mark(file: &mut (impl Read + Seek), start: u64, size: u64) -> io::Result<Option<u64>> {
    file.seek(SeekFrom::Start(start))?;
    let mut file = file.by_ref().take(size);
    // What was read last stays in front, so that a mark and its number are not torn apart.
    const KEPT: usize = MARK.len() + 8;
    let mut bytes: Vec<u8> = Vec::with_capacity(PIECE + KEPT);
    loop {
        let before = bytes.len();
        file.by_ref().take(PIECE as u64).read_to_end(&mut bytes)?;
        if let Some(mark) = memchr::memmem::find(&bytes, &MARK)
            && let Some(at) = mark.checked_sub(8)
        {
            return Ok(u64_at(&bytes, at));
        }
        if bytes.len() == before {
            return Ok(None);
        }
        bytes.drain(..bytes.len().saturating_sub(KEPT));
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl BundledFile {
    /// What is in the file; `bytes` are those of the whole bundle.
    ///
    /// # Errors
    /// It is not all there, or not what the list says.
    pub fn contents<'a>(&self, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, Error> {
        let stored = if self.compressed == 0 { self.size } else { self.compressed };
        let range = usize::try_from(self.offset).ok().zip(usize::try_from(stored).ok());
        let stored = range.and_then(|(start, size)| bytes.get(start..start.checked_add(size)?));
        let stored = stored.ok_or(Error::Truncated { what: "a file in the bundle" })?;
        if self.compressed == 0 {
            return Ok(Cow::Borrowed(stored));
        }
        if self.size > LARGEST {
            return Err(Error::Malformed {
                what: "a file in the bundle is too large to be unpacked",
            });
        }
        let mut out = Vec::new();
        let read = DeflateDecoder::new(stored).take(self.size + 1).read_to_end(&mut out);
        if read.is_err() || out.len() as u64 != self.size {
            return Err(Error::Malformed { what: "a file in the bundle cannot be unpacked" });
        }
        Ok(Cow::Owned(out))
    }
}

fn list(bytes: &[u8]) -> Option<Vec<BundledFile>> {
    let (major, count) = (u32_at(bytes, 0)?, u32_at(bytes, 8)?);
    let mut at = 12;
    text(bytes, &mut at)?;
    if major >= 2 {
        at += SINCE_2;
    }
    let mut files = Vec::new();
    for _ in 0..count {
        let mut number = || {
            let number = u64_at(bytes, at);
            at += 8;
            number
        };
        let (offset, size) = (number()?, number()?);
        // Compression came with .NET 6.
        let compressed = if major >= 6 { number()? } else { 0 };
        // What kind of file it is: not always told truly.
        at += 1;
        files.push(BundledFile { path: text(bytes, &mut at)?, offset, size, compressed });
    }
    Some(files)
}

/// A string behind its length in seven-bit groups, as `BinaryWriter` writes it.
fn text(bytes: &[u8], at: &mut usize) -> Option<String> {
    let mut length = 0_usize;
    for shift in [0, 7, 14] {
        let byte = usize::from(*bytes.get(*at)?);
        *at += 1;
        length |= (byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            let text = bytes.get(*at..*at + length)?;
            *at += length;
            return Some(String::from_utf8_lossy(text).into_owned());
        }
    }
    None
}
