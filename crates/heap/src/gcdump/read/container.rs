//! Objects of the format: their types, where they begin and end, and references to later ones.

use std::collections::HashMap;
use std::rc::Rc;

use super::cursor::Cursor;
use crate::gcdump::{GcdumpError, tag};

/// Nesting of objects that anybody writes is three.
const MAX_DEPTH: usize = 16;

/// Type of an object of the container.
#[derive(Clone, Debug)]
pub(super) struct ObjectType {
    /// Shared: there may be many objects of a type with a long name.
    pub(super) name: Rc<str>,
    pub(super) version: i32,
    /// Version of readers that it needs.
    pub(super) needs: i32,
}

pub(super) struct Container<'a> {
    pub(super) cursor: Cursor<'a>,
    /// By where they are described.
    pub(super) types: HashMap<u32, ObjectType>,
    /// What forward references mean.
    pub(super) forward: Option<Vec<u32>>,
}

impl Container<'_> {
    /// The beginning of an object up to its own data; `None` where a null reference stands.
    pub(super) fn begin(&mut self) -> Result<Option<ObjectType>, GcdumpError> {
        match self.cursor.u8()? {
            tag::NULL => Ok(None),
            tag::BEGIN_OBJECT | tag::BEGIN_PRIVATE_OBJECT => self.type_of_object().map(Some),
            tag::FORWARD_DEFINITION => {
                self.cursor.i32()?;
                match self.cursor.u8()? {
                    tag::BEGIN_OBJECT => self.type_of_object().map(Some),
                    _ => Err(self.cursor.damaged("an object was to begin here")),
                }
            }
            _ => Err(self.cursor.damaged("an object was to begin here")),
        }
    }

    fn type_of_object(&mut self) -> Result<ObjectType, GcdumpError> {
        let at = self.cursor.at as u32;
        match self.cursor.u8()? {
            tag::OBJECT_REFERENCE => {
                let place = self.cursor.u32()?;
                self.types
                    .get(&place)
                    .cloned()
                    .ok_or_else(|| self.cursor.damaged("a type that is not described"))
            }
            tag::BEGIN_OBJECT => {
                // The type of types is null.
                if self.cursor.u8()? != tag::NULL {
                    return Err(self.cursor.damaged("a type was to be described here"));
                }
                let (version, needs) = (self.cursor.i32()?, self.cursor.i32()?);
                let name = self.cursor.text()?.unwrap_or_default().into();
                self.end()?;
                let described = ObjectType { name, version, needs };
                self.types.insert(at, described.clone());
                Ok(described)
            }
            _ => Err(self.cursor.damaged("a type was to stand here")),
        }
    }

    /// Skips what is not known at the end of an object.
    pub(super) fn end(&mut self) -> Result<(), GcdumpError> {
        let mut depth = 1;
        while depth > 0 {
            match self.cursor.u8()? {
                tag::END_OBJECT => depth -= 1,
                tag::BEGIN_OBJECT | tag::BEGIN_PRIVATE_OBJECT if depth < MAX_DEPTH => depth += 1,
                tag::NULL => {}
                tag::BYTE => _ = self.cursor.u8()?,
                tag::INT16 => _ = self.cursor.bytes(2)?,
                tag::INT32
                | tag::OBJECT_REFERENCE
                | tag::FORWARD_REFERENCE
                | tag::FORWARD_DEFINITION => {
                    self.cursor.i32()?;
                }
                tag::INT64 => _ = self.cursor.i64()?,
                tag::STRING => _ = self.cursor.text()?,
                tag::BLOB => {
                    let length = self.cursor.count(1)?;
                    self.cursor.bytes(length)?;
                }
                tag::SKIP_REGION => self.skip_region()?,
                _ => {
                    self.cursor.at -= 1;
                    return Err(self.cursor.damaged("the end of an object was to stand here"));
                }
            }
        }
        Ok(())
    }

    /// Goes to where a forward reference points: behind what may be skipped.
    pub(super) fn skip_region(&mut self) -> Result<(), GcdumpError> {
        let index = self.cursor.i32()?;
        let place = self.forward(index)?;
        // Only ahead: otherwise reading might never end.
        if place < self.cursor.at || place > self.cursor.bytes.len() {
            return Err(self.cursor.damaged("what is to be skipped ends before it begins"));
        }
        self.cursor.at = place;
        Ok(())
    }

    pub(super) fn forward(&mut self, index: i32) -> Result<usize, GcdumpError> {
        if self.forward.is_none() {
            let mut cursor = self.cursor;
            cursor.at = cursor.bytes.len().saturating_sub(4);
            // The end says where the trailer is, and that where the table is.
            cursor.at = cursor.u32()? as usize;
            cursor.at = cursor.u32()? as usize;
            let count = cursor.count(4)?;
            self.forward = Some((0..count).map(|_| cursor.u32()).collect::<Result<_, _>>()?);
        }
        let place = usize::try_from(index)
            .ok()
            .and_then(|index| self.forward.as_ref()?.get(index).copied());
        place
            .map(|place| place as usize)
            .ok_or_else(|| self.cursor.damaged("a forward reference leads nowhere"))
    }
}
