//! Where an exception keeps its message.

use crate::host::runtime::Runtime;
use corprof::ids::{ClassId, RawObjectId};

/// Offsets in bytes from an object's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExceptionLayout {
    /// Of the reference to the message in `System.Exception`.
    pub message: u32,
    /// Of the length of a string, a `u32` in UTF-16 units.
    pub string_length: u32,
    /// Of the text of a string.
    pub string_buffer: u32,
}

impl ExceptionLayout {
    /// Longest line of ancestors that is followed.
    const MOST_ANCESTORS: usize = 64;

    /// Finds it out from a live exception.
    pub fn find(runtime: &Runtime, exception: RawObjectId) -> Option<Self> {
        let info = runtime.info();
        let class = base_exception(runtime, runtime.class_of(exception)?)?;
        let about = info.class_info(class).ok()?;
        let metadata = info.module_metadata(about.module).ok()?;
        let layout = info.class_layout(class).ok()?;
        let message = layout
            .fields
            .iter()
            .find(|field| metadata.name_of(field.field).is_ok_and(|name| name == "_message"))
            .map(|field| field.offset)?;
        let string = info.string_layout().ok()?;
        Some(Self {
            message,
            string_length: string.length_offset,
            string_buffer: string.buffer_offset,
        })
    }
}

/// `System.Exception`, from a class that derives from it: the one below `System.Object`, which has
/// no parent.
fn base_exception(runtime: &Runtime, mut class: ClassId) -> Option<ClassId> {
    let parent_of = |class| runtime.info().class_info(class).ok().map(|about| about.parent);
    let mut parent = parent_of(class)??;
    for _ in 0..ExceptionLayout::MOST_ANCESTORS {
        match parent_of(parent)? {
            Some(further) => (class, parent) = (parent, further),
            None => return Some(class),
        }
    }
    None
}
