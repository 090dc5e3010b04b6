//! Stands in for the agent, from outside: tells what managed code is at an address, from the perf
//! map that the runtime writes when asked to (`DOTNET_PerfMapEnabled=1`), and from the target's
//! memory.
//!
//! The unwind tables are where the agent finds them too: behind the code header before each JIT'd
//! method (`RealCodeHeader` in the runtime's codeman.h), and in the exception directory of
//! precompiled images.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use unwind::{CodeMap, Mapping};
use wire::{Code, UnwindEntry, UnwindTable};

pub struct RuntimeTables {
    pid: u32,
    memory: File,
    perf_map: PathBuf,
    read_up_to: usize,
    /// Start, length and name of JIT'd code and stubs.
    jitted: BTreeMap<u64, (u64, String)>,
    images: Vec<Image>,
    /// Whether the runtime's own stubs are reported, as IL stubs are by .NET 8 and newer; 3.1 does
    /// not know them.
    pub il_stubs: bool,
    /// Names by method id.
    pub names: Vec<String>,
    ids: HashMap<u64, u32>,
}

struct Image {
    base: u64,
    end: u64,
    name: String,
    /// Begin, end, unwind info, as offsets.
    functions: Vec<[u32; 3]>,
}

impl RuntimeTables {
    pub fn new(pid: u32) -> Self {
        Self {
            pid,
            memory: File::open(format!("/proc/{pid}/mem")).unwrap(),
            perf_map: format!("/tmp/perf-{pid}.map").into(),
            read_up_to: 0,
            jitted: BTreeMap::new(),
            images: Vec::new(),
            il_stubs: true,
            names: Vec::new(),
            ids: HashMap::new(),
        }
    }

