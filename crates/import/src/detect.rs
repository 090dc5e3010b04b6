use std::io::{self, Read, Seek, SeekFrom};

use crate::{Format, unpack};

/// Bytes that say what a file is.
const HEAD: usize = 4096;

/// What a file is, by its content; `None` for what is none of these, such as a session of ours.
///
/// # Errors
/// When it cannot be read.
pub fn detect(file: &mut (impl Read + Seek)) -> io::Result<Option<Format>> {
    file.seek(SeekFrom::Start(0))?;
    let mut head = Vec::new();
    file.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    file.seek(SeekFrom::Start(0))?;
    if head.starts_with(b"Nettrace") {
        return Ok(Some(Format::Nettrace));
    }
    if heap::gcdump::is_gcdump(&head) {
        return Ok(Some(Format::Gcdump));
    }
    if head.starts_with(&session::MAGIC) {
        return Ok(None);
    }
    if unpack::is_gzip(&head) {
        return Ok(Some(content(&unpack::head(&head, HEAD)).unwrap_or(Format::Pprof)));
    }
    Ok(content(&head))
}

/// What bytes that are not compressed are the beginning of.
fn content(head: &[u8]) -> Option<Format> {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    if text.first() == Some(&b'{') {
        return Some(Format::Json);
    }
    if is_pprof(head) {
        return Some(Format::Pprof);
    }
    is_collapsed(text).then_some(Format::Collapsed)
}

/// Whether it begins as the writers of pprof begin: with a type of values, which is a message of a
/// few small numbers.
fn is_pprof(head: &[u8]) -> bool {
    let [0x0a, length, message @ ..] = head else { return false };
    matches!(length, 2..=24)
        && message.first().is_some_and(|tag| matches!(tag, 0x08 | 0x10))
        && message.get(usize::from(*length)).is_some_and(|next| matches!(next, 0x0a | 0x12 | 0x1a))
}

/// Whether the first line that is no comment ends with a number, behind a name.
fn is_collapsed(text: &[u8]) -> bool {
    let whole = std::str::from_utf8(text).map_or_else(|error| error.valid_up_to(), str::len);
    // A character may be cut at the end.
    if text.len() - whole > 3 {
        return false;
    }
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    // Where no line ends in what was read, a stack is longer than that.
    let Some(line) = lines.next() else { return false };
    if line.contains('\0') {
        return false;
    }
    if line.len() >= HEAD / 2 && !text.contains('\n') {
        return line.contains(';');
    }
    crate::readers::collapsed::split(line).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn of(bytes: &[u8]) -> Option<Format> {
        detect(&mut Cursor::new(bytes)).unwrap()
    }

    #[test]
    fn formats_are_found_by_their_content() {
        for (bytes, format) in [
            (&b"Nettrace\x14\0\0\0!FastSerialization.1"[..], Some(Format::Nettrace)),
            (b"\x14\0\0\0!FastSerialization.1", Some(Format::Gcdump)),
            (b"\xef\xbb\xbf {\"meta\":{}}", Some(Format::Json)),
            (b"# comment\nmain;work 12\n", Some(Format::Collapsed)),
            (b"main;work 1.5", Some(Format::Collapsed)),
            (b"\x0a\x04\x08\x01\x10\x02\x12\x00", Some(Format::Pprof)),
            (&session::MAGIC, None),
            (b"", None),
            (b"hello", None),
            (b"\x7fELF\x02\x01\x01", None),
            (b"no stack\n", None),
        ] {
            assert_eq!(of(bytes), format, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn what_is_compressed_is_looked_into() {
        use flate2::{Compression, write::GzEncoder};
        use std::io::Write as _;
        let packed = |bytes: &[u8]| {
            let mut out = GzEncoder::new(Vec::new(), Compression::fast());
            out.write_all(bytes).unwrap();
            out.finish().unwrap()
        };
        assert_eq!(of(&packed(b"{}")), Some(Format::Json));
        assert_eq!(of(&packed(b"main;work 12\n")), Some(Format::Collapsed));
        assert_eq!(of(&packed(b"\x0a\x04\x08\x01\x10\x02\x12\x00")), Some(Format::Pprof));
    }
}
