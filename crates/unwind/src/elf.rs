use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use gimli::{
    BaseAddresses, CieOrFde, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, LittleEndian,
    UnwindSection,
};
use object::elf::{FileHeader64, PF_X, PT_GNU_EH_FRAME, PT_LOAD};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use wire::call_site::{LONGEST_CALL, ends_in_call};

/// More than any `.eh_frame` has; a corrupt file must not make us read it all.
const LARGEST_SECTION: u64 = 512 << 20;
/// Size of the blocks in which code is read, a power of two.
const BLOCK: u64 = 4096;
/// How many blocks of code are kept for each file.
const MOST_BLOCKS: usize = 1024;

/// Where the bytes of an image come from.
pub(crate) trait Source: Read + Seek + Send {}
impl<S: Read + Seek + Send> Source for S {}

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// An ELF image, as far as unwinding needs it. All addresses are those stated in the file.
pub(crate) struct Elf {
    source: Mutex<Box<dyn Source>>,
    segments: Vec<Segment>,
    bases: BaseAddresses,
    eh_frame: Vec<u8>,
    /// The binary search table that linkers make; empty where there is none.
    eh_frame_hdr: Vec<u8>,
    /// Our own table, where there is none: first and last address of each description, and where it
    /// is.
    index: Vec<(Range<u64>, usize)>,
    code: Mutex<HashMap<u64, Box<[u8]>>>,
}

/// A part of the file that is mapped.
struct Segment {
    address: u64,
    offset: u64,
    file_size: u64,
    executable: bool,
}

impl Elf {
    /// Reads the headers and the call frame information. `None` if the file is no 64-bit
    /// little-endian ELF.
    pub(crate) fn load(source: impl Source + 'static) -> Option<Self> {
        let cache = ReadCache::new(source);
        let data = &cache;
        let header = FileHeader64::<object::LittleEndian>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let mut segments = Vec::new();
        let mut hdr = None;
        for segment in header.program_headers(endian, data).ok()? {
            let (address, offset, file_size) =
                (segment.p_vaddr(endian), segment.p_offset(endian), segment.p_filesz(endian));
            match segment.p_type(endian) {
                PT_LOAD => {
                    let executable = segment.p_flags(endian) & PF_X == PF_X;
                    segments.push(Segment { address, offset, file_size, executable });
                }
                PT_GNU_EH_FRAME => hdr = Some((address, offset, file_size)),
                _ => {}
            }
        }
        let mut bases = BaseAddresses::default();
        let mut eh_frame = None;
        // Section headers may have been stripped; the program headers alone are enough then.
        if let Ok(sections) = header.sections(endian, data) {
            for section in sections.iter() {
                let address = section.sh_addr(endian);
                match sections.section_name(endian, section) {
                    Ok(b".eh_frame") if section.file_range(endian).is_some() => {
                        eh_frame = section
                            .file_range(endian)
                            .map(|(offset, size)| (address, offset, size));
                    }
                    Ok(b".text") => bases = bases.set_text(address),
                    Ok(b".got") => bases = bases.set_got(address),
                    _ => {}
                }
            }
        }
        let mut elf = Self {
            source: Mutex::new(Box::new(cache.into_inner())),
            segments,
            bases,
            eh_frame: Vec::new(),
            eh_frame_hdr: Vec::new(),
            index: Vec::new(),
            code: Mutex::default(),
        };
        if let Some((address, offset, size)) = hdr {
            elf.bases = elf.bases.set_eh_frame_hdr(address);
            elf.eh_frame_hdr = elf.read(offset, size).unwrap_or_default();
            let parsed = EhFrameHdr::new(&elf.eh_frame_hdr, LittleEndian).parse(&elf.bases, 8);
            match parsed {
                Ok(parsed) => {
                    if let (None, Ok(address)) = (eh_frame, parsed.eh_frame_ptr().direct()) {
                        eh_frame = elf
                            .rest_of_segment(address)
                            .map(|(offset, size)| (address, offset, size));
                    }
                    if parsed.table().is_none() {
                        elf.eh_frame_hdr.clear();
                    }
                }
                Err(_) => elf.eh_frame_hdr.clear(),
            }
        }
        if let Some((address, offset, size)) = eh_frame {
            elf.bases = elf.bases.set_eh_frame(address);
            elf.eh_frame = elf.read(offset, size).unwrap_or_default();
        }
        if elf.eh_frame_hdr.is_empty() {
            elf.index();
        }
        Some(elf)
    }

