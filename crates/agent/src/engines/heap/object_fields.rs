//! Which fields of objects hold which references.
//!
//! The runtime reports the references of an object, and not where in the object they are. While a
//! heap snapshot is taken, the words of small objects are compared with them ([`find`]). What the
//! field at a word is called is asked when the runtime has resumed ([`names`]), and clrscope uses a
//! name only if the field there can hold a reference. So a number that looks like a reference is
//! not taken for one.

use crate::host::runtime::Runtime;
use cil::TypeSig;
use corprof::ObjectId;
use corprof::ids::{ClassId, RawObjectId};
use corprof::signature::decode_field;
use wire::heap::MOST_WORDS;
use wire::{ClassFields, Field, FieldKind};

/// Bytes before an object's address that belong to it.
const HEADER: usize = 8;

/// Where an object holds its references.
#[derive(Clone, Copy, Debug)]
pub struct Found<'o> {
    /// A bit for each word, the lowest for that of the class.
    pub words: u64,
    object: &'o [usize],
}

impl Found<'_> {
    /// The references, in the order of the words that hold them.
    pub fn references(&self) -> impl Iterator<Item = usize> + '_ {
        let holds = |word: usize| self.words & 1 << word != 0;
        self.object.iter().enumerate().filter(move |(word, _)| holds(*word)).map(|(_, to)| *to)
    }
}

/// Where an object of `size` bytes holds its references; `None` if it is too large, or holds one of
/// them nowhere.
///
/// # Safety
/// The object has `size` bytes with its header, and stays what and where it is for as long as the
/// result is used.
pub unsafe fn find<'o>(
    object: ObjectId<'o>,
    size: usize,
    references: &[RawObjectId],
) -> Option<Found<'o>> {
    let length = size.checked_sub(HEADER)? / size_of::<usize>();
    let start = object.address() as *const usize;
    if length > MOST_WORDS || references.is_empty() || !start.is_aligned() {
        return None;
    }
    // SAFETY: the words lie within the object, which stays what and where it is.
    let object: &'o [usize] = unsafe { std::slice::from_raw_parts(start, length) };
    let (mut words, mut next) = (0_u64, 1);
    for reference in references.iter().filter(|reference| !reference.is_null()) {
        let holds = |word: &usize| {
            words & 1 << word == 0 && object.get(*word).is_some_and(|to| *to == reference.0)
        };
        // Usually in the order of words; the fields of a structure may come before those behind it.
        let word = (next..length).find(holds).or_else(|| (1..next).find(holds))?;
        words |= 1 << word;
        next = word + 1;
    }
    Some(Found { words, object })
}

/// The fields that a class adds to those of the class that it is derived from; `None` for arrays
/// and strings. In a hold.
pub fn names(runtime: &Runtime, class: ClassId) -> Option<ClassFields> {
    let about = runtime.info().class_info(class).ok()?;
    let parent = about.parent.map_or(0, |parent| parent.0 as u64);
    let layout = runtime.info().class_layout(class).ok()?;
    // The objects of a value type are boxes, and its fields are given from the start of the value.
    let start = runtime.info().box_value_offset(class).unwrap_or(0);
    let metadata = runtime.names().metadata(about.module.non_null()?).ok()?;
    let mut fields: Vec<Field> = Vec::with_capacity(layout.fields.len());
    for at in layout.fields {
        let props = metadata.field_props(at.field).ok()?;
        let kind = decode_field(props.signature).map_or(FieldKind::Other, |sig| kind(&sig));
        // The end of a structure is where the next field begins, whose name is of no interest.
        let name = if kind == FieldKind::Other { String::new() } else { props.name };
        fields.push(Field { offset: at.offset.saturating_add(start), name, kind });
    }
    Some(ClassFields { class: class.0 as u64, parent, fields })
}

/// What a field of a type can hold.
pub fn kind(sig: &TypeSig) -> FieldKind {
    use cil::Primitive::{Object, String};
    match sig.unmodified() {
        TypeSig::Primitive(String | Object)
        | TypeSig::Class(_)
        | TypeSig::SzArray(_)
        | TypeSig::Array { .. }
        | TypeSig::GenericInst { value_type: false, .. } => FieldKind::Reference,
        TypeSig::ValueType(_)
        | TypeSig::GenericInst { value_type: true, .. }
        | TypeSig::TypeParam(_) => FieldKind::Value,
        _ => FieldKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(object: &[usize], size: usize, references: &[usize]) -> Option<(u64, Vec<usize>)> {
        // SAFETY: nobody changes the object.
        let id = unsafe { ObjectId::from_raw(RawObjectId(object.as_ptr().addr())) };
        let references: Vec<RawObjectId> = references.iter().copied().map(RawObjectId).collect();
        // SAFETY: no size that is tried is beyond the words, with a header before them.
        let found = unsafe { find(id, size, &references) }?;
        Some((found.words, found.references().collect()))
    }

    #[test]
    fn references_are_found_in_their_words() {
        let object = [0x7f00, 0x1000, 0, 7, 0x2000, 0x1000];
        assert_eq!(
            words(&object, 56, &[0x1000, 0x2000, 0x1000]),
            Some((0b11_0010, vec![0x1000, 0x2000, 0x1000]))
        );
        // In another order, and with null ones.
        assert_eq!(
            words(&object, 56, &[0x2000, 0, 0x1000, 0x1000]),
            Some((0b11_0010, vec![0x1000, 0x2000, 0x1000]))
        );
        // One that is nowhere, beyond the object, or where the class stands.
        assert_eq!(words(&object, 56, &[0x1000, 0x3000]), None);
        assert_eq!(words(&object, 40, &[0x2000]), None);
        assert_eq!(words(&object, 56, &[0x7f00]), None);
        assert_eq!(words(&object, 56, &[0x2000, 0x2000]), None);
        assert_eq!(words(&object, 56, &[]), None);
        assert_eq!(words(&object, 7, &[0x1000]), None);
        let large = [8; MOST_WORDS + 1];
        assert_eq!(words(&large, 8 * large.len() + 8, &[8]), None);
        let (found, _) = words(&large, 8 * large.len(), &[8; MOST_WORDS - 1]).unwrap();
        assert_eq!(found, (1 << MOST_WORDS) - 2);
    }
}
