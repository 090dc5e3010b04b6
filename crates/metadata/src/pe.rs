//! The headers of PE images, as far as .NET needs them. Source: ECMA-335 II.25.

use crate::Error;
use crate::bytes::{u16_at, u32_at};
use std::ops::Range;

/// Directory of the CLI header.
const CLI_HEADER: usize = 14;
/// Images have fewer than ten sections; the Windows loader takes 96.
const MOST_SECTIONS: usize = 96;

#[derive(Clone, Copy, Debug)]
struct Section {
    /// Address when loaded, relative to the image.
    address: u32,
    /// Bytes in the file.
    size: u32,
    /// Where they start in the file.
    offset: u32,
}

/// Where things are in an image.
#[derive(Clone, Debug)]
pub struct PeHeaders {
    sections: Vec<Section>,
    cli_header: u32,
}

impl PeHeaders {
    /// Reads the headers at the front of `head`, which need not be the whole image.
    ///
    /// # Errors
    /// There is no image, or none of .NET.
    pub fn parse(head: &[u8]) -> Result<Self, Error> {
        if head.get(..2) != Some(b"MZ") {
            return Err(Error::NotPe);
        }
        let pe = u32_at(head, 0x3c).ok_or(Error::NotPe)? as usize;
        if head.get(pe..).and_then(|bytes| bytes.get(..4)) != Some(b"PE\0\0") {
            return Err(Error::NotPe);
        }
        let truncated = Error::Truncated { what: "the PE header" };
        let fields = |head: &[u8]| {
            let sections = usize::from(u16_at(head, pe + 6)?);
            let optional = pe + 24;
            let table = optional + usize::from(u16_at(head, pe + 20)?);
            // PE32+ has wider fields in front of the directories than PE32.
            let directories = optional + if u16_at(head, optional)? == 0x20b { 112 } else { 96 };
            // The number of directories stands in front of them.
            let cli_header = match u32_at(head, directories - 4)? as usize {
                ..=CLI_HEADER => 0,
                _ => u32_at(head, directories + 8 * CLI_HEADER)?,
            };
            Some((sections, table, cli_header))
        };
        let (count, table, cli_header) = fields(head).ok_or(truncated.clone())?;
        if cli_header == 0 {
            return Err(Error::Native);
        }
        if count > MOST_SECTIONS {
            return Err(Error::Malformed { what: "there are too many sections" });
        }
        let section = |index: usize| {
            let at = table + 40 * index;
            Some(Section {
                address: u32_at(head, at + 12)?,
                size: u32_at(head, at + 16)?,
                offset: u32_at(head, at + 20)?,
            })
        };
        let sections = (0..count).map(section).collect::<Option<Vec<_>>>().ok_or(truncated)?;
        Ok(Self { sections, cli_header })
    }

    /// Address of the CLI header, relative to the image.
    #[must_use]
    pub const fn cli_header(&self) -> u32 {
        self.cli_header
    }

    /// Where an address is in the file, and where its section ends there; `None` if no section has
    /// it.
    #[must_use]
    pub fn file_range(&self, address: u32) -> Option<Range<usize>> {
        self.sections.iter().find_map(|section| {
            let inside =
                address.checked_sub(section.address).filter(|&inside| inside < section.size)?;
            let start = section.offset as usize;
            Some(start + inside as usize..start + section.size as usize)
        })
    }

    /// Address and size of the metadata, from the CLI header's bytes (ECMA-335 II.25.3.3).
    #[must_use]
    pub fn metadata_of(cli_header: &[u8]) -> Option<(u32, u32)> {
        Some((u32_at(cli_header, 8)?, u32_at(cli_header, 12)?))
    }
}

/// An image in a file.
#[derive(Clone, Debug)]
pub(crate) struct Image<'a> {
    bytes: &'a [u8],
    headers: PeHeaders,
}

impl<'a> Image<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        Ok(Self { bytes, headers: PeHeaders::parse(bytes)? })
    }

    /// The bytes from an address to the end of its section.
    pub fn at(&self, address: u32) -> Option<&'a [u8]> {
        let range = self.headers.file_range(address)?;
        // A file that was cut keeps what it has.
        self.bytes.get(range.start..range.end.min(self.bytes.len()))
    }

    pub fn metadata(&self) -> Result<&'a [u8], Error> {
        let header = self
            .at(self.headers.cli_header())
            .ok_or(Error::Truncated { what: "the CLI header" })?;
        let place =
            PeHeaders::metadata_of(header).ok_or(Error::Truncated { what: "the CLI header" })?;
        let (address, size) = place;
        if address == 0 {
            return Err(Error::Native);
        }
        let truncated = Error::Truncated { what: "the metadata" };
        self.at(address).and_then(|bytes| bytes.get(..size as usize)).ok_or(truncated)
    }
}
