//! Reading what an [`Encoder`] has written.

use super::*;

/// The items of a chunk. An item that cannot be read is reported once, and ends the chunk.
pub fn decode(chunk: &[u8]) -> Decoder<'_> {
    Decoder { chunk, at: 0, state: State::new() }
}

/// See [`decode()`].
#[derive(Debug)]
pub struct Decoder<'a> {
    chunk: &'a [u8],
    at: usize,
    state: State,
}

impl<'a> Iterator for Decoder<'a> {
    type Item = Result<HeapItem<'a>, HeapError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.chunk.len() {
            return None;
        }
        let begun = self.at;
        let item = self.item().map_err(|what| HeapError { at: begun, what });
        if item.is_err() {
            self.at = self.chunk.len();
        }
        Some(item)
    }
}

pub(super) const CUT: &str = "it ends within an item";

const FLAGS: &str = "flags without a meaning";

impl<'a> Decoder<'a> {
    fn item(&mut self) -> Result<HeapItem<'a>, &'static str> {
        let head = self.varint()?;
        if head & 1 == 0 {
            return Ok(HeapItem::Reference { target: at_distance(self.state.object, head >> 1) });
        }
        if head & 2 == 0 {
            return self.object(head >> 2);
        }
        let flags = head >> 6;
        let plain = |item| if flags == 0 { Ok(item) } else { Err(FLAGS) };
        match head >> 2 & 0xf {
            FAR_REFERENCE => plain(HeapItem::Reference { target: self.word()? }),
            FAR_OBJECT if flags == 0 => self.far_object(),
            FAR_OBJECT => Err(FLAGS),
            ROOT => {
                let kind = match flags & 3 {
                    0 => RootKind::Other,
                    1 => RootKind::Stack,
                    2 => RootKind::Finalizer,
                    _ => RootKind::Handle,
                };
                let flags =
                    u8::try_from(flags >> 2).map_err(|_| "flags of a root beyond a byte")?;
                Ok(HeapItem::Root { target: self.varint()?, kind, flags, id: self.varint()? })
            }
            DEPENDENT => {
                let (handle, key, value) = (self.varint()?, self.varint()?, self.varint()?);
                plain(HeapItem::Dependent { handle, key, value })
            }
            GENERATION => {
                let generation = u8::try_from(flags).map_err(|_| "a generation beyond a byte")?;
                let (start, length, reserved) = (self.varint()?, self.varint()?, self.varint()?);
                Ok(HeapItem::Generation { generation, start, length, reserved })
            }
            kind @ (STRING | STRING_WITH_TEXT) => {
                let address = match flags {
                    0 => self.varint()?,
                    1 => self.state.object,
                    _ => return Err(FLAGS),
                };
                let (hash, length) = (self.word()?, self.varint()?);
                let length = u32::try_from(length).map_err(|_| "a string that is too long")?;
                let text = if kind == STRING_WITH_TEXT { Some(self.text()?) } else { None };
                Ok(HeapItem::StringContent { address, hash, length, text })
            }
            FIELD => {
                let field =
                    u16::try_from(flags).map_err(|_| "a number of a field beyond 16 bits")?;
                Ok(HeapItem::Field { object: self.varint()?, field, value: self.varint()? })
            }
            ORIGIN => {
                let generation = u8::try_from(flags).map_err(|_| "a generation beyond a byte")?;
                Ok(HeapItem::Origin { generation })
            }
            SUM => {
                let generation = u8::try_from(flags).map_err(|_| "a generation beyond a byte")?;
                let (class, objects, bytes) = (self.word()?, self.varint()?, self.varint()?);
                Ok(HeapItem::Sum { generation, class, objects, bytes })
            }
            SLOT => {
                let address = at_difference(self.state.element, self.varint()?);
                let target = at_difference(self.state.object, self.varint()?);
                self.state.element = address;
                plain(HeapItem::Slot { address, target })
            }
            FIELDS => {
                self.state.fields = Some(flags << 1);
                // It belongs to the object behind it.
                self.item_of_object()
            }
            _ => Err("an item of an unknown kind"),
        }
    }

    fn item_of_object(&mut self) -> Result<HeapItem<'a>, &'static str> {
        const FAR: u64 = 0b11 | FAR_OBJECT << 2;
        match self.varint()? {
            head if head & 3 == 1 => self.object(head >> 2),
            FAR => self.far_object(),
            _ => Err("fields without an object"),
        }
    }

    fn far_object(&mut self) -> Result<HeapItem<'a>, &'static str> {
        let (address, class, size) = (self.word()?, self.word()?, self.varint()?);
        Ok(self.state.object(slot_of(class), address, class, size))
    }

    fn object(&mut self, head: u64) -> Result<HeapItem<'a>, &'static str> {
        let (same, known, contiguous) = (head & 1 != 0, head & 2 != 0, head & 4 != 0);
        let slot = usize::try_from(head >> 3)
            .ok()
            .filter(|slot| *slot < SLOTS)
            .ok_or("a slot that does not exist")?;
        let address = if contiguous {
            self.state.end
        } else {
            at_distance(self.state.object, self.varint()?)
        };
        let last = self.state.slots.get(slot).copied().unwrap_or_default();
        let class = if known { last.class } else { self.word()? };
        let size = if same { last.size } else { self.varint()? };
        Ok(self.state.object(slot, address, class, size))
    }

    fn text(&mut self) -> Result<&'a str, &'static str> {
        let length = usize::try_from(self.varint()?).map_err(|_| CUT)?;
        std::str::from_utf8(self.take(length)?).map_err(|_| "a text that is not UTF-8")
    }

    fn word(&mut self) -> Result<u64, &'static str> {
        let bytes = self.take(8)?.first_chunk::<8>().ok_or(CUT)?;
        Ok(u64::from_le_bytes(*bytes))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], &'static str> {
        let bytes = self.chunk.get(self.at..).and_then(|rest| rest.get(..length)).ok_or(CUT)?;
        self.at += length;
        Ok(bytes)
    }

    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.chunk.get(self.at).ok_or(CUT)?;
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number over 64 bits")
    }
}
