//! The outermost message, field by field.

use crate::{ImportError, limits, out::Out};
use prost::encoding::decode_varint;
use std::io::{self, BufRead, Read as _};

/// Reads the fields of a message that need not fit into memory.
pub struct Fields<R> {
    input: R,
    bytes: Vec<u8>,
    at: u64,
}

impl<R: BufRead> Fields<R> {
    pub fn new(input: R) -> Self {
        Self { input, bytes: Vec::new(), at: 0 }
    }

    /// The bytes of the field that [`Self::next`] gave last; empty for a number.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The numbers of a repeated field: packed, or this one.
    pub fn numbers(&self, single: u64, out: &Out<'_>) -> Result<Vec<i64>, ImportError> {
        if self.bytes.is_empty() {
            return Ok(vec![single.cast_signed()]);
        }
        let mut rest = self.bytes.as_slice();
        let mut numbers = Vec::new();
        while !rest.is_empty() {
            let number = decode_varint(&mut rest);
            numbers.push(number.map_err(|error| out.damaged(error.to_string()))?.cast_signed());
        }
        Ok(numbers)
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        let next = self.input.fill_buf()?.first().copied();
        if next.is_some() {
            self.input.consume(1);
            self.at += 1;
        }
        Ok(next)
    }

    fn varint(&mut self) -> io::Result<Option<u64>> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let Some(byte) = self.byte()? else { return Ok(None) };
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    fn take(&mut self, length: u64) -> io::Result<bool> {
        self.bytes.clear();
        // Memory grows by what comes, not by what a length promises.
        let read = self.input.by_ref().take(length).read_to_end(&mut self.bytes)?;
        self.at += read as u64;
        Ok(read as u64 == length)
    }

    /// The tag and the number of the next field.
    pub fn next(&mut self, out: &Out<'_>) -> Result<Option<(u64, u64)>, ImportError> {
        self.bytes.clear();
        let at = self.at;
        if self.input.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let damaged = || out.damaged(format!("the field at byte {at} is cut short"));
        let key = self.varint()?.ok_or_else(damaged)?;
        let tag = key >> 3;
        match key & 7 {
            // No field has this number: a file of zeros is refused at its first byte.
            _ if tag == 0 => Err(out.damaged(format!("there is no field at byte {at}"))),
            0 => Ok(Some((tag, self.varint()?.ok_or_else(damaged)?))),
            wire @ (1 | 5) => match self.take(if wire == 1 { 8 } else { 4 })? {
                true => Ok(Some((tag, 0))),
                false => Err(damaged()),
            },
            2 => {
                let length = self.varint()?.ok_or_else(damaged)?;
                if length > limits::PIECE as u64 {
                    let (what, limit) = ("bytes in one message", limits::PIECE as u64);
                    return Err(ImportError::TooLarge { what, limit });
                }
                match self.take(length)? {
                    true => Ok(Some((tag, 0))),
                    false => Err(damaged()),
                }
            }
            _ => Err(out.damaged(format!("there is no field at byte {at}"))),
        }
    }
}
