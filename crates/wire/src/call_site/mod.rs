//! What return addresses look like: a call stands in front of them. Both sides filter guesses by
//! that.

#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code, unreachable_pub))]
mod aarch64;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unreachable_pub))]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::{LONGEST_CALL, ends_in_call};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{LONGEST_CALL, ends_in_call};
