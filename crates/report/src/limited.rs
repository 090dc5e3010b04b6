use std::io::{self, BufWriter, Write};

use crate::ReportError;

/// Writes a report through a buffer, as far as it has no more bytes than this.
pub fn write(
    out: &mut dyn Write,
    limit: u64,
    render: impl FnOnce(&mut dyn Write) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    let mut limited = Limited { out, left: limit, is_exceeded: false };
    let mut buffer = BufWriter::with_capacity(1 << 16, &mut limited);
    let written = render(&mut buffer).and_then(|()| Ok(buffer.flush()?));
    // What is left in the buffer of a report that failed is not written.
    drop(buffer.into_parts());
    match limited.is_exceeded {
        true => Err(ReportError::TooLarge { limit }),
        false => written,
    }
}

struct Limited<'a> {
    out: &'a mut dyn Write,
    left: u64,
    is_exceeded: bool,
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            self.is_exceeded = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let written = self.out.write(bytes)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
