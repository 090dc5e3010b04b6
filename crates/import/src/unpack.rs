//! Compressed files, and how much may come out of them.

use crate::{ImportError, limits};
use flate2::read::MultiGzDecoder;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// A limit that is reached, as an error of reading: readers in between pass it on.
#[derive(Debug, thiserror::Error)]
#[error("more than {0} bytes come out of the file")]
pub struct TooMuch(pub u64);

pub fn is_gzip(head: &[u8]) -> bool {
    head.starts_with(&[0x1f, 0x8b])
}

/// The beginning of what is compressed, as far as it can be read.
pub fn head(packed: &[u8], length: usize) -> Vec<u8> {
    let mut head = Vec::new();
    // The input is cut, so there is an error at the end.
    drop(MultiGzDecoder::new(packed).take(length as u64).read_to_end(&mut head));
    head
}

/// The content of a file, which may be compressed, up to a limit.
pub enum Content<R: Read> {
    Plain(Limited<R>),
    Packed(Box<Limited<MultiGzDecoder<BufReader<R>>>>),
}

impl<R: Read + Seek> Content<R> {
    pub fn open(mut file: R, limit: u64) -> io::Result<Self> {
        file.seek(SeekFrom::Start(0))?;
        let mut head = Vec::new();
        file.by_ref().take(2).read_to_end(&mut head)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(match is_gzip(&head) {
            true => {
                let inner = MultiGzDecoder::new(BufReader::new(file));
                Self::Packed(Box::new(Limited::new(inner, limit)))
            }
            false => Self::Plain(Limited::new(file, limit)),
        })
    }
}

impl<R: Read> Read for Content<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(inner) => inner.read(buffer),
            Self::Packed(inner) => inner.read(buffer),
        }
    }
}

/// The content of a file that is read from front to back.
pub fn text<R: Read + Seek>(file: R) -> Result<Content<R>, ImportError> {
    Ok(Content::open(file, limits::STREAM)?)
}

/// Reads up to a limit; beyond it there is an error.
pub struct Limited<R> {
    inner: R,
    limit: u64,
    left: u64,
}

impl<R: Read> Limited<R> {
    pub fn new(inner: R, limit: u64) -> Self {
        Self { inner, limit, left: limit }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let left = self.left.checked_sub(read as u64);
        let too_much = || io::Error::new(io::ErrorKind::FileTooLarge, TooMuch(self.limit));
        self.left = left.ok_or_else(too_much)?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::{Cursor, Write as _};

    #[test]
    fn no_more_comes_out_than_the_limit() {
        let zeros = vec![0; 1 << 20];
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&zeros).unwrap();
        let packed = packed.finish().unwrap();
        assert!(packed.len() < 10_000);
        for bytes in [&zeros, &packed] {
            let read = |limit| {
                let mut out = Vec::new();
                let content = Content::open(Cursor::new(bytes), limit).unwrap();
                BufReader::new(content).read_to_end(&mut out).map(|_| out.len())
            };
            assert_eq!(read(1 << 20).unwrap(), 1 << 20);
            let error = ImportError::from(read((1 << 20) - 1).unwrap_err()).to_string();
            assert!(error.contains("more than 1048575 bytes after decompression"), "{error}");
        }
        assert_eq!(head(&packed, 100), [0; 100]);
    }
}
