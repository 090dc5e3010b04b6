//! Method bodies: header, code, exception clauses. Source: ECMA-335 II.25.4.

use crate::clauses::{encode_fat_sections, encode_sections, parse_sections};
use crate::{
    BodyError, DecodeError, ExceptionClause, Instruction, Instructions, MethodHeader, decode_all,
    instructions,
};
use std::borrow::Cow;

/// The body of a method.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MethodBody<'a> {
    /// Stack size, locals.
    pub header: MethodHeader,
    /// The instructions, as bytes.
    pub code: Cow<'a, [u8]>,
    /// Try blocks with their handlers, inner ones first. Sections of other kinds are not kept.
    pub clauses: Vec<ExceptionClause>,
}

impl<'a> MethodBody<'a> {
    /// Reads the body at the front of `bytes`, which may continue behind it.
    ///
    /// # Errors
    /// There is no whole body. Code and clauses are not looked into: see [`crate::verify()`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BodyError> {
        Self::parse_sized(bytes).map(|(body, _)| body)
    }

    /// Reads the body at the front of `bytes` and tells how many bytes it takes.
    ///
    /// # Errors
    /// As [`MethodBody::parse`].
    pub fn parse_sized(bytes: &'a [u8]) -> Result<(Self, usize), BodyError> {
        let parsed = MethodHeader::parse(bytes)?;
        let truncated = BodyError::Truncated { offset: parsed.size };
        let end = parsed.size.checked_add(parsed.code_size as usize).ok_or(truncated)?;
        let code = bytes.get(parsed.size..end).ok_or(truncated)?;
        let (clauses, end) =
            if parsed.more_sections { parse_sections(bytes, end)? } else { (Vec::new(), end) };
        Ok((Self { header: parsed.header, code: Cow::Borrowed(code), clauses }, end))
    }

    /// Writes it in the shortest form that [`MethodHeader::format`] allows. A fat body has to be
    /// placed at a multiple of four.
    ///
    /// # Errors
    /// [`BodyError::CodeSize`].
    pub fn encode(&self) -> Result<Vec<u8>, BodyError> {
        self.encode_with(encode_sections)
    }

    /// As [`MethodBody::encode`], with exception clauses in the fat form even where the small one
    /// would do.
    ///
    /// # Errors
    /// [`BodyError::CodeSize`].
    pub fn encode_fat_clauses(&self) -> Result<Vec<u8>, BodyError> {
        self.encode_with(encode_fat_sections)
    }

    fn encode_with(
        &self,
        sections: fn(&[ExceptionClause], &mut Vec<u8>),
    ) -> Result<Vec<u8>, BodyError> {
        let size = self.code.len();
        let code_size = u32::try_from(size).map_err(|_| BodyError::CodeSize { size })?;
        // Enough for a fat header and fat clauses.
        let mut out = Vec::with_capacity(size + 20 + 24 * self.clauses.len());
        self.header.encode(code_size, !self.clauses.is_empty(), &mut out);
        out.extend_from_slice(&self.code);
        if !self.clauses.is_empty() {
            sections(&self.clauses, &mut out);
        }
        Ok(out)
    }

    /// Its instructions, one after the other.
    #[must_use]
    pub fn instructions(&self) -> Instructions<'_> {
        instructions(&self.code)
    }

    /// Its instructions, all at once.
    ///
    /// # Errors
    /// The first one that cannot be read.
    pub fn decode(&self) -> Result<Vec<Instruction<'_>>, DecodeError> {
        decode_all(&self.code)
    }

    /// The same, with a copy of the code where it was borrowed.
    #[must_use]
    pub fn into_owned(self) -> MethodBody<'static> {
        MethodBody {
            header: self.header,
            code: Cow::Owned(self.code.into_owned()),
            clauses: self.clauses,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClauseKind, CodeRange, HeaderFormat, Token};
    use proptest::prelude::*;

    #[test]
    fn tiny() {
        let bytes = [0x0a, 0x02, 0x2a, 0xff];
        let (body, size) = MethodBody::parse_sized(&bytes).unwrap();
        assert_eq!((&*body.code, size), (&[0x02, 0x2a][..], 3));
        assert_eq!(body.encode().unwrap(), bytes[..3]);
        assert!(matches!(MethodBody::parse(&bytes[..2]), Err(BodyError::Truncated { offset: 1 })));
    }

    #[test]
    fn fat_with_a_clause() {
        let mut bytes = vec![0x1b, 0x30, 2, 0, 5, 0, 0, 0, 1, 0, 0, 0x11];
        bytes.extend_from_slice(&[0xde, 0x01, 0xdc, 0x00, 0x2a, 0, 0, 0]);
        bytes.extend_from_slice(&[0x01, 16, 0, 0, 2, 0, 0, 0, 2, 2, 0, 1, 0, 0, 0, 0]);
        let body = MethodBody::parse(&bytes).unwrap();
        assert_eq!(
            body.header,
            MethodHeader {
                format: HeaderFormat::Fat,
                max_stack: 2,
                init_locals: true,
                local_signature: Token(0x1100_0001),
            }
        );
        assert_eq!(body.clauses[0].kind, ClauseKind::Finally);
        assert_eq!(body.clauses[0].handler, CodeRange { start: 2, end: 3 });
        assert_eq!(body.instructions().count(), 4);
        assert_eq!(body.encode().unwrap(), bytes);
        let mut fat = bytes[..20].to_vec();
        fat.extend_from_slice(&[
            0x41, 28, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
        ]);
        assert_eq!(body.encode_fat_clauses().unwrap(), fat);
        assert_eq!(MethodBody::parse(&fat).unwrap(), body);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_body_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok((body, size)) = MethodBody::parse_sized(&bytes) {
                prop_assert!(size <= bytes.len());
                let encoded = body.encode().unwrap();
                prop_assert_eq!(MethodBody::parse_sized(&encoded).unwrap(), (body, encoded.len()));
            }
        }

        #[test]
        fn fat_bytes_are_a_body_or_an_error(
            code in prop::collection::vec(any::<u8>(), 0..40),
            sections in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut bytes = vec![0x1b, 0x30, 2, 0, code.len() as u8, 0, 0, 0, 0, 0, 0, 0];
            bytes.extend(code);
            bytes.extend(sections);
            if let Ok(body) = MethodBody::parse(&bytes) {
                let encoded = body.encode().unwrap();
                let again = MethodBody::parse(&encoded).unwrap();
                prop_assert_eq!((again.code, again.clauses), (body.code, body.clauses));
                let _ = decode_all(&bytes);
            }
        }
    }
}
