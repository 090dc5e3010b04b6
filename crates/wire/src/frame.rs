//! Frames on the socket: a little-endian `u32` length, then that many bytes of one or more postcard
//! messages.

pub use postcard::Error as DecodeError;
use serde::{Serialize, de::DeserializeOwned};
use std::io::{self, Read, Write};

/// Largest frame that a reader accepts, in bytes.
pub const MAX_FRAME: usize = 1 << 20;

/// Why a frame was refused.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The other side closed the connection between two frames.
    #[error("the connection was closed")]
    Closed,
    /// Reading or writing failed, or the other side closed in mid-frame.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A length above [`MAX_FRAME`]: not our protocol.
    #[error("a frame of {0} bytes is over the limit of {MAX_FRAME}")]
    TooLarge(usize),
    /// The bytes are no messages of this protocol.
    #[error("a frame of {length} bytes does not decode at message {index}: {source}")]
    Decode {
        /// Length of the frame.
        length: usize,
        /// How many messages of it decoded.
        index: usize,
        /// What postcard says.
        source: postcard::Error,
    },
}

/// Collects messages into one frame.
#[derive(Debug, Default)]
pub struct FrameBuilder {
    bytes: Vec<u8>,
    messages: usize,
}

impl FrameBuilder {
    /// Size from which a frame should be sent rather than grown, in bytes.
    pub const FULL: usize = 64 << 10;

    /// Adds a message. A message that would make the frame larger than [`MAX_FRAME`] is refused
    /// with [`FrameError::TooLarge`] and leaves the frame as it was.
    pub fn push<M: Serialize>(&mut self, message: &M) -> Result<(), FrameError> {
        let before = self.bytes.len();
        let bytes = std::mem::take(&mut self.bytes);
        self.bytes = postcard::to_extend(message, bytes).map_err(|source| FrameError::Decode {
            length: before,
            index: self.messages,
            source,
        })?;
        if self.bytes.len() > MAX_FRAME {
            let length = self.bytes.len();
            self.bytes.truncate(before);
            return Err(FrameError::TooLarge(length));
        }
        self.messages += 1;
        Ok(())
    }

    /// Whether nothing was added since the last [`Self::write_to`].
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Whether the frame is due.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= Self::FULL
    }

    /// Writes the frame and starts the next; an empty frame is not written.
    pub fn write_to(&mut self, out: &mut impl Write) -> Result<(), FrameError> {
        if !self.is_empty() {
            // The length is at most MAX_FRAME, so it fits.
            out.write_all(&(self.bytes.len() as u32).to_le_bytes())?;
            out.write_all(&self.bytes)?;
            self.bytes.clear();
            self.messages = 0;
        }
        Ok(())
    }
}

/// Writes one message as a frame of its own.
pub fn write<M: Serialize>(out: &mut impl Write, message: &M) -> Result<(), FrameError> {
    let mut frame = FrameBuilder::default();
    frame.push(message)?;
    frame.write_to(out)
}

/// What stands before the bytes of a [`crate::Record::HeapChunk`] that is a frame of its own: so
/// these can be written from where they are. `length` is at most [`crate::heap::MAX_CHUNK`].
pub fn head_of_chunk(snapshot: u32, objects: u64, length: usize) -> Vec<u8> {
    let empty = crate::Record::HeapChunk { snapshot, objects, bytes: Vec::new() };
    // Encoding into a growing vector fails only for types whose length is unknown, and there are
    // none here.
    let mut record = postcard::to_stdvec(&empty).unwrap_or_default();
    // The length of no bytes is the last one.
    record.pop();
    record.extend(postcard::to_stdvec(&length).unwrap_or_default());
    let mut head = ((record.len() + length) as u32).to_le_bytes().to_vec();
    head.extend(record);
    head
}

/// Reads one frame and decodes all messages in it.
pub fn read<M: DeserializeOwned>(input: &mut impl Read) -> Result<Vec<M>, FrameError> {
    let mut length = [0; 4];
    match input.read(&mut length) {
        Ok(0) => return Err(FrameError::Closed),
        Ok(read) => input.read_exact(length.get_mut(read..).unwrap_or_default())?,
        Err(error) => return Err(error.into()),
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(FrameError::TooLarge(length));
    }
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes)?;
    decode(&bytes)
}

/// Decodes all messages of a frame's bytes.
pub fn decode<M: DeserializeOwned>(bytes: &[u8]) -> Result<Vec<M>, FrameError> {
    let mut messages = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (message, after) = postcard::take_from_bytes(rest).map_err(|source| {
            FrameError::Decode { length: bytes.len(), index: messages.len(), source }
        })?;
        if after.len() == rest.len() {
            // A message without bytes would never end.
            let source = postcard::Error::DeserializeBadEncoding;
            return Err(FrameError::Decode { length: bytes.len(), index: messages.len(), source });
        }
        messages.push(message);
        rest = after;
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Control, Record};
    use proptest::prelude::*;

    #[test]
    fn messages_come_back_in_order() {
        let mut bytes = Vec::new();
        let mut frame = FrameBuilder::default();
        let messages = [
            Control::Go,
            Control::Resolve { executed: vec![1, u64::MAX], guessed: vec![2] },
            Control::Stop,
        ];
        for message in &messages {
            frame.push(message).unwrap();
        }
        frame.write_to(&mut bytes).unwrap();
        frame.write_to(&mut bytes).unwrap();
        let mut input = bytes.as_slice();
        assert_eq!(read::<Control>(&mut input).unwrap(), messages);
        assert!(matches!(read::<Control>(&mut input), Err(FrameError::Closed)));
    }

    #[test]
    fn a_cut_frame_is_an_error() {
        let mut bytes = Vec::new();
        write(&mut bytes, &Control::Resolve { executed: vec![5; 100], guessed: vec![] }).unwrap();
        for length in 1..bytes.len() {
            assert!(
                matches!(read::<Control>(&mut &bytes[..length]), Err(FrameError::Io(_))),
                "cut at {length}"
            );
        }
    }

    #[test]
    fn a_chunk_can_be_written_from_where_it_is() {
        for length in [0, 1, 127, 128, crate::heap::MAX_CHUNK] {
            let chunk = vec![0xa5; length];
            let mut bytes = head_of_chunk(7, u64::MAX, length);
            bytes.extend(&chunk);
            let record = Record::HeapChunk { snapshot: 7, objects: u64::MAX, bytes: chunk };
            assert_eq!(
                read::<Record>(&mut bytes.as_slice()).unwrap(),
                std::slice::from_ref(&record),
                "{length} bytes"
            );
            let mut whole = Vec::new();
            write(&mut whole, &record).unwrap();
            assert_eq!(bytes, whole);
        }
    }

    #[test]
    fn a_huge_length_is_refused_before_it_is_allocated() {
        assert!(matches!(read::<Control>(&mut &[0xff; 8][..]), Err(FrameError::TooLarge(_))));
        let mut frame = FrameBuilder::default();
        frame.push(&Control::Go).unwrap();
        assert!(matches!(frame.push(&vec![0u8; MAX_FRAME]), Err(FrameError::TooLarge(_))));
        let mut bytes = Vec::new();
        frame.write_to(&mut bytes).unwrap();
        assert_eq!(read::<Control>(&mut bytes.as_slice()).unwrap(), [Control::Go]);
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
            let _ = decode::<Record>(&bytes);
            let _ = decode::<Control>(&bytes);
            let _ = read::<Record>(&mut bytes.as_slice());
        }
    }
}
