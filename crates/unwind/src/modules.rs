use std::collections::HashMap;
use std::io::Cursor;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::elf::Elf;
use crate::maps::{Mapping, Mappings};
use crate::target::Target;

/// The map of the target is read again at most this often on behalf of unknown addresses.
const REFRESH_INTERVAL: Duration = Duration::from_millis(20);

/// What stands at an executable address.
#[derive(Clone)]
pub(crate) enum Region {
    /// A native image; the number is what to take from an address for the address in the file.
    Native(Arc<Image>, u64),
    /// Executable memory that is no native image: the runtime's code heaps, precompiled assemblies.
    Managed,
    /// No executable memory.
    None,
}

/// A native image of the target.
pub(crate) struct Image {
    pub(crate) path: String,
    pub(crate) elf: Elf,
}

/// A place in a native image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeLocation {
    /// Path of the image as the target sees it, or `[vdso]`.
    pub path: String,
    /// Address as stated in the file (SVMA).
    pub address: u64,
    /// Where the image is in memory: what was added to the stated addresses.
    pub bias: u64,
}

/// The executable memory of the target. Images are loaded when an address in them is first met.
pub(crate) struct Modules {
    target: Box<dyn Target + Send>,
    mappings: Mappings,
    /// By inode and path; `None` for files that are no images.
    images: HashMap<(u64, String), Option<Arc<Image>>>,
    /// By start of the mapping.
    regions: HashMap<u64, Region>,
    /// Start and end of the mappings without a native image, ascending; `None` when to be made
    /// anew.
    managed: Option<Vec<(u64, u64)>>,
    refreshed: Option<Instant>,
    changed: bool,
}

impl Modules {
    pub(crate) fn new(target: Box<dyn Target + Send>) -> Self {
        Self {
            target,
            mappings: Mappings::default(),
            images: HashMap::new(),
            regions: HashMap::new(),
            managed: None,
            refreshed: None,
            changed: false,
        }
    }

    /// Reads the map of the target again. Where it cannot be read, such as at the end of the
    /// process, what was known stays.
    pub(crate) fn refresh(&mut self) {
        self.refreshed = Some(Instant::now());
        match self.target.mappings() {
            Ok(all) if !all.is_empty() => {
                let mappings = Mappings::new(all);
                self.changed |= !mappings.same_files(&self.mappings);
                self.mappings = mappings;
                self.forget();
            }
            _ => {}
        }
    }

    /// Adds a mapping that the target has just made.
    pub(crate) fn insert(&mut self, mapping: Mapping) {
        self.changed |= self.mappings.insert(mapping);
        self.forget();
    }

    fn forget(&mut self) {
        self.regions.clear();
        self.managed = None;
    }

    /// Whether native code may have moved since this was last asked.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// What stands at an address. Reads the map again if nothing is known there.
    pub(crate) fn find(&mut self, address: u64) -> Region {
        let region = self.known(address);
        let due = self.refreshed.is_none_or(|last| last.elapsed() >= REFRESH_INTERVAL);
        if matches!(region, Region::None) && due {
            self.refresh();
            return self.known(address);
        }
        region
    }

    /// What stands at an address, as far as the map is known.
    pub(crate) fn known(&mut self, address: u64) -> Region {
        let Some(mapping) = self.mappings.find(address) else { return Region::None };
        if let Some(region) = self.regions.get(&mapping.start) {
            return region.clone();
        }
        let mapping = mapping.clone();
        let region = self.load(&mapping);
        self.regions.insert(mapping.start, region.clone());
        region
    }

    /// Start and end of all mappings that may hold managed code, ascending.
    pub(crate) fn managed(&mut self) -> &[(u64, u64)] {
        if self.managed.is_none() {
            let starts: Vec<(u64, u64)> =
                self.mappings.iter().map(|mapping| (mapping.start, mapping.end)).collect();
            let managed = starts
                .into_iter()
                .filter(|&(start, _)| matches!(self.known(start), Region::Managed))
                .collect();
            self.managed = Some(managed);
        }
        self.managed.as_deref().unwrap_or_default()
    }

    pub(crate) fn locate(&mut self, address: u64) -> Option<NativeLocation> {
        match self.known(address) {
            Region::Native(image, bias) => Some(NativeLocation {
                path: image.path.clone(),
                address: address.wrapping_sub(bias),
                bias,
            }),
            Region::Managed | Region::None => None,
        }
    }

    fn load(&mut self, mapping: &Mapping) -> Region {
        let vdso = mapping.path == "[vdso]";
        // The obsolete `[vsyscall]` page: never on a stack of today's programs.
        if mapping.path == "[vsyscall]" {
            return Region::None;
        }
        if !mapping.is_file() && !vdso {
            return Region::Managed;
        }
        let key = (mapping.inode, mapping.path.clone());
        let image = match self.images.get(&key) {
            Some(image) => image.clone(),
            None => {
                let elf = if vdso {
                    self.target.vdso().and_then(|image| Elf::load(Cursor::new(image)))
                } else {
                    self.target.open(mapping).ok().and_then(Elf::load)
                };
                let image = elf.map(|elf| Arc::new(Image { path: mapping.path.clone(), elf }));
                self.images.insert(key, image.clone());
                image
            }
        };
        let stated = image.as_ref().and_then(|image| {
            let address = image.elf.address_of_offset(mapping.offset);
            Some((Arc::clone(image), address?))
        });
        match stated {
            Some((image, address)) => Region::Native(image, mapping.start.wrapping_sub(address)),
            None => Region::Managed,
        }
    }
}