    /// The address in the file of what is mapped from an offset of it, and whether it is code.
    /// `None` where no segment covers the offset: such a mapping is not the loader's, but one of an
    /// appended bundle.
    pub(crate) fn address_of_offset(&self, offset: u64) -> Option<u64> {
        // Mappings begin at page boundaries, segments need not.
        const PAGE: u64 = 0xfff;
        let segment =
            self.segments.iter().filter(|segment| segment.executable).find(|segment| {
                let end = segment.offset.saturating_add(segment.file_size);
                (segment.offset & !PAGE..end).contains(&offset)
            })?;
        Some(segment.address.wrapping_add(offset).wrapping_sub(segment.offset))
    }

    /// The call frame information of the whole image.
    pub(crate) fn eh_frame(&self) -> EhFrame<Slice<'_>> {
        let mut section = EhFrame::new(&self.eh_frame, LittleEndian);
        section.set_address_size(8);
        section
    }

    pub(crate) fn bases(&self) -> &BaseAddresses {
        &self.bases
    }

    /// Where in [`Elf::eh_frame`] the description that may cover an address is.
    fn description_of(&self, address: u64) -> Option<usize> {
        if self.eh_frame_hdr.is_empty() {
            let behind = self.index.partition_point(|(range, _)| range.start <= address);
            let (range, offset) = self.index.get(behind.checked_sub(1)?)?;
            return range.contains(&address).then_some(*offset);
        }
        let parsed =
            EhFrameHdr::new(&self.eh_frame_hdr, LittleEndian).parse(&self.bases, 8).ok()?;
        let table = parsed.table()?;
        let pointer = table.lookup(address, &self.bases).ok()?;
        Some(table.pointer_to_offset(pointer).ok()?.0)
    }

    /// Whether a description begins at this address.
    pub(crate) fn starts_function(&self, address: u64) -> bool {
        self.description(address)
            .is_some_and(|description| description.initial_address() == address)
    }

    /// Whether an address is in the code that signal handlers return to.
    pub(crate) fn is_signal_trampoline(&self, address: u64) -> bool {
        self.description(address).is_some_and(|description| description.is_signal_trampoline())
    }

    /// The description that covers an address.
    pub(crate) fn description(&self, address: u64) -> Option<FrameDescriptionEntry<Slice<'_>>> {
        let offset = self.description_of(address)?;
        let description = self
            .eh_frame()
            .fde_from_offset(&self.bases, offset.into(), EhFrame::cie_from_offset)
            .ok()?;
        description.contains(address).then_some(description)
    }

    /// Whether a call can return to this address. `None` if the address makes no sense.
    pub(crate) fn is_return_address(&self, address: u64) -> Option<bool> {
        self.code(address.checked_sub(LONGEST_CALL as u64)?)
            .map(|code: [u8; LONGEST_CALL]| ends_in_call(&code))
    }

    /// The bytes of code from an address on; 0 what no executable segment covers.
    pub(crate) fn code<const LENGTH: usize>(&self, from: u64) -> Option<[u8; LENGTH]> {
        let mut code = [0; LENGTH];
        let mut blocks = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        if blocks.len() >= MOST_BLOCKS {
            blocks.clear();
        }
        for (byte, at) in code.iter_mut().zip(from..) {
            let block = at & !(BLOCK - 1);
            let bytes = blocks.entry(block).or_insert_with(|| self.read_block(block));
            *byte = *bytes.get((at - block) as usize)?;
        }
        Some(code)
    }

    /// A block of code; what no executable segment covers of it is 0.
    fn read_block(&self, block: u64) -> Box<[u8]> {
        let mut bytes = vec![0; BLOCK as usize];
        for segment in self.segments.iter().filter(|segment| segment.executable) {
            let from = block.max(segment.address);
            let to =
                block.saturating_add(BLOCK).min(segment.address.saturating_add(segment.file_size));
            if from >= to {
                continue;
            }
            let read = self.read(segment.offset.wrapping_add(from - segment.address), to - from);
            let place = bytes.get_mut((from - block) as usize..(to - block) as usize);
            if let (Some(read), Some(place)) = (read, place) {
                place.copy_from_slice(&read);
            }
        }
        bytes.into_boxed_slice()
    }

    fn rest_of_segment(&self, address: u64) -> Option<(u64, u64)> {
        self.segments.iter().find_map(|segment| {
            let into =
                address.checked_sub(segment.address).filter(|&into| into < segment.file_size)?;
            Some((segment.offset.checked_add(into)?, segment.file_size - into))
        })
    }

    fn read(&self, offset: u64, size: u64) -> Option<Vec<u8>> {
        if size > LARGEST_SECTION {
            return None;
        }
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        source.seek(SeekFrom::Start(offset)).ok()?;
        let mut bytes = Vec::new();
        source.by_ref().take(size).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 == size).then_some(bytes)
    }

    fn index(&mut self) {
        let section = self.eh_frame();
        let mut index = Vec::new();
        let mut entries = section.entries(&self.bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            if let Ok(description) = partial.parse(EhFrame::cie_from_offset) {
                let start = description.initial_address();
                index.push((start..start.saturating_add(description.len()), description.offset()));
            }
        }
        index.sort_by_key(|(range, _)| range.start);
        self.index = index;
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn with_and_without_the_linkers_table_the_same_descriptions_are_found() {
        let mut image = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let elf = Elf::load(Cursor::new(image.clone())).unwrap();
        assert!(!elf.eh_frame_hdr.is_empty(), "test binaries have one");
        // The same file with the header table hidden behind another type.
        let headers = u64::from_le_bytes(image[32..40].try_into().unwrap()) as usize;
        let hidden = (0..64)
            .map(|index| headers + index * 56)
            .find(|&at| image[at..at + 4] == 0x6474_e550u32.to_le_bytes())
            .unwrap();
        image[hidden..hidden + 4].copy_from_slice(&0u32.to_le_bytes());
        let plain = Elf::load(Cursor::new(image)).unwrap();
        assert!(plain.eh_frame_hdr.is_empty() && plain.index.len() > 1000);
        for (range, offset) in plain.index.iter().filter(|(range, _)| !range.is_empty()) {
            assert_eq!(elf.description_of(range.start), Some(*offset), "{range:x?}");
            assert_eq!(plain.description_of(range.end - 1), Some(*offset), "{range:x?}");
        }
    }

    #[test]
    fn what_is_no_image_is_turned_down() {
        assert!(Elf::load(Cursor::new(Vec::new())).is_none());
        assert!(Elf::load(Cursor::new(b"MZ and then a managed assembly".to_vec())).is_none());
        let image = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for cut in [1, 63, 64, 100, 1000, 5000] {
            // Whatever can be read of a cut file, nothing panics.
            let _ =
                Elf::load(Cursor::new(image[..cut].to_vec())).map(|elf| elf.description_of(0x1000));
        }
    }

    #[test]
    fn offsets_outside_of_code_segments_have_no_address() {
        let elf =
            Elf::load(std::fs::File::open(std::env::current_exe().unwrap()).unwrap()).unwrap();
        let code = elf.segments.iter().find(|segment| segment.executable).unwrap();
        assert_eq!(elf.address_of_offset(code.offset), Some(code.address));
        assert_eq!(elf.address_of_offset(1 << 40), None);
    }
}
