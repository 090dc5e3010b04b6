use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, Write},
    mem,
    path::PathBuf,
};

/// Addresses of a block. 32 MB: allocators give blocks of this size back to the system when they
/// are freed.
const BLOCK: usize = 4 << 20;

/// What references lead to, in the order in which it came; in memory, or from some size on in a
/// temporary file.
#[derive(Debug)]
pub(crate) struct Targets {
    /// What is not in the file; all but the last one are full.
    blocks: Vec<Vec<u64>>,
    file: Option<File>,
    in_file: u64,
    /// How many bytes may stay in memory.
    memory: u64,
    folder: Option<PathBuf>,
    /// The file could not be made or written: everything stays in memory from then on.
    broken: bool,
}

impl Targets {
    /// `folder` is where the temporary file goes; the system's place for such if there is none.
    pub fn new(memory: u64, folder: Option<PathBuf>) -> Self {
        Self { blocks: Vec::new(), file: None, in_file: 0, memory, folder, broken: false }
    }

    pub fn push(&mut self, target: u64) {
        if self.blocks.last().is_none_or(|block| block.len() == BLOCK) {
            self.spool_if_needed();
            // The first block grows as needed: most heaps of tests and tools are small.
            let capacity = if self.blocks.is_empty() && self.in_file == 0 { 0 } else { BLOCK };
            self.blocks.push(Vec::with_capacity(capacity));
        }
        if let Some(block) = self.blocks.last_mut() {
            block.push(target);
        }
    }

    /// Bytes in the temporary file.
    pub fn spooled(&self) -> u64 {
        self.in_file * 8
    }

    fn spool_if_needed(&mut self) {
        let held = self.blocks.len() as u64 * BLOCK as u64 * 8;
        if self.broken || held < self.memory {
            return;
        }
        // After an error within a block its beginning may be in the file twice as far as the file
        // goes; what counts is `in_file`, and reading ends there.
        if self.spool().is_err() {
            self.broken = true;
        }
    }

    fn spool(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(match &self.folder {
                Some(folder) => tempfile::tempfile_in(folder)?,
                None => tempfile::tempfile()?,
            }),
        };
        let mut written = 0;
        let result = self.blocks.iter().try_for_each(|block| {
            let mut bytes = Vec::with_capacity(1 << 16);
            for part in block.chunks(1 << 13) {
                bytes.clear();
                bytes.extend(part.iter().flat_map(|target| target.to_le_bytes()));
                file.write_all(&bytes)?;
            }
            self.in_file += block.len() as u64;
            written += 1;
            io::Result::Ok(())
        });
        self.blocks.drain(..written);
        result
    }

    /// Gives everything back in order and frees it on the way. A count of what could not be read
    /// any more, and why.
    pub fn drain(mut self, mut take: impl FnMut(u64)) -> Result<(), (u64, io::Error)> {
        let mut left = self.in_file;
        let mut result = Ok(());
        if let Some(mut file) = self.file.take() {
            let mut read = || -> io::Result<()> {
                file.rewind()?;
                let mut input = BufReader::with_capacity(1 << 20, &mut file);
                let mut bytes = [0; 8];
                while left > 0 {
                    input.read_exact(&mut bytes)?;
                    take(u64::from_le_bytes(bytes));
                    left -= 1;
                }
                Ok(())
            };
            if let Err(error) = read() {
                result = Err((left, error));
            }
        }
        // What was lost keeps its place: whoever takes counts along.
        (0..left).for_each(|_| take(0));
        for block in mem::take(&mut self.blocks) {
            block.into_iter().for_each(&mut take);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_in_memory_and_through_a_file() {
        for (memory, spooled) in [(u64::MAX, 0), (0, 2 * BLOCK as u64 * 8)] {
            let mut targets = Targets::new(memory, None);
            let count = 2 * BLOCK as u64 + 3;
            (0..count).for_each(|target| targets.push(target * 8));
            assert_eq!(targets.spooled(), spooled);
            let mut expected = 0;
            targets
                .drain(|target| {
                    assert_eq!(target, expected * 8);
                    expected += 1;
                })
                .unwrap();
            assert_eq!(expected, count);
        }
    }

    #[test]
    fn without_a_place_for_the_file_everything_stays_in_memory() {
        let mut targets = Targets::new(0, Some("/nonexistent/folder".into()));
        let count = BLOCK as u64 + 1;
        (0..count).for_each(|target| targets.push(target));
        assert_eq!(targets.spooled(), 0);
        let mut seen = 0;
        targets.drain(|_| seen += 1).unwrap();
        assert_eq!(seen, count);
    }
}
