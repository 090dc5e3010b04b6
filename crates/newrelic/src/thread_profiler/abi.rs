//! Structures that the managed agent reads and marshals field by field.
//!
//! Addresses are integers, so that their owners can be sent to other threads.

use std::sync::Arc;

/// Stack of one thread, as `RequestProfile` gives it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadProfile {
    /// The runtime's id of the thread.
    pub thread: usize,
    /// 0, or [`CUT`].
    pub hresult: i32,
    /// How many frames there are.
    pub frame_count: i32,
    /// Address of the ids of the functions, leaf first: 0 is a run of native frames. 0 where there
    /// is no frame.
    pub functions: usize,
}

/// `S_FALSE` (winerror.h): the stack has more than [`MAX_FRAMES`] frames, and those at the root
/// were kept.
pub const CUT: i32 = 1;

/// How many frames of a thread are kept at most. The agent's own profiler has the same limit.
pub const MAX_FRAMES: usize = 1337;

/// Names of one function, as `RequestFunctionNames` gives them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionName {
    /// The requested id.
    pub function: usize,
    /// Address of the type's name: UTF-16 with a zero at the end.
    pub type_name: usize,
    /// Address of the method's name, likewise.
    pub method_name: usize,
}

/// UTF-16 with a zero at the end.
pub type Wide = Arc<[u16]>;

/// How many UTF-16 units a name has at most, without the zero. The agent's own profiler has the
/// same limit.
const MAX_NAME: usize = 1022;

/// A name for the managed agent. A longer one is cut between characters. The first zero ends it.
pub fn wide(name: &str) -> Wide {
    let mut units = Vec::with_capacity(name.len().min(MAX_NAME) + 1);
    for character in name.chars().take_while(|character| *character != '\0') {
        if units.len() + character.len_utf16() > MAX_NAME {
            break;
        }
        units.extend_from_slice(character.encode_utf16(&mut [0; 2]));
    }
    units.push(0);
    units.into()
}

/// The address of the first item, for the managed agent to read; 0 if there is none.
pub fn address<T>(items: &[T]) -> usize {
    if items.is_empty() { 0 } else { items.as_ptr().expose_provenance() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{align_of, offset_of, size_of};

    #[test]
    fn layouts() {
        let word = size_of::<usize>();
        assert_eq!(size_of::<ThreadProfile>(), if word == 8 { 24 } else { 16 });
        assert_eq!(align_of::<ThreadProfile>(), word);
        assert_eq!(offset_of!(ThreadProfile, thread), 0);
        assert_eq!(offset_of!(ThreadProfile, hresult), word);
        assert_eq!(offset_of!(ThreadProfile, frame_count), word + 4);
        assert_eq!(offset_of!(ThreadProfile, functions), word + 8);
        assert_eq!((size_of::<FunctionName>(), align_of::<FunctionName>()), (3 * word, word));
        assert_eq!(offset_of!(FunctionName, function), 0);
        assert_eq!(offset_of!(FunctionName, type_name), word);
        assert_eq!(offset_of!(FunctionName, method_name), 2 * word);
    }

    #[test]
    fn names_end_with_a_zero() {
        assert_eq!(*wide("Aé"), [0x41, 0xe9, 0]);
        assert_eq!(*wide(""), [0]);
        assert_eq!(*wide("a\0b"), [0x61, 0]);
        assert_eq!(wide(&"x".repeat(2000)).len(), MAX_NAME + 1);
        // A pair of surrogates that does not fit is left out whole.
        let name = format!("{}\u{1f600}", "x".repeat(MAX_NAME - 1));
        assert_eq!(wide(&name).len(), MAX_NAME);
    }

    #[test]
    fn nothing_has_no_address() {
        assert_eq!(address::<u8>(&[]), 0);
        let items = [1_u16, 2];
        assert_eq!(address(&items), (&raw const items).addr());
    }
}