    fn read(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.memory.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    fn word(&self, address: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.read(address, 8)?.try_into().ok()?))
    }

    fn half(&self, address: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.read(address, 4)?.try_into().ok()?))
    }

    /// Reads what is new in the perf map, whole lines only.
    fn refresh(&mut self) {
        let text = fs::read(&self.perf_map).unwrap_or_default();
        let Some(end) = text.iter().rposition(|&byte| byte == b'\n') else { return };
        let new = String::from_utf8_lossy(text.get(self.read_up_to..=end).unwrap_or_default())
            .into_owned();
        self.read_up_to = end + 1;
        for line in new.lines() {
            let mut words = line.splitn(3, ' ');
            // .NET 8 and newer write the start with a prefix.
            let number =
                |word: Option<&str>| u64::from_str_radix(word?.trim_start_matches("0x"), 16).ok();
            if let (Some(start), Some(length), Some(name)) =
                (number(words.next()), number(words.next()), words.next())
            {
                self.jitted.insert(start, (length, name.to_owned()));
            }
        }
    }

    /// Tells a code map what is at an address.
    pub fn resolve(&mut self, address: u64, code: &mut CodeMap) {
        match self.code_at(address) {
            Some(found) => {
                code.insert(&found);
            }
            None => code.insert_not_code(address),
        }
    }

    fn code_at(&mut self, address: u64) -> Option<Code> {
        if let Some(found) = self.jitted_at(address) {
            return Some(found);
        }
        self.refresh();
        self.jitted_at(address).or_else(|| self.precompiled_at(address))
    }

    fn id(&mut self, start: u64, name: &str) -> u32 {
        *self.ids.entry(start).or_insert_with(|| {
            self.names.push(name.to_owned());
            self.names.len() as u32 - 1
        })
    }

    fn jitted_at(&mut self, address: u64) -> Option<Code> {
        let (&start, (length, name)) = self.jitted.range(..=address).next_back()?;
        let (length, name) = (u32::try_from(*length).ok()?, name.clone());
        (address < start + u64::from(length)).then_some(())?;
        (self.il_stubs || !name.contains("IL_STUB")).then_some(())?;
        let header = self.word(start - 8)?;
        // A stub has a small number there, or anything.
        let count = self.half(header.checked_add(32)?)?;
        (1..1000).contains(&count).then_some(())?;
        let functions: Vec<[u32; 3]> = (0..u64::from(count))
            .map(|index| self.function(header + 36 + index * 12))
            .collect::<Option<_>>()?;
        let base = start.checked_sub(u64::from(functions[0][0]))?;
        let entries =
            functions.iter().map(|function| self.entry(base, function)).collect::<Option<_>>()?;
        let bytes = self.read(start, length as usize)?;
        let method = self.id(start, &name);
        Some(Code {
            method,
            rejit: 0,
            ranges: vec![(start, length)],
            unwind: Some(UnwindTable { entries }),
            bytes,
            il_map: Vec::new(),
        })
    }

    fn function(&self, address: u64) -> Option<[u32; 3]> {
        let bytes = self.read(address, 12)?;
        let (words, _) = bytes.as_chunks::<4>();
        Some([0, 1, 2].map(|index| u32::from_le_bytes(words[index])))
    }

    fn entry(&self, base: u64, &[begin, end, mut info]: &[u32; 3]) -> Option<UnwindEntry> {
        let mut infos = Vec::new();
        loop {
            let at = base + u64::from(info);
            let head = self.read(at, 4)?;
            let length = 4 + usize::from(head[2]) * 2;
            infos.push(self.read(at, length)?);
            if head[0] >> 3 & 4 == 0 {
                break;
            }
            info = self.function(at + length.next_multiple_of(4) as u64)?[2];
        }
        Some(UnwindEntry {
            begin: base + u64::from(begin),
            end: base + u64::from(end),
            info: infos,
        })
    }

    fn precompiled_at(&mut self, address: u64) -> Option<Code> {
        if !self.images.iter().any(|image| (image.base..image.end).contains(&address)) {
            let image = self.image_at(address)?;
            self.images.push(image);
        }
        let image = self.images.iter().find(|image| (image.base..image.end).contains(&address))?;
        let offset = u32::try_from(address - image.base).ok()?;
        let behind = image.functions.partition_point(|function| function[0] <= offset);
        let function = *image.functions.get(behind.checked_sub(1)?)?;
        (offset < function[1]).then_some(())?;
        let entry = self.entry(image.base, &function)?;
        let (begin, length) = (entry.begin, (entry.end - entry.begin) as u32);
        let bytes = self.read(begin, length as usize)?;
        let name = format!("{}+{:x}", image.name, function[0]);
        let method = self.id(begin, &name);
        let unwind = Some(UnwindTable { entries: vec![entry] });
        Some(Code {
            method,
            rejit: 0,
            ranges: vec![(begin, length)],
            unwind,
            bytes,
            il_map: Vec::new(),
        })
    }

    /// The precompiled image that is mapped around an address.
    fn image_at(&self, address: u64) -> Option<Image> {
        let maps =
            Mapping::parse_all(&fs::read_to_string(format!("/proc/{}/maps", self.pid)).ok()?);
        let around = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
        let name = around.path.rsplit('/').next()?.to_owned();
        // The headers stand before everything else. A data section may map the start of the file
        // once more.
        let mut starts =
            maps.iter().filter(|mapping| mapping.path == around.path && mapping.start <= address);
        let base = starts
            .find(|mapping| self.read(mapping.start, 2).is_some_and(|magic| magic == b"MZ"))?
            .start;
        let pe = base + u64::from(self.half(base + 0x3c)?);
        (self.half(pe)? == 0x4550).then_some(())?;
        let size = u64::from(self.half(pe + 24 + 56)?);
        let directories = pe + 24 + if self.half(pe + 24)? & 0xffff == 0x20b { 112 } else { 96 };
        let (table, length) = (self.half(directories + 24)?, self.half(directories + 28)?);
        let bytes = self.read(base + u64::from(table), length as usize)?;
        let functions = bytes.chunks_exact(12).map(|function| {
            let word = |at: usize| {
                u32::from_le_bytes([
                    function[at],
                    function[at + 1],
                    function[at + 2],
                    function[at + 3],
                ])
            };
            [word(0), word(4), word(8)]
        });
        Some(Image { base, end: base + size, name, functions: functions.collect() })
    }
}
